"""Cases: opened, moved and closed by what really happened."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from jupyter_gpu_guard.core.ledger import FIRST_RETRY, Case, Ledger, begin, review, settle, under_new_rules
from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.core.verdict import Code, Reason, Result, Verdict

from .build import at, key, notice_of, outcome, owner

A, B = owner("a").key, owner("b").key
NOW = 1000.0


def verdict(
    action: Action = Action.WARN,
    *reasons: Code,
    stage: int | None = 0,
    deadline: float | None = NOW + 900,
    rule: str = "default",
    root: int = 100,
    next_action: Action | None = Action.SHUTDOWN,
) -> Verdict:
    """A Verdict on kernel `a`, by default a first warning of a shutdown in a quarter of an hour."""
    return Verdict(
        owner=A,
        root=key(root),
        action=action,
        rule=rule,
        reasons=tuple(Reason(code) for code in reasons or (Code.IDLE_TOO_LONG,)),
        stage=stage,
        next_action=next_action,
        deadline=deadline,
        notice=900.0,
    )


WARN = verdict()
SHUTDOWN = verdict(Action.SHUTDOWN, stage=1)


def settled(ledger: Ledger, said: Verdict, result: Result, now: float = NOW) -> Ledger:
    """`said` was carried out at `now`, and that came of it."""
    notice = notice_of(said, at(now)) if said.action is Action.WARN and result is Result.DONE else None
    return settle(ledger, said, outcome(said, result, at(now)), at(now), notice)


def opened(said: Verdict = WARN, now: float = NOW) -> Ledger:
    """A Ledger with one Case, just opened."""
    return review(Ledger(), (said,), at(now))


def warned(now: float = NOW, said: Verdict = WARN) -> Ledger:
    """A Ledger with one Case, in which the warning was delivered."""
    return settled(opened(said, now), said, Result.DONE, now)


# --- review ---------------------------------------------------------------------------------------------------------


def test_what_is_due_opens_a_case() -> None:
    """It is dated, and nothing of its ladder is done."""
    assert opened().cases[A] == Case(A, key(100), "default", NOW)


def test_a_case_keeps_its_date() -> None:
    """Each further look finds the same Case."""
    assert review(opened(), (WARN,), at(NOW + 5)) == opened()


def test_what_is_kept_opens_nothing() -> None:
    """There is nothing to follow up."""
    assert review(Ledger(), (verdict(Action.KEEP, Code.NOTICE_RUNNING),), at(NOW)).cases == {}


@pytest.mark.parametrize("code", [Code.NOTICE_RUNNING, Code.LADDER_DONE, Code.BELT, Code.ACTING, Code.RETRY_LATER])
def test_who_is_still_over_its_limits_keeps_its_case(code: Code) -> None:
    """With the warning that was given."""
    after = review(warned(), (verdict(Action.KEEP, Code.IDLE_TOO_LONG, code),), at(NOW + 5))
    assert after == warned()


@pytest.mark.parametrize(
    "code",
    [
        Code.RULE_KEEPS,
        Code.NEVER,
        Code.UNKNOWN_READING,
        Code.NOT_LOCAL,
        Code.HOLDS_LITTLE,
        Code.COMPUTING,
        Code.IDLE_NOT_LONG,
        Code.LEASED,
    ],
)
def test_who_is_within_its_limits_or_spared_has_no_case(code: Code) -> None:
    """The warning is withdrawn; the next time begins with a new one."""
    after = review(warned(), (verdict(Action.KEEP, code),), at(NOW + 5))
    assert (after.cases, after.notices) == ({}, ())


def test_an_owner_that_is_gone_has_no_case() -> None:
    """Nobody is left to follow up."""
    assert review(warned(), (), at(NOW + 5)).cases == {}


def test_a_restarted_kernel_does_not_inherit_a_case() -> None:
    """The warning was about another process: it is neither warned nor late."""
    after = review(warned(), (verdict(root=160),), at(NOW + 5))
    assert after.cases[A] == Case(A, key(160), "default", NOW + 5)


def test_an_act_under_way_outlives_its_owner() -> None:
    """It ends by its Outcome only, also when the owner is gone or has a new process."""
    acting = begin(warned(), SHUTDOWN, at(NOW))
    for verdicts in ((), (verdict(Action.KEEP, Code.ACTING, root=160),), (verdict(Action.KEEP, Code.COMPUTING),)):
        assert review(acting, verdicts, at(NOW + 5)).cases[A].acting


def test_shutdowns_are_counted_for_an_hour() -> None:
    """Older ones are forgotten."""
    ledger = Ledger(shutdowns_at=(NOW - 3600, NOW - 3599))
    assert review(ledger, (), at(NOW)).shutdowns_at == (NOW - 3599,)


# --- another rule ---------------------------------------------------------------------------------------------------


def test_a_case_moves_with_the_rule_that_decides() -> None:
    """A warning given stays given, with its deadline; the stages start over after it."""
    before = replace(warned().cases[A], stages_done=3)
    after = review(Ledger({A: before}), (verdict(rule="scarce"),), at(NOW + 5)).cases[A]
    assert (after.rule, after.stages_done, after.warned_at, after.deadline) == ("scarce", 1, NOW, NOW + 900)
    unwarned = review(opened(), (verdict(rule="scarce"),), at(NOW + 5)).cases[A]
    assert (unwarned.stages_done, unwarned.warned_at) == (0, None)


def test_a_deadline_that_was_shown_later_never_comes_closer_again() -> None:
    """A rule with a longer notice took over for a while: what it showed holds, and the standing warning says so."""
    running = (Action.KEEP, Code.IDLE_TOO_LONG, Code.NOTICE_RUNNING)
    moved = review(warned(), (verdict(*running, rule="slow", deadline=NOW + 3600),), at(NOW + 5))
    back = review(moved, (verdict(*running, deadline=NOW + 900),), at(NOW + 10))
    for ledger in (moved, back):
        assert ledger.cases[A].deadline == NOW + 3600
        assert ledger.notices[0].deadline == at(NOW + 3600).wall


def test_the_time_of_a_harmless_step_is_no_deadline() -> None:
    """A second warning that comes late does not put off the loss."""
    said = verdict(Action.KEEP, Code.NOTICE_RUNNING, deadline=NOW + 5000, next_action=Action.WARN)
    assert review(warned(), (said,), at(NOW + 5)).cases[A].deadline == NOW + 900


def test_other_rules_start_their_stages_over_and_take_back_no_warning() -> None:
    """Whoever was warned stays warned, with the deadline; whoever was not is still to be."""
    other = Case(B, key(200), "default", NOW)
    far = replace(warned().cases[A], stages_done=3)
    ledger = under_new_rules(Ledger({A: far, B: other}, shutdowns_at=(NOW,), rehearsal=True))
    assert ledger == Ledger({A: replace(far, stages_done=1), B: other}, shutdowns_at=(NOW,), rehearsal=True)


# --- settle ---------------------------------------------------------------------------------------------------------


def test_a_delivered_warning_is_noted_with_its_promise() -> None:
    """The stage is done, the deadline is promised, and the notice stands."""
    ledger = warned()
    case = ledger.cases[A]
    assert (case.stages_done, case.warned_at, case.deadline, case.acting) == (1, NOW, NOW + 900, False)
    assert ledger.notices == (notice_of(WARN, at(NOW)),)


def test_the_notice_counts_from_the_delivery() -> None:
    """A warning that took its time gives the full notice all the same."""
    late = settled(opened(), WARN, Result.DONE, NOW + 60)
    assert late.cases[A].deadline == NOW + 60 + 900


def test_a_loss_that_comes_later_than_the_notice_is_promised_for_then() -> None:
    """The notice is the least that is given."""
    assert warned(said=verdict(deadline=NOW + 3600)).cases[A].deadline == NOW + 3600


def test_a_second_warning_does_not_bring_the_deadline_closer() -> None:
    """Whatever it says itself; and the first one stays the one that counts."""
    again = verdict(stage=1, deadline=NOW + 10)
    case = settled(warned(), again, Result.DONE, NOW + 5).cases[A]
    assert case.deadline is not None
    assert case.deadline >= NOW + 900
    assert (case.stages_done, case.warned_at) == (2, NOW)


def test_a_hint_promises_nothing() -> None:
    """A warning after which nothing follows by itself has no deadline; a later one that names a loss counts anew."""
    hint = verdict(deadline=None, next_action=None)
    told = warned(said=hint)
    assert (told.cases[A].warned_at, told.notices[0].deadline, told.notices[0].next_action) == (None, None, None)
    case = settled(told, WARN, Result.DONE, NOW + 600).cases[A]
    assert (case.stages_done, case.warned_at, case.deadline) == (1, NOW + 600, NOW + 1500)


def test_a_hint_after_a_promise_takes_the_warning_back_but_not_the_deadline() -> None:
    """The loss has to be named anew, and never for an earlier time."""
    hint = verdict(stage=1, deadline=None, next_action=None)
    told = settled(warned(), hint, Result.DONE, NOW + 60)
    assert (told.cases[A].warned_at, told.cases[A].deadline) == (None, NOW + 900)
    named = settled(told, replace(WARN, deadline=NOW + 70, notice=1.0), Result.DONE, NOW + 65)
    assert (named.cases[A].warned_at, named.cases[A].deadline) == (NOW + 65, NOW + 900)


def test_a_failed_warning_is_tried_again_later_and_later() -> None:
    """Nothing is promised by it, and nothing of the ladder is done. The pause doubles up to an hour."""
    ledger, now, pauses = opened(), NOW, []
    for _ in range(9):
        ledger = settled(ledger, WARN, Result.FAILED, now)
        case = ledger.cases[A]
        assert (case.stages_done, case.warned_at, case.deadline, ledger.notices) == (0, None, None, ())
        assert case.retry_at is not None
        pauses.append(case.retry_at - now)
        now = case.retry_at
    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


def test_an_act_may_fail_for_months() -> None:
    """The pause stays an hour."""
    worn = Ledger({A: replace(opened().cases[A], failures=5000)})
    assert settled(worn, WARN, Result.FAILED).cases[A].retry_at == NOW + 3600


def test_a_success_clears_the_failures() -> None:
    """The next trouble begins with a short pause again."""
    ledger = settled(settled(opened(), WARN, Result.FAILED), WARN, Result.DONE, NOW + 60)
    assert (ledger.cases[A].failures, ledger.cases[A].retry_at) == (0, None)


@pytest.mark.parametrize("result", [Result.ALREADY_GONE, Result.WITHDRAWN])
def test_what_had_no_object_closes_the_case(result: Result) -> None:
    """It is neither a warning nor a shutdown of ours, and whatever comes next begins with a new warning."""
    assert settled(opened(), WARN, result) == Ledger()
    ledger = settled(begin(warned(), SHUTDOWN, at(NOW)), SHUTDOWN, result)
    assert (ledger.cases, ledger.shutdowns_at) == ({}, ())


def test_a_shutdown_closes_the_case_and_is_counted() -> None:
    """The belts know of it for an hour."""
    ledger = settled(begin(warned(), SHUTDOWN, at(NOW)), SHUTDOWN, Result.DONE, NOW + 30)
    assert (ledger.cases, ledger.shutdowns_at) == ({}, (NOW + 30,))


def test_a_failed_shutdown_is_no_shutdown() -> None:
    """The Case stays, warned as before, and it is tried again later."""
    ledger = settled(begin(warned(), SHUTDOWN, at(NOW)), SHUTDOWN, Result.FAILED)
    case = ledger.cases[A]
    assert (case.acting, case.warned_at, case.retry_at) == (False, NOW, NOW + FIRST_RETRY)
    assert ledger.shutdowns_at == ()


def test_a_shutdown_that_a_person_asked_for_needs_no_case() -> None:
    """It begins one, ends it, and is counted."""
    asked = verdict(Action.SHUTDOWN, Code.ASKED, rule="asked", stage=None, deadline=None)
    acting = begin(Ledger(), asked, at(NOW))
    assert acting == Ledger({A: Case(A, key(100), "asked", NOW, acting=True)})
    assert settled(acting, asked, Result.DONE) == Ledger(shutdowns_at=(NOW,))


def test_an_outcome_about_an_earlier_root_leaves_the_new_one_alone() -> None:
    """The restarted kernel's Case is neither closed, nor warned, nor delayed; the shutdown is still counted."""
    new = opened(verdict(root=160))
    for said, result in ((WARN, Result.DONE), (SHUTDOWN, Result.FAILED), (SHUTDOWN, Result.ALREADY_GONE)):
        assert settled(new, said, result) == new
    assert settled(new, SHUTDOWN, Result.DONE) == replace(new, shutdowns_at=(NOW,))


