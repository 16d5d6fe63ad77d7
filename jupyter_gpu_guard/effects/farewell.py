"""Before a kernel is shut down: have it do what its person has registered for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_gpu_guard.core.model import OwnerState
from jupyter_gpu_guard.effects.inside import AskError, BrokenError, Inside, LateError
from jupyter_gpu_guard.effects.outcomes import asked_by
from jupyter_gpu_guard.effects.release import question

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_gpu_guard.core.model import Holder, Owner, OwnerKey
    from jupyter_gpu_guard.core.verdict import Verdict


class Farewell:
    """Asks an idle Python kernel, for at most `within` seconds; 0: never. Nothing that goes wrong stops a shutdown."""

    def __init__(self, inside: Inside, look_again: Callable[[OwnerKey], Owner | None], within: float) -> None:
        self._inside = inside
        self._look_again = look_again
        self._within = within
        self._question = question("farewell_snippet", "farewell")

    async def __call__(self, verdict: Verdict, holder: Holder) -> str | None:
        """What came of it, in words; None: nothing was registered, or nobody could be asked."""
        if self._within <= 0 or holder.owner.state is not OwnerState.IDLE:
            return None
        try:
            told = await self._inside.ask(
                holder.owner, self._question, self._within, lambda: self._why_not(verdict, holder)
            )
            return None if told is None else say_farewell(told)
        except LateError as late:
            return f"what was registered for its end was not over within {self._within:g} s" if late.begun else None
        except BrokenError as fault:
            return f"what was registered for its end could not be called: {fault}"
        except AskError:
            return None
        except Exception as fault:  # noqa: BLE001 - a kernel manager may be anyone's, and a kernel answer anything
            return f"what was registered for its end could not be asked for ({type(fault).__name__})"

    def _why_not(self, verdict: Verdict, holder: Holder) -> str | None:
        """Why it is not asked: then it is not going to be shut down either."""
        now = self._look_again(verdict.owner)
        if now is None or now.root != verdict.root:
            return "it has been restarted since"
        used = now.used_at is not None and now.used_at != holder.owner.used_at
        return "it has been used since" if used and asked_by(verdict) is None else None


def say_farewell(told: Mapping[str, Any]) -> str:
    """What became of the functions that were registered, in words. Pure."""
    parts = []
    if told["done"]:
        parts.append(f"before that, {', '.join(told['done'])} was called")
    parts += [f"{name}, registered for its end, failed ({kind})" for name, kind in told["failed"]]
    if told["left"]:
        parts.append(f"there was no time for {', '.join(told['left'])}")
    return "; ".join(parts)
