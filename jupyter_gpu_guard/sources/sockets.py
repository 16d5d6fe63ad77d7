"""The ports of single programs: on which they listen, and whether somebody has come to one of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from jupyter_gpu_guard.sources.connections import Connections, read_connections

_SOCKET = re.compile(r"socket:\[(\d+)\]")


def listening_ports(pid: int) -> frozenset[int]:
    """The TCP ports on which the process itself listens. Raises OSError if it is gone or cannot be looked into."""
    inodes = _sockets_of(pid)
    return _connections_of(pid).ports(inodes) if inodes else frozenset()


def has_visitors(pids: Iterable[int], port: int) -> bool:
    """Whether a connection to `port` of one of the processes is open, or was closed within about a minute.

    Raises OSError if that cannot be told.
    """
    for pid in pids:
        connections = _connections_of(pid)
        outside, inside = connections.open_at(port, _sockets_of(pid))
        if outside or inside or connections.closed_at(port):
            return True
    return False


def _connections_of(pid: int) -> Connections:
    """Those of the network in which the process lives."""
    return read_connections(Path(f"/proc/{pid}/net"))


def _sockets_of(pid: int) -> frozenset[int]:
    folder = f"/proc/{pid}/fd"
    found = set()
    for name in os.listdir(folder):  # noqa: PTH208 - names are all that is needed
        try:
            match = _SOCKET.fullmatch(os.readlink(f"{folder}/{name}"))  # noqa: PTH115 - no Path of a socket
        except FileNotFoundError:  # it was closed meanwhile
            continue
        if match is not None:
            found.add(int(match[1]))
    return frozenset(found)
