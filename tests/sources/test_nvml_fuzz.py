"""NVML: a driver that answers wrongly at random. Some thousands of readings; what is promised holds for each of them.

The number in a test's name is its seed; `pytest -k 'errors and 17'` repeats one.
"""

from __future__ import annotations

import math
from itertools import chain
from random import Random
from typing import TYPE_CHECKING

import pytest

from jupyter_gpu_guard.core.model import Device, DeviceState, GpuClient, Reading, is_known
from jupyter_gpu_guard.kernel.simulated_gpu import FOR_EVER, Declaration, Load, declare_for, now_us
from jupyter_gpu_guard.sources.simulated import DEFAULT_DEVICES
from tests.driver import CURRENT, ONLY_V2, GpuProgram, StandIn
from tests.driver.apart import NvmlApart

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_gpu_guard.protocols import DevicesSeen

pytestmark = pytest.mark.slow

FIRST, SECOND = DEFAULT_DEVICES
GIB = 2**30
BUSY = 70
READINGS = 200
SEEDS = range(6)  # how often something is wrong depends on the seed, in six steps
HOTTEST, STRONGEST = 200, 100_000  # more degrees Celsius or watts than any device


class Scene:
    """Two processes on two devices: `idle` holds 2 GiB of the first, `busy` 4 GiB of the second, and computes."""

    def __init__(self, driver: StandIn) -> None:
        self._driver = driver
        self._programs = [GpuProgram(driver.folder), GpuProgram(driver.folder)]
        self.idle, self.busy = (program.pid for program in self._programs)
        declare_for(self.idle, Declaration({0: 2 * GIB}), driver.folder)
        load = Load(1, now_us() - 30_000_000, FOR_EVER, BUSY)
        declare_for(self.busy, Declaration({1: 4 * GIB}, (load,)), driver.folder)
        self.nvml = NvmlApart(driver.environment())

    def readings(self, seed: int, kind: str) -> Iterator[DevicesSeen]:
        """Readings at intervals as they happen, mostly five seconds, by a clock that the driver shares."""
        chance = Random(seed)
        for _ in range(READINGS):
            self.nvml.ahead += chance.choice((5, 5, 5, 5, 0.1, 9, 30, 700))
            clock = f"global clock_offset_us {round(self.nvml.ahead * 1e6)}"
            self._driver.fault(clock, f"global fuzz {seed}:{kind}")
            yield self.nvml.read()

    def end(self) -> None:
        """End what was started."""
        self.nvml.bury()
        for program in self._programs:
            program.bury()


@pytest.fixture(params=[CURRENT, ONLY_V2], ids=["current", "old"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    """The same with a driver of today and with an old one."""
    scene = Scene(StandIn(tmp_path / "driver", switches=request.param))
    yield scene
    scene.end()


def is_within(reading: Reading, low: float, high: float) -> bool:
    """Whether it is not known, or a finite number between these."""
    return not is_known(reading) or (math.isfinite(reading) and low <= reading <= high)


def check_bounds(seen: DevicesSeen) -> None:
    """Every reading is Unknown, or a number that can be."""
    total = {}
    for device in seen.devices:
        most = device.memory_total if is_known(device.memory_total) else math.inf
        total[device.uuid] = most
        assert is_within(device.memory_total, 1, 2**60), device
        assert is_within(device.memory_used, 0, most), device
        assert is_within(device.memory_reserved, 0, most), device
        assert is_within(device.compute, 0, 100), device
        assert is_within(device.overall, 0, 100), device
        assert is_within(device.temperature, -100, HOTTEST), device
        assert is_within(device.power, 0, STRONGEST), device
    for client in seen.clients:
        assert is_within(client.memory, 0, total[client.device]), client
        assert is_within(client.compute, 0, 100), client


def check_names(seen: DevicesSeen, scene: Scene) -> None:
    """No device and no process is invented, and none is told twice."""
    devices = [device.uuid for device in seen.devices]
    assert len(set(devices)) == len(devices)
    assert set(devices) <= {FIRST.uuid, SECOND.uuid}
    clients = [(client.device, client.pid) for client in seen.clients]
    assert len(set(clients)) == len(clients)
    assert set(clients) <= {(FIRST.uuid, scene.idle), (SECOND.uuid, scene.busy)}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["values", "both"])
def test_whatever_the_driver_says_a_reading_is_unknown_or_can_be(scene: Scene, kind: str, seed: int) -> None:
    """Counts, times, amounts and pids may be anything: nothing is raised, out of bounds, or invented."""
    answered = 0
    for seen in scene.readings(seed, kind):
        check_bounds(seen)
        check_names(seen, scene)
        answered += bool(seen.clients)
    assert answered > READINGS / 20, "hardly anything was read: this shows nothing"


@pytest.mark.parametrize("seed", SEEDS)
def test_no_error_becomes_a_number(scene: Scene, seed: int) -> None:
    """Where only errors are at random, a reading is right or Unknown, and nobody disappears without a gap."""
    known: dict[str, int] = {"compute": 0, "memory": 0}
    for seen in scene.readings(seed, "errors"):
        check_bounds(seen)
        check_names(seen, scene)
        listed = {client.pid: client for client in seen.clients}
        for device in seen.devices:
            pid, memory, compute = (
                (scene.idle, 2 * GIB, 0) if device.uuid == FIRST.uuid else (scene.busy, 4 * GIB, BUSY)
            )
            check_device(device, memory, compute)
            if pid in listed:
                check_client(listed[pid], memory, compute)
                known["compute"] += is_known(listed[pid].compute)
                known["memory"] += is_known(listed[pid].memory)
            else:
                assert device.state is not DeviceState.OK or seen.gaps, seen
    assert min(known.values()) > READINGS / 20, "hardly anything was read: this shows nothing"


def check_device(device: Device, memory: float, compute: float) -> None:
    """The figures of the device are right or Unknown. An old call counts what is reserved as used."""
    reserved = FIRST.memory_reserved
    assert not is_known(device.memory_total) or device.memory_total == FIRST.memory_total, device
    assert not is_known(device.memory_used) or device.memory_used in {memory, memory + reserved}, device
    for figure in (device.compute, device.overall):
        # The mean over the time since the last reading that went through, or a bound above it.
        assert not is_known(figure) or figure >= compute - 1, device


def check_client(client: GpuClient, memory: float, compute: float) -> None:
    """The figures of the process are right or Unknown."""
    assert not is_known(client.memory) or client.memory == memory, client
    assert not is_known(client.compute) or abs(client.compute - compute) <= 1, client


def test_the_same_seed_spoils_the_same_answers(tmp_path: Path) -> None:
    """Otherwise a seed could not be repeated."""

    def gaps() -> list[str]:
        driver = StandIn(tmp_path / "driver")
        nvml = NvmlApart(driver.environment())
        driver.fault("global fuzz 6:errors")
        try:
            return [gap.why for gap in chain.from_iterable(nvml.read().gaps for _ in range(50))]
        finally:
            nvml.bury()

    first = gaps()
    assert first
    assert gaps() == first
