"""Which servers of one folder still run: each holds a lock for as long as it lives, whatever way it ends."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path


class Living:
    """The sign that the server `run` lives. Locks go with the process, also with one that is killed."""

    def __init__(self, folder: Path, run: str) -> None:
        self._path = _sign(folder, run)
        self._held: int | None = None

    def begin(self) -> None:
        """Give the sign, if it is not given. Raises OSError if the folder takes no file; no lock is no fault."""
        while self._held is None:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with suppress(OSError):  # a file system without locks: others go by the time that has passed
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._is_there(descriptor):
                self._held = descriptor
            else:  # somebody has taken it for a sign of the dead, just before it was locked
                os.close(descriptor)

    def end(self) -> None:
        """Take the sign away. Safe to call twice."""
        held, self._held = self._held, None
        if held is not None:
            with suppress(OSError):  # whoever finds it finds it without a lock
                self._path.unlink(missing_ok=True)
            os.close(held)

    def _is_there(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.stat())
        except FileNotFoundError:
            return False


def is_over(folder: Path, run: str, *, since: datetime, most: timedelta) -> bool:
    """Whether the server `run` has ended. Where locks tell nothing: whether `since` is longer ago than `most`."""
    sign = _sign(folder, run)
    try:
        descriptor = os.open(sign, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    except OSError:
        return datetime.now(timezone.utc) - since > most
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return datetime.now(timezone.utc) - since > most
    finally:
        os.close(descriptor)
    return True


def bury(folder: Path) -> None:
    """Remove the signs of servers that have ended. Those of which locks tell nothing stay."""
    for sign in folder.glob("*.running"):
        with suppress(OSError):
            descriptor = os.open(sign, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                sign.unlink(missing_ok=True)
            finally:
                os.close(descriptor)


def _sign(folder: Path, run: str) -> Path:
    return folder / f"{run}.running"
