"""What real kernels are doing, and what became of those before them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import asynccontextmanager

import pytest
from fake_clock import FakeClock
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from kernel_room import isolate, kernel_room, provide_kernelspec, until
from server_room import server_room

from jupyter_gpu_guard.core.model import OwnerKey, OwnerKind, OwnerState
from jupyter_gpu_guard.sources.insight import ProcfsInsight
from jupyter_gpu_guard.sources.kernels import KernelOwners
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses


@pytest.fixture
def jupyter_data(monkeypatch, tmp_path):
    """Jupyter's data folder, empty."""
    return isolate(monkeypatch, tmp_path / "home")


@pytest.fixture
def root(jupyter_data, tmp_path):
    """The folder with the notebooks."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    return folder


def key(kernel_id):
    """Its name as an owner."""
    return OwnerKey(OwnerKind.KERNEL, kernel_id)


class Watched:
    """One kernel of a room, its client, and what the guard sees of it."""

    def __init__(self, room, owners, clock, kernel_id, client):
        self.room, self.owners, self.clock, self.id, self.client = room, owners, clock, kernel_id, client

    def look(self):
        """The kernel at this moment."""
        return self.owners.look_again(key(self.id))

    async def becomes(self, state):
        """Wait until the kernel is in `state`."""
        await until(lambda: self.look().state is state, state.value)

    async def on_control(self, kind, content):
        """Send a request over the control channel. Gives what the reply contains."""
        request = self.client.session.msg(kind, content)
        self.client.control_channel.send(request)
        while True:
            reply = await self.client.control_channel.get_msg(timeout=60)
            if reply["parent_header"].get("msg_id") == request["header"]["msg_id"]:
                return reply["content"]

    async def debug(self, command, **arguments):
        """Tell the debugger something."""
        content = {"seq": 1, "type": "request", "command": command, "arguments": arguments}
        return await self.on_control("debug_request", content)


@asynccontextmanager
async def watched(root, kernel_name="python3"):
    """A kernel, watched on a clock that stands still."""
    async with kernel_room(root) as room:
        clock = FakeClock()
        owners = KernelOwners(room.kernels, room.sessions, ProcfsProcesses(), clock, event_logger=room.events)
        try:
            kernel_id = await room.kernels.start_kernel(kernel_name=kernel_name)
            yield Watched(room, owners, clock, kernel_id, await room.client(kernel_id))
        finally:
            owners.close()


CELL = "a = 1\nb = 2\nimport time\nwhile b: time.sleep(0.05)\n"


async def halt(one):
    """Run a cell to a breakpoint, as the debugger of a page does."""
    await one.debug("initialize", clientID="page", adapterID="", pathFormat="path", linesStartAt1=True)
    await one.debug("attach")
    path = (await one.debug("dumpCell", code=CELL))["body"]["sourcePath"]
    await one.debug("setBreakpoints", source={"path": path}, breakpoints=[{"line": 2}], sourceModified=False)
    await one.debug("configurationDone")
    one.client.execute(CELL)
    await one.becomes(OwnerState.BREAKPOINT)


@pytest.mark.parametrize("how", ["continue", "disconnect"])
def test_a_cell_halts_at_a_breakpoint_until_it_goes_on(root, how):
    """Seen without an answer of the kernel; it goes on by its debugger, or as that leaves."""

    async def scene():
        async with watched(root) as one:
            await halt(one)
            (owner,) = await one.owners.read()
            assert owner.state is OwnerState.BREAKPOINT
            assert owner.used_at is None
            await one.debug(how, **({"threadId": 1} if how == "continue" else {}))
            await one.becomes(OwnerState.EXECUTING)
            await one.room.kernels.get_kernel(one.id).interrupt_kernel()
            await one.becomes(OwnerState.IDLE)

    asyncio.run(scene())


def test_whoever_interrupts_an_idle_kernel_is_there(root):
    """It runs nothing, and yet somebody has looked after it."""

    async def scene():
        async with watched(root) as one:
            await one.becomes(OwnerState.IDLE)
            assert one.look().used_at is None
            await one.room.kernels.get_kernel(one.id).interrupt_kernel()
            await until(lambda: one.look().used_at == one.clock.now().monotonic, "the interrupt is use")
            assert one.look().state is OwnerState.IDLE

    asyncio.run(scene())


def test_a_restart_leaves_the_debugger(root):
    """The kernel that halted is gone, and so are the debugger's ports."""

    async def scene():
        async with watched(root) as one:
            await halt(one)
            before = one.look()
            await one.room.kernels.restart_kernel(one.id, now=True)
            await one.client.wait_for_ready(timeout=60)
            await one.becomes(OwnerState.IDLE)
            after = one.look()
            assert before.root != after.root
            assert len(before.own_ports) == len(after.own_ports) + 2
            assert not after.died

    asyncio.run(scene())