@pytest.mark.parametrize("result", [Result.DONE, Result.FAILED, Result.WITHDRAWN])
def test_a_warning_that_was_overtaken_by_an_act_changes_nothing(result: Result) -> None:
    """A person asked for the shutdown while the warning was being delivered: the act is still under way."""
    acting = begin(opened(), SHUTDOWN, at(NOW))
    assert settled(acting, WARN, result) == acting


def test_a_warning_that_was_overtaken_by_a_lease_promises_nothing() -> None:
    """Its Case was closed while it was being delivered."""
    assert settled(Ledger(), WARN, Result.DONE) == Ledger()


# --- what is not to come any more -----------------------------------------------------------------------------------


def test_a_loss_that_is_not_to_come_any_more_is_no_warning() -> None:
    """Its state spares it now. The notice says so, the deadline stays the earliest, and a loss is named anew."""
    spared = verdict(
        Action.KEEP, Code.IDLE_TOO_LONG, Code.STATE_WARNS_ONLY, Code.LADDER_DONE, deadline=None, next_action=None
    )
    ledger = review(warned(), (spared,), at(NOW + 60))
    case = ledger.cases[A]
    assert (case.warned_at, case.deadline, case.stages_done) == (None, NOW + 900, 1)
    (notice,) = ledger.notices
    assert (notice.next_action, notice.deadline) == (None, None)
    again = settled(ledger, verdict(deadline=NOW + 9900), Result.DONE, NOW + 9000)
    assert (again.cases[A].warned_at, again.cases[A].deadline) == (NOW + 9000, NOW + 9900)


