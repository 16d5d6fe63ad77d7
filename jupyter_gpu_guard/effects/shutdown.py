"""Shut one owner down by its door, end what is left of it, and verify that the devices are free."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace
from signal import SIGKILL, SIGTERM, Signals
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

from tornado.web import HTTPError

from jupyter_gpu_guard.core.model import OwnerKey, OwnerKind, OwnerState
from jupyter_gpu_guard.core.verdict import Outcome, Result, Verdict
from jupyter_gpu_guard.effects.aftermath import say, say_elsewhere, say_it_lives, survivors_of
from jupyter_gpu_guard.effects.doors import Door, GoneError, RefusedError
from jupyter_gpu_guard.effects.held import Held, freed, what_is_held, with_descendants
from jupyter_gpu_guard.effects.last_word import Knock, SparedError, why_not, why_not_by_devices
from jupyter_gpu_guard.effects.outcomes import asked_by, outcome_of
from jupyter_gpu_guard.effects.signals import Sent, send
from jupyter_gpu_guard.protocols import nobody_is_spared

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

    from jupyter_gpu_guard.core.model import Holder, Owner, Process, ProcessKey
    from jupyter_gpu_guard.protocols import Clock, DevicesSeen, Owners

KILLED_WITHIN = 10.0  # seconds after SIGKILL; a process that waits in the driver may need them
FREED_WITHIN = 10.0  # seconds in which the driver lets go of what an ended process held
SAVED_WITHIN = 3.0  # seconds after a farewell in which devices forget what was computed for it
PAUSE = 1.0  # seconds between two checks, at most


async def may_end(verdict: Verdict, holder: Holder) -> str | None:
    """The answer where nothing has to be done before anybody may end."""
    del verdict, holder
    return None


async def no_farewell(verdict: Verdict, holder: Holder) -> str | None:
    """The answer where nobody asks a kernel whether it has something to do before its end."""
    del verdict, holder
    return None


class Shutdown:
    """Shuts down one owner after another, or several at once. Lives on the event loop, blocks nowhere.

    `doors` are the kinds that can be shut down. `look` reads the devices and `processes` the process table, both in the
    guard's thread; `look` gives None if the devices did not answer. `roots` names the first process of every owner: in
    nobody's tree but its own. `farewell` has an owner do what it wants to do before its end, and says what came of it;
    `why_not_yet` makes that possible first, or says why it is not. Then nothing is done. `why_not_after` says after it
    what has come up meanwhile against a rule's act.
    `grace` and `deadline` are in seconds.
    """

    def __init__(
        self,
        *,
        doors: Mapping[OwnerKind, Door],
        owners: Owners,
        look: Callable[[], Awaitable[DevicesSeen | None]],
        processes: Callable[[], Awaitable[Mapping[int, Process]]],
        identify: Callable[[int], Process | None],
        clock: Clock,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger],
        roots: Callable[[], Collection[ProcessKey]] = frozenset,
        farewell: Callable[[Verdict, Holder], Awaitable[str | None]] = no_farewell,
        why_not_yet: Callable[[Verdict, Holder], Awaitable[str | None]] = may_end,
        why_not_after: Callable[[Verdict, Holder], Awaitable[str | None]] = may_end,
        grace: float = 60.0,
        deadline: float = 30.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._doors = doors
        self._owners = owners
        self._look = look
        self._processes = processes
        self._identify = identify
        self._clock = clock
        self._log = log
        self._roots = roots
        self._farewell = farewell
        self._why_not_yet = why_not_yet
        self._why_not_after = why_not_after
        self._grace = grace
        self._deadline = deadline
        self._sleep = sleep
        self._knocks: dict[OwnerKey, asyncio.Task[Iterable[ProcessKey]]] = {}
        self._hurried = False
        self._turns: WeakValueDictionary[OwnerKey, asyncio.Lock] = WeakValueDictionary()

    def hurry(self) -> None:
        """Give no more grace: whoever was told to end and has not is killed, since soon nobody is left to do it."""
        self._hurried = True

    async def shut_down(
        self, verdict: Verdict, holder: Holder, spared: Callable[[], bool] = nobody_is_spared
    ) -> Outcome:
        """Carry out `verdict`, unless the last look says otherwise, and say what really happened.

        An owner is shut down by one at a time; whoever comes second finds it gone. `spared` is asked last.
        """
        turn = self._turns.get(verdict.owner)
        if turn is None:
            turn = self._turns[verdict.owner] = asyncio.Lock()
        async with turn:
            if (refusal := await self._why_not_yet(verdict, holder)) is not None:
                result = Result.WITHDRAWN if asked_by(verdict) is None else Result.FAILED
                return outcome_of(verdict, holder, self._clock, result, refusal)
            return await self._shut_down(verdict, holder, spared)

    async def _shut_down(self, verdict: Verdict, holder: Holder, spared: Callable[[], bool]) -> Outcome:
        door = self._doors[verdict.owner.kind]
        began = self._clock.now().monotonic
        devices = frozenset(holding.device for holding in holder.holdings)
        tree, grown, before, against, parting = await self._part(verdict, holder, devices)

        def last_word() -> Owner:
            """The owner at this very moment, if it may go. Nothing is awaited between this look and the act."""
            now = self._look_again(holder, tree)
            if now is None:
                raise SparedError(Result.ALREADY_GONE, "it had ended by itself")
            why = why_not(verdict, holder, now, lambda: door.why_not(holder, now, grown)) or against
            if why is None and spared():
                why = "it was kept at the last moment"
            if why is not None:
                raise SparedError(Result.WITHDRAWN, why)
            return now

        result = Result.DONE
        told: Iterable[ProcessKey] = ()
        knock = Knock(door, last_word)
        try:
            told = await self._through(knock, verdict.owner)
        except SparedError as spare:
            return outcome_of(verdict, holder, self._clock, spare.result, str(spare))
        except GoneError:
            result = Result.ALREADY_GONE
        except RefusedError as refusal:
            took = self._clock.now().monotonic - began
            detail = _and(str(refusal), parting)
            return outcome_of(verdict, holder, self._clock, Result.FAILED, detail, took_seconds=took)

        left = _Left(tree, devices, root=verdict.root if result is Result.DONE else None, takes_all=door.takes_all)
        tree, after = await self._end_survivors(left, frozenset(told))
        now = knock.owner or holder.owner
        parting = _with_the_cell(parting, holder, now)
        not_tidy = door.tidy(now)
        took = self._clock.now().monotonic - began
        living = [key for key in tree if self._lives(key)]
        known = verdict.root is not None  # of what runs elsewhere, nothing was seen here before or after
        detail = say(result, before, after, living, took, left.sent) if known else say_elsewhere(result, now, took)
        if result is Result.DONE and verdict.root is not None and verdict.root in living:
            root = verdict.root
            result, detail = Result.FAILED, say_it_lives(root.pid, self._identify(root.pid), left.sent.get(root))
        return outcome_of(
            verdict,
            holder,
            self._clock,
            result,
            _and(_and(detail, not_tidy), parting),
            freed_bytes=freed(before, after) if known else None,
            took_seconds=took,
            survivors=survivors_of(after),
        )

    def _look_again(self, holder: Holder, tree: Collection[ProcessKey]) -> Owner | None:
        """The owner at this very moment. None: it is gone.

        Nobody lists what was left behind: it is there while one of its processes is, and none of them is the first
        process of somebody who is listed.
        """
        if holder.owner.key.kind is not OwnerKind.LEFTOVERS:
            return self._owners.look_again(holder.owner.key)
        if not any(map(self._lives, tree)):
            return None
        kernel = self._owners.look_again(OwnerKey(OwnerKind.KERNEL, holder.owner.key.id))
        firsts = {*self._roots(), *(() if kernel is None else (kernel.root,))}
        return holder.owner if firsts.isdisjoint(tree) else replace(holder.owner, root=None)

    async def _through(self, knock: Knock, key: OwnerKey) -> Iterable[ProcessKey]:
        """Knock at the door, and wait until its owner is not there any more.

        Gives the processes that were sent SIGTERM. Raises SparedError if the last word is against it, GoneError if it
        was gone, and RefusedError if the door fails or takes too long.
        """
        end = self._clock.now().monotonic + self._deadline
        late = f"Jupyter has not shut it down within {self._deadline:g} s; nothing else was done to it"
        # A shutdown that was too slow last time may still be under way. Half a shutdown is worse than a slow one: it
        # is never cancelled and never begun twice.
        act = self._knocks.get(key)
        if act is None:
            act = self._knocks[key] = asyncio.ensure_future(knock())
            act.add_done_callback(lambda over: self._is_over(key, over))
        else:
            knock.owner = knock.last_word()
        try:
            await asyncio.wait({act}, timeout=self._deadline)
        except asyncio.CancelledError:
            if knock.owner is None:  # nothing has begun
                act.cancel()
            raise
        if not act.done():
            raise RefusedError(late)
        fault = asyncio.CancelledError() if act.cancelled() else act.exception()
        owner = knock.owner
        if isinstance(fault, (GoneError, RefusedError, SparedError)):
            raise fault
        if owner is None and fault is not None:
            raise fault
        assert owner is not None  # noqa: S101  the last word was said
        if fault is not None:
            if _says_gone(fault) and not knock.door.has(owner):
                raise GoneError from fault
            self._log.warning("GPU guard: %s could not be shut down", key, exc_info=fault)
            kind = type(fault).__name__
            raise RefusedError(
                f"Jupyter could not shut it down ({kind}; the server's log says more); nothing else was done to it"
            )
        await self._until(lambda: not knock.door.has(owner), end)
        if knock.door.has(owner):
            raise RefusedError(late)
        return act.result()

    def _is_over(self, key: OwnerKey, act: asyncio.Task[Iterable[ProcessKey]]) -> None:
        """Forget it. Whoever waited for it may have been cancelled; then its fault is nobody's news."""
        self._knocks.pop(key, None)
        if not act.cancelled():
            act.exception()

    async def _end_survivors(
        self, left: _Left, told: frozenset[ProcessKey]
    ) -> tuple[frozenset[ProcessKey], Held | None]:
        """End what is left and is to go. Gives what is still there, and what is held at last.

        Those who were `told` to end have their grace first.
        """
        await self._wait_for(told, self._grace)
        tree = left.tree
        after = await self._held_at_last(tree, left.devices)
        for signum, within in ((SIGTERM, self._grace), (SIGKILL, KILLED_WITHIN)):
            targets = {grip.key for grip in after.grips if grip.can_be_ended} if after is not None else set()
            if left.takes_all:
                targets |= {key for key in tree if self._lives(key)}
            if left.root is not None and self._lives(left.root):
                targets.add(left.root)  # Jupyter has let go of it, so nobody else will end it
            if not targets:
                break
            await self._signal(targets - told if signum is SIGTERM else targets, signum, within, left.sent)
            grown = await self._grown(tree)  # it may have started others meanwhile
            tree = tree if grown is None else grown
            after = await self._held_at_last(tree, left.devices)
        return tree, after

    async def _signal(
        self, targets: Iterable[ProcessKey], signum: Signals, within: float, noted: dict[ProcessKey, Sent]
    ) -> None:
        reached = []
        for key in sorted(targets):
            sent = noted[key] = send(key, signum, self._identify)
            self._log.info("GPU guard: %s to pid %d: %s", signum.name, key.pid, sent.value)
            if sent is Sent.SENT:
                reached.append(key)
        await self._wait_for(reached, within, forced=signum is SIGKILL)

    async def _wait_for(self, processes: Collection[ProcessKey], within: float, *, forced: bool = False) -> None:
        """Wait until they have ended, for so many seconds; in a hurry only if they had no choice."""
        end = self._clock.now().monotonic + within
        await self._until(lambda: (self._hurried and not forced) or not any(map(self._lives, processes)), end)

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

    async def _part(self, verdict: Verdict, holder: Holder, devices: frozenset[str]) -> _Parting:
        """Let it do what it wants to do before its end, and read what there is after that."""
        tree = frozenset(holder.tree if verdict.root is None else (*holder.tree, verdict.root))
        tree, grown, held = await self._read(tree, devices)
        against = why_not_by_devices(verdict, held)
        said = await self._farewell(verdict, holder) if against is None else None
        if said is not None:  # it may have taken a minute, and have started others for that
            tree, grown, anew = await self._read(tree, devices)
            if why_not_by_devices(verdict, anew) is not None:
                await self._sleep(SAVED_WITHIN)
                tree, grown, anew = await self._read(tree, devices)
            held, against = anew or held, why_not_by_devices(verdict, anew)
            against = await self._why_not_after(verdict, holder) or against
        return _Parting(tree, grown, held, against, said)

    async def _read(
        self, tree: frozenset[ProcessKey], devices: frozenset[str]
    ) -> tuple[frozenset[ProcessKey], frozenset[ProcessKey] | None, Held | None]:
        """The tree now, the same or None if it could not be read, and what it holds; None: the devices are silent."""
        seen = await self._look()
        grown = await self._grown(tree)
        tree = tree if grown is None else grown
        return tree, grown, None if seen is None else what_is_held(tree, seen, self._identify, devices)

    async def _grown(self, tree: Collection[ProcessKey]) -> frozenset[ProcessKey] | None:
        """`tree` with its descendants; None, if the process table cannot be read."""
        with suppress(Exception):
            return with_descendants(tree, await self._processes(), self._roots())
        return None

    def _lives(self, key: ProcessKey) -> bool:
        process = self._identify(key.pid)
        return process is not None and process.key == key and not process.is_over


