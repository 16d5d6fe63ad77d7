"""Kernels as Owners: real kernels, seen as their server sees them."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from contextlib import asynccontextmanager
from subprocess import Popen
from types import SimpleNamespace

import pytest
from fake_clock import NOON, FakeClock
from fake_processes import FakeProcesses
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from kernel_room import RemoteProvisioner, isolate, kernel_room, provide_kernelspec, until

from jupyter_gpu_guard.core.model import OwnerKey, OwnerKind, OwnerState, Process, ProcessKey
from jupyter_gpu_guard.sources.kernel_watch import KernelWatch
from jupyter_gpu_guard.sources.kernels import KERNEL_ACTIONS, KernelOwners
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses


@pytest.fixture
def jupyter_data(monkeypatch, tmp_path):
    """Jupyter's data folder, empty."""
    return isolate(monkeypatch, tmp_path / "home")


@pytest.fixture
def root(jupyter_data, tmp_path):
    """The folder with the notebooks."""
    folder = tmp_path / "notebooks"
    (folder / "lectures").mkdir(parents=True)
    return folder


def key(kernel_id):
    """Its name as an owner."""
    return OwnerKey(OwnerKind.KERNEL, kernel_id)


async def idle_after(owners, kernel_id, used_at):
    """Wait until everybody has heard the end of the cell that ended at `used_at`: this guard, and the server."""

    def over():
        owner = owners.look_again(key(kernel_id))
        return owner.state is OwnerState.IDLE and owner.used_at == used_at

    await until(over, "the end of the cell was heard")


@asynccontextmanager
async def watched_room(root, *, early=True, processes=None):
    """A room, and Owners that watch it on a clock that stands still."""
    async with kernel_room(root) as room:
        clock = FakeClock()
        owners = KernelOwners(
            room.kernels,
            room.sessions,
            processes or ProcfsProcesses(),
            clock,
            event_logger=room.events if early else None,
        )
        try:
            yield room, owners, clock
        finally:
            owners.close()


def test_a_notebook_is_named_and_its_kernel_identified(root):
    """Path, name, kernelspec, and the process with its start time; after its first cell it is idle and was used."""

    async def scene():
        async with watched_room(root) as (room, owners, clock):
            kernel_id = await room.notebook("lectures/gpu.ipynb")
            client = await room.client(kernel_id)
            clock.advance(5)
            await room.run(client, "1 + 1")
            (owner,) = await owners.read()
            pid = room.kernels.get_kernel(kernel_id).provisioner.pid
            process = ProcfsProcesses().identify(pid)
            assert owner.key == key(kernel_id)
            assert (owner.name, owner.notebook, owner.kernelspec) == ("gpu.ipynb", "lectures/gpu.ipynb", "python3")
            assert owner.root == process.key
            assert owner.started_at == process.started_at
            await idle_after(owners, kernel_id, 1005)
            clock.advance(60)
            assert owners.look_again(owner.key).used_at == 1005

    asyncio.run(scene())


def test_consoles_and_bare_kernels_have_a_name_but_no_notebook(root):
    """Only a session of type notebook names a notebook."""

    async def scene():
        async with watched_room(root) as (room, owners, _):
            await room.sessions.create_session(
                path="console-1-abc", name="Console 1", type="console", kernel_name="python3"
            )
            await room.kernels.start_kernel(kernel_name="python3")
            seen = {owner.name: owner.notebook for owner in await owners.read()}
            assert seen == {"Console 1": None, "python3": None}

    asyncio.run(scene())


def test_a_cell_that_runs_is_seen_although_the_server_says_idle(root):
    """A subshell request flips the server's state to idle while a cell runs; the guard does not believe it."""

    async def scene():
        async with watched_room(root) as (room, owners, _):
            kernel_id = await room.notebook("busy.ipynb")
            kernel = room.kernels.get_kernel(kernel_id)
            client = await room.client(kernel_id)
            client.execute("import time\nwhile True: time.sleep(0.05)")
            await until(lambda: kernel.execution_state == "busy", "busy")
            client.control_channel.send(client.session.msg("create_subshell_request", {}))
            await until(lambda: kernel.execution_state == "idle", "the server errs")
            assert owners.look_again(key(kernel_id)).state is OwnerState.EXECUTING
            (owner,) = await owners.read()
            assert owner.state is OwnerState.EXECUTING
            assert owner.used_at is None
            await kernel.interrupt_kernel()
            await idle_after(owners, kernel_id, 1000)

    asyncio.run(scene())


