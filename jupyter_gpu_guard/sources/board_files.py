"""The files in which TensorBoards say where they are: `pid-<pid>.info` in a folder that everybody may write to.

Nothing in there is believed that cannot be checked. What cannot be read is skipped; nothing is ever changed here.
"""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jupyter_gpu_guard.sources.board_commands import without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jupyter_gpu_guard.core.model import Process

FOLDER = ".tensorboard-info"

_NAME = re.compile(r"pid-(\d+)\.info")
_LARGEST = 2**16  # bytes
_TOO_EARLY = 10.0  # seconds; the start of a process is known to about a second, and clocks are put right
_TOO_LATE = 3600.0  # seconds; it writes the file once it has loaded


class Info(NamedTuple):
    """What one file says of the process in its name, which lives and is the same user's."""

    path: Path
    process: Process
    log_dir: str
    port: int | None


def read_infos(temporary: Path, processes: Mapping[int, Process]) -> Iterator[Info]:
    """What the files under the temporary folder `temporary` say of living processes of this user."""
    folder = temporary / FOLDER
    try:
        names = os.listdir(folder)  # noqa: PTH208 - there may be thousands of stale ones
    except OSError:
        return
    for name in names:
        match = _NAME.fullmatch(name)
        process = processes.get(int(match[1])) if match is not None else None
        if process is not None and not process.is_over and (info := _read(folder / name, process)) is not None:
            yield info


def user_of(pid: int) -> int | None:
    """The user as whom a process runs. None: it is gone."""
    try:
        return os.stat(f"/proc/{pid}").st_uid  # noqa: PTH116 - one cheap call
    except OSError:
        return None


def _read(path: Path, process: Process) -> Info | None:
    """What `path` says of `process`. None: it is not believed."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with open(handle, "rb") as file:  # noqa: PTH123 - it is open already
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or {about.st_uid, user_of(process.key.pid)} != {os.geteuid()}:
            return None
        text = file.read(_LARGEST)
    try:
        said = json.loads(text)
        pid, started, port = said["pid"], float(said["start_time"]), said.get("port")
        log_dir = str(said.get("logdir") or "")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if pid != process.key.pid or not -_TOO_EARLY <= started - process.started_at.timestamp() <= _TOO_LATE:
        return None  # an earlier process with the same pid has left it behind
    is_port = isinstance(port, int) and 0 < port < 2**16
    return Info(path, process, without_secrets(log_dir), port if is_port else None)
