"""Shutting a kernel down: real kernels, real processes, real signals; only the driver is made up."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fake_clock import NOON, FakeClock
from fake_devices import GIB, GPU, FakeDevices
from fake_processes import FakeProcesses
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from kernel_room import (
    HangingProvisioner,
    JobProvisioner,
    RaisingProvisioner,
    RemoteProvisioner,
    isolate,
    provide_kernelspec,
    until,
)
from shutdown_scene import LOG, shutdown_scene, verdict_on
from tornado.web import HTTPError

from jupyter_gpu_guard.core.model import (
    Device,
    Gap,
    GpuClient,
    Holder,
    Owner,
    OwnerKey,
    OwnerKind,
    OwnerState,
    Process,
    ProcessKey,
    Unknown,
    Why,
)
from jupyter_gpu_guard.core.verdict import Result
from jupyter_gpu_guard.effects import shutdown as module
from jupyter_gpu_guard.effects.doors import KernelDoor
from jupyter_gpu_guard.effects.shutdown import Shutdown
from jupyter_gpu_guard.effects.signals import Sent
from jupyter_gpu_guard.protocols import DevicesSeen


@pytest.fixture
def jupyter_data(monkeypatch, tmp_path):
    """Jupyter's data folder, empty."""
    return isolate(monkeypatch, tmp_path / "home")


@pytest.fixture
def root(jupyter_data, tmp_path):
    """A folder for notes."""
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


def play(root, scene):
    """Act `scene` on a stage of its own."""

    async def whole():
        async with shutdown_scene(root) as stage:
            await scene(stage)

    asyncio.run(whole())


def test_an_idle_kernel_is_shut_down_and_its_memory_is_seen_to_be_free(root, signals):
    """Jupyter's own door is enough: no signal of ours, no kernel afterwards, and none starts by itself."""

    async def scene(stage):
        holder, _ = await stage.kernel()
        actions = []

        async def note(logger, schema_id, data):
            actions.append(data["action"])

        stage.room.events.add_listener(
            schema_id="https://events.jupyter.org/jupyter_server/kernel_actions/v1", listener=note
        )
        outcome = await Shutdown(**stage.means()).shut_down(verdict_on(holder), holder)
        assert outcome.result is Result.DONE
        assert outcome.freed_bytes == 6 * GIB
        assert outcome.detail.startswith("freed 6.0 GiB on GPU 0 in ")
        assert outcome.survivors == ()
        assert (outcome.rule, outcome.by, outcome.root) == ("students", None, holder.owner.root)
        assert not stage.lives(holder.owner.root)
        await asyncio.sleep(0.2)
        assert stage.room.kernels.list_kernel_ids() == []
        assert "shutdown" in actions
        assert not {"start", "restart"} & set(actions)
        assert signals == []

    play(root, scene)


def test_a_child_in_its_own_session_is_ended_and_a_stranger_is_not(root, signals):
    """SIGTERM, the whole grace, SIGKILL; beside it a stranger on the same device keeps pid and start time."""

    async def scene(stage):
        holder, client = await stage.kernel()
        child, stranger = await stage.stubborn_child(holder, client), stage.stranger()
        stage.devices.hold(child, 3 * GIB)
        stage.devices.hold(stranger, 20 * GIB)
        holder = stage.used_now(replace(holder, tree=tuple(sorted((*holder.tree, child)))))
        began = stage.clock.passed
        outcome = await Shutdown(**stage.means(), grace=60).shut_down(verdict_on(holder), holder)
        assert signals == [(child, signal.SIGTERM), (child, signal.SIGKILL)]
        assert (root / "stubborn.term").read_text() == "TERM"
        assert stage.clock.passed - began >= 60
        assert not stage.lives(child)
        assert stage.lives(stranger)
        assert outcome.result is Result.DONE
        assert outcome.freed_bytes == 9 * GIB
        assert outcome.survivors == ()

    play(root, scene)


def test_a_child_that_was_started_after_the_last_tick_belongs_too(root, signals):
    """The tree is looked up once more right before the act, while the parents still live."""

    async def scene(stage):
        holder, client = await stage.kernel()
        child = await stage.stubborn_child(holder, client)
        stage.devices.hold(child, 3 * GIB)
        holder = stage.used_now(holder)
        assert child not in holder.tree
        outcome = await Shutdown(**stage.means(), grace=1).shut_down(verdict_on(holder), holder)
        assert not stage.lives(child)
        assert outcome.freed_bytes == 9 * GIB

    play(root, scene)


