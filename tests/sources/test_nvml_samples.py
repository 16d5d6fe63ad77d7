"""Where a reading of the driver's ring ended, and which answers can be trusted; with clocks that a test moves."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpu_guard.core.model import Unknown, Why, is_known
from jupyter_gpu_guard.sources.nvml_samples import Computed, SampleCursor, busiest

FAILED = Unknown(Why.DRIVER_ERROR, "Unknown Error")


@dataclass(frozen=True)
class Row:
    """A sample as `pynvml` gives it."""

    pid: int
    timeStamp: int  # noqa: N815 - NVIDIA's name
    smUtil: int = 0  # noqa: N815
    encUtil: int = 0  # noqa: N815
    decUtil: int = 0  # noqa: N815


@dataclass
class FakeRing:
    """A driver that answers what it is told next, and a cursor that reads it every five seconds."""

    cursor: SampleCursor = field(default_factory=SampleCursor)
    now: float = 1000.0
    wall: float = 5_000_000.0
    asked: list[int] = field(default_factory=list)

    def read(self, *rows: Row, passed: float = 5, stepped: float = 0, fails: bool = False) -> Computed:
        """A reading that the driver answers with these rows, so many seconds after the one before."""
        self.now += passed
        self.wall += passed + stepped

        def answer(newest: int) -> list[Row] | Unknown:
            self.asked.append(newest)
            return FAILED if fails else list(rows)

        return self.cursor.read(answer, self.now, self.wall)


def why(computed: Computed, pid: int = 7) -> Why | None:
    """Why the compute of `pid` is not known; None: it is."""
    reading = computed.of(pid)
    return None if is_known(reading) else reading.why


def test_only_stamps_that_the_driver_returned_are_given_back() -> None:
    """Whatever its clock counts from; an answer without rows moves nothing."""
    ring = FakeRing()
    ring.read(Row(7, 100, 50))
    ring.read(Row(7, 5_000_100, 50), Row(8, 4_000_000, 50))
    ring.read()
    ring.read()
    assert ring.asked == [0, 100, 5_000_100, 5_000_100]


def test_the_first_answer_is_not_used() -> None:
    """It may tell of processes long gone; the second one counts."""
    ring = FakeRing()
    assert why(ring.read(Row(7, 100, 50))) is Why.FIRST_READING
    assert ring.read(Row(7, 200, 60)).of(7) == 60


def test_who_is_not_named_is_idle_only_after_an_answer() -> None:
    """An empty answer is one; a failed call is none, and what it missed is in the next answer."""
    ring = FakeRing()
    ring.read()
    assert ring.read().of(7) == 0
    assert why(ring.read(fails=True)) is Why.DRIVER_ERROR
    assert ring.read(Row(8, 100, 30)).of(7) == 0


def test_a_failure_that_lasts_is_a_gap() -> None:
    """Eleven seconds after the last good answer the ring has been overwritten; a second answer heals."""
    ring = FakeRing()
    ring.read(Row(7, 100, 50))
    ring.read(Row(7, 200, 50))
    ring.read(fails=True, passed=6)
    assert why(ring.read(passed=5)) is Why.NOT_READ
    assert ring.read().of(7) == 0


@pytest.mark.parametrize("stepped", [-3600, 3600, -2])
def test_a_clock_step_or_a_sleep_is_a_gap(stepped: float) -> None:
    """The driver is then asked for all it has, since its stamps may have gone back."""
    ring = FakeRing()
    ring.read(Row(7, 10**12, 50))
    ring.read(Row(7, 10**12 + 5, 50))
    assert why(ring.read(Row(7, 100, 50), stepped=stepped)) is Why.NOT_READ
    assert ring.asked[-1] == 0
    assert ring.read(Row(7, 200, 50)).of(7) == 50


def test_a_slowly_adjusted_clock_is_none() -> None:
    """As every clock on a network is."""
    ring = FakeRing()
    ring.read()
    assert all(ring.read(stepped=0.01).of(7) == 0 for _ in range(1000))


def test_a_stamp_from_the_far_future_does_not_blind_the_guard() -> None:
    """If it were believed, every later sample would look old, and the busy idle."""
    ring = FakeRing()
    ring.read(Row(7, 1_000_000, 50))
    ring.read(Row(7, 6_000_000, 50))
    assert why(ring.read(Row(7, 10**15, 50))) is Why.IMPLAUSIBLE
    assert why(ring.read(Row(7, 16_000_000, 50))) is Why.FIRST_READING
    assert ring.read(Row(7, 21_000_000, 50)).of(7) == 50
    assert max(ring.asked) < 10**9


def test_not_even_the_first_stamp_is_believed_if_it_is_of_the_far_future() -> None:
    """There is none before it to hold it against; but no driver's clock is so far ahead of ours."""
    ring = FakeRing()
    assert why(ring.read(Row(7, 10**15, 50))) is Why.IMPLAUSIBLE
    assert why(ring.read(Row(7, 6_000_000, 50))) is Why.FIRST_READING
    assert ring.read(Row(7, 11_000_000, 50)).of(7) == 50
    assert max(ring.asked) < 10**9


