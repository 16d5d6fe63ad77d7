"""What one process was started with: its command line, and the little of its environment that matters here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from jupyter_gpu_guard.sources.board_files import user_of

_LARGEST = 2**17  # bytes


class Inherited(NamedTuple):
    """What a process has inherited. `server` is the pid of the server that started its kernel.

    `session` is the path of the notebook then, or nothing. `temporary` is its own temporary folder, if it was given
    one.
    """

    server: int | None
    session: str
    temporary: Path | None


def command_of(pid: int) -> list[str]:
    """The command line; nothing, if it cannot be read."""
    return _words(pid, "cmdline")


def inherited_by(pid: int) -> Inherited:
    """What is known of its environment. The rest goes no further."""
    pairs = (word.partition("=") for word in _words(pid, "environ"))
    known = {name: value for name, _, value in pairs if name in ("JPY_PARENT_PID", "JPY_SESSION_NAME", "TMPDIR")}
    server, temporary = known.get("JPY_PARENT_PID", ""), known.get("TMPDIR", "")
    return Inherited(
        server=int(server) if server.isascii() and server.isdigit() else None,
        session=known.get("JPY_SESSION_NAME", ""),
        temporary=Path(temporary) if temporary.startswith("/") else None,
    )


def marked_by(pid: int) -> int | None:
    """The pid of the server that this process is marked with, if it means anything here.

    Of other users' processes nothing is read, and in another pid namespace it is the number of another process.
    """
    if user_of(pid) != os.geteuid() or _namespace(pid) != _namespace(os.getpid()):
        return None
    return inherited_by(pid).server


def _namespace(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")  # noqa: PTH115 - it leads to no file
    except OSError:
        return None


def _words(pid: int, file: str) -> list[str]:
    try:
        with open(f"/proc/{pid}/{file}", "rb") as source:  # noqa: PTH123 - one cheap call
            text = source.read(_LARGEST)
    except OSError:
        return []
    return [word.decode("utf-8", "replace") for word in text.rstrip(b"\0").split(b"\0")]
