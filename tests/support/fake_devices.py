"""Devices on which real processes hold what a test says, for as long as they live."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpu_guard.core.model import Device, GpuClient, ProcessKey, Reading
from jupyter_gpu_guard.protocols import DevicesSeen

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpu_guard.core.model import Gap, Process

GPU = "GPU-00000000-0000-0000-0000-000000000000"
GIB = 2.0**30


class FakeDevices:
    """One GPU. `hold` lists a process on it until that very process is over; `silent` answers nothing at all."""

    def __init__(self, identify: Callable[[int], Process | None]) -> None:
        self.silent = False
        self.gaps: tuple[Gap, ...] = ()
        self.looks = 0
        self._identify = identify
        self._held: dict[ProcessKey, tuple[Reading, Reading]] = {}

    def hold(self, key: ProcessKey, memory: Reading, compute: Reading = 0.0) -> None:
        """Let `key` hold so many bytes, and compute so many percent."""
        self._held[key] = (memory, compute)

    async def look(self) -> DevicesSeen | None:
        """One reading, as the guard hands it to an effect."""
        self.looks += 1
        if self.silent:
            return None
        clients = tuple(GpuClient(GPU, key.pid, *held) for key, held in self._held.items() if self._lives(key))
        return DevicesSeen((Device(GPU, 0, "Fake", 80 * GIB, 0.0),), clients, self.gaps)

    def _lives(self, key: ProcessKey) -> bool:
        process = self._identify(key.pid)
        return process is not None and process.key == key and not process.is_over
