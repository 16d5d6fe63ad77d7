"""Whose process it is."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpu_guard.core.attribute import Attribution, attribute
from jupyter_gpu_guard.core.model import (
    DeviceState,
    GpuProcess,
    Holder,
    Owner,
    OwnerKey,
    OwnerKind,
    OwnerState,
    Process,
    ProcessKey,
    Snapshot,
    Unknown,
    Why,
    is_known,
)

from .build import GIB, SERVER, client, device, key, owner, process, snapshot, steady

T = TypeVar("T")


def watch(*pictures: Snapshot) -> Attribution:
    """Attribute the pictures one after the other; the last answer."""
    found = Attribution()
    for picture in pictures:
        found = attribute(picture, found.lineage)
    return found


def the(name: str, found: Attribution) -> Holder:
    """The Holder of the owner called `name`."""
    return next(
        held for held in found.holders if held.owner.key.id == name and held.owner.key.kind is not OwnerKind.LEFTOVERS
    )


def left_by(name: str, found: Attribution) -> Holder | None:
    """The Holder that is made of what the kernel called `name` has left behind."""
    sought = OwnerKey(OwnerKind.LEFTOVERS, name)
    return next((held for held in found.holders if held.owner.key == sought), None)


def charged(held: Holder) -> list[int]:
    """The pids that it is charged for."""
    return [row.key.pid for holding in held.holdings for row in holding.processes]


def leftover(held: Holder) -> list[int]:
    """The pids that an earlier root of it has left behind."""
    return [row.key.pid for row in held.leftovers]


def rows_of(held: Holder) -> list[GpuProcess]:
    """The GPU processes that it is charged for."""
    return [row for holding in held.holdings for row in holding.processes]


def strange(found: Attribution) -> int:
    """How many strangers there are on all devices."""
    return sum(row.processes for row in found.strangers)


ROOT = process(100, SERVER)

# --- who belongs to whom --------------------------------------------------------------------------------------------


def test_a_kernel_is_charged_for_itself_and_its_descendants() -> None:
    """The root, its child and its grandchild belong to the kernel; a process beside it is a stranger."""
    child, grandchild = process(101, 100, session=100), process(102, 101, session=100)
    found = watch(
        snapshot(
            ROOT,
            child,
            grandchild,
            process(200, 1),
            owners=[owner("a", 100)],
            clients=[client(pid, pid * GIB) for pid in (100, 101, 102, 200)],
        )
    )
    assert charged(the("a", found)) == [100, 101, 102]
    assert the("a", found).memory == 303 * GIB
    assert the("a", found).tree == (ROOT.key, child.key, grandchild.key)
    assert [(row.device, row.processes, row.memory) for row in found.strangers] == [("gpu-0", 1, 200 * GIB)]


def test_an_owner_that_holds_nothing_is_a_holder_too() -> None:
    """Every owner is in the answer, with nothing held: that is known to be 0, not unknown."""
    held = the("a", watch(snapshot(ROOT, owners=[owner("a", 100)])))
    assert (held.holdings, held.memory, held.compute, held.unknown) == ((), 0, 0, None)


def test_a_child_in_a_session_of_its_own_belongs_to_the_kernel_while_its_parent_lives() -> None:
    """`setsid` changes the session, not the parents."""
    found = watch(snapshot(ROOT, process(101, 100, session=101), owners=[owner("a", 100)], clients=[client(101)]))
    assert charged(the("a", found)) == [101]


def test_a_child_in_a_session_of_its_own_stays_when_its_parent_dies_after_it_was_seen() -> None:
    """Once seen, a process is remembered by its identity, whoever its parent becomes."""
    middle, worker = process(101, 100, session=101), process(102, 101, session=102)
    before = snapshot(ROOT, middle, worker, owners=[owner("a", 100)])
    after = snapshot(ROOT, replace(worker, parent=1), owners=[owner("a", 100)], clients=[client(102)])
    assert charged(the("a", watch(before, after))) == [102]
    assert charged(the("a", watch(before, after, after, after))) == [102]


def test_a_child_in_a_session_of_its_own_whose_parent_died_unseen_is_a_stranger() -> None:
    """Nothing ties it to the kernel any more: what is not surely ours is never touched."""
    found = watch(snapshot(ROOT, process(102, 1, session=102), owners=[owner("a", 100)], clients=[client(102)]))
    assert charged(the("a", found)) == []
    assert strange(found) == 1


def test_a_member_of_the_kernels_session_belongs_to_it_even_if_its_parents_died_unseen() -> None:
    """A kernel leads a session: whoever is in it came from there."""
    found = watch(snapshot(ROOT, process(102, 1, session=100), owners=[owner("a", 100)], clients=[client(102)]))
    assert charged(the("a", found)) == [102]


def test_the_child_of_an_orphan_in_the_kernels_session_belongs_to_the_kernel() -> None:
    """Also when this child leads a session of its own."""
    orphan, child = process(102, 1, session=100), process(103, 102, session=103)
    found = watch(snapshot(ROOT, orphan, child, owners=[owner("a", 100)], clients=[client(103)]))
    assert charged(the("a", found)) == [103]


def test_a_child_of_the_same_clock_tick_belongs_to_the_kernel() -> None:
    """A tick is ten milliseconds: a parent and its child may start in the same one."""
    quick = process(101, 100, start=ROOT.key.start_ticks, session=101)
    orphan = process(102, 1, start=ROOT.key.start_ticks, session=100)
    found = watch(snapshot(ROOT, quick, orphan, owners=[owner("a", 100)], clients=[client(101), client(102)]))
    assert charged(the("a", found)) == [101, 102]


def test_a_session_number_from_before_the_kernel_is_no_tie_to_it() -> None:
    """A process that is older than the leader of its session cannot have come from this leader."""
    older = process(102, 1, start=5, session=100)
    assert strange(watch(snapshot(ROOT, older, owners=[owner("a", 100)], clients=[client(102)]))) == 1


def test_a_child_of_the_server_that_is_no_owner_is_a_stranger() -> None:
    """The server itself is nobody's kernel: a language server or a proxy beside the kernels is left alone."""
    proxy = process(300, SERVER, session=SERVER)
    assert strange(watch(snapshot(ROOT, proxy, owners=[owner("a", 100)], clients=[client(300)]))) == 1


