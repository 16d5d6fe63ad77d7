"""Ticks and ticks, with faults that come and go: what is held open afterwards? Run as a program, it prints JSON.

python -m tests.endurance.leak FOLDER TICKS
"""

from __future__ import annotations

import asyncio
import gc
import json
import shutil
import sys
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from jupyter_gpu_guard.core.model import Instant, is_known
from jupyter_gpu_guard.kernel.simulated_gpu import Declaration, declare_for
from jupyter_gpu_guard.sources.nvml import NvmlDevices
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses
from tests.driver import GpuProgram, StandIn

from .one_kernel import KERNEL, FakeEnforcer, FakeOwners, guard_over

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpu_guard.core.model import Process
    from jupyter_gpu_guard.guard import Guard

STRETCH = 100  # ticks with one fault, and then as many without any
INTERVAL = 5.0  # seconds between two ticks, by the clock that the guard sees
LATE_AFTER = 0.05  # seconds
GIB = 2**30

DRIVER_FAULTS = (
    "all error UNKNOWN *Processes*",
    "all error NO_PERMISSION *Utilization*",
    "0 lost 1",
    "global error UNINITIALIZED nvmlDeviceGetCount*",
    "all bad_list 1",
    "all over_100 1",
    "all ghost_samples 1",
    "all hide_procs 1",
)
LATE = f"0 slow_ms {round(LATE_AFTER * 1500)} nvmlDeviceGetComputeRunningProcesses*"


@dataclass
class Level:
    """What is held at the end of a quiet stretch. `resident` in bytes."""

    descriptors: int
    threads: int
    resident: int


@dataclass
class Found:
    """What the run has seen. `with_gaps` and `unknown` count ticks."""

    ticks: int = 0
    with_gaps: int = 0
    unknown: int = 0
    known: int = 0
    acts: int = 0
    levels: list[Level] = field(default_factory=list)


class HastyClock:
    """`Clock` that is one interval ahead with every tick; the driver follows."""

    def __init__(self) -> None:
        self.passed = 0.0
        self._began = datetime(2030, 1, 1, tzinfo=timezone.utc)

    def now(self) -> Instant:
        """The moment it shows."""
        return Instant(self._began + timedelta(seconds=self.passed), self.monotonic())

    def monotonic(self) -> float:
        """Seconds."""
        return 1000.0 + self.passed

    def wall(self) -> float:
        """Seconds since 1970."""
        return self._began.timestamp() + self.passed


class FaultyProcesses:
    """The process table of a small tree; with `fault`, it cannot be read."""

    def __init__(self, tree: Path) -> None:
        self._table = ProcfsProcesses(tree)
        self.fault: OSError | None = None

    def read(self, closely: object = None) -> Mapping[int, Process]:
        """The table."""
        if self.fault is not None:
            raise self.fault
        return self._table.read(closely)

    def identify(self, pid: int) -> Process | None:
        """One row."""
        return self._table.identify(pid)


class Run:
    """Two programs on two devices, one of them the kernel, and a guard over them."""

    def __init__(self, folder: Path) -> None:
        self.driver = StandIn(folder / "driver")
        self.programs = [GpuProgram(self.driver.folder), GpuProgram(self.driver.folder)]
        for program in self.programs:
            declare_for(program.pid, Declaration({0: 2 * GIB, 1: GIB}), self.driver.folder)
        tree = folder / "proc"
        for name in ("stat", *(f"{program.pid}/stat" for program in self.programs)):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(f"/proc/{name}", tree / name)
        clock = self.clock = HastyClock()
        self.processes = FaultyProcesses(tree)
        kernel = self.processes.identify(self.programs[0].pid)
        assert kernel is not None
        self.owners, self.enforcer = FakeOwners(kernel.key), FakeEnforcer(clock)
        self.devices = NvmlDevices(clock.monotonic, clock.wall, namespaced=False)
        self.guard: Guard = guard_over(
            self.devices, self.processes, self.owners, self.enforcer, clock, folder, deadline=LATE_AFTER
        )

    async def tick(self, found: Found) -> None:
        """One tick, and what came of it."""
        self.clock.passed += INTERVAL
        seen = await self.guard.tick()
        assert seen.snapshot is not None
        found.ticks += 1
        found.with_gaps += bool(seen.snapshot.gaps)
        compute = seen.holder(KERNEL).compute if seen.attribution.holders else None
        found.known += compute is not None and is_known(compute)
        found.unknown += compute is not None and not is_known(compute)

    def end(self) -> None:
        """End what was started."""
        self.devices.close()
        for program in self.programs:
            program.bury()


async def run(folder: Path, ticks: int) -> Found:
    """So many ticks, half of them under a fault."""
    run, found, me = Run(folder), Found(), psutil.Process()
    quiet = "global remember_ms 1000000"  # the two programs do not change: no need to look at each tick
    faults = 2 * [*DRIVER_FAULTS, "processes", "owners"] + [LATE]
    try:
        for stretch in range(ticks // STRETCH):
            fault = faults[stretch // 2 % len(faults)] if stretch % 2 else None
            run.driver.fault(quiet, *([fault] if fault in {*DRIVER_FAULTS, LATE} else []))
            run.processes.fault = OSError("no file can be opened") if fault == "processes" else None
            run.owners.fault = RuntimeError("no kernel can be listed") if fault == "owners" else None
            for _ in range(STRETCH):
                await run.tick(found)
            if fault is None:
                gc.collect()
                found.levels.append(Level(me.num_fds(), me.num_threads(), me.memory_info().rss))
        found.acts = len(run.enforcer.done)
        run.enforcer.done.clear()
        await run.guard.close()
    finally:
        run.end()
    return found


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2]))))))
