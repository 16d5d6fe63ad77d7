"""TCP connections of this network namespace, read from /proc/net: who listens, who has come, who has gone."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from collections.abc import Set as AbstractSet
    from pathlib import Path

_ESTABLISHED, _CLOSED, _LISTENS = "01", "06", "0A"  # TIME_WAIT is a closed one that is remembered for a minute
_V4_IN_V6 = "0000000000000000FFFF0000"
_V6_LOOPBACK = "00000000000000000000000001000000"


class End(NamedTuple):
    """One end of a connection: the address in hexadecimal, as the kernel writes it, and the port."""

    address: str
    port: int


class Pair(NamedTuple):
    """A connection, seen from the one who was called."""

    server: End
    client: End


class Row(NamedTuple):
    """One line of the table. `inode` is 0 where no process has the socket (any more)."""

    local: End
    remote: End
    state: str
    inode: int


class Connections:
    """All rows of one moment, and what they say of the sockets of one process tree."""

    def __init__(self, rows: Collection[Row]) -> None:
        self._listening = [row for row in rows if row.state == _LISTENS]
        self._open: dict[int, list[Row]] = defaultdict(list)  # by local port
        self._holder: dict[Pair, int] = {}  # the inode by the two ends: local, remote
        self._closed: dict[int, set[Pair]] = defaultdict(set)  # by the port of either end that may have been called
        for row in rows:
            if row.state == _ESTABLISHED:
                self._open[row.local.port].append(row)
                self._holder[Pair(row.local, row.remote)] = row.inode
            elif row.state == _CLOSED:
                self._closed[row.local.port].add(Pair(row.local, row.remote))
                if _is_here(row):
                    self._closed[row.remote.port].add(Pair(row.remote, row.local))

    def ports(self, sockets: AbstractSet[int]) -> frozenset[int]:
        """The ports on which one of `sockets` listens."""
        return frozenset(row.local.port for row in self._listening if row.inode in sockets)

    def open_at(self, port: int, sockets: AbstractSet[int]) -> tuple[set[Pair], set[Pair]]:
        """The open connections to `port` of whoever has `sockets`: those from outside, and those among themselves."""
        outside: set[Pair] = set()
        inside: set[Pair] = set()
        for row in self._open.get(port, ()):
            if row.inode and row.inode not in sockets:
                continue  # somebody else's, at another address
            pair = Pair(row.local, row.remote)
            caller = self._holder.get(Pair(row.remote, row.local))
            (inside if caller is not None and caller in sockets else outside).add(pair)
        return outside, inside

    def closed_at(self, port: int) -> set[Pair]:
        """The connections to `port` that were closed within about a minute. Who had them is not told any more."""
        return self._closed.get(port, set())


def is_from_afar(pair: Pair) -> bool:
    """Whether it was surely made from another machine or container."""
    return not _is_loopback(pair.client.address) and pair.client.address != pair.server.address


def read_connections(folder: Path) -> Connections:
    """The tables in `folder`, which is /proc/PID/net. Without IPv6 there is one less."""
    rows: list[Row] = []
    for name in ("tcp", "tcp6"):
        try:
            text = (folder / name).read_text(encoding="ascii")
        except FileNotFoundError:
            continue
        rows += _parse(text)
    return Connections(rows)


def _parse(text: str) -> Iterator[Row]:
    for line in text.splitlines()[1:]:
        fields = line.split(None, 10)
        if len(fields) > 9 and fields[3] in (_ESTABLISHED, _CLOSED, _LISTENS):  # noqa: PLR2004 - the tenth is the inode
            yield Row(_end(fields[1]), _end(fields[2]), fields[3], int(fields[9]))


def _end(text: str) -> End:
    address, _, port = text.partition(":")
    # A socket for both protocols shows a caller by IPv4 at an address of IPv6, and the caller's own row does not.
    return End(address.removeprefix(_V4_IN_V6), int(port, 16))


def _is_here(row: Row) -> bool:
    """Whether both ends are on this machine."""
    return _is_loopback(row.remote.address) or row.remote.address == row.local.address


def _is_loopback(address: str) -> bool:
    if len(address) == len(_V6_LOOPBACK):
        return address == _V6_LOOPBACK
    return address.endswith("7F")  # IPv4 in the byte order of the machine: 127.0.0.1 is 0100007F
