"""Budgets: what counts, for whom, and what follows once they are used up."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gpu_guard.core.budget import Account, Amount, Budget, Measure, Per
from jupyter_gpu_guard.core.judge import Bench, judge
from jupyter_gpu_guard.core.ledger import Case, Ledger
from jupyter_gpu_guard.core.model import Holder, OwnerKey, OwnerKind
from jupyter_gpu_guard.core.policy import Action, Around, Exemption, Match, Policy, Rule, Site
from jupyter_gpu_guard.core.verdict import Code, Lease, Verdict
from tests.core.build import NOON, at, codes, device, holder, lease, policy, rule, steady, window

STUDENT = Site("ada", frozenset({"students", "lab-a", "lab-b"}))
WEEK = timedelta(days=7)
NOW = 100_000.0
TIGHT = rule("used-up", lasting="10m", match=Match(user="nobody at all"))
USUAL = rule("default", lasting="2h")


def budget(
    name: str = "week",
    *,
    limit: float = 40.0,
    then: str = "used-up",
    per: Per = Per.USER,
    match: Match | None = None,
) -> Budget:
    """A budget over a week."""
    return Budget(name, Measure.IDLE_GIB_HOURS, limit, WEEK, then, per, match or Match())


def ruled(*budgets: Budget, rules: tuple[Rule, ...] = (TIGHT, USUAL)) -> Policy:
    """A policy with budgets."""
    return replace(policy(*rules), budgets=budgets)


def used(by_name: dict[str, float], whose: str = "user") -> dict[Account, Amount]:
    """What was used of each budget."""
    return {Account(name, Measure.IDLE_GIB_HOURS, whose): Amount(amount) for name, amount in by_name.items()}


def said(
    by: Policy,
    spent: dict[Account, Amount],
    idle: str = "30m",
    *,
    case: Case | None = None,
    leased: Lease | None = None,
    held: Holder | None = None,
    now: float = NOW,
) -> Verdict:
    """What is said about a student's kernel that was idle for so long."""
    held = held or holder()
    key = held.owner.key
    bench = Bench(
        policy=by,
        windows={key: window(idle, now=now)},
        leases={} if leased is None else {key: leased},
        ledger=Ledger() if case is None else Ledger({key: case}),
        devices={"gpu-0": device()},
        now=at(now),
        site=STUDENT,
        spending=spent,
    )
    (verdict,) = judge((held,), bench)
    return verdict


# ---- which rule decides ----


def test_a_budget_that_is_used_up_brings_its_rule() -> None:
    """From the limit on, and not before; and it says so, with the rule that would have decided."""
    below, over = said(ruled(budget()), used({"week": 39.99})), said(ruled(budget()), used({"week": 40.0}))
    assert (below.rule, below.action) == ("default", Action.KEEP)
    assert Code.OVER_BUDGET not in codes(below)
    assert (over.rule, over.action, over.next_action) == ("used-up", Action.WARN, Action.SHUTDOWN)
    (reason,) = (each for each in over.reasons if each.code is Code.OVER_BUDGET)
    assert reason.facts == {
        "budget": "week",
        "rule": "used-up",
        "instead_of": "default",
        "measure": "idle_gib_hours",
        "per": "user",
        "used": 40.0,
        "limit": 40.0,
        "window_seconds": 604_800.0,
    }


def test_only_what_it_matches_is_judged_by_its_rule() -> None:
    """Whatever else the same user has."""
    narrow = ruled(budget(match=Match(notebook="big/*")))
    assert said(narrow, used({"week": 99})).rule == "default"
    big = holder()
    big = replace(big, owner=replace(big.owner, notebook="big/a.ipynb"))
    assert said(narrow, used({"week": 99}), held=big).rule == "used-up"


@pytest.mark.parametrize(
    ("spent", "rule_name"),
    [
        ({"site": 10, "user": 10}, "site-rule"),
        ({"site": 9, "user": 10}, "used-up"),
        ({"site": 9, "user": 9}, "default"),
    ],
)
def test_of_several_the_first_in_order_that_is_used_up_decides(spent: dict[str, float], rule_name: str) -> None:
    """A hierarchy from the site down to the user."""
    by = ruled(
        budget("site", limit=10, then="site-rule"),
        budget("user", limit=10),
        rules=(rule("site-rule", match=Match(user="nobody at all")), TIGHT, USUAL),
    )
    assert said(by, used(spent)).rule == rule_name


def test_a_group_is_any_that_the_condition_allows() -> None:
    """Of several groups of a user, the one that has used most counts."""
    by = ruled(budget(per=Per.GROUP, match=Match(group="lab-*")))
    assert said(by, used({"week": 99}, "group:students")).rule == "default"
    assert said(by, {**used({"week": 1}, "group:lab-a"), **used({"week": 99}, "group:lab-b")}).rule == "used-up"


def test_a_kernel_has_an_account_of_its_own() -> None:
    """What another one has used does not count."""
    by = ruled(budget(per=Per.KERNEL))
    assert said(by, used({"week": 99}, "kernel:a")).rule == "used-up"
    assert said(by, used({"week": 99}, "kernel:b")).rule == "default"


# ---- what still holds ----


