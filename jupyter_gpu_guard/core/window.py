"""How long a Holder has been *seen* idle. Pure.

A Window begins at the first reading and lives for as long as no reading is missed; a missed, late or Unknown reading
ends it, and the next one starts anew. So idle time is never assumed, only seen. A span between two readings counts as
idle only if it was idle at both ends.

The Window does not know any threshold. It keeps the falling staircase of the latest peaks: for a threshold t, the last
compute is the latest peak of at least t. This is exact for every threshold, and stays small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, inf

from . import trickle
from .model import Activity, Holder, OwnerKey, OwnerKind, ProcessKey, Reading, is_known

MINUTE = 60.0
HOUR = 3600.0

# So much by one process within the last minute is work, and not just being alive: a tenth of a core, a MiB a second.
# Many that each do little are a pool at rest: for each further process half as much is allowed in all.
BUSY_CPU_SECONDS = 6.0
BUSY_BYTES = 60 * 2**20

QUIET_BELOW = 1.0  # percent


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
class Effort:
    """What each process of the tree had done apart from GPUs up to monotonic time `at`; `io` None: not looked at."""

    at: float
    cpu: Mapping[ProcessKey, float]
    io: Mapping[ProcessKey, float] | None = None


@dataclass(frozen=True)
class Window:
    """What was seen of one Holder without a gap, from `began` to `at` (monotonic seconds).

    `stretches`, and `stretch`, which still grows, are the last days in steps of ten minutes.

    `used_at`: the end of the last cell, or the last visit to a TensorBoard. `grown_at`: when the newest process came
    into the tree that is on a device or has lived for a minute; the `young` ones have not yet. `busy_at`: when the
    processes last used the CPU, disk or network. `visited_at`: when somebody was last seen at a port of theirs.
    `unseen_at`: when neither could be seen. `quiet_at`: the last reading without compute worth mentioning.
    """

    root: ProcessKey | None
    began: float
    at: float
    compute: float
    tree: frozenset[ProcessKey] = frozenset()
    used_at: float | None = None
    grown_at: float | None = None
    young: Mapping[ProcessKey, float] = field(default_factory=dict)
    peaks: tuple[Peak, ...] = ()
    recent: tuple[Span, ...] = ()
    efforts: tuple[Effort, ...] = ()
    busy_at: float | None = None
    visited_at: float | None = None
    unseen_at: float | None = None
    quiet_at: float | None = None
    stretches: trickle.Stretches = ()
    stretch: trickle.Stretch | None = None
    activity: Activity | None = None

    @property
    def is_busy(self) -> bool:
        """Whether the processes used the CPU, disk or network within the last minute."""
        return self.busy_at == self.at

    @property
    def is_visited(self) -> bool:
        """Whether somebody was seen at a port of theirs within the last hour."""
        return self.visited_at is not None and self.at - self.visited_at <= HOUR

    def idle_for(self, compute_below: float, *, at_rest: bool = True) -> float:
        """Seconds seen without compute of `compute_below` percent or more and without use, up to the last reading.

        `at_rest`: no cell runs, and nothing else is in the way. Then a new process in the tree, a visitor, and work on
        the CPU are uses too, and not only the end of a cell; a time in which they could not be seen is not idle.
        Otherwise they are what is being judged.
        """
        since = self.began
        for peak in self.peaks:  # percent falls and time rises along the staircase
            if peak.percent < compute_below:
                break
            since = max(since, peak.until)
        at_ease = (self.grown_at, self.busy_at, self.visited_at, self.unseen_at) if at_rest else ()
        uses = (self.used_at, *at_ease)
        since = max(since, *(use for use in uses if use is not None), self.began)
        return max(0.0, self.at - since) if compute_below > 0 else 0.0

    def unused_for(self, *, at_rest: bool = True) -> float:
        """Seconds seen without any use, whatever was computed. `at_rest` as in `idle_for`."""
        return self.idle_for(inf, at_rest=at_rest)

    def mean_over(self, seconds: float) -> float | None:
        """The mean compute of the last `seconds`, in percent; None: not all of them were seen."""
        return trickle.mean_of(self._steps, self.at, seconds)

    def pulses_over(self, seconds: float, above: float) -> int | None:
        """How often compute of `above` percent came and went in the last `seconds`; None: not like a clock."""
        return trickle.pulses_of(self._steps, self.at, seconds, above)

    @property
    def _steps(self) -> trickle.Stretches:
        return self.stretches if self.stretch is None else (*self.stretches, self.stretch)

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
                root=holder.owner.root,
                began=now,
                at=now,
                compute=compute,
                tree=frozenset(holder.tree),
                used_at=holder.owner.used_at,
                visited_at=now if _has_visitors(holder) else None,
                unseen_at=now if _is_board(holder) and not _shows_visitors(holder) else None,
                quiet_at=now if compute < QUIET_BELOW else None,
                efforts=(_effort(holder, now),),
                activity=holder.activity,
            )
    return following


def _extend(window: Window, holder: Holder, compute: float, now: float) -> Window:
    # Rounded up to a tenth, so that the staircase has at most a thousand steps and errs on the busy side.
    both_ends = ceil(max(window.compute, compute) * 10) / 10
    peaks = window.peaks
    if both_ends > 0:
        peaks = (*(peak for peak in peaks if peak.percent > both_ends), Peak(both_ends, now))
    tree = frozenset(holder.tree)
    visited_at = now if _has_visitors(holder) else window.visited_at
    uses = [at for at in (window.used_at, holder.owner.used_at) if at is not None]
    is_board = _is_board(holder)
    if visited_at is not None and is_board:
        uses.append(visited_at)
    recent = (*(span for span in window.recent if span.end > now - MINUTE), Span(window.at, now, compute))
    efforts = (*(effort for effort in window.efforts if effort.at >= now - MINUTE), _effort(holder, now))
    is_busy = not is_board and _is_busy(efforts)  # a TensorBoard that loads its logs is not in use for that
    young, grown_at = _grown_up(window, holder, now)
    span = trickle.Stretch(window.at, now, compute * (now - window.at), compute)
    stretches, stretch = trickle.lengthen(window.stretches, window.stretch, span)
    return Window(
        root=window.root,
        began=window.began,
        at=now,
        compute=compute,
        tree=tree,
        used_at=max(uses) if uses else None,
        grown_at=grown_at,
        young=young,
        peaks=peaks,
        recent=recent,
        efforts=efforts,
        busy_at=now if is_busy else window.busy_at,
        visited_at=visited_at,
        unseen_at=now if _is_unseen(window, holder) else window.unseen_at,
        quiet_at=now if compute < QUIET_BELOW else window.quiet_at,
        stretches=stretches,
        stretch=stretch,
        activity=holder.activity,
    )


def _has_visitors(holder: Holder) -> bool:
    return holder.activity is not None and bool(holder.activity.visitors)


def _shows_visitors(holder: Holder) -> bool:
    return holder.activity is not None and holder.activity.visitors is not None


def _is_board(holder: Holder) -> bool:
    return holder.owner.key.kind is OwnerKind.TENSORBOARD


def _is_unseen(window: Window, holder: Holder) -> bool:
    """Whether what its processes do apart from GPUs was hidden since the reading before, though it should be seen.

    It is seen of TensorBoards and of those that hold a GPU, of these from the second reading on.
    """
    if not _is_board(holder) and not holder.holdings:
        return False
    was_unseen = window.activity is None and window.unseen_at == window.at
    if _is_board(holder):
        return was_unseen or not _shows_visitors(holder)
    return was_unseen or (holder.activity is None and window.activity is not None)


def _effort(holder: Holder, now: float) -> Effort:
    return Effort(now, holder.cpu, None if holder.activity is None else holder.activity.io)


def _is_busy(efforts: tuple[Effort, ...]) -> bool:
    """Whether the processes did more in all this time than just being alive."""
    first, last = efforts[0], efforts[-1]
    if _is_much(first.cpu, last.cpu, BUSY_CPU_SECONDS):
        return True
    looked = [effort.io for effort in efforts if effort.io is not None]
    return len(looked) > 1 and _is_much(looked[0], looked[-1], BUSY_BYTES)


def _is_much(before: Mapping[ProcessKey, float], after: Mapping[ProcessKey, float], floor: float) -> bool:
    """Whether one process did at least `floor`, or all together more than so many at rest do.

    Of a process that is new, all that it has done counts.
    """
    if before is after:
        return False
    most = done = 0.0
    for key, amount in after.items():
        more = max(0.0, amount - before.get(key, 0.0))
        done += more
        most = max(most, more)
    return most >= floor or done >= floor * (1 + (len(after) - 1) / 2)


def _grown_up(window: Window, holder: Holder, now: float) -> tuple[Mapping[ProcessKey, float], float | None]:
    """The processes that are too young to count, and when the newest came that counts.

    What comes and goes within a minute, such as a look at `nvidia-smi` every now and then, is no use.
    """
    tree = frozenset(holder.tree)
    fresh = tree - window.tree
    if not fresh and not window.young:
        return window.young, window.grown_at
    on_device = {row.key for holding in holder.holdings for row in holding.processes}
    came = {**window.young, **dict.fromkeys(fresh, now)}
    young, grown_at = {}, window.grown_at
    for key, at in came.items():
        if key not in tree:
            continue
        if key in on_device or now - at >= MINUTE:
            grown_at = at if grown_at is None else max(grown_at, at)
        else:
            young[key] = at
    return young, grown_at


def minute_compute(window: Window | None, holder: Holder) -> Reading:
    """The compute to show: the mean of the last minute seen, or why there is none.

    Without a Window, because its memory is not known, it is the last reading.
    """
    return window.minute_mean() if window is not None and is_known(holder.compute) else holder.compute
