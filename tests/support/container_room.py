"""A container, GPU programs in and around it, and the driver seen from inside: fixtures for tests of containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_gpu_guard.core.model import GpuClient, Reading, Why, is_known
from jupyter_gpu_guard.kernel.simulated_gpu import FOR_EVER, Declaration, Load, now_us
from jupyter_gpu_guard.sources.simulated import DEFAULT_DEVICES
from tests.driver import GpuProgram, StandIn, until
from tests.driver.apart import NvmlApart
from tests.driver.container import Container, can_be_made, declare_elsewhere, innermost, pids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from jupyter_gpu_guard.protocols import DevicesSeen

FIRST, SECOND = (device.uuid for device in DEFAULT_DEVICES)
GIB = 2**30
BUSY = 70
HIDDEN_TEXT = "cannot see its own GPU processes"


@pytest.fixture
def driver(tmp_path: Path) -> StandIn:
    """A driver with two devices."""
    return StandIn(tmp_path / "driver")


@pytest.fixture
def container(driver: StandIn) -> Iterator[Container]:
    """A container with a pid namespace of its own."""
    if not can_be_made(driver):
        pytest.skip("no pid namespace with a /proc of its own can be made here")
    with Container(driver) as container:
        yield container


@pytest.fixture
def start(driver: StandIn) -> Iterator[Callable[..., GpuProgram]]:
    """Starts GPU programs, behind a prefix if one is given."""
    started: list[GpuProgram] = []

    def start(prefix: tuple[str, ...] = (), code: str = "") -> GpuProgram:
        started.append(GpuProgram(driver.folder, prefix))
        assert started[-1].run(code) == "done"
        return started[-1]

    yield start
    for program in started:
        program.bury()


@pytest.fixture
def open_nvml(driver: StandIn) -> Iterator[Callable[..., NvmlApart]]:
    """Opens `NvmlDevices` behind a prefix."""
    opened: list[NvmlApart] = []

    def open_nvml(prefix: tuple[str, ...] = (), **options: object) -> NvmlApart:
        opened.append(NvmlApart(driver.environment(), namespaced=None, prefix=prefix, **options))
        return opened[-1]

    yield open_nvml
    for apart in opened:
        apart.bury()


def hold(gib: int, percent: int = 0, device: int = 0) -> str:
    """What a program runs to hold so much, and to compute from now on."""
    compute = f"; gpu.compute({percent}, None, {device})" if percent else ""
    return f"gpu.hold('{gib} GiB', {device}){compute}"


def neighbour(driver: StandIn, pid: int, gib: int, percent: int = 0) -> None:
    """What a process of the host holds on the first device, and how much it computes there."""
    work = (Load(0, now_us() - 30_000_000, FOR_EVER, percent),) if percent else ()
    declare_elsewhere(driver, pid, Declaration({0: gib * GIB}, work))


def inner(program: GpuProgram) -> int:
    """What the program is called inside."""
    return pids(innermost(program.pid))[-1]


def on(seen: DevicesSeen, device: str) -> dict[int, GpuClient]:
    """The clients on one device."""
    return {client.pid: client for client in seen.clients if client.device == device}


def why(reading: Reading) -> Why | None:
    """Why it is not known; None: it is."""
    return None if is_known(reading) else reading.why


def next_reading(nvml: NvmlApart) -> DevicesSeen:
    """A reading five seconds later by its clock."""
    nvml.ahead += 5
    return nvml.read()


def settled(nvml: NvmlApart, right: Callable[[DevicesSeen], bool]) -> DevicesSeen:
    """Read on until it is right: samples take a moment."""
    seen: list[DevicesSeen] = []

    def look() -> bool:
        seen.append(next_reading(nvml))
        return right(seen[-1])

    until(look, 60)
    return seen[-1]


def gaps(seen: DevicesSeen) -> str:
    """All that is missing, in one text."""
    return "\n".join(gap.why for gap in seen.gaps if gap.source == "devices")
