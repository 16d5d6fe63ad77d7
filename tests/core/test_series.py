"""A series goes the short way to the very same acts as point by point, and ended means ended."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpu_guard.core.calendars import Calendar, Hours
from jupyter_gpu_guard.core.model import OwnerState, Reading, Unknown, Why
from jupyter_gpu_guard.core.policy import DEFAULT_RULE, Action, Exemption, Match, Policy, Rule, Site, Stage, Trickle
from jupyter_gpu_guard.core.series import EPOCH, Point, SeriesSimulation, is_thought_of, is_timeless
from jupyter_gpu_guard.core.tally import Tally

from .build import GIB, policy, rule, steadily

LONGEST_SPAN = 12.0
SECOND_MINUTE = Calendar("second minute", timezone.utc, (Hours(frozenset(range(7)), start=2, end=3),))
MISSING = Unknown(Why.NOT_AVAILABLE)
IDLE, CELL = OwnerState.IDLE, OwnerState.EXECUTING
STATES = (OwnerState.IDLE, OwnerState.EXECUTING, OwnerState.WAITING, OwnerState.BREAKPOINT, OwnerState.UNKNOWN)

# Around the thresholds below, and where a Window rounds up.
readings: st.SearchStrategy[Reading] = st.one_of(
    st.sampled_from([0.0, 0.0, 4.95, 4.96, 6.0, 80.0, MISSING]), st.floats(0, 100)
)
memories: st.SearchStrategy[Reading] = st.sampled_from([12 * GIB, 12 * GIB, 2 * GIB, 0.25 * GIB, 0.0, MISSING])
states = st.sampled_from([OwnerState.IDLE, *STATES])


@st.composite
def series(draw: st.DrawFn) -> list[Point]:
    """Stretches of a few looks that come back, so that limits are reached again and again; now and then a gap."""
    looks = draw(st.lists(st.tuples(readings, memories, states), min_size=1, max_size=4))
    at, points = 100.0, list[Point]()
    for _ in range(draw(st.integers(1, 12))):
        look, step = draw(st.sampled_from(looks)), draw(st.sampled_from([5.0, 5.1, 12.0]))
        at += draw(st.sampled_from([0.0, 0.0, 0.0, 30.0]))
        for _ in range(draw(st.integers(1, 20))):
            at += step
            points.append(Point(at, *look))
    return points


@st.composite
def rules(draw: st.DrawFn, name: str) -> Rule:
    """A rule of seconds, as a policy file could have it."""
    notice = draw(st.sampled_from(["5s", "20s"]))
    late = Stage(Action.SHUTDOWN, rule(notice=notice).notice)
    ladders = [(Stage(Action.WARN), late), (Stage(Action.WARN),), (Stage(Action.WARN), Stage(Action.WARN, late.after))]
    match = Match(
        state=draw(st.sampled_from([None, *STATES])),
        memory_above=draw(st.sampled_from([None, None, GIB])),
        during=draw(st.sampled_from([None, None, SECOND_MINUTE])),
    )
    made = rule(
        name,
        lasting=draw(st.sampled_from(["10s", "30s", "47s", None])),
        notice=notice,
        ladder=draw(st.sampled_from(ladders)),
        compute_below=draw(st.sampled_from([4.97, 5.0, 10.0])),
        memory_above=draw(st.sampled_from(["1B", "512MiB", "6GiB"])),
        match=match if name != DEFAULT_RULE else Match(),
    )
    made = replace(made, states=draw(st.sampled_from([{}, {}, {CELL: timedelta(seconds=20)}, {IDLE: None}])))
    if name == DEFAULT_RULE or draw(st.integers(0, 5)):
        return replace(made, observe=name != DEFAULT_RULE and draw(st.integers(0, 5)) == 0)
    return Rule(name, made.match, keep=True)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Up to three rules and a catch-all."""
    names = ["one", "two", "three"][: draw(st.integers(0, 3))]
    made = policy(*(draw(rules(name)) for name in (*names, DEFAULT_RULE)))
    spared = Exemption(Match(state=draw(st.sampled_from([None, *STATES]))), EPOCH + timedelta(seconds=200), "a paper")
    return replace(made, exemptions=(spared,) if draw(st.integers(0, 5)) == 0 else ())


def simulated(points: list[Point], ruled: Policy, *, short: bool = True) -> SeriesSimulation:
    """The whole series, seen."""
    simulation = SeriesSimulation("a.ipynb", ruled, LONGEST_SPAN, short=short)
    for point in points:
        simulation.see(point)
    return simulation


def told(simulation: SeriesSimulation) -> list[object]:
    """What was done: when, and the whole verdict."""
    return [(act.outcome.at, act.verdict) for act in simulation.acts]


