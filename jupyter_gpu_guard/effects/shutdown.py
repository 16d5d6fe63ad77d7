"""Shut one kernel down by Jupyter's own door, end what is left of it on the devices, and verify the release."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from signal import SIGKILL, SIGTERM, Signals
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from jupyter_gpu_guard.core.model import OwnerState, is_known
from jupyter_gpu_guard.core.verdict import Outcome, Result, Survivor, Verdict
from jupyter_gpu_guard.effects.held import Held, freed, what_is_held, with_descendants
from jupyter_gpu_guard.effects.outcomes import asked_by, outcome_of, say_bytes
from jupyter_gpu_guard.effects.signals import Sent, send
from jupyter_gpu_guard.protocols import nobody_is_spared

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from jupyter_gpu_guard.core.model import Holder, Owner, OwnerKey, Process, ProcessKey
    from jupyter_gpu_guard.protocols import Clock, DevicesSeen, Owners

KILLED_WITHIN = 10.0  # seconds after SIGKILL; a process that waits in the driver may need them
FREED_WITHIN = 10.0  # seconds in which the driver lets go of what an ended process held
PAUSE = 1.0  # seconds between two checks, at most


class _RefusedError(Exception):
    """Jupyter did not shut the kernel down. The text is for people."""


class KernelShutdown:
    """Shuts down one kernel after another, or several at once. Lives on the event loop, blocks nowhere.

    `look` reads the devices and `processes` the process table, both in the guard's thread; `look` gives None if the
    devices did not answer. `grace` and `deadline` are in seconds.
    """

    def __init__(
        self,
        *,
        kernel_manager: Any,
        owners: Owners,
        look: Callable[[], Awaitable[DevicesSeen | None]],
        processes: Callable[[], Awaitable[Mapping[int, Process]]],
        identify: Callable[[int], Process | None],
        clock: Clock,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger],
        grace: float = 60.0,
        deadline: float = 30.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._kernels = kernel_manager
        self._owners = owners
        self._look = look
        self._processes = processes
        self._identify = identify
        self._clock = clock
        self._log = log
        self._grace = grace
        self._deadline = deadline
        self._sleep = sleep
        self._doors: dict[str, asyncio.Task[None]] = {}
        self._hurried = False
        self._turns: WeakValueDictionary[OwnerKey, asyncio.Lock] = WeakValueDictionary()

    def hurry(self) -> None:
        """Give no more grace: whoever was told to end and has not is killed, since soon nobody is left to do it."""
        self._hurried = True

    async def shut_down(
        self, verdict: Verdict, holder: Holder, spared: Callable[[], bool] = nobody_is_spared
    ) -> Outcome:
        """Carry out `verdict`, unless the last look says otherwise, and say what really happened.

        A kernel is shut down by one at a time; whoever comes second finds it gone. `spared` is asked last.
        """
        turn = self._turns.get(verdict.owner)
        if turn is None:
            turn = self._turns[verdict.owner] = asyncio.Lock()
        async with turn:
            return await self._shut_down(verdict, holder, spared)

    async def _shut_down(self, verdict: Verdict, holder: Holder, spared: Callable[[], bool]) -> Outcome:
        began = self._clock.now().monotonic
        seen = await self._look()
        tree = await self._grown(holder.tree if verdict.root is None else (*holder.tree, verdict.root))
        devices = frozenset(holding.device for holding in holder.holdings)
        before = None if seen is None else what_is_held(tree, seen, self._identify, devices)

        # Nothing is awaited between this look and the act.
        now = self._owners.look_again(verdict.owner)
        if now is None:
            return outcome_of(verdict, holder, self._clock, Result.ALREADY_GONE, "it had ended by itself")
        why = _why_not(verdict, holder, now) or _why_not_by_devices(verdict, before)
        if why is not None:
            return outcome_of(verdict, holder, self._clock, Result.WITHDRAWN, why)
        if spared():
            return outcome_of(verdict, holder, self._clock, Result.WITHDRAWN, "it was kept at the last moment")
        try:
            shut = await self._through_the_door(verdict.owner.id)
        except _RefusedError as refusal:
            took = self._clock.now().monotonic - began
            return outcome_of(verdict, holder, self._clock, Result.FAILED, str(refusal), took_seconds=took)

        tree, after = await self._end_survivors(tree, before, verdict.root if shut else None)
        took = self._clock.now().monotonic - began
        living = [key for key in tree if self._lives(key)]
        result = Result.DONE if shut else Result.ALREADY_GONE
        known = verdict.root is not None  # of a kernel that runs elsewhere, nothing was seen here before or after
        return outcome_of(
            verdict,
            holder,
            self._clock,
            result,
            _say(result, before, after, living, took) if known else _say_elsewhere(result, took),
            freed_bytes=freed(before, after) if known else None,
            took_seconds=took,
            survivors=_survivors(after),
        )

    async def _through_the_door(self, kernel_id: str) -> bool:
        """Have Jupyter shut the kernel down. False: it was gone. Raises _RefusedError if it fails or takes too long."""
        end = self._clock.now().monotonic + self._deadline
        late = f"Jupyter has not shut it down within {self._deadline:g} s; nothing else was done to it"
        # A shutdown that was too slow last time may still be under way. Half a shutdown is worse than a slow one: it
        # is never cancelled and never begun twice.
        door = self._doors.get(kernel_id)
        if door is None:
            door = self._doors[kernel_id] = asyncio.ensure_future(self._knock(kernel_id))
            door.add_done_callback(lambda _: self._doors.pop(kernel_id, None))
        await asyncio.wait({door}, timeout=self._deadline)
        if not door.done():
            raise _RefusedError(late)
        fault = asyncio.CancelledError() if door.cancelled() else door.exception()
        if fault is not None:
            if _says_gone(fault) and kernel_id not in self._kernels:
                return False
            self._log.warning("GPU guard: kernel %s could not be shut down", kernel_id, exc_info=fault)
            kind = type(fault).__name__
            raise _RefusedError(
                f"Jupyter could not shut it down ({kind}; the server's log says more); nothing else was done to it"
            )
        # A manager with pending kernels answers before it has done it.
        await self._until(lambda: kernel_id not in self._kernels, end)
        if kernel_id in self._kernels:
            raise _RefusedError(late)
        return True

    async def _knock(self, kernel_id: str) -> None:
        await ensure_async(self._kernels.shutdown_kernel(kernel_id, now=False))

    async def _end_survivors(
        self, tree: frozenset[ProcessKey], before: Held | None, root: ProcessKey | None
    ) -> tuple[frozenset[ProcessKey], Held | None]:
        """End what is left of `tree` and still holds a device, and `root` in any case. Gives what is held at last."""
        devices = before.devices if before is not None else frozenset()
        after = await self._held_at_last(tree, devices)
        for signum, within in ((SIGTERM, self._grace), (SIGKILL, KILLED_WITHIN)):
            targets = {grip.key for grip in after.grips if grip.can_be_ended} if after is not None else set()
            if root is not None and self._lives(root):
                targets.add(root)  # Jupyter has let go of it, so nobody else will end it
            if not targets:
                break
            await self._signal(targets, signum, within)
            tree = await self._grown(tree)  # it may have started others meanwhile
            after = await self._held_at_last(tree, devices)
        return tree, after

    async def _signal(self, targets: Iterable[ProcessKey], signum: Signals, within: float) -> None:
        reached = []
        for key in sorted(targets):
            sent = send(key, signum, self._identify)
            self._log.info("GPU guard: %s to pid %d: %s", signum.name, key.pid, sent.value)
            if sent is Sent.SENT:
                reached.append(key)
        end = self._clock.now().monotonic + within
        forced = signum is SIGKILL
        await self._until(lambda: (self._hurried and not forced) or not any(self._lives(key) for key in reached), end)

    async def _until(self, condition: Callable[[], bool], end: float) -> None:
        """Wait until `condition` holds, at first often, and no longer than to `end` on the monotonic clock."""
        pause = PAUSE / 16
        while not condition():
            left = end - self._clock.now().monotonic
            if left <= 0:
                return
            await self._sleep(min(pause, left))
            pause = min(PAUSE, 2 * pause)

    async def _held_at_last(self, tree: frozenset[ProcessKey], devices: frozenset[str]) -> Held | None:
        """What is held once the devices answer and have let go of what has ended; in the end, what is known then."""
        end, pause = self._clock.now().monotonic + FREED_WITHIN, PAUSE / 4
        while True:
            seen = await self._look()
            held = None if seen is None else what_is_held(tree, seen, self._identify, devices)
            settled = held is not None and all(grip.can_be_ended for grip in held.grips)
            if settled or self._clock.now().monotonic >= end:
                return held
            await self._sleep(pause)
            pause = min(PAUSE, 2 * pause)

    async def _grown(self, tree: Iterable[ProcessKey]) -> frozenset[ProcessKey]:
        """`tree` with its descendants; as it was, if the process table cannot be read."""
        with suppress(Exception):
            return with_descendants(tree, await self._processes())
        return frozenset(tree)

    def _lives(self, key: ProcessKey) -> bool:
        process = self._identify(key.pid)
        return process is not None and process.key == key and not process.is_over


def _why_not(verdict: Verdict, holder: Holder, now: Owner) -> str | None:
    """Why the act is withdrawn at the last look, or None. A person's wish is only refused for another process."""
    if now.root != verdict.root:
        return "it has been restarted since, or its process is not known any more"
    if asked_by(verdict) is not None:
        return None
    if verdict.root is None:
        return "its process is not known"
    if now.state is OwnerState.EXECUTING and holder.owner.state is not OwnerState.EXECUTING:
        return "it is executing again"
    if now.state is OwnerState.UNKNOWN and holder.owner.state is not OwnerState.UNKNOWN:
        return "what it does is not known any more"
    if now.used_at is not None and (holder.owner.used_at is None or now.used_at > holder.owner.used_at):
        return "it has been used since"
    return None


