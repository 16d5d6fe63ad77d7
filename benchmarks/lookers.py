"""Ways of looking at a machine, each as a function that looks once. Run as a program, it measures one of them.

python -m benchmarks.lookers NAME TIMES FOLDER KERNEL,KERNEL,...
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_gpu_guard.core.attribute import attribute
from jupyter_gpu_guard.core.model import Instant, Owner, OwnerKey, OwnerKind, OwnerState
from jupyter_gpu_guard.core.policy import Mode, Policy
from jupyter_gpu_guard.core.verdict import Outcome, Result
from jupyter_gpu_guard.guard import Guard
from jupyter_gpu_guard.leases import FileLeases
from jupyter_gpu_guard.observe import Observer
from jupyter_gpu_guard.protocols import nobody_is_spared
from jupyter_gpu_guard.sources.nvml import NvmlDevices
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from jupyter_gpu_guard.core.model import Holder, Process, ProcessKey
    from jupyter_gpu_guard.core.verdict import Verdict

INTERVAL = 5.0  # seconds between two looks, by the clock of the guard and of the driver
REMEMBER = "global remember_ms 3600000"  # the processes do not change: the driver need not look for them at each call


@dataclass
class Scene:
    """Where the driver's declarations are, and the pids of the kernels."""

    folder: Path
    kernels: list[int]
    passed: float = 0.0

    def pass_time(self) -> None:
        """Put all clocks forward by one interval: the driver has new samples for everybody who computes."""
        self.passed += INTERVAL
        draft = self.folder / "faults.draft"
        draft.write_text(f"{REMEMBER}\nglobal clock_offset_us {round(self.passed * 1e6)}\n", encoding="utf-8")
        draft.replace(self.folder / "faults")


# ---- ours ----


class SceneClock:
    """`Clock` that goes with the scene."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._began = datetime(2030, 1, 1, tzinfo=timezone.utc)

    def now(self) -> Instant:
        """The moment it shows."""
        return Instant(self._began + timedelta(seconds=self._scene.passed), self.monotonic())

    def monotonic(self) -> float:
        """Seconds."""
        return 1000.0 + self._scene.passed

    def wall(self) -> float:
        """Seconds since 1970."""
        return self._began.timestamp() + self._scene.passed


class SceneOwners:
    """`Owners`: the kernels of the scene, idle."""

    def __init__(self, roots: list[ProcessKey]) -> None:
        self._owners = tuple(
            Owner(OwnerKey(OwnerKind.KERNEL, str(root.pid)), f"{root.pid}.ipynb", root, OwnerState.IDLE)
            for root in roots
        )

    async def read(self, processes: Mapping[int, Process] | None = None) -> tuple[Owner, ...]:  # noqa: ARG002
        """All of them."""
        return self._owners

    def look_again(self, key: OwnerKey) -> Owner | None:
        """One of them."""
        return next((owner for owner in self._owners if owner.key == key), None)


class NoEnforcer:
    """`Enforcer` that says that it was done."""

    async def enforce(
        self,
        verdict: Verdict,
        holder: Holder,  # noqa: ARG002
        spared: Callable[[], bool] = nobody_is_spared,  # noqa: ARG002
    ) -> Outcome:
        """Done."""
        at = datetime(2030, 1, 1, tzinfo=timezone.utc)
        return Outcome(verdict.owner, verdict.root, verdict.action, verdict.rule, Result.DONE, at, "")

    def hurry(self) -> None:
        """Nothing is under way."""


@contextmanager
def guard_tick(scene: Scene) -> Iterator[Callable[[], object]]:
    """One whole tick of the guard: observe, attribute, push, judge, enforce (nothing), settle, publish."""
    clock, processes = SceneClock(scene), ProcfsProcesses()
    roots = [row.key for pid in scene.kernels if (row := processes.identify(pid)) is not None]
    devices = NvmlDevices(clock.monotonic, clock.wall, namespaced=False)
    loop = asyncio.new_event_loop()
    with tempfile.TemporaryDirectory() as folder:
        guard = Guard(
            observer=Observer(clock, devices, processes, SceneOwners(roots), 600.0),
            enforcer=NoEnforcer(),
            rehearsal=NoEnforcer(),
            leases=FileLeases(Path(folder) / "leases.json"),
            clock=clock,
            policy=Policy(mode=Mode.ENFORCE),
            log=logging.getLogger("benchmark"),
        )

        def tick() -> object:
            seen = loop.run_until_complete(guard.tick())
            if seen.snapshot is None or seen.snapshot.gaps or not seen.snapshot.clients:
                raise RuntimeError(f"the tick was not whole: {seen.snapshot}")
            return seen

        yield tick
        loop.run_until_complete(guard.close())
        loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    devices.close()


@contextmanager
def guard_devices(scene: Scene) -> Iterator[Callable[[], object]]:
    """The part of a tick that asks the driver."""
    clock = SceneClock(scene)
    devices = NvmlDevices(clock.monotonic, clock.wall, namespaced=False)
    yield devices.read
    devices.close()


@contextmanager
def guard_processes(scene: Scene) -> Iterator[Callable[[], object]]:
    """The part of a tick that reads /proc, with the kernels' processes as those that matter."""
    clock = SceneClock(scene)
    processes = ProcfsProcesses(monotonic=clock.monotonic)
    closely = {pid for pid, row in processes.read().items() if row.session in scene.kernels}
    yield lambda: processes.read(closely)


