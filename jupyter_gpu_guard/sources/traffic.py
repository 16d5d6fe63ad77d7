"""What goes through TCP connections by `recv` and `send`, which /proc/PID/io does not count. Linux itself is asked.

It tells everybody of each socket how much the other end has acknowledged and sent, over netlink (sock_diag).
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from jupyter_gpu_guard.core.model import OwnerKey, ProcessKey

_SOCK_DIAG = 4  # the protocol, of netlink
_BY_FAMILY = 20  # the kind of question and of answer, SOCK_DIAG_BY_FAMILY
_ERROR, _DONE = 2, 3
_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP: all that there are
_INFO = 2  # INET_DIAG_INFO, the attribute with a tcp_info
_CONNECTED = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8  # ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT: somebody has it open

_HEADER = struct.Struct("=IHHII")  # length, kind, flags, sequence, sender
_QUESTION = struct.Struct("=BBBxI48x")  # family, protocol, attributes, states, and any socket
_ROW, _COOKIE_AT, _INODE_AT = 72, 44, 68  # bytes of an inet_diag_msg
_MOVED = struct.Struct("=QQ")  # tcpi_bytes_acked, tcpi_bytes_received
_MOVED_AT = 120
_V4_IN_V6 = bytes(10) + b"\xff\xff"
_V6_LOOPBACK = bytes(15) + b"\x01"

_PATIENCE = 1.0  # seconds
_AT_ONCE = 2**16  # bytes; Linux fills at most half of it

# These are ours, and must not look like a system that does not tell.
_OURS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS}


class End(NamedTuple):
    """One end of a connection. An address of IPv4 has four bytes, also where a socket for both protocols has it."""

    address: bytes
    port: int


class Flow(NamedTuple):
    """One connected TCP socket. `cookie` is its own for good; `moved` are the bytes sent and received so far."""

    cookie: int
    inode: int
    local: End
    remote: End
    moved: int


class Traffic:
    """Adds up by process what went through its TCP connections. A socket that is closed takes nothing away again.

    Bytes count from one look to the next: those of a connection that opens and closes in between were never seen.
    """

    def __init__(
        self,
        ask: Callable[[], Collection[Flow] | None] | None = None,
        *,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger] | None = None,
    ) -> None:
        self._ask = ask or connected
        self._log = log or logging.getLogger(__name__)
        self._moved: Mapping[OwnerKey, Mapping[ProcessKey, int]] = {}
        self._seen: Mapping[OwnerKey, Mapping[int, int]] = {}  # by owner and cookie, the bytes at the last look
        self._is_told = True

    def moved(
        self,
        sockets: Mapping[OwnerKey, Mapping[ProcessKey, frozenset[int]]],
        own_ports: Mapping[OwnerKey, Collection[int]],
    ) -> Mapping[OwnerKey, Mapping[ProcessKey, int]]:
        """Bytes by process of each owner's tree. `sockets` are the inodes that each has open. Blocks.

        Connections at `own_ports`, and between processes of one tree, do not count. A socket of several processes
        counts once. Without an answer nothing is added. Raises OSError for want of descriptors or memory.
        """
        before, known = self._moved, self._seen
        self._moved = {
            owner: {key: before.get(owner, {}).get(key, 0) for key in tree} for owner, tree in sockets.items()
        }
        if not any(inodes for tree in sockets.values() for inodes in tree.values()):
            return self._moved
        flows = self._ask()
        if flows is None:
            if self._is_told:
                self._log.debug("This system does not tell what goes through TCP connections; only files count")
            self._is_told = False
            return self._moved
        self._is_told = True
        table = _Table(flows)
        moved, seen = {}, {}
        for owner, tree in sockets.items():
            moved[owner], seen[owner] = table.count(
                tree, frozenset(own_ports.get(owner, ())), self._moved[owner], known.get(owner, {})
            )
        self._moved, self._seen = moved, seen
        return moved


class _Table:
    """All connections of one moment."""

    def __init__(self, flows: Collection[Flow]) -> None:
        self._by_inode = {flow.inode: flow for flow in flows if flow.inode}
        self._by_ends = {(flow.local, flow.remote): flow for flow in flows}
        self._cookies = {flow.cookie for flow in flows}

    def count(
        self,
        tree: Mapping[ProcessKey, frozenset[int]],
        own_ports: frozenset[int],
        moved: Mapping[ProcessKey, int],
        seen: Mapping[int, int],
    ) -> tuple[dict[ProcessKey, int], dict[int, int]]:
        """`moved` with what has come since `seen`, and what is seen now. A socket once seen is known while it lives."""
        total = dict(moved)
        now = {cookie: amount for cookie, amount in seen.items() if cookie in self._cookies}
        every = frozenset().union(*tree.values())
        done: set[int] = set()
        for key in sorted(tree):
            for inode in tree[key] - done:
                flow = self._by_inode.get(inode)
                if flow is None:
                    continue
                if not _is_own(flow, own_ports) and not self._is_within(flow, every):
                    total[key] += max(0, flow.moved - now.get(flow.cookie, 0))
                now[flow.cookie] = flow.moved
            done |= tree[key]
        return total, now

    def _is_within(self, flow: Flow, sockets: frozenset[int]) -> bool:
        other = self._by_ends.get((flow.remote, flow.local))
        return other is not None and other.inode in sockets


def _is_own(flow: Flow, own_ports: frozenset[int]) -> bool:
    """Whether it is Jupyter's own talk with this owner."""
    if flow.local.port in own_ports:
        return True
    address = flow.remote.address
    is_here = address in (flow.local.address, _V6_LOOPBACK) or (len(address) == 4 and address[0] == 127)  # noqa: PLR2004
    return is_here and flow.remote.port in own_ports