def test_a_zombie_holds_nothing() -> None:
    """What the driver still lists for a zombie is charged to nobody, and it is not in the tree."""
    dead = process(101, 100, session=100, state="Z")
    found = watch(snapshot(ROOT, dead, owners=[owner("a", 100)], clients=[client(101)]))
    assert the("a", found).tree == (ROOT.key,)
    assert charged(the("a", found)) == []
    assert strange(found) == 0


def test_a_circle_of_parents_ends() -> None:
    """A torn process table may show two processes as each other's parents; nobody owns them, and nothing hangs."""
    one, two = process(101, 102, start=50), process(102, 101, start=50)
    assert strange(watch(snapshot(ROOT, one, two, owners=[owner("a", 100)], clients=[client(101), client(102)]))) == 2


# --- nested owners --------------------------------------------------------------------------------------------------

BOARD = owner("tb", 150, kind=OwnerKind.TENSORBOARD)


def test_a_tensorboard_under_a_kernel_is_charged_itself() -> None:
    """The nearest owner among the ancestors counts: neither the board nor its children burden the kernel."""
    board, server = process(150, 100, session=100), process(151, 150, session=100)
    found = watch(
        snapshot(ROOT, board, server, owners=[owner("a", 100), BOARD], clients=[client(150), client(151), client(100)])
    )
    assert charged(the("tb", found)) == [150, 151]
    assert charged(the("a", found)) == [100]
    assert the("a", found).tree == (ROOT.key,)