def test_a_survivor_that_heeds_sigterm_gets_nothing_else(root, signals):
    """The grace is not waited out, and SIGKILL is not sent."""

    async def scene(stage):
        holder, client = await stage.kernel()
        code = "import subprocess; p = subprocess.Popen(['sleep', '600'], start_new_session=True)"
        await stage.run(holder.owner.key, client, code)
        (child,) = [
            process.key
            for process in stage.table.read().values()
            if process.parent == holder.owner.root.pid and process.session == process.key.pid
        ]
        stage.devices.hold(child, GIB)
        holder = stage.used_now(holder)
        began = stage.clock.passed
        await Shutdown(**stage.means(), grace=60).shut_down(verdict_on(holder), holder)
        assert signals == [(child, signal.SIGTERM)]
        assert stage.clock.passed - began < 30
        assert not stage.lives(child)

    play(root, scene)


def test_a_survivor_without_a_device_is_left_alone(root, signals):
    """The guard frees GPUs; what runs on without one is mentioned, and lives."""

    async def scene(stage):
        holder, client = await stage.kernel()
        child = await stage.stubborn_child(holder, client)
        holder = stage.used_now(holder)
        try:
            outcome = await Shutdown(**stage.means()).shut_down(verdict_on(holder), holder)
            assert stage.lives(child)
            assert signals == []
            assert outcome.result is Result.DONE
            assert "1 process that it had started, without GPU memory, left alone" in outcome.detail
        finally:
            os.kill(child.pid, signal.SIGKILL)

    play(root, scene)


def test_a_noted_pid_that_belongs_to_another_process_is_never_signalled(root, signals):
    """A worker of the tree has ended; a stranger on the same device has its pid by now."""

    async def scene(stage):
        holder, _ = await stage.kernel()
        stranger = stage.stranger()
        stage.devices.hold(stranger, 20 * GIB)
        worker = ProcessKey(stranger.pid, stranger.start_ticks - 1)
        holder = replace(holder, tree=tuple(sorted((*holder.tree, worker))))
        outcome = await Shutdown(**stage.means()).shut_down(verdict_on(holder), holder)
        assert signals == []
        assert stage.lives(stranger)
        assert outcome.survivors == ()
        assert outcome.freed_bytes == 6 * GIB

    play(root, scene)


@pytest.mark.parametrize("asked", [False, True])
def test_a_kernel_that_ends_in_mid_act_is_already_gone(root, signals, asked):
    """While the devices are read, somebody shuts it down: nothing is left to do."""

    async def scene(stage):
        holder, _ = await stage.kernel()
        means = stage.means()

        async def look():
            await stage.room.kernels.shutdown_kernel(holder.owner.key.id, now=True)
            return await stage.devices.look()

        means["look"] = look
        outcome = await Shutdown(**means).shut_down(verdict_on(holder, asked=asked), holder)
        assert outcome.result is Result.ALREADY_GONE
        assert outcome.detail == "it had ended by itself"
        assert signals == []

    play(root, scene)


@pytest.mark.parametrize("fault", [HTTPError(404, "Kernel does not exist"), KeyError("kernel")])
def test_a_door_that_finds_no_kernel_still_looks_for_leftovers(root, signals, fault):
    """It ended between the last look and the door; its child on the device is ended all the same."""

    async def scene(stage):
        holder, client = await stage.kernel()
        child = await stage.stubborn_child(holder, client)
        stage.devices.hold(child, 3 * GIB)
        holder = stage.used_now(replace(holder, tree=(*holder.tree, child)))
        means = stage.means()
        real = stage.room.kernels

        class FakeManager:
            """Its kernel is gone when it is asked to shut it down."""

            def __contains__(self, kernel_id):
                return kernel_id in real

            async def shutdown_kernel(self, kernel_id, **how):
                await real.shutdown_kernel(kernel_id, now=True)
                raise fault

        means["doors"] = {OwnerKind.KERNEL: KernelDoor(FakeManager())}
        outcome = await Shutdown(**means, grace=1).shut_down(verdict_on(holder), holder)
        assert outcome.result is Result.ALREADY_GONE
        assert not stage.lives(child)
        assert outcome.freed_bytes == 9 * GIB
        assert outcome.detail == "it had ended by itself; 9.0 GiB are free again on GPU 0"

    play(root, scene)


