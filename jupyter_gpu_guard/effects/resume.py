"""Resume a parked kernel, as soon as there is room on its device."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from jupyter_gpu_guard.core.model import is_known
from jupyter_gpu_guard.core.verdict import Outcome, Result, Verdict
from jupyter_gpu_guard.effects.held import labels_of, say_devices, what_is_held
from jupyter_gpu_guard.effects.outcomes import outcome_of, say_bytes
from jupyter_gpu_guard.parking.answer import Answer, State
from jupyter_gpu_guard.parking.registry import Phase
from jupyter_gpu_guard.parking.room import Lack, lack
from jupyter_gpu_guard.protocols import DevicesSeen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jupyter_gpu_guard.core.model import GpuClient, Holder
    from jupyter_gpu_guard.effects.park import Means
    from jupyter_gpu_guard.parking.registry import Entry
    from jupyter_gpu_guard.parking.waiting_line import WaitingLine

MAY_SAVE = "it is parked and may have something to save"


class Resume:
    """`Remedy` that undoes parking. Without room it is put in the `line`, and comes back by itself later.

    `who_holds` says in words who of the processes seen is on a device.
    """

    def __init__(self, means: Means, line: WaitingLine, who_holds: Callable[[str, Iterable[GpuClient]], str]) -> None:
        self._means = means
        self._line = line
        self._who_holds = who_holds

    def suits(self, holder: Holder) -> bool:
        """Whether it is parked."""
        return holder.owner.parked is not None

    async def carry_out(self, verdict: Verdict, holder: Holder, spared: Callable[[], bool]) -> Outcome:
        """Bring it back, or say what it waits for. Nothing is lost by it, so `spared` is not asked."""
        del spared
        since = self._means.clock.now().wall
        came = await self._bring_back(verdict, holder)
        if isinstance(came, Outcome):
            return came
        missing, clients = came
        holders = self._who_holds(missing.device, clients)
        self._line.want(verdict.owner, since)
        self._line.lacks(verdict.owner, missing, holders)
        return outcome_of(verdict, holder, self._means.clock, Result.UNSUITED, _waits(missing, holders))

    async def why_not_back(self, verdict: Verdict, holder: Holder) -> str | None:
        """Bring back who may have something to save before its end. None: it is back, or gone; otherwise why it is not.

        Without room it is not put in the line: it is to end, and not to come back at some later time.
        """
        came = await self._bring_back(verdict, holder)
        if not isinstance(came, Outcome):
            missing, _ = came
            return say_no_room(missing)
        return f"{MAY_SAVE}; {came.detail}" if came.result is Result.FAILED else None

    async def _bring_back(self, verdict: Verdict, holder: Holder) -> Outcome | tuple[Lack, tuple[GpuClient, ...]]:
        """What came of it, or what is missing where, and who is on the devices."""
        means, key = self._means, verdict.owner
        began = means.clock.now()
        say = partial(outcome_of, verdict, holder, means.clock)
        entry = means.registry.of(key, verdict.root)
        if entry is None:
            self._line.leave(key)
            return say(Result.UNSUITED, "it is not parked")
        now = means.owners.look_again(key)
        if now is None or now.root != entry.root:
            self._line.leave(key)
            return say(Result.ALREADY_GONE, "it had ended or was restarted meanwhile")
        seen = await means.look() or DevicesSeen()
        missing = self._lack(entry, seen)
        if missing is not None:
            return missing, tuple(seen.clients)
        answer = await means.ask("resume", entry.process)
        if answer.state is State.UNKNOWN:
            answer = replace(await means.ask("free", entry.process), fault=answer.fault, step=answer.step)
        took = means.clock.now().monotonic - began.monotonic
        if answer.state is State.RUNNING:
            await means.note(entry, keep=False)
            self._line.resumed(key, means.clock.now().monotonic)
            where = say_devices(entry.memory, labels_of(seen.devices)) or "the GPU"
            detail = f"{say_bytes(entry.bytes)} are back on {where} after {took:.1f} s"
            return say(Result.DONE, detail, took_seconds=took)
        if not means.lives(entry.process):
            self._line.leave(key)
            await means.note(entry, keep=False)
            return say(Result.ALREADY_GONE, "it ended meanwhile", took_seconds=took)
        self._line.failed(key, means.clock.now().monotonic)
        if answer.state is not State.CHECKPOINTED:
            await means.note(replace(entry, phase=Phase.UNCLEAR), keep=True)
        return say(Result.FAILED, _say_failed(answer), took_seconds=took)

    def _lack(self, entry: Entry, seen: DevicesSeen) -> Lack | None:
        """What is missing on its devices, less what it holds there although it is locked."""
        there = what_is_held((entry.process,), seen, self._means.identify).devices
        needs = {device: amount for device, amount in entry.memory.items() if device not in there}
        return lack(needs, seen.devices)


def say_no_room(missing: Lack) -> str:
    """Why a parked kernel is not ended, and what can be done. Pure."""
    helps = "resume it first, or end it by Jupyter's own shutdown, which saves nothing"
    return f"{MAY_SAVE}, and {missing.name} has no room for it; {helps}"


def _waits(missing: Lack, holders: str) -> str:
    free = say_bytes(missing.free) if is_known(missing.free) else "it is not known how much"
    who = f" ({holders})" if holders else ""
    needs = say_bytes(missing.needed)
    return f"it waits for room: it needs {needs} on {missing.name}, free there: {free}{who}"


def _say_failed(answer: Answer) -> str:
    why = answer.fault or "the driver gave no reason"
    if answer.state is State.CHECKPOINTED:
        return (
            f"{why}; it stays parked, and nothing is lost. It is tried again; more free GPU memory may help, "
            "otherwise restart the kernel"
        )
    if answer.state is State.FAILED:
        return f"{why}; the driver has given its process up: only a restart of the kernel helps"
    return f"{why}; its GPU calls still wait: resume it again, or restart the kernel"