def test_a_tensorboard_that_is_found_late_takes_its_children_with_it() -> None:
    """What was the kernel's as long as nobody knew of the board is the board's from then on, and stays so."""
    board, server = process(150, 100, session=100), process(151, 150, session=100)
    before = snapshot(ROOT, board, server, owners=[owner("a", 100)], clients=[client(151)])
    after = snapshot(ROOT, board, server, owners=[owner("a", 100), BOARD], clients=[client(151)])
    assert charged(the("a", watch(before))) == [151]
    for found in (watch(before, after), watch(before, after, after)):
        assert charged(the("tb", found)) == [151]
        assert charged(the("a", found)) == []


def test_the_orphan_of_a_dead_tensorboard_does_not_fall_to_the_kernel() -> None:
    """A kernel that adopts the orphans in its tree is not charged for what another owner has left behind."""
    board, server = process(150, 100, session=150), process(151, 150, session=150)
    both = [owner("a", 100), BOARD]
    before = snapshot(ROOT, board, server, owners=both, clients=[client(151)])
    after = snapshot(ROOT, replace(server, parent=100), owners=[owner("a", 100)], clients=[client(151)])
    found = watch(before, after)
    assert charged(the("a", found)) == []
    assert leftover(the("tb", found)) == [151]


# --- reused pids ----------------------------------------------------------------------------------------------------


def test_a_process_with_the_pid_of_a_dead_root_is_a_stranger() -> None:
    """An owner's root is an identity, not a number."""
    other = process(100, 1, start=99_999)
    found = watch(snapshot(other, owners=[owner("a", key(100))], clients=[client(100)]))
    assert the("a", found).tree == ()
    assert strange(found) == 1


def test_a_process_with_the_pid_of_a_dead_worker_is_a_stranger() -> None:
    """What was remembered of the worker does not pass to whoever has its pid now."""
    worker, other = process(101, 100, session=101), process(101, 1, start=99_999, session=101)
    before = snapshot(ROOT, worker, owners=[owner("a", 100)], clients=[client(101)])
    after = snapshot(ROOT, other, owners=[owner("a", 100)], clients=[client(101)])
    found = watch(before, after)
    assert the("a", found).tree == (ROOT.key,)
    assert charged(the("a", found)) == []
    assert strange(found) == 1


def test_a_parent_younger_than_its_child_is_no_parent() -> None:
    """The table is not read at one instant: the pid of a parent may have been given to another process meanwhile."""
    young = process(101, 100, start=5000, session=100)
    child = process(102, 101, start=4000, session=102)
    found = watch(snapshot(ROOT, young, child, owners=[owner("a", 100)], clients=[client(102)]))
    assert charged(the("a", found)) == []
    assert strange(found) == 1


def test_a_dead_process_is_forgotten() -> None:
    """The lineage holds the living only, so that it cannot grow for ever."""
    before = snapshot(ROOT, process(101, 100), owners=[owner("a", 100)])
    assert set(watch(before, snapshot(ROOT, owners=[owner("a", 100)])).lineage) == {ROOT.key}


# --- restarts and ends ----------------------------------------------------------------------------------------------

NEXT = process(160, SERVER)


def test_a_restarted_kernel_is_not_charged_for_what_its_earlier_life_left_behind() -> None:
    """The worker of the first root is a leftover: shown with the kernel, not in its memory, not in its tree."""
    worker = process(101, 100, session=101)
    before = snapshot(ROOT, worker, owners=[owner("a", 100)], clients=[client(101)])
    after = snapshot(
        replace(worker, parent=1), NEXT, owners=[owner("a", 160)], clients=[client(101, compute=80.0), client(160, GIB)]
    )
    for found in (watch(before, after), watch(before, after, after)):
        held = the("a", found)
        assert (charged(held), leftover(held), held.tree) == ([160], [101], (NEXT.key,))
        assert (held.memory, held.compute) == (GIB, 0)
        assert strange(found) == 0


def test_the_first_root_is_a_leftover_while_it_is_still_ending() -> None:
    """So are its children that are seen only now."""
    before = snapshot(ROOT, owners=[owner("a", 100)])
    late = process(101, 100, session=100)
    after = snapshot(ROOT, late, NEXT, owners=[owner("a", 160)], clients=[client(100), client(101)])
    assert leftover(the("a", watch(before, after))) == [100, 101]


