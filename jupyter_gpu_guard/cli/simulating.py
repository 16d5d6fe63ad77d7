"""`simulate`: recordings and series under several policies, side by side, and what each would have come to."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain, islice, pairwise
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from jupyter_gpu_guard.core.policy import NOBODY, Policy, Site
from jupyter_gpu_guard.core.series import SeriesSimulation
from jupyter_gpu_guard.core.simulate import Simulation
from jupyter_gpu_guard.core.tally import Ended, Tally
from jupyter_gpu_guard.quantities import say_duration
from jupyter_gpu_guard.snapshots import LineError, parse_header
from jupyter_gpu_guard.sources.replay import Recording, RecordingError
from jupyter_gpu_guard.sources.series import Part, SeriesError, parts, points

from .replaying import SHORTEST_SPAN, looks
from .tables import plain

HOUR = 3600.0
GIB = float(2**30)
WORTH_A_PROCESS = 2**22  # bytes to read; less is done sooner than another process has begun
_BETWEEN_REPORTS = 5000  # readings
_ROW = 20  # bytes of a row, about: for the progress
_FIRST_STEPS = 50  # by which the interval of a series is known

__all__ = ["RecordingError", "SeriesError", "Simulated", "as_json", "simulate", "view"]

Progress = Callable[[int], object]


@dataclass(frozen=True)
class Work:
    """Something to replay in one go: a recording, or a few series that stand together in a file."""

    path: Path
    size: int
    series: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Terms:
    """What all is replayed under. `interval`: seconds between two points of a series; None: by its first points."""

    policies: tuple[Policy, ...]
    interval: float | None
    site: Site


@dataclass
class Simulated:
    """What came of it: a Tally for each policy, in their order."""

    tallies: list[Tally]
    notes: list[str] = field(default_factory=list)

    def include(self, other: Simulated) -> None:
        """Add what `other` has counted."""
        for ours, theirs in zip(self.tallies, other.tallies, strict=True):
            ours.include(theirs)
        self.notes += [note for note in other.notes if note not in self.notes]


def simulate(
    files: Sequence[Path],
    policies: Sequence[Policy],
    *,
    interval: float | None = None,
    processes: int | None = None,
    site: Site = NOBODY,
    progress: Callable[[int, int], object] = lambda done, whole: None,  # noqa: ARG005
) -> Simulated:
    """All `files` under each policy. Raises SeriesError or RecordingError for the first file that cannot be read.

    `interval`: seconds between two points of a series; None: by its first points. `processes`: at most so many at once;
    None: as many as there are cores. `site`: whose servers they were. `progress` is told the bytes done, and all.
    """
    terms = Terms(tuple(policies), interval, site)
    work = _join(chain.from_iterable(_work(path) for path in files))
    whole = sum(each.size for each in work)
    result = Simulated([Tally() for _ in policies])
    count = min(len(work), processes or _cores(), 1 + whole // WORTH_A_PROCESS)
    if count < 2:  # noqa: PLR2004
        done = 0
        for each in work:
            result.include(_do(each, terms, _from(done, lambda part: progress(part, whole))))
            done += each.size
            progress(done, whole)
        return result
    context = multiprocessing.get_context("spawn")
    told = context.Value("q", 0)
    with ProcessPoolExecutor(count, context, initializer=_begin, initargs=(told,)) as pool:
        waiting = [pool.submit(_do_apart, each, terms) for each in work]
        try:
            open_ones = set(waiting)
            while open_ones:
                finished, open_ones = wait(open_ones, timeout=0.2, return_when=FIRST_COMPLETED)
                progress(min(told.value, whole), whole)
                for future in finished:
                    future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    for future in waiting:
        result.include(future.result())
    progress(whole, whole)
    return result


def _from(begin: int, progress: Progress) -> Progress:
    """`progress` for what begins after so many bytes."""
    return lambda done: progress(begin + done)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _work(path: Path) -> Iterator[Work]:
    try:
        with path.open("rb") as file:
            first = file.readline(2**16).decode(errors="replace")
        size = path.stat().st_size
    except OSError as error:
        raise SeriesError(f"{path}: {error.strerror}; give the path of a CSV file or a recording") from None
    try:
        is_recording = first.lstrip().startswith("{") or parse_header(first) is not None
    except LineError as error:
        raise RecordingError(f"{path}:1: {error}") from None
    if is_recording:
        yield Work(path, size)
        return
    for part in parts(path):
        yield Work(path, part.end - part.begin, (part,))


def _join(work: Iterator[Work]) -> list[Work]:
    """`work` with small series that stand together in one piece."""
    joined: list[Work] = []
    for each in work:
        last = joined[-1] if joined else None
        if last and each.series and last.series and last.path == each.path and last.size < WORTH_A_PROCESS:
            joined[-1] = Work(last.path, last.size + each.size, last.series + each.series)
        else:
            joined.append(each)
    return joined


def _begin(told: Any) -> None:
    """What a process is given when it begins: the count of bytes that all have done."""
    global _told  # noqa: PLW0603 - the only way into a process of a pool
    _told = told


_told: Any = None


def _do_apart(work: Work, terms: Terms) -> Simulated:
    reported = 0

    def progress(done: int) -> None:
        nonlocal reported
        with _told.get_lock():
            _told.value += done - reported
        reported = done

    result = _do(work, terms, progress)
    progress(work.size)
    return result


def _do(work: Work, terms: Terms, progress: Progress) -> Simulated:
    if not work.series:
        return _recording(work, terms, progress)
    result, done = Simulated([Tally() for _ in terms.policies]), 0
    for part in work.series:
        result.include(Simulated(_series(part, terms, _from(done, progress))))
        done += part.end - part.begin
    return result


def _series(part: Part, terms: Terms, progress: Progress) -> list[Tally]:
    coming = points(part)
    first = list(islice(coming, _FIRST_STEPS + 1))
    steps = [after.at - before.at for before, after in pairwise(first)]
    longest_span = max(SHORTEST_SPAN, 2 * (terms.interval or (median(steps) if steps else 0.0)))
    simulations = [SeriesSimulation(part.name, policy, longest_span, site=terms.site) for policy in terms.policies]
    for number, point in enumerate(chain(first, coming), start=1):
        for simulation in simulations:
            simulation.see(point)
        if number % _BETWEEN_REPORTS == 0:
            progress(min(part.end - part.begin, number * _ROW))
    return [simulation.tally for simulation in simulations]


def _recording(work: Work, terms: Terms, progress: Progress) -> Simulated:
    recording = Recording(work.path)
    result = Simulated([Tally() for _ in terms.policies])
    simulations: list[Simulation] = []
    names = True

    def settle() -> None:
        for tally, simulation in zip(result.tallies, simulations, strict=False):
            tally.include(simulation.tally)

    for number, look in enumerate(looks(recording), start=1):
        if look.is_new_run:
            settle()
            simulations = [Simulation(policy, terms.site) for policy in terms.policies]
        for simulation in simulations:
            simulation.see(look.snapshot, look.longest_span)
        names &= look.header.names
        if number % 100 == 0:
            progress(min(work.size, recording.bytes_read))
    settle()
    result.notes += recording.notes
    if not names and any(rule.match.notebook is not None for policy in terms.policies for rule in policy.rules):
        result.notes.append(f"{work.path} is without names, so that no rule that matches a notebook applies.")
    return result


# --- what is shown --------------------------------------------------------------------------------------------------


def as_json(policies: Sequence[Policy], simulated: Simulated, regret: float) -> dict[str, Any]:
    """For programs. `regret` in seconds."""
    found = [
        {
            "policy": {"hash": policy.digest, "source": policy.source, "mode": policy.mode.value},
            "readings": tally.readings,
            "holders": tally.holders,
            "warned": tally.warned,
            "ended": len(tally.ended),
            "regretted": len(tally.regretted(regret)),
            "held_gpu_hours": tally.held.gpu_seconds / HOUR,
            "idle_gpu_hours": tally.held.idle_gpu_seconds / HOUR,
            "reclaimed_gpu_hours": tally.after.idle_gpu_seconds / HOUR,
            "reclaimed_gib_hours": tally.after.idle_byte_seconds / HOUR / GIB,
            "lost_gpu_hours": tally.after.computing_gpu_seconds / HOUR,
            "rules": dict(sorted(tally.rules.items())),
            "ends": [_end_as_json(ended) for ended in tally.ended],
        }
        for policy, tally in zip(policies, simulated.tallies, strict=True)
    ]
    return {"regret_seconds": regret, "policies": found, "notes": simulated.notes}


def _end_as_json(ended: Ended) -> dict[str, Any]:
    return {
        "at": ended.at.isoformat(),
        "owner": str(ended.owner),
        "name": ended.name,
        "rule": ended.rule,
        "idle_seconds": ended.idle_seconds,
        "reclaimed_gpu_hours": ended.after.idle_gpu_seconds / HOUR,
        "lost_gpu_hours": ended.after.computing_gpu_seconds / HOUR,
        "back_after_seconds": ended.back_after,
    }


def view(policies: Sequence[Policy], simulated: Simulated, regret: float) -> RenderableType:
    """For people. `regret` in seconds."""
    within = say_duration_of(regret)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Policy", overflow="fold")
    heads = ("Warned", "Ended", f"Back within {within}", "Idle GPU·h", "Reclaimed GPU·h", "GiB·h", "Lost GPU·h")
    for head in heads:
        table.add_column(head, justify="right")
    for policy, tally in zip(policies, simulated.tallies, strict=True):
        after = tally.after
        table.add_row(
            plain(policy.source),
            str(tally.warned),
            str(len(tally.ended)),
            str(len(tally.regretted(regret))),
            _hours(tally.held.idle_gpu_seconds),
            _hours(after.idle_gpu_seconds),
            _hours(after.idle_byte_seconds / GIB),
            _hours(after.computing_gpu_seconds),
        )
    first = simulated.tallies[0]
    seen = f"{first.readings:,} readings of {first.holders:,} notebooks, terminals and boards that held a GPU for "
    lines = [f"{seen}{_hours(first.held.gpu_seconds)} GPU·h."]
    notes = [f"Note: {plain(note)}" for note in simulated.notes]
    return Group(*map(Text, lines), "", table, *map(Text, notes))


def say_duration_of(seconds: float) -> str:
    """`24h` and not `1d`: as people write it."""
    whole = round(seconds / HOUR)
    return f"{whole}h" if whole * HOUR == seconds else say_duration(timedelta(seconds=seconds))


def _hours(seconds: float) -> str:
    return f"{seconds / HOUR:,.1f}"