class _Parting(NamedTuple):
    """What is known right before the last look. `against`: why a rule's act is withdrawn; `said`: of the farewell.

    `grown` is the `tree` as it could be read at last; None: it could not.
    """

    tree: frozenset[ProcessKey]
    grown: frozenset[ProcessKey] | None
    held: Held | None
    against: str | None
    said: str | None


@dataclass(frozen=True)
class _Left:
    """What is to go once the door is shut: what holds a device, the `root` if it was its door's, or the whole tree.

    `sent` is what became of the last signal to each.
    """

    tree: frozenset[ProcessKey]
    devices: frozenset[str]
    root: ProcessKey | None
    takes_all: bool
    sent: dict[ProcessKey, Sent] = field(default_factory=dict)


def _and(detail: str, more: str | None) -> str:
    return detail if more is None else f"{detail}; {more}"


def _with_the_cell(parting: str | None, holder: Holder, now: Owner) -> str | None:
    """What a person should know besides: their wish goes first, also before a cell that has just begun."""
    has_begun = holder.owner.state is OwnerState.IDLE and now.state.is_running_a_cell
    return _and("a cell had begun or was waiting by then", parting) if has_begun else parting


def _says_gone(fault: BaseException) -> bool:
    return isinstance(fault, KeyError) or (isinstance(fault, HTTPError) and fault.status_code == 404)  # noqa: PLR2004