def test_an_orphan_in_the_session_of_the_first_root_is_a_leftover() -> None:
    """Its session says where it came from, also when the kernel has a new root by now."""
    before = snapshot(ROOT, owners=[owner("a", 100)])
    orphan = process(101, 1, session=100)
    after = snapshot(ROOT, orphan, NEXT, owners=[owner("a", 160)], clients=[client(101)])
    assert leftover(the("a", watch(before, after))) == [101]


def test_between_two_lives_the_workers_are_leftovers() -> None:
    """A kernel without a process is charged for nothing."""
    worker = process(101, 100, session=101)
    before = snapshot(ROOT, worker, owners=[owner("a", 100)], clients=[client(101)])
    between = snapshot(worker, owners=[owner("a", None, state=OwnerState.STARTING)], clients=[client(101)])
    held = the("a", watch(before, between))
    assert (charged(held), leftover(held), held.tree) == ([], [101], ())


def test_workers_of_a_dead_kernel_that_is_still_listed_stay_charged_to_it() -> None:
    """The server knows which process the kernel was; its workers hold the memory."""
    worker = process(101, 100, session=101)
    before = snapshot(ROOT, worker, owners=[owner("a", 100)], clients=[client(101)])
    after = snapshot(replace(worker, parent=1), owners=[owner("a", 100, state=OwnerState.DEAD)], clients=[client(101)])
    held = the("a", watch(before, after))
    assert (charged(held), held.tree) == ([101], (worker.key,))


def test_what_a_gone_kernel_left_behind_is_shown_under_its_name() -> None:
    """It is listed as dead, without a root and without memory of its own."""
    worker = process(101, 100, session=101)
    before = snapshot(ROOT, worker, owners=[owner("a", 100)], clients=[client(101)])
    after = snapshot(replace(worker, parent=1), clients=[client(101)])
    for found in (watch(before, after), watch(before, after, after)):
        held = the("a", found)
        assert (held.owner.state, held.owner.root) == (OwnerState.DEAD, None)
        assert (charged(held), leftover(held), held.tree) == ([], [101], ())
        assert held.memory == held.compute == 0
        assert strange(found) == 0


# --- what was left behind, as a holder of its own -------------------------------------------------------------------


def test_what_a_restarted_kernel_left_behind_is_a_holder_of_its_own() -> None:
    """Its root is the oldest on a device, its tree all that is left, its memory theirs; nothing is counted twice."""
    server, first, second = process(101, 100, session=101), process(102, 101), process(103, 101)
    before = snapshot(ROOT, server, first, second, owners=[owner("a", 100, notebook="a.ipynb")], clients=[client(102)])
    after = snapshot(
        replace(server, parent=1),
        first,
        second,
        NEXT,
        owners=[owner("a", 160, notebook="a.ipynb", used_at=5.0)],
        clients=[client(102, 3 * GIB, compute=80.0), client(103, GIB), client(160, 2 * GIB)],
    )
    for found in (watch(before, after), watch(before, after, after)):
        left = left_by("a", found)
        assert left is not None
        assert str(left.owner.key) == "leftovers:a"
        assert (left.owner.root, left.owner.state, left.owner.used_at) == (first.key, OwnerState.DEAD, None)
        assert (left.owner.notebook, left.owner.name) == ("a.ipynb", the("a", found).owner.name)
        assert left.tree == (server.key, first.key, second.key)
        assert (left.memory, left.compute, left.leftovers) == (4 * GIB, 80.0, ())
        assert (the("a", found).memory, the("a", found).compute) == (2 * GIB, 0)


def test_what_two_earlier_runs_left_behind_is_one_holder() -> None:
    """There is one for each kernel, however often it was restarted."""
    first, second = process(101, 100, session=101), process(162, 160, session=162)
    pictures = (
        snapshot(ROOT, first, owners=[owner("a", 100)], clients=[client(101)]),
        snapshot(first, NEXT, second, owners=[owner("a", 160)], clients=[client(101), client(162)]),
        snapshot(first, second, process(170, SERVER), owners=[owner("a", 170)], clients=[client(101), client(162)]),
    )
    left = left_by("a", watch(*pictures))
    assert left is not None
    assert (left.owner.root, charged(left)) == (first.key, [101, 162])


