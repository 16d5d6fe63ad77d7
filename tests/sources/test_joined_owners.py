"""Kernels, terminals and TensorBoards as one: a source that fails harms itself alone."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest
from fake_clock import NOON

from jupyter_gpu_guard.core.model import Owner, OwnerKey, OwnerKind, OwnerState, Process, ProcessKey
from jupyter_gpu_guard.sources.owners import JoinedOwners

KERNEL = Owner(OwnerKey(OwnerKind.KERNEL, "x"), "a.ipynb", ProcessKey(10, 1), OwnerState.IDLE)
TERMINAL = Owner(OwnerKey(OwnerKind.TERMINAL, "x"), "Terminal x", ProcessKey(20, 2), OwnerState.IDLE)
BOARD = Owner(OwnerKey(OwnerKind.TENSORBOARD, "x"), "TensorBoard x", ProcessKey(30, 3), OwnerState.IDLE)
FAR = Owner(OwnerKey(OwnerKind.KERNEL, "far"), "b.ipynb", None, OwnerState.IDLE)


class FakeOwners:
    """`Owners` that are what a test says, or raise `fault`."""

    def __init__(self, *owners):
        self.owners = owners
        self.fault = None
        self.asked = []

    async def read(self, *asked):
        """All of them."""
        self.asked.append(asked)
        if self.fault is not None:
            raise self.fault
        return self.owners

    def look_again(self, key):
        """The first of them, whatever its name."""
        if self.fault is not None:
            raise self.fault
        return self.owners[0]


class Trio:
    """The three, and what joins them."""

    def __init__(self, *kernels):
        self.kernels = FakeOwners(*(kernels or (KERNEL,)))
        self.terminals, self.boards = FakeOwners(TERMINAL), FakeOwners(BOARD)
        self.all = JoinedOwners(self.kernels, self.terminals, self.boards)


def test_all_are_named_and_tensorboards_learn_who_may_have_started_them():
    """In one answer, from one process table."""
    trio, table = Trio(), {}
    assert asyncio.run(trio.all.read(table)) == (KERNEL, TERMINAL, BOARD)
    assert trio.kernels.asked == trio.terminals.asked == [(table,)]
    assert trio.boards.asked == [(table, (KERNEL, TERMINAL))]
    assert trio.all.roots == {KERNEL.root, TERMINAL.root, BOARD.root}
    assert trio.all.gaps == ()


@pytest.mark.parametrize("name", ["kernels", "terminals", "boards"])
def test_who_fails_keeps_its_owners_with_an_unknown_state(name, caplog):
    """Its processes do not become strangers, the others go on, and it is said once until it answers again."""

    async def scene():
        trio = Trio()
        before = await trio.all.read({})
        failing = getattr(trio, name)
        (lost,) = failing.owners
        failing.fault = RuntimeError("no")
        for _ in range(2):
            after = await trio.all.read(None)
            assert after == tuple(replace(o, state=OwnerState.UNKNOWN) if o == lost else o for o in before)
        assert [gap.source for gap in trio.all.gaps] == [name if name != "boards" else "tensorboards"]
        assert lost.root in trio.all.roots
        failing.fault = None
        assert await trio.all.read({}) == before
        assert trio.all.gaps == ()

    with caplog.at_level(logging.INFO):
        asyncio.run(scene())
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.INFO]


def test_who_is_seen_to_be_gone_is_not_kept():
    """The process has ended, or its pid is another's; one that runs elsewhere cannot be seen here."""

    def table(*processes):
        return {key.pid: Process(key, 1, 1, 1, state, NOON) for key, state in processes}

    async def kept(processes):
        trio = Trio(KERNEL, FAR)
        await trio.all.read({})
        trio.kernels.fault = trio.terminals.fault = trio.boards.fault = RuntimeError("no")
        return [owner.key for owner in await trio.all.read(processes)]

    whole = table((KERNEL.root, "S"), (TERMINAL.root, "S"), (BOARD.root, "S"))
    assert asyncio.run(kept(whole)) == [KERNEL.key, FAR.key, TERMINAL.key, BOARD.key]
    part = table((KERNEL.root, "Z"), (ProcessKey(20, 99), "S"), (BOARD.root, "S"))
    assert asyncio.run(kept(part)) == [FAR.key, BOARD.key]


def test_a_source_that_has_never_answered_names_nobody():
    """There is nobody to remember; the others are named."""
    trio = Trio()
    trio.boards.fault = RuntimeError("no")
    assert asyncio.run(trio.all.read({})) == (KERNEL, TERMINAL)


def test_whoever_stops_the_reading_is_not_held_up():
    """Cancellation is no fault of a source."""
    trio = Trio()
    trio.terminals.fault = asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(trio.all.read({}))


@pytest.mark.parametrize(
    ("key", "source"), [(KERNEL.key, "kernels"), (TERMINAL.key, "terminals"), (BOARD.key, "boards")]
)
def test_the_last_look_goes_to_the_one_source(key, source):
    """And its fault is the asker's to know: nothing is made up in the last moment."""
    trio = Trio()
    asked = getattr(trio, source)
    assert trio.all.look_again(key) is asked.owners[0]
    asked.fault = RuntimeError("no")
    with pytest.raises(RuntimeError):
        trio.all.look_again(key)