@steadily(400)
@given(series(), policies())
def test_the_short_way_leads_to_the_same(points: list[Point], ruled: Policy) -> None:
    """The same acts at the same points with the same verdicts, and the same sums, as when each point is judged."""
    assert is_thought_of(ruled)
    short, long = (simulated(points, ruled, short=short) for short in (True, False))
    assert told(short) == told(long)
    assert asdict(short.tally) == asdict(long.tally)


@pytest.mark.parametrize("threshold", [4.97, 5.0])
def test_it_rounds_as_a_window_does(threshold: float) -> None:
    """A peak of 4.95 % counts as one of 5.0 %: the clock of either threshold starts after it, in the short way too."""
    points = [Point(5.0 * n, 4.95 if n == 6 else 0.0, 12 * GIB) for n in range(30)]
    ruled = policy(rule(lasting="30s", notice="20s", compute_below=threshold))
    short, long = (simulated(points, ruled, short=short) for short in (True, False))
    assert told(short) == told(long)
    assert short.acts[0].verdict.idle_for == 30.0
    assert short.acts[0].outcome.at.timestamp() == 35.0 + 30.0


def test_every_threshold_has_a_clock_of_its_own() -> None:
    """Compute of 7 % is idle for the rule of 10 %, and none for that of 5 %."""
    points = [Point(5.0 * n, 7.0, 12 * GIB, OwnerState.IDLE if n > 20 else CELL) for n in range(60)]
    high = rule("high", lasting="30s", notice="20s", compute_below=10, match=Match(state=OwnerState.IDLE))
    low = rule(lasting="30s", notice="20s", compute_below=5)
    for rules_, ended in (((high, low), 1), ((low,), 0)):
        short, long = (simulated(points, policy(*rules_), short=short) for short in (True, False))
        assert told(short) == told(long)
        assert len(short.tally.ended) == ended


def test_compute_between_two_thresholds_closes_what_it_should() -> None:
    """Compute of 7 % is use for the rule of 5 %, whatever another rule says of it: idle again, it is warned again."""
    shares = [0.0] * 20 + [7.0] * 20 + [0.0] * 20
    points = [Point(5.0 * n, share, 12 * GIB) for n, share in enumerate(shares)]
    high = rule("high", lasting="30s", compute_below=10, match=Match(state=OwnerState.WAITING))
    ruled = policy(high, rule(lasting="30s", compute_below=5, ladder=(Stage(Action.WARN),)))
    short, long = (simulated(points, ruled, short=short) for short in (True, False))
    assert told(short) == told(long)
    assert len(short.acts) == 2


def test_memory_between_two_thresholds_is_little_only_for_one() -> None:
    """What held little, and holds more now, is judged by the rule that matches, whatever another asks for."""
    points = [Point(5.0 * n, 0.0, (0.25 if n < 20 else 2) * GIB) for n in range(40)]
    high = rule("high", lasting="30s", memory_above="6GiB", match=Match(state=OwnerState.WAITING))
    ruled = policy(high, rule(lasting="30s", ladder=(Stage(Action.WARN),)))
    short, long = (simulated(points, ruled, short=short) for short in (True, False))
    assert told(short) == told(long)
    assert [act.outcome.at.timestamp() for act in short.acts] == [100.0]


def test_after_a_gap_a_warning_comes_again() -> None:
    """What was warned and is not to be ended is warned anew when it is idle for long enough after a gap."""
    first = [Point(5.0 * n, 0.0, 12 * GIB) for n in range(20)]
    points = [*first, *(point._replace(at=point.at + 500) for point in first)]
    ruled = policy(rule(lasting="30s", ladder=(Stage(Action.WARN),)))
    short, long = (simulated(points, ruled, short=short) for short in (True, False))
    assert told(short) == told(long)
    assert [act.outcome.at.timestamp() for act in short.acts] == [30.0, 530.0]


def test_the_property_meets_acts() -> None:
    """What the property compares is not always nothing: an idle series is warned and ended in either way."""
    points = [Point(5.0 * n, 0.0, 12 * GIB) for n in range(40)]
    for short in (True, False):
        acts = simulated(points, policy(rule(lasting="30s", notice="20s")), short=short).acts
        assert [act.verdict.action for act in acts] == [Action.WARN, Action.SHUTDOWN]


def story(*parts: tuple[int, float, OwnerState], memory: Reading = 2 * GIB) -> list[Point]:
    """So many points of so much compute in this state, ten seconds apart."""
    rows = [(compute, state) for count, compute, state in parts for _ in range(count)]
    return [Point(10.0 * n, compute, memory, state) for n, (compute, state) in enumerate(rows)]