def _why_not_by_devices(verdict: Verdict, before: Held | None) -> str | None:
    """Why an automatic act is withdrawn for what the devices show at the last look, or None."""
    if asked_by(verdict) is not None or verdict.compute_below is None:
        return None
    if before is None or not is_known(before.compute):
        return "the devices could not be read just before"
    return "it computes again" if before.compute >= verdict.compute_below else None


def _says_gone(fault: BaseException) -> bool:
    return isinstance(fault, KeyError) or (isinstance(fault, HTTPError) and fault.status_code == 404)  # noqa: PLR2004


def _survivors(after: Held | None) -> tuple[Survivor, ...]:
    if after is None:
        return ()
    return tuple(
        Survivor(grip.key, grip.device, grip.process.state if grip.process is not None else "X") for grip in after.grips
    )


def _say(result: Result, before: Held | None, after: Held | None, living: list[ProcessKey], took: float) -> str:
    """What was seen in the driver, in a sentence."""
    by_itself = "it had ended by itself"
    ended = f"ended in {took:.1f} s" if result is Result.DONE else by_itself
    gone = freed(before, after)
    if gone and result is Result.DONE:
        ended = f"freed {say_bytes(gone)} in {took:.1f} s"
    elif gone:
        ended = f"{by_itself}; {say_bytes(gone)} are free again"
    if after is None:
        return f"{ended}; could not verify that its GPU memory is free: the devices did not answer"
    if after.grips:
        amount = say_bytes(after.memory) if is_known(after.memory) else "GPU memory"
        who = {f"pid {survivor.key.pid} (state {survivor.state})" for survivor in _survivors(after)}
        return f"{ended if gone else ended.partition(' in ')[0]}, but {amount} still held by {', '.join(sorted(who))}"
    if not after.whole:
        return f"{ended}; could not verify that its GPU memory is free: not every device answered"
    if not gone:
        had = before is None or before.grips
        ended += "; the driver lists none of its processes any more" if had else "; it held no GPU memory"
    if living:
        count = f"{len(living)} processes" if len(living) > 1 else "1 process"
        ended += f"; {count} that it had started, without GPU memory, left alone"
    return ended


def _say_elsewhere(result: Result, took: float) -> str:
    """The same for a kernel whose processes are not known here."""
    ended = f"ended in {took:.1f} s" if result is Result.DONE else "it had ended by itself"
    return f"{ended}; it did not run here, so nothing could be verified"