def test_a_silent_snippet_is_not_use(root):
    """Extensions look into kernels by silent requests."""

    async def scene():
        async with watched_room(root) as (room, owners, clock):
            kernel_id = await room.notebook("quiet.ipynb")
            client = await room.client(kernel_id)
            await room.run(client, "1 + 1")
            await idle_after(owners, kernel_id, 1000)
            clock.advance(100)
            await room.run(client, "2 + 2", silent=True)
            await room.run(client, "import sys", silent=True, store_history=False)
            await asyncio.sleep(0.2)  # what is still on its way about them
            await until(lambda: owners.look_again(key(kernel_id)).state is OwnerState.IDLE, "idle")
            assert owners.look_again(key(kernel_id)).used_at == 1000

    asyncio.run(scene())


def test_a_cell_that_ran_before_the_first_reading_is_remembered(root):
    """Listening begins when the kernel starts."""

    async def scene():
        async with watched_room(root) as (room, owners, clock):
            kernel_id = await room.notebook("early.ipynb")
            client = await room.client(kernel_id)
            await room.run(client, "1 + 1")
            await until(lambda: owners._watches[kernel_id]._executions.used_at is not None, "heard without a look")
            clock.advance(100)
            (owner,) = await owners.read()
            assert owner.used_at == 1000

    asyncio.run(scene())


def test_without_events_listening_begins_at_the_next_reading(root):
    """The same facts, a little later."""

    async def scene():
        async with watched_room(root, early=False) as (room, owners, _):
            kernel_id = await room.notebook("late.ipynb")
            await owners.read()
            client = await room.client(kernel_id)
            await room.run(client, "1 + 1")
            await until(lambda: owners.look_again(key(kernel_id)).used_at == 1000, "used")

    asyncio.run(scene())


def test_looking_is_not_activity(root):
    """Neither attaching nor reading moves any last activity."""

    async def scene():
        async with watched_room(root, early=False) as (room, owners, _):
            kernel_id = await room.notebook("still.ipynb")
            client = await room.client(kernel_id)
            await room.run(client, "1 + 1")
            kernel = room.kernels.get_kernel(kernel_id)
            await until(lambda: kernel.execution_state == "idle", "idle")
            await asyncio.sleep(0.2)  # what the kernel still has to say about that cell
            before = (kernel.last_activity, room.kernels.last_kernel_activity)
            for _ in range(50):
                await owners.read()
                owners.look_again(key(kernel_id))
                await asyncio.sleep(0.01)
            owners.close()
            await owners.read()
            await asyncio.sleep(0.2)
            assert (kernel.last_activity, room.kernels.last_kernel_activity) == before

    asyncio.run(scene())


def test_the_last_look_hears_what_the_event_loop_has_not(root):
    """A cell sent a moment ago counts, although the loop has had no turn since."""

    async def scene():
        async with watched_room(root) as (room, owners, _):
            kernel_id = await room.notebook("moment.ipynb")
            client = await room.client(kernel_id)
            await room.run(client, "1 + 1")
            await until(lambda: owners.look_again(key(kernel_id)).state is OwnerState.IDLE, "idle")
            client.execute("import time; time.sleep(300)")
            deadline = time.monotonic() + 30
            while owners.look_again(key(kernel_id)).state is not OwnerState.EXECUTING:
                assert time.monotonic() < deadline
                time.sleep(0.01)  # noqa: ASYNC251 - nothing else may run

    asyncio.run(scene())


def test_a_restart_gives_a_new_process_and_ends_what_ran(root):
    """The root changes, the old cell is over, and the new process is heard."""

    async def scene():
        async with watched_room(root) as (room, owners, clock):
            kernel_id = await room.notebook("again.ipynb")
            client = await room.client(kernel_id)
            client.execute("import time; time.sleep(300)")
            await until(lambda: owners._watches[kernel_id]._executions.begun, "executing, and by a person")
            before = owners.look_again(key(kernel_id))
            clock.advance(50)
            await room.kernels.restart_kernel(kernel_id, now=True)
            await client.wait_for_ready(timeout=60)
            after = owners.look_again(key(kernel_id))
            assert after.root is not None
            assert after.root != before.root
            assert after.used_at == 1050
            clock.advance(50)
            await room.run(client, "2 + 2")
            await idle_after(owners, kernel_id, 1100)

    asyncio.run(scene())


def test_a_killed_kernel_is_dead_at_the_next_look(root):
    """Before Jupyter has noticed it: its process is a zombie, and nothing runs in it."""

    async def scene():
        async with watched_room(root) as (room, owners, _):
            kernel_id = await room.notebook("killed.ipynb")
            client = await room.client(kernel_id)
            client.execute("import time; time.sleep(300)")
            await until(lambda: owners.look_again(key(kernel_id)).state is OwnerState.EXECUTING, "executing")
            kernel = room.kernels.get_kernel(kernel_id)
            kernel.stop_restarter()
            pid = kernel.provisioner.pid
            os.kill(pid, signal.SIGKILL)
            await until(lambda: ProcfsProcesses().identify(pid).is_over, "over")
            assert owners.look_again(key(kernel_id)).state is OwnerState.DEAD
            (owner,) = await owners.read()
            assert owner.state is OwnerState.DEAD

    asyncio.run(scene())


