"""Rules that end notebook sessions: those of others, and ours, each as the moment of its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from math import ceil

from jupyter_gpu_guard.core.policy import Action, Idle, Policy, Stage
from jupyter_gpu_guard.core.series import SeriesSimulation

from .sessions import HOUR, IDLE_BELOW, MINUTE, STEP, Kind, Session

LOOKS = 5 * MINUTE  # seconds between two looks of Jupyter's culler

Ends = Callable[[Session], "float | None"]
"""When a rule ends a session, in seconds; None: never."""


# --- other rules ----------------------------------------------------------------------------------------------------


def one_reading(session: Session) -> float | None:
    """The first minute below the threshold is the end."""
    return minutes_idle(1)(session)


def minutes_idle(count: int) -> Ends:
    """Every one of so many minutes in a row was below the threshold."""

    def ends(session: Session) -> float | None:
        row = 0
        for number, percent in enumerate(session.minutes(), start=1):
            row = row + 1 if percent < IDLE_BELOW else 0
            if row >= count:
                return number * MINUTE
        return None

    return ends


def mean_since_start(session: Session) -> float | None:
    """After the first half hour: the mean since the start is below the threshold."""
    total = 0.0
    for number, percent in enumerate(session.minutes(), start=1):
        total += percent
        if number >= 30 and total / number < IDLE_BELOW:
            return number * MINUTE
    return None


def no_messages(hours: float) -> Ends:
    """What Jupyter's own culler sees: no cell has run for so long, looked at every five minutes. No tab is open."""

    def ends(session: Session) -> float | None:
        rest = 0.0
        for span in session.spans:
            rest = rest + span.end - span.begin if span.kind is Kind.REST else 0.0
            look = ceil((span.end - rest + hours * HOUR) / LOOKS) * LOOKS
            if span.kind is Kind.REST and look < span.end:
                return look
        return None

    return ends


# --- ours -----------------------------------------------------------------------------------------------------------


def guard(idle_for: timedelta, notice: timedelta = timedelta(minutes=15), *, states: bool) -> Ends:
    """This project's judging code; without `states` it knows nothing of cells."""
    ladder = (Stage(Action.WARN), Stage(Action.SHUTDOWN, notice))
    rule = replace(Policy().rules[-1], idle=Idle(lasting=idle_for), notice=notice, ladder=ladder)
    return judged(Policy(rules=(rule,)), states=states)


def judged(policy: Policy, *, states: bool) -> Ends:
    """When `policy` ends a session."""

    def ends(session: Session) -> float | None:
        simulation = SeriesSimulation(session.name, policy, 2 * STEP)
        for point in session.points(states=states):
            simulation.see(point)
        return simulation.tally.ended[0].monotonic if simulation.tally.ended else None

    return ends


HALF = timedelta(minutes=30)

RULES: dict[str, Ends] = {
    "one reading below 5 %": one_reading,
    "every minute below 5 % for 30 min": minutes_idle(30),
    "every minute below 5 % for 2 h": minutes_idle(120),
    "mean since start below 5 % (after 30 min)": mean_since_start,
    "no message for 1 h (Jupyter's culler, tabs closed)": no_messages(1),
    "ours: defaults (2 h, notice 15 min)": judged(Policy(), states=True),
    "ours: defaults, state of the kernel not known": judged(Policy(), states=False),
    "ours: 30 min, notice 15 min": guard(HALF, states=True),
    "ours: 30 min, notice 15 min, state not known": guard(HALF, states=False),
}
