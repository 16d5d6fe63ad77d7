"""TCP sockets as /proc shows them: who listens on which port, and whether somebody is connected."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

ESTABLISHED, TIME_WAIT, LISTEN = 0x01, 0x06, 0x0A

_SOCKET = re.compile(r"socket:\[(\d+)\]")
_FIELDS = 10  # up to and including the inode


class Socket(NamedTuple):
    """One row of /proc/PID/net/tcp. `inode` 0: it belongs to no process any more."""

    port: int
    state: int
    inode: int


def parse_tcp(text: str) -> list[Socket]:
    """The sockets of one /proc/PID/net/tcp or tcp6. A line that is none, such as the heading, is left out."""
    found = []
    for line in text.splitlines():
        fields = line.split(None, _FIELDS)
        if len(fields) < _FIELDS or not fields[0].endswith(":"):
            continue
        try:
            found.append(Socket(int(fields[1].rpartition(":")[2], 16), int(fields[3], 16), int(fields[9])))
        except ValueError:
            continue
    return found


def tcp_sockets(pid: int, proc: Path = Path("/proc")) -> list[Socket]:
    """All TCP sockets of the network in which `pid` lives. Raises OSError if they cannot be read."""
    found = parse_tcp((proc / str(pid) / "net/tcp").read_text(encoding="ascii", errors="replace"))
    try:
        found += parse_tcp((proc / str(pid) / "net/tcp6").read_text(encoding="ascii", errors="replace"))
    except FileNotFoundError:
        return found  # IPv6 is switched off
    return found


def listening_ports(pid: int, proc: Path = Path("/proc")) -> frozenset[int]:
    """The TCP ports on which the process itself listens. Raises OSError if it is gone or cannot be looked into."""
    folder = proc / str(pid) / "fd"
    inodes = set()
    for name in os.listdir(folder):  # noqa: PTH208 - names are all that is needed
        try:
            match = _SOCKET.fullmatch(os.readlink(folder / name))  # noqa: PTH115 - no Path of a socket
        except FileNotFoundError:  # it was closed meanwhile
            continue
        if match is not None:
            inodes.add(int(match[1]))
    if not inodes:
        return frozenset()
    return frozenset(each.port for each in tcp_sockets(pid, proc) if each.state == LISTEN and each.inode in inodes)


def has_visitors(pid: int, port: int, proc: Path = Path("/proc")) -> bool:
    """Whether a connection to `port` is open, or was closed within about a minute. Raises OSError if not readable."""
    return any(each.port == port and each.state in (ESTABLISHED, TIME_WAIT) for each in tcp_sockets(pid, proc))
