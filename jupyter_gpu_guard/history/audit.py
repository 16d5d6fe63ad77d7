"""The audit: what was done to whom, by which rule, on which readings. Lines of JSON that are only ever added.

One file for each server and day: several servers of one user may share a home, also over a network where no database
and no lock can be trusted, so none writes into another's file. A day's file is removed as a whole once all in it is
older than what is to be kept. A line that was cut off by a crash costs that line alone.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from jupyter_gpu_guard.core.entry import Entry, Kind, cut_off
from jupyter_gpu_guard.core.verdict import Outcome, Result

from .lines import LONGEST, entry_of, parse, to_line
from .living import Living, bury, is_over

BACKLOG = 5000  # entries that wait for a disk; beyond it the latest are lost, and that is said
BATCH = 200
MOST_DAYS = 36_500
AT_MOST = timedelta(hours=3)  # no act lasts longer, whatever its grace
_NAME = re.compile(r"(\d{4}-\d{2}-\d{2})\.([0-9a-z-]+)\.jsonl")


@dataclass(frozen=True)
class Extract:
    """Entries in the order of time, and how many lines could not be read."""

    entries: tuple[Entry, ...]
    unreadable: int = 0


class FileAudit:
    """`Journal` in one folder. It writes in a thread of its own, in order; whoever records never waits.

    `days` are kept; 0 or less: all. `retry`: seconds between two attempts on a disk that takes nothing. `server`
    is put into each entry. The folder and its files are readable by their owner alone.
    """

    def __init__(self, folder: Path, *, days: int = 90, retry: float = 10.0, server: str = "") -> None:
        self.folder = Path(folder)
        self._days = min(days, MOST_DAYS)
        self._retry = retry
        self.server = server
        self._run = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._living = Living(self.folder, self._run)
        self._changed = threading.Condition()
        self._waiting: deque[Entry] = deque()
        self._recorded = self._settled = self._lost = 0
        self._fault: str | None = None
        self._thread: threading.Thread | None = None
        self._closing = False
        self._tidied: date | None = None

    @property
    def problem(self) -> str | None:
        """What is wrong now, and what was lost since this server started; None: nothing."""
        count = f"{self._lost} entries" if self._lost > 1 else "1 entry"
        lost = f"Lost: {count} of the audit in {self.folder}." if self._lost else None
        return " ".join(part for part in (self._fault, lost) if part) or None

    def record(self, entry: Entry) -> None:
        """Remember `entry`, after all that were recorded before."""
        with self._changed:
            if len(self._waiting) >= BACKLOG:
                self._lost += 1
                return
            self._waiting.append(replace(entry, server=self.server or entry.server))
            self._recorded += 1
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._write_on, name="gpu-guard audit", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    async def written(self, within: float) -> bool:
        """Wait until all that was recorded is on disk, until that fails, or at most so many seconds."""
        with self._changed:
            if self._settled >= self._recorded:
                return True
            wanted = self._recorded
        return await asyncio.to_thread(self._wait, wanted, within)

    def close(self, within: float = 2.0) -> None:
        """Write what waits, at most so many seconds, and say that this server is over. Blocks."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(within)
        self._living.end()

    def read(self, since: datetime) -> Extract:
        """What this and all other servers of this folder have recorded from `since` on. Blocks.

        Raises OSError if the folder cannot be read.
        """
        return read(self.folder, since)

    def close_open_acts(self, now: datetime) -> None:
        """Record the outcome of acts whose server ended without one: it is not known. Blocks."""
        begun, ended = _acts(self.folder)
        for act, (run, entry) in begun.items():
            if act not in ended and run != self._run and is_over(self.folder, run, since=entry.at, most=AT_MOST):
                self.record(cut_off(entry, now))

    # ---- in the thread that writes ----

    def _write_on(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closing:
                    self._changed.wait()
                if not self._waiting:
                    return
                day, entries = next(groupby(islice(self._waiting, BATCH), _day))
                batch = list(entries)
            fault, lost = None, 0
            try:
                lost = self._append(batch, day)
            except OSError as error:
                fault = f"The audit cannot be written in {self.folder} ({error.strerror or error})."
            except Exception:  # noqa: BLE001 - an entry that cannot be written must not keep the others from it
                lost = len(batch)
            with self._changed:
                self._fault = fault
                if fault is None:
                    for _ in batch:
                        self._waiting.popleft()
                    self._settled += len(batch)
                    self._lost += lost
                elif self._closing:
                    return
                self._changed.notify_all()
                if fault is not None:
                    self._changed.wait_for(lambda: self._closing, self._retry)

    def _append(self, batch: list[Entry], day: date) -> int:
        """Write all of `batch`, for good, or nothing. Gives how many entries have no words. Raises OSError."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._living.begin()
        lines: list[bytes] = []
        for entry in batch:
            with suppress(TypeError, ValueError):
                line = to_line(entry)
                lines.append(line if len(line) <= LONGEST else to_line(replace(entry, grounds=None)))
        _add(self.folder / f"{day.isoformat()}.{self._run}.jsonl", b"".join(lines))
        if self._tidied != day:
            self._tidied = day
            with suppress(OSError):  # what is too old may stay for another day
                self._forget(day)
        return len(batch) - len(lines)

    def _forget(self, today: date) -> None:
        """Remove the files of days that need not be kept any more."""
        for day, _, path in _files(self.folder):
            if self._days > 0 and day < today - timedelta(days=self._days):
                path.unlink(missing_ok=True)
        bury(self.folder)

    def _wait(self, wanted: int, within: float) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._settled >= wanted or self._fault is not None, within)
            return self._settled >= wanted


def ends(entries: Iterable[Entry], before: datetime, server: str) -> tuple[Outcome, ...]:
    """The Outcomes among `entries` by which something was lost, or may have been, on `server` and until `before`.

    In the order of time, and of each notebook the last one only.
    """
    told = (entry.outcome for entry in entries if entry.server == server)
    lost = {Result.DONE, Result.FAILED, Result.UNKNOWN}
    found = [each for each in told if each is not None and each.action.loses_work and each.result in lost]
    earlier = sorted((each for each in found if each.at < before), key=lambda each: each.at)
    last = {(each.owner.kind, each.notebook or each.owner.id): each for each in earlier}
    return tuple(sorted(last.values(), key=lambda each: each.at))


def _day(entry: Entry) -> date:
    return entry.at.astimezone(timezone.utc).date()


def read(folder: Path, since: datetime) -> Extract:
    """What was recorded in `folder` from `since` on, by any server. Blocks. Raises OSError."""
    first = since.astimezone(timezone.utc).date()
    entries: list[Entry] = []
    unreadable = 0
    for day, _, path in _files(folder):
        if day < first:
            continue
        for line in _lines(path):
            told = parse(line)
            entry = entry_of(told) if told is not None else None
            if entry is None:
                unreadable += 1
            elif entry.at >= since:
                entries.append(entry)
    return Extract(tuple(sorted(entries, key=lambda entry: entry.at)), unreadable)


def _files(folder: Path) -> list[tuple[date, str, Path]]:
    """Day, server and path of every file, in the order of days. A folder that is not there yet holds none."""
    found = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        match = _NAME.fullmatch(path.name)
        if match is not None:
            try:
                found.append((date.fromisoformat(match[1]), match[2], path))
            except ValueError:
                continue
    return found


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while line := file.readline(LONGEST + 1):
                yield line
    except FileNotFoundError:
        return  # its days are over


def _acts(folder: Path) -> tuple[Mapping[str, tuple[str, Entry]], set[str]]:
    """The acts that were begun, each with its server, and those that have an outcome."""
    begun: dict[str, tuple[str, Entry]] = {}
    ended: set[str] = set()
    for _, run, path in _files(folder):
        for line in _lines(path):
            told: dict[str, Any] | None = parse(line) if b'"act"' in line else None
            act = told.get("act") if told is not None else None
            if told is None or not isinstance(act, str):
                continue
            if told.get("kind") != Kind.BEGUN.value:
                ended.add(act)
            elif (entry := entry_of(told)) is not None:
                begun[act] = (run, entry)
    return begun, ended


def _add(path: Path, text: bytes) -> None:
    """Add `text` to the end of the file, for good, or nothing at all. Raises OSError."""
    is_new = not path.exists()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        before = os.fstat(descriptor).st_size
        try:
            left = memoryview(text)
            while left:
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, before)  # nobody else writes here
            raise
    finally:
        os.close(descriptor)
    if is_new:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


__all__ = ["Extract", "FileAudit", "read"]