def connected() -> tuple[Flow, ...] | None:
    """All connected TCP sockets of this network. None: the system does not tell. Blocks, for a second at most.

    Raises OSError for want of descriptors or memory.
    """
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as line:
            line.settimeout(_PATIENCE)
            flows = list(_ask(line, socket.AF_INET))
            try:
                flows += _ask(line, socket.AF_INET6)
            except FileNotFoundError:  # a system without IPv6
                return tuple(flows)
    except OSError as fault:
        if fault.errno in _OURS:
            raise
        return None
    except (struct.error, ValueError, AttributeError):  # not as it is documented, or no Linux at all
        return None
    return tuple(flows)


def _ask(line: socket.socket, family: int) -> Iterator[Flow]:
    """Those of one family. Raises OSError, struct.error or ValueError."""
    question = _QUESTION.pack(family, socket.IPPROTO_TCP, 1 << (_INFO - 1), _CONNECTED)
    line.sendto(_HEADER.pack(_HEADER.size + len(question), _BY_FAMILY, _DUMP, family, 0) + question, (0, 0))
    while True:
        answer, begin = line.recv(_AT_ONCE), 0
        while begin < len(answer):
            length, kind, _, sequence, _ = _HEADER.unpack_from(answer, begin)
            if length < _HEADER.size or begin + length > len(answer):
                raise ValueError("torn")
            message = answer[begin + _HEADER.size : begin + length]
            begin += (length + 3) & ~3
            if sequence != family:
                continue
            if kind == _DONE:
                return
            if kind == _ERROR:
                code = -struct.unpack_from("=i", message)[0]
                raise OSError(code, os.strerror(code))
            if kind == _BY_FAMILY and (flow := _flow(message)) is not None:
                yield flow


def _flow(message: bytes) -> Flow | None:
    """One row. None: this Linux is too old to count bytes."""
    (cookie,), (inode,) = struct.unpack_from("=Q", message, _COOKIE_AT), struct.unpack_from("=I", message, _INODE_AT)
    size = 4 if message[0] == socket.AF_INET else 16
    ports = struct.unpack_from(">HH", message, 4)
    local, remote = (
        End(message[begin : begin + size].removeprefix(_V4_IN_V6), port)
        for begin, port in zip((8, 24), ports, strict=True)
    )
    place = _ROW
    while place + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, place)
        if kind == _INFO and length >= 4 + _MOVED_AT + _MOVED.size:
            return Flow(cookie, inode, local, remote, sum(_MOVED.unpack_from(message, place + 4 + _MOVED_AT)))
        place += max(4, (length + 3) & ~3)
    return None
