"""A little compute now and then: told from work, and from nothing at all."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpu_guard.core.judge import Bench, judge
from jupyter_gpu_guard.core.ledger import Case, Ledger, review, settle
from jupyter_gpu_guard.core.model import OwnerState
from jupyter_gpu_guard.core.policy import Action, Match, Rule, Trickle
from jupyter_gpu_guard.core.trickle import LONGEST, RHYTHM, STRIDE, Stretch, mean_of, pulses_of
from jupyter_gpu_guard.core.verdict import Code, Result
from jupyter_gpu_guard.core.window import Window, Windows, push

from .build import GIB, at, codes, holder, outcome, owner, policy, rule, rungs, steady, verdict_on

STEP = 60.0
WHO = owner().key


@cache
def pulsed(hours: float, every: float = 30.0, percent: float = 40.0, used_at: float | None = None) -> Window:
    """What was seen in so many hours with one minute of `percent` compute every so many minutes, up to a pulse."""
    windows: Windows = {}
    steps = round(hours * 60)
    for step in range(steps + 1):
        compute = percent if (steps - step) % every == 0 else 0.0
        held = holder(
            compute=compute, of=owner(used_at=used_at if used_at is not None and step * STEP >= used_at else None)
        )
        windows = push(windows, (held,), step * STEP, STEP)
    return windows[WHO]


def said(window: Window, ruled: Rule, state: OwnerState = OwnerState.IDLE):
    """What is said about a holder that has been seen so, at a moment between two pulses."""
    now = window.at
    return verdict_on(holder(compute=40.0, of=owner(state=state)), by=ruled, now=now, windows={WHO: window})


WITH = replace(rule(lasting="2h"), trickle=Trickle(2.0, timedelta(hours=6)))


def test_without_such_a_rule_a_regular_pulse_is_only_remarked() -> None:
    """It computes, and is kept; that it does so like a clock while nobody uses it is said."""
    verdict = said(pulsed(8), rule(lasting="2h"))
    assert verdict.action is Action.KEEP
    assert codes(verdict) == [Code.COMPUTING, Code.POSSIBLE_KEEP_ALIVE]
    facts = verdict.reasons[1].facts
    assert facts["pulses"] == 4
    assert facts["mean_percent"] == pytest.approx(40 / 30, rel=0.35)


@pytest.mark.parametrize(
    "window",
    [
        pulsed(1.5),  # not seen for long enough
        pulsed(8, used_at=7 * 3600.0),  # a cell ended an hour ago
        pulsed(8, every=3, percent=40),  # a third of the time: work
        pulsed(8, every=100),  # too seldom to be a clock
        pulsed(8, percent=3),  # below what counts as compute
    ],
    ids=["short", "used", "work", "seldom", "noise"],
)
def test_what_is_no_regular_pulse_is_not_remarked(window: Window) -> None:
    """Nobody is suspected without the whole pattern."""
    assert Code.POSSIBLE_KEEP_ALIVE not in codes(said(window, rule(lasting="2h")))


def pulses(*begins: float, peak: float = 5.0, above: float = 5.0) -> int | None:
    """How many pulses of `peak` percent that begin then are found."""
    stretches = tuple(Stretch(begin, begin + STRIDE, 0.0, peak) for begin in begins)
    return pulses_of(stretches, begins[-1] + STRIDE, 1e9, above)


def test_of_a_stretch_that_reaches_back_further_only_its_part_counts() -> None:
    """As if its work were spread evenly over it."""
    stretches = (Stretch(0.0, 100.0, 5000.0, 90.0), Stretch(100.0, 200.0, 0.0, 0.0))
    assert mean_of(stretches, 200.0, 150.0) == pytest.approx(2500 / 150)
    assert mean_of(stretches, 200.0, 200.0) == pytest.approx(5000 / 200)
    assert mean_of(stretches, 200.0, 201.0) is None
    assert mean_of(stretches, 200.0, 100.0) == 0.0


def test_a_pulse_has_as_much_compute_as_counts() -> None:
    """Exactly so much is enough, and a little less is none."""
    regular = [1800.0 * n for n in range(6)]
    assert pulses(*regular) == 6
    assert pulses(*regular, peak=4.9) is None


def test_pulses_are_regular_up_to_the_rhythm_and_a_stride() -> None:
    """The longest pause may be so much longer than the shortest, and not a moment more."""
    longest = 1800 * RHYTHM + STRIDE
    even = [1800.0 * n for n in range(6)]
    assert pulses(*even, even[-1] + longest) == 7
    assert pulses(*even, even[-1] + longest + 1) is None


def test_a_trickle_is_due_although_it_computes() -> None:
    """Warned first, with the readings; and the notice runs from there."""
    verdict = said(pulsed(8), WITH)
    assert (verdict.action, verdict.next_action) == (Action.WARN, Action.SHUTDOWN)
    assert codes(verdict) == [Code.TRICKLE]
    facts = dict(verdict.reasons[0].facts)
    assert facts.pop("mean_percent") == pytest.approx(40 / 30, rel=0.1)
    assert facts == {"mean_below_percent": 2.0, "over_seconds": 6 * 3600.0, "memory_bytes": 12 * GIB}
    assert verdict.deadline == pytest.approx(pulsed(8).at + 900)


@pytest.mark.parametrize(
    "window",
    [
        pulsed(5.9),
        pulsed(8, used_at=3 * 3600.0),
        pulsed(8, every=15),  # 2.7 % in the mean
    ],
    ids=["not seen for so long", "used meanwhile", "more than that"],
)
def test_what_is_no_trickle_is_not_due(window: Window) -> None:
    """The whole time must have been seen, without use, below the mean."""
    verdict = said(window, WITH)
    assert verdict.action is Action.KEEP
    assert codes(verdict) == [Code.COMPUTING]


def test_a_trickle_goes_through_the_whole_ladder_although_it_peaks() -> None:
    """The Case stays open from pulse to pulse: a warning, a full notice, and the shutdown; never sooner."""
    ledger, told_at, ended_at = Ledger(), None, None
    window = pulsed(8)
    windows: Windows = {WHO: window}
    for step in range(1, 40):
        now = window.at + step * STEP
        held = holder(compute=40.0 if step % 30 == 0 else 0.0)
        windows = push(windows, (held,), now, STEP)
        bench = Bench(policy(replace(WITH, idle=rule(lasting="12h").idle)), windows, {}, ledger, {}, at(now))
        (verdict,) = judge((held,), bench)
        ledger = review(ledger, (verdict,), at(now))
        assert verdict.reasons[0].code is Code.TRICKLE
        if verdict.action is Action.WARN:
            told_at = now
            ledger = settle(ledger, verdict, outcome(verdict, Result.DONE, at(now)), at(now))
        elif verdict.action is Action.SHUTDOWN:
            ended_at = now
            break
    assert told_at == window.at + STEP
    assert ended_at == told_at + 900


def test_a_late_first_stage_is_no_obstacle() -> None:
    """Nothing tells since when it has been a trickle, so the ladder begins with its first stage."""
    verdict = said(pulsed(8), replace(WITH, ladder=rungs(("warn", "30m"), ("shutdown", "1h"))))
    assert verdict.action is Action.WARN


def test_the_ladder_of_a_trickle_begins_with_its_case() -> None:
    """Opened ten minutes ago, and the second warning half an hour after the first."""
    now = pulsed(8).at
    ladder = rungs("warn", ("warn", "30m"), ("shutdown", "1h"))
    opened = Case(WHO, holder().owner.root, "default", now - 600, stages_done=1, warned_at=now - 600)
    verdict = verdict_on(
        holder(compute=40.0), by=replace(WITH, ladder=ladder), now=now, windows={WHO: pulsed(8)}, case=opened
    )
    assert (verdict.action, verdict.next_action, verdict.deadline) == (Action.KEEP, Action.WARN, now + 1200)


def test_a_trickle_counts_without_a_limit_for_idleness() -> None:
    """`for: never` and a trickle: only the trickle is due."""
    assert said(pulsed(8), replace(WITH, idle=rule(lasting=None).idle)).action is Action.WARN
    never = said(pulsed(5.9), replace(WITH, idle=rule(lasting=None).idle))
    assert never.action is Action.KEEP


@pytest.mark.parametrize(("hours", "says"), [(8, Code.TRICKLE), (5.9, Code.NEVER)])
def test_between_two_pulses_nothing_changes_for_who_has_no_limit(hours: float, says: Code) -> None:
    """It does not compute at this moment, and is a trickle or is not."""
    ruled, seen = replace(WITH, idle=rule(lasting=None).idle), pulsed(hours)
    verdict = verdict_on(holder(), by=ruled, now=seen.at, windows={WHO: seen})
    assert codes(verdict) == [says]
    assert verdict.action is (Action.WARN if says is Code.TRICKLE else Action.KEEP)
    assert says is Code.TRICKLE or verdict.reasons[0].facts == {"rule": "default"}


@pytest.mark.parametrize(("percent", "says"), [(2.0, Code.IDLE_NOT_LONG), (1.5, Code.TRICKLE)])
def test_as_much_as_the_limit_of_the_mean_is_no_trickle(percent: float, says: Code) -> None:
    """Only less is."""
    seen = pulsed(8, every=1, percent=percent)
    ruled = replace(WITH, idle=rule(lasting="9h").idle)
    assert codes(verdict_on(holder(), by=ruled, now=seen.at, windows={WHO: seen})) == [says]


def test_at_the_limit_of_either_time_it_is_due() -> None:
    """Seen for exactly so long it is a trickle; idle for exactly the limit it is that, and no trickle any more."""
    assert codes(said(pulsed(6), WITH)) == [Code.TRICKLE]
    seen = pulsed(8, every=1, percent=1.5)
    ruled = replace(WITH, idle=rule(lasting="8h").idle)
    assert codes(verdict_on(holder(), by=ruled, now=seen.at, windows={WHO: seen})) == [Code.IDLE_TOO_LONG]


def test_who_is_over_the_limit_is_not_remarked_on_as_well() -> None:
    """Its pauses are longer than the limit: it is idle too long, and that is all."""
    seen, windows = pulsed(8), {WHO: pulsed(8)}
    for step in range(1, 26):
        windows = dict(push(windows, (holder(),), seen.at + step * STEP, STEP))
    now = windows[WHO].at
    for lasting, says in (("20m", [Code.IDLE_TOO_LONG]), ("30m", [Code.IDLE_NOT_LONG, Code.POSSIBLE_KEEP_ALIVE])):
        assert codes(verdict_on(holder(), by=rule(lasting=lasting), now=now, windows=windows)) == says


@pytest.mark.parametrize("ruled", [rule(lasting="2h"), WITH], ids=["remarked", "due"])
def test_work_on_the_cpu_is_a_use_unless_the_rule_is_about_it(ruled: Rule) -> None:
    """A loop that feeds the GPU a little is no trickle; where the rule names its state, that is what it measures."""
    seen = replace(pulsed(8), busy_at=pulsed(8).at)
    held = replace(holder(compute=40.0), refined=OwnerState.INPUT_BOUND)
    of_a_pulse = {Code.POSSIBLE_KEEP_ALIVE, Code.TRICKLE}
    for match, is_told in ((Match(), False), (Match(state=OwnerState.INPUT_BOUND), True)):
        by = policy(replace(ruled, name="loops", match=match), rule())
        verdict = verdict_on(held, by=by, now=seen.at, windows={WHO: seen})
        assert bool(of_a_pulse & set(codes(verdict))) is is_told


def test_on_trial_a_trickle_is_at_the_first_rung() -> None:
    """Nothing tells since when it has been one."""
    trial = replace(WITH, name="trial", observe=True, ladder=rungs("warn", ("shutdown", "1s")))
    verdict = verdict_on(holder(compute=40.0), by=policy(trial, rule()), now=pulsed(8).at, windows={WHO: pulsed(8)})
    assert [r.facts["would"] for r in verdict.reasons if r.code is Code.RULE_OBSERVES] == ["warn"]


def test_a_trickle_for_which_no_rung_is_left_is_only_said() -> None:
    """A cell runs, and the ladder has no warning."""
    verdict = said(pulsed(8), replace(WITH, ladder=rungs("release")), OwnerState.EXECUTING)
    assert (verdict.action, verdict.next_action, verdict.stage) == (Action.KEEP, None, None)
    assert codes(verdict) == [Code.TRICKLE, Code.STATE_WARNS_ONLY, Code.LADDER_DONE]


def test_a_running_cell_is_only_warned_of_a_trickle() -> None:
    """As of idleness: unless the rule names the state."""
    verdict = said(pulsed(8), WITH, OwnerState.EXECUTING)
    assert (verdict.action, verdict.next_action) == (Action.WARN, None)
    assert Code.STATE_WARNS_ONLY in codes(verdict)
    named = replace(WITH, states={OwnerState.EXECUTING: timedelta(hours=9)})
    assert said(pulsed(8), named, OwnerState.EXECUTING).next_action is Action.SHUTDOWN


def test_the_record_of_days_stays_small() -> None:
    """A steady load for a week keeps three days in steps of ten minutes."""
    windows: Windows = {}
    for step in range(7 * 24 * 12):
        windows = push(windows, (holder(compute=30.0),), step * 300.0, 300.0)
    window = windows[WHO]
    assert len(window.stretches) <= LONGEST / STRIDE + 1
    assert window.mean_over(2 * 86_400.0) == pytest.approx(30)
    assert window.mean_over(7 * 86_400.0) is None


@steady
@given(
    computes=st.lists(st.floats(0, 100), min_size=30, max_size=90),
    steps=st.lists(st.sampled_from([5.0, 7.0, 60.0, 200.0]), min_size=90, max_size=90),
)
def test_the_mean_is_that_of_all_that_was_seen(computes: list[float], steps: list[float]) -> None:
    """Over the whole Window it is exact; over a part it lies between the lowest and the highest there."""
    windows: Windows = {}
    now, work = 0.0, 0.0
    for number, compute in enumerate(computes):
        if number:
            now += steps[number]
            work += compute * steps[number]
        windows = push(windows, (holder(compute=compute),), now, 1000.0)
    window = windows[WHO]
    assert window.mean_over(now) == pytest.approx(work / now)
    part = window.mean_over(now / 3)
    assert part is not None
    assert min(computes[1:]) - 1e-6 <= part <= max(computes[1:]) + 1e-6
    assert window.mean_over(now + 1) is None
