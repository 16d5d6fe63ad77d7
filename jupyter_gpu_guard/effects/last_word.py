"""The last moment before something is lost: what is said then decides, and the act begins in the same moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpu_guard.core.model import OwnerState, is_known
from jupyter_gpu_guard.core.verdict import Result
from jupyter_gpu_guard.effects.outcomes import asked_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jupyter_gpu_guard.core.model import Holder, Owner, ProcessKey
    from jupyter_gpu_guard.core.verdict import Verdict
    from jupyter_gpu_guard.effects.doors import Door
    from jupyter_gpu_guard.effects.held import Held


class SparedError(Exception):
    """The last word was against it."""

    def __init__(self, result: Result, why: str) -> None:
        super().__init__(why)
        self.result = result


class Knock:
    """One knock at one door, begun in the moment in which the last word is said. From then on there is an `owner`."""

    def __init__(self, door: Door, last_word: Callable[[], Owner]) -> None:
        self.door = door
        self.last_word = last_word
        self.owner: Owner | None = None

    async def __call__(self) -> Iterable[ProcessKey]:
        """Say it, and knock. Raises whatever either does."""
        self.owner = self.last_word()
        return await self.door.knock(self.owner)


def why_not(verdict: Verdict, holder: Holder, now: Owner, at_the_door: Callable[[], str | None]) -> str | None:
    """Why the act is withdrawn at the last look, or None. A person's wish is only refused for another process."""
    if now.root != verdict.root:
        return "it has been restarted since, or its process is not known any more"
    if asked_by(verdict) is not None:
        return None
    if verdict.root is None:
        return "its process is not known"
    if (why := at_the_door()) is not None:
        return why
    if now.state is OwnerState.UNKNOWN and holder.owner.state is not OwnerState.UNKNOWN:
        return "what it does is not known any more"
    if now.used_at is not None and (holder.owner.used_at is None or now.used_at > holder.owner.used_at):
        return "it has been used since"
    return None


def why_not_by_devices(verdict: Verdict, before: Held | None) -> str | None:
    """Why an automatic act is withdrawn for what the devices show at the last look, or None."""
    if asked_by(verdict) is not None or verdict.compute_below is None:
        return None
    if before is None or not is_known(before.compute):
        return "the devices could not be read just before"
    return "it computes again" if before.compute >= verdict.compute_below else None
