"""What spares a Holder that would be due: since when, and whether it would be due without that."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from jupyter_gpu_guard.core.judge import Bench, judge
from jupyter_gpu_guard.core.ledger import Case, Ledger
from jupyter_gpu_guard.core.limit import limit
from jupyter_gpu_guard.core.model import Evidence, Holder, OwnerState
from jupyter_gpu_guard.core.policy import Belts, Exemption, Match, Policy
from jupyter_gpu_guard.core.spared import Spared, spared
from jupyter_gpu_guard.core.verdict import Code, Lease, Verdict

from .build import GONE, NOON, at, device, holder, key, lease, owner, policy, rule, rungs, window

NOW = 100_000.0
A = owner("a").key
OVER, WITHIN = "3h", "1h"
EARLIER = NOW - 500
EXEMPTION = Exemption(Match(), NOON + timedelta(days=9), "rebuttal")


def bench(
    idle: str = OVER, *, by: Policy | None = None, leased: Lease | None = None, case: Case | None = None
) -> Bench:
    """All that is known at `NOW` about a kernel that was seen idle for so long."""
    return Bench(
        policy=by or policy(),
        windows={A: window(idle, now=NOW)},
        leases={} if leased is None else {A: leased},
        ledger=Ledger() if case is None else Ledger({A: case}),
        devices={"gpu-0": device()},
        now=at(NOW),
    )


def found(held: Holder, on: Bench, before: Spared | None = None, said_before: Verdict | None = None) -> Spared | None:
    """What spares `held`, which was spared like that at the look before, and judged like that."""
    verdicts = limit(judge((held,), on), on.ledger, on.policy.belts, on.now)
    answer = spared(
        (held,), verdicts, on, {} if before is None else {A: before}, {} if said_before is None else {A: said_before}
    )
    assert set(answer) <= {A}
    return answer.get(A)


ATTENDED = holder(of=replace(owner(state=OwnerState.BREAKPOINT), clients=1))


@pytest.mark.parametrize(("idle", "is_due"), [(OVER, True), (WITHIN, False)])
@pytest.mark.parametrize(
    ("held", "by", "leased", "code"),
    [
        (holder(), policy(), lease(NOW + 60), Code.LEASED),
        (holder(), policy(rule(keep=True)), None, Code.RULE_KEEPS),
        (holder(), replace(policy(), exemptions=(EXEMPTION,)), None, Code.EXEMPT),
        (ATTENDED, policy(), None, Code.ATTENDED),
    ],
)
def test_a_shield_is_told_with_what_it_keeps_off(  # one row of the table each
    held: Holder, by: Policy, leased: Lease | None, code: Code, idle: str, *, is_due: bool
) -> None:
    """Kept by somebody, by a rule, by the site, or by who sits at it: and whether it would be due without that."""
    assert found(held, bench(idle, by=by, leased=leased)) == Spared(code, NOW, is_due)


def test_a_shield_is_looked_behind_with_the_rule_that_it_is_under() -> None:
    """Its limit counts, also where the rule asks for a state; and not that of another rule."""
    slow = rule("slow", lasting="9h", keep=True, match=Match(kernelspec="python3"))
    assert found(holder(), bench(OVER, by=policy(slow, rule(lasting="1m")))) == Spared(
        Code.RULE_KEEPS, NOW, is_due=False
    )
    state = replace(slow, match=Match(state=OwnerState.IDLE), idle=rule(lasting="1h").idle)
    assert found(holder(), bench(OVER, by=policy(state, rule(lasting="9h")))) == Spared(Code.RULE_KEEPS, NOW)


def test_what_spares_for_long_does_so_since_its_beginning() -> None:
    """Another reason, or none before, begins now."""
    on = bench(leased=lease(NOW + 60))
    assert found(holder(), on, Spared(Code.LEASED, EARLIER)) == Spared(Code.LEASED, EARLIER)
    assert found(holder(), on, Spared(Code.EXEMPT, EARLIER)) == Spared(Code.LEASED, NOW)


def test_nothing_spares_who_is_warned_or_within_its_limits() -> None:
    """The ladder goes on; or there is nothing to spare from."""
    assert found(holder(), bench(OVER)) is None
    assert found(holder(), bench(WITHIN)) is None
    assert found(holder(compute=60.0), bench(OVER)) is None
    done = Case(A, key(100), "default", EARLIER, stages_done=1)
    assert found(holder(), bench(OVER, by=policy(rule(ladder=rungs("warn"))), case=done)) is None


def test_a_belt_spares() -> None:
    """For as long as there is no room."""
    warned = Case(A, key(100), "default", NOW - 3600, stages_done=1, warned_at=NOW - 3600)
    tight = replace(policy(), belts=Belts(0, 0))
    assert found(holder(), bench(OVER, by=tight, case=warned)) == Spared(Code.BELT, NOW)
    assert found(holder(), bench(OVER, by=tight, case=warned), Spared(Code.BELT, EARLIER)) == Spared(Code.BELT, EARLIER)


def test_a_state_spares_once_all_its_warnings_are_given() -> None:
    """A cell runs: it is warned, and that was all."""
    running = holder(of=owner(state=OwnerState.EXECUTING))
    hinted = Case(A, key(100), "default", EARLIER, stages_done=1)
    assert found(running, bench(OVER, case=hinted)) == Spared(Code.STATE_WARNS_ONLY, NOW)


def test_an_estimate_spares_once_all_its_warnings_are_given() -> None:
    """It is only inferred that it is on the device."""
    held = holder()
    guess = tuple(
        replace(each, processes=tuple(replace(row, evidence=Evidence.ESTIMATE) for row in each.processes))
        for each in held.holdings
    )
    hinted = Case(A, key(100), "default", EARLIER, stages_done=1)
    assert found(replace(held, holdings=guess), bench(OVER, case=hinted)) == Spared(Code.ESTIMATED, NOW)


def test_readings_that_fail_spare_who_was_due_when_they_did() -> None:
    """And stay so, for as long as they fail."""
    blind = holder(GONE)
    (due,) = judge((holder(),), bench(OVER))
    (fine,) = judge((holder(),), bench(WITHIN))
    assert found(blind, bench(OVER), said_before=due) == Spared(Code.UNKNOWN_READING, NOW)
    assert found(blind, bench(OVER), said_before=fine) == Spared(Code.UNKNOWN_READING, NOW, is_due=False)
    assert found(blind, bench(OVER)) == Spared(Code.UNKNOWN_READING, NOW, is_due=False)
    still = Spared(Code.UNKNOWN_READING, EARLIER)
    assert found(blind, bench(OVER), still) == still
    assert found(blind, bench(OVER), Spared(Code.LEASED, EARLIER)) == Spared(Code.UNKNOWN_READING, NOW, is_due=False)


def test_readings_that_fail_for_as_long_as_the_limit_spare_too() -> None:
    """By the limit of the rule it is under; where there is none, never."""
    for since, is_due in ((NOW - 7200, True), (NOW - 7199, False)):
        before = Spared(Code.UNKNOWN_READING, since, is_due=False)
        assert found(holder(GONE), bench(OVER), before) == replace(before, is_due=is_due)
    ages = Spared(Code.UNKNOWN_READING, NOW - 1e6, is_due=False)
    slow = policy(rule("slow", lasting="9000h", match=Match(kernelspec="python3")), rule(lasting="1m"))
    assert found(holder(GONE), bench(OVER, by=slow), ages) == ages
    assert found(holder(GONE), bench(OVER, by=replace(policy(replace(rule(lasting=None), keep=False)))), ages) == ages


def test_each_holder_is_looked_at() -> None:
    """Who is not spared does not hide who comes after it."""
    free, kept = holder(), holder(of=owner("b", 200))
    on = replace(bench(OVER), windows={A: window(OVER, now=NOW), kept.owner.key: window(OVER, now=NOW, root=key(200))})
    on = replace(on, leases={kept.owner.key: lease(NOW + 60, "b")})
    answer = spared((free, kept), judge((free, kept), on), on, {}, {})
    assert answer == {kept.owner.key: Spared(Code.LEASED, NOW)}
