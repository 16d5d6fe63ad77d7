"""How busy a whole device was, for one that does not measure its processes: never less than what one of them did."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpu_guard.core.model import Reading, Unknown, Why, is_known
from jupyter_gpu_guard.kernel.simulated_gpu import Declaration, Wave, declare_for, now_us
from jupyter_gpu_guard.sources.nvml_overall import DevicePeak
from tests.driver import until
from tests.driver.scene import GIB, next_reading, why

if TYPE_CHECKING:
    from collections.abc import Collection

    from tests.driver import StandIn
    from tests.driver.apart import NvmlApart

SAMPLES = "nvmlDeviceGetSamples"


@dataclass
class FakeSamples:
    """A driver whose samples a test gives, once a second from `since` on, and what reads them every five seconds."""

    peak: DevicePeak = field(default_factory=DevicePeak)
    now: float = 1000.0

    def read(self, *values: int, kind: int = 1, passed: float = 5, skip: Collection[int] = ()) -> Reading:
        """The device had these values in the last seconds; the driver has lost those whose places are in `skip`."""
        self.now += passed
        first = round(self.now - len(values)) + 1
        rows = [
            SimpleNamespace(timeStamp=(first + place) * 1_000_000, sampleValue=SimpleNamespace(uiVal=value))
            for place, value in enumerate(values)
            if place not in skip
        ]

        def ask(seen: int) -> object:
            newer = [row for row in rows if row.timeStamp > seen]
            return (kind, newer) if newer else Unknown(Why.NOT_AVAILABLE, "Not Found")

        return self.peak.read(ask, self.now, self.now)


def test_the_highest_sample_counts() -> None:
    """A mean would be below what a process did that used the device for a part of the time."""
    samples = FakeSamples()
    assert why(samples.read(0, 0, 0, 0, 0)) is Why.FIRST_READING
    assert samples.read(0, 0, 80, 0, 0) == 80
    assert samples.read(0, 0, 0, 0, 0) == 0


@pytest.mark.parametrize("skip", [range(5), range(2, 5), range(3), range(1, 4)])
def test_a_time_without_samples_is_unknown(skip: range) -> None:
    """All, the last, the first, or some in between: a driver that sleeps looks like one that fails."""
    samples = FakeSamples()
    samples.read(0, 0, 0, 0, 0)
    assert why(samples.read(0, 0, 0, 0, 0, skip=skip)) is Why.NOT_AVAILABLE


def test_two_looks_at_once_are_one_also_of_an_unknown() -> None:
    """The second has no samples of its own."""
    samples = FakeSamples()
    samples.read(0, 0, 0, 0, 0)
    assert why(samples.read(0, 0, 0, 0, 0, skip=range(1, 5))) is Why.NOT_AVAILABLE
    assert why(samples.read(passed=0.1)) is Why.NOT_AVAILABLE


def test_a_missed_time_is_unknown() -> None:
    """The ring has turned."""
    samples = FakeSamples()
    samples.read(*[0] * 5)
    assert why(samples.read(*[0] * 12, passed=12)) is Why.NOT_READ
    assert samples.read(*[7] * 5) == 7


@pytest.mark.parametrize(("values", "kind"), [([0, 0, 101, 0, 0], 1), ([0] * 5, 0)])
def test_samples_that_cannot_be_are_unknown(values: list[int], kind: int) -> None:
    """Above the whole device, or of a type that the driver never uses."""
    samples = FakeSamples()
    samples.read(*[0] * 5)
    assert why(samples.read(*values, kind=kind)) is Why.IMPLAUSIBLE


@given(st.lists(st.integers(0, 100), min_size=5, max_size=5), st.sets(st.integers(0, 4)))
def test_it_is_known_only_if_no_sample_is_missing(values: list[int], lost: set[int]) -> None:
    """Apart from the newest, which the driver may still be about to take and which is then in the next reading."""
    samples = FakeSamples()
    samples.read(*[0] * 5)
    peak = samples.read(*values, skip=lost)
    if is_known(peak):
        assert lost <= {4}
        assert peak == max(value for place, value in enumerate(values) if place not in lost)
    else:
        assert lost & {0, 1, 2, 3}


# ---- with a driver ----


@pytest.fixture
def shared(driver: StandIn, idle: int) -> int:
    """The pid of a process that computes in short bursts through the multi-process service."""
    bursts = Wave(0, now_us() - 60_000_000, 60, 400_000, 0, 1_600_000)
    declare_for(idle, Declaration({0: 2 * GIB}, (bursts,), kinds="M"), driver.folder)
    return idle


def overall(nvml: NvmlApart) -> Reading:
    """What the device did as a whole, once that is known, with nothing but real time passing."""
    found: list[Reading] = []

    def look() -> bool:
        found.append(nvml.read().devices[0].overall)
        return is_known(found[-1])

    until(look)
    return found[-1]


def unmeasured(*more: str) -> tuple[str, ...]:
    """A driver that does not measure processes on the first device."""
    return ("0 error NOT_SUPPORTED nvmlDeviceGetProcess*Utilization*", *more)


def test_a_device_that_measures_no_process_tells_its_own_peak(nvml: NvmlApart, driver: StandIn, shared: int) -> None:
    """Seen over the seconds between two readings and not at the moment, so that a burst cannot hide."""
    driver.fault(*unmeasured())
    seen: list[Reading] = []

    def look() -> bool:
        seen.append(overall(nvml))
        return seen[-1] == 60

    until(look)
    assert why(nvml.read().devices[1].overall) is Why.NOT_SUPPORTED


def test_a_device_that_does_nothing_is_at_zero(nvml: NvmlApart, driver: StandIn, idle: int) -> None:
    """As long as the driver goes on taking samples."""
    driver.fault(*unmeasured())
    assert overall(nvml) == 0


def test_a_driver_without_samples_while_idle_is_unknown(nvml: NvmlApart, driver: StandIn, idle: int) -> None:
    """It cannot be told from a driver that has stopped to measure; the figure of the moment may be late."""
    driver.fault(*unmeasured("0 dry_ring"))
    for _ in range(4):
        nvml.read()
        assert why(next_reading(nvml).devices[0].overall) in {Why.NOT_AVAILABLE, Why.NOT_READ}
        assert nvml.read().devices[0].compute == 0


@pytest.mark.parametrize("error", ["UNKNOWN", "NO_PERMISSION", "NOT_SUPPORTED", "GPU_IS_LOST"])
def test_samples_that_fail_are_unknown(nvml: NvmlApart, driver: StandIn, idle: int, error: str) -> None:
    """Never 0, and no harm to the rest."""
    driver.fault(*unmeasured(f"0 error {error} {SAMPLES}"))
    nvml.read()
    seen = next_reading(nvml)
    assert not is_known(seen.devices[0].overall)
    assert (seen.devices[0].memory_used, seen.gaps) == (2 * GIB, ())


def test_it_is_asked_only_where_somebody_is_not_measured(
    nvml: NvmlApart, driver: StandIn, idle: int, busy_one: int
) -> None:
    """Elsewhere each process has its own figure."""
    driver.count_calls()
    for _ in range(5):
        next_reading(nvml)
    assert driver.calls()[SAMPLES] == 0
    declare_for(idle, Declaration({0: GIB}, kinds="M"), driver.folder)
    next_reading(nvml)
    next_reading(nvml)
    assert driver.calls()[SAMPLES] > 0
