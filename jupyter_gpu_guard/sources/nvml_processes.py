"""Who is on one device of an NVIDIA driver, and with how much memory: three lists of the driver made into one."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_gpu_guard.core.model import Reading, Unknown, Why, highest, is_known, total

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .nvml_library import NvmlLibrary

_KINDS = ("Compute", "Graphics", "MPSCompute")
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
_HIGHEST_PID = 2**22


@dataclass(frozen=True)
class Listed:
    """Memory by pid. `shared`: those that compute through the multi-process service."""

    memory: Mapping[int, Reading] = field(default_factory=dict)
    shared: frozenset[int] = frozenset()


class ProcessLists:
    """Reads the lists. `namespaced`: this process lives in a pid namespace of its own, as in a container."""

    def __init__(self, library: NvmlLibrary, *, namespaced: bool) -> None:
        self._library = library
        self.namespaced = namespaced
        self._highest_pid = _HIGHEST_PID if namespaced else _highest_pid()
        self._absent: dict[str, frozenset[int]] = {}

    def read(self, handle: Any, uuid: str, memory_total: Reading) -> Listed | Unknown:
        """Everybody on the device; Unknown if a list fails or contradicts itself, for then somebody may be missing."""
        parts: dict[int, dict[tuple[int, int], Reading]] = defaultdict(dict)
        shared: set[int] = set()
        for kind in _KINDS:
            rows = self._rows(kind, handle)
            if isinstance(rows, Unknown):
                if kind != "Compute" and rows.why is Why.NOT_SUPPORTED:
                    continue  # no such processes on a device or driver that does not know them
                return rows
            for row in rows:
                fault = self._implausible(row, memory_total)
                if fault is not None:
                    return fault  # drivers have used other structures: no row of such a list can be trusted
                instance = (row.gpuInstanceId, row.computeInstanceId)
                # The same context may be in several lists: it has its memory once.
                parts[row.pid][instance] = highest((parts[row.pid].get(instance, 0), self._memory(row)))
                shared.update([row.pid] if kind == "MPSCompute" else [])
        if self.namespaced and self._are_foreign(uuid, parts):
            return Unknown(Why.PIDS_HIDDEN)
        return Listed({pid: total(held.values()) for pid, held in parts.items()}, frozenset(shared))

    def _rows(self, kind: str, handle: Any) -> list[Any] | Unknown:
        rows: list[Any] | Unknown = self._library.ask(f"nvmlDeviceGet{kind}RunningProcesses_v3", handle)
        if isinstance(rows, Unknown) and rows.why is Why.NOT_SUPPORTED:
            older: list[Any] | Unknown = self._library.ask(f"nvmlDeviceGet{kind}RunningProcesses_v2", handle)
            return older
        return rows

    def _implausible(self, row: Any, memory_total: Reading) -> Unknown | None:
        if not 0 < row.pid <= self._highest_pid:
            return Unknown(Why.IMPLAUSIBLE, f"it names a process {row.pid}")
        if row.usedGpuMemory is not None and is_known(memory_total) and row.usedGpuMemory > memory_total:
            return Unknown(Why.IMPLAUSIBLE, f"it gives process {row.pid} more memory than the device has")
        return None

    def _memory(self, row: Any) -> Reading:
        if row.usedGpuMemory is None:
            return Unknown(Why.NOT_AVAILABLE)
        if row.usedGpuMemory == 0 and self.namespaced:
            # Some drivers translate the pid for a container and then look the memory up by the pid of the host.
            return Unknown(Why.PIDS_HIDDEN, "the driver says 0 to a container")
        return float(row.usedGpuMemory)

    def _are_foreign(self, uuid: str, pids: Mapping[int, object]) -> bool:
        """Whether the list names pids of the host. A process that has just ended is in no second reading."""
        absent = frozenset(pid for pid in pids if not Path(f"/proc/{pid}").exists())
        before, self._absent[uuid] = self._absent.get(uuid, frozenset()), absent
        return bool(absent & before)


def is_namespaced() -> bool:
    """Whether this process lives in a pid namespace of its own. Not readable: yes, which is the more careful guess."""
    try:
        return str(Path("/proc/self/ns/pid").readlink()) != _INITIAL_PID_NAMESPACE
    except OSError:
        return True


def _highest_pid() -> int:
    try:
        return int(Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return _HIGHEST_PID
