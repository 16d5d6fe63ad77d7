"""A closer look at single processes: what they have inherited, what they read and write, who comes to their ports.

Everything here blocks. A process that ends meanwhile, or may not be looked into, is left out; it harms no other.
"""

from __future__ import annotations

import os
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_gpu_guard.core.model import Activity, Mark, OwnerKind, ProcessKey
from jupyter_gpu_guard.sources.connections import Connections, Pair, is_from_afar, read_connections
from jupyter_gpu_guard.sources.procfs import parse_stat
from jupyter_gpu_guard.sources.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from jupyter_gpu_guard.core.model import OwnerKey

READ_AGAIN = 60.0  # seconds; a process without marks may have replaced itself by another program
REMEMBERED = 300.0  # seconds; a closed connection is shown for 60, and looks may be far apart

_SERVER, _SESSION = b"JPY_PARENT_PID=", b"JPY_SESSION_NAME="
_UNMARKED = Mark(server=None, session=None)
_SOCKET = "socket:["

# Any other error (too many open files, no memory) is ours, and must not look like a process without connections.
_VANISHED = (FileNotFoundError, ProcessLookupError, PermissionError)


class ProcfsInsight:
    """`Insight` from a proc file system. `monotonic` gives the time in seconds."""

    def __init__(
        self,
        root: Path = Path("/proc"),
        monotonic: Callable[[], float] = time.monotonic,
        traffic: Traffic | None = None,
    ) -> None:
        self._root = root
        self._monotonic = monotonic
        self._traffic = traffic or Traffic()
        self._marks: dict[ProcessKey, tuple[Mark, float]] = {}
        self._inside: dict[Pair, float] = {}  # connections within one tree, and when they were seen last
        self._visited: frozenset[int] = frozenset()  # ports to which somebody was seen to come from outside

    def marks(self, keys: Collection[ProcessKey]) -> Mapping[ProcessKey, Mark]:
        """What each of `keys` has inherited. Of its environment nothing but the two marks is kept.

        Missing: it cannot be read, or is gone. One without marks has neither a server nor a session.
        """
        now = self._monotonic()
        seen: dict[ProcessKey, tuple[Mark, float]] = {}
        for key in keys:
            before = self._marks.get(key)
            if before is not None and (before[0] != _UNMARKED or now - before[1] < READ_AGAIN):
                seen[key] = before
            elif (mark := self._mark(key)) is not None:
                seen[key] = mark, now
        self._marks = seen
        return {key: mark for key, (mark, _) in seen.items()}

    def activity(
        self, trees: Mapping[OwnerKey, Collection[ProcessKey]], own_ports: Mapping[OwnerKey, Collection[int]]
    ) -> Mapping[OwnerKey, Activity]:
        """What each tree reads and writes, where it listens, and who has come to it from outside.

        A closed connection within this machine does not tell who had it. It counts as a visit where somebody was seen
        to come from outside before; at the port of a TensorBoard, also where nobody was seen at all.
        """
        connections = read_connections(self._root / "self/net")
        here = self._namespace("self")
        now = self._monotonic()
        held = {
            owner: {key: self._sockets(key) for key in tree if self._namespace(str(key.pid)) == here}
            for owner, tree in trees.items()
        }
        sockets = {owner: frozenset().union(*tree.values()) for owner, tree in held.items()}
        listens = {
            owner: connections.ports(theirs).difference(own_ports.get(owner, ())) for owner, theirs in sockets.items()
        }
        visits = self._visits(connections, sockets, listens, now)
        moved = self._traffic.moved(held, own_ports)
        return {
            owner: Activity(
                io={key: amount + moved[owner].get(key, 0) for key in tree if (amount := self._io(key)) is not None},
                listens=listens[owner],
                visitors=visits[owner] if all(map(self._can_be_seen, tree)) else None,
            )
            for owner, tree in trees.items()
        }

    def _visits(
        self,
        connections: Connections,
        sockets: Mapping[OwnerKey, frozenset[int]],
        listens: Mapping[OwnerKey, frozenset[int]],
        now: float,
    ) -> dict[OwnerKey, int]:
        """By owner, the connections to its ports from outside that are open or were closed lately."""
        came: dict[OwnerKey, set[Pair]] = {owner: set() for owner in sockets}
        for owner, ports in listens.items():
            for port in ports:
                outside, inside = connections.open_at(port, sockets[owner])
                came[owner] |= outside
                self._inside.update(dict.fromkeys(inside, now))
        self._inside = {pair: at for pair, at in self._inside.items() if now - at < REMEMBERED}
        every_port = frozenset().union(*listens.values())
        visited = {pair.server.port for pairs in came.values() for pair in pairs}
        self._visited = every_port & (self._visited | visited)
        # Where nobody was ever seen to come from outside, closed connections are those of the tree to itself: always of
        # programs, which also ask themselves; of TensorBoards, which do not, only if such were seen.
        private = {pair.server.port for pair in self._inside} - self._visited
        unproven = dict.fromkeys(OwnerKind, every_port - self._visited) | {OwnerKind.TENSORBOARD: private}
        for owner, ports in listens.items():
            for port in ports:
                came[owner] |= {
                    pair
                    for pair in connections.closed_at(port)
                    if is_from_afar(pair) or (pair not in self._inside and port not in unproven[owner.kind])
                }
        return {owner: len(pairs) for owner, pairs in came.items()}

    def _mark(self, key: ProcessKey) -> Mark | None:
        is_near = self._is_of_this_user(key) and _link(f"{self._root}/{key.pid}/ns/pid") == self._here
        environment = self._read(key, "environ") if is_near else None
        if environment is None:
            return None
        server, session = None, None
        for variable in environment.split(b"\0"):
            if variable.startswith(_SERVER):
                digits = variable[len(_SERVER) :]
                server = int(digits) if digits.isdigit() else None
            elif variable.startswith(_SESSION):
                session = os.fsdecode(variable[len(_SESSION) :]) or None
        return Mark(server, session)

    @cached_property
    def _here(self) -> str:
        """The pid namespace of this server: the pids that processes of another one have inherited mean nothing here."""
        return _link(f"{self._root}/self/ns/pid")

    def _can_be_seen(self, key: ProcessKey) -> bool:
        """Whether its connections are among those that are read, and it lets itself be looked into."""
        pid = str(key.pid)
        if not self._is(key):
            return True  # it is gone, and has none
        return self._namespace(pid) == self._namespace("self") and os.access(f"{self._root}/{pid}/fd", os.R_OK)

    def _is_of_this_user(self, key: ProcessKey) -> bool:
        """Other people's environment is nobody's business, also where it could be read."""
        try:
            return (self._root / str(key.pid)).stat().st_uid == os.getuid()
        except _VANISHED:
            return False

    def _io(self, key: ProcessKey) -> float | None:
        """Bytes that it has read and written so far, in whatever file. None: it cannot be looked into.

        Of sockets only what went through them as through files, by `read` and `write`.
        """
        text = self._read(key, "io")
        if text is None:
            return None
        fields = dict(line.split(b": ", 1) for line in text.splitlines() if b": " in line)
        try:
            return float(int(fields[b"rchar"]) + int(fields[b"wchar"]))
        except (KeyError, ValueError):
            return None

    def _sockets(self, key: ProcessKey) -> frozenset[int]:
        """The inodes of the sockets that it has open. Empty: none, or it cannot be looked into."""
        folder = f"{self._root}/{key.pid}/fd"
        found = set()
        try:
            for name in os.listdir(folder):  # noqa: PTH208 - thousands of them, each for one link
                target = _link(f"{folder}/{name}")
                if target.startswith(_SOCKET):
                    found.add(int(target[len(_SOCKET) : -1]))
        except _VANISHED:
            return frozenset()
        return frozenset(found) if self._is(key) else frozenset()

    def _namespace(self, pid: str) -> str:
        """Its network namespace. Of another than ours the tables are not ours to read."""
        return _link(f"{self._root}/{pid}/ns/net")

    def _read(self, key: ProcessKey, name: str) -> bytes | None:
        """One file of exactly this process: it was the same before and after. None: it is gone, or refuses."""
        if not self._is(key):
            return None
        try:
            text = (self._root / str(key.pid) / name).read_bytes()
        except _VANISHED:
            return None
        return text if self._is(key) else None

    def _is(self, key: ProcessKey) -> bool:
        try:
            stat = parse_stat((self._root / str(key.pid) / "stat").read_bytes())
        except (*_VANISHED, ValueError):
            return False
        return stat.start_ticks == key.start_ticks


def _link(path: str) -> str:
    """Where it leads; empty: it is gone, or refuses."""
    try:
        return os.readlink(path)  # noqa: PTH115 - thousands of them
    except _VANISHED:
        return ""