def test_a_provisioner_that_raises_is_a_failure_and_nobody_is_signalled(root, jupyter_data, signals):
    """FAILED, the kernel and its child live, and the text of the fault stays in the log; trying again ends it."""
    provide_kernelspec(jupyter_data, "raising", RaisingProvisioner)

    async def scene(stage):
        holder, client = await stage.kernel("raising")
        child = await stage.stubborn_child(holder, client)
        stage.devices.hold(child, 3 * GIB)
        holder = stage.used_now(replace(holder, tree=(*holder.tree, child)))
        effect = Shutdown(**stage.means(), grace=1)
        outcome = await effect.shut_down(verdict_on(holder), holder)
        assert outcome.result is Result.FAILED
        assert outcome.freed_bytes is None
        assert "RuntimeError" in outcome.detail
        assert "hunter2" not in outcome.detail
        assert signals == []
        assert stage.lives(holder.owner.root)
        assert stage.lives(child)
        popen = stage.room.kernels.get_kernel(holder.owner.key.id).provisioner.process
        # Asked again, Jupyter only forgets a kernel whose shutdown has failed: then nobody but the guard can end it.
        outcome = await effect.shut_down(verdict_on(holder), holder)
        assert outcome.result is Result.DONE
        assert not stage.lives(holder.owner.root)
        assert not stage.lives(child)
        assert outcome.freed_bytes == 9 * GIB
        assert popen.wait(timeout=30) == -signal.SIGTERM

    play(root, scene)


def test_a_shutdown_that_takes_too_long_is_a_failure_and_is_not_begun_twice(root, jupyter_data, signals):
    """FAILED without a signal; the shutdown goes on, and who tries again waits for the same one."""
    provide_kernelspec(jupyter_data, "hanging", HangingProvisioner)

    async def scene(stage):
        holder, _ = await stage.kernel("hanging")
        began = []
        real = stage.room.kernels.shutdown_kernel
        stage.room.kernels.shutdown_kernel = lambda *args, **how: (began.append(args), real(*args, **how))[1]
        effect = Shutdown(**stage.means(), deadline=0.3)
        outcome = await effect.shut_down(verdict_on(holder), holder)
        assert outcome.result is Result.FAILED
        assert "0.3 s" in outcome.detail
        assert signals == []
        assert stage.lives(holder.owner.root)
        HangingProvisioner.kind = True
        patient = Shutdown(**{**stage.means(), "doors": effect._doors}, deadline=60)
        patient._knocks = effect._knocks
        outcome = await patient.shut_down(verdict_on(holder), holder)
        assert outcome.result is Result.DONE
        assert not stage.lives(holder.owner.root)
        assert len(began) == 1
        assert effect._knocks == {}

    play(root, scene)


def test_one_that_hangs_holds_up_nobody_else(root, jupyter_data, signals):
    """The other one is shut down meanwhile, to its end."""
    provide_kernelspec(jupyter_data, "hanging", HangingProvisioner)

    async def scene(stage):
        hanging, _ = await stage.kernel("hanging")
        other, _ = await stage.kernel()
        effect = Shutdown(**stage.means(), deadline=600)
        stuck = asyncio.ensure_future(effect.shut_down(verdict_on(hanging), hanging))
        await until(lambda: effect._knocks != {}, "the first one hangs")
        outcome = await effect.shut_down(verdict_on(other), other)
        assert outcome.result is Result.DONE
        assert not stuck.done()
        HangingProvisioner.kind = True
        assert (await stuck).result is Result.DONE

    play(root, scene)


def test_a_root_that_nothing_can_end_is_a_clear_failure(monkeypatch):
    """It waits in the driver: one attempt with both signals, and then what it waits for is said."""
    world, clock, sent = FakeProcesses(Process(OWNER.root, 1, 1, 1, "D", NOON)), FakeClock(), []
    devices = FakeDevices(world.identify)
    devices.hold(OWNER.root, GIB)
    monkeypatch.setattr(module, "send", lambda key, signum, _: sent.append(signum) or Sent.SENT)
    effect = Shutdown(
        doors={OwnerKind.KERNEL: KernelDoor(FakeKernels(k=1))},
        owners=SimpleNamespace(look_again=lambda key: OWNER),
        look=devices.look,
        processes=world.scan,
        identify=world.identify,
        clock=clock,
        log=LOG,
        sleep=clock.sleep,
    )
    holder = Holder(OWNER, (), (OWNER.root,))
    outcome = asyncio.run(effect.shut_down(verdict_on(holder), holder))
    assert sent == [signal.SIGTERM, signal.SIGKILL]
    assert outcome.result is Result.FAILED
    why = "does not end: it waits in a driver or for a disk (state D), and ends once that is over"
    assert outcome.detail == f"its process, pid {OWNER.root.pid}, {why}"
    assert [survivor.state for survivor in outcome.survivors] == ["D"]


