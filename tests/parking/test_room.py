"""Who waits for room, in which order, and who has it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from fake_clock import NOON, FakeClock

from jupyter_gpu_guard.core.model import (
    Device,
    GpuClient,
    Holder,
    Owner,
    OwnerKey,
    OwnerKind,
    OwnerState,
    ProcessKey,
    Unknown,
    Why,
)
from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.parking.registry import Entry, Phase, Registry
from jupyter_gpu_guard.parking.room import Lack, held_by, lack
from jupyter_gpu_guard.parking.waiting_line import RETRY, WaitingLine
from jupyter_gpu_guard.published import NoSuchOwnerError
from jupyter_gpu_guard.server.waking import BY_USE, Waker
from jupyter_gpu_guard.sources.parked import ParkedOwners
from jupyter_gpu_guard.sources.websocket_ear import Passing

GIB = 2.0**30
GPU = Device("gpu-0", 3, "NVIDIA H200", 80 * GIB, 70 * GIB, 1 * GIB)
A, B = (OwnerKey(OwnerKind.KERNEL, name) for name in "ab")


def entry(key, number, amount=6.0, device="gpu-0", phase=Phase.PARKED):
    """One that is parked, with so many GiB."""
    process = ProcessKey(100 + number, 7)
    since = NOON + timedelta(minutes=number)
    return Entry(key, f"{key.id}.ipynb", process, process, since, {device: amount * GIB}, phase)


# ---- room ----


def test_room_is_what_nobody_uses_and_the_driver_does_not_keep():
    """80 less 70 less 1."""
    assert lack({"gpu-0": 9 * GIB}, [GPU]) is None
    assert lack({"gpu-0": 9.5 * GIB}, [GPU]) == Lack("gpu-0", "GPU 3", 9.5 * GIB, 9 * GIB)


def test_what_is_promised_to_others_is_no_room():
    """They asked before."""
    assert lack({"gpu-0": 5 * GIB}, [GPU], {"gpu-0": 6 * GIB}) == Lack("gpu-0", "GPU 3", 5 * GIB, 3 * GIB)


@pytest.mark.parametrize("devices", [[], [replace(GPU, memory_used=Unknown(Why.NOT_READ))]])
def test_what_is_not_known_is_no_room(devices):
    """A device that does not answer, or does not say how much is used."""
    missing = lack({"gpu-0": 1.0}, devices)
    assert isinstance(missing.free, Unknown)


def test_who_holds_it_is_told_without_naming_others():
    """Own notebooks by name, the largest first; then the others, as one."""
    holders = [
        Holder(
            Owner(A, "a.ipynb", ProcessKey(1, 1), OwnerState.IDLE, notebook="work/a.ipynb"), (), (ProcessKey(1, 1),)
        ),
        Holder(Owner(B, "b.ipynb", ProcessKey(2, 1), OwnerState.IDLE), (), (ProcessKey(2, 1), ProcessKey(3, 1))),
    ]
    rows = [(1, 2 * GIB), (2, 1 * GIB), (3, 4 * GIB), (8, 30 * GIB), (9, 10 * GIB)]
    clients = [GpuClient("gpu-0", pid, amount, 0.0) for pid, amount in rows]
    clients.append(GpuClient("gpu-1", 7, GIB, 0.0))
    assert held_by("gpu-0", clients, holders) == "b.ipynb 5.0 GiB, work/a.ipynb 2.0 GiB, others 40.0 GiB"
    unknown = [GpuClient("gpu-0", 9, Unknown(Why.NO_PERMISSION), 0.0)]
    assert held_by("gpu-0", unknown, holders) == "others (not known how much)"
    assert held_by("gpu-2", clients, holders) == ""


# ---- the line ----


def test_the_oldest_request_comes_first_and_keeps_its_place():
    """Whoever asks again does not lose it."""
    line = WaitingLine()
    line.ask(B, NOON)
    line.ask(A, NOON + timedelta(seconds=1))
    line.ask(B, NOON + timedelta(seconds=2))
    assert line.order(0.0) == (B, A)
    line.leave(B)
    assert line.order(0.0) == (A,)


def test_after_a_failure_it_is_tried_later_unless_it_is_asked_for_anew():
    """A driver that refuses is not asked at each look."""
    line = WaitingLine()
    line.ask(A, NOON)
    line.failed(A, 100.0)
    line.want(A, NOON)
    assert line.order(100.0 + RETRY - 1) == ()
    assert line.order(100.0 + RETRY) == (A,)
    line.ask(A, NOON)
    assert line.order(101.0) == (A,)


# ---- waking ----


class FakeGuard:
    """Notes whom it is to resume."""

    def __init__(self):
        self.acts = []
        self.unknown = frozenset()
        snapshot = SimpleNamespace(devices=(replace(GPU, memory_used=60 * GIB),), clients=())
        self.published = SimpleNamespace(snapshot=snapshot, attribution=SimpleNamespace(holders=()))

    def full(self):
        """From now on nothing is free."""
        self.published.snapshot = SimpleNamespace(devices=(replace(GPU, memory_used=79 * GIB),), clients=())

    def act(self, action, key, by):
        """Remember it."""
        if key in self.unknown:
            raise NoSuchOwnerError
        self.acts.append((action, key, by))


class FakeOwners:
    """Kernels that are as a test says."""

    def __init__(self, *owners):
        self.owners = owners

    async def read(self, processes=None):
        """All of them."""
        return self.owners

    def look_again(self, key):
        """One of them."""
        return next((owner for owner in self.owners if owner.key == key), None)


class Room:
    """Two parked kernels, the guard, and who wakes them."""

    def __init__(self, folder, *entries):
        self.clock = FakeClock()
        self.registry = Registry(folder / "parked.json", lambda key: True)
        for each in entries or (entry(A, 1), entry(B, 2)):
            self.registry.put(each)
        self.line = WaitingLine()
        self.guard = FakeGuard()
        self.waker = Waker(self.registry, self.line, self.clock, logging.getLogger("jupyter_gpu_guard.test"))
        self.waker.serves(self.guard)

    def look(self, **states):
        """One look, at which the kernels named are in these states. Gives the owners as they are passed on."""
        owners = [
            Owner(each.owner, each.name, each.root, states.get(each.owner.id, OwnerState.IDLE))
            for each in self.registry.entries
        ]
        marked = ParkedOwners(FakeOwners(*owners), self.registry, self.line, self.waker.seen)
        return {owner.key: owner for owner in asyncio.run(marked.read())}

    def hear(self, kind, key):
        """A page sends something."""

        async def scene():
            self.waker.heard(Passing(key.id, kind))
            await asyncio.sleep(0)

        asyncio.run(scene())


@pytest.fixture
def room(tmp_path):
    """Two kernels, each of which had 6 GiB, and 19 GiB are free."""
    return Room(tmp_path)


def test_a_cell_of_a_page_wakes_at_once(room):
    """Nothing else that a page sends does, and nobody who is not parked."""
    room.hear("input_reply", A)
    room.hear("execute_request", OwnerKey(OwnerKind.KERNEL, "c"))
    assert room.guard.acts == []
    room.hear("execute_request", A)
    assert room.guard.acts == [(Action.RESUME, A, BY_USE)]


@pytest.mark.parametrize("state", [OwnerState.EXECUTING, OwnerState.WAITING, OwnerState.BREAKPOINT])
def test_whoever_runs_a_cell_is_woken_at_the_next_look(room, state):
    """Also if nobody was heard to send it. Whoever only looks is not woken."""
    room.look()
    assert room.guard.acts == []
    owners = room.look(a=state)
    assert room.guard.acts == [(Action.RESUME, A, BY_USE)]
    assert owners[A].parked.memory == 6 * GIB
    assert owners[A].parked.waiting is None


def test_nobody_passes_an_older_request(room):
    """There is room for one; the younger waits, and is told for how much."""
    room.guard.published.snapshot = SimpleNamespace(devices=(replace(GPU, memory_used=70 * GIB),), clients=())
    room.hear("execute_request", B)
    room.clock.advance(1)
    room.guard.acts.clear()
    owners = room.look(a=OwnerState.EXECUTING, b=OwnerState.EXECUTING)
    assert room.guard.acts == [(Action.RESUME, B, BY_USE)]
    waiting = owners[A].parked.waiting
    assert (waiting.device, waiting.needed, waiting.free) == ("GPU 3", 6 * GIB, 3 * GIB)


def test_on_another_device_a_younger_request_need_not_wait(tmp_path):
    """The line is one for each device."""
    room = Room(tmp_path, entry(A, 1), entry(B, 2, device="gpu-1"))
    other = replace(GPU, uuid="gpu-1", memory_used=0.0)
    full = replace(GPU, memory_used=79 * GIB)
    room.guard.published.snapshot = SimpleNamespace(devices=(full, other), clients=())
    room.look(a=OwnerState.EXECUTING)
    room.line.lacks(A, Lack("gpu-0", "GPU 3", 6 * GIB, 0.0), "")
    room.guard.acts.clear()
    room.look(a=OwnerState.EXECUTING, b=OwnerState.EXECUTING)
    assert room.guard.acts == [(Action.RESUME, B, BY_USE)]


def test_who_waits_is_tried_once_room_is_seen(room):
    """The first try is made without room too, so that people are told; then not at each look."""
    room.guard.full()
    room.look(a=OwnerState.EXECUTING)
    assert room.guard.acts == [(Action.RESUME, A, BY_USE)]
    room.line.lacks(A, Lack("gpu-0", "GPU 3", 6 * GIB, 0.0), "others 79.0 GiB")  # as the remedy does
    room.look(a=OwnerState.EXECUTING)
    assert len(room.guard.acts) == 1
    room.guard.published.snapshot = SimpleNamespace(devices=(replace(GPU, memory_used=0.0),), clients=())
    room.look(a=OwnerState.EXECUTING)
    assert len(room.guard.acts) == 2


def test_who_was_restarted_or_is_gone_waits_no_more(room):
    """The line is empty then."""
    room.guard.full()
    room.line.ask(A, NOON)
    room.line.ask(OwnerKey(OwnerKind.KERNEL, "gone"), NOON)
    asyncio.run(room.waker.seen((Owner(A, "a.ipynb", ProcessKey(999, 1), OwnerState.EXECUTING),)))
    assert room.line.order(0.0) == ()


def test_whoever_the_guard_has_not_seen_yet_is_tried_again(room):
    """Nothing breaks."""
    room.guard.unknown = frozenset({A})
    room.look(a=OwnerState.EXECUTING)
    assert room.guard.acts == []
    room.guard.unknown = frozenset()
    room.look(a=OwnerState.EXECUTING)
    assert room.guard.acts == [(Action.RESUME, A, BY_USE)]


def test_to_come_back_is_a_use(room):
    """Otherwise it would be due at once."""
    room.line.resumed(A, 1234.0)
    room.registry.remove(room.registry.of(A, ProcessKey(101, 7)).process)
    owner = Owner(A, "a.ipynb", ProcessKey(101, 7), OwnerState.IDLE, used_at=1000.0)
    marked = ParkedOwners(FakeOwners(owner), room.registry, room.line, room.waker.seen)
    assert marked.look_again(A) == replace(owner, used_at=1234.0)
    assert marked.look_again(B) is None


def test_to_be_brought_back_by_somebody_else_is_a_use_too(tmp_path):
    """The command line has done it, and taken it off the list. What has not been parked at all has no use of that."""
    room = Room(tmp_path, entry(A, 1), entry(B, 2, phase=Phase.BEGUN))
    owners = [Owner(each.owner, each.name, each.root, OwnerState.IDLE) for each in room.registry.entries]
    elsewhere = Registry(room.registry.path, lambda key: True)
    for each in room.registry.entries:
        elsewhere.remove(each.process)
    room.clock.advance(100)
    marked = ParkedOwners(FakeOwners(*owners), room.registry, room.line, room.waker.seen)
    a, b = asyncio.run(marked.read())
    assert (a.parked, a.used_at) == (None, room.clock.now().monotonic)
    assert (b.parked, b.used_at) == (None, None)


def test_an_act_that_has_only_begun_is_not_shown_as_parked(tmp_path):
    """Neither is an earlier process of the same kernel."""
    room = Room(tmp_path, entry(A, 1, phase=Phase.BEGUN), entry(B, 2))
    assert room.look()[A].parked is None
    older = Owner(B, "b.ipynb", ProcessKey(50, 1), OwnerState.IDLE)
    marked = ParkedOwners(FakeOwners(older), room.registry, room.line, room.waker.seen)
    assert marked.look_again(B).parked is None
