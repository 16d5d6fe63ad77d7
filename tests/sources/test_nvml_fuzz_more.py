"""NVML at random, where a driver has instances, accounting, or no measure of processes: the promises still hold."""

from __future__ import annotations

import math
from random import Random
from typing import TYPE_CHECKING

import pytest

from jupyter_gpu_guard.core.model import Reading, is_known
from jupyter_gpu_guard.kernel.simulated_gpu import Declaration, declare_for
from tests.driver.scene import BUSY, GIB, busy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_gpu_guard.protocols import DevicesSeen
    from tests.driver import StandIn
    from tests.driver.apart import NvmlApart

pytestmark = pytest.mark.slow

READINGS = 150
SEEDS = range(3)
SCENES = {
    "instances": ("0 mig 2", "1 mig 3"),
    "accounting": ("all accounting",),
    "whole": ("all error NOT_SUPPORTED nvmlDeviceGetProcess*Utilization*",),
}


def readings(nvml: NvmlApart, driver: StandIn, scene: str, fuzz: str, seed: int) -> Iterator[DevicesSeen]:
    """Readings at intervals as they happen, by a clock that the driver shares."""
    chance = Random(seed)
    for _ in range(READINGS):
        nvml.ahead += chance.choice((5, 5, 5, 5, 0.1, 9, 30, 700))
        clock = f"global clock_offset_us {round(nvml.ahead * 1e6)}"
        driver.fault(*SCENES[scene], clock, f"global fuzz {seed}:{fuzz}")
        yield nvml.read()


def can_be(reading: Reading) -> bool:
    """Whether it is not known, or a share of a device."""
    return not is_known(reading) or (math.isfinite(reading) and 0 <= reading <= 100)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scene", SCENES)
def test_whatever_the_driver_says_a_reading_is_unknown_or_can_be(
    nvml: NvmlApart, driver: StandIn, idle: int, busy_one: int, scene: str, seed: int
) -> None:
    """Counters, sums, samples and numbers of instances may be anything: nothing is raised or invented."""
    answered = 0
    for seen in readings(nvml, driver, scene, "both", seed):
        for device in seen.devices:
            assert can_be(device.compute), device
            assert can_be(device.overall), device
        for client in seen.clients:
            assert can_be(client.compute), client
            assert client.pid in {idle, busy_one}
            assert not is_known(client.memory) or client.memory <= 2**50  # more than any device has
        answered += bool(seen.clients)
    assert answered > 0, "nothing was read: this shows nothing"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scene", SCENES)
def test_no_error_makes_the_busy_idle(
    nvml: NvmlApart, driver: StandIn, idle: int, busy_one: int, scene: str, seed: int
) -> None:
    """Where only errors are at random, whoever computes is unknown or seen to, whatever its figure rests on."""
    declare_for(idle, Declaration({0: 2 * GIB}, (busy(0),)), driver.folder)
    known = 0
    for seen in readings(nvml, driver, scene, "errors", seed):
        used = {client.device for client in seen.clients}
        figures = [client.compute for client in seen.clients]
        figures += [device.overall for device in seen.devices if device.uuid in used]
        for figure in figures:
            assert not is_known(figure) or figure >= BUSY - 1, seen
            known += is_known(figure)
    assert known > READINGS / 20, "hardly anything was known: this shows nothing"