# --- rehearsal ------------------------------------------------------------------------------------------------------


def test_a_rehearsal_warns_nobody() -> None:
    """The Cases move on as they would, but no notice stands."""
    ledger = settle(
        replace(opened(), rehearsal=True),
        WARN,
        outcome(WARN, Result.REHEARSED, at(NOW)),
        at(NOW),
        notice_of(WARN, at(NOW)),
    )
    assert ledger.cases[A].stages_done == 1
    assert ledger.notices == ()


def test_a_rehearsed_deadline_moves_too() -> None:
    """Without a notice that could say so."""
    ledger = settled(opened(), WARN, Result.REHEARSED)
    said = verdict(Action.KEEP, Code.NOTICE_RUNNING, rule="slow", deadline=NOW + 3600)
    case = review(ledger, (said,), at(NOW + 5)).cases[A]
    assert (case.deadline, case.notice) == (NOW + 3600, None)


def test_a_rehearsed_shutdown_is_rehearsed_once() -> None:
    """The Case stays with its ladder done, since the holder is still there."""
    ledger = settled(begin(warned(), SHUTDOWN, at(NOW)), SHUTDOWN, Result.REHEARSED)
    assert (ledger.cases[A].stages_done, ledger.cases[A].acting) == (2, False)
    assert ledger.shutdowns_at == (NOW,)


def test_notices_come_in_the_order_of_their_owners() -> None:
    """And only from Cases in which something was delivered."""
    other = replace(WARN, owner=B)
    ledger = review(Ledger(), (other, WARN), at(NOW))
    ledger = settled(settled(ledger, other, Result.DONE), WARN, Result.DONE)
    assert [notice.owner for notice in ledger.notices] == [A, B]
    assert ledger.notices[0].given_at == at(NOW).wall
    assert ledger.notices[0].deadline == at(NOW).wall + timedelta(minutes=15)