def test_a_zombie_on_the_list_of_the_driver_is_told_and_not_signalled(monkeypatch):
    """Nobody has waited for it yet; no signal could reach it."""
    kernel, zombie = Process(OWNER.root, 1, 1, 1, "S", NOON), Process(ProcessKey(4194302, 8), 1, 1, 1, "Z", NOON)
    world, clock, sent = FakeProcesses(kernel, zombie), FakeClock(), []

    class FakeEnding(FakeKernels):
        async def shutdown_kernel(self, kernel_id, **how):
            del world.table[kernel.key.pid]
            self.pop(kernel_id)

    async def look():
        listed = [key for key in (kernel.key, zombie.key) if key.pid in world.table]
        clients = tuple(GpuClient(GPU, key.pid, GIB, 0.0) for key in listed)
        return DevicesSeen((Device(GPU, 0, "Fake", 80 * GIB, 0.0),), clients)

    monkeypatch.setattr(module, "send", lambda key, signum, _: sent.append(signum) or Sent.SENT)
    effect = Shutdown(
        doors={OwnerKind.KERNEL: KernelDoor(FakeEnding(k=1))},
        owners=SimpleNamespace(look_again=lambda key: OWNER),
        look=look,
        processes=world.scan,
        identify=world.identify,
        clock=clock,
        log=LOG,
        sleep=clock.sleep,
    )
    holder = Holder(OWNER, (), (OWNER.root, zombie.key))
    outcome = asyncio.run(effect.shut_down(verdict_on(holder), holder))
    assert sent == []
    assert outcome.result is Result.DONE
    assert outcome.detail.endswith(f"but 1.0 GiB still held by pid {zombie.key.pid} (state Z)")


def test_a_kernel_that_is_a_job_of_a_queue_is_taken_off_by_its_provisioner(root, jupyter_data, signals):
    """However long the queue takes, within the limit: it is asked once, waited for, and leaves no process."""
    provide_kernelspec(jupyter_data, "job", JobProvisioner)

    async def scene(stage):
        holder, _ = await stage.kernel("job")
        job = stage.identify(JobProvisioner.job).key
        stage.devices.hold(job, 3 * GIB)
        act = asyncio.ensure_future(Shutdown(**stage.means(), deadline=60).shut_down(verdict_on(holder), holder))
        await until(lambda: JobProvisioner.cleanups > 0, "the queue is asked")
        assert not act.done()
        assert stage.lives(job)
        assert signals == []
        JobProvisioner.kind = True
        outcome = await act
        assert (outcome.result, outcome.freed_bytes) == (Result.DONE, 9 * GIB)
        assert JobProvisioner.cleanups == 1
        assert signals == []
        await until(
            lambda: not any(each.session == job.pid and not each.is_over for each in stage.table.read().values()),
            "nothing of it to be left",
        )

    play(root, scene)


def test_a_queue_that_refuses_is_a_failure_and_its_job_is_not_signalled(root, jupyter_data, signals):
    """To end the process behind its back would leave the job in the queue, with its GPU."""
    provide_kernelspec(jupyter_data, "job", JobProvisioner)

    async def scene(stage):
        holder, _ = await stage.kernel("job")
        job = stage.identify(JobProvisioner.job).key
        stage.devices.hold(job, 3 * GIB)
        JobProvisioner.kind, JobProvisioner.fault = True, RuntimeError("the queue refuses")
        try:
            outcome = await Shutdown(**stage.means()).shut_down(verdict_on(holder), holder)
            assert outcome.result is Result.FAILED
            assert "RuntimeError" in outcome.detail
            assert stage.lives(job)
            assert signals == []
        finally:
            JobProvisioner.fault = None
            os.killpg(job.pid, signal.SIGKILL)

    play(root, scene)


