"""How each kind of owner is ended softly: by the door that Jupyter has for it, or by SIGTERM where there is none."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from signal import SIGTERM
from typing import TYPE_CHECKING, Any, Protocol

from jupyter_core.utils import ensure_async

from jupyter_gpu_guard.core.model import OwnerState
from jupyter_gpu_guard.effects.signals import Sent, send

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from jupyter_gpu_guard.core.model import Board, Holder, Owner, OwnerKey, Process, ProcessKey

_LARGEST = 2**16  # bytes of an info file
_HOUR = timedelta(hours=1)
_ROUGHLY = timedelta(seconds=2)  # the system tells only roughly when a process was started
_BEING_ENDED = "somebody restarts it or shuts it down"
_ATTEMPTS = 2  # at one that comes back, within an hour


class GoneError(Exception):
    """There is nothing left to be ended."""


class RefusedError(Exception):
    """It was not ended. The text is for people."""


class Door(Protocol):
    """One kind of owner: how it is asked to end. Lives on the event loop, blocks nowhere.

    `takes_all`: all of its tree ends with it, and not only what holds a device.
    """

    takes_all: bool

    def why_not(self, holder: Holder, now: Owner, tree: Collection[ProcessKey] | None) -> str | None:
        """What at the last look forbids to end it by a rule, or None. `tree`: its processes now; None: not known."""
        ...

    async def knock(self, owner: Owner) -> Iterable[ProcessKey]:
        """Ask for its end. Gives the processes that were sent SIGTERM. Raises GoneError, RefusedError or anything."""
        ...

    def has(self, owner: Owner) -> bool:
        """Whether whoever was asked still has it, so that its end is to be waited for."""
        ...

    def tidy(self, owner: Owner) -> str | None:
        """Remove what it should have removed itself, once it has ended. Gives what is not as it should be, if any."""
        ...


class KernelDoor:
    """Jupyter's own way to shut a kernel down, through its provisioner."""

    takes_all = False

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self._knocked_at: set[OwnerKey] = set()

    def why_not(self, holder: Holder, now: Owner, tree: Collection[ProcessKey] | None) -> str | None:
        """Use of the kernel is seen without looking at its processes. Whoever restarts it is there."""
        del tree
        if self._is_being_ended(now):
            return _BEING_ENDED
        if not now.state.is_running_a_cell or now.state is holder.owner.state:
            return None
        return "it is executing again" if now.state is OwnerState.EXECUTING else f"it is {now.state.value} by now"

    async def knock(self, owner: Owner) -> Iterable[ProcessKey]:
        """Have the manager shut it down, unless somebody else is at it: a manager cannot do two things at once."""
        if self._is_being_ended(owner):
            raise RefusedError(f"{_BEING_ENDED}; nothing else was done to it")
        self._knocked_at.add(owner.key)
        try:
            await ensure_async(self._manager.shutdown_kernel(owner.key.id, now=False))
        finally:
            self._knocked_at.discard(owner.key)
        return ()

    def _is_being_ended(self, owner: Owner) -> bool:
        """Whether somebody else has its manager restart it, or shut it down, at this very moment."""
        if owner.key in self._knocked_at or owner.key.id not in self._manager:
            return False
        try:
            kernel = self._manager.get_kernel(owner.key.id)
            return bool(kernel.shutting_down) and not kernel.ready.done()
        except Exception:  # noqa: BLE001 - a kernel manager may be anyone's, and does not have to say
            return False

    def has(self, owner: Owner) -> bool:
        """Whether the manager lists it. One with pending kernels answers before it has done anything."""
        return owner.key.id in self._manager

    def tidy(self, owner: Owner) -> str | None:
        """Its manager does."""


class TerminalDoor:
    """Jupyter's own way to close a terminal: its shell gets SIGHUP, and later SIGINT and SIGTERM. Never SIGKILL.

    `settings` are the server's: its manager may come later than this door.
    """

    takes_all = False

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings

    def why_not(self, holder: Holder, now: Owner, tree: Collection[ProcessKey] | None) -> str | None:
        """Whoever has started something since is at work."""
        del now
        if tree is None:
            return "its processes could not be read just before"
        return "it has started something since" if set(tree) - {*holder.tree, holder.owner.root} else None

    async def knock(self, owner: Owner) -> Iterable[ProcessKey]:
        """Have the manager close it, unless another terminal has got its name by now."""
        manager = self._settings.get("terminal_manager")
        if manager is None:
            raise GoneError
        terminal = manager.terminals.get(owner.key.id)
        if terminal is None or (owner.root is not None and terminal.ptyproc.pid != owner.root.pid):
            raise GoneError
        await ensure_async(manager.terminate(owner.key.id, force=False))
        return ()

    def has(self, owner: Owner) -> bool:
        """The manager lists it for as long as anything has the terminal open. That is not waited for."""
        del owner
        return False

    def tidy(self, owner: Owner) -> str | None:
        """Its manager does."""


