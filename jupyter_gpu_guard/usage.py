"""What was used of budgets on disk: a small JSON file for each server, which all servers of a folder read.

What cannot be read, or is not the word of the user that it is about, does not count: `problem` says so. A user is known
by the number of the account that owns a file; where all servers run under one, nothing tells their users apart.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import pwd
import re
import secrets
import stat
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from .core.budget import Account, Measure
from .core.policy import Site
from .core.usage import HOUR, LONGEST_WINDOW, Hours, Usage, together

VERSION = 1
LARGEST_FILE = 2**21
MOST_FILES = 1000  # of one owner; where all servers run under one number, that is of all users
MOST_BYTES = 2**25  # of one owner, in all of these
NAMED = 3  # faults; of more than these only the number is said
_NAME = re.compile(r"([0-9]+)-[0-9a-f]{8}-[0-9a-z]+\.json")
_SLOTS = 100  # servers of one user that run at once on one folder, each with a file that the next one goes on with
_MOST_AN_HOUR = 1e6  # in whatever unit: nobody has so much
_HOURS_KEPT = int(LONGEST_WINDOW.total_seconds() // HOUR)


class FileUsage:
    """The use of one server's `site`, in a file of its own in `folder`, and that of others beside it.

    The file names the user, the groups for which something is counted, and amounts by the hour. `create`: the folder
    is made, for this user alone, if there is none. Its methods block and are called one at a time.
    """

    def __init__(self, folder: Path, site: Site, *, create: bool = True) -> None:
        self.folder = Path(folder)
        self._user = site.user or ""
        self._uid = os.geteuid()
        self._stem = f"{self._uid}-{sha256(self._user.encode()).hexdigest()[:8]}"
        self._create = create
        self._lock: int | None = None
        self._path: Path | None = None
        self._inherited: Usage = {}
        self._written: Usage | None = None
        self._read: dict[str, tuple[tuple[int, ...], _File | str]] = {}
        self._faults: tuple[str, ...] = ()

    @property
    def problem(self) -> str | None:
        """What is wrong with the folder or a file in it, in a sentence; None: nothing."""
        return " ".join(self._faults) or None

    def exchange(self, own: Usage, now: datetime) -> Usage:
        """Write what this server has used so far, and give what others and its predecessors have. Blocks.

        With a fault of the storage: what could be read.
        """
        faults: list[str] = []
        try:
            path = self._claimed()
        except OSError as error:
            path = None
            faults.append(self._cannot("opened", error))
        found = [self._inherited]
        refused: dict[str, str] = {}
        for name in self._names(faults, refused):
            file = self._file(name)
            if isinstance(file, str):
                refused[name] = file
            elif path is None or name != path.name:
                found.append(file.told_to(self._uid, self._user))
        if path is not None:
            try:
                self._save(path, together([self._inherited, own]), now)
            except OSError as error:
                faults.append(self._cannot("saved", error))
        self._faults = (*faults, *self._named(refused))
        return together(found)

    def close(self) -> None:
        """Let the next server go on with the file."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _cannot(self, what: str, error: OSError) -> str:
        remedy = "" if self._create else " (make the folder for everybody: `install -d -m 1777`)"
        why = error.strerror or str(error)
        return f"What was used of budgets cannot be {what} in {self.folder}: {why}{remedy}."

    def _claimed(self) -> Path:
        """The file of this server: one that no running server has, with what its predecessor has entered."""
        if self._path is not None:
            return self._path
        if self._create:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for slot in range(_SLOTS):
            name = f"{self._stem}-{slot}.json"
            lock = self._locked(f".{name}.lock")
            if lock is None:
                continue
            file = self._file(name)
            if isinstance(file, str):  # it stays for people to look at
                os.close(lock)
                continue
            self._lock, self._inherited = lock, file.usage
            break
        else:
            name = f"{self._stem}-{secrets.token_hex(8)}.json"
        self._path = self.folder / name
        return self._path

    def _locked(self, name: str) -> int | None:
        """A lock that is held as long as this process lives; None: another one has it, or it is not ours to have."""
        try:
            lock = os.open(self.folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except PermissionError:
            if not os.access(self.folder, os.W_OK | os.X_OK):
                raise
            return None
        try:
            if os.fstat(lock).st_uid == self._uid:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return lock
        except OSError:  # taken, or a file system without locks
            pass
        os.close(lock)
        return None

    def _named(self, refused: Mapping[str, str]) -> Iterator[str]:
        """What is wrong with files, for the first of them; who fills the folder with others fills no log."""
        for name in sorted(refused)[:NAMED]:
            yield f"{self.folder / name} does not count towards any budget: {refused[name]}."
        if (more := len(refused) - NAMED) > 0:
            yield f"Each of {more} more in {self.folder} does not count towards any budget: damaged, or nobody's word."

    def _names(self, faults: list[str], refused: dict[str, str]) -> list[str]:
        """The files to read, by their names. What shows without reading that it is nobody's word goes to `refused`."""
        owned: dict[int, list[tuple[str, int]]] = defaultdict(list)
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    if (match := _NAME.fullmatch(entry.name)) is None:
                        continue
                    try:
                        seen = entry.stat(follow_symlinks=False)
                    except OSError:  # gone by now
                        continue
                    if (why := _nobodys(seen, int(match[1]))) is not None:
                        refused[entry.name] = why
                    else:
                        owned[seen.st_uid].append((entry.name, seen.st_size))
        except OSError as error:
            if not faults:
                faults.append(self._cannot("read", error))
            return []
        found, crowds = [], []
        for uid, files in sorted(owned.items()):
            taken = self._taken(files)
            found += taken
            if len(taken) < len(files):
                of = f"{self.folder} of user {uid}"
                crowds.append(f"Of {len(files)} files in {of} only the first {len(taken)} count towards budgets.")
        faults += crowds[:NAMED]
        wanted = set(found)
        self._read = {name: read for name, read in self._read.items() if name in wanted}
        return found

    def _taken(self, files: list[tuple[str, int]]) -> list[str]:
        """Those of one owner that are read: our own user's first, and each user's first before anybody's second."""
        before: dict[str, int] = defaultdict(int)
        order = []
        for name, size in sorted(files):
            stem = name.rpartition("-")[0]
            order.append((stem != self._stem, before[stem], name, size))
            before[stem] += 1
        taken, whole = [], 0
        for _, _, name, size in sorted(order)[:MOST_FILES]:
            whole += size
            if whole > MOST_BYTES:
                break
            taken.append(name)
        return taken

    def _file(self, name: str) -> _File | str:
        """What a file says; or what is wrong with it. One that has not changed is not read again."""
        match = _NAME.fullmatch(name)
        assert match is not None  # noqa: S101  only such names are asked for
        try:
            # What is no file must not hold up whoever opens it.
            descriptor = os.open(self.folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return _File()
        except OSError as error:
            return f"it cannot be read ({error.strerror})"
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            stamp = (found.st_ino, found.st_mtime_ns, found.st_size, found.st_uid, found.st_mode)
            if name not in self._read or self._read[name][0] != stamp:
                self._read[name] = stamp, self._believed(_checked(file.read, found, int(match[1])))
        return self._read[name][1]

    def _believed(self, file: _File | str) -> _File | str:
        """`file`, unless the system knows its user by another number than that of the file's owner."""
        if isinstance(file, str) or (file.uid, file.user) == (self._uid, self._user):
            return file
        try:
            theirs = pwd.getpwnam(file.user).pw_uid
        except (KeyError, ValueError, OSError):  # a user of a hub need not be one of the system
            return file
        return file if theirs == file.uid else f"it belongs to user {file.uid} and is about user {theirs}"

    def _save(self, path: Path, usage: Usage, now: datetime) -> None:
        """Replace the file in one step, if it would say something else."""
        oldest = int(now.timestamp() // HOUR) - _HOURS_KEPT
        usage = {account: _since(hours, oldest) for account, hours in usage.items() if _is_lasting(account)}
        if usage == self._written or (not usage and not path.exists()):
            return
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(_plain(self._uid, self._user, usage), file)
                file.flush()
                os.fchmod(descriptor, 0o644)  # others count it too, where the folder lets them
                os.fsync(descriptor)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        self._written = usage


class _File:
    """What a file says, by whom."""

    def __init__(self, uid: int = -1, user: str = "", usage: Usage | None = None) -> None:
        self.uid, self.user, self.usage = uid, user, usage or {}

    def told_to(self, uid: int, user: str) -> Usage:
        """What counts for this user: all of their own, and of others what counts for several."""
        if (uid, user) == (self.uid, self.user):
            return self.usage
        return {account: hours for account, hours in self.usage.items() if account.whose != "user"}


def _is_lasting(account: Account) -> bool:
    """Whether it outlives the server: that of a single kernel or terminal does not, nor does its name."""
    return account.whose in {"user", "site"} or account.whose.startswith("group:")


def _since(hours: Hours, oldest: int) -> Hours:
    used, unknown = (
        {hour: round(amount, 6) for hour, amount in amounts.items() if hour >= oldest}
        for amounts in (hours.used, hours.unknown)
    )
    return Hours(used, unknown)


def _plain(uid: int, user: str, usage: Usage) -> dict[str, Any]:
    accounts = [
        {
            "budget": account.budget,
            "measure": account.measure.value,
            "whose": account.whose,
            "used": hours.used,
            "unknown": hours.unknown,
        }
        for account, hours in usage.items()
    ]
    return {"version": VERSION, "uid": uid, "user": user, "accounts": accounts}


def _nobodys(found: os.stat_result, uid: int) -> str | None:
    """Why a file is not the word of the user `uid` whose number it carries. None: it may be."""
    if not stat.S_ISREG(found.st_mode):
        return "it is no file"
    if found.st_uid != uid:
        return f"it carries the number of user {uid} and belongs to user {found.st_uid}"
    if found.st_mode & 0o022:
        return "others than its owner may change it"
    if found.st_size > LARGEST_FILE:
        return "it is too large"
    return None


def _checked(read: Any, found: os.stat_result, uid: int) -> _File | str:
    """What a file says, if it is the word of the user `uid`; or what is wrong with it."""
    if (why := _nobodys(found, uid)) is not None:
        return why
    try:
        whole = json.loads(read(LARGEST_FILE + 1))
        if whole["version"] != VERSION or whole["uid"] != uid or not isinstance(whole["user"], str):
            return "it is of another version or user"
        return _File(uid, whole["user"], dict(_account(row) for row in whole["accounts"]))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError, OSError):
        return "it is damaged"


def _account(row: Mapping[str, Any]) -> tuple[Account, Hours]:
    budget, whose = row["budget"], row["whose"]
    account = Account(budget, Measure(row["measure"]), whose)
    if not (isinstance(budget, str) and isinstance(whose, str) and _is_lasting(account)):
        raise ValueError("no such account")
    return account, Hours(dict(_amounts(row["used"])), dict(_amounts(row["unknown"])))


def _amounts(told: Mapping[str, Any]) -> Iterator[tuple[int, float]]:
    for hour, amount in told.items():
        number = float(amount)
        if isinstance(amount, bool) or not math.isfinite(number) or not 0 <= number <= _MOST_AN_HOUR:
            raise ValueError("no amount")
        yield int(hour), number
