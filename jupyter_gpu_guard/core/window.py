"""How long a Holder has been *seen* idle. Pure.

A Window begins at the first reading and lives for as long as no reading is missed; a missed, late or Unknown reading
ends it, and the next one starts anew. So idle time is never assumed, only seen. A span between two readings counts as
idle only if it was idle at both ends.

The Window does not know any threshold. It keeps the falling staircase of the latest peaks: for a threshold t, the last
compute is the latest peak of at least t. This is exact for every threshold, and stays small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from .model import Holder, OwnerKey, ProcessKey, Reading, is_known

MINUTE = 60.0


@dataclass(frozen=True)
class Peak:
    """Compute of at least `percent`, up to monotonic time `until`."""

    percent: float
    until: float


@dataclass(frozen=True)
class Span:
    """The mean compute between two readings."""

    start: float
    end: float
    percent: float


@dataclass(frozen=True)
class Window:
    """What was seen of one Holder without a gap, from `began` to `at` (monotonic seconds).

    `used_at`: the end of the last cell. `grown_at`: when a new process was last seen in the tree.
    """

    root: ProcessKey | None
    began: float
    at: float
    compute: float
    tree: frozenset[ProcessKey] = frozenset()
    used_at: float | None = None
    grown_at: float | None = None
    peaks: tuple[Peak, ...] = ()
    recent: tuple[Span, ...] = ()

    def idle_for(self, compute_below: float, *, also_new: bool = True) -> float:
        """Seconds seen without compute of `compute_below` percent or more and without use, up to the last reading.

        With `also_new`, a new process in the tree is a use too, and not only the end of a cell.
        """
        since = self.began
        for peak in self.peaks:  # percent falls and time rises along the staircase
            if peak.percent < compute_below:
                break
            since = max(since, peak.until)
        for use in (self.used_at, self.grown_at if also_new else None):
            if use is not None:
                since = max(since, use)
        return max(0.0, self.at - since) if compute_below > 0 else 0.0

    def minute_mean(self) -> Reading:
        """Mean compute over the last minute seen, in percent."""
        lengths = [span.end - max(span.start, self.at - MINUTE) for span in self.recent]
        if not self.recent:
            return self.compute
        return sum(span.percent * length for span, length in zip(self.recent, lengths, strict=True)) / sum(lengths)


Windows = Mapping[OwnerKey, Window]


def push(windows: Windows, holders: tuple[Holder, ...], now: float, longest_span: float) -> Windows:
    """Add one reading of every Holder at monotonic time `now`. Those no longer seen are forgotten.

    `longest_span`: readings further apart than this (seconds) leave a gap between them.
    """
    following: dict[OwnerKey, Window] = {}
    for holder in holders:
        memory, compute = holder.memory, holder.compute
        if not is_known(memory) or not is_known(compute):
            continue
        window = windows.get(holder.owner.key)
        if window is not None and window.root == holder.owner.root and 0 < now - window.at <= longest_span:
            following[holder.owner.key] = _extend(window, holder, compute, now)
        else:
            following[holder.owner.key] = Window(
                holder.owner.root, now, now, compute, frozenset(holder.tree), holder.owner.used_at
            )
    return following


def _extend(window: Window, holder: Holder, compute: float, now: float) -> Window:
    # Rounded up to a tenth, so that the staircase has at most a thousand steps and errs on the busy side.
    both_ends = ceil(max(window.compute, compute) * 10) / 10
    peaks = window.peaks
    if both_ends > 0:
        peaks = (*(peak for peak in peaks if peak.percent > both_ends), Peak(both_ends, now))
    tree = frozenset(holder.tree)
    uses = [at for at in (window.used_at, holder.owner.used_at) if at is not None]
    recent = (*(span for span in window.recent if span.end > now - MINUTE), Span(window.at, now, compute))
    return Window(
        root=window.root,
        began=window.began,
        at=now,
        compute=compute,
        tree=tree,
        used_at=max(uses) if uses else None,
        grown_at=now if tree - window.tree else window.grown_at,
        peaks=peaks,
        recent=recent,
    )


def minute_compute(window: Window | None, holder: Holder) -> Reading:
    """The compute to show: the mean of the last minute seen, or why there is none.

    Without a Window, because its memory is not known, it is the last reading.
    """
    return window.minute_mean() if window is not None and is_known(holder.compute) else holder.compute
