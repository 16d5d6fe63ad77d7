"""Hours of the week by the clock on the wall. Pure: the time zone is handed in.

Where the clock is put back, an hour is passed twice and counts both times; where it is put forward, the hour that is
left out never comes, and what ends in it ends with the jump.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo

DAY = 24 * 60  # minutes


@dataclass(frozen=True)
class Hours:
    """From `start` until just before `end`, minutes since midnight, on the weekdays `days` (0 is Monday).

    If `end` is not after `start`, they end on the day after.
    """

    days: frozenset[int]
    start: int = 0
    end: int = DAY

    def hold(self, weekday: int, minute: int) -> bool:
        """Whether this minute of this day is one of them."""
        if self.start < self.end:
            return weekday in self.days and self.start <= minute < self.end
        begun_today = weekday in self.days and minute >= self.start
        return begun_today or ((weekday - 1) % 7 in self.days and minute < self.end)


@dataclass(frozen=True)
class Calendar:
    """Named hours in one time zone."""

    name: str
    zone: tzinfo
    hours: tuple[Hours, ...]

    def holds(self, at: datetime) -> bool:
        """Whether `at` (aware) falls into one of its hours."""
        local = at.astimezone(self.zone)
        return any(hours.hold(local.weekday(), local.hour * 60 + local.minute) for hours in self.hours)
