"""The process table of this pid namespace, read from /proc."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jupyter_gpu_guard.core.model import Process, ProcessKey

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# The fields we want end well before this many bytes: a name has at most 64 bytes and 21 numbers follow it.
_STAT_BYTES = 1024

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


class ProcfsProcesses:
    """`Processes` from a proc file system. Making one touches nothing; without /proc each reading raises OSError."""

    def __init__(self, root: Path = Path("/proc")) -> None:
        self._root = root
        self._known: dict[str, tuple[bytes, Process]] = {}

    def read(self, closely: Collection[int] | None = None) -> Mapping[int, Process]:  # noqa: ARG002
        """All processes by pid. Blocks for about 10 microseconds per process. What ends meanwhile is simply absent."""
        known, seen = self._known, {}
        folder = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for name in os.listdir(folder):  # noqa: PTH208 - a Path for each of 5,000 processes costs more than the scan
                if not name.isdecimal():
                    continue
                text = _contents(f"{name}/stat", folder)
                before = known.get(name)
                if before is not None and before[0] == text:
                    seen[name] = before  # most processes sleep, and a sleeping one has the same text as last time
                elif text and (process := self._process(text)) is not None:
                    seen[name] = (text, process)
        finally:
            os.close(folder)
        self._known = seen
        return {process.key.pid: process for _, process in seen.values()}

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
