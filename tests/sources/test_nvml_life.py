"""The life of the connection to the driver: devices that fail alone, sleep, change their numbers, or come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_gpu_guard.core.model import DeviceState, Why, is_known
from jupyter_gpu_guard.kernel.simulated_gpu import FOR_EVER, Declaration, Load, declare_for, now_us
from tests.driver import until
from tests.driver.scene import BUSY, FIRST, GIB, SECOND, busy, client, next_reading, settled, why

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.driver import GpuProgram, StandIn
    from tests.driver.apart import NvmlApart

CALLS = [
    "nvmlDeviceGetMemoryInfo*",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetProcessUtilization",
    "nvmlDeviceGetProcessesUtilizationInfo",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetAccountingMode",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetName",
]


# ---- one device ----


@pytest.mark.parametrize("function", CALLS)
@pytest.mark.parametrize("error", ["GPU_IS_LOST", "RESET_REQUIRED", "NO_PERMISSION", "UNKNOWN"])
def test_no_failing_call_of_one_device_harms_the_other(
    nvml: NvmlApart, driver: StandIn, idle: int, busy_one: int, function: str, error: str
) -> None:
    """Whichever call it is: the other device is read as before, and nobody on the first one is idle by mistake."""
    nvml.read()
    next_reading(nvml)
    driver.fault(f"0 error {error} {function}")
    nvml.ahead += 56  # so that what is asked once a minute is asked, too
    for _ in range(3):
        seen = next_reading(nvml)
    assert [device.uuid for device in seen.devices] == [FIRST, SECOND]
    assert seen.devices[1].state is DeviceState.OK
    assert (client(seen, busy_one).memory, seen.devices[1].memory_used) == (4 * GIB, 4 * GIB)
    assert is_known(client(seen, busy_one).compute)
    row = client(seen, idle)
    assert row.memory == 2 * GIB or not is_known(row.memory)
    measured = "Utilization" in function and "Rates" not in function
    listed = "RunningProcesses" in function
    assert is_known(row.compute) is not (measured or listed or seen.devices[0].state is DeviceState.LOST)
    if error in {"GPU_IS_LOST", "RESET_REQUIRED"}:
        assert seen.gaps == ()


def test_a_device_that_needs_a_reset_is_lost(nvml: NvmlApart, driver: StandIn, idle: int) -> None:
    """Nobody computes on it until then."""
    nvml.read()
    driver.fault("0 error RESET_REQUIRED nvmlDevice*")
    seen = next_reading(nvml)
    assert [device.state for device in seen.devices] == [DeviceState.LOST, DeviceState.OK]
    assert (why(client(seen, idle).memory), seen.gaps) == (Why.DEVICE_LOST, ())


def test_a_device_that_was_taken_from_this_user_is_a_gap_of_its_own(
    nvml: NvmlApart, driver: StandIn, idle: int, busy_one: int
) -> None:
    """No process of this user can compute there any more; what was there stays unknown."""
    nvml.read()
    driver.fault("0 error NO_PERMISSION nvmlDeviceGetHandleByIndex_v2", "1 error UNINITIALIZED nvmlDeviceGetPowerUsage")
    next_reading(nvml)
    driver.fault("0 error NO_PERMISSION nvmlDeviceGetHandleByIndex_v2")
    nvml.ahead += 10
    seen = nvml.read()
    assert [gap.source for gap in seen.gaps] == ["device 0"]
    assert (why(client(seen, idle).compute), client(seen, busy_one).memory) == (Why.NO_PERMISSION, 4 * GIB)


# ---- numbers ----


def test_new_numbers_change_nothing(nvml: NvmlApart, driver: StandIn, programs: list[GpuProgram]) -> None:
    """Devices go by UUID: whoever was on one is still on it after a new start in which the numbers are swapped."""
    idle, busy_one = (program.pid for program in programs)
    nvml.read()
    settled(nvml, busy_one, lambda compute: compute == BUSY)
    before = next_reading(nvml)
    first, second = (driver.folder / "devices").read_text(encoding="utf-8").splitlines()
    swapped = f"0 {second.partition(' ')[2]}\n1 {first.partition(' ')[2]}\n"
    (driver.folder / "devices").write_text(swapped, encoding="utf-8")
    declare_for(idle, Declaration({1: 2 * GIB}), driver.folder)
    declare_for(busy_one, Declaration({0: 4 * GIB}, (busy(0),)), driver.folder)
    driver.fault("0 error UNINITIALIZED nvmlDeviceGetPowerUsage")
    next_reading(nvml)
    driver.fault()
    nvml.ahead += 10
    nvml.read()
    settled(nvml, busy_one, lambda compute: compute == BUSY)
    after = next_reading(nvml)
    assert [(row.uuid, row.index) for row in before.devices] == [(FIRST, 0), (SECOND, 1)]
    assert [(row.uuid, row.index) for row in after.devices] == [(SECOND, 0), (FIRST, 1)]
    assert set(after.clients) == set(before.clients)


@pytest.mark.parametrize("visible", ["", "1", SECOND])
def test_what_cuda_may_see_is_nothing_to_us(
    open_nvml: Callable[..., NvmlApart], driver: StandIn, idle: int, busy_one: int, visible: str
) -> None:
    """The server's own environment neither hides nor renumbers a device."""
    nvml = open_nvml({**driver.environment(), "CUDA_VISIBLE_DEVICES": visible, "CUDA_DEVICE_ORDER": "FASTEST_FIRST"})
    seen = nvml.read()
    assert [(device.uuid, device.index) for device in seen.devices] == [(FIRST, 0), (SECOND, 1)]
    assert {(row.device, row.pid) for row in seen.clients} == {(FIRST, idle), (SECOND, busy_one)}