def test_a_wrapper_and_the_kernel_under_it_both_end(root, jupyter_data, signals):
    """The pid that Jupyter knows is that of a shell; the Python under it holds the memory, and is gone as well."""
    provide_kernelspec(jupyter_data, "wrapped", LocalProvisioner)
    spec = jupyter_data / "kernels/wrapped/kernel.json"
    argv = ["bash", "-c", f"{sys.executable} -m ipykernel_launcher -f {{connection_file}}; true"]
    spec.write_text(json.dumps({**json.loads(spec.read_text()), "argv": argv}))

    async def scene(stage):
        holder, _ = await stage.kernel("wrapped")
        wrapper = holder.owner.root
        (inner,) = [each.key for each in stage.table.read().values() if each.parent == wrapper.pid]
        stage.devices.hold(inner, 4 * GIB)
        outcome = await Shutdown(**stage.means()).shut_down(verdict_on(holder), holder)
        assert (outcome.result, outcome.freed_bytes) == (Result.DONE, 10 * GIB)
        assert not stage.lives(wrapper)
        assert not stage.lives(inner)
        assert signals == []

    play(root, scene)


def test_a_kernel_that_executes_at_the_last_look_is_left_alone(root, signals):
    """A cell sent while the devices were read withdraws the act; a person who asks gets it all the same."""

    async def scene(stage):
        holder, client = await stage.kernel()
        means = stage.means()

        async def look():
            client.execute("import time; time.sleep(600)")
            await until(lambda: stage.owners.look_again(holder.owner.key).state is OwnerState.EXECUTING, "executing")
            return await stage.devices.look()

        outcome = await Shutdown(**{**means, "look": look}).shut_down(verdict_on(holder), holder)
        assert outcome.result is Result.WITHDRAWN
        assert outcome.detail == "it is executing again"
        assert stage.lives(holder.owner.root)
        assert holder.owner.key.id in stage.room.kernels
        outcome = await Shutdown(**means).shut_down(verdict_on(holder, asked=True), holder)
        assert outcome.result is Result.DONE
        assert outcome.by == "anna"
        assert not stage.lives(holder.owner.root)
        assert signals == []

    play(root, scene)


def test_a_restarted_kernel_is_another_process_and_left_alone(root):
    """Also when a person asked: they meant what they saw."""

    async def scene(stage):
        holder, client = await stage.kernel()
        await stage.room.kernels.restart_kernel(holder.owner.key.id, now=True)
        await client.wait_for_ready(timeout=60)
        outcome = await Shutdown(**stage.means()).shut_down(verdict_on(holder, asked=True), holder)
        assert outcome.result is Result.WITHDRAWN
        assert "restarted" in outcome.detail
        assert stage.lives(stage.owners.look_again(holder.owner.key).root)

    play(root, scene)


class FakeKernels(dict):
    """A kernel manager that does what it is told: it forgets the kernel, and with it end the processes of `world`."""

    world: FakeProcesses | None = None

    async def shutdown_kernel(self, kernel_id, **how):
        """Forget the kernel."""
        self.pop(kernel_id)
        if self.world is not None:
            self.world.table.clear()


OWNER = Owner(OwnerKey(OwnerKind.KERNEL, "k"), "a.ipynb", ProcessKey(4194301, 7), OwnerState.IDLE, used_at=50.0)


