"""Each Reason says the whole of its facts: they are what all faces word, what the audit keeps and what people go by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from jupyter_gpu_guard.core.judge import Bench, judge
from jupyter_gpu_guard.core.ledger import Case, Ledger
from jupyter_gpu_guard.core.limit import limit
from jupyter_gpu_guard.core.model import Activity, Evidence, Holder, OwnerKind, OwnerState, Unknown, Why
from jupyter_gpu_guard.core.policy import Action, Belts, Exemption, Match, Mode, Policy, Rule
from jupyter_gpu_guard.core.verdict import Code, Protection, Reason, Verdict

from .build import GIB, NOON, at, codes, device, holder, key, lease, owner, policy, rule, rungs, verdict_on, window

NOW = 100_000.0
HOUR = 3600.0
UNTIL = NOON + timedelta(days=3)
BUSY = {
    "idle_seconds": 3 * HOUR,
    "for_seconds": 2 * HOUR,
    "memory_bytes": 12 * GIB,
    "compute_percent": 0.0,
    "compute_below_percent": 5.0,
}
WARNED = Case(owner().key, key(100), "default", NOW - HOUR, stages_done=1, warned_at=NOW - HOUR)
EXEMPT = replace(policy(), exemptions=(Exemption(Match(), UNTIL, "rebuttal"),))


def board(visitors: int | None = 0) -> Holder:
    """A TensorBoard that holds nothing."""
    held = holder(0.0, of=owner(kind=OwnerKind.TENSORBOARD))
    return replace(held, activity=Activity(listens=frozenset({6006}), visitors=visitors))


UNWATCHED = replace(rule(), idle=replace(rule(lasting="10m").idle, unwatched_for=timedelta(minutes=30)))


@pytest.mark.parametrize(
    ("judged", "reasons"),
    [
        (lambda: verdict_on(holder(), by=rule(keep=True)), [(Code.RULE_KEEPS, {"rule": "default"})]),
        (lambda: verdict_on(holder(), by=rule(lasting=None)), [(Code.NEVER, {"rule": "default"})]),
        (
            lambda: verdict_on(holder(), leased=lease(NOW + 60)),
            [(Code.LEASED, {"until": lease(NOW + 60).until.isoformat(), "reason": "long run", "by": "ada"})],
        ),
        (lambda: verdict_on(holder(), by=EXEMPT), [(Code.EXEMPT, {"until": UNTIL.isoformat(), "reason": "rebuttal"})]),
        (lambda: verdict_on(holder(of=owner("a", None))), [(Code.NOT_LOCAL, {"state": "idle"})]),
        (
            lambda: verdict_on(holder(of=replace(owner(state=OwnerState.BREAKPOINT), clients=1))),
            [(Code.ATTENDED, {"state": "at-breakpoint"})],
        ),
        (
            lambda: verdict_on(holder(Unknown(Why.NO_PERMISSION, "refused"))),
            [(Code.UNKNOWN_READING, {"what": "memory", "why": "no-permission", "detail": "refused"})],
        ),
        (
            lambda: verdict_on(holder(compute=Unknown(Why.SHARED))),
            [(Code.UNKNOWN_READING, {"what": "compute", "why": "shared", "detail": ""})],
        ),
        (
            lambda: verdict_on(holder(), windows={}),
            [(Code.UNKNOWN_READING, {"what": "compute", "why": "first-reading", "detail": ""})],
        ),
        (
            lambda: verdict_on(board(None), by=UNWATCHED),
            [(Code.UNKNOWN_READING, {"what": "visitors", "why": "not-read", "detail": ""})],
        ),
        (
            lambda: verdict_on(holder("1MiB")),
            [(Code.HOLDS_LITTLE, {"memory_bytes": 2.0**20, "memory_above_bytes": 512 * 2.0**20})],
        ),
        (
            lambda: verdict_on(holder(compute=60.0)),
            [(Code.COMPUTING, {"compute_percent": 60.0, "compute_below_percent": 5.0})],
        ),
        (lambda: verdict_on(holder(), "1h"), [(Code.IDLE_NOT_LONG, {**BUSY, "idle_seconds": HOUR})]),
        (lambda: verdict_on(holder(), "3h"), [(Code.IDLE_TOO_LONG, BUSY)]),
        (
            lambda: verdict_on(holder(of=owner(state=OwnerState.EXECUTING)), "3h"),
            [(Code.IDLE_TOO_LONG, BUSY), (Code.STATE_WARNS_ONLY, {"state": "executing"})],
        ),
        (
            lambda: verdict_on(holder(), by=rule(ladder=rungs("warn")), case=WARNED),
            [(Code.IDLE_TOO_LONG, BUSY), (Code.LADDER_DONE, {})],
        ),
        (
            lambda: verdict_on(holder(), case=replace(WARNED, warned_at=NOW - 60)),
            [(Code.IDLE_TOO_LONG, BUSY), (Code.NOTICE_RUNNING, {"wait_seconds": 840.0})],
        ),
        (
            lambda: verdict_on(holder(), case=replace(WARNED, retry_at=NOW + 30)),
            [(Code.IDLE_TOO_LONG, BUSY), (Code.RETRY_LATER, {"wait_seconds": 30.0})],
        ),
        (lambda: verdict_on(holder(), case=replace(WARNED, acting=True)), [(Code.ACTING, {})]),
        (
            lambda: verdict_on(board(), "20m", by=UNWATCHED),
            [(Code.WATCHED, {"unwatched_seconds": 1200.0, "unwatched_for_seconds": 1800.0})],
        ),
        (
            lambda: verdict_on(board(), "3h", by=UNWATCHED),
            [(Code.UNWATCHED, {"unwatched_seconds": 3 * HOUR, "unwatched_for_seconds": 1800.0})],
        ),
        (
            lambda: verdict_on(holder(), by=replace(policy(), mode=Mode.OBSERVE)),
            [(Code.IDLE_TOO_LONG, BUSY), (Code.OBSERVING, {})],
        ),
        (
            lambda: verdict_on(holder(), "1h", by=policy(replace(rule("trial", lasting="40m"), observe=True), rule())),
            [
                (Code.IDLE_NOT_LONG, {**BUSY, "idle_seconds": HOUR}),
                (Code.RULE_OBSERVES, {"rule": "trial", "would": "shutdown", "idle_seconds": HOUR}),
            ],
        ),
    ],
    ids=lambda value: value[0][0].value if isinstance(value, list) else "",
)
def test_a_reason_says_the_whole_of_its_facts(
    judged: Callable[[], Verdict], reasons: list[tuple[Code, dict[str, object]]]
) -> None:
    """Their names and their values, and nothing else; in this order."""
    assert [(reason.code, dict(reason.facts)) for reason in judged().reasons] == reasons


def test_a_loss_that_the_belt_holds_back_says_what_the_belts_are() -> None:
    """And is kept; the others go on."""
    due = verdict_on(holder(), case=WARNED)
    assert due.action is Action.SHUTDOWN
    (kept,) = limit((due,), Ledger({owner().key: WARNED}), Belts(7, 0), at(NOW))
    assert kept == replace(
        due,
        action=Action.KEEP,
        reasons=(*due.reasons, Reason(Code.BELT, {"shutdowns_per_hour": 7, "shutdowns_per_tick": 0})),
    )


def test_a_verdict_carries_what_it_rests_on() -> None:
    """Whose it is, which rule, the readings, the notice, the time for nobody, what the last look is held against."""
    ruled = replace(rule("r", notice="10m", undelivered="6h", compute_below=3), match=Match(kernelspec="python3"))
    (verdict,) = judge(
        (holder(),),
        Bench(policy(ruled, rule()), {owner().key: window("3h", now=NOW)}, {}, Ledger(), {"gpu-0": device()}, at(NOW)),
    )
    assert verdict == Verdict(
        owner=owner().key,
        root=key(100),
        action=Action.WARN,
        rule="r",
        reasons=verdict.reasons,
        stage=0,
        next_action=Action.SHUTDOWN,
        deadline=NOW + 600,
        idle_for=3 * HOUR,
        notice=600.0,
        compute_below=3,
        undelivered=6 * HOUR,
    )
    assert verdict_on(holder(), by=rule(undelivered=None)).undelivered is None


def estimated(held: Holder) -> Holder:
    """`held`, of which it is only inferred that it is on its device."""
    inferred = tuple(
        replace(each, processes=tuple(replace(row, evidence=Evidence.ESTIMATE) for row in each.processes))
        for each in held.holdings
    )
    return replace(held, holdings=inferred)


@pytest.mark.parametrize(
    ("held", "by", "protections"),
    [
        (holder(), rule(), ()),
        (holder(of=owner(state=OwnerState.EXECUTING)), rule(), (Protection.EXECUTING,)),
        (holder(of=owner(state=OwnerState.WAITING)), rule(), (Protection.EXECUTING,)),
        (
            replace(holder(of=owner(state=OwnerState.EXECUTING)), refined=OwnerState.INPUT_BOUND),
            rule(),
            (Protection.EXECUTING, Protection.BUSY),
        ),
        (
            holder(of=replace(owner(state=OwnerState.BREAKPOINT), clients=1)),
            rule(),
            (Protection.EXECUTING, Protection.ATTENDED),
        ),
        (holder(of=owner(state=OwnerState.BREAKPOINT)), rule(), (Protection.EXECUTING,)),
        (replace(holder(), refined=OwnerState.SERVING), rule(), (Protection.SERVING,)),
        (estimated(holder()), rule(), (Protection.ESTIMATED,)),
        (estimated(holder()), replace(rule(), trust_estimates=True), ()),
        (holder(compute=Unknown(Why.SHARED)), rule(), (Protection.UNKNOWN,)),
        (holder(Unknown(Why.SHARED)), rule(), (Protection.UNKNOWN,)),
        (holder(), rule(keep=True), (Protection.EXEMPT,)),
        (holder(), EXEMPT, (Protection.EXEMPT,)),
    ],
)
def test_every_protection_is_named(held: Holder, by: Rule | Policy, protections: tuple[Protection, ...]) -> None:
    """All that spare it now, and no other."""
    assert verdict_on(held, by=by).protections == protections


def test_a_first_rung_that_is_late_is_announced_for_then() -> None:
    """Before the limit: the limit and the delay of the rung; without any rung nothing is announced."""
    late = verdict_on(holder(), "1h", by=rule(ladder=rungs(("warn", "10m"), ("shutdown", "1h"))))
    assert (late.stage, late.next_action, late.deadline) == (0, Action.WARN, NOW + HOUR + 600)
    running = holder(of=owner(state=OwnerState.EXECUTING))
    none = verdict_on(running, "1h", by=rule(ladder=rungs("release")))
    assert (none.stage, none.next_action, none.deadline) == (None, None, None)
    assert codes(none) == [Code.IDLE_NOT_LONG, Code.STATE_WARNS_ONLY]


def test_an_idle_owner_that_is_only_warned_is_not_blamed_on_its_state() -> None:
    """It is the estimate that spares it."""
    verdict = verdict_on(estimated(holder()))
    assert (verdict.action, verdict.next_action) == (Action.WARN, None)
    assert codes(verdict) == [Code.IDLE_TOO_LONG, Code.ESTIMATED]
