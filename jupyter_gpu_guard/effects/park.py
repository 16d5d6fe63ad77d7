"""Park an idle kernel: what it has on a device goes to the host's memory, and the kernel lives on. Experimental."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from jupyter_gpu_guard.core.model import OwnerState, is_known
from jupyter_gpu_guard.core.verdict import Outcome, Result, Verdict
from jupyter_gpu_guard.effects.held import Held, freed, say_devices, what_is_held, with_descendants
from jupyter_gpu_guard.effects.last_word import why_not_by_devices
from jupyter_gpu_guard.effects.outcomes import asked_by, outcome_of, say_bytes
from jupyter_gpu_guard.parking.answer import Answer, State
from jupyter_gpu_guard.parking.asking import ask_helper
from jupyter_gpu_guard.parking.conditions import Load, load_of, why_not_it
from jupyter_gpu_guard.parking.host_memory import free_host_memory
from jupyter_gpu_guard.parking.registry import Entry, Phase, Registry

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from jupyter_gpu_guard.core.model import Holder, Owner, Process, ProcessKey, Reading
    from jupyter_gpu_guard.parking.asking import Do
    from jupyter_gpu_guard.protocols import Clock, DevicesSeen, Owners

VERIFIED_WITHIN = 10.0  # seconds in which the driver takes what was parked off its lists
PAUSE = 0.5  # seconds between two looks


@dataclass(frozen=True)
class Means:
    """What parking and resuming rest on. `look` reads the devices (None: no answer), `ask` has the helper act."""

    registry: Registry
    owners: Owners
    look: Callable[[], Awaitable[DevicesSeen | None]]
    processes: Callable[[], Awaitable[Mapping[int, Process]]]
    identify: Callable[[int], Process | None]
    clock: Clock
    log: logging.Logger | logging.LoggerAdapter[logging.Logger]
    roots: Callable[[], Collection[ProcessKey]] = frozenset
    ask: Callable[[Do, ProcessKey], Awaitable[Answer]] = ask_helper
    free_host_memory: Callable[[int], Reading] = free_host_memory
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def held(self, load: Load) -> Held | None:
        """What the process holds now; None: the devices do not answer."""
        seen = await self.look()
        if seen is None:
            return None
        return what_is_held((load.process,), seen, self.identify, frozenset(load.memory))

    def lives(self, key: ProcessKey) -> bool:
        """Whether this very process does."""
        process = self.identify(key.pid)
        return process is not None and process.key == key and not process.is_over

    async def note(self, entry: Entry, *, keep: bool) -> None:
        """Enter or drop it in the registry. That it cannot be written is logged: the act was done."""
        try:
            if keep:
                await asyncio.to_thread(self.registry.put, entry)
            else:
                await asyncio.to_thread(self.registry.remove, entry.process)
        except OSError as fault:
            self.log.warning("GPU guard: %s cannot be written (%s)", self.registry.path, fault)


class Park:
    """`Remedy` that parks, one after the other. `refusal` says why it is not offered here at all (None: it is)."""

    def __init__(self, means: Means, refusal: str | None = None) -> None:
        self._means = means
        self._refusal = refusal
        self._turn = asyncio.Lock()

    def suits(self, holder: Holder) -> bool:
        """Whether one process of an idle kernel is on a device, and nothing known speaks against it."""
        on_devices = {row.key for holding in holder.holdings for row in holding.processes}
        return self._refusal is None and why_not_it(holder) is None and len(on_devices) == 1

    async def carry_out(self, verdict: Verdict, holder: Holder, spared: Callable[[], bool]) -> Outcome:
        """Park it, unless something speaks against it. Whatever fails, it is tried to let it go on as before."""
        if self._refusal is not None:
            return outcome_of(verdict, holder, self._means.clock, Result.UNSUITED, self._refusal)
        async with self._turn:  # two at once would both count on the same free memory of the host
            return await self._carry_out(verdict, holder, spared)

    async def _carry_out(self, verdict: Verdict, holder: Holder, spared: Callable[[], bool]) -> Outcome:
        means = self._means
        began = means.clock.now().monotonic
        say = partial(outcome_of, verdict, holder, means.clock)
        seen = await means.look()
        load = "the devices could not be read" if seen is None else await self._load(holder, seen)
        if isinstance(load, str):
            return say(Result.UNSUITED, load)
        if (refusal := await self._why_not(load)) is not None:
            return say(Result.UNSUITED, refusal)
        entry = Entry(
            owner=verdict.owner,
            name=holder.owner.name,
            root=verdict.root or load.process,
            process=load.process,
            since=means.clock.now().wall,
            memory=load.memory,
            phase=Phase.BEGUN,
        )
        try:  # first, so that it can be found whatever happens
            await asyncio.to_thread(means.registry.put, entry)
        except OSError as fault:
            why = f"it could not be written down that it is parked ({fault.strerror or fault}); nothing was done"
            return say(Result.FAILED, why)
        before = await means.held(load)
        withdrawn = self._last_look(verdict, holder, before, spared)
        if withdrawn is not None:
            await means.note(entry, keep=False)
            return say(*withdrawn)
        answer = await means.ask("park", load.process)
        if answer.state is State.UNKNOWN:  # the helper has crashed or was late: what has become of it?
            answer = replace(await means.ask("free", load.process), fault=answer.fault, step=answer.step)
        return await self._settled(say, entry, load, before, answer, began)

    async def _load(self, holder: Holder, seen: DevicesSeen) -> Load | str:
        root = holder.owner.root
        tree = frozenset(holder.tree if root is None else (*holder.tree, root))
        try:
            tree = with_descendants(tree, await self._means.processes(), self._means.roots())
        except Exception:  # noqa: BLE001  the source may be anyone's
            return "the process table could not be read"
        return load_of(holder, tree, seen)

    async def _why_not(self, load: Load) -> str | None:
        """What the driver and the host have against it."""
        looked = await self._means.ask("look", load.process)
        if looked.fault is not None:
            return looked.fault
        if looked.state is not State.RUNNING:
            return f"the driver says that its process is {looked.state.value}"
        free = await asyncio.to_thread(self._means.free_host_memory, load.process.pid)
        if not is_known(free):
            return "it cannot be told how much memory of the host is free"
        if free < load.needed_on_host:
            needs, has = say_bytes(load.needed_on_host), say_bytes(free)
            return f"it needs {needs} of the host's memory, with what is to stay free, and there are {has}"
        return None

    def _last_look(
        self, verdict: Verdict, holder: Holder, before: Held | None, spared: Callable[[], bool]
    ) -> tuple[Result, str] | None:
        """Why the act is withdrawn at this moment, or None. Nothing is awaited between this and the act."""
        now = self._means.owners.look_again(verdict.owner)
        if now is None:
            return Result.ALREADY_GONE, "it had ended by itself"
        why = _why_not_now(verdict, holder, now) or why_not_by_devices(verdict, before)
        if why is not None:
            return Result.WITHDRAWN, why
        return (Result.WITHDRAWN, "it was kept at the last moment") if spared() else None

    async def _settled(
        self,
        say: Callable[..., Outcome],
        entry: Entry,
        load: Load,
        before: Held | None,
        answer: Answer,
        began: float,
    ) -> Outcome:
        means = self._means
        took = means.clock.now().monotonic - began
        if answer.state is State.CHECKPOINTED:
            await means.note(replace(entry, phase=Phase.PARKED, since=means.clock.now().wall), keep=True)
            after = await self._after(load)
            gave = freed(before, after)
            where = say_devices(load.memory, before.labels) if before is not None else None
            of = f" from {where}" if where else ""
            detail = f"{say_bytes(load.bytes)} were moved{of} to the host's memory in {took:.1f} s; the kernel lives on"
            if gave is None:
                detail += "; what that freed could not be seen"
            elif after is not None and after.grips:
                detail += f"; the driver still lists {say_bytes(load.bytes - gave)}"
            return say(Result.DONE, detail, freed_bytes=gave, took_seconds=took)
        why = answer.fault or "the driver gave no reason"
        if not means.lives(entry.process):
            await means.note(entry, keep=False)
            return say(Result.ALREADY_GONE, "it ended meanwhile", took_seconds=took)
        if answer.state is State.RUNNING:
            await means.note(entry, keep=False)
            return say(Result.FAILED, f"{why}; it goes on as before", took_seconds=took)
        await means.note(replace(entry, phase=Phase.UNCLEAR), keep=True)
        if answer.state is State.FAILED:
            detail = f"{why}; the driver has given its process up: only a restart of the kernel helps"
        else:
            detail = f"{why}; its GPU calls may have to wait now: resume it, or restart the kernel"
        return say(Result.FAILED, detail, took_seconds=took)

    async def _after(self, load: Load) -> Held | None:
        """What it holds once the driver has taken it off its lists; at last, what is known then."""
        end = self._means.clock.now().monotonic + VERIFIED_WITHIN
        while True:
            after = await self._means.held(load)
            if (after is not None and not after.grips) or self._means.clock.now().monotonic >= end:
                return after
            await self._means.sleep(PAUSE)


def _why_not_now(verdict: Verdict, holder: Holder, now: Owner) -> str | None:
    if now.root is None or now.root != verdict.root or now.root.pid == os.getpid():
        return "it has been restarted since, or its process is not known any more"
    if now.state is not OwnerState.IDLE:
        return "it is not idle any more"
    if asked_by(verdict) is not None:
        return None
    if now.used_at is not None and (holder.owner.used_at is None or now.used_at > holder.owner.used_at):
        return "it has been used since"
    return None
