"""What the process numbers mean that the driver gives: those of here, or those of the host around this container.

It depends on the driver and even on the call, and its version does not tell. So it is found out at run time: a number
is credible if there is such a process here and it has a device open or CUDA loaded.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_gpu_guard.core.model import Unknown, Why

from .device_files import DeviceFiles, Use
from .procfs import ProcfsProcesses

if TYPE_CHECKING:
    from collections.abc import Collection

    from jupyter_gpu_guard.core.model import ProcessKey

NOT_YET = Unknown(Why.FIRST_READING, "what the driver's process numbers mean in this container takes two readings")
HIDDEN = Unknown(Why.PIDS_HIDDEN, "the driver's process numbers are not those of this container")


@dataclass(frozen=True)
class _Finding:
    """One reading of one device. `lasting`: doubtful in the reading before, too."""

    pids: frozenset[int]
    proven: bool
    doubtful: frozenset[int]
    lasting: frozenset[int]


class PidMeaning:
    """Says whom a list may name. In the host's pid namespace everybody who lives; else only once that is proven.

    All devices have one driver: what one device's list shows holds for the lists of all of them. A number of the host
    may by chance be that of a process here which has a device open. It is found out by the other numbers, in the same
    list or in that of the device on which this process really is; only if there is none can it not be told.
    """

    def __init__(self, *, namespaced: bool, files: DeviceFiles | None = None) -> None:
        self.namespaced = namespaced
        self._files = files or DeviceFiles()
        self._processes = ProcfsProcesses()
        self._found: dict[str, _Finding] = {}
        self._proven: dict[int, ProcessKey] = {}
        self._is_established = False

    def named(self, uuid: str, pids: Collection[int]) -> frozenset[int] | Unknown:
        """Those of `pids`, one whole list of device `uuid`, that live here. Unknown: nobody may be named after it."""
        if not self.namespaced:
            return frozenset(pid for pid in pids if _is_alive(pid))
        self._proven = {pid: key for pid, key in self._proven.items() if self._identity(pid) == key}
        uses = {pid: self._use(pid) for pid in pids}
        doubtful = frozenset(pid for pid, use in uses.items() if use in {Use.ABSENT, Use.NONE})
        before = self._found.get(uuid)
        now = _Finding(
            pids=frozenset(pids),
            proven=any(use in {Use.CUDA, Use.OPEN} for use in uses.values()),
            doubtful=doubtful,
            lasting=doubtful & before.doubtful if before else frozenset(),
        )
        self._found[uuid] = now
        if not pids:
            return frozenset()
        if any(found.lasting for found in self._found.values()):
            self._is_established = False
            return HIDDEN
        if not self._is_established:
            if before is None or not before.pids:
                return NOT_YET
            if not before.proven or not now.proven or any(found.doubtful for found in self._found.values()):
                return HIDDEN
            self._is_established = True
        return frozenset(pids) - doubtful  # a doubtful one has just ended

    def listed(self) -> frozenset[int]:
        """All numbers in the last list of each device, whatever they mean."""
        return frozenset().union(*(found.pids for found in self._found.values()))

    def _use(self, pid: int) -> Use:
        """What is known of `pid`. Once proven it stays so: at its end a process closes its files before all is free."""
        if pid in self._proven:
            return Use.CUDA
        key = self._identity(pid)
        use = self._files.use(pid)
        if use is Use.OPEN and pid == os.getpid():
            return Use.NONE  # this server asks the driver, and does not compute
        if use in {Use.CUDA, Use.OPEN} and key is not None:
            self._proven[pid] = key
        return use

    def _identity(self, pid: int) -> ProcessKey | None:
        try:
            process = self._processes.identify(pid)
        except OSError:  # too many open files here: then nothing is proven
            return None
        return process.key if process else None


def _is_alive(pid: int) -> bool:
    """Whether there is such a process, also where /proc shows only one's own."""
    try:
        os.getpgid(pid)
    except ProcessLookupError:
        return False
    except OSError:  # a security module may forbid the question; then there is such a process
        return True
    return True