@contextmanager
def guard_attribution(scene: Scene) -> Iterator[Callable[[], object]]:
    """The part of a tick that sorts processes under owners."""
    with guard_tick(scene) as tick:
        for _ in range(2):
            scene.pass_time()
            seen: Any = tick()
        yield lambda: attribute(seen.snapshot, seen.attribution.lineage)


# ---- others ----


@contextmanager
def nvitop_facts(scene: Scene) -> Iterator[Callable[[], object]]:  # noqa: ARG001
    """The API of nvitop, asked for what a tick of the guard asks, and no more."""
    nvitop = importlib.import_module("nvitop")
    devices = nvitop.Device.all()

    def look() -> object:
        facts: list[object] = []
        for device in devices:
            memory = device.memory_info()
            facts += [memory.used, device.gpu_utilization(), device.temperature(), device.power_usage()]
            for process in device.processes().values():
                host = process.host
                facts += [process.gpu_memory(), process.gpu_sm_utilization(), host.create_time(), host.ppid()]
        return facts

    yield look


@contextmanager
def nvitop_snapshots(scene: Scene) -> Iterator[Callable[[], object]]:  # noqa: ARG001
    """The own way of nvitop to take all in: `take_snapshots()`, with names, command lines and CPU shares."""
    yield importlib.import_module("nvitop").take_snapshots


@contextmanager
def gpustat_query(scene: Scene) -> Iterator[Callable[[], object]]:  # noqa: ARG001
    """What `gpustat --json` does, without the start of its process."""
    gpustat = importlib.import_module("gpustat")
    yield lambda: gpustat.new_query().jsonify()


@contextmanager
def gpustat_command(scene: Scene) -> Iterator[Callable[[], object]]:  # noqa: ARG001
    """The command `gpustat --json`, as a script would call it."""
    yield lambda: subprocess.run([sys.executable, "-m", "gpustat", "--json"], check=True, capture_output=True)


LOOKERS = {
    looker.__name__: looker
    for looker in (
        guard_tick,
        guard_devices,
        guard_processes,
        guard_attribution,
        nvitop_facts,
        nvitop_snapshots,
        gpustat_query,
        gpustat_command,
    )
}
WITH_THE_DRIVER = ("guard_tick", "nvitop_facts", "nvitop_snapshots", "gpustat_query")


# ---- measuring ----


class DriverShare:
    """Adds up the CPU time that is spent inside the driver's library, by every thread."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls = 0
        pynvml = importlib.import_module("pynvml")
        find = pynvml._nvmlGetFunctionPointer  # noqa: SLF001  the one place where each function of the library is found

        def found(name: str) -> Callable[..., object]:
            function = find(name)

            def timed(*arguments: object) -> object:
                began = time.thread_time()
                try:
                    return function(*arguments)
                finally:
                    self.seconds += time.thread_time() - began
                    self.calls += 1

            return timed

        pynvml._nvmlGetFunctionPointer = found  # noqa: SLF001


def cpu_seconds() -> float:
    """What this process and those it has waited for have used."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def measure(name: str, times: int, scene: Scene) -> dict[str, object]:
    """CPU and wall seconds of each look, after two that do not count, and how much of the CPU time was the driver's."""
    cpu: list[float] = []
    wall: list[float] = []
    driver: list[float] = []
    with LOOKERS[name](scene) as look:
        for number in range(times + 2):
            scene.pass_time()
            began, began_cpu = time.perf_counter(), cpu_seconds()
            look()
            if number > 1:
                cpu.append(cpu_seconds() - began_cpu)
                wall.append(time.perf_counter() - began)
        if name in WITH_THE_DRIVER:
            share = DriverShare()
            for _ in range(max(3, times // 4)):
                scene.pass_time()
                before = share.seconds
                look()
                driver.append(share.seconds - before)
    return {"cpu": cpu, "wall": wall, "driver": driver}


if __name__ == "__main__":
    logging.disable()
    _name, _times, _folder, _kernels = sys.argv[1:]
    pids = [int(pid) for pid in _kernels.split(",") if pid]
    print(json.dumps(measure(_name, int(_times), Scene(Path(_folder), pids))))