def test_a_long_idle_time_is_no_leap() -> None:
    """After an hour without a sample the next one is an hour younger."""
    ring = FakeRing()
    ring.read(Row(7, 1_000_000, 50))
    for _ in range(720):
        ring.read()
    assert ring.read(Row(7, 3_606_000_000, 40)).of(7) == 40


def test_rows_that_mean_nobody_or_nothing() -> None:
    """No pid; seen before; more than a whole device; at no time."""
    ring = FakeRing()
    ring.read(Row(7, 1000, 50))
    seen = ring.read(Row(0, 2000, 50), Row(1, 1000, 50), Row(2, 2000, 101), Row(3, 0, 20), Row(4, 0, 0))
    assert 0 not in seen.named
    assert seen.of(1) == 0
    assert (why(seen, 2), why(seen, 3)) == (Why.IMPLAUSIBLE, Why.IMPLAUSIBLE)
    assert seen.of(4) == 0


def test_a_plausible_row_outweighs_an_implausible_one_of_the_same_process() -> None:
    """Of several rows the largest that can be true counts, over all engines."""
    ring = FakeRing()
    ring.read()
    rows = [Row(7, 2000, 5, 90, 1), Row(7, 2100, 10), Row(7, 2200, 65535), Row(8, 2000, 1, 2, 3)]
    seen = ring.read(*rows)
    assert (seen.of(7), seen.of(8)) == (90, 3)


def test_the_engines_for_video_are_told_apart() -> None:
    """Accounting knows the compute engine better; who has no row used none, and what is implausible stays so."""
    ring = FakeRing()
    assert not is_known(ring.read().apart_from_compute(7))
    seen = ring.read(Row(7, 2000, 90, 20, 5), Row(7, 2100, 80, 0, 30), Row(8, 2000, 50), Row(9, 2000, 101))
    assert [seen.apart_from_compute(pid) for pid in (7, 8, 10)] == [30, 0, 0]
    assert not is_known(seen.apart_from_compute(9))
    more = Computed({7: 40}, others={7: 40})
    assert (busiest([seen, more]).apart_from_compute(7), busiest([seen, more]).of(7)) == (40, 90)
    assert not is_known(busiest([seen, Computed(absent=FAILED)]).apart_from_compute(7))


def test_two_looks_within_half_a_second_are_one() -> None:
    """The driver samples a few times a second: so soon, nothing new does not mean idle."""
    ring = FakeRing()
    ring.read(Row(7, 1000, 50))
    ring.read(Row(7, 2000, 50))
    assert ring.read(passed=0.4).of(7) == 50
    assert len(ring.asked) == 2
    assert ring.read(passed=0.4).of(7) == 0


def test_answers_about_several_engines_are_joined() -> None:
    """The busier engine counts; what is not known of one is not known of the process."""
    failed = Computed(absent=FAILED)
    assert busiest([Computed({7: 10}), Computed({7: 20, 8: 5})]).of(7) == 20
    assert busiest([Computed({7: 10}), Computed({7: 20, 8: 5})]).of(8) == 5
    assert busiest([Computed({7: 10}), Computed()]).of(9) == 0
    assert why(busiest([Computed({7: 10}), failed])) is Why.DRIVER_ERROR


ROW = st.builds(Row, st.integers(0, 9), st.integers(0, 10**7), st.integers(0, 120))
READING = st.tuples(st.lists(ROW, max_size=4), st.floats(0.6, 15), st.booleans())


@given(st.lists(READING, min_size=1, max_size=12))
def test_zero_always_rests_on_an_answer_that_covers_the_time_before(
    readings: list[tuple[list[Row], float, bool]],
) -> None:
    """Whatever a driver answers: nobody is idle after a failure, at the first answer, or after over ten seconds."""
    ring = FakeRing()
    answered_at = None
    for rows, passed, fails in readings:
        seen = ring.read(*rows, passed=passed, fails=fails)
        covered = answered_at is not None and ring.now - answered_at <= 10
        if fails or not covered:
            assert not is_known(seen.absent)
            assert all(not is_known(seen.of(row.pid)) for row in rows)
        answered_at = answered_at if fails else ring.now
