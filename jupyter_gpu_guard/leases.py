"""People's promises on disk: a small JSON file that several servers of one user may share.

A lease that could not be written still holds while this server runs: a full disk must not cost anybody their work.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import RLock
from typing import Any

from .core.model import OwnerKey
from .core.verdict import Lease
from .protocols import Grant

VERSION = 1
LOCK_SECONDS = 2.0
LARGEST_FILE = 2**20
DAY = timedelta(days=1)  # for which grants are remembered, so that they can be counted


class LeaseNotSavedError(OSError):
    """The change could not be written. A granted lease holds until this server ends; an ended one holds on."""


class FileLeases:
    """The leases in one file. `problem` says in a sentence what is wrong with the file, if anything is.

    The folder and the file are readable by their owner alone. Safe to call from several threads and processes; reading
    costs one `stat` while nothing changes.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._fault: str | None = None
        self._damage: str | None = None
        self._lock = RLock()
        self._stored: dict[OwnerKey, Lease] = {}
        self._unsaved: dict[OwnerKey, Lease] = {}
        self._grants: tuple[Grant, ...] = ()
        self._unsaved_grants: tuple[Grant, ...] = ()
        self._stamp: tuple[int, ...] | None = None
        self._now = datetime.min.replace(tzinfo=timezone.utc)

    @property
    def problem(self) -> str | None:
        """What is wrong now, and any damage since this server started; None: nothing."""
        return " ".join(part for part in (self._fault, self._damage) if part) or None

    def active(self, now: datetime) -> Mapping[OwnerKey, Lease]:
        """The leases that hold at `now`; one holds to its last second. With an unreadable file: what was last read."""
        with self._lock:
            self._now = now
            self._refresh()
            leases = {**self._stored, **self._unsaved}
            return {owner: lease for owner, lease in leases.items() if now <= lease.until}

    def grants(self, since: datetime) -> tuple[Grant, ...]:
        """Those that any server of this user granted after `since`, of the last day at most, in the order of time."""
        with self._lock:
            self._refresh()
            return tuple(grant for grant in self._all_grants() if grant.at > since)

    def grant(self, lease: Lease, grant: Grant | None = None) -> None:
        """Remember `lease`, replacing an earlier one of its owner, and that it was granted; on return it is on disk.

        Raises LeaseNotSavedError: it holds, and counts, but only until this server ends.
        """
        with self._lock:
            self._unsaved[lease.owner] = lease
            if grant is not None:
                self._unsaved_grants = (*self._unsaved_grants, grant)
            self._change({lease.owner: lease})

    def end(self, owner: OwnerKey) -> bool:
        """Forget the lease of `owner`. False: there was none. Raises LeaseNotSavedError: it holds on."""
        with self._lock:
            self._refresh()
            was_unsaved = self._unsaved.pop(owner, None) is not None
            return (owner in self._stored and self._change({owner: None})) or was_unsaved

    def _change(self, changes: Mapping[OwnerKey, Lease | None]) -> bool:
        """Apply `changes` to what is on disk now. Whether an owner among them had a lease there."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._file_lock():
                self._refresh(locked=True)
                had = any(owner in self._stored for owner in changes)
                wanted = {**self._stored, **self._unsaved, **changes}
                kept = [lease for lease in wanted.values() if lease is not None and self._now <= lease.until]
                granted = self._all_grants()
                self._write(kept, granted)
        except OSError as error:
            self._fault = f"The leases cannot be saved in {self.path} ({error.strerror or error})."
            raise LeaseNotSavedError(self._fault) from error
        self._fault = None
        self._stored = {lease.owner: lease for lease in kept}
        self._grants, self._unsaved_grants = granted, ()
        self._unsaved.clear()
        return had

    def _all_grants(self) -> tuple[Grant, ...]:
        """Those of the last day, written or not yet."""
        found = sorted({*self._grants, *self._unsaved_grants}, key=lambda grant: grant.at)
        return tuple(grant for grant in found if grant.at > max(self._now, found[-1].at) - DAY)

    def _refresh(self, *, locked: bool = False) -> None:
        """Read the file if it is another one than last time."""
        try:
            found = self.path.stat()
            stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
            if stamp == self._stamp:
                return
            with self.path.open("rb") as file:
                content = file.read(LARGEST_FILE + 1)
        except FileNotFoundError:
            self._stored, self._grants, self._stamp, self._fault = {}, (), None, None
            return
        except OSError as error:
            if locked:
                raise  # what cannot be read must not be overwritten
            self._fault = f"The leases in {self.path} cannot be read ({error.strerror}); those known before still hold."
            return
        leases, grants, damage = _parse(content)
        self._stamp = stamp
        self._fault = None
        if damage is None:
            self._stored, self._grants = leases, grants
        else:
            # What was known before is kept, so that a damaged file never ends a promise.
            self._stored, self._grants = {**self._stored, **leases}, tuple({*self._grants, *grants})
            self._set_aside(damage, locked=locked)

    def _set_aside(self, damage: str, *, locked: bool) -> None:
        """Move the damaged file out of the way, keep it for people, and write what is still known."""
        self._damage = f"The leases in {self.path} are damaged ({damage})."
        try:
            if locked:
                self._move_and_rewrite(damage)
            else:
                with self._file_lock():
                    found = self.path.stat()
                    if (found.st_ino, found.st_mtime_ns, found.st_size) == self._stamp:
                        self._move_and_rewrite(damage)
        except OSError as error:
            self._damage = f"The leases in {self.path} are damaged ({damage}) and stay as they are ({error.strerror})."

    def _move_and_rewrite(self, damage: str) -> None:
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.broken-{number}")).exists():
            number += 1
        self.path.rename(aside)
        self._write(self._stored.values(), self._all_grants())
        self._damage = f"The leases in {self.path} were damaged ({damage}); the file is kept as {aside.name}."

    def _write(self, leases: Iterable[Lease], grants: Iterable[Grant]) -> None:
        """Replace the file in one step."""
        rows = [
            {"owner": str(lease.owner), "until": lease.until.isoformat(), "reason": lease.reason, "by": lease.by}
            for lease in sorted(leases, key=lambda lease: lease.owner)
        ]
        granted = [
            {"owner": str(grant.owner), "notebook": grant.notebook, "at": grant.at.isoformat()} for grant in grants
        ]
        descriptor, name = tempfile.mkstemp(prefix=f".{self.path.name}.", suffix=".new", dir=self.path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump({"version": VERSION, "leases": rows, "grants": granted}, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        found = self.path.stat()
        self._stamp = (found.st_ino, found.st_mtime_ns, found.st_size)

    @contextmanager
    def _file_lock(self) -> Iterator[None]:
        """Keep other processes out, but never wait long for one: this may run on an event loop."""
        lock = self.path.with_name(f"{self.path.name}.lock")
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            _lock(descriptor)
            yield
        finally:
            os.close(descriptor)


def _lock(descriptor: int) -> None:
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise OSError(errno.EAGAIN, "another server holds its lock") from None
            time.sleep(0.01)
        except OSError as error:
            if error.errno in {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS}:
                return  # a file system without locks: each write still replaces the file in one step
            raise
        else:
            return


def _parse(content: bytes) -> tuple[dict[OwnerKey, Lease], tuple[Grant, ...], str | None]:
    """The leases and grants that can be read, and what is wrong with the file (None: nothing)."""
    if len(content) > LARGEST_FILE:
        return {}, (), "it is too large"
    try:
        whole = json.loads(content)
    except (ValueError, RecursionError):
        return {}, (), "it is not JSON"
    rows = whole.get("leases") if isinstance(whole, dict) else None
    if not isinstance(rows, list):
        return {}, (), "it holds no list of leases"
    leases: dict[OwnerKey, Lease] = {}
    damage = None if whole.get("version") == VERSION else "it has another version"
    for row in rows:
        lease = _lease(row)
        if lease is None:
            damage = "an entry cannot be read"
        else:
            leases[lease.owner] = lease
    granted = whole.get("grants", [])
    grants = [_grant(row) for row in granted] if isinstance(granted, list) else [None]
    if None in grants:
        damage = "an entry cannot be read"
    return leases, tuple(grant for grant in grants if grant is not None), damage


def _grant(row: Any) -> Grant | None:
    try:
        at, owner, notebook = datetime.fromisoformat(row["at"]), OwnerKey.parse(row["owner"]), row["notebook"]
    except (TypeError, KeyError, ValueError, AttributeError):
        return None
    if at.tzinfo is None or not (notebook is None or isinstance(notebook, str)):
        return None
    return Grant(owner, notebook, at.astimezone(timezone.utc))


def _lease(row: Any) -> Lease | None:
    try:
        until = datetime.fromisoformat(row["until"])
        owner, reason, by = OwnerKey.parse(row["owner"]), row["reason"], row["by"]
    except (TypeError, KeyError, ValueError, AttributeError):
        return None
    if until.tzinfo is None or not isinstance(reason, str) or not isinstance(by, str):
        return None
    return Lease(owner, until.astimezone(timezone.utc), reason, by)