def test_what_a_gone_kernel_left_behind_is_a_holder() -> None:
    """There is nothing left of the kernel that could be shut down, only this."""
    worker = process(101, 100, session=101)
    before = snapshot(ROOT, worker, owners=[owner("a", 100)], clients=[client(101)])
    after = snapshot(replace(worker, parent=1), clients=[client(101)])
    for found in (watch(before, after), watch(before, after, after)):
        left = left_by("a", found)
        assert left is not None
        assert (left.owner.root, left.memory) == (worker.key, 6 * GIB)


def test_between_two_lives_nothing_can_be_told_to_be_left_behind() -> None:
    """A kernel whose process is not known may have it among them."""
    worker = process(101, 100, session=101)
    before = snapshot(ROOT, worker, owners=[owner("a", 100)], clients=[client(101)])
    between = snapshot(ROOT, worker, owners=[owner("a", None)], clients=[client(100), client(101)])
    assert left_by("a", watch(before, between)) is None


@pytest.mark.parametrize("kind", [OwnerKind.TERMINAL, OwnerKind.TENSORBOARD])
def test_only_kernels_leave_something_behind_that_is_judged(kind: OwnerKind) -> None:
    """What runs on after its terminal was closed was meant to."""
    worker = process(101, 100, session=101)
    before = snapshot(ROOT, worker, owners=[owner("a", 100, kind=kind)], clients=[client(101)])
    assert left_by("a", watch(before, snapshot(worker, clients=[client(101)]))) is None


@pytest.mark.parametrize("source", ["devices", "processes", "owners"])
def test_what_was_left_behind_is_unknown_when_a_source_is_silent(source: str) -> None:
    """So no clock of it runs."""
    worker = process(101, 100, session=101)
    pictures = (
        snapshot(ROOT, worker, owners=[owner("a", 100)], clients=[client(101)]),
        snapshot(worker, NEXT, owners=[owner("a", 160)], clients=[client(101)]),
        snapshot(worker, NEXT, owners=[owner("a", 160)], clients=[client(101)], missed=[source]),
    )
    left = left_by("a", watch(*pictures))
    assert left is None or not (is_known(left.memory) or is_known(left.compute))


def test_a_gone_kernel_without_gpu_processes_is_not_shown() -> None:
    """There is nothing to say about it."""
    before = snapshot(ROOT, process(101, 100, session=101), owners=[owner("a", 100)])
    assert watch(before, snapshot(process(101, 1, session=101))).holders == ()


def test_a_gone_kernel_does_not_come_back_when_the_owners_cannot_be_listed() -> None:
    """What is remembered of its leftovers does not make it a living kernel."""
    worker = process(101, 100, session=101)
    pictures = (
        snapshot(ROOT, worker, owners=[owner("a", 100)], clients=[client(101)]),
        snapshot(worker, clients=[client(101)]),
        snapshot(worker, clients=[client(101)], missed=["owners"]),
    )
    held = the("a", watch(*pictures))
    assert (held.owner.state, held.owner.root, charged(held)) == (OwnerState.DEAD, None, [])


def test_a_kernel_that_the_server_lists_again_has_its_workers_again() -> None:
    """One answer without it was a hiccup: its process is the same."""
    worker = process(101, 100, session=101)
    there = snapshot(ROOT, worker, owners=[owner("a", 100)], clients=[client(101)])
    assert charged(the("a", watch(there, replace(there, owners=()), there))) == [101]


# --- what is not known ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["devices", "processes", "owners"])
def test_a_silent_source_makes_every_holder_unknown(source: str) -> None:
    """Whoever could have been named by it is not known in full: neither its memory nor its compute."""
    both = [owner("a", 100), owner("b", 200)]
    before = snapshot(ROOT, owners=both, clients=[client(100)])
    found = watch(before, snapshot(ROOT, owners=both, clients=[client(100)], missed=[source]))
    held = the("a", found)
    assert held.memory == held.compute == Unknown(Why.NOT_READ, source)


