"""The TensorBoards of this server as Owners: those in its own process, and those that are processes of their own."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from jupyter_gpu_guard.aside import Aside
from jupyter_gpu_guard.core.model import Board, Owner, OwnerKey, OwnerKind, OwnerState, Process, ProcessKey
from jupyter_gpu_guard.protocols import Clock, Processes
from jupyter_gpu_guard.sources.board_commands import Told, read_command, without_secrets
from jupyter_gpu_guard.sources.board_files import Info, read_infos, user_of
from jupyter_gpu_guard.sources.board_process import command_of, inherited_by, marked_by
from jupyter_gpu_guard.sources.descent import Descent, Place
from jupyter_gpu_guard.sources.orphans import adopts_orphans
from jupyter_gpu_guard.sources.sockets import has_visitors, listening_ports

SETTING = "tensorboard_manager"  # where an extension that runs TensorBoards within the server keeps them

_SETTLED_AFTER = 60.0  # seconds; until then a process may still become another program
_WITHIN = 4.0  # seconds for the search; the temporary folder may be on another machine


@dataclass(frozen=True)
class _Known:
    """One TensorBoard that is a process, with what was learned about it and does not change."""

    process: Process
    told: Told
    shown: str  # the log directory for people
    temporary: Path | None = None  # its own temporary folder, if it was given one
    starter: OwnerKey | None = None
    notebook: str | None = None
    port: int | None = None
    is_port_certain: bool = False
    files: tuple[Path, ...] = ()
    parts: tuple[ProcessKey, ...] = ()  # itself, and the program under it if it is a wrapper

    @property
    def key(self) -> OwnerKey:
        """Stable for as long as it lives."""
        root = self.process.key
        return OwnerKey(OwnerKind.TENSORBOARD, f"{root.pid}-{root.start_ticks}")


@dataclass(frozen=True)
class _Asked:
    """Since when (monotonic) a process is known, and what its command line says."""

    since: float
    told: Told | None = field(default=None)


class BoardOwners:
    """`Owners` for TensorBoards. A TensorBoard is this server's if it comes from it; all others are strangers.

    Found by their command lines and by the files they write; both are read in a thread. What was once this server's
    stays so, also when the kernel that started it is gone. `settings` are the server's, `root` is its root folder.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        root: Path,
        processes: Processes,
        clock: Clock,
        *,
        temporary: Path | None = None,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger] | None = None,
    ) -> None:
        self._settings = settings
        self._root = os.path.realpath(root)
        self._processes = processes
        self._clock = clock
        self._temporary = temporary
        self._log = log or logging.getLogger(__name__)
        self._descent = Descent(os.getpid(), marked_by, adopts=adopts_orphans())
        self._asked: dict[ProcessKey, _Asked] = {}
        self._known: Mapping[OwnerKey, _Known] = {}
        self._inside: tuple[Owner, ...] = ()
        self._look_for: Aside[Mapping[OwnerKey, _Known]] = Aside("tensorboards", self._search, _WITHIN)

    async def read(
        self, processes: Mapping[int, Process] | None = None, starters: Sequence[Owner] = ()
    ) -> tuple[Owner, ...]:
        """All TensorBoards now. `starters` are the server's kernels and terminals. Raises if it takes too long.

        Without a process table those are named that were known before.
        """
        if processes:
            self._known = await self._look_for(processes, tuple(starters))
        try:
            self._inside = tuple(self._look_inside())
        except Exception as fault:  # noqa: BLE001 - the extension may be anyone's, and harms only its own
            self._log.debug("The TensorBoards within the server cannot be listed: %r", fault)
            self._inside = tuple(replace(owner, state=OwnerState.UNKNOWN) for owner in self._inside)
        return _with_duplicates((*self._inside, *(self._owner(known) for known in self._known.values())))

    def look_again(self, key: OwnerKey) -> Owner | None:
        """One TensorBoard at this very moment. SERVING: somebody is looking at it. None: it is gone."""
        if key.kind is not OwnerKind.TENSORBOARD:
            return None
        known = self._known.get(key)
        if known is None:
            return next((owner for owner in self._look_inside() if owner.key == key), None)
        pid = known.process.key.pid
        now = self._processes.identify(pid)
        if now is None or now.key != known.process.key or now.is_over:
            return None
        state = OwnerState.IDLE
        try:
            if known.port is not None and has_visitors(self._living(known.parts), known.port):
                state = OwnerState.SERVING
        except OSError as fault:
            self._log.debug("The connections of %s cannot be read: %r", key, fault)
            state = OwnerState.UNKNOWN
        return self._owner(known, state)

    def info_files(self, key: OwnerKey) -> tuple[Path, ...]:
        """The files that this very TensorBoard wrote to say where it is."""
        known = self._known.get(key)
        return () if known is None else known.files

    def _living(self, parts: Iterable[ProcessKey]) -> Iterator[int]:
        for part in parts:
            process = self._processes.identify(part.pid)
            if process is not None and process.key == part and not process.is_over:
                yield part.pid

    def _owner(self, known: _Known, state: OwnerState = OwnerState.IDLE) -> Owner:
        return Owner(
            key=known.key,
            name=_title(known.shown),
            root=known.process.key,
            state=state,
            notebook=known.notebook,
            started_at=known.process.started_at,
            board=Board(known.shown, port=known.port, started_by=known.starter),
        )

    def _look_inside(self) -> Iterator[Owner]:
        """Those that an extension runs within the server."""
        manager = self._settings.get(SETTING)
        for name, entry in list(manager.items()) if manager is not None else []:
            shown = self._located(without_secrets(str(getattr(entry, "logdir", ""))), None)
            key = OwnerKey(OwnerKind.TENSORBOARD, f"inside-{name}")
            yield Owner(key, _title(shown), root=None, state=OwnerState.IDLE, board=Board(shown, inside=True))

    # ---- in the thread ----

    def _search(self, processes: Mapping[int, Process], starters: tuple[Owner, ...]) -> Mapping[OwnerKey, _Known]:
        roots = {owner.root: owner.key for owner in starters if owner.root is not None}
        notebooks = {owner.key: owner.notebook for owner in starters}
        places = self._descent.places(processes, roots)
        found = {
            key: told for key in places if key not in roots and (told := self._command(processes[key.pid])) is not None
        }
        before = {known.process.key: known for known in self._known.values()}
        infos = {info.process.key: info for info in self._infos(processes, found, before)}
        for key, info in infos.items():
            is_found = key in found or key in roots or key.pid == os.getpid()
            if not is_found and (key in before or self._is_ours(info, places, processes)):
                found[key] = Told(info.log_dir, info.port)
        for key, known in before.items():
            if (process := processes.get(key.pid)) is not None and process.key == key and not process.is_over:
                found.setdefault(key, known.told)
        self._asked = {key: asked for key, asked in self._asked.items() if key in places}

        result = {}
        for key, parts in _grouped(found, processes).items():
            known = before.get(key) or self._learn(processes[key.pid], found[key], infos.get(key))
            said = next((infos[part] for part in parts if part in infos), None)
            known = self._brought_up_to_date(known, parts, said, places.get(key), notebooks)
            result[known.key] = known
        return result

    def _command(self, process: Process) -> Told | None:
        """What the command line of `process` tells. It is read once, after the process had its time to settle."""
        now = self._clock.now().monotonic
        asked = self._asked.get(process.key)
        if asked is None or (asked.told is None and now - asked.since <= _SETTLED_AFTER):
            told = read_command(command_of(process.key.pid))
            asked = self._asked[process.key] = _Asked(now if asked is None else asked.since, told)
        return asked.told

    def _infos(
        self, processes: Mapping[int, Process], found: Iterable[ProcessKey], before: Mapping[ProcessKey, _Known]
    ) -> Iterator[Info]:
        """What the info files say, in the server's temporary folder and in that of each TensorBoard."""
        folders = {self._temporary or Path(tempfile.gettempdir())}
        for key in found:
            own = before[key].temporary if key in before else inherited_by(key.pid).temporary
            if own is not None:
                folders.add(own)
        for folder in sorted(folders):
            yield from read_infos(folder, processes)

    def _is_ours(self, info: Info, places: Mapping[ProcessKey, Place], processes: Mapping[int, Process]) -> bool:
        """Whether what a file claims can be checked, and the process comes from this server."""
        key = info.process.key
        if info.port is None or user_of(key.pid) != os.geteuid():
            return False
        try:
            if info.port not in listening_ports(key.pid):
                return False
        except OSError:
            return False
        if key in places:
            return True
        server = processes.get(os.getpid())
        return server is not None and marked_by(key.pid) == os.getpid() and server.key.start_ticks <= key.start_ticks

    def _learn(self, process: Process, told: Told, info: Info | None) -> _Known:
        log_dir = told.log_dir or (info.log_dir if info is not None else "")
        inherited = inherited_by(process.key.pid)
        return _Known(
            process=process,
            told=told,
            shown=self._located(log_dir, process.key.pid),
            temporary=inherited.temporary,
            notebook=_within(inherited.session, self._root),
            port=told.port,
        )

    def _brought_up_to_date(
        self,
        known: _Known,
        parts: Sequence[ProcessKey],
        info: Info | None,
        place: Place | None,
        notebooks: Mapping[OwnerKey, str | None],
    ) -> _Known:
        """`known` with what can change: its starter's name, its port once it listens, its file once it is written."""
        starter = known.starter or (place.owner if place is not None else None)
        notebook = notebooks.get(starter) if starter is not None else None
        port, certain = known.port, known.is_port_certain
        if not certain:
            wish = info.port if info is not None and info.port is not None else known.told.port
            port, certain = _port_of(parts, wish)
        files = tuple(sorted({*known.files, info.path})) if info is not None else known.files
        return replace(
            known,
            starter=starter,
            notebook=notebook or known.notebook,
            port=port,
            is_port_certain=certain,
            files=files,
            parts=tuple(parts),
        )

    def _located(self, log_dir: str, pid: int | None) -> str:
        """The log directory for people: relative to the server's root where it is below it. As given, if no path."""
        if not log_dir or ":" in log_dir or "," in log_dir:
            return log_dir
        folder = os.path.expanduser(log_dir)  # noqa: PTH111 - as TensorBoard does
        if not folder.startswith("/"):
            try:
                folder = f"{self._root if pid is None else os.readlink(f'/proc/{pid}/cwd')}/{folder}"  # noqa: PTH115
            except OSError:
                return log_dir
        resolved = os.path.realpath(folder)
        return _within(resolved, self._root) or resolved


