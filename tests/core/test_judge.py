"""What should happen to one Holder now, and why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpu_guard.core.judge import Bench, judge
from jupyter_gpu_guard.core.ledger import Case, Ledger
from jupyter_gpu_guard.core.model import OwnerKind, OwnerState, Reading, Unknown, Why
from jupyter_gpu_guard.core.policy import Action, Match, Mode
from jupyter_gpu_guard.core.verdict import Code, Lease, Protection
from jupyter_gpu_guard.core.window import Window
from jupyter_gpu_guard.quantities import parse_duration

from .build import GIB, GONE, at, codes, holder, key, lease, owner, policy, rule, rungs, steady, verdict_on, window

NOW = 100_000.0
A = owner("a").key


def case(
    *,
    warned: float | None = None,
    deadline: float | None = None,
    stages_done: int = 1,
    rule: str = "default",
    acting: bool = False,
    retry_at: float | None = None,
    root: int = 100,
) -> Case:
    """An open Case of kernel `a`: warned at `warned`, with a promise until `deadline`."""
    return Case(
        owner=A,
        root=key(root),
        rule=rule,
        opened_at=NOW - 3600,
        stages_done=stages_done,
        warned_at=warned,
        deadline=deadline,
        acting=acting,
        retry_at=retry_at,
    )


WARNED = case(warned=NOW - 900, deadline=NOW)

# --- thresholds -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("idle", "memory", "compute", "says"),
    [
        ("2h", "12GiB", 0.0, Code.IDLE_TOO_LONG),
        ("1h 59m", "12GiB", 0.0, Code.IDLE_NOT_LONG),
        ("2h", "512MiB", 0.0, Code.IDLE_TOO_LONG),
        ("2h", "511MiB", 0.0, Code.HOLDS_LITTLE),
        ("2h", "0", 0.0, Code.HOLDS_LITTLE),
        ("2h", "12GiB", 4.99, Code.IDLE_TOO_LONG),
        ("2h", "12GiB", 5.0, Code.COMPUTING),
        ("2h", "12GiB", 100.0, Code.COMPUTING),
        ("2h", "12GiB", (0.0, 0.0, 7.0), Code.COMPUTING),
    ],
)
def test_a_holder_is_idle_too_long_at_the_limits_and_not_before(
    idle: str, memory: str, compute: float | tuple[float, ...], says: Code
) -> None:
    """At least the limit of time and of memory, less than the limit of compute; compute on any device spares."""
    verdict = verdict_on(holder(memory, compute), idle)
    assert codes(verdict) == [says]
    assert verdict.action is (Action.WARN if says is Code.IDLE_TOO_LONG else Action.KEEP)


def test_who_holds_nothing_is_left_alone_even_without_a_limit() -> None:
    """A limit of no memory means: as soon as it holds anything."""
    anything = rule(memory_above="0")
    assert codes(verdict_on(holder(0.0), by=anything)) == [Code.HOLDS_LITTLE]
    assert verdict_on(holder(1.0), by=anything).action is Action.WARN


def test_a_first_warning_says_what_follows_and_when() -> None:
    """The loss comes after its own time and after the full notice, whichever is later."""
    usual = verdict_on(holder(), "2h", by=rule(lasting="2h", notice="15m", ladder=rungs("warn", ("shutdown", "15m"))))
    assert (usual.action, usual.stage, usual.next_action) == (Action.WARN, 0, Action.SHUTDOWN)
    assert (usual.deadline, usual.notice, usual.idle_for, usual.compute_below) == (NOW + 900, 900, 7200, 5)
    late = verdict_on(holder(), "2h", by=rule(lasting="2h", notice="15m", ladder=rungs("warn", ("shutdown", "1h"))))
    assert late.deadline == NOW + 3600
    overdue = verdict_on(holder(), "9h", by=rule(lasting="2h", notice="15m", ladder=rungs("warn", ("shutdown", "1h"))))
    assert overdue.deadline == NOW + 900


def test_before_the_limit_it_says_what_comes_first_and_when() -> None:
    """Also when the first step comes some time after the limit."""
    verdict = verdict_on(holder(), "1h", by=rule(lasting="2h", ladder=rungs(("warn", "5m"), ("shutdown", "1h"))))
    assert (verdict.action, verdict.stage, verdict.next_action) == (Action.KEEP, 0, Action.WARN)
    assert verdict.deadline == NOW + 3600 + 300


def test_a_warning_that_is_not_due_yet_says_when_it_is() -> None:
    """`deadline` belongs to `next_action`, which is the warning and not what follows it."""
    verdict = verdict_on(holder(), "2h", by=rule(lasting="2h", ladder=rungs(("warn", "5m"), ("shutdown", "1h"))))
    assert codes(verdict) == [Code.IDLE_TOO_LONG, Code.NOTICE_RUNNING]
    assert (verdict.action, verdict.next_action, verdict.deadline) == (Action.KEEP, Action.WARN, NOW + 300)


def test_a_rule_without_a_time_limit_never_acts() -> None:
    """Never means never."""
    verdict = verdict_on(holder(), "999h", by=rule(lasting=None))
    assert (verdict.action, codes(verdict), verdict.deadline) == (Action.KEEP, [Code.NEVER], None)


# --- what spares ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("memory", "compute"), [(GONE, 0.0), ("12GiB", GONE), ("12GiB", (0.0, GONE)), (GONE, GONE)])
def test_an_unknown_reading_spares(memory: Reading | str, compute: Reading | tuple[Reading, ...]) -> None:
    """Whichever it is, and on whichever device; the Reason names it."""
    verdict = verdict_on(holder(memory, compute), "999h", case=WARNED)
    assert (verdict.action, codes(verdict)) == (Action.KEEP, [Code.UNKNOWN_READING])
    assert verdict.protections == (Protection.UNKNOWN,)
    assert verdict.idle_for is None
    assert verdict.reasons[0].facts["why"] == Why.NOT_READ.value


def test_a_holder_without_a_window_is_spared() -> None:
    """What was not seen before cannot have been seen idle."""
    verdict = verdict_on(holder(), windows={}, case=WARNED)
    assert (verdict.action, codes(verdict)) == (Action.KEEP, [Code.UNKNOWN_READING])


def test_a_lease_spares() -> None:
    """Even with an open Case whose deadline is over; the Reason says who keeps it, until when and why."""
    verdict = verdict_on(holder(), "999h", case=WARNED, leased=lease(NOW + 60))
    assert (verdict.action, codes(verdict), verdict.protections) == (Action.KEEP, [Code.LEASED], (Protection.LEASED,))
    assert (verdict.reasons[0].facts["by"], verdict.reasons[0].facts["reason"]) == ("ada", "long run")


def test_a_keep_rule_spares() -> None:
    """Whatever it matches is left alone, and this is shown as a protection."""
    verdict = verdict_on(holder(), "999h", case=WARNED, by=rule(keep=True))
    assert (verdict.action, codes(verdict)) == (Action.KEEP, [Code.RULE_KEEPS])
    assert verdict.protections == (Protection.EXEMPT,)


def test_an_owner_without_a_process_here_is_not_judged() -> None:
    """There is nothing that could be ended."""
    for state in OwnerState:
        verdict = verdict_on(holder(of=owner("a", None, state=state)), "999h")
        assert (verdict.action, codes(verdict)) == (Action.KEEP, [Code.NOT_LOCAL])


@pytest.mark.parametrize("root", [100, 160])
def test_nothing_happens_to_an_owner_while_an_act_on_it_is_under_way(root: int) -> None:
    """Also when the owner has a new process by now: the act is still about its name."""
    verdict = verdict_on(holder(of=owner("a", root)), "999h", case=case(acting=True))
    assert (verdict.action, codes(verdict)) == (Action.KEEP, [Code.ACTING])


def test_after_a_failure_nothing_happens_before_the_time_of_the_next_attempt() -> None:
    """At this time it is tried again."""
    failed = case(stages_done=0, retry_at=NOW)
    early, due = verdict_on(holder(), now=NOW - 1, case=failed), verdict_on(holder(), now=NOW, case=failed)
    assert (early.action, codes(early)[-1]) == (Action.KEEP, Code.RETRY_LATER)
    assert (early.next_action, early.deadline) == (Action.WARN, NOW)
    assert early.reasons[-1].facts["wait_seconds"] == 1
    assert due.action is Action.WARN


def test_a_computing_cell_is_protected_in_words_too() -> None:
    """The state is shown as a protection."""
    assert Protection.EXECUTING in verdict_on(holder(of=owner(state=OwnerState.EXECUTING))).protections


# --- the ladder -----------------------------------------------------------------------------------------------------


def test_a_loss_comes_at_its_deadline_and_not_a_moment_before() -> None:
    """A second before it the notice is running."""
    before = verdict_on(holder(), "2h 15m", now=NOW - 1, case=WARNED)
    assert (before.action, codes(before)) == (Action.KEEP, [Code.IDLE_TOO_LONG, Code.NOTICE_RUNNING])
    assert (before.next_action, before.deadline, before.reasons[-1].facts["wait_seconds"]) == (Action.SHUTDOWN, NOW, 1)
    due = verdict_on(holder(), "2h 15m", now=NOW, case=WARNED)
    assert (due.action, due.stage, due.next_action) == (Action.SHUTDOWN, 1, Action.SHUTDOWN)


@pytest.mark.parametrize(
    "open_case",
    [
        None,
        case(stages_done=0),
        case(stages_done=1),  # a hint that nothing would follow
        case(stages_done=1, deadline=NOW - 9999),  # the same, after a warning that had named a loss
    ],
)
def test_nothing_is_lost_without_a_warning_that_named_the_loss(open_case: Case | None) -> None:
    """Not even after a hint that nothing would follow by itself: then it is warned first, with the full notice."""
    verdict = verdict_on(holder(), "99h", case=open_case)
    assert (verdict.action, verdict.stage, verdict.next_action) == (Action.WARN, 0, Action.SHUTDOWN)
    assert verdict.deadline == NOW + 900


def test_a_hint_does_not_undo_an_earlier_promise() -> None:
    """When the loss is named anew, it is not before the deadline that was named first."""
    verdict = verdict_on(holder(), "99h", case=case(stages_done=1, deadline=NOW + 5000))
    assert (verdict.action, verdict.deadline) == (Action.WARN, NOW + 5000)


@pytest.mark.parametrize("notice", ["15m", "0"])
def test_a_ladder_without_a_warning_never_ends_anything(notice: str) -> None:
    """Nobody could have been told, however short the notice is."""
    blunt = rule(ladder=rungs("shutdown"), notice=notice)
    for open_case in (None, case(stages_done=0), case(stages_done=0, deadline=NOW - 9999)):
        verdict = verdict_on(holder(), "99h", by=blunt, case=open_case)
        assert (verdict.action, codes(verdict)[-1]) == (Action.KEEP, Code.NOTICE_RUNNING)
        assert verdict.reasons[-1].facts["wait_seconds"] == parse_duration(notice).total_seconds()


def test_a_hint_is_not_repeated() -> None:
    """Only what would lose something needs a warning that names it; the next rung that warns comes in its turn."""
    twice = rule(ladder=rungs("warn", ("warn", "20m"), ("shutdown", "1h")))
    told = case(stages_done=1)
    assert verdict_on(holder(), "2h 10m", by=twice, case=told).action is Action.KEEP
    assert verdict_on(holder(), "2h 20m", by=twice, case=told).stage == 1


def test_a_rule_that_takes_over_gives_its_own_notice() -> None:
    """Its longer notice is kept, counted from the warning; its shorter one does not bring the deadline closer."""
    warned = case(warned=NOW, deadline=NOW + 900, rule="another")
    assert verdict_on(holder(), "9h", case=warned, by=rule(notice="1h")).deadline == NOW + 3600
    assert verdict_on(holder(), "9h", case=warned, by=rule(notice="1m")).deadline == NOW + 900


def test_a_rule_that_takes_over_brings_its_own_time() -> None:
    """Its later rung is waited for, although the deadline that was promised under another rule is over."""
    slow = rule(lasting="2h", notice="15m", ladder=rungs("warn", ("shutdown", "5h")))
    verdict = verdict_on(holder(), "3h", by=slow, case=case(warned=NOW - 900, deadline=NOW, rule="another"))
    assert (verdict.action, verdict.deadline) == (Action.KEEP, NOW + 4 * 3600)


def test_after_the_last_rung_nothing_more_is_due() -> None:
    """The Case stays, and says so."""
    verdict = verdict_on(holder(), "9h", case=case(stages_done=2, warned=NOW - 3600, deadline=NOW - 2700))
    assert (verdict.action, codes(verdict)) == (Action.KEEP, [Code.IDLE_TOO_LONG, Code.LADDER_DONE])
    assert (verdict.stage, verdict.next_action, verdict.deadline) == (None, None, None)


def test_a_warning_alone_announces_nothing() -> None:
    """A ladder that only warns has no deadline."""
    verdict = verdict_on(holder(), by=rule(ladder=rungs("warn")))
    assert (verdict.action, verdict.next_action, verdict.deadline) == (Action.WARN, None, None)


def test_a_second_warning_comes_when_it_is_due() -> None:
    """And not before; what was promised stays."""
    twice = rule(lasting="2h", notice="30m", ladder=rungs("warn", ("warn", "20m"), ("shutdown", "30m")))
    once = case(warned=NOW - 1200, deadline=NOW + 600)
    assert verdict_on(holder(), "2h 19m", by=twice, case=once).action is Action.KEEP
    second = verdict_on(holder(), "2h 20m", by=twice, case=once)
    assert (second.action, second.stage, second.deadline) == (Action.WARN, 1, NOW + 600)


# --- states ---------------------------------------------------------------------------------------------------------

NOT_IDLE = [state for state in OwnerState if state is not OwnerState.IDLE]


@pytest.mark.parametrize("state", NOT_IDLE)
def test_an_owner_that_is_not_idle_is_only_warned(state: OwnerState) -> None:
    """It is told, without a deadline; then its ladder is done, however long it lasts."""
    held = holder(of=owner(state=state))
    first = verdict_on(held, "99h")
    assert (first.action, first.next_action, first.deadline) == (Action.WARN, None, None)
    assert codes(first) == [Code.IDLE_TOO_LONG, Code.STATE_WARNS_ONLY]
    told = verdict_on(held, "99h", case=WARNED)
    assert (told.action, codes(told)[-1]) == (Action.KEEP, Code.LADDER_DONE)


@pytest.mark.parametrize("state", NOT_IDLE)
def test_a_rule_that_names_a_state_uses_its_whole_ladder(state: OwnerState) -> None:
    """The admin has asked for it by name; a rule that names another state has not."""
    held = holder(of=owner(state=state))
    assert verdict_on(held, case=WARNED, by=policy(rule("it", match=Match(state=state)), rule())).action is (
        Action.SHUTDOWN
    )
    other = OwnerState.IDLE
    assert verdict_on(held, case=WARNED, by=policy(rule("it", match=Match(state=other)), rule())).action is Action.KEEP


def test_a_running_cell_is_not_charged_for_the_time_before_the_last_one_ended() -> None:
    """Who runs one cell after the other without the GPU is in use; what a cell starts as processes is not its use."""
    for state, idle_for in ((OwnerState.EXECUTING, 600), (OwnerState.IDLE, 5)):
        seen = Window(key(100), NOW - 20_000, NOW, 0.0, used_at=NOW - 600, grown_at=NOW - 5)
        verdict = verdict_on(holder(of=owner(state=state)), windows={A: seen})
        assert verdict.idle_for == idle_for


# --- rules ----------------------------------------------------------------------------------------------------------


def test_the_first_rule_that_matches_decides() -> None:
    """Those after it do not count, however well they match."""
    rules = policy(
        rule("boards", match=Match(owner=OwnerKind.TENSORBOARD), lasting="1m"),
        rule("mine", match=Match(notebook="a.ipynb"), lasting="5h"),
        rule("also mine", match=Match(notebook="a*"), lasting="1m"),
        rule(lasting="2h"),
    )
    assert (verdict_on(holder(), "4h", by=rules).rule, verdict_on(holder(), "4h", by=rules).action) == (
        "mine",
        Action.KEEP,
    )
    assert verdict_on(holder(of=owner("ab")), "4h", by=rules).rule == "also mine"
    assert verdict_on(holder(of=owner("b")), "4h", by=rules).rule == "default"
    assert verdict_on(holder(of=owner("t", kind=OwnerKind.TENSORBOARD)), "4h", by=rules).rule == "boards"


def test_a_keep_rule_stands_in_the_same_order() -> None:
    """It spares what it matches first, and nothing that an earlier rule has taken."""
    rules = policy(rule("mine", match=Match(notebook="a.ipynb")), rule("all", match=Match(), keep=True), rule())
    assert verdict_on(holder(), by=rules).action is Action.WARN
    assert verdict_on(holder(of=owner("b")), by=rules).rule == "all"


def test_every_holder_gets_one_verdict_in_its_order() -> None:
    """Those that are kept too, and each with a Reason."""
    held = (holder(), holder(0.0, of=owner("b", 200)), holder(GONE, of=owner("c", 300)), holder(of=owner("d", None)))
    bench = Bench(policy(), {A: window("9h", now=NOW)}, {}, Ledger(), {}, at(NOW))
    verdicts = judge(held, bench)
    assert [verdict.owner for verdict in verdicts] == [one.owner.key for one in held]
    assert all(verdict.reasons for verdict in verdicts)


# --- properties -----------------------------------------------------------------------------------------------------

MEMORY = st.sampled_from([0.0, 2.0**20, 12 * GIB, GONE, Unknown(Why.DEVICE_LOST)])
SHARES = st.lists(st.sampled_from([0.0, 0.0, 3.0, 5.0, 90.0, GONE]), min_size=1, max_size=3).map(tuple)
IDLES = st.integers(0, 30_000).map(lambda s: f"{s}s")
CASES = st.one_of(
    st.none(),
    st.builds(
        case,
        warned=st.sampled_from([None, NOW - 9000, NOW - 901, NOW - 899]),
        deadline=st.sampled_from([None, NOW - 1, NOW, NOW + 1]),
        stages_done=st.integers(0, 3),
        acting=st.booleans(),
        retry_at=st.sampled_from([None, NOW - 1, NOW + 1]),
        root=st.sampled_from([100, 160]),
    ),
)
STATES = st.sampled_from(OwnerState)


@steady
@given(MEMORY, SHARES, IDLES, CASES, STATES, st.sampled_from([None, lease(NOW), lease(NOW + 1)]))
def test_an_action_has_grounds(
    memory: Reading,
    shares: tuple[Reading, ...],
    idle: str,
    open_case: Case | None,
    state: OwnerState,
    leased: Lease | None,
) -> None:
    """Whatever is open: it takes known readings, memory, no compute, the full time and nobody who keeps it."""
    held = holder(memory, shares, of=owner(state=state))
    verdict = verdict_on(held, idle, case=open_case, leased=leased)
    assert verdict.reasons
    assert verdict.owner == held.owner.key
    if verdict.action is Action.KEEP:
        return
    assert leased is None
    assert isinstance(memory, float)
    assert memory >= 512 * 2**20
    assert all(isinstance(share, float) and share < 5 for share in shares)
    assert verdict.idle_for is not None
    assert verdict.idle_for >= 7200
    if verdict.action is Action.SHUTDOWN:
        assert state is OwnerState.IDLE
        assert open_case is not None
        assert open_case.root == key(100)
        assert open_case.warned_at is not None
        assert open_case.warned_at + 900 <= NOW
        assert open_case.deadline is not None
        assert open_case.deadline <= NOW


HARM = {Action.KEEP: 0, Action.WARN: 1, Action.SHUTDOWN: 2}


@steady
@given(IDLES, CASES, STATES, st.integers(0, 300), st.integers(0, 300))
def test_a_longer_limit_never_hurries(
    idle: str, open_case: Case | None, state: OwnerState, minutes: int, more: int
) -> None:
    """With a longer `for` and all else equal, no verdict is harsher and no deadline is earlier."""
    held = holder(of=owner(state=state))
    short = verdict_on(held, idle, case=open_case, by=rule(lasting=f"{minutes}m"))
    long = verdict_on(held, idle, case=open_case, by=rule(lasting=f"{minutes + more}m"))
    assert HARM[long.action] <= HARM[short.action]
    if short.deadline is not None and long.deadline is not None and short.next_action is long.next_action:
        assert long.deadline >= short.deadline


@steady
@given(IDLES, CASES, STATES, st.integers(0, 60), st.integers(0, 60))
def test_a_longer_notice_never_hurries(
    idle: str, open_case: Case | None, state: OwnerState, minutes: int, more: int
) -> None:
    """The same for the notice."""
    held, ladder = holder(of=owner(state=state)), rungs("warn", ("shutdown", "1m"))
    short = verdict_on(held, idle, case=open_case, by=rule(notice=f"{minutes}m", ladder=ladder))
    long = verdict_on(held, idle, case=open_case, by=rule(notice=f"{minutes + more}m", ladder=ladder))
    assert HARM[long.action] <= HARM[short.action]
    if short.deadline is not None and long.deadline is not None:
        assert long.deadline >= short.deadline


# --- what observing says --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "said"), [(Mode.OBSERVE, True), (Mode.ENFORCE, False)])
def test_only_a_holder_over_its_limit_is_told_that_the_guard_observes(mode: Mode, said: bool) -> None:
    """In observe the reasons say that nothing will be ended, and only where something else would have been."""
    rules = policy(mode=mode)
    over = verdict_on(holder(), "3h", by=rules)
    assert (Code.OBSERVING in codes(over)) is said
    assert over.action is Action.WARN
    assert Code.OBSERVING not in codes(verdict_on(holder(), "1h", by=rules))
