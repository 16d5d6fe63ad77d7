"""Tell people: Jupyter events, which every open tab and an admin's own handlers get, and one line in the log."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_gpu_guard.core.model import is_known
from jupyter_gpu_guard.core.verdict import Outcome, Result, Verdict
from jupyter_gpu_guard.effects.outcomes import outcome_of, say_bytes

if TYPE_CHECKING:
    import logging

    from jupyter_gpu_guard.core.model import Holder
    from jupyter_gpu_guard.protocols import Clock

NOTICE = "https://events.jupyter-gpu-guard.org/notice/v1"
OUTCOME = "https://events.jupyter-gpu-guard.org/outcome/v1"
SCHEMAS = {
    NOTICE: Path(__file__).parents[1] / "server" / "events" / "notice.yaml",
    OUTCOME: Path(__file__).parents[1] / "server" / "events" / "outcome.yaml",
}


class Notices:
    """Publishes warnings and outcomes through a server's event logger. Registers its schemas where they are missing."""

    def __init__(
        self, event_logger: Any, log: logging.Logger | logging.LoggerAdapter[logging.Logger], clock: Clock
    ) -> None:
        self._events = event_logger
        self._log = log
        self._clock = clock
        for schema, path in SCHEMAS.items():
            if schema not in event_logger.schemas:
                event_logger.register_event_schema(path)

    def warn(self, verdict: Verdict, holder: Holder) -> Outcome:
        """Warn about `holder`. DONE: the event went out. FAILED: it did not, and nobody was warned."""
        event = self._notice(verdict, holder)
        held = say_bytes(holder.memory) if is_known(holder.memory) else "GPU memory"
        try:
            self._events.emit(schema_id=NOTICE, data=event)
        except Exception as fault:  # noqa: BLE001 - an admin's own handler may raise anything
            self._log.warning("GPU guard: the warning for %s could not be published", verdict.owner, exc_info=fault)
            detail = f"the warning could not be published ({type(fault).__name__}; the server's log says more)"
            return outcome_of(verdict, holder, self._clock, Result.FAILED, detail)
        after = f"{event['next_action']} at {event['deadline']}" if event["deadline"] else "nothing follows by itself"
        self._log.warning("GPU guard: warned %s by rule %s: holds %s; %s", verdict.owner, verdict.rule, held, after)
        return outcome_of(verdict, holder, self._clock, Result.DONE, f"warned: holds {held}; {after}")

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

    def _notice(self, verdict: Verdict, holder: Holder) -> dict[str, Any]:
        now = self._clock.now()
        deadline = None
        if verdict.deadline is not None:
            # The full notice begins now, when the warning is given.
            left = max(verdict.deadline - now.monotonic, verdict.notice or 0.0)
            deadline = (now.wall + timedelta(seconds=left)).isoformat()
        follows = verdict.next_action.value if verdict.next_action is not None and deadline is not None else None
        return {
            "owner": str(verdict.owner),
            "name": holder.owner.name,
            "notebook": holder.owner.notebook,
            "rule": verdict.rule,
            "action": verdict.action.value,
            "next_action": follows,
            "given_at": now.wall.isoformat(),
            "deadline": deadline,
            "memory_bytes": holder.memory if is_known(holder.memory) else None,
            "reasons": [reason.code.value for reason in verdict.reasons],
        }