def test_jupyters_own_ports_are_not_served_to_anybody(root):
    """A kernel and its debugger listen on ports of their own, and that is no service to visitors."""

    async def scene():
        async with watched(root) as one:
            await halt(one)
            owner = one.look()
            kernel = one.room.kernels.get_kernel(one.id)
            assert owner.own_ports > set(kernel.ports)
            tree = {owner.key: [owner.root]}
            insight = ProcfsInsight()
            assert insight.activity(tree, {})[owner.key].visitors > 0  # the client here, and the guard itself
            assert insight.activity(tree, {owner.key: owner.own_ports})[owner.key].visitors == 0

    asyncio.run(scene())


def test_a_cell_that_asks_another_program_for_input_counts_as_executing(root):
    """The question passes by the server, so nothing of it is heard here; that is the kinder reading."""

    async def scene():
        async with watched(root) as one:
            one.client.execute("input('? ')", allow_stdin=True)
            await one.client.stdin_channel.get_msg(timeout=60)
            assert one.look().state is OwnerState.EXECUTING
            one.client.input("line")
            await one.becomes(OwnerState.IDLE)

    asyncio.run(scene())


def test_a_cell_in_a_subshell_runs_beside_one_in_the_main_shell(root):
    """The end of one does not end the other, whichever comes first."""

    async def scene():
        async with watched(root) as one:
            subshell = (await one.on_control("create_subshell_request", {}))["subshell_id"]

            def run(code, **header):
                content = {"code": code, "silent": False, "allow_stdin": False}
                message = one.client.session.msg("execute_request", content)
                message["header"].update(header)
                one.client.shell_channel.send(message)

            run("import time\ngo = True\nwhile go: time.sleep(0.05)")
            await one.becomes(OwnerState.EXECUTING)
            begun = one.owners._watches[one.id]._executions
            run("1 + 1", subshell_id=subshell)
            await until(lambda: begun.ended == 1, "the subshell's cell has ended")
            assert one.look().state is OwnerState.EXECUTING
            await one.on_control("usage_request", {})
            await asyncio.sleep(0.2)  # what is still on its way about that
            assert one.look().state is OwnerState.EXECUTING
            run("time.sleep(1)\ngo = False\ntime.sleep(300)", subshell_id=subshell)
            await until(lambda: begun.ended == 2, "the main shell's cell has ended")
            assert one.look().state is OwnerState.EXECUTING

    asyncio.run(scene())


def test_the_last_cell_failed_until_the_next_one_begins_or_the_kernel_is_restarted(root):
    """So that it can be said why it may still hold memory."""

    async def scene():
        async with watched(root) as one:
            assert not one.look().failed
            for _ in range(2):
                one.clock.advance(10)
                one.client.execute("1/0")
                await until(lambda: one.look().used_at == one.clock.now().monotonic, "ended")
                assert one.look().failed
            await one.room.run(one.client, "1 + 1")
            await until(lambda: not one.look().failed, "all is well")
            one.client.execute("1/0")
            await until(lambda: one.look().failed, "failed")
            await one.room.kernels.restart_kernel(one.id, now=True)
            await until(lambda: not one.look().failed, "restarted")

    asyncio.run(scene())


def test_a_kernel_that_died_is_told_until_somebody_restarts_it(root):
    """Jupyter starts it anew by itself: a new process, with the death of the one before remembered."""

    async def scene():
        async with watched(root) as one:
            await one.room.run(one.client, "1 + 1")
            await one.becomes(OwnerState.IDLE)
            (before,) = await one.owners.read()
            assert not before.died
            os.kill(before.root.pid, signal.SIGKILL)
            await until(lambda: one.look().root not in (None, before.root), "started anew")
            assert one.look().died
            await one.client.wait_for_ready(timeout=60)
            await one.room.run(one.client, "1 + 1")
            (after,) = await one.owners.read()
            assert after.died
            assert after.key == before.key
            await one.room.kernels.restart_kernel(one.id)
            await until(lambda: one.look().root not in (None, after.root), "restarted")
            assert not one.look().died

    asyncio.run(scene())


