"""Before a kernel is shut down: have it do what its person has registered for that."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from jupyter_gpu_guard.core.model import OwnerState
from jupyter_gpu_guard.effects.inside import (
    AskError,
    BrokenError,
    Inside,
    LateError,
    UnsuitedError,
    WithdrawnError,
    nothing_against_it,
)
from jupyter_gpu_guard.effects.outcomes import asked_by
from jupyter_gpu_guard.effects.release import question

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from jupyter_gpu_guard.core.model import Holder, Owner, OwnerKey
    from jupyter_gpu_guard.core.verdict import Verdict
    from jupyter_gpu_guard.effects.inside import Question


_NAME = re.compile(r"\w{1,100}|<lambda>")
HEARD_WITHIN = 0.25  # seconds; what a kernel has begun it tells on another channel, a moment later
TOLD_WITHIN = 10.0  # seconds in which a kernel says whether anything is registered
CALM_WITHIN = 3.0  # seconds in which a kernel that only seems to execute is heard to be idle


async def it_is_there(verdict: Verdict, holder: Holder) -> str | None:
    """The answer where nothing is ever parked."""
    del verdict, holder
    return None


class Farewell:
    """Asks an idle Python kernel, for at most `within` seconds; 0: never. Nothing that goes wrong stops a shutdown.

    `why_not_back` brings a parked kernel back for that, or says why it cannot.
    """

    def __init__(
        self,
        inside: Inside,
        look_again: Callable[[OwnerKey], Owner | None],
        within: float,
        why_not_back: Callable[[Verdict, Holder], Awaitable[str | None]] = it_is_there,
    ) -> None:
        self._inside = inside
        self._look_again = look_again
        self._within = within
        self._why_not_back = why_not_back
        self._late: set[OwnerKey] = set()
        self._interrupted: set[OwnerKey] = set()
        self._unasked: set[OwnerKey] = set()
        self._question = question("farewell_snippet", "farewell")
        self._awaits = question("farewell_snippet", "is_awaited")

    async def why_not_yet(self, verdict: Verdict, holder: Holder) -> str | None:
        """Why it must not be shut down now, in words; None: it may be.

        What asks something of a GPU waits in a parked kernel. So whoever has something to save, or does not say, is
        resumed first; without room for that, it stays as it is, and nothing is lost.
        """
        now = self._look_again(verdict.owner)
        if now is None or now.root != verdict.root or now.parked is None:
            return None
        if asked_by(verdict) is None:
            return "it is parked already"
        if self._within <= 0:
            return None
        try:
            is_awaited = await self._ask(now, self._awaits, TOLD_WITHIN)
        except (LateError, WithdrawnError):  # perhaps because of what it waits for
            is_awaited = True
        except Exception:  # noqa: BLE001 - whoever cannot be asked has nothing that could be called, as below
            return None
        return await self._why_not_back(verdict, holder) if is_awaited else None

    async def __call__(self, verdict: Verdict, holder: Holder) -> str | None:
        """What came of it, in words; None: nothing was registered, or nobody could be asked.

        A rule's act on an idle kernel is withdrawn where it was not asked because it seemed to be at something: it may
        have something to save. Whoever ends a kernel that executes knows what they do, a rule that names it too.
        """
        is_a_rules = asked_by(verdict) is None
        if self._within <= 0 or (is_a_rules and holder.owner.state is not OwnerState.IDLE):
            return None
        try:
            told = await self._ask(holder.owner, self._question, self._within, lambda: self._why_not(verdict, holder))
            if told is None:
                return None
            said = say_farewell(told)
            if any(kind == "KeyboardInterrupt" for _, kind in told["failed"]):
                self._interrupted.add(verdict.owner)
            return said  # noqa: TRY300 - what is said may fail as well
        except LateError as late:
            (self._late if late.begun else self._unasked).add(verdict.owner)
            return f"what was registered for its end was not over within {self._within:g} s" if late.begun else None
        except BrokenError as fault:
            return f"what was registered for its end could not be called: {fault}"
        except UnsuitedError:
            return None
        except AskError:
            self._unasked.add(verdict.owner)
            return None
        except Exception as fault:  # noqa: BLE001 - a kernel manager may be anyone's, and a kernel answer anything
            return f"what was registered for its end could not be asked for ({type(fault).__name__})"

    async def why_not_after(self, verdict: Verdict, holder: Holder) -> str | None:
        """Why a rule's act is withdrawn once it is over; None: nothing else has begun, as far as can be told by asking.

        Whatever was sent meanwhile begins now. When this is over, it has been heard of, so that the last look knows.
        """
        late, interrupted, unasked = (
            verdict.owner in owners for owners in (self._late, self._interrupted, self._unasked)
        )
        for owners in (self._late, self._interrupted, self._unasked):
            owners.discard(verdict.owner)
        if late:  # still at what was asked of it, so that it cannot answer: it is cut off
            return None
        try:
            answers = await self._inside.answers(holder.owner)
        except Exception:  # noqa: BLE001 - a kernel manager may be anyone's; the last look says if it is gone
            answers = True
        await asyncio.sleep(HEARD_WITHIN)
        if asked_by(verdict) is not None:
            return None
        if interrupted:
            return "it was interrupted meanwhile"
        return None if answers and not unasked else "it does not answer any more, so it has begun something else"

    async def _ask(
        self,
        owner: Owner,
        question: Question,
        within: float,
        unless: Callable[[], str | None] = nothing_against_it,
    ) -> Any:
        """As `Inside.ask`, and once more where it seemed to execute: that a cell has ended is heard a little later."""
        patience = CALM_WITHIN
        while True:
            try:
                return await self._inside.ask(owner, question, within, unless)
            except WithdrawnError:
                if patience <= 0 or unless() is not None:
                    raise
            await asyncio.sleep(HEARD_WITHIN)
            patience -= HEARD_WITHIN

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
        parts.append(f"before that, {_names(told['done'])} was called")
    parts += [f"{_names([name])}, registered for its end, failed ({_names([kind])})" for name, kind in told["failed"]]
    if told["left"]:
        parts.append(f"there was no time for {_names(told['left'])}")
    return "; ".join(parts)


def _names(names: Iterable[object]) -> str:
    """The names of functions or errors as they are, and not what somebody has put in the place of one."""
    return ", ".join(name if _NAME.fullmatch(name) else "?" for name in map(str, names))