def test_a_silent_server_leaves_its_kernels_where_they_were() -> None:
    """They are remembered with their processes, in a state that nobody knows."""
    picture = snapshot(ROOT, process(101, 100), owners=[owner("a", 100)], clients=[client(101)])
    held = the("a", watch(picture, replace(picture, owners=(), gaps=snapshot(missed=["owners"]).gaps)))
    assert held.owner == owner("a", 100, state=OwnerState.UNKNOWN)
    assert charged(held) == [101]


@pytest.mark.parametrize("source", ["processes", "owners"])
def test_a_silent_source_makes_nobody_a_stranger(source: str) -> None:
    """Who would have been known by it is not taken for somebody else."""
    assert watch(snapshot(ROOT, owners=[owner("a", 100)], clients=[client(100)], missed=[source])).strangers == ()


def test_a_silent_process_table_forgets_nothing() -> None:
    """A worker that only the lineage ties to its kernel is still the kernel's when the table answers again."""
    worker = process(101, 100, session=101)
    before = snapshot(ROOT, worker, owners=[owner("a", 100)], clients=[client(101)])
    after = snapshot(ROOT, replace(worker, parent=1), owners=[owner("a", 100)], clients=[client(101)])
    assert charged(
        the("a", watch(before, replace(after, processes={}, gaps=snapshot(missed=["processes"]).gaps), after))
    ) == [101]


def test_a_kernel_that_runs_elsewhere_is_not_known() -> None:
    """Without a process here there is nothing to measure, which is not the same as holding nothing."""
    assert the("a", watch(snapshot(owners=[owner("a", None)]))).memory == Unknown(Why.NOT_LOCAL)


def test_a_pid_that_does_not_exist_here_is_a_stranger() -> None:
    """The driver may name processes of another pid namespace."""
    assert strange(watch(snapshot(ROOT, owners=[owner("a", 100)], clients=[client(4711)]))) == 1


def test_an_unknown_amount_makes_the_sum_unknown() -> None:
    """A sum with a part missing is not known, for holders as for strangers."""
    hidden = Unknown(Why.NOT_AVAILABLE)
    found = watch(
        snapshot(
            ROOT,
            process(101, 100),
            process(200, 1),
            process(201, 1),
            owners=[owner("a", 100)],
            clients=[client(100), client(101, hidden), client(200), client(201, hidden)],
        )
    )
    assert the("a", found).memory == hidden
    assert found.strangers[0].memory == hidden


# --- lost devices ---------------------------------------------------------------------------------------------------

LOST = [device("gpu-0"), device("gpu-1", state=DeviceState.LOST)]
TWO = [owner("a", 100), owner("b", 200)]
BOTH_ON = snapshot(ROOT, process(200, SERVER), owners=TWO, clients=[client(100), client(200, on="gpu-1")])
B_LOST = snapshot(ROOT, process(200, SERVER), owners=TWO, clients=[client(100)], devices=LOST)


def test_a_lost_device_harms_only_those_last_seen_on_it() -> None:
    """They are unknown for as long as it is lost; the others are judged as ever."""
    for found in (watch(BOTH_ON, B_LOST), watch(BOTH_ON, B_LOST, B_LOST)):
        assert the("a", found).memory == 6 * GIB
        assert the("b", found).memory == the("b", found).compute == Unknown(Why.DEVICE_LOST)


def test_who_left_a_device_before_it_was_lost_is_not_harmed() -> None:
    """Only the latest answer of the device counts."""
    moved = replace(BOTH_ON, clients=(client(100), client(200)))
    assert the("b", watch(BOTH_ON, moved, replace(B_LOST, clients=moved.clients))).memory == 6 * GIB


