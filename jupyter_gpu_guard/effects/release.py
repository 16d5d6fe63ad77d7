"""Have an idle Python kernel give back what its frameworks keep on devices for later. Its variables stay."""

from __future__ import annotations

import asyncio
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jupyter_gpu_guard.core.model import OwnerState, is_known
from jupyter_gpu_guard.core.verdict import Outcome, Result, Verdict
from jupyter_gpu_guard.effects.held import Held, freed, freed_on, say_devices, what_is_held
from jupyter_gpu_guard.effects.inside import AskError, Inside, Question, UnsuitedError, WithdrawnError
from jupyter_gpu_guard.effects.last_word import why_not_by_devices
from jupyter_gpu_guard.effects.outcomes import asked_by, outcome_of, say_bytes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from jupyter_gpu_guard.core.model import Holder, Owner, OwnerKey, Process
    from jupyter_gpu_guard.protocols import Clock, DevicesSeen

ANSWERED_WITHIN = 30.0  # seconds; collecting garbage in a large kernel takes some
ERROR_WITHIN = 10.0  # seconds for a look at what the saved last error holds
SEEN_WITHIN = 5.0  # seconds in which the driver shows what was given back
PAUSE = 0.5  # seconds between two looks
WORTH_SAYING = 2**20  # bytes


