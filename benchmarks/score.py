"""What rules come to over sessions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .rules import Ends
from .sessions import HOUR, Kind, Session


@dataclass(frozen=True)
class Parking:
    """Idle for `after` seconds, a session gives its memory back until it goes on. `only_at_rest`: if no cell runs."""

    after: float
    only_at_rest: bool = True


@dataclass
class Score:
    """What a rule came to over many sessions. Hours are GPU-hours."""

    ended: int = 0
    came_back: int = 0
    lost_hours: float = 0.0
    reclaimed_hours: float = 0.0
    without_ending_hours: float = 0.0

    def add(self, session: Session, end: float | None, parking: Parking | None = None) -> None:
        """Enter one session that is ended at `end` seconds; None: never."""
        if parking is not None:
            self.without_ending_hours += _parked(session, parking, end) / HOUR
        if end is None:
            return
        lost = sum(span.after(end) for span in session.spans if not span.is_idle)
        self.ended += 1
        self.came_back += lost > 0
        self.lost_hours += lost / HOUR
        self.reclaimed_hours += sum(span.after(end) for span in session.spans if span.is_idle) / HOUR


def _parked(session: Session, parking: Parking, end: float | None) -> float:
    """Seconds of each stretch in which its memory is given back, up to `end`."""
    seconds, idle = 0.0, 0.0
    for span in session.spans:
        length = span.end - span.begin - (span.after(end) if end is not None else 0.0)
        if span.kind is Kind.REST or (span.is_idle and not parking.only_at_rest):
            seconds += max(0.0, idle + length - parking.after) - max(0.0, idle - parking.after)
            idle += length
        else:
            idle = 0.0
    return seconds


def score(sessions: Iterable[Session], ends: Ends, parking: Parking | None = None) -> Score:
    """The sum over all `sessions`."""
    total = Score()
    for session in sessions:
        total.add(session, ends(session), parking)
    return total
