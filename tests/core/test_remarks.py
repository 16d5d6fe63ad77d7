"""What is judged by more than memory and compute: TensorBoards, estimates, breakpoints, remains of a run."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from jupyter_gpu_guard.core.attribute import attribute
from jupyter_gpu_guard.core.ledger import Ledger, review, settle
from jupyter_gpu_guard.core.model import (
    Activity,
    Evidence,
    GpuProcess,
    Holder,
    Holding,
    OwnerKind,
    OwnerState,
    Parked,
    Reading,
    Unknown,
    Waiting,
    Why,
)
from jupyter_gpu_guard.core.policy import Action, Match, Rule
from jupyter_gpu_guard.core.remarks import remarks
from jupyter_gpu_guard.core.verdict import Code, Protection, Reason, Result, Verdict

from .build import (
    GIB,
    GONE,
    NOON,
    SERVER,
    at,
    client,
    codes,
    device,
    holder,
    key,
    notice_of,
    outcome,
    owner,
    process,
    rule,
    snapshot,
    verdict_on,
    window,
)
from .test_attribute import the
from .test_judge import WARNED, case

NOW = 100_000.0
LEFT = GpuProcess(key(300), "gpu-0", 4 * GIB, 0.0, NOON)


def unwatched(limit: str | None, lasting: str = "1h") -> Rule:
    """A rule for TensorBoards that nobody looks at."""
    usual = rule(lasting=lasting)
    return usual if limit is None else replace(usual, idle=replace(usual.idle, unwatched_for=timedelta(minutes=30)))


def board(memory: str = "0", activity: Activity | None = Activity()) -> Holder:  # noqa: B008 - a frozen value
    """A TensorBoard."""
    return replace(holder(memory, of=owner("b", kind=OwnerKind.TENSORBOARD)), activity=activity)


def estimated(memory: str = "12GiB") -> Holder:
    """A kernel that is only taken to be on the device."""
    row = GpuProcess(key(100), "gpu-0", holder(memory).memory, 0.0, NOON, evidence=Evidence.ESTIMATE)
    return Holder(owner(), (Holding("gpu-0", (row,)),), (key(100),))


def spinning(*, used: float = -8000, quiet: float | None = None, compute: float = 100.0) -> tuple[Holder, Verdict]:
    """A kernel at rest whose child computes, and the verdict; `used` and `quiet` are seconds before or after now."""
    rows = (GpuProcess(key(101), "gpu-0", 8 * GIB, compute, NOON), GpuProcess(key(102), "gpu-1", 8 * GIB, 0.0, NOON))
    held = Holder(owner(), (Holding("gpu-0", rows[:1]), Holding("gpu-1", rows[1:])), (key(100), key(101), key(102)))
    seen = window("3h", now=NOW, seen="3h")
    seen = replace(seen, used_at=NOW + used, quiet_at=None if quiet is None else NOW + quiet, compute=compute)
    return held, verdict_on(held, windows={held.owner.key: seen})


# --- TensorBoards ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("idle", "memory", "limit", "says"),
    [
        ("2h", "0", "30m", Code.UNWATCHED),
        ("1h", "0", "30m", Code.UNWATCHED),
        ("45m", "0", "30m", Code.WATCHED),  # `for` must have passed too
        ("2h", "0", None, Code.HOLDS_LITTLE),
        ("2h", "11GiB", None, Code.IDLE_TOO_LONG),
        ("2h", "11GiB", "30m", Code.UNWATCHED),
    ],
)
def test_a_tensorboard_that_nobody_watches(idle: str, memory: str, limit: str | None, says: Code) -> None:
    """With a limit of its own it is due without any GPU memory; without one it is judged like everything else."""
    verdict = verdict_on(board(memory), idle, by=unwatched(limit))
    assert codes(verdict)[0] is says
    assert (verdict.action is Action.WARN) == (says in {Code.UNWATCHED, Code.IDLE_TOO_LONG})


def test_the_limit_for_tensorboards_does_not_concern_kernels() -> None:
    """A kernel without GPU memory is never due."""
    assert codes(verdict_on(holder("0"), "9h", by=unwatched("30m"))) == [Code.HOLDS_LITTLE]


@pytest.mark.parametrize("activity", [None, Activity(visitors=None)])
def test_visitors_that_cannot_be_counted_are_not_none(activity: Activity | None) -> None:
    """Whether anybody watches is not known, so nothing happens."""
    verdict = verdict_on(board(activity=activity), "9h", by=unwatched("30m"))
    assert (verdict.action, codes(verdict)) == (Action.KEEP, [Code.UNKNOWN_READING])


def test_never_stays_never() -> None:
    """A rule without a time limit has none for TensorBoards either."""
    never = unwatched("30m")
    never = replace(never, idle=replace(never.idle, lasting=None))
    assert codes(verdict_on(board(), "9h", by=never)) == [Code.NEVER]


# --- what the figures rest on ---------------------------------------------------------------------------------------


def test_nothing_is_ended_on_an_estimate() -> None:
    """A hint without a deadline is all, unless the rule trusts estimates."""
    verdict = verdict_on(estimated())
    assert (verdict.action, verdict.next_action, verdict.deadline) == (Action.WARN, None, None)
    assert Code.ESTIMATED in codes(verdict)
    assert verdict.protections == (Protection.ESTIMATED,)
    assert verdict_on(estimated(), case=WARNED).action is Action.KEEP

    trusted = verdict_on(estimated(), by=replace(rule(), trust_estimates=True), case=WARNED)
    assert trusted.action is Action.SHUTDOWN
    assert Code.ESTIMATED in codes(trusted)
    assert trusted.protections == ()


UNMEASURED = Unknown(Why.NOT_SUPPORTED)


def instance(overall: Reading, *pids: int, compute: Reading = UNMEASURED, alien: bool = False) -> Holder:
    """The kernel `a` with processes on an instance that measures only the whole; with a stranger there, if `alien`."""
    on = [client(pid, compute=compute, on="mig-0") for pid in pids] + [client(7, compute=compute, on="mig-0")] * alien
    seen = snapshot(
        process(7),
        process(100, SERVER),
        process(101, 100),
        owners=[owner("a", 100)],
        clients=on,
        devices=[replace(device("mig-0"), overall=overall)],
    )
    return the("a", attribute(seen, {}))


def test_who_is_alone_on_a_device_has_its_compute() -> None:
    """Several processes of one owner are one owner. The Reason says what stands in."""
    held = instance(3.0, 100, 101)
    assert held.compute == 3.0
    assert held.holdings[0].evidence is Evidence.SOLE_OWNER
    assert Code.SOLE_OWNER in codes(verdict_on(held))


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(instance(3.0, 100, alien=True), id="a stranger is there too"),
        pytest.param(instance(Unknown(Why.NO_PERMISSION), 100), id="the device is not measured either"),
        pytest.param(instance(0.0, 100, compute=Unknown(Why.DRIVER_ERROR)), id="a failed call is no lack"),
        pytest.param(instance(0.0, 100, compute=Unknown(Why.FIRST_READING)), id="nor is a first reading"),
    ],
)
def test_otherwise_the_device_stands_for_nobody(held: Holder) -> None:
    """Then compute is not known, and nothing is idle."""
    assert isinstance(held.compute, Unknown)
    assert verdict_on(held).action is Action.KEEP


def test_what_is_measured_needs_no_stand_in() -> None:
    """The process's own figure counts, whatever the device says."""
    held = instance(100.0, 100, compute=1.0)
    assert (held.compute, held.holdings[0].evidence) == (1.0, Evidence.PROCESS)


