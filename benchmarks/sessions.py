"""Notebook sessions to judge policies by: recorded ones, and made-up ones with the spread that is published.

A session is a row of spans, each of one kind: a cell computes on the GPU, a cell runs and the GPU idles, or no cell
runs. Memory is held all the time.
"""

from __future__ import annotations

import csv
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from math import exp, log
from pathlib import Path
from statistics import NormalDist

from jupyter_gpu_guard.core.model import OwnerState
from jupyter_gpu_guard.core.series import Point

IDLE_BELOW = 5.0  # percent
MIB, GIB = float(2**20), float(2**30)
MINUTE, HOUR = 60.0, 3600.0
NOT_RECORDED = 8 * GIB  # held, where the recording does not say how much
STEP = 30.0  # seconds between two readings


class Kind(Enum):
    """What goes on in a span."""

    COMPUTE = "compute"
    ASLEEP = "a cell runs and the GPU idles"
    REST = "no cell runs"


@dataclass(frozen=True)
class Span:
    """From `begin` to `end` seconds."""

    begin: float
    end: float
    kind: Kind
    percent: float
    memory: float

    @property
    def is_idle(self) -> bool:
        """Without compute worth mentioning."""
        return self.kind is not Kind.COMPUTE

    def after(self, moment: float) -> float:
        """Seconds of it that lie after `moment`."""
        return max(0.0, self.end - max(self.begin, moment))