def test_a_kernel_that_is_gone_is_not_listed_and_not_listened_to(root):
    """Its listener is closed, at the next reading at the latest."""

    async def scene():
        async with watched_room(root) as (room, owners, _):
            kernel_id = await room.notebook("short.ipynb")
            await owners.read()
            stream = owners._watches[kernel_id]._ear._stream
            await room.kernels.shutdown_kernel(kernel_id, now=True)
            assert owners.look_again(key(kernel_id)) is None
            assert await owners.read() == ()
            assert stream.closed()

    asyncio.run(scene())


def test_close_ends_all_listening(root):
    """After close no stream is open, and a kernel that starts is not listened to."""

    async def scene():
        async with watched_room(root) as (room, owners, _):
            kernel_id = await room.notebook("one.ipynb")
            await owners.read()
            stream = owners._watches[kernel_id]._ear._stream
            owners.close()
            owners.close()
            assert stream.closed()
            await room.notebook("two.ipynb")
            await asyncio.sleep(0.05)
            assert not owners._watches

    asyncio.run(scene())


def test_a_kernel_elsewhere_has_no_process_here(root, jupyter_data):
    """The pid of another machine is never looked up in this one's process table."""
    provide_kernelspec(jupyter_data, "far", RemoteProvisioner)

    async def scene():
        async with watched_room(root) as (room, owners, _):
            kernel_id = await room.kernels.start_kernel(kernel_name="far")
            client = await room.client(kernel_id)
            await room.run(client, "1 + 1")
            assert room.kernels.get_kernel(kernel_id).provisioner.pid is not None
            await idle_after(owners, kernel_id, 1000)
            (owner,) = await owners.read()
            assert owner.root is None
            assert owner.started_at is None
            assert owner.used_at == 1000

    asyncio.run(scene())


def test_the_restart_of_a_kernel_elsewhere_ends_what_ran_there(root, jupyter_data):
    """Its process cannot be compared, so Jupyter's word for the restart is taken; that moment is the cell's end."""
    provide_kernelspec(jupyter_data, "far", RemoteProvisioner)

    async def scene():
        async with watched_room(root) as (room, owners, clock):
            kernel_id = await room.kernels.start_kernel(kernel_name="far")
            client = await room.client(kernel_id)
            client.execute("import time; time.sleep(300)")
            await owners.read()
            await until(lambda: owners._watches[kernel_id]._executions.begun, "executing, and by a person")
            clock.advance(50)
            word = {"action": "restart", "kernel_id": kernel_id, "status": "success", "msg": "restarted"}
            room.events.emit(schema_id=KERNEL_ACTIONS, data=word)
            await room.events.gather_listeners()
            assert owners.look_again(key(kernel_id)).used_at == 1050

    asyncio.run(scene())


def test_another_process_of_the_same_kernel_does_not_inherit_its_cells():
    """A restart that happened between two looks, without a word from the kernel itself."""

    class FakeLocal(LocalProvisioner):
        process = None
        pid = None

    class FakePopen(Popen):
        def __init__(self, pid):
            self.pid, self.returncode = pid, None

    table = FakeProcesses(*(Process(ProcessKey(pid, 7), 1, pid, pid, "S", NOON) for pid in (71, 72)))
    provisioner = FakeLocal()
    kernel = SimpleNamespace(execution_state="idle", provisioner=provisioner, iopub_port=0)
    watch = KernelWatch(kernel, table.identify, FakeClock(), logging.getLogger(__name__))
    provisioner.process, provisioner.pid = FakePopen(71), 71
    assert watch.look().root == ProcessKey(71, 7)
    watch._hear(
        {
            "header": {"msg_type": "execute_input"},
            "parent_header": {"msg_type": "execute_request", "msg_id": "a"},
            "content": {},
        }
    )
    assert watch.look().state is OwnerState.EXECUTING
    provisioner.process, provisioner.pid = FakePopen(72), 72
    after = watch.look()
    assert after.root == ProcessKey(72, 7)
    assert after.state is not OwnerState.EXECUTING
    assert after.used_at == 1000


class FakeKernels(dict):
    """A kernel manager with kernels made up by the test."""

    list_kernel_ids = dict.keys
    get_kernel = dict.__getitem__


class FakeSessions:
    """A session manager that answers with `rows`, or raises them."""

    def __init__(self, rows=()):
        self.rows = rows

    async def list_sessions(self):
        """Answer."""
        if isinstance(self.rows, Exception):
            raise self.rows
        return self.rows


