"""What every `Devices` promises, asked of the simulated devices and of NVML over a driver at its own ABI.

Real processes declare what they hold and compute.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from jupyter_gpu_guard.core.model import DeviceState, GpuClient, Reading, Unknown, Why, is_known
from jupyter_gpu_guard.kernel.simulated_gpu import FOR_EVER, Declaration, Load, declare_for, now_us
from jupyter_gpu_guard.sources.simulated import DEFAULT_DEVICES, SimulatedDevices
from tests.driver import GpuProgram, StandIn, until
from tests.driver.apart import NvmlApart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from jupyter_gpu_guard.protocols import Devices

FIRST, SECOND = (device.uuid for device in DEFAULT_DEVICES)
GIB = 2**30


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where processes declare, with two devices of 80 GiB."""
    return StandIn(tmp_path / "driver").folder


@pytest.fixture(params=["simulated", "nvml"])
def devices(request: pytest.FixtureRequest, folder: Path) -> Iterator[Devices]:
    """The implementation under test."""
    if request.param == "simulated":
        yield SimulatedDevices(folder)
    else:
        apart = NvmlApart(StandIn(folder).environment())
        yield apart
        apart.bury()


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[[], GpuProgram]]:
    """Starts real processes that hold and compute as they are told."""
    programs: list[GpuProgram] = []

    def start() -> GpuProgram:
        programs.append(GpuProgram(folder))
        return programs[-1]

    yield start
    for program in programs:
        program.bury()


def clients_of(devices: Devices, pid: int) -> dict[str, GpuClient]:
    """What one process has now, by device."""
    return {client.device: client for client in devices.read().clients if client.pid == pid}


def compute_settles(devices: Devices, pid: int, right: Callable[[float], bool], device: str = FIRST) -> None:
    """Read until the compute of `pid` is a number for which `right` holds."""

    def look() -> bool:
        compute: Reading = clients_of(devices, pid)[device].compute
        return is_known(compute) and right(compute)

    until(look)


def busy_since_long(percent: float, device: int = 0) -> Load:
    """Work that began long before the test and does not end."""
    return Load(device, now_us() - 30_000_000, FOR_EVER, percent)


