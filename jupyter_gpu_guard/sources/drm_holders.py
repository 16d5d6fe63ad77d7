"""Which processes have a graphics device open. Only one user's are looked into, and not all of them each time."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from jupyter_gpu_guard.core.model import ProcessKey

from .drm_cards import Card
from .drm_fdinfo import Usage, parse_fdinfo
from .procfs import parse_stat

LOOK_AGAIN = 30.0  # seconds after which a process that had no device open is looked into again
_NODES = "/dev/dri/"
_COMPUTE = "/dev/kfd"

# Any other error (too many open files, no memory) is ours and not the process's: it must not look like no holder.
VANISHED = (FileNotFoundError, ProcessLookupError, PermissionError)


@dataclass(frozen=True)
class Opened:
    """What one process has open, by the UUID of the device; a client as often as it has descriptors for it.

    `at` is the monotonic time of the look. `computes`: the compute driver too.
    """

    key: ProcessKey
    usages: tuple[tuple[str, Usage], ...]
    at: float
    computes: bool = False


class DrmHolders:
    """Looks at each call into new processes and known holders, into all others every half minute."""

    def __init__(self, monotonic: Callable[[], float], root: Path = Path("/proc"), uid: int | None = None) -> None:
        self._monotonic = monotonic
        self._root = root
        self._uid = os.geteuid() if uid is None else uid
        self._due: dict[int, float] = {}

    def read(self, cards: Mapping[str, Card]) -> tuple[Opened, ...]:
        """All holders of `cards` (by the names of their files). Raises OSError if processes cannot be listed.

        Who cannot be looked into is not of this user, and absent. Devices that sleep are left alone.
        """
        now = self._monotonic()
        due: dict[int, float] = {}
        found = []
        for name in os.listdir(self._root):  # noqa: PTH208 - a Path for each process costs more than the look
            if not name.isdecimal():
                continue
            pid = int(name)
            due[pid] = self._due.get(pid, now)
            if due[pid] > now:
                continue
            opened = self._look(name, cards)
            if opened is None:
                due[pid] = now + LOOK_AGAIN - pid % 10  # so that not all have their turn at once
            else:
                found.append(opened)
        self._due = due
        return tuple(found)

    def _look(self, pid: str, cards: Mapping[str, Card]) -> Opened | None:
        folder = f"{self._root}/{pid}"
        try:
            if os.stat(folder).st_uid != self._uid:  # noqa: PTH116
                return None
            descriptors = os.listdir(f"{folder}/fd")  # noqa: PTH208
        except VANISHED:
            return None
        links = [(descriptor, _link(f"{folder}/fd/{descriptor}")) for descriptor in descriptors]
        computes = any(link == _COMPUTE for _, link in links)
        nodes = [(descriptor, link[len(_NODES) :]) for descriptor, link in links if link.startswith(_NODES)]
        key = self._key(folder) if nodes or computes else None
        if key is None:
            return None
        usages = []
        for descriptor, node in nodes:
            card = cards.get(node)
            if card is None or card.sleeps:
                continue
            usage = parse_fdinfo(_text(f"{folder}/fdinfo/{descriptor}"))
            if usage is not None and usage.pdev in ("", card.pdev):
                usages.append((card.device.uuid, usage))
        return Opened(key, tuple(usages), self._monotonic(), computes)

    def _key(self, folder: str) -> ProcessKey | None:
        try:
            stat = parse_stat(Path(folder, "stat").read_bytes())
        except (*VANISHED, ValueError):
            return None
        return ProcessKey(stat.pid, stat.start_ticks)


def _link(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115
    except VANISHED:
        return ""  # closed meanwhile


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except VANISHED:
        return ""
