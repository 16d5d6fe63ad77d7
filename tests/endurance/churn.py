"""Ticks while GPU clients come and go all the time. Run as a program, it prints JSON.

python -m tests.endurance.churn FOLDER TICKS
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_gpu_guard.clock import SystemClock
from jupyter_gpu_guard.core.model import is_known
from jupyter_gpu_guard.core.policy import Policy
from jupyter_gpu_guard.kernel.simulated_gpu import FOR_EVER, Declaration, Load, declare_for, now_us
from jupyter_gpu_guard.sources.nvml import NvmlDevices
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses
from tests.driver import StandIn

from .one_kernel import KERNEL, FakeEnforcer, FakeOwners, guard_over

if TYPE_CHECKING:
    from jupyter_gpu_guard.core.model import Holder, ProcessKey
    from jupyter_gpu_guard.published import Published

INTERVAL = 0.1
PAUSE = 0.02
GIB, MIB = 2**30, 2**20
OURS, THEIRS = 1, 3  # MiB that each child of the kernel, or of somebody else, holds
BUSY = 30  # percent, of the kernel itself


@dataclass
class Found:
    """What the run has seen. `wrong` describes each tick in which something was not right."""

    ticks: int = 0
    known: int = 0
    children: int = 0
    strangers: int = 0
    births: int = 0
    wrong: list[str] = field(default_factory=list)


def start_breeder(memory_mib: int) -> subprocess.Popen[bytes]:
    """A process that gives birth to clients that hold so much."""
    command = [sys.executable, "-m", "tests.endurance.breeder", str(memory_mib), str(PAUSE)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)


def count_births(breeder: subprocess.Popen[bytes]) -> int:
    """End the breeder and say how many it has brought forth."""
    breeder.kill()
    said, _ = breeder.communicate()
    return len(said.split())


def look_at(holder: Holder, root: ProcessKey, found: Found) -> str | None:
    """What is wrong with the kernel's row, if anything."""
    if holder.unknown is not None:
        return f"nothing is known of it: {holder.unknown}"
    rows = [row for holding in holder.holdings for row in holding.processes]
    own = [row for row in rows if row.key == root]
    children = [row for row in rows if row.key != root]
    found.children += len(children)
    if [row.memory for row in own] != [2 * GIB]:
        return f"its own memory is {own}"
    if any(row.memory != OURS * MIB for row in children):
        return f"somebody else is charged to it: {children}"
    compute = own[0].compute
    if not is_known(compute):
        return f"its compute is {compute}" if found.known else None  # it takes two readings, half a second apart
    found.known += 1
    return f"its compute is {compute}" if abs(compute - BUSY) > 1 else None


async def run(folder: Path, ticks: int) -> Found:
    """So many ticks."""
    driver, found, clock = StandIn(folder / "driver"), Found(), SystemClock()
    kernel, other = start_breeder(OURS), start_breeder(THEIRS)
    devices, processes = NvmlDevices(namespaced=False), ProcfsProcesses()
    load = Load(0, now_us() - 30_000_000, FOR_EVER, BUSY)
    declare_for(kernel.pid, Declaration({0: 2 * GIB}, (load,)), driver.folder)
    row = processes.identify(kernel.pid)
    assert row is not None
    guard = guard_over(
        devices, processes, FakeOwners(row.key), FakeEnforcer(clock), clock, folder, policy=Policy(), deadline=60
    )
    loop = asyncio.get_running_loop()
    due = loop.time()
    try:
        for _ in range(ticks):
            seen: Published = await guard.tick()
            found.ticks += 1
            assert seen.snapshot is not None
            found.strangers += sum(stranger.processes for stranger in seen.attribution.strangers)
            wrong = [gap.why for gap in seen.snapshot.gaps] or [look_at(seen.holder(KERNEL), row.key, found)]
            found.wrong += [f"tick {found.ticks}: {what}" for what in wrong if what]
            due = max(due + INTERVAL, loop.time())
            await asyncio.sleep(due - loop.time())
    finally:
        devices.close()
        found.births = count_births(kernel) + count_births(other)
    return found


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2]))))))
