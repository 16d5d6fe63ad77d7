"""What becomes of what a kernel has left behind: warned about, ended by a rule that names it, spared like others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace

import pytest

from jupyter_gpu_guard.core.assess import Perceived, decide, perceive
from jupyter_gpu_guard.core.ledger import Ledger, review, settle
from jupyter_gpu_guard.core.left_behind import left_behind
from jupyter_gpu_guard.core.model import Activity, GpuProcess, OwnerKey, OwnerKind, OwnerState, Parked
from jupyter_gpu_guard.core.policy import Action, Match, Policy
from jupyter_gpu_guard.core.verdict import Code, Lease, Result, Verdict

from .build import (
    GIB,
    NOON,
    SERVER,
    at,
    client,
    codes,
    key,
    lease,
    notice_of,
    outcome,
    owner,
    policy,
    process,
    rule,
    snapshot,
)

LEFT = OwnerKey(OwnerKind.LEFTOVERS, "a")
ROOT, WORKER, NEXT = process(100, SERVER), process(101, 100, session=101), process(160, SERVER)
STEP = 60.0


def history(
    under: Policy,
    until: float,
    *,
    compute: float = 0.0,
    leases: Mapping[OwnerKey, Lease] | None = None,
    visitors: int = 0,
) -> tuple[float | None, Verdict]:
    """When the verdict on what was left behind was first an end (seconds), and the last verdict."""
    before = snapshot(ROOT, WORKER, owners=[owner("a", 100)], clients=[client(101)])
    after = snapshot(WORKER, NEXT, owners=[owner("a", 160)], clients=[client(101, compute=compute)])
    after = replace(after, activity={LEFT: Activity(listens=frozenset({8000}), visitors=visitors)})
    seen, ledger = perceive(before, Perceived(), 2 * STEP), Ledger()
    now, ended, last = 0.0, None, None
    while now < until:
        now += STEP
        picture = replace(after, taken_at=at(now))
        seen = perceive(picture, seen, 2 * STEP)
        verdicts = decide(picture, seen, under, leases or {}, ledger)
        ledger = review(ledger, verdicts, picture.taken_at)
        for verdict in verdicts:
            if verdict.action is Action.WARN:
                told = notice_of(verdict, picture.taken_at)
                ledger = settle(
                    ledger, verdict, outcome(verdict, Result.DONE, picture.taken_at), picture.taken_at, told
                )
            if verdict.owner == LEFT:
                last = verdict
                ended = now if ended is None and verdict.action is Action.SHUTDOWN else ended
    assert last is not None
    assert last.root == WORKER.key
    return ended, last


@pytest.mark.parametrize("other", [rule("all", match=Match()), rule("dead", match=Match(owner=OwnerKind.KERNEL))])
def test_it_is_only_warned_about_unless_a_rule_names_it(other) -> None:
    """However long it holds memory without compute."""
    ended, verdict = history(policy(other, rule("default")), 4 * 3600)
    assert ended is None
    assert Code.STATE_WARNS_ONLY in codes(verdict)


@pytest.mark.parametrize(
    "naming",
    [
        rule("left-behind", match=Match(owner=OwnerKind.LEFTOVERS)),
        rule("dead", match=Match(state=OwnerState.DEAD)),
    ],
    ids=lambda each: each.name,
)
def test_a_rule_that_names_it_ends_it_after_the_whole_notice(naming) -> None:
    """By its owner kind, or by its state."""
    ended, verdict = history(policy(naming, rule("default")), 4 * 3600)
    limit = naming.idle.lasting.total_seconds()
    assert ended is not None
    assert ended >= limit + naming.notice.total_seconds()
    assert Code.IDLE_TOO_LONG in codes(verdict)


def test_compute_protects_it() -> None:
    """A job that was detached on purpose works on."""
    under = policy(rule("left-behind", match=Match(owner=OwnerKind.LEFTOVERS)), rule("default"))
    ended, verdict = history(under, 4 * 3600, compute=50.0)
    assert (ended, Code.COMPUTING in codes(verdict)) == (None, True)


def test_visitors_protect_it() -> None:
    """A server that was detached on purpose, and that somebody uses."""
    under = policy(rule("left-behind", match=Match(owner=OwnerKind.LEFTOVERS)), rule("default"))
    assert history(under, 4 * 3600, visitors=1)[0] is None


def test_a_lease_protects_it() -> None:
    """It can be kept like everything else, under its own name."""
    under = policy(rule("left-behind", match=Match(owner=OwnerKind.LEFTOVERS)), rule("default"))
    promise = replace(lease(24 * 3600), owner=LEFT)
    ended, verdict = history(under, 4 * 3600, leases={LEFT: promise})
    assert (ended, Code.LEASED in codes(verdict)) == (None, True)


def test_a_rule_that_keeps_its_notebook_keeps_it() -> None:
    """It belongs to the notebook still."""
    lectures = rule("lectures", match=Match(notebook="a.ipynb"), keep=True)
    under = policy(lectures, rule("left-behind", match=Match(owner=OwnerKind.LEFTOVERS)), rule("default"))
    ended, verdict = history(under, 4 * 3600)
    assert (ended, Code.RULE_KEEPS in codes(verdict)) == (None, True)


def test_it_is_an_owner_of_its_own() -> None:
    """Named as the kernel is, and nothing else of it: neither its ports and pages, nor how its last cell ended."""
    kernel = replace(
        owner("a", 160, used_at=5.0),
        own_ports=frozenset({9000}),
        clients=2,
        failed=True,
        died=True,
        parked=Parked(NOON, 6 * GIB),
    )
    rows = [GpuProcess(key(pid), "gpu-0", GIB, 0.0, process(pid).started_at) for pid in (103, 101, 102)]
    expected = replace(owner("a", 101, state=OwnerState.DEAD), key=LEFT, started_at=process(101).started_at)
    assert asdict(left_behind(kernel, rows)) == asdict(expected)


def test_of_two_that_began_at_once_the_first_pid_is_the_root() -> None:
    """So that it stays the same at each look."""
    rows = [GpuProcess(key(pid, 7), "gpu-0", GIB, 0.0, NOON) for pid in (103, 101, 102)]
    left = left_behind(owner("a", 160), rows)
    assert left is not None
    assert left.root == key(101, 7)


def test_of_nothing_and_of_what_is_no_kernel_nothing_is_left_behind() -> None:
    """Nor while it is not known which process a living kernel is."""
    row = GpuProcess(key(101), "gpu-0", GIB, 0.0, NOON)
    assert left_behind(owner("a", 160), []) is None
    assert left_behind(owner("b", 160, kind=OwnerKind.TENSORBOARD), [row]) is None
    assert left_behind(owner("a", None), [row]) is None
    assert left_behind(owner("a", None, state=OwnerState.DEAD), [row]) is not None


def test_its_name_can_be_written_and_read() -> None:
    """As in addresses of the REST interface."""
    assert OwnerKey.parse("leftovers:a") == LEFT
    assert key(101) == WORKER.key