MINUTE_AND_TEN = policy(rule(lasting="1m", notice="10s", compute_below=5))


def sums(points: list[Point], ruled: Policy = MINUTE_AND_TEN) -> Tally:
    """The sums of the series."""
    return simulated(points, ruled).tally


def test_what_is_seen_after_an_end_is_given_back_or_missed() -> None:
    """Idle time from the end on is given back, and the compute that comes later would have been lost."""
    tally = sums(story((30, 0.0, IDLE), (6, 90.0, CELL), (30, 0.0, IDLE)))
    (ended,) = tally.ended
    assert (ended.monotonic, ended.idle_seconds, ended.rule) == (70.0, 70.0, DEFAULT_RULE)
    assert ended.back_after == 300.0 - 70.0
    assert ended.after.computing_gpu_seconds == 60.0
    assert ended.after.idle_gpu_seconds == (290.0 - 70.0) + 300.0
    assert ended.after.idle_byte_seconds == ended.after.idle_gpu_seconds * 2 * GIB
    assert tally.regretted(within=230.0) == [ended]
    assert tally.regretted(within=229.0) == []
    assert (tally.warned, tally.holders, tally.readings) == (1, 1, 66)


def test_ended_once_is_ended() -> None:
    """A series is ended at most once, however long it stays idle afterwards and whatever it does."""
    assert len(sums(story((30, 0.0, IDLE), (6, 90.0, CELL), (300, 0.0, IDLE))).ended) == 1


def test_a_cell_that_runs_spares() -> None:
    """While a cell runs without compute, there is a warning and no end; without knowledge of it, there would be one."""
    asleep = story((60, 0.0, CELL))
    assert (sums(asleep).warned, sums(asleep).ended) == (1, [])
    assert len(sums([point._replace(state=IDLE) for point in asleep]).ended) == 1


def test_the_end_of_a_cell_starts_the_clock() -> None:
    """However little a cell computed, the idle time begins with its end."""
    (ended,) = sums(story((5, 0.0, IDLE), (20, 0.0, CELL), (60, 0.0, IDLE))).ended
    assert ended.idle_seconds == 70.0
    assert ended.monotonic == 250.0 + 70.0


def test_unknown_counts_nowhere() -> None:
    """Neither as idle nor as given back, and nothing is ended on it."""
    unknown = [Point(10.0 * n, MISSING, 2 * GIB) for n in range(100)]
    assert sums(unknown).held.gpu_seconds == 0
    assert sums(unknown).ended == []


def test_a_gap_counts_nowhere() -> None:
    """A hole in the series is not idle time: the clock starts anew after it, and the hole itself is not held time."""
    points = story((4, 0.0, IDLE)) + [point._replace(at=point.at + 5000) for point in story((4, 0.0, IDLE))]
    assert sums(points).ended == []
    assert sums(points).held.gpu_seconds == 60.0


def test_what_was_not_thought_of_is_judged_point_by_point() -> None:
    """The short way is only for what it was made for; a new kind of limit sends a policy the long way."""

    @dataclass(frozen=True)
    class Strange(Rule):
        sooner_at: str | None = None

    assert is_thought_of(Policy())
    assert is_thought_of(policy(rule("a", match=Match(state=CELL, during=SECOND_MINUTE)), rule()))
    assert is_thought_of(policy(Strange("a"), rule()))
    assert not is_thought_of(policy(Strange("a", sooner_at="full moon"), rule()))
    assert not is_thought_of(policy(replace(rule(), trickle=Trickle())))


def test_conditions_may_depend_on_time() -> None:
    """Whether a rule decides for ever is told from its conditions, and an exemption has an end."""
    assert is_timeless(policy(rule("a", match=Match(state=CELL, notebook="b/**", group="students")), rule()))
    assert not is_timeless(policy(rule("a", match=Match(during=SECOND_MINUTE)), rule()))
    assert not is_timeless(policy(rule("a", match=Match(memory_above=GIB)), rule()))
    assert not is_timeless(replace(policy(), exemptions=(Exemption(Match(), EPOCH, ""),)))


def test_rules_for_people_hold_for_theirs() -> None:
    """A rule for a group decides where the site is one of its members."""
    ruled = policy(rule("students", lasting="30s", notice="20s", match=Match(group="students")), rule())
    points = story((30, 0.0, IDLE))
    for site, ended in ((Site(), 0), (Site("ada", frozenset({"students"})), 1)):
        simulation = SeriesSimulation("a.ipynb", ruled, LONGEST_SPAN, site=site)
        for point in points:
            simulation.see(point)
        assert len(simulation.tally.ended) == ended
