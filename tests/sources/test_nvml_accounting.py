"""Compute out of the driver's accounting: exact means, also over a time in which nobody looked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from jupyter_gpu_guard.core.model import Unknown, Why, is_known
from jupyter_gpu_guard.kernel.simulated_gpu import Declaration, declare_for
from jupyter_gpu_guard.sources.nvml_accounting import Accounting
from jupyter_gpu_guard.sources.nvml_samples import Computed
from tests.driver import until
from tests.driver.scene import BUSY, GIB, busy, client, next_reading, settled, why

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.driver import StandIn
    from tests.driver.apart import NvmlApart

STATS = "nvmlDeviceGetAccountingStats_v2"
IDLE = Computed()
MISSED = Computed(absent=Unknown(Why.NOT_READ))


@dataclass
class Sums:
    """What the driver has added up for a process, in its own units."""

    sampleCount: int  # noqa: N815 - NVIDIA's name
    sumGpuUtil: int  # noqa: N815
    sumFbUtil: int = 0  # noqa: N815
    startTime: int = 1  # noqa: N815


def after(*readings: Sums | Unknown) -> Accounting:
    """Accounting that has read process 7 so many times."""
    accounting = Accounting()
    for reading in readings:
        assert accounting.read(lambda _pid, reading=reading: reading, [7]) is None
    return accounting


# ---- sums and means ----


def test_the_mean_is_the_difference_of_two_sums() -> None:
    """The sums count hundredths of a percent."""
    assert after(Sums(100, 400_000), Sums(130, 400_000 + 30 * 2500)).of(7, IDLE) == 25
    assert after(Sums(100, 400_000), Sums(130, 400_000)).of(7, IDLE) == 0


@pytest.mark.parametrize(
    "readings",
    [
        [Sums(100, 400_000)],
        [Sums(100, 400_000), Sums(100, 400_000)],
        [Sums(100, 400_000), Sums(40, 1000)],
        [Sums(100, 400_000), Sums(130, 400_000, startTime=2)],
        [Unknown(Why.NOT_AVAILABLE), Unknown(Why.NOT_AVAILABLE)],
        [Sums(100, 400_000), Unknown(Why.NOT_AVAILABLE), Sums(130, 400_000)],
    ],
)
def test_without_two_sums_of_one_process_the_samples_hold(readings: list[Sums | Unknown]) -> None:
    """First seen, nothing new, counted anew, a reused pid, not accounted for at all or once in between."""
    assert after(*readings).of(7, Computed({7: 33})) == 33
    assert after(*readings).of(7, IDLE) == 0
    assert why(after(*readings).of(7, MISSED)) is Why.NOT_READ


@pytest.mark.parametrize("sums", [Sums(101, 10_101), Sums(101, 0), Sums(101, 200, 10_001)])
def test_sums_that_cannot_be_are_unknown(sums: Sums) -> None:
    """More than the whole device, or less than before."""
    assert why(after(Sums(100, 100), sums).of(7, IDLE)) is Why.IMPLAUSIBLE


def test_further_engines_are_in_the_samples_alone() -> None:
    """The sums know the compute engine: who decodes is as busy as the decoder."""
    accounting = after(Sums(100, 0), Sums(130, 30 * 500))
    assert accounting.of(7, Computed({7: 90}, others={7: 60})) == 60
    assert accounting.of(7, Computed({7: 90}, others={7: 0})) == 5


def test_a_time_without_samples_is_idle_only_if_the_memory_was_not_used_either() -> None:
    """Nothing decodes without it; who did anything is not known, and not idle."""
    assert after(Sums(100, 0), Sums(130, 0)).of(7, MISSED) == 0
    assert why(after(Sums(100, 0), Sums(130, 0, 30)).of(7, MISSED)) is Why.NOT_READ
    assert why(after(Sums(100, 0), Sums(130, 30)).of(7, MISSED)) is Why.NOT_READ


@pytest.mark.parametrize("why", [Why.NOT_SUPPORTED, Why.DRIVER_ERROR, Why.DEVICE_LOST, Why.NO_PERMISSION])
def test_accounting_that_fails_says_so(why: Why) -> None:
    """And begins anew when it is asked again."""
    accounting = after(Sums(100, 0))
    assert accounting.read(lambda _pid: Unknown(why), [7]) == Unknown(why)
    assert accounting.read(lambda _pid: Sums(130, 30), [7]) is None
    assert accounting.of(7, Computed({7: 33})) == 33


# ---- with a driver ----


def exactly(compute: object) -> bool:
    """Whether it is the mean that was declared, to the rounding of the sums."""
    return is_known(compute) and compute == pytest.approx(BUSY + 0.25, abs=0.01)


@pytest.fixture
def odd(driver: StandIn, busy_one: int) -> int:
    """The pid of a process whose compute no sample can show exactly."""
    work = busy(1)
    declare_for(busy_one, Declaration({1: GIB}, (type(work)(1, work.since, work.until, BUSY + 0.25),)), driver.folder)
    return busy_one


def test_where_it_is_on_compute_is_exact(nvml: NvmlApart, driver: StandIn, idle: int, odd: int) -> None:
    """Samples are whole numbers; the sums are not."""
    driver.fault("all accounting")
    nvml.read()
    assert settled(nvml, odd, exactly)
    assert client(next_reading(nvml), idle).compute == 0


def test_a_missed_time_does_not_hide_that_somebody_was_idle(
    nvml: NvmlApart, driver: StandIn, idle: int, odd: int
) -> None:
    """The driver's samples are overwritten after ten seconds, its sums are not."""
    driver.fault("all accounting")
    nvml.read()
    settled(nvml, odd, exactly)
    nvml.ahead += 30
    moment = [nvml.read()]
    assert why(client(moment[0], odd).compute) is Why.NOT_READ

    def look() -> bool:  # until the driver has taken a sample in between
        nvml.ahead += 30
        moment.append(nvml.read())
        return client(moment[-1], idle).compute == 0

    until(look)
    assert why(client(moment[-1], odd).compute) is Why.NOT_READ


