"""What an earlier run of a kernel has left behind: real kernels, real processes, real signals."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace

import pytest
from fake_devices import GIB, GPU
from kernel_room import isolate, until
from shutdown_scene import shutdown_scene, verdict_on

from jupyter_gpu_guard.core.left_behind import left_behind
from jupyter_gpu_guard.core.model import GpuProcess, Holder, Holding, OwnerKind
from jupyter_gpu_guard.core.verdict import Result
from jupyter_gpu_guard.effects import shutdown as module
from jupyter_gpu_guard.effects.doors import LeftoversDoor
from jupyter_gpu_guard.effects.shutdown import Shutdown
from jupyter_gpu_guard.effects.signals import Sent


@pytest.fixture
def root(monkeypatch, tmp_path):
    """A folder for notes."""
    isolate(monkeypatch, tmp_path / "home")
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


@pytest.fixture
def signals(monkeypatch):
    """Every signal that the effect sends, in order. They are sent all the same."""
    sent = []
    real = module.send

    def noting(key, signum, identify):
        sent.append((key, signum))
        return real(key, signum, identify)

    monkeypatch.setattr(module, "send", noting)
    return sent


class Aftermath:
    """A restarted kernel, and what its first run has left: a stubborn child that holds 3 GiB."""

    def __init__(self, stage, kernel, child):
        self.stage, self.kernel, self.child = stage, kernel, child

    def holder(self, *others):
        """What was left behind, as it is judged: the child, and `others` that are on the device as well."""
        keys = (self.child, *others)
        rows = tuple(GpuProcess(key, GPU, 3 * GIB, 0.0, self.kernel.started_at) for key in keys)
        return Holder(left_behind(self.kernel, rows), (Holding(GPU, rows),), tuple(sorted(keys)))

    def means(self, **changed):
        """What the constructor asks for."""
        means = {**self.stage.means(), "roots": lambda: frozenset({self.kernel.root}), **changed}
        means["doors"] = {**means["doors"], OwnerKind.LEFTOVERS: LeftoversDoor()}
        return means


def play(root, scene):
    """Act `scene` in the aftermath of a restart, and clear up."""

    async def whole():
        async with shutdown_scene(root) as stage:
            holder, client = await stage.kernel()
            child = await stage.stubborn_child(holder, client)
            key = holder.owner.key
            await stage.room.kernels.restart_kernel(key.id, now=True)
            await client.wait_for_ready(timeout=60)
            stage.devices.hold(child, 3 * GIB)
            try:
                await scene(Aftermath(stage, stage.owners.look_again(key), child))
            finally:
                if stage.lives(child):
                    os.kill(child.pid, signal.SIGKILL)

    asyncio.run(whole())


def test_what_was_left_behind_is_ended_and_its_kernel_is_not(root, signals):
    """SIGTERM, the grace, SIGKILL, to it alone; the kernel of today and a stranger on the same device live."""

    async def scene(after):
        stage, stranger = after.stage, after.stage.stranger()
        stage.devices.hold(stranger, 20 * GIB)
        stage.devices.hold(after.kernel.root, 6 * GIB)
        holder = after.holder()
        began = stage.clock.passed
        outcome = await Shutdown(**after.means(), grace=60).shut_down(verdict_on(holder), holder)
        assert signals == [(after.child, signal.SIGTERM), (after.child, signal.SIGKILL)]
        assert stage.clock.passed - began >= 60
        assert not stage.lives(after.child)
        assert stage.lives(stranger)
        assert stage.lives(after.kernel.root)
        assert after.kernel.key.id in stage.room.kernels
        assert (outcome.result, outcome.freed_bytes, outcome.survivors) == (Result.DONE, 3 * GIB, ())
        assert outcome.detail.startswith("freed 3.0 GiB on GPU 0 in ")

    play(root, scene)


def test_what_has_ended_by_itself_is_already_gone(root, signals):
    """Nobody is signalled."""

    async def scene(after):
        holder = after.holder()
        os.kill(after.child.pid, signal.SIGKILL)
        await until(lambda: not after.stage.lives(after.child), "the child has ended")
        outcome = await Shutdown(**after.means()).shut_down(verdict_on(holder), holder)
        assert outcome.result is Result.ALREADY_GONE
        assert signals == []

    play(root, scene)


@pytest.mark.parametrize("asked", [False, True])
def test_a_pid_that_is_another_process_by_now_is_left_alone(root, signals, asked):
    """A stranger has the pid of what was left behind."""

    async def scene(after):
        stranger = after.stage.stranger()
        after.stage.devices.hold(stranger, 20 * GIB)
        holder = Aftermath(after.stage, after.kernel, replace(stranger, start_ticks=stranger.start_ticks - 1)).holder()
        outcome = await Shutdown(**after.means()).shut_down(verdict_on(holder, asked=asked), holder)
        assert outcome.result is Result.ALREADY_GONE
        assert after.stage.lives(stranger)
        assert signals == []

    play(root, scene)


@pytest.mark.parametrize("asked", [False, True])
def test_the_first_process_of_a_listed_owner_was_not_left_behind(root, signals, asked):
    """Whatever was thought of it before: a kernel that is listed with this process has it, and keeps it."""

    async def scene(after):
        holder = after.holder()
        means = after.means(roots=lambda: frozenset({after.child}))
        outcome = await Shutdown(**means).shut_down(verdict_on(holder, asked=asked), holder)
        assert outcome.result is Result.WITHDRAWN
        assert after.stage.lives(after.child)
        assert signals == []

    play(root, scene)


@pytest.mark.parametrize("asked", [False, True])
def test_compute_at_the_last_look_spares_it_from_a_rule(root, signals, asked):
    """It works again; a person who asks ends it all the same."""

    async def scene(after):
        after.stage.devices.hold(after.child, 3 * GIB, 80.0)
        holder = after.holder()
        verdict = replace(verdict_on(holder, asked=asked), compute_below=5.0)
        outcome = await Shutdown(**after.means(), grace=1).shut_down(verdict, holder)
        assert outcome.result is (Result.DONE if asked else Result.WITHDRAWN)
        assert after.stage.lives(after.child) is not asked

    play(root, scene)


def test_what_may_not_be_signalled_is_a_clear_failure(root, monkeypatch):
    """It runs as somebody else: said, not waited for, and named as what still holds memory."""

    async def scene(after):
        monkeypatch.setattr(module, "send", lambda *_: Sent.NO_PERMISSION)
        holder = after.holder()
        began = after.stage.clock.passed
        outcome = await Shutdown(**after.means(), grace=60).shut_down(verdict_on(holder), holder)
        assert outcome.result is Result.FAILED
        assert f"pid {after.child.pid}" in outcome.detail
        assert "there is no permission to signal it" in outcome.detail
        assert after.stage.clock.passed - began < 30
        assert [survivor.key for survivor in outcome.survivors] == [after.child]

    play(root, scene)