def test_devices_are_named_by_uuid_and_say_what_they_have(devices: Devices) -> None:
    """An empty machine shows each device once, all memory free, without a gap."""
    seen = devices.read()
    assert [device.uuid for device in seen.devices] == [FIRST, SECOND]
    assert [device.index for device in seen.devices] == [0, 1]
    assert seen.clients == ()
    assert seen.gaps == ()
    for device in seen.devices:
        assert device.name == "Simulated H100 80GB"
        assert device.state is DeviceState.OK
        assert not device.mig
        assert (device.memory_total, device.memory_used, device.memory_reserved) == (80 * GIB, 0, GIB // 2)
        assert device.compute == 0
        assert is_known(device.temperature)
        assert 0 < device.temperature < 100
        assert is_known(device.power)
        assert 10 < device.power < 100


def test_a_process_is_listed_where_it_holds_memory_and_nowhere_else(
    devices: Devices, start: Callable[[], GpuProgram]
) -> None:
    """Memory is exact to the byte, on the right device, under the pid of the process."""
    program = start()
    assert program.run("gpu.hold('6 GiB', device=1)") == "done"
    seen = devices.read()
    assert [(client.device, client.pid, client.memory) for client in seen.clients] == [(SECOND, program.pid, 6 * GIB)]
    assert [device.memory_used for device in seen.devices] == [0, 6 * GIB]


def test_a_process_on_two_devices_is_a_client_of_each(devices: Devices, start: Callable[[], GpuProgram]) -> None:
    """Each device tells its own share."""
    program = start()
    program.run("gpu.hold('1 GiB', device=0); gpu.hold('2 GiB', device=1)")
    clients = clients_of(devices, program.pid)
    assert {device: client.memory for device, client in clients.items()} == {FIRST: GIB, SECOND: 2 * GIB}


def test_the_first_reading_knows_no_compute(devices: Devices, start: Callable[[], GpuProgram]) -> None:
    """A rate needs two readings: the first says so, whether the process is busy or not."""
    program = start()
    program.run("gpu.hold('1 GiB')")
    compute = clients_of(devices, program.pid)[FIRST].compute
    assert isinstance(compute, Unknown)
    assert compute.why is Why.FIRST_READING


def test_idle_is_an_explicit_zero(devices: Devices, start: Callable[[], GpuProgram]) -> None:
    """Who holds memory and does nothing has compute 0 from the second reading on."""
    program = start()
    program.run("gpu.hold('1 GiB')")
    devices.read()
    compute_settles(devices, program.pid, lambda percent: percent == 0)


def test_compute_is_the_mean_since_the_previous_reading(
    devices: Devices, folder: Path, start: Callable[[], GpuProgram]
) -> None:
    """A process that computes at 90 percent all the time shows 90."""
    program = start()
    declare_for(program.pid, Declaration({0: GIB}, (busy_since_long(90),)), folder)
    devices.read()
    compute_settles(devices, program.pid, lambda percent: round(percent) == 90)


def test_work_that_begins_is_seen_and_work_that_ends_leaves_zero(
    devices: Devices, start: Callable[[], GpuProgram]
) -> None:
    """Compute follows what the process does."""
    program = start()
    program.run("gpu.hold('1 GiB')")
    devices.read()
    compute_settles(devices, program.pid, lambda percent: percent == 0)
    program.run("gpu.compute(80, seconds=None)")
    compute_settles(devices, program.pid, lambda percent: percent > 10)
    program.run("gpu.stop()")
    compute_settles(devices, program.pid, lambda percent: percent == 0)


def test_waves_are_seen(devices: Devices, start: Callable[[], GpuProgram]) -> None:
    """A process that computes now and then is not always at 0."""
    program = start()
    program.run("gpu.hold('1 GiB'); gpu.wave(high=100, high_seconds=0.5, low=0, low_seconds=0.5)")
    devices.read()
    compute_settles(devices, program.pid, lambda percent: percent > 10)


def test_two_on_one_device_share_it(devices: Devices, folder: Path, start: Callable[[], GpuProgram]) -> None:
    """Each has its own memory and its own part of the compute, together at most the whole device."""
    one, other = start(), start()
    declare_for(one.pid, Declaration({0: GIB}, (busy_since_long(90),)), folder)
    declare_for(other.pid, Declaration({0: 2 * GIB}, (busy_since_long(60),)), folder)
    devices.read()
    compute_settles(devices, one.pid, lambda percent: abs(percent - 60) <= 1)
    compute_settles(devices, other.pid, lambda percent: abs(percent - 40) <= 1)
    assert clients_of(devices, other.pid)[FIRST].memory == 2 * GIB
    assert devices.read().devices[0].memory_used == 3 * GIB


def test_who_computes_on_one_device_does_not_on_the_other(
    devices: Devices, folder: Path, start: Callable[[], GpuProgram]
) -> None:
    """Compute belongs to the device it happened on."""
    program = start()
    declare_for(program.pid, Declaration({0: GIB, 1: GIB}, (busy_since_long(70, device=1),)), folder)
    devices.read()
    compute_settles(devices, program.pid, lambda percent: round(percent) == 70, SECOND)
    assert clients_of(devices, program.pid)[FIRST].compute == 0


def test_a_killed_process_is_gone_before_it_is_reaped(devices: Devices, start: Callable[[], GpuProgram]) -> None:
    """Memory comes back with the process; a zombie holds none."""
    program = start()
    program.run("gpu.hold('6 GiB')")
    assert clients_of(devices, program.pid)
    program.kill()
    until(lambda: not clients_of(devices, program.pid))
    assert devices.read().devices[0].memory_used == 0


def test_released_memory_is_free(devices: Devices, start: Callable[[], GpuProgram]) -> None:
    """A process that gives everything back is no client any more."""
    program = start()
    program.run("gpu.hold('6 GiB')")
    assert clients_of(devices, program.pid)
    program.run("gpu.release()")
    until(lambda: not clients_of(devices, program.pid))


def test_what_an_earlier_process_of_the_same_pid_declared_does_not_count(
    devices: Devices, folder: Path, start: Callable[[], GpuProgram]
) -> None:
    """A pid that is used again inherits nothing."""
    program = start()
    (folder / "clients" / f"{program.pid}-1").write_text(str(Declaration({0: GIB})), encoding="utf-8")
    assert devices.read().clients == ()


def test_a_forked_child_is_a_client_of_its_own(devices: Devices, start: Callable[[], GpuProgram]) -> None:
    """The child holds nothing of its parent's, and what it takes stands under its own pid."""
    program = start()
    program.run("gpu.hold('1 GiB')")
    program.run(
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    sys.stdin = sys.stdout = None\n"
        "    gpu.hold('2 GiB')\n"
        "    time.sleep(60)\n"
        "    os._exit(0)\n"
    )
    until(lambda: len(devices.read().clients) == 2)
    memory = {client.pid: client.memory for client in devices.read().clients}
    child = next(pid for pid in memory if pid != program.pid)
    os.kill(child, signal.SIGKILL)
    assert memory == {program.pid: GIB, child: 2 * GIB}


def test_closing_twice_is_safe(devices: Devices) -> None:
    """Also after a reading, and before any."""
    devices.close()
    devices.close()
