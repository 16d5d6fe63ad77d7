"""Who is on a device whose processes cannot be seen from this container: an estimate, and marked as one.

It is made only where everything points to one process with its descendants: nobody else here has set up CUDA, and the
driver lists no more processes than these.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jupyter_gpu_guard.core.model import Device, Evidence, GpuClient, Reading, Unknown, Why

from .device_files import DeviceFiles, Use
from .procfs import ProcfsProcesses

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from jupyter_gpu_guard.core.model import Process


@dataclass(frozen=True)
class Candidate:
    """The one process that may be meant, and all of its tree that have set up CUDA, itself among them."""

    pid: int
    tree: frozenset[int]


class SoleOwner:
    """Makes the estimate. `pid` is this process: who is above it started it, and does not compute."""

    def __init__(self, files: DeviceFiles | None = None, pid: int | None = None) -> None:
        self._files = files or DeviceFiles()
        self._processes = ProcfsProcesses()
        self._pid = os.getpid() if pid is None else pid

    def candidate(self) -> Candidate | None:
        """Whoever alone has set up CUDA here. None: nobody, several, or somebody cannot be looked into."""
        try:
            table = self._processes.read()
        except OSError:
            return None
        above = set(_ancestors(self._pid, table))
        found = set()
        for pid, process in table.items():
            use = Use.NONE if process.is_over else self._files.use(pid)
            if use is Use.CUDA:
                found.add(pid)
            elif use is Use.UNREADABLE and pid not in above:
                return None
        tops = [pid for pid in found if found.isdisjoint(_ancestors(pid, table))]
        return Candidate(tops[0], frozenset(found)) if len(tops) == 1 else None

    def of_hidden(self, device: Device, compute: Reading, listed: Collection[int]) -> GpuClient | None:
        """Who is on `device`, if the driver has listed `listed`, on all devices, by numbers that mean nothing here."""
        candidate = self.candidate()
        if candidate is None or len(listed) > len(candidate.tree):
            return None
        return GpuClient(device.uuid, candidate.pid, device.memory_used, compute, evidence=Evidence.ESTIMATE)

    def of_listed(self, device: Device, compute: Reading, client: GpuClient) -> GpuClient | None:
        """The only `client` of `device`, with what the driver does not tell of it put in."""
        candidate = self.candidate()
        if candidate is None or client.pid not in candidate.tree:
            return None
        memory = device.memory_used if _is_hidden(client.memory) else client.memory
        work = compute if _is_hidden(client.compute) else client.compute
        return replace(client, memory=memory, compute=work, evidence=Evidence.ESTIMATE)


def can_be_estimated(client: GpuClient) -> bool:
    """Whether the driver keeps something of it from this container."""
    return _is_hidden(client.memory) or _is_hidden(client.compute)


def _is_hidden(reading: Reading) -> bool:
    return isinstance(reading, Unknown) and reading.why is Why.PIDS_HIDDEN


def _ancestors(pid: int, table: Mapping[int, Process]) -> Iterator[int]:
    seen = {pid}
    process = table.get(pid)
    while process is not None and process.parent not in seen and process.parent in table:
        seen.add(process.parent)
        yield process.parent
        process = table[process.parent]