class Release:
    """`Remedy` that asks the kernel itself. `look` reads the devices; None: they did not answer."""

    def __init__(
        self,
        inside: Inside,
        *,
        look_again: Callable[[OwnerKey], Owner | None],
        look: Callable[[], Awaitable[DevicesSeen | None]],
        identify: Callable[[int], Process | None],
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._inside = inside
        self._release = question("release_snippet", "release")
        self._by_error = question("variables", "held_by_the_last_error")
        self._look_again = look_again
        self._look = look
        self._identify = identify
        self._clock = clock
        self._sleep = sleep

    def suits(self, holder: Holder) -> bool:
        """Whether it is an idle Python kernel of this machine that is on a device."""
        return self._why_unsuited(holder) is None and bool(holder.holdings)

    async def carry_out(self, verdict: Verdict, holder: Holder, spared: Callable[[], bool]) -> Outcome:
        """Have it give back what it can, and say how much that was by the devices' own count."""

        def ended(result: Result, detail: str, gone: float | None = None) -> Outcome:
            took = self._clock.now().monotonic - began
            return outcome_of(verdict, holder, self._clock, result, detail, freed_bytes=gone, took_seconds=took)

        began = self._clock.now().monotonic
        if self._look_again(verdict.owner) is None:
            return ended(Result.ALREADY_GONE, "it had ended by itself")
        if (why := self._why_unsuited(holder)) is not None:
            return ended(Result.UNSUITED, why)
        before = await self._held(holder)
        if (why := why_not_by_devices(verdict, before)) is not None:
            return ended(Result.WITHDRAWN, why)
        try:
            told = await self._inside.ask(
                holder.owner,
                self._release,
                ANSWERED_WITHIN,
                lambda: self._why_not(verdict, holder, spared),
            )
        except UnsuitedError as refusal:
            return ended(Result.UNSUITED, str(refusal))
        except WithdrawnError as refusal:
            return ended(Result.WITHDRAWN, str(refusal))
        except AskError as fault:
            after = await self._held(holder)
            return ended(Result.FAILED, str(fault), freed(before, after))
        after = await self._held_at_last(holder, before, told)
        by_error = await self._held_by_the_last_error(holder) if _something_is_left(after) else 0.0
        return ended(Result.DONE, say(told, before, after, by_error), freed(before, after))

    def _why_unsuited(self, holder: Holder) -> str | None:
        if (why := self._inside.why_unsuited(holder.owner)) is not None:
            return why
        return None if holder.state is OwnerState.IDLE else f"it is {holder.state.value}, and not idle"

    def _why_not(self, verdict: Verdict, holder: Holder, spared: Callable[[], bool]) -> str | None:
        """Why the act is withdrawn in the last moment, or None."""
        now = self._look_again(verdict.owner)
        if now is None or now.root != verdict.root:
            return "it has been restarted since"
        if asked_by(verdict) is None and now.used_at is not None and now.used_at != holder.owner.used_at:
            return "it has been used since"
        return "it was kept at the last moment" if spared() else None

    async def _held(self, holder: Holder) -> Held | None:
        seen = await self._look()
        if seen is None:
            return None
        devices = frozenset(holding.device for holding in holder.holdings)
        tree = {*holder.tree, holder.owner.root} - {None}
        return what_is_held((key for key in tree if key is not None), seen, self._identify, devices)

    async def _held_at_last(self, holder: Holder, before: Held | None, told: Sequence[dict[str, Any]]) -> Held | None:
        """What is held once the driver shows what the frameworks say to have given back; in the end, what it shows."""
        end = self._clock.now().monotonic + SEEN_WITHIN
        while True:
            after = await self._held(holder)
            gone = freed(before, after)
            if gone is None or gone >= WORTH_SAYING or _by_their_count(told) < WORTH_SAYING:
                return after
            if self._clock.now().monotonic >= end:
                return after
            await self._sleep(PAUSE)

    async def _held_by_the_last_error(self, holder: Holder) -> float:
        """Bytes that only the saved last error of the kernel holds; 0 too where it does not say."""
        try:
            return float(await self._inside.ask(holder.owner, self._by_error, ERROR_WITHIN))
        except AskError:
            return 0.0


def question(module: str, function: str) -> Question:
    """`function` of a module of `jupyter_gpu_guard.kernel`, as text: the kernel's environment may lack the package."""
    return Question((files("jupyter_gpu_guard.kernel") / f"{module}.py").read_text(encoding="utf-8"), function)


def say(told: Sequence[dict[str, Any]], before: Held | None, after: Held | None, by_error: float) -> str:
    """What came of it, in a sentence: how much was given back, and what keeps the rest. Pure."""
    gone = freed(before, after)
    if gone is None:
        count = _by_their_count(told)
        said = f"gave back {say_bytes(count)} by the count of its frameworks" if count else "nothing to give back"
        said += "; the devices did not say what is held now"
    elif gone < WORTH_SAYING:
        said = "nothing to give back"
    else:
        was = before.memory if before is not None and is_known(before.memory) else gone
        where = say_devices(freed_on(before, after), before.labels) if before is not None else None
        said = f"gave back {say_bytes(gone)} of {say_bytes(was)}{f', on {where}' if where else ''}"
    kept = [_kept_by(row) for row in told]
    if by_error >= WORTH_SAYING:
        kept.insert(
            0,
            f"the saved last error holds {say_bytes(by_error)}: run `%gpu_guard release errors` in the notebook, or "
            "restart the kernel",
        )
    if not told:
        kept.append("it uses no framework that can be asked")
    return "; ".join((said, *filter(None, kept)))


def _kept_by(row: dict[str, Any]) -> str:
    """What one framework keeps, or an empty text."""
    name, live = row["name"], row["live"]
    if row["fault"] is not None:
        return f"{name} failed ({row['fault']})"
    if row["pool"]:
        used = f", of which variables hold {say_bytes(live)}" if live else ""
        return f"{name} keeps its pool{used}: only ending the process gives it back"
    return f"{name} keeps {say_bytes(live)} that variables hold" if live and live >= WORTH_SAYING else ""


def _by_their_count(told: Sequence[dict[str, Any]]) -> float:
    """Bytes that the frameworks say to have given back."""
    return float(
        sum(row["before"] - row["after"] for row in told if row["before"] is not None and row["after"] is not None)
    )


def _something_is_left(after: Held | None) -> bool:
    return after is None or not is_known(after.memory) or after.memory >= WORTH_SAYING
