"""Whether a process has an NVIDIA device open, seen at the process itself: the driver is not asked."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path


class Use(Enum):
    """What a process has to do with the devices. UNREADABLE proves nothing, neither one way nor the other."""

    CUDA = "cuda"  # has set up CUDA: /dev/nvidia-uvm is open, or libcuda is mapped; a forked child inherits both
    OPEN = "open"  # only other device files: graphics, or just asking the driver, as this server itself does
    NONE = "none"
    UNREADABLE = "unreadable"  # of another user or protected from being looked into, or at its very end
    ABSENT = "absent"  # there is no such process here


_GONE = (FileNotFoundError, ProcessLookupError)


class DeviceFiles:
    """Looks into processes below `proc`. `devices` is the folder in which the driver's files lie."""

    def __init__(self, proc: Path = Path("/proc"), devices: Path = Path("/dev")) -> None:
        self._proc = proc
        self._prefix = f"{devices}/nvidia"

    def use(self, pid: int) -> Use:
        """What process `pid` has open and mapped now. Costs a system call for each of its open files."""
        folder = self._proc / str(pid)
        try:
            opened = self._opened(f"{folder}/fd")
            if opened is Use.CUDA:
                return opened
            mapped = _mapped(f"{folder}/maps")
        except _GONE:
            return Use.UNREADABLE if folder.exists() else Use.ABSENT
        except OSError:  # no permission; or too many open files here, which says nothing about the process either
            return Use.UNREADABLE
        # While a process ends, its files and maps are gone before the driver has given its memory back.
        return opened if opened is Use.OPEN and mapped is not Use.CUDA else mapped

    def _opened(self, folder: str) -> Use:
        found = Use.NONE
        for name in os.listdir(folder):  # noqa: PTH208 - a Path for each open file costs more than looking at it
            try:
                target = os.readlink(f"{folder}/{name}")  # noqa: PTH115
            except FileNotFoundError:
                continue  # closed meanwhile
            if target.startswith(f"{self._prefix}-uvm"):
                return Use.CUDA
            if target.startswith(self._prefix):
                found = Use.OPEN
        return found


def _mapped(path: str) -> Use:
    """CUDA or NONE; UNREADABLE if nothing is mapped, for such is no running program."""
    found = Use.UNREADABLE
    with open(path, "rb") as maps:  # noqa: PTH123
        for line in maps:
            if b"/libcuda.so" in line:
                return Use.CUDA
            found = Use.NONE
    return found
