"""Tell people: Jupyter events, which every open page and an admin's own handlers get, hooks, and a line in the log."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from jupyter_gpu_guard.core.ledger import wait_before_loss
from jupyter_gpu_guard.core.model import is_known
from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.core.verdict import Outcome, Result, Verdict
from jupyter_gpu_guard.effects.outcomes import outcome_of, say_bytes

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

    from jupyter_gpu_guard.core.model import Holder, OwnerKey, ProcessKey
    from jupyter_gpu_guard.protocols import Clock

NOTICE = "https://events.jupyter-gpu-guard.org/notice/v1"
OUTCOME = "https://events.jupyter-gpu-guard.org/outcome/v1"
SCHEMAS = {
    NOTICE: Path(__file__).parents[1] / "server" / "events" / "notice.yaml",
    OUTCOME: Path(__file__).parents[1] / "server" / "events" / "outcome.yaml",
}
_REMEMBERED = 1000  # owners


class Hooks(Protocol):
    """Other ways than a page to tell people. Every method returns at once."""

    def warned(
        self, verdict: Verdict, holder: Holder, deadline: datetime | None, delivered: Callable[[str], None]
    ) -> None:
        """Tell of a warning; `delivered` is called with the name of each way that has worked."""
        ...

    def ended(self, outcome: Outcome) -> None:
        """Tell what a rule has done."""
        ...


class _Silence:
    """`Hooks` where there are none."""

    def warned(
        self, verdict: Verdict, holder: Holder, deadline: datetime | None, delivered: Callable[[str], None]
    ) -> None:
        """Tell nobody."""

    def ended(self, outcome: Outcome) -> None:
        """Tell nobody."""


silence = _Silence()


def somebody() -> bool:
    """The answer where it is taken for granted that a page is open."""
    return True


class Notices:
    """Publishes warnings and outcomes through a server's event logger. Registers its schemas where they are missing.

    A warning is delivered once a page is open, or one of `hooks` has worked. Each warning goes to the hooks once, also
    if it is repeated because it has reached nobody at first.
    """

    def __init__(
        self,
        event_logger: Any,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger],
        clock: Clock,
        page_is_open: Callable[[], bool] = somebody,
        hooks: Hooks = silence,
    ) -> None:
        self._events = event_logger
        self._log = log
        self._clock = clock
        self._page_is_open = page_is_open
        self._hooks = hooks
        self._told: dict[OwnerKey, set[str]] = {}  # the hooks that have delivered its latest warning
        self._failed: dict[OwnerKey, tuple[ProcessKey | None, Action]] = {}
        for schema, path in SCHEMAS.items():
            if schema not in event_logger.schemas:
                event_logger.register_event_schema(path)

    def reaches(self, key: OwnerKey) -> bool:
        """Whether a warning about `key` would reach somebody now, or the latest one has done so."""
        return self._page_is_open() or bool(self._told.get(key))

    def warn(self, verdict: Verdict, holder: Holder) -> Outcome:
        """Warn about `holder`. DONE: the event went out. FAILED: it did not, and nobody was warned."""
        told = self._told.get(verdict.owner) if verdict.repeated else None
        reached = (*(("page",) if self._page_is_open() else ()), *sorted(told or ()))
        event = self._notice(verdict, holder, undelivered=not reached)
        held = say_bytes(holder.memory) if is_known(holder.memory) else "GPU memory"
        try:
            self._events.emit(schema_id=NOTICE, data=event)
        except Exception as fault:  # noqa: BLE001 - an admin's own handler may raise anything
            self._log.warning("GPU guard: the warning for %s could not be published", verdict.owner, exc_info=fault)
            detail = f"the warning could not be published ({type(fault).__name__}; the server's log says more)"
            return outcome_of(verdict, holder, self._clock, Result.FAILED, detail)
        if told is None:
            told = self._remember(verdict.owner)
            self._hooks.warned(verdict, holder, self._deadline(verdict, undelivered=False), told.add)
        after = f"{event['next_action']} at {event['deadline']}" if event["deadline"] else "nothing follows by itself"
        if not reached:
            after += "; nobody could be told so far"
        self._log.warning("GPU guard: warned %s by rule %s: holds %s; %s", verdict.owner, verdict.rule, held, after)
        outcome = outcome_of(verdict, holder, self._clock, Result.DONE, f"warned: holds {held}; {after}")
        return replace(outcome, reached=reached, undelivered=not reached)

    def announce(self, outcome: Outcome) -> None:
        """Tell what was done. Never raises: the act itself has happened."""
        self._log.warning(
            "GPU guard: %s %s by rule %s: %s (%s)",
            outcome.action.value,
            outcome.owner,
            outcome.rule,
            outcome.result.value,
            outcome.detail,
        )
        try:
            self._events.emit(
                schema_id=OUTCOME,
                data={
                    "owner": str(outcome.owner),
                    "name": outcome.name,
                    "notebook": outcome.notebook,
                    "action": outcome.action.value,
                    "rule": outcome.rule,
                    "result": outcome.result.value,
                    "at": outcome.at.isoformat(),
                    "by": outcome.by,
                    "detail": outcome.detail,
                    "freed_bytes": outcome.freed_bytes,
                    "took_seconds": outcome.took_seconds,
                    "survivors": sorted({survivor.key.pid for survivor in outcome.survivors}),
                    "reasons": [reason.code.value for reason in outcome.reasons],
                },
            )
        except Exception as fault:  # noqa: BLE001 - an admin's own handler may raise anything
            self._log.warning("GPU guard: the outcome for %s could not be published", outcome.owner, exc_info=fault)
        if self._is_news(outcome):
            self._hooks.ended(outcome)

    def _is_news(self, outcome: Outcome) -> bool:
        """Whether hooks should tell it: a rule did something, or has failed to for the first time.

        Whoever asked for an act sees what came of it.
        """
        if outcome.by is not None or outcome.result not in (Result.DONE, Result.FAILED):
            return False
        before = self._failed.pop(outcome.owner, None)
        if outcome.result is Result.DONE:
            return True
        self._failed[outcome.owner] = (outcome.root, outcome.action)
        return before != (outcome.root, outcome.action)

    def _remember(self, owner: OwnerKey) -> set[str]:
        """A place for the hooks that deliver the warning that is given now; that of an earlier one is forgotten."""
        self._told.pop(owner, None)
        while len(self._told) >= _REMEMBERED:
            del self._told[next(iter(self._told))]
        return self._told.setdefault(owner, set())

    def _deadline(self, verdict: Verdict, *, undelivered: bool) -> datetime | None:
        """When the loss may come, on the wall clock: the full notice begins now, when the warning is given."""
        wait = wait_before_loss(verdict, undelivered=undelivered)
        if verdict.deadline is None or wait is None:
            return None
        now = self._clock.now()
        return now.wall + timedelta(seconds=max(verdict.deadline - now.monotonic, wait))

    def _notice(self, verdict: Verdict, holder: Holder, *, undelivered: bool) -> dict[str, Any]:
        deadline = self._deadline(verdict, undelivered=undelivered)
        follows = verdict.next_action.value if verdict.next_action is not None and deadline is not None else None
        return {
            "owner": str(verdict.owner),
            "name": holder.owner.name,
            "notebook": holder.owner.notebook,
            "rule": verdict.rule,
            "action": verdict.action.value,
            "next_action": follows,
            "given_at": self._clock.now().wall.isoformat(),
            "deadline": deadline.isoformat() if deadline is not None else None,
            "memory_bytes": holder.memory if is_known(holder.memory) else None,
            "reasons": [reason.code.value for reason in verdict.reasons],
        }
