"""Simulated devices: what is particular to them beyond what every `Devices` promises."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from jupyter_gpu_guard.kernel.declaration import DeclaredDevice, read_devices
from jupyter_gpu_guard.kernel.simulated_gpu import Declaration, Load, Wave, declare_for
from jupyter_gpu_guard.sources.simulated import DEFAULT_DEVICES, SimulatedDevices, prepare
from tests.driver import GpuProgram

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def program(tmp_path: Path) -> Iterator[GpuProgram]:
    """A living process to declare for."""
    prepare(tmp_path)
    program = GpuProgram(tmp_path)
    yield program
    program.bury()


def test_prepare_describes_two_devices_once(tmp_path: Path) -> None:
    """A folder of its own, closed to others; devices that are described already stay as they are."""
    folder = tmp_path / "deep" / "gpu"
    prepare(folder)
    assert read_devices(folder) == DEFAULT_DEVICES
    assert len({device.uuid for device in DEFAULT_DEVICES}) == 2
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    prepare(folder, [DeclaredDevice(0, "GPU-other", 1, "Other")])
    assert read_devices(folder) == DEFAULT_DEVICES


def test_it_says_that_it_is_simulated(tmp_path: Path) -> None:
    """Every face shows it."""
    assert SimulatedDevices(tmp_path).simulated


def test_a_folder_without_devices_is_a_gap(tmp_path: Path) -> None:
    """One sentence instead of an exception, and devices again as soon as they are described."""
    devices = SimulatedDevices(tmp_path / "gone")
    seen = devices.read()
    assert (seen.devices, seen.clients) == ((), ())
    (gap,) = seen.gaps
    assert gap.source == "devices"
    assert "describes no simulated devices" in gap.why
    prepare(tmp_path / "gone")
    assert len(devices.read().devices) == 2


@pytest.mark.parametrize(
    ("work", "percent"),
    [
        (Load(0, 1_000_000_000, 1_010_000_000, 90), 90),
        (Load(0, 1_005_000_000, 1_010_000_000, 90), 45),
        (Load(0, 0, 1_001_000_000, 50), 5),
        (Load(1, 0, 1_010_000_000, 90), 0),
        (Wave(0, 1_000_000_000, 100, 1_000_000, 0, 1_000_000), 50),
        (Wave(0, 1_000_000_000, 80, 1_000_000, 20, 3_000_000), 38),  # two waves and a half
    ],
)
def test_compute_is_exact_between_two_readings(
    tmp_path: Path, program: GpuProgram, work: Load | Wave, percent: float
) -> None:
    """From the reading at 1000 s to the one at 1010 s, whatever the work."""
    now = [1000.0]
    devices = SimulatedDevices(tmp_path, lambda: now[0])
    declare_for(program.pid, Declaration({0: 1}, (work,)), tmp_path)
    devices.read()
    now[0] += 10
    seen = devices.read()
    assert [client.compute for client in seen.clients if client.device == DEFAULT_DEVICES[0].uuid] == [percent]


def test_the_device_shows_its_last_second(tmp_path: Path, program: GpuProgram) -> None:
    """The device's own figures follow at once: compute, temperature and power."""
    devices = SimulatedDevices(tmp_path, lambda: 1000.0)
    declare_for(program.pid, Declaration({0: 1}, (Load(0, 999_500_000, 1_010_000_000, 100),)), tmp_path)
    device = devices.read().devices[0]
    assert (device.compute, device.temperature, device.power) == (50, 50, 360)


def test_a_process_may_be_reported_under_another_pid(tmp_path: Path, program: GpuProgram) -> None:
    """As drivers do in containers."""
    declare_for(program.pid, Declaration({0: 5}, reported_pid=4242), tmp_path)
    assert [(client.pid, client.memory) for client in SimulatedDevices(tmp_path).read().clients] == [(4242, 5)]
