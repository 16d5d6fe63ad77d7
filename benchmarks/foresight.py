"""What could be reclaimed by ending sessions if one knew what comes: the bound for any rule that ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from .sessions import HOUR, MINUTE, Kind, Session


def best(sessions: Sequence[Session], lost_hours: float, rest_for: float | None) -> float:
    """The most idle hours that ends can reclaim for at most so many computing hours lost. Losses count in minutes, up.

    `rest_for`: only once no cell has run for so many seconds; None: at any moment without compute.
    """
    minutes = int(lost_hours * HOUR / MINUTE)
    reclaimed = [0.0] * (minutes + 1)  # by how much may be lost
    for session in sessions:
        following = reclaimed[:]
        for end in _moments(session, rest_for):
            lost = ceil(sum(span.after(end) for span in session.spans if not span.is_idle) / MINUTE - 1e-9)
            gained = sum(span.after(end) for span in session.spans if span.is_idle)
            for allowed in range(lost, minutes + 1):
                following[allowed] = max(following[allowed], reclaimed[allowed - lost] + gained)
        reclaimed = following
    return reclaimed[minutes] / HOUR


def _moments(session: Session, rest_for: float | None) -> Iterator[float]:
    """The earliest moment for an end in each stretch; a later one only reclaims less."""
    rest = 0.0
    for before, span in zip([None, *session.spans], session.spans, strict=False):
        if rest_for is None:
            if span.is_idle and (before is None or not before.is_idle):
                yield span.begin
            continue
        began = rest
        rest = rest + span.end - span.begin if span.kind is Kind.REST else 0.0
        if span.kind is Kind.REST and began <= rest_for < rest:
            yield span.begin + rest_for - began
