"""The terminals of this server as Owners."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_gpu_guard.core.model import Owner, OwnerKey, OwnerKind, OwnerState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpu_guard.core.model import Process
    from jupyter_gpu_guard.protocols import Clock, Processes

SETTING = "terminal_manager"

_FILES = "/dev/pts/"


@dataclass
class _Watched:
    """What is remembered of one terminal: its shell, and when somebody last typed.

    `read_at`: when the shell's side last took input, as the system notes it for the terminal's file.
    """

    terminal: Any
    shell: Process | None = None
    file: str | None = None
    read_at: float | None = None
    used_at: float | None = None


class TerminalOwners:
    """`Owners` from a server's terminal manager, looked up in its `settings` each time. Lives on the event loop.

    A server may have no terminals, or get its manager later than this is made. Looking opens no connection to a
    terminal and leaves its last activity alone. Output is no use of a terminal; a line of input is.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        processes: Processes,
        clock: Clock,
        *,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger] | None = None,
    ) -> None:
        self._settings = settings
        self._processes = processes
        self._clock = clock
        self._log = log or logging.getLogger(__name__)
        self._watched: dict[str, _Watched] = {}

    async def read(self, processes: Mapping[int, Process] | None = None) -> tuple[Owner, ...]:  # noqa: ARG002
        """All terminals now. One that raises is listed with state UNKNOWN and without a process; the rest go on."""
        terminals = dict(self._terminals())
        for gone in self._watched.keys() - terminals.keys():
            del self._watched[gone]
        return tuple(self._owner(name, terminal) for name, terminal in terminals.items())

    def look_again(self, key: OwnerKey) -> Owner | None:
        """One terminal at this very moment. None: the server has no such terminal."""
        if key.kind is not OwnerKind.TERMINAL:
            return None
        terminal = self._terminals().get(key.id)
        return None if terminal is None else self._owner(key.id, terminal)

    def _terminals(self) -> Mapping[str, Any]:
        manager = self._settings.get(SETTING)
        return {} if manager is None else manager.terminals

    def _owner(self, name: str, terminal: Any) -> Owner:
        key, title = OwnerKey(OwnerKind.TERMINAL, name), f"Terminal {name}"
        try:
            watched, state = self._watch(name, terminal)
            clients = len(terminal.clients)
        except Exception as fault:  # noqa: BLE001 - a terminal manager may be anyone's
            self._log.debug("Terminal %s cannot be looked at: %r", name, fault)
            return Owner(key, title, root=None, state=OwnerState.UNKNOWN)
        shell = watched.shell
        return Owner(
            key=key,
            name=title,
            root=None if shell is None else shell.key,
            state=state,
            started_at=None if shell is None else shell.started_at,
            used_at=watched.used_at,
            clients=clients,
        )

    def _watch(self, name: str, terminal: Any) -> tuple[_Watched, OwnerState]:
        watched = self._watched.get(name)
        if watched is None or watched.terminal is not terminal:  # another one may have got the name
            watched = self._watched[name] = _Watched(terminal)
        now = self._processes.identify(int(terminal.ptyproc.pid))
        if watched.shell is None:
            if now is None or not _is_shell(now, terminal.ptyproc.fd):
                return watched, OwnerState.UNKNOWN
            watched.shell = now
            watched.file = _file_of(now.key.pid)
        if now is None or now.key != watched.shell.key or now.is_over:
            return watched, OwnerState.DEAD
        self._note_use(watched)
        return watched, OwnerState.IDLE

    def _note_use(self, watched: _Watched) -> None:
        """A later time of the last input means that somebody has typed since the look before."""
        if watched.file is None:
            return
        try:
            read_at = os.stat(watched.file).st_atime  # noqa: PTH116 - one cheap call
        except OSError:  # it is not to be seen from here; then nothing is known of its use
            return
        if watched.read_at is not None and read_at > watched.read_at:
            watched.used_at = self._clock.now().monotonic
        watched.read_at = read_at


def _is_shell(process: Process, terminal: int) -> bool:
    """Whether `process` is what this server has started on its open `terminal`.

    A pid may have come to another by now, and even to a child of this server: it may have adopted that one.
    """
    if process.parent != os.getpid() or process.session != process.key.pid:
        return False
    number, reads = _number_of(terminal), _input_of(process.key.pid)
    return number is None or reads is None or reads == f"{_FILES}{number}"


def _file_of(shell: int) -> str | None:
    """The terminal's file, as the shell has it for its input."""
    file = _input_of(shell)
    return file if file is not None and file.startswith(_FILES) else None


def _input_of(process: int) -> str | None:
    """Where its standard input comes from. None: it may not be looked into."""
    try:
        return os.readlink(f"/proc/{process}/fd/0")  # noqa: PTH115 - it is compared as text
    except OSError:
        return None


def _number_of(terminal: int) -> str | None:
    """The number of the terminal that this process has open. None: the system does not tell."""
    try:
        lines = Path(f"/proc/self/fdinfo/{terminal}").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("tty-index:")), None)