@pytest.mark.parametrize("fault", [f"1 error UNKNOWN {STATS}", f"1 error NOT_FOUND {STATS}", f"1 error MEMORY {STATS}"])
def test_where_it_fails_the_samples_hold(nvml: NvmlApart, driver: StandIn, odd: int, fault: str) -> None:
    """As without it."""
    driver.fault("all accounting", fault)
    nvml.read()
    assert settled(nvml, odd, lambda compute: compute == BUSY)


def test_switched_on_and_off_while_we_read(nvml: NvmlApart, driver: StandIn, odd: int) -> None:
    """Found within about a minute; given up at once."""
    nvml.read()
    assert settled(nvml, odd, lambda compute: compute == BUSY)
    driver.fault("all accounting")
    nvml.ahead += 61
    nvml.read()
    assert settled(nvml, odd, exactly)
    driver.fault()
    driver.count_calls()
    next_reading(nvml)
    assert settled(nvml, odd, lambda compute: compute == BUSY)
    assert driver.calls()[STATS] == 2  # one process on each of two devices, and never again


def test_in_a_container_it_is_not_asked(open_nvml: Callable[..., NvmlApart], driver: StandIn, idle: int) -> None:
    """Some drivers take the pid for that of the host, and answer for another process."""
    driver.fault("all accounting")
    driver.count_calls()
    nvml = open_nvml(namespaced=True)
    for _ in range(3):
        next_reading(nvml)
    assert driver.calls()[STATS] == driver.calls()["nvmlDeviceGetAccountingMode"] == 0


def test_switched_off_it_costs_nothing(nvml: NvmlApart, driver: StandIn, idle: int) -> None:
    """One question a minute."""
    driver.count_calls()
    for _ in range(11):
        next_reading(nvml)
    assert (driver.calls()["nvmlDeviceGetAccountingMode"], driver.calls()[STATS]) == (2, 0)
