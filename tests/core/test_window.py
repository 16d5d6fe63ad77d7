"""How long a Holder was seen idle."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpu_guard.core.model import Holder, Reading, Unknown
from jupyter_gpu_guard.core.window import Window, Windows, minute_compute, push

from .build import GONE, holder, key, owner, steady

LONGEST = 10.0


@dataclass(frozen=True)
class Seen:
    """One reading of one Holder at monotonic time `at`."""

    at: float
    compute: Reading = 0.0
    used_at: float | None = None
    children: tuple[int, ...] = ()
    root: int = 100
    memory: Reading = 2.0**33

    def holder(self) -> Holder:
        """The Holder that this is a reading of."""
        tree = tuple(key(pid) for pid in (self.root, *self.children))
        return holder(self.memory, self.compute, of=owner("a", self.root, used_at=self.used_at), tree=tree)


def watch(*readings: Seen) -> Window | None:
    """The Window after all `readings`."""
    windows: Windows = {}
    for reading in readings:
        windows = push(windows, (reading.holder(),), reading.at, LONGEST)
    return windows.get(owner("a").key)


def idle(*readings: Seen, below: float = 5.0, at_rest: bool = True) -> float:
    """Seconds idle after all `readings`."""
    window = watch(*readings)
    assert window is not None
    return window.idle_for(below, at_rest=at_rest)


def test_the_first_reading_proves_nothing() -> None:
    """Idle time begins with it."""
    assert idle(Seen(1000)) == 0


def test_idle_time_is_the_time_between_idle_readings() -> None:
    """Ten readings five seconds apart are forty-five seconds."""
    assert idle(*(Seen(1000 + 5 * n) for n in range(10))) == 45


def test_the_span_between_a_busy_and_an_idle_reading_is_not_idle() -> None:
    """When in it the work ended nobody knows; idle time begins at its end."""
    assert idle(Seen(0), Seen(5, 80.0), Seen(10)) == 0
    assert idle(Seen(0), Seen(5, 80.0), Seen(10), Seen(15)) == 5


def test_work_in_the_first_reading_counts() -> None:
    """A Window that begins with work is idle only after the next reading."""
    assert idle(Seen(0, 80.0), Seen(5), Seen(10)) == 5


@pytest.mark.parametrize("lost", [Seen(5, GONE), Seen(5, memory=GONE)])
def test_an_unknown_reading_ends_the_window(lost: Seen) -> None:
    """What was seen before it does not count any more."""
    assert watch(Seen(0), lost) is None
    assert idle(Seen(0), lost, Seen(10), Seen(15)) == 5


def test_a_late_reading_ends_the_window() -> None:
    """Readings further apart than the longest span leave a gap; at exactly the longest span they do not."""
    assert idle(Seen(0), Seen(10)) == 10
    assert idle(Seen(0), Seen(10.001), Seen(15)) == pytest.approx(4.999)


def test_an_absent_holder_is_forgotten() -> None:
    """Who was not seen for one reading begins anew."""
    windows = push({}, (Seen(0).holder(),), 0, LONGEST)
    assert push(windows, (), 5, LONGEST) == {}


def test_a_clock_that_stands_or_runs_back_adds_nothing() -> None:
    """A monotonic clock that does not advance ends the Window instead of counting."""
    assert idle(Seen(0), Seen(5), Seen(5)) == 0
    assert idle(Seen(0), Seen(5), Seen(3), Seen(6)) == 3


def test_a_restarted_kernel_starts_with_clean_clocks() -> None:
    """A new root is a new Window."""
    assert idle(Seen(0), Seen(5), Seen(10, root=160)) == 0
    assert idle(Seen(0), Seen(5), Seen(10, root=160), Seen(15, root=160)) == 5
    assert idle(Seen(0), Seen(5), Seen(10, root=160), at_rest=False) == 0


def test_work_of_an_earlier_root_is_not_shown_for_the_new_one() -> None:
    """Its minute begins with it."""
    window = watch(Seen(0, 90.0), Seen(5, 90.0), Seen(10, 0.0, root=160))
    assert window is not None
    assert (window.minute_mean(), window.peaks) == (0, ())


def test_the_end_of_a_cell_resets_the_clock() -> None:
    """Idle time is counted from the last use, also when it came between two readings."""
    assert idle(Seen(0), Seen(5), Seen(10, used_at=7), Seen(15, used_at=7)) == 8
    assert idle(Seen(0), Seen(5), Seen(10, used_at=7), Seen(15, used_at=7), at_rest=False) == 8


def test_a_use_is_not_forgotten_when_the_source_forgets_it() -> None:
    """A server that was asked again, or tells an earlier time, does not hurry anybody."""
    assert idle(Seen(0, used_at=-50), Seen(5, used_at=4), Seen(10)) == 6
    assert idle(Seen(0), Seen(5, used_at=4), Seen(10, used_at=1)) == 6


def test_a_use_before_the_window_lends_nothing() -> None:
    """Time that was not seen is not idle, however long ago the last use was."""
    assert idle(Seen(0, used_at=-5000), Seen(5, used_at=-5000)) == 5


def born(*children: tuple[int, ...]) -> tuple[Seen, ...]:
    """Readings every ten seconds, with these children."""
    return tuple(Seen(10 * n, children=pids) for n, pids in enumerate(children))


def test_a_process_that_has_lived_for_a_minute_resets_the_clock_to_its_birth() -> None:
    """Unless that is not asked for. A process that ends does not."""
    lives = born((), (), *[(101,)] * 7)
    assert idle(*lives[:-1]) == 70
    assert idle(*lives) == 60
    assert idle(*lives, at_rest=False) == 80
    assert idle(*lives, Seen(90)) == 70


def test_what_comes_and_goes_is_no_use() -> None:
    """A look at the devices now and then, each time by a new process, keeps nobody alive; nor do many of them."""
    assert idle(*born(*[(n,) if n % 2 else () for n in range(101, 161)])) == 590
    assert idle(*born(*[(n, n + 1, n + 2) for n in range(101, 161)])) == 590


def test_a_process_on_a_device_resets_the_clock_at_once() -> None:
    """It is there to work."""
    worker = Seen(10, children=(101,)).holder()
    row = replace(worker.holdings[0].processes[0], key=key(101))
    worker = replace(worker, holdings=(replace(worker.holdings[0], processes=(row,)),))
    windows = push({}, (Seen(0).holder(),), 0, LONGEST)
    windows = push(windows, (worker,), 10, LONGEST)
    windows = push(windows, (worker,), 20, LONGEST)
    assert windows[owner("a").key].idle_for(5.0) == 10


def test_a_child_that_lives_on_counts_as_new_once() -> None:
    """One that goes while another comes still is new."""
    assert idle(*born((101,), *[(102,)] * 20)) == 190


@pytest.mark.parametrize("below", [0.0, -1.0])
def test_nothing_is_below_zero(below: float) -> None:
    """A threshold of nothing is never undercut: no compute is little enough."""
    assert idle(Seen(0), Seen(5), below=below) == 0


def test_compute_of_exactly_the_threshold_is_not_idle() -> None:
    """The threshold itself counts as use; the least bit less does not."""
    assert idle(Seen(0, 5.0), Seen(5, 5.0), below=5.0) == 0
    assert idle(Seen(0, 4.9), Seen(5, 4.9), below=5.0) == 5


def test_a_fine_threshold_sees_fine_work() -> None:
    """Less than a percent may be use as well."""
    assert idle(Seen(0, 0.2), Seen(5, 0.7), Seen(10, 0.2), Seen(15, 0.2), below=0.5) == 5
    assert idle(Seen(0, 0.2), Seen(5, 0.4), below=0.5) == 5


def test_each_holder_has_its_own_window() -> None:
    """One that is unknown does not touch the other."""
    a, b = holder(of=owner("a", 100)), holder(of=owner("b", 200))
    windows = push({}, (a, b), 0, LONGEST)
    windows = push(windows, (replace(a, unknown=GONE), b), 5, LONGEST)
    assert set(windows) == {b.owner.key}
    assert windows[b.owner.key].idle_for(5) == 5


PERCENT = st.one_of(st.just(0.0), st.floats(0, 100), st.integers(0, 1000).map(lambda tenths: tenths / 10))
STEP = st.tuples(st.sampled_from([5.0, 5.0, 5.0, 1.0, 10.0, 10.5, 60.0, 0.0, -5.0]), st.one_of(PERCENT, st.just(GONE)))


def rounded_up(percent: float) -> float:
    """To a whole tenth, never down: at most a tenth more (a touch over, in floating point)."""
    return next(tenth / 10 for tenth in range(int(percent * 10), 1003) if tenth / 10 >= percent)


@steady
@given(st.lists(STEP, min_size=1, max_size=60), st.one_of(PERCENT, st.floats(0, 120)))
def test_the_staircase_forgets_nothing(steps: list[tuple[float, Reading]], below: float) -> None:
    """For any readings and any threshold, idle time is what all the readings would give.

    Said naively: go back from the last reading for as long as no reading is missing and both ends of each span are
    below the threshold. Readings count as rounded up to a tenth: never more idle than the exact, and never less
    than with a tenth more.
    """
    now, readings = 1000.0, []
    for step, compute in steps:
        now += step
        readings.append(Seen(now, compute))

    def naive(more: float) -> float:
        since = readings[-1].at
        for later, earlier in zip(reversed(readings), reversed(readings[:-1]), strict=False):
            if not 0 < later.at - earlier.at <= LONGEST:
                break
            if any(isinstance(end.compute, Unknown) or end.compute + more >= below for end in (later, earlier)):
                break
            since = earlier.at
        return readings[-1].at - since

    window = watch(*readings)
    if isinstance(readings[-1].compute, Unknown):
        assert window is None
        return
    assert window is not None
    assert naive(0.1 + 1e-9) <= window.idle_for(below) <= naive(0.0)
    if below == round(below, 1) and all(r.compute == rounded_up(r.compute) for r in readings if r.compute != GONE):
        assert window.idle_for(below) == naive(0.0)


@steady
@given(st.lists(PERCENT, min_size=1, max_size=60))
def test_the_staircase_stays_small(shares: list[float]) -> None:
    """However long a Window is, it keeps one step for each level of compute, falling, in order of time."""
    window = watch(*(Seen(5.0 * n, share) for n, share in enumerate(shares)))
    assert window is not None
    levels = [peak.percent for peak in window.peaks]
    assert levels == sorted(set(levels), reverse=True)
    assert [peak.until for peak in window.peaks] == sorted(peak.until for peak in window.peaks)


@steady
@given(st.lists(st.tuples(st.sampled_from([1.0, 5.0, 7.5, 10.0]), PERCENT), min_size=2, max_size=40))
def test_the_minute_mean_is_the_mean_of_the_last_minute(steps: list[tuple[float, float]]) -> None:
    """Each reading stands for the time since the one before; what is older than a minute does not count."""
    now, readings = 0.0, []
    for step, compute in steps:
        now += step
        readings.append(Seen(now, compute))
    amount = duration = 0.0
    for earlier, later in itertools.pairwise(readings):
        seconds = max(0.0, later.at - max(earlier.at, now - 60))
        assert isinstance(later.compute, float)
        amount += later.compute * seconds
        duration += seconds
    window = watch(*readings)
    assert window is not None
    assert window.minute_mean() == pytest.approx(amount / duration)
    assert len(window.recent) <= 61


def test_the_minute_mean_after_one_reading_is_that_reading() -> None:
    """There is nothing else yet."""
    window = watch(Seen(0, 40.0))
    assert window is not None
    assert window.minute_mean() == 40


def test_what_is_shown_of_compute_says_why_it_is_not_known() -> None:
    """An Unknown reading is shown with its reason, not with the mean of what was known before."""
    window = watch(Seen(0, 40.0))
    assert minute_compute(window, Seen(5, 20.0).holder()) == 40
    assert minute_compute(window, Seen(5, GONE).holder()) == GONE


def test_compute_is_shown_while_the_memory_is_not_known() -> None:
    """Such a Holder has no Window; its last reading is all there is."""
    reading = Seen(5, 20.0, memory=GONE)
    assert minute_compute(watch(reading), reading.holder()) == 20
