"""What counts as used: only what was seen, from one look to the next."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gpu_guard.core.budget import Account, Amount, Budget, Measure, Per
from jupyter_gpu_guard.core.model import Evidence, Holder, Reading, Unknown, Why
from jupyter_gpu_guard.core.policy import Around, Match, Policy, Site
from jupyter_gpu_guard.core.rehearse import Carried, rehearse
from jupyter_gpu_guard.core.usage import HOUR, LONGEST_WINDOW, Hours, Meter, spending, together
from jupyter_gpu_guard.core.verdict import Code
from tests.core.build import GIB, GONE, at, client, holder, owner, policy, process, rule, snapshot, steady

SITE = Site("ada", frozenset({"lab-a", "lab-b"}))
DAY = timedelta(days=1)
SPAN = 10.0


def budget(measure: Measure = Measure.GIB_HOURS, per: Per = Per.USER, match: Match | None = None) -> Budget:
    """A budget over a day."""
    return Budget("day", measure, 1.0, DAY, "default", per, match or Match())


def ruled(*budgets: Budget) -> Policy:
    """A policy with budgets and the usual limits."""
    return replace(policy(), budgets=budgets or (budget(),))


def film(*looks: tuple[float, Holder | None], by: Policy | None = None) -> Amount:
    """What is used by the end of these looks, each at its time with one holder, or none."""
    by, meter = by or ruled(), Meter()
    for when, held in looks:
        around = Around({}, at(when).wall, SITE)
        meter = meter.look(() if held is None else (held,), by, around, at(when), SPAN)
    amounts = spending((meter.usage,), by.budgets, at(looks[-1][0]).wall)
    return sum_of(amounts)


def sum_of(amounts: dict[Account, Amount] | object) -> Amount:
    """All accounts together."""
    assert isinstance(amounts, dict)
    return Amount(sum(a.used for a in amounts.values()), sum(a.unknown_seconds for a in amounts.values()))


# ---- what counts ----


@pytest.mark.parametrize(
    ("measure", "compute", "amount"),
    [
        (Measure.GIB_HOURS, 50.0, 12.0),
        (Measure.IDLE_GIB_HOURS, 50.0, 0.0),
        (Measure.IDLE_GIB_HOURS, 4.9, 12.0),
        (Measure.IDLE_GIB_HOURS, 5.0, 0.0),
        (Measure.GPU_HOURS, 50.0, 1.0),
        (Measure.IDLE_GPU_HOURS, 50.0, 0.0),
        (Measure.IDLE_GPU_HOURS, 0.0, 1.0),
    ],
)
def test_an_hour_of_each_measure(measure: Measure, compute: float, amount: float) -> None:
    """12 GiB on one device for an hour, seen every ten seconds; compute at the limit of the rule is use."""
    held = holder("12GiB", compute)
    looks = [(second * SPAN, held) for second in range(361)]
    assert film(*looks, by=ruled(budget(measure))).used == pytest.approx(amount)


def test_each_device_counts() -> None:
    """One that is listed without memory is not held."""
    two = holder("12GiB", (0.0, 0.0))
    assert film((0, two), (10, two), by=ruled(budget(Measure.GPU_HOURS))).used == pytest.approx(10 / HOUR)
    first, second = two.holdings
    both = replace(two, holdings=(first, replace(second, processes=(replace(second.processes[0], memory=GIB),))))
    assert film((0, both), (10, both), by=ruled(budget(Measure.GPU_HOURS))).used == pytest.approx(20 / HOUR)


def test_the_smaller_of_two_amounts_counts() -> None:
    """What came between the looks may have come at their end, and gone at their beginning."""
    small, large = holder("1GiB"), holder("9GiB")
    assert film((0, small), (10, large)).used == film((0, large), (10, small)).used == pytest.approx(10 / HOUR)


# ---- what does not ----


def test_a_gap_adds_nothing() -> None:
    """Nor does a first look, a clock that stands still or goes back, or a holder that has just come or gone."""
    held = holder()
    for looks in (
        [(0, held)],
        [(0, held), (10.1, held)],
        [(10, held), (10, held)],
        [(10, held), (5, held)],
        [(0, None), (10, held)],
        [(0, held), (10, None), (20, held)],
    ):
        assert film(*looks) == Amount(0.0, 0.0), looks


def test_another_run_is_another_holder() -> None:
    """A kernel that was restarted between the looks begins anew."""
    assert film((0, holder(of=owner("a", 100))), (10, holder(of=owner("a", 200)))) == Amount()


@pytest.mark.parametrize("measure", Measure)
@pytest.mark.parametrize("memory", [GONE, GIB])
@pytest.mark.parametrize("compute", [GONE, 0.0])
def test_what_is_not_known_adds_nothing_and_is_said(measure: Measure, memory: Reading, compute: Reading) -> None:
    """For each measure what it needs; and for how long it was so."""
    held = holder(memory, compute)
    found = film((0, held), (10, held), by=ruled(budget(measure)))
    is_known = memory is not GONE and (compute is not GONE or not measure.is_idle)
    assert (found.used > 0, found.unknown_seconds) == ((True, 0.0) if is_known else (False, 10.0))


def test_a_source_that_did_not_answer_adds_nothing() -> None:
    """Whatever is listed of it."""
    held = replace(holder(), unknown=Unknown(Why.NOT_READ))
    assert film((0, held), (10, held)) == Amount(0.0, 10.0)


def test_an_estimate_adds_nothing_unless_the_rule_trusts_it() -> None:
    """As nothing is ended on one."""
    held = holder()
    rows = tuple(replace(row, evidence=Evidence.ESTIMATE) for row in held.holdings[0].processes)
    held = replace(held, holdings=(replace(held.holdings[0], processes=rows),))
    assert film((0, held), (10, held)) == Amount(0.0, 10.0)
    trusting = replace(policy(replace(rule(), trust_estimates=True)), budgets=(budget(),))
    assert film((0, held), (10, held), by=trusting).used > 0


def test_what_does_not_match_does_not_count() -> None:
    """A budget is about what its condition holds for."""
    held = holder()
    assert film((0, held), (10, held), by=ruled(budget(match=Match(notebook="other/*")))) == Amount()


# ---- for whom ----


@pytest.mark.parametrize(
    ("per", "group", "whose"),
    [
        (Per.USER, None, {"user"}),
        (Per.SITE, None, {"site"}),
        (Per.KERNEL, None, {"kernel:a"}),
        (Per.GROUP, "lab-*", {"group:lab-a", "group:lab-b"}),
        (Per.GROUP, "lab-b", {"group:lab-b"}),
    ],
)
def test_use_is_entered_for_whom_it_counts(per: Per, group: str | None, whose: set[str]) -> None:
    """For each group that the condition allows."""
    by = ruled(budget(per=per, match=Match(group=group)))
    meter = Meter()
    for when in (0.0, 10.0):
        meter = meter.look((holder(),), by, Around({}, at(when).wall, SITE), at(when), SPAN)
    assert {account.whose for account in meter.usage} == whose


def test_an_owner_that_is_gone_leaves_no_account() -> None:
    """Another one may get its name; accounts of people stay."""
    by = ruled(budget(per=Per.KERNEL), replace(budget(), name="mine"))
    meter = Meter()
    for when in (0.0, 10.0):
        meter = meter.look((holder(),), by, Around({}, at(when).wall, SITE), at(when), SPAN)
    assert len(meter.without_those_gone([holder().owner.key], by.budgets).usage) == 2
    assert {account.budget for account in meter.without_those_gone([], by.budgets).usage} == {"mine"}


# ---- over time ----


def test_a_window_rolls() -> None:
    """An hour that began before the window is out of it, and one of the future, after a step of the clock, too."""
    noon = at(0).wall
    hour = int(noon.timestamp() // HOUR)
    hours = Hours({hour - 25: 8.0, hour - 24: 4.0, hour: 2.0, hour + 1: 1.0}, {hour: 30.0})
    assert hours.within(DAY, noon) == Amount(6.0, 30.0)
    assert hours.within(DAY, noon + timedelta(seconds=1)) == Amount(2.0, 30.0)


def test_what_no_window_reaches_is_forgotten() -> None:
    """When a new hour begins."""
    hour = int(at(0).wall.timestamp() // HOUR)
    old = hour - int(LONGEST_WINDOW.total_seconds() // HOUR) - 1
    assert set(Hours({old: 1.0, old + 1: 1.0}).plus(hour, 1.0, 10).used) == {old + 1, hour}


def test_a_budget_by_another_measure_begins_anew() -> None:
    """What was counted in another unit is not compared with its limit."""
    account = Account("day", Measure.GPU_HOURS, "user")
    usage = {account: Hours({int(at(0).wall.timestamp() // HOUR): 7.0})}
    assert spending((usage,), [budget(Measure.GIB_HOURS)], at(0).wall) == {}
    assert spending((usage, usage), [budget(Measure.GPU_HOURS)], at(0).wall) == {account: Amount(14.0)}


def test_usages_add_up() -> None:
    """Account by account, hour by hour."""
    account, other = (Account("day", Measure.GPU_HOURS, whose) for whose in ("user", "site"))
    assert together([{account: Hours({1: 1.0})}, {account: Hours({1: 2.0, 2: 4.0}), other: Hours({}, {3: 5.0})}]) == {
        account: Hours({1: 3.0, 2: 4.0}),
        other: Hours({}, {3: 5.0}),
    }


@settings(steady)
@given(st.lists(st.tuples(st.floats(0, 30), st.sampled_from(["held", "gone", "unknown"])), max_size=30))
def test_time_that_was_not_seen_never_counts(steps: list[tuple[float, str]]) -> None:
    """Whatever comes: at most the time between two looks that both saw it, and never more than it took."""
    now, looks, seen, before = 0.0, [], 0.0, "gone"
    for wait, what in steps:
        now += wait
        looks.append((now, {"held": holder("1GiB"), "gone": None, "unknown": holder(GONE)}[what]))
        if before == what == "held" and len(looks) > 1 and wait <= SPAN:
            seen += wait
        before = what
    found = film((0.0, None), *looks)
    assert found.used == pytest.approx(seen / HOUR)


def test_a_rehearsal_counts_too() -> None:
    """A recording under a policy with a budget: once it is used up, its rule decides."""
    by = replace(
        policy(rule("used-up", lasting="30s", match=Match(user="nobody")), rule()),
        budgets=(budget(Measure.IDLE_GIB_HOURS, match=Match(user="ada", device="*H200")),),
    )
    by = replace(by, budgets=(replace(by.budgets[0], limit=5.99 * 60 / HOUR, then="used-up"),))
    carried, rules = Carried(), []
    for when in range(0, 80, 10):
        seen = snapshot(process(100, 10), owners=[owner()], clients=[client(100)], now=float(when))
        scene = rehearse(seen, carried, by, SPAN, site=SITE)
        carried = scene.carried
        (verdict,) = scene.verdicts.values()
        rules.append(verdict.rule)
        assert (verdict.rule == "used-up") is any(reason.code is Code.OVER_BUDGET for reason in verdict.reasons)
    assert rules == ["default"] * 6 + ["used-up"] * 2
