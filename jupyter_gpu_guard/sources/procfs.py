"""The process table of this pid namespace, read from /proc."""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta, timezone
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jupyter_gpu_guard.core.model import Process, ProcessKey

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

# The fields we want end well before this many bytes: a name has at most 64 bytes and 21 numbers follow it.
_STAT_BYTES = 1024

# Seconds for which a row is kept that nobody asked for. They differ by pid, so that not all are read at once.
_KEPT_AT_LEAST = 40
_KEPT_LONGER = 16

# Any other error (too many open files, no memory) is ours and not the process's: it must not look like an empty table.
_VANISHED = (FileNotFoundError, ProcessLookupError, PermissionError)


class Stat(NamedTuple):
    """The fields of /proc/PID/stat that make a `Process`."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    start_ticks: int
    cpu_ticks: int = 0


def parse_stat(text: bytes) -> Stat:
    """The fields of one /proc/PID/stat, whatever the process calls itself. Raises ValueError if it is no such text.

    The name (field 2) stands in parentheses and may itself contain spaces, newlines and parentheses, but nothing
    after it does: the last closing one ends it.
    """
    opening, closing = text.find(b" ("), text.rfind(b") ")
    fields = text[closing + 2 :].split(None, 20) if 0 < opening < closing else []
    if len(fields) < 20:  # noqa: PLR2004 - field 22 of proc(5) is the twentieth after the name
        raise ValueError("not a /proc/PID/stat")
    return Stat(
        pid=int(text[:opening]),
        state=fields[0].decode("ascii"),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        start_ticks=int(fields[19]),
        cpu_ticks=sum(max(0, int(field)) for field in fields[11:15]),
    )


def parse_boot_time(text: bytes) -> int:
    """Seconds since the epoch at which the machine started, from /proc/stat. Raises ValueError if it is not said."""
    for line in text.splitlines():
        if line.startswith(b"btime "):
            return int(line[6:])
    raise ValueError("no btime in /proc/stat")


class _Row(NamedTuple):
    """What is remembered of one entry of /proc. `inode` is that of its directory, `due` when it is read again."""

    inode: int
    due: float
    text: bytes
    process: Process


class ProcfsProcesses:
    """`Processes` from a proc file system. Making one touches nothing; without /proc each reading raises OSError.

    The kernel gives the directory of each process an inode number of its own, and takes it away when the process is
    reaped. So the same number means the same process, as long as that was alive when its row was read: the row of one
    that is over is always read again, since its pid may be given away while the entry still stands.
    """

    def __init__(self, root: Path = Path("/proc"), monotonic: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._monotonic = monotonic
        self._rows: dict[str, _Row] = {}

    def read(self, closely: Collection[int] | None = None) -> Mapping[int, Process]:
        """All processes by pid. What ends meanwhile is simply absent.

        Blocks for about 1 microsecond per process, and 20 for each that is read: those in `closely` (None: all), the
        new ones, those that were over, and the others in turn, each at least once a minute.
        """
        now = self._monotonic()
        wanted = frozenset() if closely is None else frozenset(map(str, closely))
        rows = self._rows
        seen: dict[str, _Row] = {}
        table: dict[int, Process] = {}
        folder = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    name = entry.name
                    if not name.isdecimal():
                        continue
                    row = rows.get(name)
                    is_old = row is None or row.due <= now or row.inode != entry.inode()
                    if is_old or closely is None or name in wanted:
                        row = self._read_again(folder, entry, row, now)
                    if row is not None:
                        seen[name] = row
                        table[row.process.key.pid] = row.process
        finally:
            os.close(folder)
        self._rows = seen
        return table

    def _read_again(self, folder: int, entry: os.DirEntry[str], before: _Row | None, now: float) -> _Row | None:
        """The row of this moment, or None if there is no such process any more."""
        text = _contents(f"{entry.name}/stat", folder)
        if before is not None and before.text == text:
            process: Process | None = before.process  # a sleeping one has the same text as last time
        else:
            process = self._process(text) if text else None
        if process is None:
            return None
        due = now if process.is_over else now + _KEPT_AT_LEAST + process.key.pid % _KEPT_LONGER
        return _Row(entry.inode(), due, text, process)

    def identify(self, pid: int) -> Process | None:
        """One process, or None if there is none. Reads one small file."""
        text = _contents(f"{self._root}/{pid}/stat", None) if pid > 0 else b""
        return self._process(text) if text else None

    def _process(self, text: bytes) -> Process | None:
        try:
            stat = parse_stat(text)
        except ValueError:
            return None  # a torn text is no identity
        return Process(
            key=ProcessKey(stat.pid, stat.start_ticks),
            parent=stat.parent,
            group=stat.group,
            session=stat.session,
            state=stat.state,
            started_at=self._boot_time + timedelta(seconds=stat.start_ticks / self._ticks_per_second),
            cpu=stat.cpu_ticks / self._ticks_per_second,
        )

    # Both are read once: a process must not seem to start anew because the clock was set.
    @cached_property
    def _boot_time(self) -> datetime:
        seconds = parse_boot_time((self._root / "stat").read_bytes())
        return datetime.fromtimestamp(seconds, timezone.utc)

    @cached_property
    def _ticks_per_second(self) -> int:
        return os.sysconf("SC_CLK_TCK")


def _contents(path: str, folder: int | None) -> bytes:
    """The beginning of the file, or nothing if its process is gone or hidden. Any other fault raises OSError."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    except _VANISHED:
        return b""
    try:
        return os.read(handle, _STAT_BYTES)
    except _VANISHED:
        return b""
    finally:
        os.close(handle)
