"""What is parked, on disk: whoever comes after the server can still resume it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import Any

from jupyter_gpu_guard.core.model import OwnerKey, ProcessKey

from .target import lives

VERSION = 1
_LARGEST = 2**20  # bytes
_LOCK_SECONDS = 2.0
_WITHOUT_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS}


class Phase(str, Enum):
    """How far it has come."""

    BEGUN = "begun"  # nothing is known to have been done yet
    PARKED = "parked"
    UNCLEAR = "unclear"  # a step was broken off: its calls may wait


@dataclass(frozen=True)
class Entry:
    """One process that is parked, or is being parked. `memory` is in bytes by the UUID of the device."""

    owner: OwnerKey
    name: str
    root: ProcessKey
    process: ProcessKey
    since: datetime
    memory: Mapping[str, float]
    phase: Phase

    @property
    def bytes(self) -> float:
        """All that it had on devices."""
        return sum(self.memory.values())


class Registry:
    """The entries of all servers of one user, in one file. `put`, `remove` and `refresh` block; the rest does not.

    Whoever has ended is left out, and dropped from the file at the next change. `is_alive` tells who has not.
    """

    def __init__(self, path: Path, is_alive: Callable[[ProcessKey], bool] = lives) -> None:
        self.path = path
        self.problem: str | None = None
        self._is_alive = is_alive
        self._lock = threading.Lock()
        self._entries: Mapping[ProcessKey, Entry] = {}
        self._forgotten: set[ProcessKey] = set()  # those that could not be taken off the disk

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the file, in sentences."""
        return () if self.problem is None else (self.problem,)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """As of the last reading or change, the oldest first."""
        return tuple(sorted(self._entries.values(), key=lambda entry: entry.since))

    def of(self, owner: OwnerKey, root: ProcessKey | None) -> Entry | None:
        """The entry of `owner`, unless it concerns an earlier process of it."""
        found = (entry for entry in self._entries.values() if entry.owner == owner and entry.root == root)
        return next(found, None)

    def refresh(self) -> None:
        """Read the file. If it cannot be read, what was known stays, and `problem` says so."""
        with self._lock:
            try:
                self._entries = self._read()
            except OSError as fault:
                self.problem = f"What is parked cannot be read from {self.path} ({fault.strerror or fault})."

    def put(self, entry: Entry) -> None:
        """Remember `entry`; on return it is on disk. Raises OSError, and then it is not remembered."""
        self._forgotten.discard(entry.process)
        self._change(entry.process, entry)

    def remove(self, process: ProcessKey) -> None:
        """Forget the entry of `process`. Raises OSError if that cannot be written; here it is forgotten."""
        try:
            self._change(process, None)
        except OSError:
            self._forgotten.add(process)
            self._entries = {key: entry for key, entry in self._entries.items() if key != process}
            raise

    def _change(self, process: ProcessKey, entry: Entry | None) -> None:
        with self._lock:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(self.path.with_name(f"{self.path.name}.lock")):
                entries = {**self._read()}
                entries.pop(process, None)
                if entry is not None:
                    entries[process] = entry
                _write(self.path, entries.values())
            self._entries = entries

    def _read(self) -> Mapping[ProcessKey, Entry]:
        """Those in the file that live. A damaged file is kept for people under another name."""
        try:
            with self.path.open("rb") as file:
                content = file.read(_LARGEST + 1)
        except FileNotFoundError:
            return {}
        entries, is_whole = _parse(content)
        self.problem = None
        if not is_whole:
            aside = self.path.with_name(f"{self.path.name}.broken")
            self.problem = f"What is parked was damaged in {self.path}; the file is kept as {aside.name}."
            aside.write_bytes(content)
            known = {**self._entries, **{entry.process: entry for entry in entries}}
            _write(self.path, known.values())
            entries = list(known.values())
        return {
            entry.process: entry
            for entry in entries
            if entry.process not in self._forgotten and self._is_alive(entry.process)
        }


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            except OSError as fault:
                if fault.errno in _WITHOUT_LOCKS:
                    break  # each write still replaces the file in one step
                raise
        yield
    finally:
        os.close(descriptor)


def _write(path: Path, entries: Any) -> None:
    """Replace the file in one step."""
    rows = [_row(entry) for entry in sorted(entries, key=lambda entry: entry.since)]
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"version": VERSION, "parked": rows}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _row(entry: Entry) -> dict[str, Any]:
    return {
        "owner": str(entry.owner),
        "name": entry.name,
        "root": [entry.root.pid, entry.root.start_ticks],
        "process": [entry.process.pid, entry.process.start_ticks],
        "since": entry.since.isoformat(),
        "memory": dict(entry.memory),
        "phase": entry.phase.value,
    }


def _parse(content: bytes) -> tuple[list[Entry], bool]:
    """The entries that can be read, and whether those are all."""
    try:
        whole = json.loads(content) if len(content) <= _LARGEST else None
    except (ValueError, RecursionError):
        whole = None
    rows = whole.get("parked") if isinstance(whole, dict) else None
    if not isinstance(whole, dict) or not isinstance(rows, list):
        return [], False
    found = [_entry(row) for row in rows]
    entries = [entry for entry in found if entry is not None]
    return entries, len(entries) == len(found) and whole.get("version") == VERSION


def _entry(row: Any) -> Entry | None:
    try:
        since = datetime.fromisoformat(row["since"])
        entry = Entry(
            owner=OwnerKey.parse(row["owner"]),
            name=str(row["name"]),
            root=_key(row["root"]),
            process=_key(row["process"]),
            since=since.astimezone(timezone.utc),
            memory={str(device): float(amount) for device, amount in row["memory"].items()},
            phase=Phase(row["phase"]),
        )
    except (TypeError, KeyError, ValueError, AttributeError):
        return None
    return None if since.tzinfo is None else entry


def _key(pair: Any) -> ProcessKey:
    pid, start_ticks = pair
    return ProcessKey(int(pid), int(start_ticks))
