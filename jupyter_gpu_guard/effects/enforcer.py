"""The one door for effects: each verdict to the one effect that it names."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.core.verdict import Outcome, Result, Verdict
from jupyter_gpu_guard.effects.notices import Notices
from jupyter_gpu_guard.effects.outcomes import outcome_of
from jupyter_gpu_guard.effects.shutdown import Shutdown
from jupyter_gpu_guard.protocols import nobody_is_spared

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from jupyter_gpu_guard.core.model import Holder, OwnerKind, Process, ProcessKey
    from jupyter_gpu_guard.effects.doors import Door
    from jupyter_gpu_guard.protocols import Clock, DevicesSeen, Owners


class OwnerEnforcer:
    """`Enforcer` for the owners of one server: warns about any of them, shuts down those for which there is a door.

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
        owners: Owners,
        look: Callable[[], Awaitable[DevicesSeen | None]],
        processes: Callable[[], Awaitable[Mapping[int, Process]]],
        clock: Clock,
        identify: Callable[[int], Process | None],
        roots: Callable[[], Collection[ProcessKey]] = frozenset,
        grace: float = 60.0,
        shutdown_deadline: float = 30.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._log = log
        self._clock = clock
        self._notices = Notices(event_logger, log, clock)
        self._doors = doors
        self._shutdown = Shutdown(
            doors=doors,
            owners=owners,
            look=look,
            processes=processes,
            identify=identify,
            clock=clock,
            log=log,
            roots=roots,
            grace=grace,
            deadline=shutdown_deadline,
            sleep=sleep,
        )

    def hurry(self) -> None:
        """Bring what is under way to its end without any grace."""
        self._shutdown.hurry()

    async def enforce(self, verdict: Verdict, holder: Holder, spared: Callable[[], bool] = nobody_is_spared) -> Outcome:
        """Carry out `verdict` on `holder` and say what really happened. Only cancellation passes through."""
        if verdict.action is Action.WARN:
            return self._notices.warn(verdict, holder)
        try:
            outcome = await self._lose(verdict, holder, spared)
        except Exception as fault:  # noqa: BLE001 - logged, and told to whoever asked
            self._log.exception("GPU guard: %s of %s failed", verdict.action.value, verdict.owner)
            detail = f"it failed ({type(fault).__name__}; the server's log says more)"
            outcome = outcome_of(verdict, holder, self._clock, Result.FAILED, detail)
        self._notices.announce(outcome)
        return outcome

    async def _lose(self, verdict: Verdict, holder: Holder, spared: Callable[[], bool]) -> Outcome:
        kind = verdict.owner.kind
        if verdict.action is not Action.SHUTDOWN:
            why = f"{verdict.action.value} is nothing to be carried out"
        elif verdict.owner != holder.owner.key:
            why = f"the verdict is about another owner than {holder.owner.key}"
        elif kind not in self._doors:
            why = f"shutdown is not supported for {kind.value}s"
        else:
            return await self._shutdown.shut_down(verdict, holder, spared)
        return outcome_of(verdict, holder, self._clock, Result.FAILED, why)


class RehearsingEnforcer:
    """`Enforcer` that does nothing and says what it would have done: for mode observe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def hurry(self) -> None:
        """Nothing is ever under way here."""

    async def enforce(self, verdict: Verdict, holder: Holder, spared: Callable[[], bool] = nobody_is_spared) -> Outcome:
        """Leave everything as it is."""
        del spared
        would = {Action.WARN: "would have warned", Action.SHUTDOWN: "would have shut it down"}
        detail = f"mode observe: {would.get(verdict.action, 'nothing to do')}"
        return outcome_of(verdict, holder, self._clock, Result.REHEARSED, detail)
