"""GPUs that are divided into instances: each instance is a device, and one counter tells how busy it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_gpu_guard.core.model import Device, DeviceState, Reading, Why, is_known
from jupyter_gpu_guard.kernel.simulated_gpu import Declaration, declare_for
from tests.driver import until
from tests.driver.scene import BUSY, FIRST, GIB, SECOND, busy, client, next_reading, why

if TYPE_CHECKING:
    from jupyter_gpu_guard.protocols import DevicesSeen
    from tests.driver import GpuProgram, StandIn
    from tests.driver.apart import NvmlApart

INSTANCES = [f"MIG-{FIRST.removeprefix('GPU-')}-{number}" for number in range(3)]


@pytest.fixture
def divided(driver: StandIn, programs: list[GpuProgram]) -> list[int]:
    """Two pids: an idle process on the first and a busy one on the second of two instances of the first GPU."""
    first, second = (program.pid for program in programs)
    declare_for(first, Declaration({0: 2 * GIB}), driver.folder)
    declare_for(second, Declaration({0: 4 * GIB}, (busy(0),)), driver.folder)
    on(driver, second)
    return [first, second]


def on(driver: StandIn, second: int, *more: str) -> None:
    """Divide the first GPU into two instances; `second` runs on the other one."""
    driver.fault("0 mig 2", f"0 on_instance 1 {second}", *more)


def device(seen: DevicesSeen, uuid: str) -> Device:
    """The device with this UUID."""
    (found,) = [device for device in seen.devices if device.uuid == uuid]
    return found


def counted(nvml: NvmlApart, uuid: str) -> Reading:
    """How busy an instance is once its counter has been read twice."""
    nvml.read()
    found: list[Reading] = []

    def look() -> bool:
        found.append(device(next_reading(nvml), uuid).overall)
        return is_known(found[-1])

    until(look)
    return found[-1]


def test_each_instance_is_a_device_of_its_own(nvml: NvmlApart, driver: StandIn, divided: list[int]) -> None:
    """With its UUID, memory and processes; the GPU shows its totals, and nobody twice."""
    seen = nvml.read()
    assert [row.uuid for row in seen.devices] == [FIRST, *INSTANCES[:2], SECOND]
    assert [row.part_of for row in seen.devices] == [None, FIRST, FIRST, None]
    assert [row.mig for row in seen.devices] == [True, True, True, False]
    assert {(row.device, row.pid, row.memory) for row in seen.clients} == {
        (INSTANCES[0], divided[0], 2 * GIB),
        (INSTANCES[1], divided[1], 4 * GIB),
    }
    assert [row.memory_used for row in seen.devices[:3]] == [6 * GIB, 2 * GIB, 4 * GIB]
    assert [row.memory_total for row in seen.devices[:3]] == [80 * GIB, 40 * GIB, 40 * GIB]
    assert seen.devices[1].name == "Simulated H100 80GB MIG 1g.10gb"
    assert (is_known(seen.devices[0].power), why(seen.devices[1].power)) == (True, Why.NOT_SUPPORTED)
    assert seen.gaps == ()


def test_the_counter_of_an_instance_tells_how_busy_it_is(nvml: NvmlApart, driver: StandIn, divided: list[int]) -> None:
    """Not of a process: that stays unknown, and nothing of the neighbour is in it."""
    assert counted(nvml, INSTANCES[1]) == pytest.approx(BUSY, abs=0.5)
    seen = next_reading(nvml)
    assert (device(seen, INSTANCES[0]).overall, device(seen, INSTANCES[0]).compute) == (0, 0)
    assert [why(client(seen, pid).compute) for pid in divided] == [Why.NOT_SUPPORTED] * 2
    assert why(device(seen, FIRST).overall) is Why.NOT_SUPPORTED
    assert device(seen, INSTANCES[0]).state is DeviceState.OK


def test_the_first_reading_of_a_counter_tells_nothing(nvml: NvmlApart, driver: StandIn, divided: list[int]) -> None:
    """A rate needs two."""
    assert why(device(nvml.read(), INSTANCES[1]).overall) is Why.FIRST_READING


def test_a_counter_covers_the_time_of_a_reading_that_failed(
    nvml: NvmlApart, driver: StandIn, divided: list[int]
) -> None:
    """The older sample stays until the next one is there; the failure itself is unknown."""
    counted(nvml, INSTANCES[1])
    on(driver, divided[1], "0 error UNKNOWN nvmlGpmSampleGet")
    assert why(device(next_reading(nvml), INSTANCES[1]).overall) is Why.DRIVER_ERROR
    on(driver, divided[1])
    assert device(next_reading(nvml), INSTANCES[1]).overall == pytest.approx(BUSY, abs=0.5)


def test_two_looks_at_once_are_one(nvml: NvmlApart, driver: StandIn, divided: list[int]) -> None:
    """The counters are refreshed ten times a second."""
    counted(nvml, INSTANCES[1])
    driver.count_calls()
    nvml.ahead += 5
    assert nvml.read().devices[2] == nvml.read().devices[2]
    assert driver.calls()["nvmlGpmMetricsGet"] <= 2 * 2  # each of two instances; twice if the machine is slow


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("0 gpm_absent", Why.NOT_SUPPORTED),
        ("0 error NO_PERMISSION nvmlGpmSampleGet", Why.NO_PERMISSION),
        ("0 error NO_PERMISSION nvmlGpmQueryDeviceSupport", Why.NO_PERMISSION),
        ("global error UNKNOWN nvmlGpmMetricsGet", Why.DRIVER_ERROR),
        ("global error MEMORY nvmlGpmSampleAlloc", Why.DRIVER_ERROR),
        ("0 gpm_error NO_PERMISSION", Why.NO_PERMISSION),
        ("0 gpm_error NOT_SUPPORTED", Why.NOT_SUPPORTED),
        ("0 gpm_value nan", Why.IMPLAUSIBLE),
        ("0 gpm_value 250", Why.IMPLAUSIBLE),
        ("0 gpm_value -3", Why.IMPLAUSIBLE),
    ],
)
def test_a_counter_that_does_not_tell_is_unknown(
    nvml: NvmlApart, driver: StandIn, divided: list[int], fault: str, expected: Why
) -> None:
    """On older GPUs, for users without the right, and when it errs: never 0. Memory and processes are still there."""
    on(driver, divided[1], fault)
    nvml.read()
    seen = next_reading(nvml)
    assert why(device(seen, INSTANCES[1]).overall) is expected
    assert client(seen, divided[1]).memory == 4 * GIB
    assert seen.gaps == ()


def test_a_decoder_is_an_engine_too(nvml: NvmlApart, driver: StandIn, divided: list[int]) -> None:
    """The busiest engine counts."""
    on(driver, divided[1], "0 gpm_decoder 88")
    assert counted(nvml, INSTANCES[1]) == 88
    assert device(next_reading(nvml), INSTANCES[0]).overall == 88


def test_a_driver_that_counts_only_by_the_number_of_the_instance(
    nvml: NvmlApart, driver: StandIn, divided: list[int]
) -> None:
    """Then the counter is asked for through the GPU."""
    on(driver, divided[1], "0 error NOT_SUPPORTED nvmlGpmSampleGet")
    assert counted(nvml, INSTANCES[1]) == pytest.approx(BUSY, abs=0.5)
    assert device(next_reading(nvml), INSTANCES[0]).overall == 0


def test_an_instance_that_nobody_is_on_costs_no_counter(nvml: NvmlApart, driver: StandIn, divided: list[int]) -> None:
    """And its samples are given back when the last one leaves."""
    counted(nvml, INSTANCES[1])
    driver.count_calls()
    declare_for(divided[1], Declaration({1: GIB}), driver.folder)
    declare_for(divided[0], Declaration({1: GIB}), driver.folder)
    next_reading(nvml)
    next_reading(nvml)
    calls = driver.calls()
    assert (calls["nvmlGpmSampleFree"], calls["nvmlGpmSampleGet"]) == (4, 0)


def test_samples_are_given_back(nvml: NvmlApart, driver: StandIn, divided: list[int]) -> None:
    """Before the driver is closed."""
    driver.count_calls()
    counted(nvml, INSTANCES[1])
    next_reading(nvml)
    nvml.close()
    calls = driver.calls()
    assert calls["nvmlGpmSampleAlloc"] == calls["nvmlGpmSampleFree"] == 4  # two for each instance
    assert calls["nvmlShutdown"] == 1


def test_instances_that_come_and_go_are_found(nvml: NvmlApart, driver: StandIn, divided: list[int]) -> None:
    """Within about a minute; one that is gone at once, with one reading in which it is unknown who computes."""
    nvml.read()
    driver.fault("0 mig 3", f"0 on_instance 2 {divided[1]}")
    nvml.ahead += 61
    seen = nvml.read()
    assert [row.uuid for row in seen.devices] == [FIRST, *INSTANCES, SECOND]
    assert client(seen, divided[1]).device == INSTANCES[2]
    driver.fault("0 mig 2")
    assert [gap.source for gap in next_reading(nvml).gaps] == ["devices"]
    seen = next_reading(nvml)
    assert ([row.uuid for row in seen.devices], seen.gaps) == ([FIRST, *INSTANCES[:2], SECOND], ())


def test_numbers_without_an_instance_are_passed_over(nvml: NvmlApart, driver: StandIn, divided: list[int]) -> None:
    """An instance keeps its number when another one is removed."""
    driver.fault("0 mig 3", "0 mig_hole 1")
    assert [row.uuid for row in nvml.read().devices] == [FIRST, INSTANCES[0], INSTANCES[2], SECOND]


@pytest.mark.parametrize("function", ["nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex"])
def test_instances_that_are_not_told_hide_somebody(
    nvml: NvmlApart, driver: StandIn, divided: list[int], function: str
) -> None:
    """Somebody may compute there: a gap until they are told, and those of before stay."""
    nvml.read()
    on(driver, divided[1], f"0 error UNKNOWN {function}")
    nvml.ahead += 61
    seen = nvml.read()
    assert [row.uuid for row in seen.devices] == [FIRST, *INSTANCES[:2], SECOND]
    assert [gap.source for gap in seen.gaps] == ["devices"]
    assert "which MIG instances" in seen.gaps[0].why
    on(driver, divided[1])
    assert next_reading(nvml).gaps == ()


def test_a_gpu_that_is_divided_or_made_whole_again(nvml: NvmlApart, driver: StandIn, divided: list[int]) -> None:
    """What it does not offer is asked anew: whole again, its processes are measured."""
    nvml.read()
    driver.fault()
    nvml.ahead += 61
    assert [row.uuid for row in nvml.read().devices] == [FIRST, SECOND]
    until(lambda: client(next_reading(nvml), divided[1]).compute == BUSY)
    assert is_known(device(next_reading(nvml), FIRST).compute)
    on(driver, divided[1])
    nvml.ahead += 61
    assert client(nvml.read(), divided[1]).device == INSTANCES[1]


def test_a_lost_gpu_takes_its_instances_with_it(nvml: NvmlApart, driver: StandIn, divided: list[int]) -> None:
    """They stay in view with nothing known, through new connections too, and come back with it."""
    nvml.read()
    nvml.ahead += 30
    on(driver, divided[1], "0 lost")
    driver.count_calls()
    for ahead in (5, 35, 61, 61, 130):  # they are looked for once before the driver is opened anew
        nvml.ahead += ahead
        seen = nvml.read()
        assert [row.uuid for row in seen.devices] == [FIRST, *INSTANCES[:2], SECOND]
        assert [row.state for row in seen.devices] == [DeviceState.LOST] * 3 + [DeviceState.OK]
        assert {(row.pid, why(row.memory)) for row in seen.clients} == {(pid, Why.DEVICE_LOST) for pid in divided}
        assert seen.gaps == ()
    on(driver, divided[1])
    nvml.ahead += 600
    nvml.read()
    assert client(next_reading(nvml), divided[1]).memory == 4 * GIB
    calls = driver.calls()
    assert (calls["nvmlInitWithFlags"] > 1, calls["stale_handle"]) == (True, 0)


def test_a_new_connection_finds_the_same_instances(nvml: NvmlApart, driver: StandIn, divided: list[int]) -> None:
    """Their handles were of the old one."""
    assert counted(nvml, INSTANCES[1]) == pytest.approx(BUSY, abs=0.5)
    on(driver, divided[1], "0 error UNINITIALIZED nvmlDeviceGetMemoryInfo*")
    assert [gap.source for gap in next_reading(nvml).gaps] == ["devices"]
    on(driver, divided[1])
    nvml.ahead += 10
    assert counted(nvml, INSTANCES[1]) == pytest.approx(BUSY, abs=0.5)
    assert next_reading(nvml).gaps == ()


def test_an_instance_without_permission_is_another_one_s(nvml: NvmlApart, driver: StandIn, divided: list[int]) -> None:
    """As in a container that was given one instance of a GPU: nothing of this user runs on the rest."""
    on(driver, divided[1], "0 error NO_PERMISSION nvmlDeviceGetMigDeviceHandleByIndex")
    seen = nvml.read()
    assert ([row.uuid for row in seen.devices], seen.gaps) == ([FIRST, SECOND], ())
