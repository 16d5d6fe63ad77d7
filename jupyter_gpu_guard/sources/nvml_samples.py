"""Compute per process since the previous reading, out of the driver's ring of utilisation samples.

The ring keeps about ten seconds. A process that did nothing is absent from an answer, and so is every process when the
call fails: absence is 0 only after an answer that covers the whole time since the previous one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jupyter_gpu_guard.core.model import Reading, Unknown, Why, highest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Ask = Callable[[int], list[Any] | Unknown]

RING_SECONDS = 10.0
SHORTEST_SECONDS = 0.5
_CLOCK_STEP = 1.0
_SLACK = 5.0
_DAY = 86_400.0  # a driver that counts from 1970 or later is never that far ahead of our clock
_OTHER_ENGINES = ("encUtil", "decUtil", "jpgUtil", "ofaUtil")  # the last two are not in every form of the samples
# What `pynvml` puts in front of this decodes text, of which there is none here, and takes ten times as long.
_field = object.__getattribute__
_FULL = 100


@dataclass(frozen=True)
class Computed:
    """Percent by pid since the previous reading; `absent` is what holds for every process that is not named.

    `others` is that of the engines for video and pictures, for those that are named.
    """

    named: Mapping[int, Reading] = field(default_factory=dict)
    absent: Reading = 0
    others: Mapping[int, Reading] = field(default_factory=dict)

    def of(self, pid: int) -> Reading:
        """Percent of this process."""
        return self.named.get(pid, self.absent)

    def apart_from_compute(self, pid: int) -> Reading:
        """Percent of this process on the engines for video and pictures."""
        return self.others.get(pid, self.of(pid))


def busiest(answers: Iterable[Computed]) -> Computed:
    """Join answers about different engines: the larger counts, and what one does not know is not known."""
    every = tuple(answers)
    pids = {pid for answer in every for pid in answer.named}
    return Computed(
        {pid: highest(a.of(pid) for a in every) for pid in pids},
        highest(a.absent for a in every),
        {pid: highest(a.apart_from_compute(pid) for a in every) for pid in pids},
    )


class SampleCursor:
    """Where in the ring of one device the previous reading ended.

    The driver's time stamps may count from 1970 or from boot, so only stamps that it returned are given back to it, and
    our own clocks only tell whether the answer can be trusted.
    """

    def __init__(self) -> None:
        self._newest = 0  # the newest stamp seen, in the driver's microseconds
        self._newest_seen_at = 0.0
        self._read_at: float | None = None
        self._wall_at = 0.0
        self._last: Computed | None = None

    def read(self, ask: Ask, monotonic: float, wall: float) -> Computed:
        """Ask for the samples since the previous reading. `ask` takes the stamp of the newest sample already seen."""
        if self._last is not None and self._read_at is not None and monotonic - self._read_at < SHORTEST_SECONDS:
            return self._last  # the driver samples one to six times a second: "nothing new" would not mean idle
        self._last = None
        doubt = self._doubt(monotonic, wall)
        if doubt is not None:
            self._newest = 0  # after a clock was set back the driver would answer "nothing newer" for as long
        rows = ask(self._newest)
        if isinstance(rows, Unknown):
            return Computed(absent=rows)
        named, others, newest = self._sort(rows)
        furthest = 1e6 * (wall + _DAY)
        if self._newest > 0:
            furthest = self._newest + 1e6 * (monotonic - self._newest_seen_at + RING_SECONDS + _SLACK)
        if newest > furthest:
            self._newest, self._read_at = 0, None  # with such a stamp every later sample would look old
            return Computed(absent=Unknown(Why.IMPLAUSIBLE, "the driver's time stamps leapt ahead"))
        self._read_at, self._wall_at = monotonic, wall
        if newest > self._newest:
            self._newest, self._newest_seen_at = newest, monotonic
        self._last = Computed(named, others=others) if doubt is None else Computed(absent=doubt)
        return self._last

    def _doubt(self, monotonic: float, wall: float) -> Unknown | None:
        if self._read_at is None:
            return Unknown(Why.FIRST_READING)
        passed = monotonic - self._read_at
        if passed > RING_SECONDS:
            return Unknown(Why.NOT_READ, f"not read for {passed:.0f} s; the driver keeps {RING_SECONDS:.0f} s")
        if abs((wall - self._wall_at) - passed) > _CLOCK_STEP:
            return Unknown(Why.NOT_READ, "the clock was set, or the machine slept")
        return None

    def _sort(self, rows: list[Any]) -> tuple[Mapping[int, Reading], Mapping[int, Reading], int]:
        """Plausible rows by pid, those of other engines, and the newest stamp. Implausible rows alone are Unknown."""
        used: dict[int, float] = {}
        others: dict[int, float] = {}
        implausible: dict[int, Reading] = {}
        newest = self._newest
        engines = [engine for engine in _OTHER_ENGINES if rows and hasattr(rows[0], engine)]
        for row in rows:
            pid, stamp = _field(row, "pid"), _field(row, "timeStamp")
            other = max([_field(row, engine) for engine in engines], default=0)
            percent = max(_field(row, "smUtil"), other)
            if pid == 0:
                continue
            if percent > _FULL or (stamp == 0 and percent > 0):
                said = f"the driver says {percent} %" if percent > _FULL else "the driver's sample has no time"
                implausible[pid] = Unknown(Why.IMPLAUSIBLE, said)
            elif stamp > self._newest:  # drivers also return rows that were seen before
                used[pid] = max(used.get(pid, 0), percent)
                others[pid] = max(others.get(pid, 0), other)
                newest = max(newest, stamp)
        return {**implausible, **used}, others, newest