# --- halted, failed, left behind ------------------------------------------------------------------------------------


def test_a_breakpoint_with_somebody_connected_is_spared_by_every_rule() -> None:
    """Even by one that names the state."""
    at_it = replace(owner(state=OwnerState.BREAKPOINT), clients=1)
    verdict = verdict_on(holder(of=at_it), by=rule(match=Match(state=OwnerState.BREAKPOINT)), case=WARNED)
    assert (verdict.action, codes(verdict)) == (Action.KEEP, [Code.ATTENDED])
    assert Protection.ATTENDED in verdict.protections


def test_a_failed_cell_is_named_as_what_may_hold_the_memory() -> None:
    """Only while the kernel is idle and holds some."""
    failed = replace(owner(), failed=True)
    assert Code.LAST_CELL_FAILED in codes(verdict_on(holder(of=failed)))
    assert Code.LAST_CELL_FAILED in codes(verdict_on(holder(1.0, of=failed)))
    assert Code.LAST_CELL_FAILED not in codes(verdict_on(holder("0", of=failed)))
    running = replace(failed, state=OwnerState.EXECUTING)
    assert Code.LAST_CELL_FAILED not in codes(verdict_on(holder(of=running)))


@pytest.mark.parametrize("died", [False, True])
def test_what_was_left_behind_is_named_and_not_charged(died: bool) -> None:
    """Also when the verdict is about something else."""
    held = replace(holder("0", of=replace(owner(), died=died)), leftovers=(LEFT,))
    verdict = verdict_on(held)
    assert codes(verdict) == [Code.HOLDS_LITTLE, Code.LEFT_BEHIND]
    assert verdict.reasons[1].facts == {"processes": 1, "memory_bytes": 4 * GIB, "died": int(died)}