@pytest.mark.parametrize(
    ("changed", "by_rule", "when_asked"),
    [
        ({}, Result.DONE, Result.DONE),
        ({"state": OwnerState.EXECUTING}, Result.WITHDRAWN, Result.DONE),
        ({"used_at": 51.0}, Result.WITHDRAWN, Result.DONE),
        ({"state": OwnerState.UNKNOWN}, Result.WITHDRAWN, Result.DONE),
        ({"root": None}, Result.WITHDRAWN, Result.WITHDRAWN),
        ({"root": ProcessKey(4194301, 8)}, Result.WITHDRAWN, Result.WITHDRAWN),
        ({"root": ProcessKey(4194302, 7)}, Result.WITHDRAWN, Result.WITHDRAWN),
    ],
    ids=str,
)
@pytest.mark.parametrize("asked", [False, True])
def test_what_the_last_look_shows_decides(changed, by_rule, when_asked, asked):
    """Use, execution and doubt withdraw a rule's act; another process withdraws a person's as well."""

    async def scene():
        kernels, clock, world = FakeKernels(k=1), FakeClock(), FakeProcesses()
        holder = Holder(OWNER, (), (OWNER.root,))

        async def processes():
            return world.read()

        effect = Shutdown(
            doors={OwnerKind.KERNEL: KernelDoor(kernels)},
            owners=SimpleNamespace(look_again=lambda key: replace(OWNER, **changed)),
            look=FakeDevices(world.identify).look,
            processes=processes,
            identify=world.identify,
            clock=clock,
            log=LOG,
        )
        outcome = await effect.shut_down(verdict_on(holder, asked=asked), holder)
        assert outcome.result is (when_asked if asked else by_rule)
        assert ("k" in kernels) == (outcome.result is Result.WITHDRAWN)

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("state", "changed", "result"),
    [
        (OwnerState.EXECUTING, {}, Result.DONE),
        (OwnerState.EXECUTING, {"used_at": 51.0, "state": OwnerState.IDLE}, Result.WITHDRAWN),
        (OwnerState.EXECUTING, {"used_at": 51.0}, Result.WITHDRAWN),
        (OwnerState.STARTING, {"state": OwnerState.EXECUTING}, Result.WITHDRAWN),
    ],
    ids=str,
)
def test_a_rule_about_executing_kernels_is_held_against_the_same_execution(state, changed, result):
    """A kernel that was judged while it executed may be ended while that goes on; a new cell withdraws the act."""

    async def scene():
        kernels, world = FakeKernels(k=1), FakeProcesses()
        judged = replace(OWNER, state=state)
        effect = Shutdown(
            doors={OwnerKind.KERNEL: KernelDoor(kernels)},
            owners=SimpleNamespace(look_again=lambda key: replace(judged, **changed)),
            look=FakeDevices(world.identify).look,
            processes=world.scan,
            identify=world.identify,
            clock=FakeClock(),
            log=LOG,
        )
        holder = Holder(judged, (), (OWNER.root,))
        outcome = await effect.shut_down(verdict_on(holder), holder)
        assert outcome.result is result
        assert ("k" in kernels) == (result is Result.WITHDRAWN)

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("compute", "by_rule"),
    [
        (0.0, Result.DONE),
        (4.9, Result.DONE),
        (5.0, Result.WITHDRAWN),
        (Unknown(Why.DRIVER_ERROR), Result.WITHDRAWN),
        (None, Result.WITHDRAWN),
        (Gap("devices", "the driver is not loaded"), Result.WITHDRAWN),
    ],
    ids=str,
)
@pytest.mark.parametrize("asked", [False, True])
def test_compute_at_the_last_look_withdraws_the_act_of_a_rule(compute, by_rule, asked):
    """So does a device that does not answer (None) or does not tell; a person who asks gets it all the same.

    A driver that answers without its devices (a Gap) lists nobody, which is not the same as nobody computing.
    """

    async def scene():
        kernels, world, clock = FakeKernels(k=1), FakeProcesses(), FakeClock()
        kernels.world = world
        root = OWNER.root
        world.table[root.pid] = Process(root, 1, root.pid, root.pid, "S", NOON)
        devices = FakeDevices(world.identify)
        devices.silent = compute is None
        if isinstance(compute, Gap):
            devices.gaps = (compute,)
        else:
            devices.hold(root, 2 * GIB, 0.0 if compute is None else compute)
        effect = Shutdown(
            doors={OwnerKind.KERNEL: KernelDoor(kernels)},
            owners=SimpleNamespace(look_again=lambda key: OWNER),
            look=devices.look,
            processes=world.scan,
            identify=world.identify,
            clock=clock,
            sleep=clock.sleep,
            log=LOG,
        )
        holder = Holder(OWNER, (), (root,))
        outcome = await effect.shut_down(replace(verdict_on(holder, asked=asked), compute_below=5.0), holder)
        assert ("k" in kernels) == (outcome.result is Result.WITHDRAWN)
        assert (outcome.result is Result.WITHDRAWN) == (by_rule is Result.WITHDRAWN and not asked)

    asyncio.run(scene())


