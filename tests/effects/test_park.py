"""Park and resume: what is done, what is withdrawn, and what stands on disk after each failure."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

import pytest
from fake_clock import NOON
from fake_devices import GIB, GPU
from parking_room import HOLDER, KEY, OWNER, ParkingRoom

from jupyter_gpu_guard.core.model import (
    Device,
    GpuProcess,
    Holder,
    Holding,
    OwnerKey,
    OwnerKind,
    OwnerState,
    Process,
    ProcessKey,
    Unknown,
    Why,
)
from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.core.verdict import Result
from jupyter_gpu_guard.effects.park import Park
from jupyter_gpu_guard.parking.answer import Answer, State
from jupyter_gpu_guard.parking.registry import Phase
from jupyter_gpu_guard.protocols import DevicesSeen


@pytest.fixture
def room(tmp_path):
    """One idle kernel that holds 6 GiB."""
    return ParkingRoom(tmp_path)


def park(room, **how):
    """The outcome of parking."""
    return asyncio.run(room.act(Action.PARK, **how))


def resume(room, **how):
    """The outcome of resuming."""
    return asyncio.run(room.act(Action.RESUME, **how))


def phases(room):
    """What stands on disk."""
    room.registry.refresh()
    return [entry.phase for entry in room.registry.entries]


def test_parked(room):
    """It is written down before it is done; the outcome says what was seen to be freed."""
    room.helper.meanwhile = lambda do: seen.append((do, phases(room)))
    seen = []
    outcome = park(room)
    assert (outcome.result, outcome.freed_bytes) == (Result.DONE, 6 * GIB)
    assert outcome.detail == "6.0 GiB were moved from GPU 0 to the host's memory in 0.0 s; the kernel lives on"
    assert seen == [("look", []), ("park", [Phase.BEGUN])]
    assert phases(room) == [Phase.PARKED]


def test_switched_off_nothing_is_asked(tmp_path):
    """Neither driver nor devices."""
    room = ParkingRoom(tmp_path, "parking is switched off")
    outcome = park(room)
    assert (outcome.result, outcome.detail) == (Result.UNSUITED, "parking is switched off")
    assert (room.helper.asked, room.devices.looks) == ([], 0)


@pytest.mark.parametrize(
    ("free", "why"),
    [
        (6.9 * GIB, "it needs 7.0 GiB of the host's memory, with what is to stay free, and there are 6.9 GiB"),
        (Unknown(Why.NOT_READ), "it cannot be told how much memory of the host is free"),
    ],
)
def test_without_memory_on_the_host_nothing_is_done(tmp_path, free, why):
    """Not even begun."""
    room = ParkingRoom(tmp_path, free=free)
    outcome = park(room)
    assert (outcome.result, outcome.detail) == (Result.UNSUITED, why)
    assert (room.helper.asked, phases(room)) == (["look"], [])


def test_a_driver_that_cannot_park_is_named(room):
    """With its own word."""
    room.helper.refuse("look", State.UNKNOWN, "the driver is too old")
    assert park(room).detail == "the driver is too old"
    room.helper.refuse("look", State.LOCKED, None)
    outcome = park(room)
    assert (outcome.result, outcome.detail) == (Result.UNSUITED, "the driver says that its process is locked")
    assert room.helper.asked == ["look", "look"]


def test_devices_that_do_not_answer(room):
    """What is not known is not parked."""
    room.devices.silent = True
    assert park(room).result is Result.UNSUITED
    assert room.helper.asked == []


@pytest.mark.parametrize(
    ("now", "result", "why"),
    [
        (None, Result.ALREADY_GONE, "ended by itself"),
        (replace(OWNER, root=ProcessKey(100, 8)), Result.WITHDRAWN, "restarted"),
        (replace(OWNER, state=OwnerState.EXECUTING), Result.WITHDRAWN, "not idle any more"),
        (replace(OWNER, used_at=501.0), Result.WITHDRAWN, "used since"),
    ],
)
def test_the_last_look_may_withdraw_it(room, now, result, why):
    """Then nothing stays written down."""

    def change(do):
        room.owner = now

    room.helper.meanwhile = change
    outcome = park(room)
    assert outcome.result is result
    assert why in outcome.detail
    assert (room.helper.asked, phases(room)) == (["look"], [])


def test_compute_at_the_last_look_withdraws_a_rule(room):
    """A person who asks for it gets it."""
    room.helper.meanwhile = lambda do: room.devices.hold(KEY, 6 * GIB, 5.0) if do == "look" else None
    assert park(room).detail == "it computes again"
    assert park(room, asked=True).result is Result.DONE


def test_whoever_is_kept_is_not_parked(room):
    """Asked in the last moment."""
    outcome = park(room, spared=lambda: True)
    assert (outcome.result, phases(room)) == (Result.WITHDRAWN, [])
    assert room.helper.asked == ["look"]


def test_what_cannot_be_written_down_is_not_done(room, monkeypatch):
    """Nobody would find it again."""

    def refuse(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    outcome = park(room)
    assert outcome.result is Result.FAILED
    assert "nothing was done" in outcome.detail
    assert room.helper.asked == ["look"]


@pytest.mark.parametrize(
    ("state", "says", "stands"),
    [
        (State.RUNNING, "it goes on as before", []),
        (State.LOCKED, "resume it, or restart the kernel", [Phase.UNCLEAR]),
        (State.FAILED, "only a restart of the kernel helps", [Phase.UNCLEAR]),
    ],
)
def test_a_step_that_fails(room, state, says, stands):
    """What is unclear can be found by whoever resumes it."""
    room.helper.refuse("park", state, "the driver refuses the step checkpoint")
    outcome = park(room)
    assert outcome.result is Result.FAILED
    assert outcome.detail.startswith("the driver refuses the step checkpoint; ")
    assert outcome.detail.endswith(says)
    assert phases(room) == stands


@pytest.mark.parametrize(("found", "result"), [(State.RUNNING, Result.FAILED), (State.CHECKPOINTED, Result.DONE)])
def test_after_a_crash_of_the_helper_it_is_looked_what_has_become_of_it(room, found, result):
    """The next helper unlocks it, or finds it parked."""
    room.helper.refuse("park", State.UNKNOWN, "the helper has ended without an answer")
    room.helper.refuse("free", found, None)
    outcome = park(room)
    assert (outcome.result, room.helper.asked) == (result, ["look", "park", "free"])


def test_a_kernel_that_ends_in_mid_act_is_gone(room):
    """Nothing is said about calls that wait."""
    room.helper.meanwhile = lambda do: room.world.table.clear() if do == "park" else None
    room.helper.refuse("park", State.UNKNOWN)
    room.helper.refuse("free", State.UNKNOWN)
    assert park(room).result is Result.ALREADY_GONE
    assert phases(room) == []


def test_a_driver_that_still_lists_it_is_told(room):
    """What is freed was seen, and not computed."""
    room.helper.refuse("park", State.CHECKPOINTED, None)
    outcome = park(room)
    assert (outcome.result, outcome.freed_bytes) == (Result.DONE, 0.0)
    assert outcome.detail.endswith("the driver still lists 6.0 GiB")


# ---- resume ----


def parked(room):
    """The holder once it is parked."""
    assert park(room).result is Result.DONE
    return replace(HOLDER, holdings=())


def test_resumed(room):
    """It is written down no more, and its clocks begin anew."""
    holder = parked(room)
    room.clock.advance(60)
    outcome = resume(room, holder=holder, asked=True)
    assert (outcome.result, outcome.detail) == (Result.DONE, "6.0 GiB are back on GPU 0 after 0.0 s")
    assert phases(room) == []
    assert room.line.resumed_at(OWNER.key) == room.clock.now().monotonic


def test_who_is_not_parked_is_not_resumed(room):
    """The driver is not asked."""
    assert resume(room, asked=True).result is Result.UNSUITED
    assert room.helper.asked == []


def test_without_room_it_gets_into_the_line(room, monkeypatch):
    """It is said what it waits for and who has it; nothing is tried, since a failure may be for ever."""
    holder = parked(room)

    async def full():
        return DevicesSeen((Device(GPU, 0, "Fake", 80 * GIB, 79 * GIB),))

    monkeypatch.setattr(room.resume, "_means", replace(room.resume._means, look=full))
    outcome = resume(room, holder=holder, asked=True)
    assert outcome.result is Result.UNSUITED
    assert outcome.detail == ("it waits for room: it needs 6.0 GiB on GPU 0, free there: 1.0 GiB (others 79.0 GiB)")
    assert room.helper.asked == ["look", "park"]
    assert room.line.order(0.0) == (OWNER.key,)
    assert room.line.waiting(OWNER.key).held_by == "others 79.0 GiB"


def test_devices_that_do_not_answer_are_no_room(room):
    """It waits until they do."""
    holder = parked(room)
    room.devices.silent = True
    outcome = resume(room, holder=holder, asked=True)
    assert outcome.result is Result.UNSUITED
    assert "it is not known how much" in outcome.detail


@pytest.mark.parametrize(
    ("state", "says", "phase"),
    [
        (State.CHECKPOINTED, "it stays parked, and nothing is lost", Phase.PARKED),
        (State.LOCKED, "its GPU calls still wait", Phase.UNCLEAR),
        (State.FAILED, "only a restart of the kernel helps", Phase.UNCLEAR),
    ],
)
def test_what_does_not_come_back_stays_written_down(room, state, says, phase):
    """And is tried again later, not at each look."""
    holder = parked(room)
    room.line.ask(OWNER.key, NOON)
    room.helper.refuse("resume", state, "the driver refuses the step restore")
    outcome = resume(room, holder=holder)
    assert outcome.result is Result.FAILED
    assert says in outcome.detail
    assert phases(room) == [phase]
    assert room.line.order(room.clock.now().monotonic) == ()


def test_a_crash_on_the_way_back_is_looked_into(room):
    """The next helper finds it running."""
    holder = parked(room)
    room.helper.refuse("resume", State.UNKNOWN)
    room.helper.refuse("free", State.RUNNING, None)
    assert resume(room, holder=holder).result is Result.DONE
    assert phases(room) == []


@pytest.mark.parametrize("now", [None, replace(OWNER, root=ProcessKey(100, 8))])
def test_who_is_gone_is_not_resumed(room, now):
    """It has been restarted, say."""
    holder = parked(room)
    room.owner = now
    assert resume(room, holder=holder).result is Result.ALREADY_GONE
    assert room.helper.asked == ["look", "park"]


def test_a_kernel_that_ends_while_it_comes_back_is_gone(room):
    """Nothing is tried again."""
    holder = parked(room)
    room.helper.meanwhile = lambda do: room.world.table.clear()
    room.helper.refuse("resume", State.UNKNOWN)
    room.helper.refuse("free", State.UNKNOWN)
    assert resume(room, holder=holder).result is Result.ALREADY_GONE
    assert phases(room) == []


def test_several_processes_on_devices_are_not_parked(room):
    """Only exactly one can be; the table of this moment counts, and not that of the last look."""
    child = ProcessKey(101, 9)
    room.world.table[101] = Process(child, 100, 100, 100, "S", NOON)
    room.devices.hold(child, GIB)
    assert park(room).detail == "2 of its processes are on devices, and only exactly one can be parked"


def test_two_at_once_share_the_memory_of_the_host(room):
    """The second one counts what the first one has left, and is not begun where that is too little."""
    other = ProcessKey(200, 9)
    other_owner = replace(OWNER, key=OwnerKey(OwnerKind.KERNEL, "other"), root=other)
    other_holder = Holder(other_owner, (Holding(GPU, (GpuProcess(other, GPU, 6 * GIB, 0.0, NOON),)),), (other,))
    room.world.table[200] = Process(other, 1, 200, 200, "S", NOON)
    room.devices.hold(other, 6 * GIB)
    room.look_again = {OWNER.key: OWNER, other_owner.key: other_owner}.get
    parked_ones = set()

    async def ask(do, key):
        await asyncio.sleep(0)  # a helper takes its time
        if do == "park":
            parked_ones.add(key)
            room.devices.drop(key)
        return Answer(State.CHECKPOINTED if key in parked_ones else State.RUNNING, None, None, 1.5)

    def free(pid):
        return (10 - 6 * len(parked_ones)) * GIB

    room.park = Park(replace(room.park._means, ask=ask, free_host_memory=free))

    async def both():
        return await asyncio.gather(room.act(Action.PARK), room.act(Action.PARK, other_holder))

    first, second = asyncio.run(both())
    assert (first.result, second.result) == (Result.DONE, Result.UNSUITED)
    assert second.detail.endswith("and there are 4.0 GiB")
