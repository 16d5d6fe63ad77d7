"""Rules on trial, and limits of their own for what an owner is doing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from jupyter_gpu_guard.core.model import OwnerState
from jupyter_gpu_guard.core.policy import Action, Idle, Match, Rule
from jupyter_gpu_guard.core.verdict import Code

from .build import codes, holder, lease, owner, policy, rule, rungs, verdict_on

TRIAL = replace(rule("trial", lasting="30m"), observe=True)
HOURS = timedelta(hours=1)


@pytest.mark.parametrize(
    ("idle", "would"), [("20m", None), ("31m", "warn"), ("44m", "warn"), ("45m", "shutdown"), ("9h", "shutdown")]
)
def test_a_rule_on_trial_says_what_it_would_do_by_now(idle: str, would: str | None) -> None:
    """The next rule decides, as if the other were not there."""
    usual = policy(rule(lasting="12h"))
    ruled = policy(TRIAL, rule(lasting="12h"))
    verdict, without = verdict_on(holder(), idle, by=ruled), verdict_on(holder(), idle, by=usual)
    trials = [reason.facts for reason in verdict.reasons if reason.code is Code.RULE_OBSERVES]
    assert [(facts["rule"], facts["would"]) for facts in trials] == ([("trial", would)] if would else [])
    kept = tuple(reason for reason in verdict.reasons if reason.code is not Code.RULE_OBSERVES)
    assert replace(verdict, reasons=kept) == without


def test_a_rule_on_trial_says_nothing_about_who_computes() -> None:
    """No clock runs then, in this rule as in any."""
    verdict = verdict_on(holder(compute=60.0), "9h", by=policy(TRIAL, rule()))
    assert codes(verdict) == [Code.COMPUTING]


def test_each_rule_on_trial_before_the_one_that_decides_is_heard() -> None:
    """Those that match, in order; what stands behind the deciding rule is not asked."""
    other = replace(TRIAL, name="other", match=Match(notebook="b.ipynb"))
    late = replace(TRIAL, name="late")
    second = replace(TRIAL, name="second", ladder=rungs("warn"))
    ruled = policy(TRIAL, other, second, rule("decides", lasting="12h"), late, rule())
    verdict = verdict_on(holder(), "9h", by=ruled)
    assert verdict.rule == "decides"
    assert [(r.facts["rule"], r.facts["would"]) for r in verdict.reasons if r.code is Code.RULE_OBSERVES] == [
        ("trial", "shutdown"),
        ("second", "warn"),
    ]


def test_a_rule_on_trial_is_heard_over_one_that_keeps() -> None:
    """To try whether `keep: true` can go, that is what has to be known."""
    verdict = verdict_on(holder(), "9h", by=policy(TRIAL, rule("all", keep=True), rule()))
    assert codes(verdict) == [Code.RULE_KEEPS, Code.RULE_OBSERVES]


def test_what_is_spared_anyway_is_spared_by_a_rule_on_trial() -> None:
    """It would not have ended what somebody keeps."""
    verdict = verdict_on(holder(), "9h", by=policy(TRIAL, rule()), leased=lease(200_000))
    assert codes(verdict) == [Code.LEASED]


WAITING = owner(state=OwnerState.WAITING)


def with_states(**states: timedelta | None) -> Rule:
    """A rule of two hours with these limits for states."""
    return replace(rule(), states={OwnerState(name.replace("_", "-")): limit for name, limit in states.items()})


def test_a_state_may_have_a_limit_of_its_own() -> None:
    """It takes the place of `for`, and the whole ladder holds."""
    ruled = with_states(waiting_for_input=6 * HOURS)
    early, late = (verdict_on(holder(of=WAITING), idle, by=ruled) for idle in ("5h", "7h"))
    assert (early.action, codes(early)) == (Action.KEEP, [Code.IDLE_NOT_LONG])
    assert early.reasons[0].facts["for_seconds"] == 6 * 3600
    assert (late.action, late.next_action) == (Action.WARN, Action.SHUTDOWN)
    assert verdict_on(holder(), "3h", by=ruled).action is Action.WARN


def test_never_in_a_state_means_no_more_than_a_warning() -> None:
    """After `for`, as if nothing had been said; also where `match` names the state."""
    for ruled in (
        with_states(executing=None),
        replace(with_states(executing=None), match=Match(state=OwnerState.EXECUTING)),
    ):
        by = policy(ruled, rule()) if ruled.match != Match() else policy(ruled)
        verdict = verdict_on(holder(of=owner(state=OwnerState.EXECUTING)), "3h", by=by)
        assert (verdict.action, verdict.next_action) == (Action.WARN, None)
        assert Code.STATE_WARNS_ONLY in codes(verdict)


def test_a_state_may_have_a_limit_where_idleness_has_none() -> None:
    """`for: never` is about what has no limit of its own."""
    ruled = replace(with_states(waiting_for_input=6 * HOURS), idle=Idle(lasting=None))
    assert verdict_on(holder(of=WAITING), "7h", by=ruled).action is Action.WARN
    assert codes(verdict_on(holder(), "7h", by=ruled)) == [Code.NEVER]
