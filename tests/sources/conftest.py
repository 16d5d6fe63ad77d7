"""A stand-in driver, what reads it, and two processes that use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_gpu_guard.kernel.simulated_gpu import Declaration, declare_for
from tests.driver import GpuProgram, StandIn
from tests.driver.apart import NvmlApart
from tests.driver.scene import GIB, busy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def driver(tmp_path: Path) -> StandIn:
    """A driver with two devices."""
    return StandIn(tmp_path / "driver")


@pytest.fixture
def open_nvml(driver: StandIn) -> Iterator[Callable[..., NvmlApart]]:
    """Opens `NvmlDevices` in a process of its own."""
    opened: list[NvmlApart] = []

    def open_nvml(environment: dict[str, str] | None = None, **options: object) -> NvmlApart:
        opened.append(NvmlApart(environment or driver.environment(), **options))
        return opened[-1]

    yield open_nvml
    for apart in opened:
        apart.bury()


@pytest.fixture
def nvml(open_nvml: Callable[..., NvmlApart]) -> NvmlApart:
    """`NvmlDevices` as on a host."""
    return open_nvml()


@pytest.fixture
def programs(driver: StandIn) -> Iterator[list[GpuProgram]]:
    """Two processes: the first idle on the first device, the second busy on the second one."""
    programs = [GpuProgram(driver.folder), GpuProgram(driver.folder)]
    declare_for(programs[0].pid, Declaration({0: 2 * GIB}), driver.folder)
    declare_for(programs[1].pid, Declaration({1: 4 * GIB}, (busy(1),)), driver.folder)
    yield programs
    for program in programs:
        program.bury()


@pytest.fixture
def idle(programs: list[GpuProgram]) -> int:
    """The pid of the process that holds 2 GiB of the first device and does nothing."""
    return programs[0].pid


@pytest.fixture
def busy_one(programs: list[GpuProgram]) -> int:
    """The pid of the process that holds 4 GiB of the second device and computes all the time."""
    return programs[1].pid