def test_a_silent_driver_does_not_make_forgotten_who_was_on_a_device() -> None:
    """A device that is lost right after a gap still counts as held by those that were on it before the gap."""
    gap = replace(BOTH_ON, clients=(), gaps=snapshot(missed=["devices"]).gaps)
    assert the("b", watch(BOTH_ON, gap, B_LOST)).memory == Unknown(Why.DEVICE_LOST)


def test_a_device_that_is_lost_while_the_process_table_is_silent() -> None:
    """Who was on it is still known when the table answers again."""
    silent = replace(B_LOST, processes={}, gaps=snapshot(missed=["processes"]).gaps)
    found = watch(BOTH_ON, silent)
    assert the("a", found).memory == the("b", found).memory == Unknown(Why.NOT_READ, "processes")
    assert the("b", watch(BOTH_ON, silent, B_LOST)).memory == Unknown(Why.DEVICE_LOST)


def test_a_process_that_is_still_listed_on_a_lost_device_is_there_once() -> None:
    """Neither its row nor its memory is shown twice."""
    listed = replace(B_LOST, clients=(client(100), client(200, Unknown(Why.DEVICE_LOST), on="gpu-1")))
    assert charged(the("b", watch(BOTH_ON, listed))) == [200]


def test_a_leftover_on_a_lost_device_does_not_harm_the_restarted_kernel() -> None:
    """It is not charged for what its earlier life left there."""
    worker = process(101, 100, session=101)
    before = snapshot(ROOT, worker, owners=[owner("a", 100)], clients=[client(101, on="gpu-1")])
    after = snapshot(worker, NEXT, owners=[owner("a", 160)], clients=[client(160)], devices=LOST)
    held = the("a", watch(before, after))
    assert (held.memory, leftover(held)) == (6 * GIB, [101])


def test_a_device_that_comes_back_is_known_again() -> None:
    """Nothing of the loss stays."""
    assert the("b", watch(BOTH_ON, B_LOST, BOTH_ON)).memory == 6 * GIB


# --- properties -----------------------------------------------------------------------------------------------------


@st.composite
def worlds(draw: st.DrawFn) -> list[Snapshot]:
    """A few pictures of a growing, dying, restarting forest of processes with owners in it."""
    rows: dict[int, Process] = {}
    owners: dict[str, Owner] = {}
    pictures, ticks = [], 1000
    pid = 100
    for _ in range(draw(st.integers(1, 4))):
        for _ in range(draw(st.integers(0, 5))):
            pid, ticks = pid + 1, ticks + draw(st.integers(0, 3))
            reused = draw(st.sampled_from([pid, *(old for old in range(101, pid) if old not in rows)]))
            parent = draw(st.sampled_from([1, SERVER, *rows]))
            session = reused if draw(st.booleans()) or parent not in rows else rows[parent].session
            rows[reused] = process(reused, parent, start=ticks, session=session)
            if draw(st.integers(0, 2)) == 0:
                name = draw(st.sampled_from("abc"))
                kind = OwnerKind.TENSORBOARD if name == "c" else OwnerKind.KERNEL
                owners[name] = owner(name, rows[reused].key, kind=kind)
        for name in draw(st.sets(st.sampled_from([*owners, None]), max_size=1)) - {None}:
            owners[name] = replace(owners[name], root=None)
        pictures.append(
            snapshot(
                *rows.values(),
                owners=owners.values(),
                clients=[client(row, row * 1.0, row % 7 * 1.0, f"gpu-{row % 2}") for row in (*rows, 4711)],
                missed=draw(st.sets(st.sampled_from(["devices", "processes", "owners"]), max_size=1))
                if draw(st.integers(0, 3)) == 0
                else (),
                devices=[device("gpu-0"), device("gpu-1", state=draw(st.sampled_from(DeviceState)))],
            )
        )
        for dead in draw(st.sets(st.sampled_from([*rows, None]), max_size=2)) - {None}:
            del rows[dead]
            rows = {p: replace(row, parent=1) if row.parent == dead else row for p, row in rows.items()}
        if owners and draw(st.integers(0, 3)) == 0:
            del owners[draw(st.sampled_from(sorted(owners)))]
    return pictures


