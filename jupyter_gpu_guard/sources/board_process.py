"""What one process was started with: its command line, and the little of its environment that matters here."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

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


def _words(pid: int, file: str) -> list[str]:
    try:
        with open(f"/proc/{pid}/{file}", "rb") as source:  # noqa: PTH123 - one cheap call
            text = source.read(_LARGEST)
    except OSError:
        return []
    return [word.decode("utf-8", "replace") for word in text.rstrip(b"\0").split(b"\0")]
