"""The terminals of a server, with real shells under the manager that Jupyter uses."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from fake_clock import FakeClock
from fake_processes import FakeProcesses
from jupyter_server_terminals.terminalmanager import TerminalManager
from kernel_room import until

from jupyter_gpu_guard.core.model import OwnerKey, OwnerKind, OwnerState
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses
from jupyter_gpu_guard.sources.terminals import TerminalOwners

ONE = OwnerKey(OwnerKind.TERMINAL, "1")


@asynccontextmanager
async def terminals():
    """A manager without terminals; every shell is gone at the end."""
    manager = TerminalManager(shell_command=["sh"])
    try:
        yield manager
    finally:
        for name in list(manager.terminals):
            terminal = manager.terminals[name]
            await manager.terminate(name, force=True)
            await until(lambda terminal=terminal: not terminal.ptyproc.isalive(), "the shell has ended")
        await until(lambda: not manager.terminals, "the terminals are closed")
        manager.blocking_io_executor.shutdown()


def owners_of(settings, clock=None):
    """What is under test, with the real process table."""
    return TerminalOwners(settings, ProcfsProcesses(), clock or FakeClock())


def test_a_terminal_is_known_by_its_shell():
    """Its name, its shell as a process of its own, since when it runs, and idle, while nobody has typed."""

    async def scene():
        async with terminals() as manager:
            owners = owners_of({"terminal_manager": manager})
            manager.create()
            (owner,) = await owners.read()
            shell = ProcfsProcesses().identify(manager.terminals["1"].ptyproc.pid)
            assert (owner.key, owner.name) == (ONE, "Terminal 1")
            assert (owner.root, owner.started_at) == (shell.key, shell.started_at)
            assert (owner.state, owner.used_at, owner.notebook) == (OwnerState.IDLE, None, None)
            assert owners.look_again(ONE) == owner

    asyncio.run(scene())


@pytest.mark.parametrize("settings", [{}, {"terminal_manager": None}])
def test_a_server_may_have_no_terminals(settings):
    """Not an error, and nothing to see."""

    async def scene():
        owners = owners_of(settings)
        assert await owners.read() == ()
        assert owners.look_again(ONE) is None

    asyncio.run(scene())


def test_the_manager_may_come_later():
    """Extensions load in any order."""

    async def scene():
        async with terminals() as manager:
            settings = {}
            owners = owners_of(settings)
            assert await owners.read() == ()
            settings["terminal_manager"] = manager
            manager.create()
            assert [owner.key for owner in await owners.read()] == [ONE]

    asyncio.run(scene())


def test_another_terminal_with_the_same_name_is_another():
    """It has another shell, and none of the uses of the first."""

    async def scene():
        async with terminals() as manager:
            owners = owners_of({"terminal_manager": manager})
            manager.create()
            (first,) = await owners.read()
            await manager.terminate("1", force=True)
            await until(lambda: not manager.terminals, "closed")
            assert owners.look_again(ONE) is None
            manager.create()
            second = owners.look_again(ONE)
            assert second.root not in (first.root, None)
            assert (await owners.read())[0].root == second.root

    asyncio.run(scene())


def test_a_shell_that_has_ended_leaves_a_dead_terminal():
    """A job in the background may keep the terminal open: it is shown as dead, under the shell that it had."""

    async def scene():
        async with terminals() as manager:
            owners = owners_of({"terminal_manager": manager})
            manager.create()
            (before,) = await owners.read()
            manager.terminals["1"].ptyproc.write("(trap '' HUP; sleep 600) & echo job $!\n")
            await until(lambda: any("job " in text for text in manager.terminals["1"].read_buffer), "the job runs")
            os.kill(before.root.pid, signal.SIGKILL)
            await until(lambda: owners.look_again(ONE).state is OwnerState.DEAD, "dead")
            (after,) = await owners.read()
            assert (after.state, after.root) == (OwnerState.DEAD, before.root)
            table = ProcfsProcesses().read().values()
            jobs = [process for process in table if process.session == before.root.pid and not process.is_over]
            for job in jobs:
                if job.key != before.root:
                    os.kill(job.key.pid, signal.SIGKILL)
            await until(lambda: not manager.terminals, "closed")

    asyncio.run(scene())


def test_a_line_of_input_is_a_use_and_output_is_none():
    """Output alone changes nothing; when the shell takes a line, the terminal was used at that moment."""

    async def scene():
        async with terminals() as manager:
            clock = FakeClock()
            owners = owners_of({"terminal_manager": manager}, clock)
            manager.create()
            terminal = manager.terminals["1"]
            assert owners.look_again(ONE).used_at is None
            terminal.ptyproc.write("while :; do echo out; sleep 0.1; done &\n")
            await until(lambda: sum(text.count("out\r") for text in terminal.read_buffer) > 2, "output")
            end = time.monotonic() + 30
            while owners.look_again(ONE).used_at is None:  # the system tells it to eight seconds
                assert time.monotonic() < end
                clock.advance(1)
                terminal.ptyproc.write(" \n")
                await asyncio.sleep(0.2)
            used_at = owners.look_again(ONE).used_at
            assert used_at == clock.now().monotonic
            clock.advance(100)
            before = sum(text.count("out\r") for text in terminal.read_buffer)
            await until(lambda: sum(text.count("out\r") for text in terminal.read_buffer) > before, "more output")
            assert owners.look_again(ONE).used_at == used_at
            terminal.ptyproc.write("kill $!; echo ov''er\n")
            await until(lambda: any("over" in text for text in terminal.read_buffer), "quiet")

    asyncio.run(scene())


class FakeTerminals:
    """A manager with terminals that are whatever a test says."""

    def __init__(self, **terminals):
        self.terminals = terminals


def test_a_pid_that_is_no_child_of_this_server_is_no_shell():
    """The manager remembers the pid of a shell that ended long ago: whoever has it now is not ours."""

    async def scene():
        clients = [object()]
        stranger = SimpleNamespace(ptyproc=SimpleNamespace(pid=os.getppid(), fd=0), clients=clients)
        owners = owners_of({"terminal_manager": FakeTerminals(a=stranger)})
        (owner,) = await owners.read()
        assert (owner.root, owner.state, owner.clients) == (None, OwnerState.UNKNOWN, 1)

    asyncio.run(scene())


@pytest.mark.parametrize("how", [{"start_new_session": True}, {}])
def test_a_child_that_is_not_on_the_terminal_is_no_shell(how):
    """A server that adopts orphans has other children: one of them may have got the pid of a shell that ended."""

    async def scene(child):
        async with terminals() as manager:
            manager.create()
            fd = manager.terminals["1"].ptyproc.fd
            adopted = SimpleNamespace(ptyproc=SimpleNamespace(pid=child.pid, fd=fd), clients=[])
            (owner,) = await owners_of({"terminal_manager": FakeTerminals(a=adopted)}).read()
            assert (owner.root, owner.state) == (None, OwnerState.UNKNOWN)

    with subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, **how) as child:
        try:
            asyncio.run(scene(child))
        finally:
            child.kill()


def test_a_terminal_that_raises_harms_itself_alone():
    """It is listed, and nothing is known of it; the next one is as it should be."""

    async def scene():
        async with terminals() as manager:
            manager.create()
            both = FakeTerminals(bad=object(), **manager.terminals)
            bad, good = await owners_of({"terminal_manager": both}).read()
            assert (bad.key.id, bad.root, bad.state) == ("bad", None, OwnerState.UNKNOWN)
            assert (good.key, good.state) == (ONE, OwnerState.IDLE)

    asyncio.run(scene())


def test_kernels_are_not_asked_for_here():
    """A kernel that is called as a terminal is, is not a terminal."""
    owners = TerminalOwners({"terminal_manager": FakeTerminals(k=object())}, FakeProcesses(), FakeClock())
    assert owners.look_again(OwnerKey(OwnerKind.KERNEL, "k")) is None
