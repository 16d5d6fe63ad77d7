"""What belongs to a kernel and what it holds: tables, without a process or a device."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from fake_devices import GIB, GPU

from jupyter_gpu_guard.core.model import Device, DeviceState, Gap, GpuClient, Process, ProcessKey, Unknown, Why
from jupyter_gpu_guard.effects.held import (
    Grip,
    Held,
    freed,
    freed_on,
    labels_of,
    say_devices,
    what_is_held,
    with_descendants,
)
from jupyter_gpu_guard.protocols import DevicesSeen

THEN = datetime(2030, 5, 1, tzinfo=timezone.utc)


def process(pid, start, parent=1, session=1, state="S"):
    """A row of the process table."""
    return Process(ProcessKey(pid, start), parent, pid, session, state, THEN)


def table(*processes):
    """A process table."""
    return {process.key.pid: process for process in processes}


KERNEL = process(10, 100, parent=5, session=10)


def test_children_and_their_children_belong_to_the_tree():
    """However deep, also in sessions of their own."""
    world = table(KERNEL, process(11, 110, 10, 10), process(12, 120, 11, 12), process(13, 130, 12, 12))
    assert with_descendants([KERNEL.key], world) == {world[pid].key for pid in (10, 11, 12, 13)}


def test_a_worker_without_parents_belongs_to_the_session_it_is_in():
    """Its parent has ended and init has taken it; its session still says where it came from."""
    world = table(process(1, 0), KERNEL, process(12, 120, 1, 10))
    assert with_descendants([KERNEL.key], world) == {KERNEL.key, world[12].key}


def test_the_parent_and_its_other_children_do_not_belong():
    """The server above, and whatever else it runs, are strangers."""
    server, other = process(5, 50, 1, 5), process(20, 200, 5, 20)
    assert with_descendants([KERNEL.key], table(server, KERNEL, other)) == {KERNEL.key}


def test_a_reused_pid_brings_nobody_in():
    """Neither a process that has a noted pid now, nor its children, nor children older than their parent."""
    noted = ProcessKey(10, 99)
    assert with_descendants([noted], table(KERNEL, process(11, 110, 10, 10))) == {noted}
    assert with_descendants([KERNEL.key], table(KERNEL, process(9, 60, 10, 10))) == {KERNEL.key}


def test_what_belongs_to_another_owner_does_not_belong():
    """A TensorBoard that was started by a kernel, with what it has started itself, wherever that may be."""
    board = process(20, 200, 10, 10)
    below = process(21, 210, 20, 10), process(22, 220, 20, 22)
    world = table(KERNEL, process(11, 110, 10, 10), process(12, 120, 1, 10), board, *below)
    assert {key.pid for key in with_descendants([KERNEL.key], world, {board.key})} == {10, 11, 12}
    assert {key.pid for key in with_descendants([board.key], world, {KERNEL.key})} == {20, 21, 22}
    assert {key.pid for key in with_descendants([board.key], world, {KERNEL.key, board.key})} == {20, 21, 22}


def test_a_ring_of_parents_ends():
    """A table torn between two moments may be a ring."""
    world = table(process(10, 100, 11), process(11, 100, 10))
    assert with_descendants([ProcessKey(10, 100)], world) == {ProcessKey(10, 100), ProcessKey(11, 100)}


def seen(*clients, gaps=(), state=DeviceState.OK):
    """A reading of one GPU with these (pid, bytes)."""
    rows = tuple(GpuClient(GPU, pid, memory, 0.0) for pid, memory in clients)
    return DevicesSeen((Device(GPU, 0, "Fake", 80 * GIB, 0.0, state=state),), rows, gaps)


def test_only_what_the_very_processes_of_the_tree_hold_counts():
    """A stranger, and another process with a noted pid, hold nothing of ours."""
    world = table(KERNEL, process(30, 300))
    tree = [KERNEL.key, ProcessKey(30, 299)]
    held = what_is_held(tree, seen((10, 2 * GIB), (30, 3 * GIB), (40, 4 * GIB)), world.get)
    assert held.grips == (Grip(KERNEL.key, GPU, 2 * GIB, KERNEL),)
    assert held.memory == 2 * GIB
    assert held.whole


def test_a_process_that_is_listed_after_its_end_still_holds():
    """The driver lets go a little later than the process table; nobody can be signalled any more."""
    zombie = process(11, 110, state="Z")
    held = what_is_held([KERNEL.key, zombie.key], seen((10, GIB), (11, GIB)), table(zombie).get)
    assert [grip.key for grip in held.grips] == [KERNEL.key, zombie.key]
    assert not any(grip.can_be_ended for grip in held.grips)


@pytest.mark.parametrize(
    "reading",
    [seen(gaps=(Gap("devices", "one is lost"),)), seen(state=DeviceState.LOST), DevicesSeen()],
    ids=["gap", "lost", "absent"],
)
def test_a_reading_with_a_hole_proves_no_release(reading):
    """A device that did not answer may hold what it held."""
    after = what_is_held([KERNEL.key], reading, table(KERNEL).get, frozenset({GPU}))
    assert not after.whole
    before = what_is_held([KERNEL.key], seen((10, GIB)), table(KERNEL).get)
    assert freed(before, after) is None


@pytest.mark.parametrize(
    "reading",
    [DevicesSeen(gaps=(Gap("devices", "the driver is not loaded"),)), seen((10, GIB), gaps=(Gap("devices", "late"),))],
    ids=["nothing", "a part"],
)
def test_a_device_that_does_not_say_who_is_on_it_makes_compute_unknown(reading):
    """Nobody listed is not the same as nobody computing."""
    held = what_is_held([KERNEL.key], reading, table(KERNEL).get, frozenset({GPU}))
    assert held.compute == Unknown(Why.NOT_READ, reading.gaps[0].why)


def test_a_device_that_is_not_shown_any_more_makes_compute_unknown():
    """It was there when the owner was judged."""
    held = what_is_held([KERNEL.key], seen((10, GIB)), table(KERNEL).get, frozenset({GPU, "GPU-gone"}))
    assert held.compute == Unknown(Why.NOT_READ)


def test_a_device_that_nobody_here_can_use_is_not_missed():
    """Its gap bears its own name; what is known of the others is the whole."""
    reading = seen((10, GIB), gaps=(Gap("device 3", "this user may not see it"),))
    held = what_is_held([KERNEL.key], reading, table(KERNEL).get, frozenset({GPU}))
    assert held.whole
    assert held.compute == 0


@pytest.mark.parametrize("busy", [0.0, 40.0])
def test_a_process_that_is_not_measured_computes_at_most_what_its_device_does(busy):
    """As on an instance of a divided GPU, which is measured only as a whole."""
    reading = DevicesSeen(
        (Device(GPU, 0, "Fake", 80 * GIB, 0.0, overall=busy),),
        (GpuClient(GPU, 10, GIB, Unknown(Why.NOT_SUPPORTED)),),
    )
    assert what_is_held([KERNEL.key], reading, table(KERNEL).get).compute == busy


@pytest.mark.parametrize("why", [Why.FIRST_READING, Why.DRIVER_ERROR, Why.PIDS_HIDDEN])
def test_what_is_unknown_for_another_reason_stays_unknown(why):
    """Only what is never measured is replaced by the figure of the device."""
    reading = DevicesSeen(
        (Device(GPU, 0, "Fake", 80 * GIB, 0.0, overall=0.0),), (GpuClient(GPU, 10, GIB, Unknown(why)),)
    )
    assert what_is_held([KERNEL.key], reading, table(KERNEL).get).compute == Unknown(why)


def test_freed_is_the_difference_that_was_seen():
    """Before minus after; never less than nothing; not known if either is not."""
    none, one, two = (Held(tuple(Grip(KERNEL.key, GPU, GIB, None) for _ in range(n)), whole=True) for n in range(3))
    unknown = Held((Grip(KERNEL.key, GPU, Unknown(Why.NOT_AVAILABLE), None),), whole=True)
    assert freed(two, none) == 2 * GIB
    assert freed(two, one) == GIB
    assert freed(one, two) == 0
    assert freed(none, none) == 0
    assert freed(unknown, none) is None
    assert freed(two, unknown) is None
    assert freed(None, none) is None
    assert freed(two, None) is None


def test_devices_are_called_by_their_number() -> None:
    """In the order of their numbers; a MIG instance by its GPU and its place on it."""
    devices = [Device(f"GPU-{index}", index, "H100", 80 * GIB, 0.0) for index in (10, 2, 0)]
    devices += [Device(f"MIG-{n}", 2, "H100 MIG 1g.10gb", 10 * GIB, 0.0, mig=True, part_of="GPU-2") for n in (5, 3)]
    devices.append(Device("MIG-lost", 0, "H100 MIG 1g.10gb", 10 * GIB, 0.0, mig=True, part_of="GPU-gone"))
    labels = labels_of(devices)
    assert say_devices(["GPU-2"], labels) == "GPU 2"
    assert say_devices(["GPU-10", "GPU-2"], labels) == "GPU 2 and GPU 10"
    assert say_devices(["MIG-3", "GPU-10", "GPU-0"], labels) == "GPU 0, GPU 2 MIG 1 and GPU 10"
    assert say_devices([], labels) is None
    for without in ("GPU-elsewhere", "MIG-lost"):
        assert say_devices(["GPU-0", without], labels) is None


def test_what_was_freed_is_told_by_device() -> None:
    """Where less is held than before; nowhere, if that is not known."""
    here, there = Grip(KERNEL.key, "GPU-0", 2 * GIB, None), Grip(KERNEL.key, "GPU-1", GIB, None)
    both, one = Held((here, there), whole=True), Held((there,), whole=True)
    assert freed_on(both, one) == {"GPU-0"}
    assert freed_on(both, Held((), whole=True)) == {"GPU-0", "GPU-1"}
    assert freed_on(one, both) == freed_on(both, Held((), whole=False)) == freed_on(None, one) == frozenset()