def test_what_a_rule_keeps_is_kept() -> None:
    """If that rule would have decided; one that stands behind another does not decide here either."""
    keeps = rule("lectures", keep=True)
    assert codes(said(ruled(budget(), rules=(keeps, TIGHT, USUAL)), used({"week": 99}), "9h")) == [Code.RULE_KEEPS]
    behind = ruled(budget(), rules=(rule("first"), keeps, TIGHT, USUAL))
    assert said(behind, used({"week": 99}), "9h").action is Action.WARN


def test_leases_and_exemptions_hold() -> None:
    """To their last second, whatever was used."""
    assert said(ruled(budget()), used({"week": 99}), "9h", leased=lease(NOW)).reasons[0].code is Code.LEASED
    exempt = replace(ruled(budget()), exemptions=(Exemption(Match(), NOON + timedelta(seconds=NOW), "rebuttal"),))
    assert said(exempt, used({"week": 99}), "9h").reasons[0].code is Code.EXEMPT


def test_a_deadline_that_was_shown_never_comes_closer() -> None:
    """When a budget is used up after a warning, the case moves to the budget's rule with its deadline."""
    key = OwnerKey(OwnerKind.KERNEL, "a")
    root = holder().owner.root
    warned = Case(key, root, "default", NOW - 60, stages_done=1, warned_at=NOW - 60, deadline=NOW + 3000)
    verdict = said(ruled(budget()), used({"week": 99}), "3h", case=warned)
    assert (verdict.rule, verdict.action, verdict.deadline) == ("used-up", Action.KEEP, NOW + 3000)


def test_the_rules_that_were_passed_over_are_those_before_the_one_in_order() -> None:
    """With what does not hold of each; the budget's own rule may stand anywhere."""
    rules = (rule("lectures", match=Match(notebook="lectures/*", user="bob")), USUAL)
    by = ruled(budget(), rules=(rules[0], replace(USUAL, name="usual"), TIGHT, USUAL))
    around = Around({"gpu-0": device()}, NOON, STUDENT, used({"week": 99}))
    assert by.rule_for(holder(), around).name == "used-up"
    assert {name: set(parts) for name, parts in by.passed_over(holder(), around).items()} == {
        "lectures": {"notebook", "user"}
    }


def test_a_rule_that_is_not_there_changes_nothing() -> None:
    """A policy that no file could make: the rules decide as if there were no such budget."""
    assert said(ruled(budget(then="gone")), used({"week": 99})).rule == "default"


# ---- whatever happens ----

IDLES = st.integers(0, 5 * 3600).map(lambda s: f"{s}s")
SPENT = st.floats(0, 100)
STATES = st.sampled_from(["none", "warned lately", "warned long ago"])


def _case(word: str) -> Case | None:
    ago = {"none": None, "warned lately": 60.0, "warned long ago": 7200.0}[word]
    if ago is None:
        return None
    key = OwnerKey(OwnerKind.KERNEL, "a")
    return Case(key, holder().owner.root, "used-up", NOW - ago, stages_done=1, warned_at=NOW - ago)


@settings(steady)
@given(IDLES, SPENT, SPENT, STATES)
def test_a_budget_ends_nothing_that_its_rule_would_not(idle: str, spent: float, limit: float, word: str) -> None:
    """Whatever was used: what is lost would be lost by that rule, or by the one that decides without budgets."""
    limit = max(limit, 0.1)
    case = _case(word)
    verdict = said(ruled(budget(limit=limit)), used({"week": spent}), idle, case=case)
    alone = said(policy(replace(TIGHT, match=Match()), USUAL), {}, idle, case=case)
    without = said(policy(USUAL), {}, idle, case=case)
    if verdict.action.loses_work:
        assert (alone if spent >= limit else without).action.loses_work
    expected = alone if spent >= limit else without
    assert (verdict.action, verdict.deadline, verdict.rule) == (expected.action, expected.deadline, expected.rule)


@settings(steady)
@given(IDLES, SPENT, SPENT, st.floats(0, 100), STATES)
def test_more_limit_never_hurries(idle: str, spent: float, limit: float, more: float, word: str) -> None:
    """With a rule that is the stricter one, a larger limit loses nothing that a smaller one does not."""
    limit, case = max(limit, 0.1), _case(word)
    small = said(ruled(budget(limit=limit)), used({"week": spent}), idle, case=case)
    large = said(ruled(budget(limit=limit + more)), used({"week": spent}), idle, case=case)
    assert small.action.loses_work or not large.action.loses_work
    if small.deadline is not None and large.deadline is not None and small.action is large.action:
        assert large.deadline >= small.deadline


@settings(steady)
@given(st.permutations(["a", "b", "c"]), st.sets(st.sampled_from(["a", "b", "c"]), min_size=1))
def test_order_is_the_only_order_that_matters(order: list[str], over: set[str]) -> None:
    """The first in the policy that is used up, whatever order the amounts are known in."""
    rules = tuple(rule(f"rule-{name}", match=Match(user="nobody at all")) for name in "abc")
    by = ruled(*(budget(name, then=f"rule-{name}") for name in order), rules=(*rules, USUAL))
    first = next(name for name in order if name in over)
    assert said(by, used(dict.fromkeys(over, 41.0))).rule == f"rule-{first}"


def test_who_is_in_no_account_has_used_nothing() -> None:
    """A budget of groups, and a user without any."""
    groups = budget(per=Per.GROUP)
    assert groups.accounts(holder().owner.key, Site("ada")) == ()
    assert groups.used(holder().owner.key, Site("ada"), used({"week": 9.0}, "group:students")) == Amount(0.0, 0.0)
