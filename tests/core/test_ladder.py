"""The ladder: warnings that reach nobody, and the soft rungs between a warning and a loss."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jupyter_gpu_guard.core.ladder import Climb
from jupyter_gpu_guard.core.ledger import FIRST_RETRY, Case, Ledger, begin, review, settle, wait_before_loss
from jupyter_gpu_guard.core.model import OwnerState
from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.core.rehearse import Carried, rehearse
from jupyter_gpu_guard.core.simulate import Simulation
from jupyter_gpu_guard.core.verdict import Code, Reason, Result, Verdict

from .build import at, codes, holder, key, notice_of, outcome, owner, policy, rule, rungs, verdict_on
from .drive import LONGEST_SPAN, Tick, acts, drive
from .films import Look, Moment, film, still

A = owner("a").key
NOW = 100_000.0
SOFT = rungs("warn", ("release", "5m"), ("park", "10m"), ("shutdown", "15m"))
QUICK = rule(lasting="30s", notice="20s", undelivered="2m")
STAIRS = rungs("warn", ("release", "10s"), ("park", "20s"), ("shutdown", "30s"))
GENTLE = rule(lasting="30s", notice="20s", ladder=STAIRS)
START = 1005.0  # the first picture of a film


def case(stages_done: int = 1, *, warned: float | None = NOW - 3600, unheard: bool = False, **more: object) -> Case:
    """An open Case of kernel `a`, warned an hour ago."""
    opened = Case(A, key(100), "default", NOW - 3600, stages_done=stages_done, warned_at=warned, undelivered=unheard)
    return replace(opened, **more)


def times(ticks: list[Tick], do: Action) -> list[float]:
    """When such acts began, in seconds after the first picture."""
    return [act.begun.monotonic - START for act in acts(ticks, do)]


def facts(verdict: Verdict, code: Code) -> dict[str, object]:
    """What the reason with this code says."""
    return dict(next(reason.facts for reason in verdict.reasons if reason.code is code))


# --- a warning that reaches nobody ----------------------------------------------------------------------------------


def test_a_warning_that_reached_nobody_stands_for_longer() -> None:
    """The loss comes so long after it as the rule says for that, and not after the notice; and it says so."""
    ruled = rule(undelivered="12h")
    waits = verdict_on(holder(), "14h", by=ruled, case=case(warned=NOW - 12 * 3600 + 1, unheard=True))
    assert waits.action is Action.KEEP
    assert codes(waits) == [Code.IDLE_TOO_LONG, Code.UNDELIVERED, Code.NOTICE_RUNNING]
    assert facts(waits, Code.UNDELIVERED) == {"wait_seconds": 12 * 3600}
    assert (waits.next_action, waits.deadline) == (Action.SHUTDOWN, NOW + 1)
    due = verdict_on(holder(), "14h", by=ruled, case=case(warned=NOW - 12 * 3600, unheard=True))
    assert (due.action, due.deadline) == (Action.SHUTDOWN, NOW)


def test_a_warning_that_reached_nobody_stands_no_shorter_than_one_that_did() -> None:
    """Whatever the rule says: the notice is the least."""
    ruled = rule(notice="1h", undelivered="1m")
    said = verdict_on(holder(), "4h", by=ruled, case=case(warned=NOW - 3599, unheard=True))
    assert (said.action, said.deadline) == (Action.KEEP, NOW + 1)


def test_where_the_rule_waits_for_somebody_nothing_is_ever_lost() -> None:
    """No deadline is named, the Case stays open, and it says what it waits for."""
    said = verdict_on(holder(), "700h", by=rule(undelivered=None), case=case(warned=0.0, unheard=True))
    assert (said.action, said.next_action, said.stage, said.deadline) == (Action.KEEP, Action.SHUTDOWN, 1, None)
    assert codes(said) == [Code.IDLE_TOO_LONG, Code.UNDELIVERED]
    assert facts(said, Code.UNDELIVERED) == {"wait_seconds": None}
    open_case = case(warned=0.0, unheard=True)
    assert review(Ledger({A: open_case}), (said,), at(NOW)).cases == {A: open_case}


def test_a_warning_that_reaches_somebody_after_all_is_given_anew() -> None:
    """With the full notice from then on, although the wait for nobody was almost over."""
    said = verdict_on(holder(), "14h", case=case(warned=NOW - 11 * 3600, unheard=True), reached=True)
    assert (said.action, said.stage, said.next_action, said.deadline) == (Action.WARN, 0, Action.SHUTDOWN, NOW + 900)
    assert said.repeated


def test_being_there_changes_nothing_for_who_was_told() -> None:
    """The warning counts from when it was first delivered."""
    said = verdict_on(holder(), "4h", case=case(), reached=True)
    assert said.action is Action.SHUTDOWN


def test_somebody_who_is_there_is_told_before_the_wait_ends_in_a_loss() -> None:
    """Both at the same moment: the warning comes first."""
    said = verdict_on(holder(), "48h", case=case(warned=NOW - 30 * 3600, unheard=True), reached=True)
    assert (said.action, said.deadline) == (Action.WARN, NOW + 900)


def test_the_last_warning_is_the_one_that_is_given_anew() -> None:
    """Of those whose turn has come."""
    ladder = rungs("warn", ("warn", "5m"), ("warn", "9m"), ("shutdown", "15m"))
    said = verdict_on(holder(), "4h", by=rule(ladder=ladder), case=case(2, unheard=True), reached=True)
    assert (said.action, said.stage) == (Action.WARN, 1)


def test_a_rule_that_begins_softly_warns_too_once_somebody_is_there() -> None:
    """It took over from one that had warned nobody: its own first warning is given, and no release in its place."""
    ladder = rungs("release", ("warn", "5m"), ("shutdown", "20m"))
    said = verdict_on(holder(), "4h", by=rule(ladder=ladder), case=case(1, unheard=True), reached=True)
    assert (said.action, said.stage, said.deadline) == (Action.WARN, 1, NOW + 900)


def test_a_ladder_without_a_warning_has_nothing_to_tell_anew() -> None:
    """It goes on as if nobody were there."""
    soft = rule(ladder=rungs("release", ("park", "5m")))
    for there in (False, True):
        said = verdict_on(holder(), "4h", by=soft, case=case(1, unheard=True), reached=there)
        assert (said.action, said.stage) == (Action.PARK, 1)
    running = holder(of=owner(state=OwnerState.EXECUTING))
    said = verdict_on(running, "4h", by=soft, case=case(1, unheard=True), reached=True)
    assert said.action is Action.KEEP


def test_somebody_who_comes_while_a_cell_runs_is_told_what_holds_then() -> None:
    """The rungs that are behind it do not matter: a warning, and nothing that follows by itself."""
    running = holder(of=owner(state=OwnerState.EXECUTING))
    said = verdict_on(running, "4h", by=rule(ladder=SOFT), case=case(3, unheard=True), reached=True)
    assert (said.action, said.stage, said.next_action, said.deadline) == (Action.WARN, 0, None, None)


def test_a_warning_that_could_not_be_given_anew_is_tried_again_later() -> None:
    """Not at each look."""
    failed = case(unheard=True, failures=1, retry_at=NOW + 60)
    said = verdict_on(holder(), "4h", case=failed, reached=True)
    assert said.action is Action.KEEP
    assert Code.RETRY_LATER in codes(said)
    again = verdict_on(holder(), "4h", case=replace(failed, retry_at=NOW), reached=True)
    assert again.action is Action.WARN


def test_a_later_warning_of_the_ladder_names_the_full_notice_too() -> None:
    """Should this one reach somebody, the loss comes one notice after it, and not after the wait for nobody."""
    ladder = rungs("warn", ("warn", "5m"), ("shutdown", "15m"))
    for wait in ("12h", None):
        ruled = rule(ladder=ladder, undelivered=wait)
        said = verdict_on(holder(), "130m", by=ruled, case=case(warned=NOW - 600, unheard=True))
        assert (said.action, said.stage, said.next_action, said.deadline) == (
            Action.WARN,
            1,
            Action.SHUTDOWN,
            NOW + 900,
        )


def test_without_a_case_the_first_warning_is_the_one_to_give() -> None:
    """Also for who asks for it out of turn."""
    bare = Verdict(A, key(100), Action.KEEP, "default", ())
    climb = Climb(rungs(("warn", "1h"), ("shutdown", "2h")), rule(), None, 0.0, NOW)
    assert (climb.told_again(bare).action, climb.told_again(bare).deadline) == (Action.WARN, NOW + 7200)


# --- how the Case of it moves ---------------------------------------------------------------------------------------

WARN = Verdict(
    owner=A,
    root=key(100),
    action=Action.WARN,
    rule="default",
    reasons=(Reason(Code.IDLE_TOO_LONG),),
    stage=0,
    next_action=Action.SHUTDOWN,
    deadline=NOW + 900,
    notice=900.0,
    undelivered=43_200.0,
)


def told(ledger: Ledger, said: Verdict = WARN, now: float = NOW, *, nobody: bool = False) -> Ledger:
    """`said` was given at `now`, to somebody or to `nobody`."""
    answer = outcome(said, Result.DONE, at(now), undelivered=nobody)
    return settle(ledger, said, answer, at(now), notice_of(said, at(now), undelivered=ledger.is_unheard(answer)))


def opened() -> Ledger:
    """A Ledger with a Case in which nothing was done yet."""
    return review(Ledger(), (WARN,), at(NOW))


def test_a_warning_to_nobody_is_noted_as_such_and_promises_more() -> None:
    """The notice that stands says when at the earliest, should nobody come."""
    ledger = told(opened(), nobody=True)
    found = ledger.cases[A]
    assert (found.undelivered, found.warned_at, found.deadline, found.stages_done) == (True, NOW, NOW + 43_200, 1)
    assert ledger.notices[0].deadline == at(NOW + 43_200).wall


def test_a_warning_to_nobody_promises_at_least_the_notice() -> None:
    """Also where the rule gives less for that, and not before the loss is due in any case."""
    short = told(opened(), replace(WARN, undelivered=1.0, deadline=NOW + 10), nobody=True)
    assert short.cases[A].deadline == NOW + 900
    late = told(opened(), replace(WARN, deadline=NOW + 90_000), nobody=True)
    assert late.cases[A].deadline == NOW + 90_000


def test_a_warning_to_nobody_under_a_rule_that_waits_names_no_time() -> None:
    """Nothing follows by itself until somebody is told."""
    ledger = told(opened(), replace(WARN, undelivered=None), nobody=True)
    assert (ledger.cases[A].undelivered, ledger.cases[A].warned_at, ledger.cases[A].deadline) == (True, NOW, None)
    assert (ledger.notices[0].next_action, ledger.notices[0].deadline) == (None, None)


def test_without_a_notice_there_is_none_to_wait_for() -> None:
    """A verdict that names none is not given one; the time for nobody stays as it is."""
    bare = replace(WARN, notice=None, undelivered=0.5)
    assert (wait_before_loss(bare, undelivered=False), wait_before_loss(bare, undelivered=True)) == (0.0, 0.5)
    assert wait_before_loss(WARN, undelivered=False) == 900.0


def test_what_was_promised_to_nobody_does_not_bind_once_somebody_is_told() -> None:
    """The full notice begins with them, and is all there is."""
    anew = replace(WARN, deadline=NOW + 60 + 900)
    found = told(told(opened(), nobody=True), anew, NOW + 60).cases[A]
    assert (found.undelivered, found.warned_at, found.deadline, found.stages_done) == (False, NOW + 60, NOW + 960, 1)


def test_a_second_warning_to_nobody_keeps_the_earlier_promise() -> None:
    """A deadline only ever moves away as long as nothing else has happened."""
    once = told(opened(), nobody=True)
    twice = told(once, replace(WARN, stage=1, undelivered=900.0), NOW + 60, nobody=True)
    assert (twice.cases[A].deadline, twice.cases[A].stages_done) == (NOW + 43_200, 2)
    later = told(once, replace(WARN, stage=1), NOW + 60, nobody=True)
    assert (later.cases[A].warned_at, later.cases[A].deadline) == (NOW + 60, NOW + 60 + 43_200)


def test_who_was_told_is_told_although_a_second_warning_finds_nobody() -> None:
    """The first counts, as promised then; what stands says the same."""
    ledger = told(told(opened()), replace(WARN, stage=1), NOW + 60, nobody=True)
    found = ledger.cases[A]
    assert (found.undelivered, found.warned_at, found.deadline) == (False, NOW, NOW + 960)
    assert (ledger.notices[0].next_action, ledger.notices[0].deadline) == (Action.SHUTDOWN, at(NOW + 960).wall)


def test_a_hint_to_nobody_leaves_nothing_to_wait_for() -> None:
    """It names no loss, so there is none that would have to wait."""
    hint = replace(WARN, deadline=None, next_action=None)
    found = told(opened(), hint, nobody=True).cases[A]
    assert (found.undelivered, found.warned_at, found.deadline) == (False, None, None)
    named = told(told(opened(), hint), nobody=True).cases[A]
    assert (named.undelivered, named.deadline) == (True, NOW + 43_200)


def test_whether_a_warning_is_unheard_depends_on_those_before_it() -> None:
    """It found nobody, and no earlier one that names the loss has reached anybody."""
    lost, found = (outcome(WARN, Result.DONE, at(NOW), undelivered=nobody) for nobody in (True, False))
    assert [ledger.is_unheard(lost) for ledger in (Ledger(), opened(), told(opened(), nobody=True))] == [True] * 3
    assert not told(opened()).is_unheard(lost)
    assert not opened().is_unheard(found)


def test_a_notice_says_what_its_case_holds_to() -> None:
    """A later deadline that was promised before stands in the new warning as well."""
    ledger = told(told(opened(), replace(WARN, deadline=NOW + 7200)), replace(WARN, stage=1), NOW + 60)
    assert ledger.cases[A].deadline == NOW + 7200
    assert ledger.notices[0].deadline == at(NOW + 7200).wall


def test_what_stands_is_what_the_case_holds_to_whatever_was_worded_first() -> None:
    """Which action follows and when, or that nothing does by itself."""
    hint = notice_of(replace(WARN, deadline=None), at(NOW))
    ledger = settle(opened(), WARN, outcome(WARN, Result.DONE, at(NOW)), at(NOW), hint)
    assert ledger.notices == (replace(hint, next_action=Action.SHUTDOWN, deadline=at(NOW + 900).wall),)
    waits, promise = replace(WARN, undelivered=None), notice_of(WARN, at(NOW))
    lost = outcome(waits, Result.DONE, at(NOW), undelivered=True)
    assert settle(opened(), waits, lost, at(NOW), promise).notices == (
        replace(promise, next_action=None, deadline=None),
    )


def test_a_stranded_kernel_is_ended_after_the_wait_for_nobody() -> None:
    """As a story: nobody ever comes. It is warned once, not at each look."""
    ticks = drive(still(40), policy(QUICK), present=lambda _, now: False)
    assert (times(ticks, Action.WARN), times(ticks, Action.SHUTDOWN)) == ([30], [150])


def test_whoever_comes_back_has_the_full_notice() -> None:
    """As a story: the page is opened shortly before the wait is over."""
    ticks = drive(still(45), policy(QUICK), present=lambda _, now: now >= START + 140)
    assert (times(ticks, Action.WARN), times(ticks, Action.SHUTDOWN)) == ([30, 140], [160])


def test_a_kernel_whose_rule_waits_for_somebody_lives_until_they_were_told() -> None:
    """As a story: then one notice, and not more."""
    patient = replace(QUICK, undelivered=None)
    ticks = drive(still(60), policy(patient), present=lambda _, now: now >= START + 200)
    assert (times(ticks, Action.WARN), times(ticks, Action.SHUTDOWN)) == ([30, 200], [220])
    assert acts(drive(still(60), policy(patient), present=lambda _, now: False), Action.SHUTDOWN) == []


# --- soft rungs -----------------------------------------------------------------------------------------------------


def test_each_soft_rung_comes_in_its_turn() -> None:
    """At its own time; the loss that follows is named all the while."""
    for done, idle, due in ((1, "125m", Action.RELEASE), (2, "130m", Action.PARK), (3, "135m", Action.SHUTDOWN)):
        opened_case = case(done, warned=NOW - 900, deadline=NOW)
        said = verdict_on(holder(), idle, by=rule(ladder=SOFT), case=opened_case)
        assert (said.action, said.stage, said.next_action, said.deadline) == (
            due,
            done,
            Action.SHUTDOWN,
            NOW + 60 * (135 - int(idle[:-1])),
        )


def test_before_its_turn_a_soft_rung_says_when_it_comes() -> None:
    """Its deadline is its own, and not that of the loss."""
    said = verdict_on(holder(), "124m", by=rule(ladder=SOFT), case=case(1, warned=NOW - 240, deadline=NOW + 660))
    assert (said.action, said.next_action, said.deadline) == (Action.KEEP, Action.RELEASE, NOW + 60)
    assert codes(said) == [Code.IDLE_TOO_LONG, Code.NOTICE_RUNNING]
    assert facts(said, Code.NOTICE_RUNNING) == {"wait_seconds": 60.0}


def test_a_soft_rung_may_stand_before_any_warning() -> None:
    """Giving back what a framework keeps for later loses nothing."""
    said = verdict_on(holder(), "2h", by=rule(ladder=rungs("release", ("warn", "5m"), ("shutdown", "20m"))))
    assert (said.action, said.stage, said.next_action, said.deadline) == (
        Action.RELEASE,
        0,
        Action.SHUTDOWN,
        NOW + 1200,
    )


def test_nothing_is_parked_before_a_warning_that_names_what_follows() -> None:
    """After a rule that had only released, and after a hint that nothing follows by itself: the warning comes first."""
    for hinted in (None, notice_of(replace(WARN, deadline=None), at(NOW))):
        said = verdict_on(holder(), "4h", by=rule(ladder=SOFT), case=case(2, warned=None, notice=hinted))
        assert (said.action, said.stage, said.next_action) == (Action.WARN, 0, Action.SHUTDOWN)


def test_the_warning_before_parking_is_one_whose_turn_has_come() -> None:
    """And not a later one of the same ladder."""
    ladder = rungs("warn", ("park", "5m"), ("warn", "1h"), ("shutdown", "2h"))
    said = verdict_on(holder(), "3h", by=rule(ladder=ladder), case=case(1, warned=None))
    assert (said.action, said.stage, said.repeated) == (Action.WARN, 0, False)


def test_where_nothing_is_lost_at_the_end_a_hint_is_warning_enough_to_park() -> None:
    """There is no loss that could be named."""
    ruled = rule(ladder=rungs("warn", ("park", "5m")))
    said = verdict_on(holder(), "4h", by=ruled, case=case(1, warned=None, hinted=True))
    assert (said.action, said.stage, said.next_action, said.deadline) == (Action.PARK, 1, None, None)
    said = verdict_on(holder(), "4h", by=ruled, case=case(1))
    assert (said.action, said.stage) == (Action.PARK, 1)


def test_nothing_is_parked_without_a_word_where_nothing_is_lost_either() -> None:
    """A rule took over from one that had only released: it gives its own warning first, and parks then."""
    ruled = rule(ladder=rungs("warn", ("park", "5m")))
    said = verdict_on(holder(), "4h", by=ruled, case=case(1, warned=None))
    assert (said.action, said.stage, said.next_action, said.deadline) == (Action.WARN, 0, None, None)
    hints = replace(GENTLE, ladder=rungs("warn", ("park", "10s")))
    only_releases = replace(GENTLE, ladder=rungs("release"))
    in_force = policy(only_releases), policy(hints)
    ticks = drive(still(20), lambda now: in_force[now >= START + 45])
    assert [act.verdict.action for one in ticks for act in one.acts] == [Action.RELEASE, Action.WARN, Action.PARK]
    carried, rehearsed = Carried(), []
    for picture in still(20):
        scene = rehearse(picture, carried, in_force[picture.taken_at.monotonic >= START + 45], LONGEST_SPAN)
        carried = scene.carried
        rehearsed += [act.verdict.action for act in scene.acts]
    assert rehearsed == [Action.RELEASE, Action.WARN, Action.PARK]


@pytest.mark.parametrize("state", [state for state in OwnerState if state is not OwnerState.IDLE])
@pytest.mark.parametrize("do", ["release", "park"])
def test_who_is_not_idle_is_neither_released_nor_parked(state: OwnerState, do: str) -> None:
    """While a cell runs, above all: only warnings are left of the ladder."""
    held = holder(of=owner(state=state))
    for ladder in (rungs(do), rungs("warn", (do, "5m"), ("shutdown", "15m"))):
        for opened_case in (None, case(1), case(2)):
            said = verdict_on(held, "4h", by=rule(ladder=ladder), case=opened_case)
            assert said.action in (Action.KEEP, Action.WARN)
            assert said.next_action in (None, Action.WARN)


def acted(result: Result, do: Action = Action.RELEASE, stage: int | None = 1, *reasons: Code) -> dict[object, Case]:
    """The Cases after a soft act on a kernel that was warned."""
    why = tuple(Reason(code) for code in reasons or (Code.IDLE_TOO_LONG,))
    said = replace(WARN, action=do, stage=stage, reasons=why)
    acting = begin(told(opened()), said, at(NOW + 60))
    assert acting.cases[A].acting
    return dict(settle(acting, said, outcome(said, result, at(NOW + 61)), at(NOW + 61)).cases)


@pytest.mark.parametrize("do", [Action.RELEASE, Action.PARK])
@pytest.mark.parametrize("result", [Result.DONE, Result.REHEARSED, Result.FAILED, Result.UNSUITED, Result.UNKNOWN])
def test_a_soft_act_is_tried_once(do: Action, result: Result) -> None:
    """However it ended: the next rung follows at its own time, and the warning stands as it was."""
    before = told(opened()).cases[A]
    assert acted(result, do) == {A: replace(before, stages_done=2)}


@pytest.mark.parametrize("result", [Result.ALREADY_GONE, Result.WITHDRAWN])
def test_a_soft_act_without_an_object_closes_the_case(result: Result) -> None:
    """In use again, or gone: whatever comes next begins with a warning."""
    assert acted(result) == {}


def test_a_soft_act_without_a_rung_counts_for_the_next_one() -> None:
    """As if it had been that."""
    assert acted(Result.DONE, Action.RELEASE, None)[A].stages_done == 2


def test_rungs_that_are_done_stay_done() -> None:
    """An act that was begun for an earlier rung does not lead back."""
    far = Ledger({A: case(3)})
    said = replace(WARN, action=Action.RELEASE, stage=1)
    assert settle(far, said, outcome(said, Result.DONE, at(NOW)), at(NOW)).cases[A].stages_done == 3


@pytest.mark.parametrize("do", [Action.RELEASE, Action.PARK, Action.RESUME])
@pytest.mark.parametrize("result", [Result.DONE, Result.FAILED, Result.UNSUITED, Result.WITHDRAWN])
def test_what_a_person_asked_for_does_not_move_the_ladder(do: Action, result: Result) -> None:
    """The warning stands, and the same rung comes next."""
    assert acted(result, do, None, Code.ASKED) == dict(told(opened()).cases)


def test_what_a_person_asked_for_opens_no_case() -> None:
    """There was none, and there is none afterwards."""
    asked = replace(WARN, action=Action.RELEASE, stage=None, deadline=None, reasons=(Reason(Code.ASKED),))
    acting = begin(Ledger(), asked, at(NOW))
    assert acting.cases[A].acting
    assert settle(acting, asked, outcome(asked, Result.DONE, at(NOW)), at(NOW)) == Ledger()


def test_a_soft_act_is_no_shutdown() -> None:
    """The belts do not count it."""
    said = replace(WARN, action=Action.PARK, stage=2)
    ledger = begin(told(opened()), said, at(NOW))
    assert settle(ledger, said, outcome(said, Result.DONE, at(NOW)), at(NOW)).shutdowns_at == ()


@pytest.mark.parametrize("result", [Result.DONE, Result.FAILED, Result.UNSUITED])
def test_a_kernel_meets_every_rung_once_whatever_becomes_of_it(result: Result) -> None:
    """As a story, told to the end."""
    ticks = drive(
        still(20),
        policy(GENTLE),
        script=lambda verdict, now: result if verdict.action.leaves_it_alive else Result.DONE,
    )
    assert [times(ticks, do) for do in (Action.WARN, Action.RELEASE, Action.PARK, Action.SHUTDOWN)] == [
        [30],
        [40],
        [50],
        [60],
    ]


def test_a_soft_act_that_takes_long_puts_off_what_follows() -> None:
    """As a story: two acts on one kernel never run at once."""
    ticks = drive(still(24), policy(GENTLE), takes=25.0)
    assert [times(ticks, do) for do in (Action.RELEASE, Action.PARK, Action.SHUTDOWN)] == [[40], [65], [90]]


def test_a_cell_that_runs_meanwhile_is_spared_the_soft_rungs_too() -> None:
    """As a story: after a cell the loss is named anew before it is parked; a release needs no warning."""
    cell = Moment({"a": Look(state=OwnerState.EXECUTING)})
    story = [Moment({"a": Look()})] * 8 + [cell] * 10 + [Moment({"a": Look()})] * 10
    ticks = drive(film(story), policy(GENTLE))
    assert times(ticks, Action.WARN) == [30, 95]
    assert [times(ticks, do) for do in (Action.RELEASE, Action.PARK, Action.SHUTDOWN)] == [[90], [100], [115]]


# --- rehearsed ------------------------------------------------------------------------------------------------------


def test_a_rehearsal_and_a_simulation_climb_as_the_guard_does() -> None:
    """The same rungs at the same times; and a simulation counts only warnings as warnings."""
    pictures = still(20)
    real = [(act.verdict.action, act.begun.monotonic) for one in drive(pictures, policy(GENTLE)) for act in one.acts]
    carried, rehearsed = Carried(), []
    simulation, simulated = Simulation(policy(GENTLE)), []
    for picture in pictures:
        now = picture.taken_at.monotonic
        scene = rehearse(picture, carried, policy(GENTLE), LONGEST_SPAN)
        carried = scene.carried
        rehearsed += [(act.verdict.action, now) for act in scene.acts]
        simulated += [(act.verdict.action, now) for act in simulation.see(picture, LONGEST_SPAN)]
    assert rehearsed == real
    assert simulated == real
    assert (simulation.tally.warned, len(simulation.tally.ended)) == (1, 1)


def test_who_was_only_released_was_not_warned() -> None:
    """In the sums of a simulation."""
    simulation = Simulation(policy(rule(lasting="30s", ladder=rungs("release"))))
    done = [act for picture in still(20) for act in simulation.see(picture, LONGEST_SPAN)]
    assert [act.verdict.action for act in done] == [Action.RELEASE]
    assert simulation.tally.warned == 0


def test_retries_of_a_warning_do_not_touch_the_soft_rungs() -> None:
    """A warning that fails is tried again; nothing comes before it was given."""
    failing = iter([Result.FAILED])
    ticks = drive(
        still(40),
        policy(GENTLE),
        script=lambda verdict, now: next(failing, Result.DONE) if verdict.action is Action.WARN else Result.DONE,
    )
    assert times(ticks, Action.WARN) == [30, 30 + FIRST_RETRY]
    assert min(times(ticks, Action.RELEASE)) > 30 + FIRST_RETRY


def test_a_rule_that_takes_over_warns_before_it_parks() -> None:
    """As a story: the first rule has only released by then."""
    only_releases = replace(GENTLE, ladder=rungs("release"))
    ticks = drive(still(20), lambda now: policy(only_releases) if now < START + 45 else policy(GENTLE))
    done = [act.verdict.action for one in ticks for act in one.acts]
    assert done == [Action.RELEASE, Action.RELEASE, Action.WARN, Action.PARK, Action.SHUTDOWN]
