"""The one door for effects: each verdict to its effect, every fault an Outcome."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fake_clock import FakeClock
from fake_devices import GIB, FakeDevices
from fake_processes import FakeProcesses
from jupyter_events import EventLogger
from kernel_room import isolate
from shutdown_scene import LOG, shutdown_scene, verdict_on

from jupyter_gpu_guard.core.model import Holder, Owner, OwnerKey, OwnerKind, OwnerState, ProcessKey
from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.core.verdict import Result
from jupyter_gpu_guard.effects.doors import KernelDoor
from jupyter_gpu_guard.effects.enforcer import OwnerEnforcer, RehearsingEnforcer
from jupyter_gpu_guard.effects.notices import NOTICE, OUTCOME, SCHEMAS

KERNEL = Owner(OwnerKey(OwnerKind.KERNEL, "k"), "a.ipynb", ProcessKey(4194301, 7), OwnerState.IDLE)
TERMINAL = replace(KERNEL, key=OwnerKey(OwnerKind.TERMINAL, "1"))


class FakeKernels(dict):
    """A kernel manager that forgets, or raises, `fault` when it is to shut a kernel down."""

    fault = None

    async def shutdown_kernel(self, kernel_id, **how):
        """Do so."""
        if self.fault is not None:
            raise self.fault
        self.pop(kernel_id)


class Office:
    """An enforcer among fakes, and every event it sent."""

    def __init__(self, *, look_again=lambda key: KERNEL):
        self.kernels = FakeKernels(k=1)
        self.events = EventLogger()
        self.heard = []
        world = FakeProcesses()

        async def processes():
            return world.read()

        async def listen(logger, schema_id, data):
            self.heard.append((schema_id, data["result"] if schema_id == OUTCOME else data["action"]))

        self.enforcer = OwnerEnforcer(
            event_logger=self.events,
            log=LOG,
            doors={OwnerKind.KERNEL: KernelDoor(self.kernels)},
            owners=SimpleNamespace(look_again=look_again),
            look=FakeDevices(world.identify).look,
            processes=processes,
            clock=FakeClock(),
            identify=world.identify,
            grace=60.0,
            shutdown_deadline=30.0,
        )
        for schema in SCHEMAS:
            self.events.add_listener(schema_id=schema, listener=listen)

    async def enforce(self, owner, action, **how):
        """The outcome of `action` on `owner`."""
        holder = Holder(owner, (), () if owner.root is None else (owner.root,))
        outcome = await self.enforcer.enforce(verdict_on(holder, action=action, **how), holder)
        await self.events.gather_listeners()
        return outcome


def test_a_warning_ends_nothing():
    """One notice, no outcome, and the kernel is there."""

    async def scene():
        office = Office()
        outcome = await office.enforce(KERNEL, Action.WARN)
        assert (outcome.action, outcome.result) == (Action.WARN, Result.DONE)
        assert office.heard == [(NOTICE, "warn")]
        assert "k" in office.kernels

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("now", "result"),
    [(KERNEL, Result.DONE), (None, Result.ALREADY_GONE), (replace(KERNEL, used_at=1.0), Result.WITHDRAWN)],
)
def test_every_shutdown_is_told_however_it_ends(now, result):
    """One outcome event each."""

    async def scene():
        office = Office(look_again=lambda key: now)
        outcome = await office.enforce(KERNEL, Action.SHUTDOWN)
        assert outcome.result is result
        assert office.heard == [(OUTCOME, result.value)]

    asyncio.run(scene())


@pytest.mark.parametrize("owner", [TERMINAL, replace(KERNEL, key=OwnerKey(OwnerKind.TENSORBOARD, "k"))])
def test_what_has_no_door_is_not_shut_down(owner):
    """A server without terminals, say: one that is called as a kernel is, and the kernel, both go on."""

    async def scene():
        office = Office()
        outcome = await office.enforce(owner, Action.SHUTDOWN)
        assert outcome.result is Result.FAILED
        assert outcome.detail == f"shutdown is not supported for {owner.key.kind.value}s"
        assert office.heard == [(OUTCOME, "failed")]
        assert "k" in office.kernels

    asyncio.run(scene())


def test_a_terminal_can_be_warned():
    """A warning needs no more than a name."""

    async def scene():
        office = Office()
        assert (await office.enforce(TERMINAL, Action.WARN)).result is Result.DONE
        assert office.heard == [(NOTICE, "warn")]

    asyncio.run(scene())


def test_a_verdict_about_somebody_else_ends_nobody():
    """Verdict and holder must name one owner."""

    async def scene():
        office = Office()
        holder = Holder(KERNEL, (), (KERNEL.root,))
        other = replace(verdict_on(holder), owner=OwnerKey(OwnerKind.KERNEL, "other"))
        outcome = await office.enforcer.enforce(other, holder)
        assert outcome.result is Result.FAILED
        assert "k" in office.kernels

    asyncio.run(scene())


def test_to_keep_is_nothing_to_carry_out():
    """It fails, rather than doing something else."""

    async def scene():
        office = Office()
        assert (await office.enforce(KERNEL, Action.KEEP)).result is Result.FAILED
        assert "k" in office.kernels

    asyncio.run(scene())


def test_a_fault_in_the_act_is_an_outcome():
    """Whatever raises inside: FAILED, told, and its text only in the log."""

    async def scene():
        def look_again(key):
            raise OSError("token=hunter2")

        office = Office(look_again=look_again)
        outcome = await office.enforce(KERNEL, Action.SHUTDOWN)
        assert outcome.result is Result.FAILED
        assert "OSError" in outcome.detail
        assert "hunter2" not in outcome.detail
        assert office.heard == [(OUTCOME, "failed")]
        assert "k" in office.kernels

    asyncio.run(scene())


def test_a_manager_that_raises_at_once_is_an_outcome():
    """Also one that is no coroutine at all."""

    async def scene():
        office = Office()
        office.kernels.fault = RuntimeError("no")
        assert (await office.enforce(KERNEL, Action.SHUTDOWN)).result is Result.FAILED
        office.kernels.shutdown_kernel = lambda *_, **__: 1 / 0
        outcome = await office.enforce(KERNEL, Action.SHUTDOWN)
        assert outcome.result is Result.FAILED
        assert "ZeroDivisionError" in outcome.detail

    asyncio.run(scene())


def test_cancellation_is_not_an_outcome():
    """Whoever stops the guard is not told that an act failed."""

    async def scene():
        async def for_ever():
            await asyncio.Event().wait()

        office = Office()
        office.enforcer._shutdown._look = for_ever
        act = asyncio.ensure_future(office.enforce(KERNEL, Action.SHUTDOWN))
        await asyncio.sleep(0)
        act.cancel()
        with pytest.raises(asyncio.CancelledError):
            await act
        assert office.heard == []

    asyncio.run(scene())


@pytest.mark.parametrize("action", [Action.WARN, Action.SHUTDOWN])
def test_a_rehearsal_does_nothing(action):
    """In mode observe the outcome says what would have been done; it has no door to anything."""

    async def scene():
        holder = Holder(KERNEL, (), (KERNEL.root,))
        outcome = await RehearsingEnforcer(FakeClock()).enforce(verdict_on(holder, action=action), holder)
        assert outcome.result is Result.REHEARSED
        assert outcome.action is action
        assert "would have" in outcome.detail
        assert outcome.freed_bytes is None

    asyncio.run(scene())


def test_a_person_ends_a_real_kernel(monkeypatch, tmp_path):
    """The whole way once: the kernel is gone, its memory is free, and everybody is told who did it."""
    isolate(monkeypatch, tmp_path / "home")

    async def scene():
        async with shutdown_scene(tmp_path) as stage:
            holder, _ = await stage.kernel()
            told = []

            async def listen(logger, schema_id, data):
                told.append(data)

            enforcer = OwnerEnforcer(event_logger=stage.room.events, **stage.means())
            stage.room.events.add_listener(schema_id=OUTCOME, listener=listen)
            outcome = await enforcer.enforce(verdict_on(holder, asked=True), holder)
            await stage.room.events.gather_listeners()
            assert outcome.result is Result.DONE
            assert not stage.lives(holder.owner.root)
            (event,) = told
            assert event["by"] == "anna"
            assert event["freed_bytes"] == 6 * GIB
            assert event["survivors"] == []

    asyncio.run(scene())