@dataclass(frozen=True)
class Session:
    """One notebook. `owner` is whoever ran it, `began` when (seconds of the epoch)."""

    name: str
    owner: str
    began: float
    spans: tuple[Span, ...]

    def points(self, *, states: bool) -> Iterator[Point]:
        """As a guard would read it; without `states` nothing is known of cells."""
        yield Point(0.0, self.spans[0].percent, self.spans[0].memory, self._state(self.spans[0], states=states))
        for span in self.spans:
            steps = max(1, round((span.end - span.begin) / STEP))
            length = (span.end - span.begin) / steps
            for n in range(1, steps + 1):
                at = span.end if n == steps else span.begin + n * length
                yield Point(at, span.percent, span.memory, self._state(span, states=states))

    @staticmethod
    def _state(span: Span, *, states: bool) -> OwnerState:
        return OwnerState.EXECUTING if states and span.kind is not Kind.REST else OwnerState.IDLE

    def minutes(self) -> list[float]:
        """The mean compute of each whole minute; what was not sampled counts as 0."""
        sums: dict[int, float] = defaultdict(float)
        seen: dict[int, float] = defaultdict(float)
        for span in self.spans:
            if span.kind is Kind.REST:
                continue
            begin = span.begin
            while begin < span.end - 1e-9:
                minute = int((begin + 1e-9) // MINUTE)
                end = min(span.end, (minute + 1) * MINUTE)
                sums[minute] += span.percent * (end - begin)
                seen[minute] += end - begin
                begin = end
        whole = int(self.spans[-1].end // MINUTE)
        return [sums[n] / seen[n] if seen[n] else 0.0 for n in range(whole)]


def recorded(folder: Path) -> list[Session]:
    """The notebooks whose samples lie in `folder`: one device of each, and of no other runs than those in Jupyter.

    A sample stands for the time up to the next. Where the next is more than three intervals away no cell ran.
    """
    sessions = []
    for listed in sorted(folder.glob("*_series.csv")):
        with listed.open(newline="", encoding="utf-8") as file:
            chosen = {row["series_id"]: row for row in csv.DictReader(file) if row["jupyter"] == "1"}
        samples: dict[str, list[dict[str, str]]] = defaultdict(list)
        with listed.with_name(listed.name.replace("_series", "")).open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row["series_id"] in chosen:
                    samples[row["series_id"]].append(row)
        first_device: dict[str, str] = {}
        for series in sorted(samples):
            first_device.setdefault(series.rsplit("-g", 1)[0], series)
        for series in first_device.values():
            about = chosen[series]
            spans = tuple(_spans(samples[series], float(about["sample_s"])))
            sessions.append(Session(series, about["repo"], float(about["t0_unix"]), spans))
    return sessions


def _spans(samples: Sequence[dict[str, str]], interval: float) -> Iterator[Span]:
    memory = NOT_RECORDED
    for row, following in zip(samples, [*samples[1:], None], strict=True):
        begin, percent = float(row["t_s"]), float(row["gpu_util_pct"])
        memory = float(row["mem_used_mib"]) * MIB if row["mem_used_mib"] else memory
        end = begin + interval if following is None else float(following["t_s"])
        until = begin + interval if end - begin > 3 * interval else end
        yield Span(begin, until, Kind.COMPUTE if percent >= IDLE_BELOW else Kind.ASLEEP, percent, memory)
        if until < end:
            yield Span(until, end, Kind.REST, 0.0, memory)


# --- made up --------------------------------------------------------------------------------------------------------

# Published of 3 million instances of a shared cluster (Alibaba PAI, 2020): mean utilisation 10.5 %, median 1.5 %, and
# 34.5 % of the instances never compute. A lognormal for the others that agrees with all three:
NEVER_COMPUTE = 0.345
MEDIAN_PERCENT, MEAN_PERCENT = 1.5, 10.5
MOST_PERCENT = 90.0  # of any session
# Of the idle periods of 93,451 jobs (Philly, 2017) 65 % lay within the job, and were pauses: 65 for 35 that ended it.
PAUSES_BEFORE_THE_LAST = 0.65 / 0.35
# Nothing is published of these; they are assumptions.
BUSY_PERCENT = (30.0, 90.0)  # compute while there is some
MEDIAN_HOURS, SPREAD = 3.0, 1.0  # of a session: lognormal
ASLEEP_SHARE = 0.2  # of the pauses: a cell runs in them


def made_up(count: int, seed: int = 1) -> list[Session]:
    """`count` sessions, the same ones at each run."""
    dice = random.Random(seed)
    return [_made_up(f"made-up-{n}", dice) for n in range(count)]


def _level(dice: random.Random) -> float:
    """The mean utilisation of one session, in percent."""
    if dice.random() < NEVER_COMPUTE:
        return 0.0
    return min(MOST_PERCENT, dice.lognormvariate(*_spread()))


@cache
def _spread() -> tuple[float, float]:
    """Mu and sigma of the lognormal that, cut off, agrees with what is published."""
    normal = NormalDist()
    z = normal.inv_cdf((0.5 - NEVER_COMPUTE) / (1 - NEVER_COMPUTE))

    def mean(sigma: float) -> float:
        mu, cut = log(MEDIAN_PERCENT) - z * sigma, log(MOST_PERCENT)
        below = exp(mu + sigma * sigma / 2) * normal.cdf((cut - mu) / sigma - sigma)
        return below + MOST_PERCENT * (1 - normal.cdf((cut - mu) / sigma))

    low, high = 0.1, 5.0
    for _ in range(60):
        sigma = (low + high) / 2
        low, high = (sigma, high) if mean(sigma) < MEAN_PERCENT / (1 - NEVER_COMPUTE) else (low, sigma)
    return log(MEDIAN_PERCENT) - z * sigma, sigma


def _made_up(name: str, dice: random.Random) -> Session:
    length = min(48 * HOUR, dice.lognormvariate(0.0, SPREAD) * MEDIAN_HOURS * HOUR)
    level = _level(dice)
    busy_percent = max(dice.uniform(*BUSY_PERCENT), level)
    busy = length * level / busy_percent
    pauses = 0
    while level and dice.random() < PAUSES_BEFORE_THE_LAST / (1 + PAUSES_BEFORE_THE_LAST):
        pauses += 1
    idle = _shares(dice, length - busy, pauses + 1)
    work = _shares(dice, busy, pauses + 1) if busy else [0.0]
    spans: list[Span] = []
    at, memory = 0.0, dice.uniform(2, 40) * GIB
    for n, (computing, resting) in enumerate(zip(work, idle, strict=True)):
        kind = Kind.ASLEEP if n < pauses and dice.random() < ASLEEP_SHARE else Kind.REST
        for seconds, what, percent in ((computing, Kind.COMPUTE, busy_percent), (resting, kind, 0.0)):
            if seconds >= 1.0:
                spans.append(Span(at, at + seconds, what, percent, memory))
                at += seconds
    return Session(name, "made up", 0.0, tuple(spans))


def _shares(dice: random.Random, whole: float, count: int) -> list[float]:
    """`whole` in `count` parts of very different sizes."""
    weights = [dice.lognormvariate(0.0, 1.5) for _ in range(count)]
    return [whole * weight / sum(weights) for weight in weights]
