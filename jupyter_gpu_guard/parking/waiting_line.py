"""Who is parked and wants to come back: a line, the oldest request first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_gpu_guard.core.model import Waiting

if TYPE_CHECKING:
    from datetime import datetime

    from jupyter_gpu_guard.core.model import OwnerKey

    from .room import Lack

RETRY = 60.0  # seconds after a failure, unless it is asked for anew


@dataclass
class _Place:
    since: datetime
    waiting: Waiting | None = None
    failed_at: float | None = None


class WaitingLine:
    """All requests that are not fulfilled. `now` is monotonic, in seconds."""

    def __init__(self) -> None:
        self._places: dict[OwnerKey, _Place] = {}
        self._resumed_at: dict[OwnerKey, float] = {}

    def ask(self, key: OwnerKey, since: datetime) -> None:
        """`key` is to be resumed. An earlier request keeps its place, and is tried again at once."""
        self._places.setdefault(key, _Place(since)).failed_at = None

    def want(self, key: OwnerKey, since: datetime) -> None:
        """`key` still is to be resumed: like `ask`, and yet not sooner after a failure."""
        self._places.setdefault(key, _Place(since))

    def leave(self, key: OwnerKey) -> None:
        """It needs to wait no more."""
        self._places.pop(key, None)

    def resumed(self, key: OwnerKey, now: float) -> None:
        """It is back, and its clocks begin anew."""
        self.leave(key)
        self._resumed_at[key] = now

    def resumed_at(self, key: OwnerKey) -> float | None:
        """When it came back last."""
        return self._resumed_at.get(key)

    def failed(self, key: OwnerKey, now: float) -> None:
        """The driver did not bring it back."""
        if (place := self._places.get(key)) is not None:
            place.failed_at = now
            place.waiting = None

    def lacks(self, key: OwnerKey, lack: Lack | None, held_by: str) -> None:
        """What it waits for; None: nothing."""
        if (place := self._places.get(key)) is not None:
            waits = None if lack is None else Waiting(place.since, lack.name, lack.needed, lack.free, held_by)
            place.waiting = waits

    def waiting(self, key: OwnerKey) -> Waiting | None:
        """What it waits for, if it waits."""
        place = self._places.get(key)
        return place.waiting if place is not None else None

    def order(self, now: float) -> tuple[OwnerKey, ...]:
        """Whose turn it is, one after the other, the oldest request first."""
        due = [
            (place.since, key)
            for key, place in self._places.items()
            if place.failed_at is None or now - place.failed_at >= RETRY
        ]
        return tuple(key for _, key in sorted(due))
