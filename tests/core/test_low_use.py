"""Much memory and little compute, for good reasons: little is not none, and the policy says how little is none."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from jupyter_gpu_guard.core.policy import Action, Exemption, Match

from .build import GIB, NOON, lease, policy, rule
from .drive import acts, drive
from .films import Look, Moment, film

HOURS = 720  # pictures in an hour, five seconds apart


def pulses(percent: float, count: int) -> list[Moment]:
    """A kernel with 120 GiB that computes at `percent` for one second in ten, as a mean over five seconds."""
    return [Moment({"a": Look(120 * GIB, (percent / 5 if number % 2 else 0.0,))}) for number in range(count)]


@pytest.mark.parametrize("below", [0.1, 0.25])
def test_work_above_the_floor_protects_however_little(below: float) -> None:
    """Three percent for a second in ten is 0.3 % of a minute, and above a floor of less than that."""
    ticks = drive(film(pulses(3.0, 9 * HOURS)), policy(rule(compute_below=below)))
    assert acts(ticks, Action.WARN) == []


def test_the_same_work_below_the_floor_is_idle() -> None:
    """Whatever the size of the memory: the policy draws the line."""
    ticks = drive(film(pulses(3.0, 3 * HOURS)), policy(rule(compute_below=1.0)))
    assert len(acts(ticks, Action.SHUTDOWN)) == 1


def test_an_exemption_with_an_end_protects_until_then() -> None:
    """It is warned after that, and ended a whole notice later, not before."""
    until = 4 * 3600.0
    exempt = Exemption(Match(notebook="a.ipynb"), NOON + timedelta(seconds=until), "rebuttal runs")
    ticks = drive(film(pulses(0.0, 6 * HOURS), begin_at=0), replace(policy(rule()), exemptions=(exempt,)))
    (warned,), (ended,) = acts(ticks, Action.WARN), acts(ticks, Action.SHUTDOWN)
    assert until < warned.begun.monotonic <= until + 5
    assert warned.begun.monotonic + 15 * 60 <= ended.begun.monotonic <= warned.begun.monotonic + 15 * 60 + 5


def test_a_lease_with_an_end_protects_until_then() -> None:
    """A person's own word does the same."""
    until = 4 * 3600.0
    ticks = drive(film(pulses(0.0, 6 * HOURS), begin_at=0), policy(rule()), leases=[lease(until)])
    assert [act.begun.monotonic for act in acts(ticks, Action.SHUTDOWN)] >= [until + 15 * 60]
    assert min(act.begun.monotonic for act in acts(ticks, Action.WARN)) >= until