def test_the_whole_tree_of_a_wrapper_is_the_kernels_in_any_language(root, jupyter_data):
    """The root is the process that Jupyter has started; the one that computes is found below it."""
    folder = jupyter_data / "kernels/wrapped"
    folder.mkdir(parents=True)
    command = f"{sys.executable} -m ipykernel_launcher -f {{connection_file}}; true"
    spec = {"argv": ["bash", "-c", command], "display_name": "Wrapped", "language": "bash"}
    (folder / "kernel.json").write_text(json.dumps(spec))

    async def scene():
        async with watched(root, "wrapped") as one:
            one.client.execute("import time; time.sleep(300)")
            await one.becomes(OwnerState.EXECUTING)
            (owner,) = await one.owners.read()
            table = ProcfsProcesses().read()
            (inner,) = [process for process in table.values() if process.parent == owner.root.pid]
            assert owner.kernelspec == "wrapped"
            await one.room.kernels.shutdown_kernel(one.id, now=True)
            for gone in (owner.root, inner.key):
                await until(lambda gone=gone: _is_gone(gone), "nothing is left of it")

    asyncio.run(scene())


def _is_gone(which):
    process = ProcfsProcesses().identify(which.pid)
    return process is None or process.key != which or process.is_over


class ElsewhereProvisioner(LocalProvisioner):
    """Says that it is local, and has a handle to a process of another machine (here a local one, as a trap)."""

    async def launch_kernel(self, cmd, **kwargs):
        """Start it over there."""
        info = await super().launch_kernel(cmd, **kwargs)
        self._there, self.process = self.process, FakeRemoteProcess(self.process)
        return info


class FakeRemoteProcess:
    """A handle like Popen, and none."""

    def __init__(self, popen):
        self.pid = popen.pid
        for name in ("poll", "wait", "send_signal", "terminate", "kill", "stdin", "stdout", "stderr"):
            setattr(self, name, getattr(popen, name))

    returncode = None


def test_a_handle_that_is_no_local_process_is_not_looked_up(root, jupyter_data):
    """Its number means nothing here, even if its provisioner is built upon the local one."""
    provide_kernelspec(jupyter_data, "elsewhere", ElsewhereProvisioner)

    async def scene():
        async with watched(root, "elsewhere") as one:
            await one.room.run(one.client, "1 + 1")
            await one.becomes(OwnerState.IDLE)
            assert one.look().root is None
            assert one.look().used_at == 1000

    asyncio.run(scene())


def test_pages_are_counted(root):
    """By the server itself."""

    async def scene():
        async with server_room(root) as room:
            kernel_id = await room.notebook("n.ipynb")
            assert room.owners.look_again(key(kernel_id)).clients == 0
            page = await room.page(kernel_id)
            assert room.owners.look_again(key(kernel_id)).clients == 1
            page.close()
            await until(lambda: room.owners.look_again(key(kernel_id)).clients == 0, "gone")

    asyncio.run(scene())


def test_a_last_activity_that_stands_still_while_cells_run_is_a_problem(root):
    """Whoever culls by it would end a kernel in use; the guard does not, and says so until it moves again."""

    async def scene():
        async with watched(root) as one:
            kernel = one.room.kernels.get_kernel(one.id)
            for _ in range(4):
                await one.room.run(one.client, "1 + 1")
                await one.owners.read()
            await one.becomes(OwnerState.IDLE)
            await one.owners.read()
            assert one.owners.problems == ()
            stream, kernel._activity_stream = kernel._activity_stream, None
            stream.on_recv(None)  # the server does not hear any more
            for looks in range(1, 5):
                one.clock.advance(5)
                await one.room.run(one.client, "1 + 1")
                await until(lambda: one.look().used_at == one.clock.now().monotonic, "heard by the guard")
                await one.owners.read()
                assert len(one.owners.problems) == (looks > 2)
            assert "python3 stands still" in one.owners.problems[0]
            stream.close()
            one.room.kernels.start_watching_activity(one.id)
            await one.owners.read()
            assert one.owners.problems == ()

    asyncio.run(scene())
