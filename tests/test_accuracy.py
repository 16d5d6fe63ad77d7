"""The accuracy benchmark counts what it says, and the figures in the documentation are its own."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import mean, median

import pytest

from benchmarks.accuracy import DATA, RULES, compare
from benchmarks.foresight import best
from benchmarks.own_pauses import by_own_pauses, pauses_before
from benchmarks.rules import guard, judged, mean_since_start, minutes_idle, no_messages, one_reading
from benchmarks.score import Parking, Score, score
from benchmarks.sessions import GIB, HOUR, MINUTE, Kind, Session, Span, made_up, recorded
from jupyter_gpu_guard.core.policy import Policy

PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"
COMPUTE, ASLEEP, REST = Kind.COMPUTE, Kind.ASLEEP, Kind.REST
HALF_AN_HOUR = timedelta(minutes=30)


def session(*parts: tuple[float, Kind], name: str = "a", began: float = 0.0) -> Session:
    """So many minutes of each kind, one after the other."""
    spans, at = [], 0.0
    for minutes, kind in parts:
        end = at + 60 * minutes
        spans.append(Span(at, end, kind, 80.0 if kind is COMPUTE else 0.0, 8 * GIB))
        at = end
    return Session(name, "anna", began, tuple(spans))


@cache
def compared() -> dict[str, Score]:
    """Every rule over the recorded notebooks that are here."""
    return compare(recorded(DATA))


def test_the_documented_figures_are_those_of_the_command() -> None:
    """Each row of the table: ended, came back, lost hours, reclaimed hours."""
    rows = re.findall(
        r"^\| ([^|]+) \| (\d+) \| (\d+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE.read_text("utf-8"), re.MULTILINE
    )
    said = {name.strip(): tuple(figures) for name, *figures in rows}
    assert said == {
        name: (str(s.ended), str(s.came_back), f"{s.lost_hours:.1f}", f"{s.reclaimed_hours:.1f}")
        for name, s in compared().items()
    }


def test_made_up_sessions_have_the_published_spread() -> None:
    """Mean 10.5 %, median 1.5 %, 34.5 % without any compute; 65 of 100 idle periods are pauses."""
    sessions = made_up(3000)
    levels = [sum(s.percent * (s.end - s.begin) for s in each.spans) / each.spans[-1].end for each in sessions]
    assert mean(levels) == pytest.approx(10.5, abs=1)
    assert median(levels) == pytest.approx(1.5, abs=0.3)
    assert sum(level == 0 for level in levels) / len(levels) == pytest.approx(0.345, abs=0.02)
    computing = [each for each in sessions if any(not s.is_idle for s in each.spans)]
    pauses = sum(sum(s.is_idle for s in each.spans[:-1]) for each in computing)
    lasts = sum(each.spans[-1].is_idle for each in computing)
    assert pauses / (pauses + lasts) == pytest.approx(0.65, abs=0.05)
    assert made_up(5) == sessions[:5]


def test_a_hole_is_rest_and_a_low_sample_is_a_cell_that_sleeps() -> None:
    """Of the recorded notebooks here as many hours are idle as lie in both."""
    sessions = recorded(DATA)
    assert len(sessions) == 8
    hours = {kind: sum(s.end - s.begin for each in sessions for s in each.spans if s.kind is kind) for kind in Kind}
    assert (hours[REST] + hours[ASLEEP]) / HOUR == pytest.approx(23.5, abs=0.05)
    assert all(before.end == after.begin for each in sessions for before, after in pairwise(each.spans))


def test_each_rule_ends_where_it_says() -> None:
    """An hour of compute, forty minutes of a sleeping cell, three hours of rest, and a minute of compute at last."""
    a = session((60, COMPUTE), (40, ASLEEP), (180, REST), (1, COMPUTE))
    assert one_reading(a) == 61 * MINUTE
    assert minutes_idle(30)(a) == 90 * MINUTE
    assert minutes_idle(120)(a) == 180 * MINUTE
    assert mean_since_start(a) is None  # 60 minutes of 80 % are more than 5 % of all of it
    assert mean_since_start(session((45, REST), (60, COMPUTE))) == 30 * MINUTE
    assert no_messages(1)(a) == 160 * MINUTE
    assert judged(Policy(), states=True)(a) == pytest.approx((100 + 135) * MINUTE, abs=MINUTE)
    assert judged(Policy(), states=False)(a) == pytest.approx((60 + 135) * MINUTE, abs=MINUTE)
    assert guard(HALF_AN_HOUR, states=True)(session((60, COMPUTE), (40, ASLEEP), (30, REST), (9, COMPUTE))) is None


def test_a_score_adds_up() -> None:
    """What lies after the end: idle is reclaimed, compute is lost, and whoever computes came back."""
    total = Score()
    total.add(session((60, REST), (30, COMPUTE), (60, REST)), 30 * MINUTE)
    total.add(session((60, REST)), 30 * MINUTE)
    total.add(session((60, REST)), None)
    assert (total.ended, total.came_back, total.lost_hours, total.reclaimed_hours) == (2, 1, 0.5, 2.0)


def test_parked_memory_is_given_back_until_it_is_needed() -> None:
    """Beyond the limit in each stretch, up to an end; a cell that sleeps counts only if that is asked for."""
    a = session((30, REST), (10, COMPUTE), (30, ASLEEP), (20, REST))
    at_rest, always = Parking(15 * MINUTE), Parking(15 * MINUTE, only_at_rest=False)
    nobody = lambda _: None  # noqa: E731
    assert score([a], nobody, at_rest).without_ending_hours == pytest.approx((15 + 5) / 60)
    assert score([a], nobody, always).without_ending_hours == pytest.approx((15 + 35) / 60)
    assert score([a], lambda _: 20 * MINUTE, always).without_ending_hours == pytest.approx(5 / 60)


def test_foresight_is_a_bound() -> None:
    """No rule that loses as much reclaims more; with nothing to lose, only what nobody comes back to is reclaimed."""
    sessions = recorded(DATA)
    for name in RULES:
        scored = compared()[name]
        assert best(sessions, scored.lost_hours + 1, rest_for=None) >= scored.reclaimed_hours, name
    a = session((60, REST), (30, COMPUTE), (40, ASLEEP), (60, REST))
    assert best([a], 0.0, rest_for=None) == pytest.approx(100 / 60)
    assert best([a], 0.0, rest_for=30 * MINUTE) == pytest.approx(0.5)
    assert best([a], 0.5, rest_for=30 * MINUTE) == pytest.approx((30 + 100) / 60)


def test_who_has_come_back_late_before_is_given_more_time() -> None:
    """Twice the longest pause so far, also that of earlier notebooks of the same owner, and never above two hours."""
    first = session((50, REST), (5, COMPUTE), name="first", began=0)
    second = session((300, REST), name="second", began=9000)
    earlier = pauses_before([second, first])
    assert earlier == {"first": 0.0, "second": 50 * MINUTE}
    assert by_own_pauses(0.5, 2.0, {}, notice=0)(second) == 30 * MINUTE
    assert by_own_pauses(0.5, 2.0, earlier, notice=0)(second) == 100 * MINUTE
    assert by_own_pauses(0.5, 9.0, earlier, notice=0)(second) == 120 * MINUTE
    again = session((20, REST), (5, COMPUTE), (300, REST))
    assert by_own_pauses(0.25, 2.0, {}, notice=0)(again) == 15 * MINUTE
    assert by_own_pauses(0.5, 2.0, {}, notice=0)(again) == (25 + 40) * MINUTE