# --- a run that has ended and goes on -------------------------------------------------------------------------------


def test_processes_that_compute_on_after_the_run_are_told_once() -> None:
    """A hint without a deadline, which stands for as long as it is true."""
    held, verdict = spinning()
    assert (verdict.action, verdict.next_action, verdict.deadline) == (Action.WARN, None, None)
    assert verdict.notice is None
    assert codes(verdict) == [Code.COMPUTING, Code.RUN_ENDED]
    assert verdict.reasons[1].facts == {"processes": 2, "memory_bytes": 16 * GIB, "compute_percent": 100.0}

    now = at(NOW)
    ledger = review(Ledger(), [verdict], now)
    ledger = settle(ledger, verdict, outcome(verdict, Result.DONE, now), now, notice_of(verdict, now))
    again = verdict_on(
        held,
        case=ledger.cases[held.owner.key],
        windows={held.owner.key: replace(window("3h", now=NOW, seen="3h"), used_at=NOW - 8000, compute=100.0)},
    )
    assert again.action is Action.KEEP
    (notice,) = review(ledger, [again], now).notices
    assert notice.deadline is None

    ended = verdict_on(holder(compute=50.0), case=ledger.cases[held.owner.key])
    assert review(ledger, [ended], now).notices == ()


@pytest.mark.parametrize(
    "verdict",
    [
        pytest.param(spinning(used=-60)[1], id="a cell has just ended"),
        pytest.param(spinning(quiet=-60)[1], id="it paused a minute ago"),
        pytest.param(spinning(compute=0.0)[1], id="nobody computes"),
    ],
)
def test_a_run_that_is_alive_is_not_told(verdict: Verdict) -> None:
    """Training in the background rests now and then, and so does whoever has just run a cell."""
    assert Code.RUN_ENDED not in codes(verdict)


def test_a_hint_never_stands_in_the_place_of_a_warning() -> None:
    """Work after a warning that named a loss withdraws that first."""
    held, _ = spinning()
    seen = replace(window("3h", now=NOW, seen="3h"), used_at=NOW - 8000, compute=100.0)
    verdict = verdict_on(held, case=WARNED, windows={held.owner.key: seen})
    assert (verdict.action, codes(verdict)) == (Action.KEEP, [Code.COMPUTING])
    assert review(Ledger({held.owner.key: WARNED}), [verdict], at(NOW)).cases == {}
    told = verdict_on(held, case=case(), windows={held.owner.key: seen})
    assert (told.action, codes(told)) == (Action.KEEP, [Code.COMPUTING, Code.RUN_ENDED])


def test_processes_that_hold_next_to_nothing_are_not_told() -> None:
    """Although they compute on, and a word about them was given before."""
    held, _ = spinning()
    seen = replace(window("3h", now=NOW, seen="3h"), used_at=NOW - 8000, compute=100.0)
    told = verdict_on(held, by=rule(memory_above="40GiB"), case=case(), windows={held.owner.key: seen})
    assert (told.action, codes(told)) == (Action.KEEP, [Code.HOLDS_LITTLE])


def test_what_is_parked_says_so_and_what_it_waits_for() -> None:
    """The reason names the device and who holds it; how much is free may not be known."""
    parked = Parked(NOON, 6 * GIB)
    assert remarks(Holder(replace(owner(), parked=parked))) == (Reason(Code.PARKED, {"memory_bytes": 6 * GIB}),)
    for free, said in ((GIB, GIB), (GONE, None)):
        waiting = Waiting(NOON, "GPU 0", 6 * GIB, free, "others 79.0 GiB")
        found = remarks(Holder(replace(owner(), parked=replace(parked, waiting=waiting))))
        facts = {"device": "GPU 0", "needed_bytes": 6 * GIB, "free_bytes": said, "held_by": "others 79.0 GiB"}
        assert found[1] == Reason(Code.WAITING_FOR_ROOM, facts)