class BoardDoor:
    """A TensorBoard gets SIGTERM, on which it ends by itself; one within the server is left to its own manager.

    `info_files`: the files by which a TensorBoard says where it is. One that comes back is left alone by rules once it
    was ended twice within an hour: something starts it again, and to end that is nobody's task here.
    """

    takes_all = True

    def __init__(
        self,
        settings: Mapping[str, Any],
        identify: Callable[[int], Process | None],
        info_files: Callable[[OwnerKey], Iterable[Path]],
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        self._settings = settings
        self._identify = identify
        self._info_files = info_files
        self._left: dict[OwnerKey, tuple[Path, ...]] = {}
        self._now = now
        self._ended: list[tuple[datetime, Board]] = []

    def why_not(self, holder: Holder, now: Owner, tree: Collection[ProcessKey] | None) -> str | None:
        """Whoever looks at it needs it."""
        del tree
        if now.state is OwnerState.SERVING and holder.state is not OwnerState.SERVING:
            return "somebody is looking at it"
        return "it was ended twice within an hour, and something starts it again" if self._comes_back(now) else None

    def _comes_back(self, owner: Owner) -> bool:
        """Whether it was ended twice within an hour already, and is there again, at the same place."""
        board, started_at = owner.board, owner.started_at
        self._ended = [(at, each) for at, each in self._ended if self._now() - at < _HOUR]
        if board is None or started_at is None:
            return False
        alike = [at for at, each in self._ended if each.log_dir == board.log_dir or each.port == board.port is not None]
        return sum(at - _ROUGHLY <= started_at for at in alike) >= _ATTEMPTS

    async def knock(self, owner: Owner) -> Iterable[ProcessKey]:
        """Send SIGTERM to exactly its process, or have the manager within the server end it."""
        if owner.root is None:
            await self._end_inside(owner)
            return ()
        self._left[owner.key] = tuple(self._info_files(owner.key))
        sent = send(owner.root, SIGTERM, self._identify)
        if sent in (Sent.GONE, Sent.NOT_THE_SAME):
            raise GoneError
        if sent is not Sent.SENT:
            raise RefusedError(f"it could not be told to end ({sent.value}); nothing else was done to it")
        if owner.board is not None:
            self._ended.append((self._now(), owner.board))
        return (owner.root,)

    async def _end_inside(self, owner: Owner) -> None:
        manager = self._settings.get("tensorboard_manager")
        name = owner.key.id.removeprefix("inside-")
        if manager is None or owner.board is None or not owner.board.inside or name not in manager:
            raise GoneError
        answer = manager.terminate(name, force=True)
        if answer is not None:
            await ensure_async(answer)

    def has(self, owner: Owner) -> bool:
        """Nobody was asked who could still have it."""
        del owner
        return False

    def tidy(self, owner: Owner) -> str | None:
        """Remove its own info file, if it was killed before it could. Says if somebody else has its port by now."""
        root = owner.root
        files = self._left.pop(owner.key, ())
        if root is None:
            return None
        process = self._identify(root.pid)
        if process is not None and (process.key != root or not process.is_over):
            return None  # it lives, or its pid is another's by now, and so may be the file
        for path in files:
            if _names(path, root.pid):
                with suppress(OSError):
                    path.unlink()
        port = None if owner.board is None else owner.board.port
        return (
            None if port is None or _is_free(port) else f"its port, {port}, is not free: something else listens there"
        )


class LeftoversDoor:
    """What an earlier run of a kernel has left behind has nobody whom it could be asked of: only signals reach it."""

    takes_all = False

    def why_not(self, holder: Holder, now: Owner, tree: Collection[ProcessKey] | None) -> str | None:
        """What its processes do is seen by the devices."""
        del holder, now
        return "its processes could not be read just before" if tree is None else None

    async def knock(self, owner: Owner) -> Iterable[ProcessKey]:
        """Ask nobody."""
        del owner
        return ()

    def has(self, owner: Owner) -> bool:
        """Nobody was asked who could still have it."""
        del owner
        return False

    def tidy(self, owner: Owner) -> str | None:
        """There is nothing to tidy up."""


def _is_free(port: int) -> bool:
    """Whether nobody listens on `port`. Nobody is connected to: that would be a visit."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that were closed do not matter
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as fault:
            return fault.errno != errno.EADDRINUSE
    return True


def _names(path: Path, pid: int) -> bool:
    """Whether `path` is a file that names `pid`. Everybody may write to its folder, so it may be anything by now."""
    with suppress(OSError, ValueError, AttributeError, RecursionError):
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(handle, "rb") as file:  # noqa: PTH123 - it is open already
            is_file = stat.S_ISREG(os.fstat(handle).st_mode)
            return is_file and json.loads(file.read(_LARGEST)).get("pid") == pid
    return False
