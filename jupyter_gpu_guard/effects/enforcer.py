"""The one door for effects: each verdict to the one effect that it names."""

from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.core.verdict import Outcome, Result, Verdict
from jupyter_gpu_guard.effects.notices import Notices, silence, somebody
from jupyter_gpu_guard.effects.outcomes import outcome_of
from jupyter_gpu_guard.effects.shutdown import Shutdown, may_end, no_farewell
from jupyter_gpu_guard.protocols import nobody_is_spared

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from jupyter_gpu_guard.core.model import Holder, OwnerKey, OwnerKind, Process, ProcessKey
    from jupyter_gpu_guard.effects.doors import Door
    from jupyter_gpu_guard.effects.notices import Hooks
    from jupyter_gpu_guard.effects.remedies import Remedy
    from jupyter_gpu_guard.protocols import Clock, DevicesSeen, Owners


class OwnerEnforcer:
    """`Enforcer` for the owners of one server: warns about any of them, shuts down those for which there is a door.

    `remedies` are what can be done to an owner that lives on. `page_is_open` says whether there is a page that would
    show a warning; without it every warning is taken to reach somebody. `hooks` tell people where none is.

    `look` reads the devices (None: they did not answer) and `processes` the process table, each one at a time and off
    the event loop. `roots` names the first process of every owner. `grace` is between SIGTERM and SIGKILL,
    `shutdown_deadline` is Jupyter's own; both in seconds.
    """

    def __init__(
        self,
        *,
        event_logger: Any,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger],
        doors: Mapping[OwnerKind, Door],
        remedies: Mapping[Action, Remedy] = MappingProxyType({}),
        owners: Owners,
        look: Callable[[], Awaitable[DevicesSeen | None]],
        processes: Callable[[], Awaitable[Mapping[int, Process]]],
        clock: Clock,
        identify: Callable[[int], Process | None],
        roots: Callable[[], Collection[ProcessKey]] = frozenset,
        farewell: Callable[[Verdict, Holder], Awaitable[str | None]] = no_farewell,
        why_not_yet: Callable[[Verdict, Holder], Awaitable[str | None]] = may_end,
        why_not_after: Callable[[Verdict, Holder], Awaitable[str | None]] = may_end,
        grace: float = 60.0,
        shutdown_deadline: float = 30.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        page_is_open: Callable[[], bool] = somebody,
        hooks: Hooks = silence,
    ) -> None:
        self._log = log
        self._clock = clock
        self._notices = Notices(event_logger, log, clock, page_is_open, hooks)
        self._doors = doors
        self._remedies = remedies
        self._shutdown = Shutdown(
            doors=doors,
            owners=owners,
            look=look,
            processes=processes,
            identify=identify,
            clock=clock,
            log=log,
            roots=roots,
            farewell=farewell,
            why_not_yet=why_not_yet,
            why_not_after=why_not_after,
            grace=grace,
            deadline=shutdown_deadline,
            sleep=sleep,
        )

    def offers(self, holder: Holder) -> tuple[Action, ...]:
        """What a person may ask for: the remedies that suit it, and its end where there is a door."""
        soft = tuple(action for action, remedy in self._remedies.items() if remedy.suits(holder))
        return (*soft, Action.SHUTDOWN) if holder.owner.key.kind in self._doors else soft

    def reaches(self, key: OwnerKey) -> bool:
        """Whether a page is open, or a hook has delivered this very warning."""
        return self._notices.reaches(key)

    def hurry(self) -> None:
        """Bring what is under way to its end without any grace."""
        self._shutdown.hurry()

    async def enforce(self, verdict: Verdict, holder: Holder, spared: Callable[[], bool] = nobody_is_spared) -> Outcome:
        """Carry out `verdict` on `holder` and say what really happened. Only cancellation passes through."""
        if verdict.action is Action.WARN:
            return self._notices.warn(verdict, holder)
        try:
            outcome = await self._carry_out(verdict, holder, spared)
        except Exception as fault:  # noqa: BLE001 - logged, and told to whoever asked
            self._log.exception("GPU guard: %s of %s failed", verdict.action.value, verdict.owner)
            detail = f"it failed ({type(fault).__name__}; the server's log says more)"
            outcome = outcome_of(verdict, holder, self._clock, Result.FAILED, detail)
        self._notices.announce(outcome)
        return outcome

    async def _carry_out(self, verdict: Verdict, holder: Holder, spared: Callable[[], bool]) -> Outcome:
        kind = verdict.owner.kind
        if verdict.owner != holder.owner.key:
            why = f"the verdict is about another owner than {holder.owner.key}"
        elif verdict.action in self._remedies:
            return await self._remedies[verdict.action].carry_out(verdict, holder, spared)
        elif verdict.action.leaves_it_alive:
            why = f"{verdict.action.value} is not offered here"
            return outcome_of(verdict, holder, self._clock, Result.UNSUITED, why)
        elif verdict.action is not Action.SHUTDOWN:
            why = f"{verdict.action.value} is nothing to be carried out"
        elif kind not in self._doors:
            why = f"shutdown is not supported for {kind.value}s"
        else:
            return await self._shutdown.shut_down(verdict, holder, spared)
        return outcome_of(verdict, holder, self._clock, Result.FAILED, why)


_WOULD = {
    Action.WARN: "would have warned",
    Action.RELEASE: "would have had it give back what its frameworks keep",
    Action.PARK: "would have parked it",
    Action.SHUTDOWN: "would have shut it down",
}


class RehearsingEnforcer:
    """`Enforcer` that does nothing and says what it would have done: for mode observe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def offers(self, holder: Holder) -> tuple[Action, ...]:
        """Nothing."""
        del holder
        return ()

    def reaches(self, key: OwnerKey) -> bool:
        """A rehearsal tells nobody, and waits for nobody."""
        del key
        return True

    def hurry(self) -> None:
        """Nothing is ever under way here."""

    async def enforce(self, verdict: Verdict, holder: Holder, spared: Callable[[], bool] = nobody_is_spared) -> Outcome:
        """Leave everything as it is."""
        del spared
        detail = f"mode observe: {_WOULD.get(verdict.action, 'nothing to do')}"
        return outcome_of(verdict, holder, self._clock, Result.REHEARSED, detail)