@steady
@given(worlds(), st.integers(0, 999).map(random.Random))
def test_the_order_of_input_is_irrelevant(pictures: list[Snapshot], chance: random.Random) -> None:
    """Shuffled devices, clients, processes and owners give the same holders, strangers and lineage."""

    def shuffled(picture: Snapshot) -> Snapshot:
        def mixed(things: list[T]) -> list[T]:
            return chance.sample(things, len(things))

        return replace(
            picture,
            devices=tuple(mixed(list(picture.devices))),
            clients=tuple(mixed(list(picture.clients))),
            processes=dict(mixed(list(picture.processes.items()))),
            owners=tuple(mixed(list(picture.owners))),
        )

    straight, mixed = Attribution(), Attribution()
    for picture in pictures:
        straight = attribute(picture, straight.lineage)
        lineage = dict(chance.sample(list(mixed.lineage.items()), len(mixed.lineage)))
        mixed = attribute(shuffled(picture), lineage)
        assert mixed == straight


@steady
@given(worlds())
def test_only_identified_descendants_are_in_a_tree(pictures: list[Snapshot]) -> None:
    """A tree holds living processes with their right identity, each of which once descended from the owner's root.

    Said naively: a process is in the family of a root if it is that root, if its parent or the leader of its session
    was in the family in some picture, or if it was in the family before.
    """
    family: dict[ProcessKey, set[ProcessKey]] = {}
    had: dict[str, set[ProcessKey | None]] = defaultdict(set)
    found = Attribution()
    for picture in pictures:
        found = attribute(picture, found.lineage)
        for of in picture.owners:
            had[of.key.id].add(of.root)
        if picture.missed("processes"):
            continue
        living = {row.key: row for row in picture.processes.values() if not row.is_over}
        for _ in range(len(living)):
            for row in living.values():
                near = [picture.processes.get(row.parent), picture.processes.get(row.session)]
                older = [up.key for up in near if up is not None and up.key.start_ticks <= row.key.start_ticks]
                family.setdefault(row.key, {row.key}).update(*(family.get(up, {up}) for up in older))
        for held in found.holders:
            for member in held.tree:
                assert member in living
                if held.owner.key.kind is OwnerKind.LEFTOVERS:
                    assert family[member] & had[held.owner.key.id]
                else:
                    assert held.owner.root in family[member]


@steady
@given(worlds())
def test_every_client_is_counted_once(pictures: list[Snapshot]) -> None:
    """Each pid that the driver lists is charged to one holder, or a stranger, or the leftover of one owner.

    A leftover of a kernel is charged to a holder of its own. While a source is silent nobody is a stranger, so then
    there may be fewer.
    """
    found = Attribution()
    for picture in pictures:
        found = attribute(picture, found.lineage)
        lost = {row.uuid for row in picture.devices if row.state is DeviceState.LOST}
        charged_for = [(row.device, row.key.pid) for held in found.holders for row in rows_of(held)]
        assert len(set(charged_for)) == len(charged_for)
        left = [(row.device, row.key.pid) for held in found.holders for row in held.leftovers]
        assert len(set(left)) == len(left)
        apart = [held for held in found.holders if held.owner.key.kind is OwnerKind.LEFTOVERS]
        assert {(row.device, row.key.pid) for held in apart for row in rows_of(held)} == set(left) & set(charged_for)
        ours = {*charged_for, *left}
        listed = {(row.device, row.pid) for row in picture.clients}
        assert {row for row in ours if row[0] not in lost} <= listed
        if not picture.missed("processes", "owners"):
            here = [row for row in ours if row in listed]
            assert len(here) + strange(found) == len(listed)


@steady
@given(worlds())
def test_a_holder_is_known_only_if_every_source_answered(pictures: list[Snapshot]) -> None:
    """With a gap, no holder has a number for its memory or its compute."""
    found = Attribution()
    for picture in pictures:
        found = attribute(picture, found.lineage)
        if picture.gaps:
            assert not any(is_known(held.memory) or is_known(held.compute) for held in found.holders)