def test_devices_that_do_not_answer_leave_the_release_open_and_nobody_is_signalled(root, signals):
    """Ended, but not verified; a survivor may hold something or not, so it is left alone."""

    async def scene(stage):
        holder, client = await stage.kernel()
        child = await stage.stubborn_child(holder, client)
        stage.devices.hold(child, 3 * GIB)
        stage.devices.silent = True
        holder = stage.used_now(replace(holder, tree=(*holder.tree, child)))
        try:
            outcome = await Shutdown(**stage.means()).shut_down(verdict_on(holder), holder)
            assert outcome.result is Result.DONE
            assert outcome.freed_bytes is None
            assert "could not verify" in outcome.detail
            assert signals == []
            assert stage.lives(child)
            assert not stage.lives(holder.owner.root)
        finally:
            os.kill(child.pid, signal.SIGKILL)

    play(root, scene)


def test_one_device_that_does_not_answer_is_enough_not_to_verify(root):
    """A reading with a gap shows what is held, not what is free."""

    async def scene(stage):
        holder, _ = await stage.kernel()
        stage.devices.gaps = (Gap("devices", "device 3 is lost"),)
        outcome = await Shutdown(**stage.means()).shut_down(verdict_on(holder), holder)
        assert outcome.result is Result.DONE
        assert outcome.freed_bytes is None
        assert "could not verify" in outcome.detail

    play(root, scene)


def test_memory_that_the_driver_does_not_tell_is_not_made_up(root):
    """Listed before, not listed after: that much is said, and no number."""

    async def scene(stage):
        holder, _ = await stage.kernel()
        stage.devices.hold(holder.owner.root, Unknown(Why.NOT_AVAILABLE))
        outcome = await Shutdown(**stage.means()).shut_down(verdict_on(holder), holder)
        assert outcome.freed_bytes is None
        assert outcome.detail.endswith("the driver lists none of its processes any more")

    play(root, scene)


def test_two_who_shut_down_one_kernel_do_it_once(root):
    """The second waits, and finds it gone."""

    async def scene(stage):
        holder, _ = await stage.kernel()
        effect = Shutdown(**stage.means())
        both = (effect.shut_down(verdict_on(holder, asked=asked), holder) for asked in (False, True))
        first, second = await asyncio.gather(*both)
        assert (first.result, second.result) == (Result.DONE, Result.ALREADY_GONE)

    play(root, scene)


def test_cancellation_passes_through_and_leaves_no_half_shutdown(root, jupyter_data):
    """Whoever cancels is not held up; Jupyter's shutdown goes on to its end."""
    provide_kernelspec(jupyter_data, "hanging", HangingProvisioner)

    async def scene(stage):
        holder, _ = await stage.kernel("hanging")
        effect = Shutdown(**stage.means())
        act = asyncio.ensure_future(effect.shut_down(verdict_on(holder), holder))
        await until(lambda: effect._knocks != {}, "the door is open")
        act.cancel()
        with pytest.raises(asyncio.CancelledError):
            await act
        HangingProvisioner.kind = True
        await until(lambda: holder.owner.key.id not in stage.room.kernels, "shut down")
        assert not stage.lives(holder.owner.root)

    play(root, scene)


def test_with_pending_kernels_the_end_is_waited_for(root):
    """Jupyter's door answers at once there; the outcome does not."""

    async def scene(stage):
        holder, _ = await stage.kernel()
        stage.room.kernels.use_pending_kernels = True
        outcome = await Shutdown(**stage.means()).shut_down(verdict_on(holder), holder)
        assert outcome.result is Result.DONE
        assert not stage.lives(holder.owner.root)
        assert stage.room.kernels.list_kernel_ids() == []
        assert outcome.freed_bytes == 6 * GIB

    play(root, scene)


def test_a_kernel_elsewhere_is_shut_down_only_when_asked_and_nothing_is_claimed(root, jupyter_data):
    """No rule may end what is not known; for a person Jupyter's door is open, and no memory is said to be free."""
    provide_kernelspec(jupyter_data, "far", RemoteProvisioner)

    async def scene(stage):
        holder, _ = await stage.kernel("far")
        effect = Shutdown(**stage.means())
        outcome = await effect.shut_down(verdict_on(holder), holder)
        assert outcome.result is Result.WITHDRAWN
        outcome = await effect.shut_down(verdict_on(holder, asked=True), holder)
        assert outcome.result is Result.DONE
        assert outcome.freed_bytes is None
        assert outcome.detail.endswith("it did not run here, so nothing could be verified")
        assert stage.room.kernels.list_kernel_ids() == []

    play(root, scene)


