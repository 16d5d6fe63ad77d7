"""A little compute now and then: the mean over hours, and whether it comes like the tick of a clock. Pure.

A Window keeps stretches of about ten minutes with their mean and their peak, for three days at most: enough to tell
the mean of any long span, and small.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

STRIDE = 600.0  # seconds
LONGEST = 3 * 86_400.0
FEWEST_PULSES = 4
RHYTHM = 1.5  # how many times as long as the shortest pause between two pulses the longest may be


@dataclass(frozen=True)
class Stretch:
    """What was computed from `start` to `end`: percent times seconds, and the highest percent between two readings."""

    start: float
    end: float
    work: float
    peak: float


Stretches = tuple[Stretch, ...]


def lengthen(closed: Stretches, latest: Stretch | None, added: Stretch) -> tuple[Stretches, Stretch]:
    """The stretches with `added` at their end: those that are full, and the one that grows."""
    if latest is None:
        return closed, added
    if latest.end - latest.start >= STRIDE:
        return (*(old for old in closed if old.end > added.end - LONGEST), latest), added
    return closed, Stretch(latest.start, added.end, latest.work + added.work, max(latest.peak, added.peak))


def mean_of(stretches: Stretches, at: float, over: float) -> float | None:
    """The mean percent of the last `over` seconds before `at`; None: not all of them were seen."""
    begin, work, covered = at - over, 0.0, 0.0
    for stretch in reversed(stretches):
        if stretch.end <= begin:
            break
        length = stretch.end - stretch.start
        seen = length if stretch.start >= begin else stretch.end - begin
        work += stretch.work * seen / length
        covered += seen
    # Sums of many spans: what is missing by rounding is not missing.
    return work / covered if covered > 0 and covered >= over * (1 - 1e-6) else None


def pulses_of(stretches: Stretches, at: float, over: float, above: float) -> int | None:
    """In how many stretches within `over` seconds there was compute of `above` percent or more; None: not regularly."""
    begins = [stretch.start for stretch in stretches if stretch.end > at - over and stretch.peak >= above]
    pauses = [after - before for before, after in pairwise(begins)]
    if len(begins) < FEWEST_PULSES or max(pauses) > min(pauses) * RHYTHM + STRIDE:
        return None
    return len(begins)
