"""Series of readings in CSV files: time, compute and memory of one kernel on one device, point by point.

The first line names the columns: `time` (seconds, or ISO 8601 with a zone), `compute_percent`, `memory_bytes` or
`memory_mib`, and, if there are any, `series` and `state`. Others are passed over. An empty cell is not known, never 0.
The rows of one series stand together, in the order of time. Files are read line by line, however long.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from math import inf
from pathlib import Path

from jupyter_gpu_guard.core.model import OwnerState, Reading, Unknown, Why
from jupyter_gpu_guard.core.series import Point

MIB = float(2**20)
FAR = 6e10  # seconds: nearly two millennia to either side; more is milliseconds
MOST_PERCENT = 100.0
MISSING = Unknown(Why.NOT_AVAILABLE)
_STATES = {state.value: state for state in OwnerState}
_MEMORY = {"memory_bytes": 1.0, "memory_mib": MIB}
_COLUMNS = ("time", "compute_percent", *_MEMORY, "series", "state")


class SeriesError(Exception):
    """A file that cannot be read as series; the text begins with the place and ends with what is expected."""


@dataclass(frozen=True)
class Columns:
    """Where in a row stands what, from 0. `memory_unit` in bytes."""

    time: int
    compute: int
    memory: int
    memory_unit: float
    series: int | None = None
    state: int | None = None


@dataclass(frozen=True)
class Part:
    """One series in a file: the bytes from `begin` to `end`; `line` is the number of its first line."""

    path: Path
    name: str
    begin: int
    end: int
    line: int
    columns: Columns


def parts(path: Path) -> Iterator[Part]:
    """The series in the file at `path`, in its order. Raises SeriesError."""
    try:
        with path.open("rb") as file:
            yield from _parts(path, file.readline(), file)
    except OSError as error:
        raise SeriesError(f"{path}: {error.strerror}; give the path of a CSV file or a recording") from None
    except csv.Error as error:
        raise SeriesError(f"{path}: this is no CSV ({error})") from None


def points(part: Part) -> Iterator[Point]:
    """The points of one series. Raises SeriesError."""
    try:
        with part.path.open("rb") as file:
            file.seek(part.begin)
            yield from _points(part, csv.reader(_lines(file, part.end - part.begin)))
    except OSError as error:
        raise SeriesError(f"{part.path}: {error.strerror}") from None
    except csv.Error as error:
        raise SeriesError(f"{part.path}:{part.line}: in this series is no CSV ({error})") from None


def _parts(path: Path, head: bytes, rest: Iterator[bytes]) -> Iterator[Part]:
    columns = _columns(path, head)
    position = begin = len(head)
    first, name, seen = 2, b"", set[bytes]()
    begins = b""  # of a row of the same series, where that can be told from its begin
    for number, line in enumerate(rest, start=2):
        if begins and line.startswith(begins):
            position += len(line)
            continue
        found = b"" if columns.series is None else _cell(line, columns.series)
        if columns.series is not None and not found and line.strip():
            raise SeriesError(f"{path}:{number}: no name in the column `series`; give each row one")
        if found != name and line.strip():
            if name:
                yield Part(path, name.decode(errors="replace"), begin, position, first, columns)
            if found in seen:
                what = f"{found.decode(errors='replace')!r} goes on after another series has begun"
                raise SeriesError(f"{path}:{number}: {what}; sort the rows by `series`, then by `time`")
            seen.add(found)
            name, begin, first = found, position, number
            begins = name + b"," if columns.series == 0 and line.startswith(name + b",") else b""
        position += len(line)
    if position > begin:
        yield Part(path, name.decode(errors="replace") or path.stem, begin, position, first, columns)


def _cell(line: bytes, position: int) -> bytes:
    if b'"' in line:
        row = next(csv.reader([line.decode(errors="replace")]), [])
        return row[position].strip().encode() if position < len(row) else b""
    row_of_bytes = line.split(b",", position + 1)
    return row_of_bytes[position].strip() if position < len(row_of_bytes) else b""


def _columns(path: Path, head: bytes) -> Columns:
    names = [name.strip() for name in next(csv.reader([head.decode("utf-8-sig", errors="replace")]), [])]

    def find(*wanted: str) -> tuple[str, int]:
        present = [name for name in wanted if name in names]
        if len(present) == 1:
            return present[0], names.index(present[0])
        listed = " or ".join(f"`{name}`" for name in wanted)
        if present:
            raise SeriesError(f"{path}:1: both {listed}; give one of them")
        unread = [name for name in names if name not in _COLUMNS]
        close = get_close_matches(wanted[0], unread, n=1)
        hint = f"rename {close[0]!r} to {wanted[0]!r}" if close else f"the first line names {', '.join(_COLUMNS)}"
        raise SeriesError(f"{path}:1: no column {listed}; {hint}")

    memory, where = find(*_MEMORY)
    optional = {name: names.index(name) for name in ("series", "state") if name in names}
    return Columns(find("time")[1], find("compute_percent")[1], where, _MEMORY[memory], **optional)


def _lines(file: Iterator[bytes], length: int) -> Iterator[str]:
    for line in file:
        if length <= 0:
            return
        length -= len(line)
        yield line.decode(errors="replace")


def _points(part: Part, rows: Iterator[list[str]]) -> Iterator[Point]:
    before = float("-inf")
    where, unit = part.columns, part.columns.memory_unit
    when, how_busy, how_much, doing = where.time, where.compute, where.memory, where.state
    state = OwnerState.IDLE
    for number, row in enumerate(rows, start=part.line):
        try:  # the short way, for plain numbers
            at, compute, memory = float(row[when]), float(row[how_busy]), float(row[how_much]) * unit
            if doing is not None:
                state = _STATES[row[doing]]
            if -FAR < at < FAR and before < at and 0 <= compute <= MOST_PERCENT and 0 <= memory < inf:
                before = at
                yield Point(at, compute, memory, state)
                continue
        except (ValueError, IndexError, KeyError):
            pass
        if row:
            point = _carefully(row, where, f"{part.path}:{number}")
            if point.at <= before:
                raise SeriesError(
                    f"{part.path}:{number}: this is not later than the row above; sort the rows by `time`"
                )
            before = point.at
            yield point


def _carefully(row: list[str], where: Columns, place: str) -> Point:
    try:
        at = _time(row[where.time])
        compute = _reading(row[where.compute], 1.0, MOST_PERCENT)
        memory = _reading(row[where.memory], where.memory_unit, inf)
        state = OwnerState.IDLE if where.state is None else _state(row[where.state])
    except IndexError:
        raise SeriesError(f"{place}: this row is too short; the first line names its cells") from None
    except ValueError as error:
        raise SeriesError(f"{place}: {error}") from None
    return Point(at, compute, memory, state)


def _time(cell: str) -> float:
    try:
        at = float(cell)
    except ValueError:
        return _moment(cell)
    if not -FAR < at < FAR:
        raise ValueError(f"{cell!r} is no time; write seconds")
    return at


def _moment(cell: str) -> float:
    try:
        moment = datetime.fromisoformat(cell.strip().replace("Z", "+00:00"))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        what = "seconds, or a time such as 2026-03-01T09:30:00Z with its zone"
        raise ValueError(f"{cell!r} is no time; write {what}")
    return moment.timestamp()


def _reading(cell: str, unit: float, most: float) -> Reading:
    try:
        amount = float(cell)
    except ValueError:
        if not cell.strip():
            return MISSING
        raise ValueError(f"{cell!r} is no number; leave a cell empty that is not known") from None
    if 0 <= amount <= most and amount < inf:
        return amount * unit
    raise ValueError(f"{cell!r} is out of range; compute is a percentage from 0 to 100, memory is not negative")


def _state(cell: str) -> OwnerState:
    state = _STATES.get(cell.strip())
    if state is None:
        raise ValueError(f"{cell!r} is no state; write one of {', '.join(_STATES)}")
    return state