def test_a_process_that_nothing_can_end_is_reported_and_not_waited_for_for_ever(root, monkeypatch):
    """State D: it gets both signals, the waiting ends, and the outcome names it with what it holds."""

    async def scene(stage):
        holder, client = await stage.kernel()
        child = await stage.stubborn_child(holder, client)
        stage.devices.hold(child, 3 * GIB)
        holder = stage.used_now(replace(holder, tree=(*holder.tree, child)))
        means = stage.means()

        def waits_in_the_driver(pid):
            process = stage.identify(pid)
            return replace(process, state="D") if process is not None and pid == child.pid else process

        sent = []
        monkeypatch.setattr(module, "send", lambda key, signum, _: sent.append(signum) or Sent.SENT)
        means["identify"] = waits_in_the_driver
        began = stage.clock.passed
        try:
            outcome = await Shutdown(**means, grace=60).shut_down(verdict_on(holder), holder)
        finally:
            os.kill(child.pid, signal.SIGKILL)
        assert sent == [signal.SIGTERM, signal.SIGKILL]
        assert 70 <= stage.clock.passed - began < 100
        assert outcome.result is Result.DONE
        (survivor,) = outcome.survivors
        assert (survivor.key, survivor.device, survivor.state) == (child, GPU, "D")
        assert outcome.freed_bytes == 6 * GIB
        assert outcome.detail.endswith(f", but 3.0 GiB still held by pid {child.pid} (state D)")

    play(root, scene)


def test_a_signal_that_is_not_permitted_is_not_waited_for(root, monkeypatch):
    """A survivor that runs as somebody else: no use waiting a minute for nothing."""

    async def scene(stage):
        holder, client = await stage.kernel()
        child = await stage.stubborn_child(holder, client)
        stage.devices.hold(child, 3 * GIB)
        holder = stage.used_now(replace(holder, tree=(*holder.tree, child)))
        monkeypatch.setattr(module, "send", lambda *_: Sent.NO_PERMISSION)
        began = stage.clock.passed
        try:
            outcome = await Shutdown(**stage.means(), grace=60).shut_down(verdict_on(holder), holder)
        finally:
            os.kill(child.pid, signal.SIGKILL)
        assert stage.clock.passed - began < 30
        assert [survivor.key for survivor in outcome.survivors] == [child]
        assert outcome.detail.endswith(f"held by pid {child.pid} (state S, there is no permission to signal it)")

    play(root, scene)


def test_what_a_survivor_starts_while_it_is_asked_to_end_is_ended_too(monkeypatch):
    """On SIGTERM it begins another process in a session of its own, which takes the device over."""
    kernel, survivor = Process(OWNER.root, 1, 1, 1, "S", NOON), Process(ProcessKey(4194302, 8), 1, 1, 1, "S", NOON)
    successor = Process(ProcessKey(4194303, 99), survivor.key.pid, 4194303, 4194303, "S", NOON)
    world, clock = FakeProcesses(kernel, survivor), FakeClock()
    devices = FakeDevices(world.identify)
    devices.hold(survivor.key, GIB)
    sent = []

    def send(key, signum, identify):
        sent.append((key, signum))
        if signum is signal.SIGTERM:
            world.table[successor.key.pid] = successor
            devices.hold(successor.key, GIB)
        else:
            del world.table[key.pid]
        return Sent.SENT

    class FakeEnding(FakeKernels):
        async def shutdown_kernel(self, kernel_id, **how):
            del world.table[kernel.key.pid]
            self.pop(kernel_id)

    async def processes():
        return world.read()

    async def sleep(seconds):
        clock.advance(seconds)

    monkeypatch.setattr(module, "send", send)
    effect = Shutdown(
        doors={OwnerKind.KERNEL: KernelDoor(FakeEnding(k=1))},
        owners=SimpleNamespace(look_again=lambda key: OWNER),
        look=devices.look,
        processes=processes,
        identify=world.identify,
        clock=clock,
        log=LOG,
        sleep=sleep,
    )
    holder = Holder(OWNER, (), (OWNER.root, survivor.key))
    outcome = asyncio.run(effect.shut_down(verdict_on(holder), holder))
    assert sent == [
        (survivor.key, signal.SIGTERM),
        (survivor.key, signal.SIGKILL),
        (successor.key, signal.SIGKILL),
    ]
    assert outcome.survivors == ()
    assert outcome.freed_bytes == GIB