def far_kernel(state):
    """A kernel behind a gateway: no provisioner, no ports."""
    return SimpleNamespace(kernel_name="python3", execution_state=state, provisioner=None, iopub_port=0)


@pytest.mark.parametrize(
    ("told", "seen"),
    [
        ("busy", OwnerState.EXECUTING),
        ("starting", OwnerState.STARTING),
        ("autorestarting", OwnerState.STARTING),
        (None, OwnerState.STARTING),
        ("dead", OwnerState.DEAD),
        ("idle", OwnerState.UNKNOWN),
        ("confused", OwnerState.UNKNOWN),
    ],
)
def test_idle_by_hearsay_is_unknown(told, seen):
    """Where the guard cannot listen itself, the server's word may protect a kernel, but never calls it idle."""

    async def scene():
        owners = KernelOwners(FakeKernels(k=far_kernel(told)), FakeSessions(), ProcfsProcesses(), FakeClock())
        (owner,) = await owners.read()
        assert owner.state is seen
        assert owner.root is None

    asyncio.run(scene())


def test_one_kernel_that_raises_harms_only_itself():
    """It is listed, without a process, as unknown; its neighbour is seen."""

    class Broken:
        @property
        def kernel_name(self):
            raise RuntimeError("broken")

    async def scene():
        kernels = FakeKernels(bad=Broken(), good=far_kernel("busy"))
        owners = KernelOwners(kernels, FakeSessions(), ProcfsProcesses(), FakeClock())
        bad, good = await owners.read()
        assert (bad.state, bad.root, bad.name) == (OwnerState.UNKNOWN, None, "bad")
        assert good.state is OwnerState.EXECUTING
        assert owners.look_again(key("bad")).state is OwnerState.UNKNOWN

    asyncio.run(scene())


def test_sessions_that_cannot_be_listed_leave_the_names_as_they_were():
    """A kernel does not lose its notebook because a question failed."""

    async def scene():
        row = {"type": "notebook", "path": "a/b.ipynb", "name": "", "kernel": {"id": "k"}}
        sessions = FakeSessions([{"type": "notebook", "path": "x", "kernel": None}, row])
        owners = KernelOwners(FakeKernels(k=far_kernel("busy")), sessions, ProcfsProcesses(), FakeClock())
        (before,) = await owners.read()
        assert (before.name, before.notebook) == ("b.ipynb", "a/b.ipynb")
        sessions.rows = RuntimeError("database is locked")
        (after,) = await owners.read()
        assert after == before

    asyncio.run(scene())


def test_other_owners_are_not_kernels():
    """A terminal that has a kernel's id for its name is none."""
    owners = KernelOwners(FakeKernels(k=far_kernel("busy")), FakeSessions(), ProcfsProcesses(), FakeClock())
    assert owners.look_again(OwnerKey(OwnerKind.TERMINAL, "k")) is None
    assert owners.look_again(key("k")) is not None


def test_a_pid_that_changes_its_start_time_is_never_ours_again(root):
    """The kernel manager still believes in the process; the pid belongs to another. No root from then on."""

    class FakeReuse(ProcfsProcesses):
        shift = 0

        def identify(self, pid):
            process = super().identify(pid)
            if process is None:
                return None
            changed = ProcessKey(process.key.pid, process.key.start_ticks + self.shift)
            return Process(changed, process.parent, process.group, process.session, process.state, process.started_at)

    async def scene():
        processes = FakeReuse()
        async with watched_room(root, processes=processes) as (room, owners, _):
            kernel_id = await room.notebook("reused.ipynb")
            assert owners.look_again(key(kernel_id)).root is not None
            processes.shift = 500
            assert owners.look_again(key(kernel_id)).root is None
            assert owners.look_again(key(kernel_id)).root is None
            processes.shift = 0
            assert owners.look_again(key(kernel_id)).root is None

    asyncio.run(scene())


def test_a_kernel_that_cannot_be_understood_is_not_idle(root):
    """Messages with a wrong signature: the guard is deaf, and says that it does not know."""

    async def scene():
        async with watched_room(root) as (room, owners, _):
            kernel_id = await room.notebook("deaf.ipynb")
            client = await room.client(kernel_id)
            await room.run(client, "1 + 1")
            await until(lambda: owners.look_again(key(kernel_id)).state is OwnerState.IDLE, "idle")
            ear = owners._watches[kernel_id]._ear
            good, ear._session.key = ear._session.key, b"another"
            await room.run(client, "2 + 2")
            await until(lambda: owners.look_again(key(kernel_id)).state is OwnerState.UNKNOWN, "unknown")
            ear._session.key = good
            await room.run(client, "3 + 3")
            await until(lambda: owners.look_again(key(kernel_id)).state is OwnerState.IDLE, "idle again")

    asyncio.run(scene())
