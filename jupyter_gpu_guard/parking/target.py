"""The process to be parked: whether it is still the one that is meant, and whether it is ours. Cheap."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_gpu_guard.core.model import ProcessKey

_PROC = Path("/proc")


def lives(key: ProcessKey, proc: Path = _PROC) -> bool:
    """Whether exactly this process lives; a zombie does not."""
    try:
        text = (proc / str(key.pid) / "stat").read_text(encoding="utf-8", errors="replace")
        state, *numbers = text.rpartition(")")[2].split()
        return state not in "ZXx" and int(numbers[18]) == key.start_ticks
    except (OSError, ValueError, IndexError):
        return False


def why_not(key: ProcessKey, proc: Path = _PROC) -> str | None:
    """Why this process must not be touched, in a sentence; None: it may."""
    if not lives(key, proc):
        return f"process {key.pid} has ended, or is another one by now"
    user = _user_of(key.pid, proc)
    if user is None:
        return f"it cannot be told whose process {key.pid} is"
    if user != os.geteuid():
        return f"process {key.pid} belongs to another user"
    return None


def _user_of(pid: int, proc: Path) -> int | None:
    """The effective user. Not the owner of the folder: that is root for a process that may not be looked into."""
    try:
        for line in (proc / str(pid) / "status").read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, ids = line.partition(":")
            if name == "Uid":
                return int(ids.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return None