def _port_of(parts: Iterable[ProcessKey], wish: int | None) -> tuple[int | None, bool]:
    """The port on which it listens, and whether that was seen; while it does not listen, `wish`."""
    ports: set[int] = set()
    for part in parts:
        try:
            ports |= listening_ports(part.pid)
        except OSError:
            continue
    if not ports:
        return wish, False
    return (wish if wish in ports else min(ports)), True


def _grouped(found: Mapping[ProcessKey, Told], processes: Mapping[int, Process]) -> dict[ProcessKey, list[ProcessKey]]:
    """Those in nobody else's tree, each with all that are in its own.

    A wrapper and the program under it are one TensorBoard, and so is a process that it has just split off.
    """
    groups: dict[ProcessKey, list[ProcessKey]] = {}
    for key in sorted(found):
        outermost, seen, current = key, {key.pid}, processes[key.pid]
        while (parent := processes.get(current.parent)) is not None and parent.key.pid not in seen:
            if parent.key.start_ticks > current.key.start_ticks:
                break
            if parent.key in found:
                outermost = parent.key
            seen.add(parent.key.pid)
            current = parent
        groups.setdefault(outermost, []).append(key)
    return groups


def _with_duplicates(owners: tuple[Owner, ...]) -> tuple[Owner, ...]:
    """All of them; who shows the same log directory as an older one is marked."""
    seen: set[str] = set()
    marked = []
    for owner in sorted(owners, key=_age):
        board = owner.board
        if board is not None and board.log_dir:
            if board.log_dir in seen:
                board = replace(board, duplicate=True)
            seen.add(board.log_dir)
        marked.append(replace(owner, board=board))
    return tuple(marked)


def _age(owner: Owner) -> tuple[bool, datetime | None, OwnerKey]:
    return (owner.started_at is not None, owner.started_at, owner.key)


def _title(shown: str) -> str:
    last = shown.rstrip("/").rpartition("/")[2]
    return f"TensorBoard {last}" if last not in ("", ".") else "TensorBoard"


def _within(path: str, root: str) -> str | None:
    """`path` relative to `root`; None: it is not below it."""
    if path == root:
        return "."
    inside = root.rstrip("/") + "/"
    return path[len(inside) :] if path.startswith(inside) else None
