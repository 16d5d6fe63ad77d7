"""Who is on one device of an NVIDIA driver, and with how much memory: three lists of the driver made into one."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_gpu_guard.core.model import Reading, Unknown, Why, highest, is_known, total

from .nvml_figures import MOST_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .nvml_library import NvmlLibrary
    from .nvml_lists import Row
    from .nvml_pids import PidMeaning

_KINDS = {"Compute": "C", "Graphics": "G", "MPSCompute": "M"}
_FORMS = ("v3", "v2", "v1")
_HIGHEST_PID = 2**22
_NO_INSTANCE = 0xFFFFFFFF
_HIGHEST_INSTANCE = 0xFF
_DISAGREE = "driver and library disagree about its layout"


@dataclass(frozen=True)
class Listed:
    """Memory by pid, and in which lists each is: C compute, G graphics, M multi-process service, joined by `+`."""

    memory: Mapping[int, Reading] = field(default_factory=dict)
    types: Mapping[int, str] = field(default_factory=dict)

    @cached_property
    def shared(self) -> frozenset[int]:
        """Those that compute through the multi-process service."""
        return frozenset(pid for pid, letters in self.types.items() if "M" in letters)


class ProcessLists:
    """Reads the lists. `meaning` says what the pids in them mean."""

    def __init__(self, library: NvmlLibrary, meaning: PidMeaning) -> None:
        self._library = library
        self._meaning = meaning
        self.namespaced = namespaced = meaning.namespaced
        self._highest_pid = _HIGHEST_PID if namespaced else _highest_pid()

    def read(self, handle: Any, uuid: str, memory_total: Reading) -> Listed | Unknown:
        """Everybody on the device; Unknown if a list fails or contradicts itself, for then somebody may be missing."""
        parts: dict[int, dict[tuple[int, ...], Reading]] = defaultdict(dict)
        types: dict[int, str] = {}
        for kind, letter in _KINDS.items():
            rows = self._rows(kind, handle)
            if isinstance(rows, Unknown):
                if kind != "Compute" and rows.why is Why.NOT_SUPPORTED:
                    continue  # no such processes on a device or driver that does not know them
                return rows
            fault = self._implausible(rows, memory_total)
            if fault is not None:
                return fault  # drivers have used other structures: no row of such a list can be trusted
            for row in rows:
                pid, said, *context = row
                held, part = parts[pid], tuple(context)
                # The same context may be in several lists: it has its memory once.
                reading = self._memory(said)
                held[part] = highest((held[part], reading)) if part in held else reading
                if letter not in types.get(pid, ""):
                    types[pid] = f"{types[pid]}+{letter}" if pid in types else letter
        named = self._meaning.named(uuid, parts)
        if isinstance(named, Unknown):
            return named
        memory = {pid: total(held.values()) for pid, held in parts.items() if pid in named}
        return Listed(memory, {pid: types[pid] for pid in memory})

    def listed(self) -> frozenset[int]:
        """All numbers in the last list of each device, also where nobody may be named after them."""
        return self._meaning.listed()

    def _rows(self, kind: str, handle: Any) -> list[Row] | Unknown:
        """The newest form of a list that this driver has."""
        rows: list[Row] | Unknown = []
        for form in _FORMS:
            rows = self._library.ask(f"nvmlDeviceGet{kind}RunningProcesses_{form}", handle)
            if not isinstance(rows, Unknown) or rows.why is not Why.NOT_SUPPORTED:
                break
        return rows

    def _implausible(self, rows: list[Row], memory_total: Reading) -> Unknown | None:
        """What cannot be true of a list, if anything: then its rows are not where they were looked for."""
        seen: dict[tuple[int, ...], int | None] = {}
        most = memory_total if is_known(memory_total) else MOST_BYTES
        for pid, memory, *context in rows:
            if not 0 < pid <= self._highest_pid:
                return Unknown(Why.IMPLAUSIBLE, f"it names a process {pid}: {_DISAGREE}")
            if memory is not None and memory > most:
                what = f"it gives process {pid} more memory than the device has"
                return Unknown(Why.IMPLAUSIBLE, f"{what}: {_DISAGREE}")
            for part in context:
                if _HIGHEST_INSTANCE < part != _NO_INSTANCE:
                    return Unknown(Why.IMPLAUSIBLE, f"it names an instance that cannot be: {_DISAGREE}")
            if seen.setdefault((pid, *context), memory) != memory:
                return Unknown(Why.IMPLAUSIBLE, f"it gives process {pid} two amounts of memory: {_DISAGREE}")
        return None

    def _memory(self, said: int | None) -> Reading:
        if said is None:
            return Unknown(Why.NOT_AVAILABLE)
        if said == 0 and self.namespaced:
            # Some drivers translate the pid for a container and then look the memory up by the pid of the host.
            return Unknown(Why.PIDS_HIDDEN, "the driver says 0 to a container")
        return float(said)


def _highest_pid() -> int:
    try:
        return int(Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return _HIGHEST_PID