# ---- sleep ----


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """A place where the kernel says that both devices are awake."""
    root = tmp_path / "sys"
    for bus in (1, 2):
        power = root / f"bus/pci/devices/0000:{bus:02x}:00.0/power"
        power.mkdir(parents=True)
        (power / "runtime_status").write_text("active\n", encoding="ascii")
    return root


def sleep(sysfs: Path, *buses: int, status: str = "suspended") -> None:
    """The devices in these places are put to sleep."""
    for bus in buses:
        place = sysfs / f"bus/pci/devices/0000:{bus:02x}:00.0/power/runtime_status"
        place.write_text(f"{status}\n", encoding="ascii")


def test_a_sleeping_device_is_not_asked(
    open_nvml: Callable[..., NvmlApart], driver: StandIn, busy_one: int, idle: int, sysfs: Path
) -> None:
    """Any question would wake it up. It is shown as asleep, with nothing known, and makes nothing else unknown."""
    declare_for(idle, Declaration({1: GIB}), driver.folder)
    nvml = open_nvml(sysfs=str(sysfs))
    nvml.read()
    sleep(sysfs, 1, 2)
    driver.fault("0 error UNKNOWN *")
    driver.count_calls()
    nvml.ahead += 61
    seen = nvml.read()
    assert [device.state for device in seen.devices] == [DeviceState.SUSPENDED, DeviceState.OK]
    asleep = seen.devices[0]
    for reading in (asleep.memory_used, asleep.memory_total, asleep.compute, asleep.power, asleep.overall):
        assert why(reading) is Why.SUSPENDED
    assert (seen.gaps, client(seen, busy_one).memory) == ((), 4 * GIB)
    assert driver.calls()["nvmlDeviceGetPowerUsage"] == 1  # for the device with somebody on it
    sleep(sysfs, 1, status="active")
    driver.fault()
    declare_for(idle, Declaration({0: GIB}), driver.folder)
    seen = next_reading(nvml)
    assert (seen.devices[0].state, client(seen, idle).device) == (DeviceState.OK, FIRST)


def test_devices_that_all_sleep_cost_no_call(open_nvml: Callable[..., NvmlApart], driver: StandIn, sysfs: Path) -> None:
    """However long they do."""
    nvml = open_nvml(sysfs=str(sysfs))
    nvml.read()
    sleep(sysfs, 1, 2)
    driver.count_calls()
    for _ in range(30):
        seen = next_reading(nvml)
    assert [device.state for device in seen.devices] == [DeviceState.SUSPENDED] * 2
    assert sum(driver.calls().values()) == 0


def test_a_device_with_somebody_on_it_is_asked_though_it_sleeps(
    open_nvml: Callable[..., NvmlApart], driver: StandIn, idle: int, sysfs: Path
) -> None:
    """What it holds is known only so."""
    nvml = open_nvml(sysfs=str(sysfs))
    nvml.read()
    sleep(sysfs, 1)
    assert client(next_reading(nvml), idle).memory == 2 * GIB


def test_a_device_whose_users_were_never_known_is_asked(
    open_nvml: Callable[..., NvmlApart], driver: StandIn, sysfs: Path
) -> None:
    """Somebody may be on it."""
    sleep(sysfs, 1)
    driver.fault("0 error UNKNOWN nvmlDeviceGetComputeRunningProcesses_v3")
    nvml = open_nvml(sysfs=str(sysfs))
    for _ in range(2):
        seen = next_reading(nvml)
    assert seen.devices[0].state is DeviceState.FAILING
    assert [gap.source for gap in seen.gaps] == ["devices"]


# ---- one connection for life ----


def test_one_connection_however_slow_the_driver(nvml: NvmlApart, driver: StandIn, busy_one: int) -> None:
    """Ten minutes of readings, with calls that take their time: opened once, and closed when told."""
    driver.fault("all slow_ms 2 *")
    driver.count_calls()
    for _ in range(120):
        seen = next_reading(nvml)
    assert (client(seen, busy_one).memory, seen.gaps) == (4 * GIB, ())
    nvml.close()
    calls = driver.calls()
    assert (calls["nvmlInitWithFlags"], calls["nvmlShutdown"]) == (1, 1)
    assert calls["nvmlDeviceGetName"] == 2


@pytest.mark.parametrize("error", ["LIB_RM_VERSION_MISMATCH", "DRIVER_NOT_LOADED"])
def test_a_driver_that_is_replaced_under_us_is_left_alone(
    nvml: NvmlApart, driver: StandIn, busy_one: int, error: str
) -> None:
    """Five minutes of it: one sentence, that never changes, and a few tries, fewer and fewer; then all is well."""
    nvml.read()
    settled(nvml, busy_one, lambda compute: compute == BUSY)
    driver.fault(f"all error {error} *", f"global init_error {error}")
    driver.count_calls()
    said = set()
    for _ in range(60):
        seen = next_reading(nvml)
        assert (seen.devices, seen.clients) == ((), ())
        said.update((gap.source, gap.why) for gap in seen.gaps)
    assert len(said) == 1
    assert {source for source, _ in said} == {"devices"}
    assert 2 <= driver.calls()["nvmlInitWithFlags"] <= 6
    driver.fault()
    nvml.ahead += 300
    nvml.read()
    assert settled(nvml, busy_one, lambda compute: compute == BUSY)


# ---- what is over is over ----


@pytest.mark.parametrize("ghosts", [(), ("0 ghost_samples",)])
def test_work_that_has_ended_is_seen_as_ended_at_once(
    nvml: NvmlApart, driver: StandIn, idle: int, ghosts: tuple[str, ...]
) -> None:
    """Each reading tells of the time since the one before: the driver's whole memory of ten seconds would not."""
    driver.fault(*ghosts)
    since = now_us() - 30_000_000
    declare_for(idle, Declaration({0: 4 * GIB}, (Load(0, since, FOR_EVER, 100),)), driver.folder)
    nvml.read()
    settled(nvml, idle, lambda compute: compute == 100)
    declare_for(idle, Declaration({0: 4 * GIB}, (Load(0, since, now_us(), 100),)), driver.folder)
    for _ in range(2):  # the first reading after it may still have the end of it
        a_moment_later = now_us() + 300_000
        until(lambda moment=a_moment_later: now_us() > moment)
        seen = next_reading(nvml)
    assert client(seen, idle).compute == 0
