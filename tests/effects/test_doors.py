"""Ending terminals and TensorBoards: real shells and real programs; only the driver is made up."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from board_stub import install
from fake_clock import FakeClock
from fake_devices import GIB, FakeDevices
from jupyter_server_terminals.terminalmanager import TerminalManager
from kernel_room import until
from shutdown_scene import LOG, verdict_on

from jupyter_gpu_guard.core.model import Board, Holder, Owner, OwnerKey, OwnerKind, OwnerState, ProcessKey
from jupyter_gpu_guard.core.verdict import Result
from jupyter_gpu_guard.effects import doors as doors_module
from jupyter_gpu_guard.effects import shutdown as shutdown_module
from jupyter_gpu_guard.effects.doors import BoardDoor, GoneError, KernelDoor, TerminalDoor
from jupyter_gpu_guard.effects.shutdown import Shutdown
from jupyter_gpu_guard.effects.signals import Sent
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses
from jupyter_gpu_guard.sources.tensorboard import BoardOwners
from jupyter_gpu_guard.sources.terminals import TerminalOwners

TERMINAL = OwnerKey(OwnerKind.TERMINAL, "1")


@pytest.fixture
def signals(monkeypatch):
    """Every signal that the guard sends, in order. They are sent all the same."""
    sent = []
    real = shutdown_module.send

    def noting(key, signum, identify):
        sent.append((key.pid, signum))
        return real(key, signum, identify)

    for module in (shutdown_module, doors_module):
        monkeypatch.setattr(module, "send", noting)
    return sent


class Stage:
    """Sources, doors, and a clock that runs only while somebody sleeps."""

    def __init__(self, folder):
        self.folder = folder
        self.table = ProcfsProcesses()
        self.identify = self.table.identify
        self.clock = FakeClock()
        self.devices = FakeDevices(self.identify)
        self.settings = {}
        self.terminals = TerminalOwners(self.settings, self.table, self.clock)
        self.boards = BoardOwners(self.settings, folder, self.table, self.clock, temporary=folder)
        self.apart = set()
        self.unreadable = False
        self.grace = 60.0
        self._started = []

    async def sleep(self, seconds):
        """Let that much time pass on the clock, and a little in this world, where processes need it to end."""
        self.clock.advance(seconds)
        await asyncio.sleep(0.02)

    async def processes(self):
        """The process table."""
        if self.unreadable:
            raise OSError("no")
        return self.table.read()

    def look_again(self, key):
        """The last look."""
        return (self.terminals if key.kind is OwnerKind.TERMINAL else self.boards).look_again(key)

    def shutdown(self, **changed):
        """What is under test."""
        means = {
            "doors": {
                OwnerKind.TERMINAL: TerminalDoor(self.settings),
                OwnerKind.TENSORBOARD: BoardDoor(self.settings, self.identify, self.boards.info_files),
            },
            "owners": SimpleNamespace(look_again=self.look_again),
            "look": self.devices.look,
            "processes": self.processes,
            "identify": self.identify,
            "clock": self.clock,
            "log": LOG,
            "sleep": self.sleep,
            "roots": lambda: self.apart,
            "grace": self.grace,
        }
        return Shutdown(**{**means, **changed})

    async def end(self, holder, *, asked=False, **changed):
        """Shut it down. Gives the outcome."""
        return await self.shutdown(**changed).shut_down(verdict_on(holder, asked=asked), holder)

    def lives(self, key):
        """Whether this very process lives."""
        process = self.identify(key.pid)
        return process is not None and process.key == key and not process.is_over

    # ---- terminals ----

    async def terminal(self):
        """A terminal whose shell waits for input, as it is judged."""
        self.settings["terminal_manager"].create()
        (owner,) = await self.terminals.read()
        return Holder(owner, (), (owner.root,))

    async def type(self, line, shows):
        """Type a line and wait for what it is to print."""
        terminal = self.settings["terminal_manager"].terminals["1"]
        terminal.ptyproc.write(f"{line}\n")
        await until(lambda: shows in "".join(terminal.read_buffer), f"{line} shows {shows}")

    def below(self, holder):
        """The shell's children."""
        shell = holder.owner.root.pid
        return [each.key for each in self.table.read().values() if each.parent == shell and not each.is_over]

    # ---- TensorBoards ----

    async def board(self, *words, command=None, **how):
        """A TensorBoard, as it is judged; and its process."""
        program = install(self.folder / "bin")
        process = subprocess.Popen(  # noqa: ASYNC220 - its start is all that is waited for
            command or [program, "--logdir", "runs", *words],
            cwd=self.folder,
            env={**os.environ, "TMPDIR": str(self.folder)},
            stdout=subprocess.PIPE,
            text=True,
            **how,
        )
        self._started.append(process)
        process.port = int(process.stdout.readline())
        owners = await self.boards.read(self.table.read())
        (owner,) = [owner for owner in owners if owner.root.pid == process.pid]
        tree = [owner.root, *(e.key for e in self.table.read().values() if e.parent == process.pid)]
        return Holder(owner, (), tuple(tree)), process

    def supervised(self, port):
        """Something that starts a TensorBoard at this port again and again."""
        line = [sys.executable, "-c", SUPERVISOR, install(self.folder / "bin"), "--logdir", "runs", "--port", str(port)]
        environment = {**os.environ, "TMPDIR": str(self.folder)}
        self._started.append(subprocess.Popen(line, cwd=self.folder, env=environment, stdin=subprocess.PIPE))
        return self._started[-1]

    async def again(self, supervisor, before):
        """The TensorBoard that the supervisor runs now, another one than `before`, once it can be found."""
        end = time.monotonic() + 60
        while True:
            self.clock.advance(1)
            table = self.table.read()
            below = {each.key for each in table.values() if each.parent == supervisor.pid}
            for owner in await self.boards.read(table):
                if owner.root in below and owner.root != before and self.info(owner.root.pid).exists():
                    return Holder(owner, (), (owner.root,))
            assert time.monotonic() < end
            await asyncio.sleep(0.1)

    def info(self, pid):
        """The info file of that process."""
        return self.folder / f".tensorboard-info/pid-{pid}.info"

    async def close(self):
        """End what was started."""
        for process in self._started:
            if process.stdin is None:
                process.kill()
            process.communicate()
        manager = self.settings.get("terminal_manager")
        if manager is None:
            return
        for name in list(manager.terminals):
            leader = manager.terminals[name].ptyproc.pid
            for process in self.table.read().values():
                if process.session == leader and process.key.pid != leader:
                    os.kill(process.key.pid, signal.SIGKILL)
            await manager.terminate(name, force=True)
        await until(lambda: not manager.terminals, "the terminals are closed")
        manager.blocking_io_executor.shutdown()


@asynccontextmanager
async def stage_in(folder):
    """A stage with terminals, and nobody on it."""
    stage = Stage(folder)
    stage.settings["terminal_manager"] = TerminalManager(shell_command=["sh"])
    try:
        yield stage
    finally:
        await stage.close()


def play(folder, scene):
    """Act `scene` on a stage of its own."""

    async def whole():
        async with stage_in(folder) as stage:
            await scene(stage)

    asyncio.run(whole())


# ---- terminals ----


def test_a_terminal_is_closed_with_what_holds_a_device(tmp_path, signals):
    """Jupyter closes the shell; a job in the background that holds a device gets SIGTERM, one without is left alone."""

    async def scene(stage):
        holder = await stage.terminal()
        await stage.type("(trap '' HUP; exec sleep 600) & (trap '' HUP; exec sleep 500) & echo both$?", "both0")
        await until(lambda: len(stage.below(holder)) == 2, "two jobs")
        busy, idle = stage.below(holder)
        stage.devices.hold(busy, 5 * GIB)
        holder = replace(holder, tree=(holder.owner.root, busy, idle))
        outcome = await stage.end(holder)
        assert (outcome.result, outcome.freed_bytes, outcome.survivors) == (Result.DONE, 5 * GIB, ())
        assert signals == [(busy.pid, signal.SIGTERM)]
        assert not stage.lives(holder.owner.root)
        assert not stage.lives(busy)
        assert stage.lives(idle)
        assert "1 process that it had started, without GPU memory, left alone" in outcome.detail

    play(tmp_path, scene)


def test_a_shell_that_ignores_every_hint_is_killed_after_the_grace(tmp_path, signals):
    """It gets the whole grace after SIGTERM; then SIGKILL, and Jupyter's list is empty."""

    async def scene(stage):
        holder = await stage.terminal()
        await stage.type("trap '' HUP INT TERM; echo dea''f", "deaf")
        shell, began = holder.owner.root, stage.clock.passed
        outcome = await stage.end(holder, asked=True)
        assert outcome.result is Result.DONE
        assert signals == [(shell.pid, signal.SIGTERM), (shell.pid, signal.SIGKILL)]
        assert stage.clock.passed - began >= stage.grace
        await until(lambda: not stage.settings["terminal_manager"].terminals, "closed")

    play(tmp_path, scene)


def test_something_started_since_the_verdict_withdraws_a_rules_act(tmp_path, signals):
    """Somebody is at work there; a person who asks gets it all the same."""

    async def scene(stage):
        holder = await stage.terminal()
        await stage.type("sleep 600 & echo star''ted", "started")
        outcome = await stage.end(holder)
        assert (outcome.result, outcome.detail) == (Result.WITHDRAWN, "it has started something since")
        assert stage.lives(holder.owner.root)
        outcome = await stage.end(holder, asked=True)
        assert outcome.result is Result.DONE
        assert not stage.lives(holder.owner.root)
        assert signals == []

    play(tmp_path, scene)


def test_a_terminal_whose_processes_cannot_be_read_is_left_alone(tmp_path):
    """Nobody knows then whether somebody is at work."""

    async def scene(stage):
        holder = await stage.terminal()
        stage.unreadable = True
        outcome = await stage.end(holder)
        assert (outcome.result, outcome.detail) == (Result.WITHDRAWN, "its processes could not be read just before")
        assert stage.lives(holder.owner.root)

    play(tmp_path, scene)


def test_a_line_typed_since_the_verdict_withdraws_a_rules_act(tmp_path):
    """It has been used since."""

    async def scene(stage):
        holder = await stage.terminal()
        end = time.monotonic() + 30
        while stage.look_again(TERMINAL).used_at is None:  # the system tells it to eight seconds
            assert time.monotonic() < end
            await stage.type("echo he''re", "here")
            await asyncio.sleep(0.2)
        outcome = await stage.end(holder)
        assert (outcome.result, outcome.detail) == (Result.WITHDRAWN, "it has been used since")

    play(tmp_path, scene)


def test_another_terminal_with_the_same_name_is_left_alone(tmp_path):
    """Also when a person asked: they meant what they saw."""

    async def scene(stage):
        holder = await stage.terminal()
        manager = stage.settings["terminal_manager"]
        await manager.terminate("1", force=True)
        await until(lambda: not manager.terminals, "closed")
        other = await stage.terminal()
        outcome = await stage.end(holder, asked=True)
        assert outcome.result is Result.WITHDRAWN
        assert stage.lives(other.owner.root)
        with pytest.raises(GoneError):  # and in the very last moment, too
            await TerminalDoor(stage.settings).knock(holder.owner)
        assert stage.lives(other.owner.root)

    play(tmp_path, scene)


def test_a_terminal_that_was_closed_meanwhile_is_already_gone(tmp_path):
    """By its user, say; a server may have lost all its terminals."""

    async def scene(stage):
        holder = await stage.terminal()
        manager = stage.settings["terminal_manager"]
        await manager.terminate("1", force=True)
        await until(lambda: not manager.terminals, "closed")
        assert (await stage.end(holder)).result is Result.ALREADY_GONE
        with pytest.raises(GoneError):
            await TerminalDoor({}).knock(holder.owner)

    play(tmp_path, scene)


def test_a_tensorboard_started_in_a_terminal_is_not_part_of_it(tmp_path, signals):
    """Neither new in the terminal nor its to end, although it holds a device."""

    async def scene(stage):
        holder = await stage.terminal()
        program = install(tmp_path / "bin")
        await stage.type(f"(trap '' HUP; exec {program} --logdir runs) & echo star''ted", "started")

        async def found():
            return await stage.boards.read(stage.table.read(), (holder.owner,))

        boards = await found()
        end = time.monotonic() + 60
        while not boards or boards[0].board.port is None:
            assert time.monotonic() < end
            await asyncio.sleep(0.1)
            boards = await found()
        (board,) = boards
        assert board.board.started_by == TERMINAL
        stage.devices.hold(board.root, 11 * GIB)
        stage.apart = {holder.owner.root, board.root}
        outcome = await stage.end(holder)
        assert outcome.result is Result.DONE
        assert outcome.detail.endswith("it held no GPU memory")
        assert stage.lives(board.root)
        assert signals == []
        outcome = await stage.end(Holder(board, (), (board.root,)))
        assert (outcome.result, outcome.freed_bytes) == (Result.DONE, 11 * GIB)
        assert signals == [(board.root.pid, signal.SIGTERM)]

    play(tmp_path, scene)


# ---- TensorBoards ----


def test_a_tensorboard_ends_by_sigterm(tmp_path, signals):
    """One signal to its process; its data server goes with it, it holds no memory, and that is said."""

    async def scene(stage):
        holder, process = await stage.board("--helper")
        assert stage.info(process.pid).exists()
        outcome = await stage.end(holder)
        assert outcome.result is Result.DONE
        assert outcome.detail.startswith("ended in ")
        assert outcome.detail.endswith("; it held no GPU memory")
        assert signals[0] == (process.pid, signal.SIGTERM)
        assert (process.pid, signal.SIGKILL) not in signals
        assert not any(stage.lives(key) for key in holder.tree)
        assert process.wait() == 0
        assert not stage.info(process.pid).exists()

    play(tmp_path, scene)


def test_a_tensorboard_that_does_not_heed_sigterm_is_killed_and_its_file_removed(tmp_path, signals):
    """One SIGTERM, one grace, SIGKILL; then its own info file, and nobody else's."""

    async def scene(stage):
        holder, process = await stage.board("--stubborn")
        other, beside = await stage.board()
        stage.devices.hold(holder.owner.root, 11 * GIB)
        began = stage.clock.passed
        outcome = await stage.end(holder)
        assert signals == [(process.pid, signal.SIGTERM), (process.pid, signal.SIGKILL)]
        assert stage.grace <= stage.clock.passed - began < 2 * stage.grace
        assert (outcome.result, outcome.freed_bytes) == (Result.DONE, 11 * GIB)
        assert process.wait() == -signal.SIGKILL
        assert not stage.info(process.pid).exists()
        assert stage.info(beside.pid).exists()
        assert stage.lives(other.owner.root)

    play(tmp_path, scene)


def test_a_wrapper_and_the_program_under_it_both_end(tmp_path, signals):
    """The wrapper first; what it leaves behind is told next."""

    async def scene(stage):
        program = install(tmp_path / "bin")
        wrapper = tmp_path / "wrapped/tensorboard"
        wrapper.parent.mkdir()
        wrapper.write_text(f'#!/bin/sh\n{program} "$@"\nexit $?\n')
        wrapper.chmod(0o755)
        holder, process = await stage.board(command=[wrapper, "--logdir", "runs"])
        (inner,) = [key for key in holder.tree if key != holder.owner.root]
        outcome = await stage.end(holder)
        assert outcome.result is Result.DONE
        assert signals == [(process.pid, signal.SIGTERM), (inner.pid, signal.SIGTERM)]
        assert not stage.lives(inner)
        assert not stage.info(inner.pid).exists()

    play(tmp_path, scene)


# It ends with its input, and what it has started then with it.
SUPERVISOR = """
import os, subprocess, sys, threading
def over():
    sys.stdin.read()
    running.kill()
    os._exit(0)
running = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
threading.Thread(target=over).start()
while True:
    running.wait()
    running = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
"""


def free_port():
    """A port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        return door.getsockname()[1]


def test_a_tensorboard_that_something_starts_again_is_ended_twice_and_left_then(tmp_path):
    """Within an hour; that is said. A person may end it as often as they like; what began earlier is another one."""

    async def scene(stage):
        beside, _ = await stage.board()
        await asyncio.sleep(3)  # the system tells only roughly when a process was started
        supervisor = stage.supervised(free_port())
        effect, root = stage.shutdown(), None
        for asked, result in (
            (False, Result.DONE),
            (False, Result.DONE),
            (False, Result.WITHDRAWN),
            (True, Result.DONE),
        ):
            holder = await stage.again(supervisor, root)
            outcome = await effect.shut_down(verdict_on(holder, asked=asked), holder)
            assert outcome.result is result
            if result is Result.WITHDRAWN:
                assert outcome.detail == "it was ended twice within an hour, and something starts it again"
                assert stage.lives(holder.owner.root)
            else:
                root = holder.owner.root
        outcome = await effect.shut_down(verdict_on(beside), beside)
        assert outcome.result is Result.DONE

    play(tmp_path, scene)


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_port_that_is_not_free_afterwards_is_said(tmp_path, is_taken):
    """Somebody listens where it did."""
    root = ProcessKey(4194301, 7)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        if not is_taken:
            other.close()
        board = Board("runs", port=port)
        owner = Owner(OwnerKey(OwnerKind.TENSORBOARD, "b"), "runs", root, OwnerState.IDLE, board=board)
        said = BoardDoor({}, {}.get, lambda key: ()).tidy(owner)
        assert said == (f"its port, {port}, is not free: something else listens there" if is_taken else None)


@pytest.mark.parametrize("asked", [False, True])
def test_a_tensorboard_that_somebody_looks_at_is_left_alone(tmp_path, signals, asked):
    """Unless a person asks: they know it."""

    async def scene(stage):
        holder, process = await stage.board()
        _, writer = await asyncio.open_connection("127.0.0.1", process.port)
        outcome = await stage.end(holder, asked=asked)
        writer.close()
        assert outcome.result is (Result.DONE if asked else Result.WITHDRAWN)
        assert stage.lives(holder.owner.root) is not asked
        if not asked:
            assert outcome.detail == "somebody is looking at it"
            assert signals == []

    play(tmp_path, scene)


def test_connections_that_cannot_be_read_withdraw_a_rules_act(tmp_path, monkeypatch):
    """Whether somebody looks is not known then."""

    async def scene(stage):
        holder, _ = await stage.board()

        def refuse(pids, port):
            raise PermissionError

        monkeypatch.setattr("jupyter_gpu_guard.sources.tensorboard.has_visitors", refuse)
        outcome = await stage.end(holder)
        assert (outcome.result, outcome.detail) == (Result.WITHDRAWN, "what it does is not known any more")

    play(tmp_path, scene)


@pytest.mark.parametrize(("sent", "result"), [(Sent.NO_PERMISSION, Result.FAILED), (Sent.GONE, Result.ALREADY_GONE)])
def test_a_signal_that_does_not_arrive(tmp_path, monkeypatch, sent, result):
    """It runs as somebody else, or has just ended: no further signal, and nothing is waited for."""

    async def scene(stage):
        holder, process = await stage.board()
        monkeypatch.setattr(doors_module, "send", lambda *_: sent)
        if sent is Sent.GONE:
            process.kill()
            stage.boards.look_again = lambda key: holder.owner
        outcome = await stage.end(holder)
        assert outcome.result is result
        if sent is Sent.NO_PERMISSION:
            assert outcome.detail == "it could not be told to end (no-permission); nothing else was done to it"
            assert stage.lives(holder.owner.root)
            assert stage.info(process.pid).exists()
        assert stage.clock.passed < 10

    play(tmp_path, scene)


def test_a_process_that_nothing_ends_is_a_failure(tmp_path, monkeypatch):
    """It waits in a driver: both signals were sent, and it is still there."""

    async def scene(stage):
        holder, process = await stage.board()
        monkeypatch.setattr(doors_module, "send", lambda *_: Sent.SENT)
        monkeypatch.setattr(shutdown_module, "send", lambda *_: Sent.SENT)
        outcome = await stage.end(holder)
        assert (outcome.result, outcome.detail) == (Result.FAILED, f"its process, pid {process.pid}, does not end")
        assert stage.info(process.pid).exists()

    play(tmp_path, scene)


def test_a_file_that_is_not_its_own_is_left(tmp_path):
    """Another process has its pid by now, or the file is somebody else's, or is a link, or nothing that ends."""
    root = ProcessKey(4194301, 7)
    owner = Owner(OwnerKey(OwnerKind.TENSORBOARD, "4194301-7"), "TensorBoard", root, OwnerState.IDLE)
    own, link, anothers = tmp_path / "own", tmp_path / "link", tmp_path / "anothers"
    own.write_text(json.dumps({"pid": root.pid}))
    link.symlink_to(own)
    anothers.write_text(json.dumps({"pid": 1}))
    (tmp_path / "odd").write_text("[]")
    os.mkfifo(tmp_path / "pipe")  # whoever opens it to read waits for somebody to write
    paths = (link, anothers, tmp_path / "odd", tmp_path / "pipe", tmp_path / "gone", own)

    def tidied(process):
        door = BoardDoor({}, lambda pid: process, lambda key: paths)
        door._left[owner.key] = paths
        door.tidy(owner)
        return not own.exists()

    me = ProcfsProcesses().identify(os.getpid())
    assert not tidied(replace(me, key=ProcessKey(root.pid, 8)))
    assert not tidied(replace(me, key=ProcessKey(root.pid, 8), state="Z"))
    assert not tidied(replace(me, key=root))
    assert tidied(replace(me, key=root, state="Z"))
    assert link.is_symlink()
    assert anothers.exists()


class FakeInside(dict):
    """The manager of an extension that runs TensorBoards within the server."""

    def terminate(self, name, *, force=False):
        """Forget one of them."""
        assert force
        del self[name]


@pytest.mark.parametrize("asked", [False, True])
def test_one_within_the_server_is_ended_by_its_own_manager(tmp_path, signals, asked):
    """Only when a person asks, since nothing of it can be seen from outside; nothing is claimed afterwards."""

    async def scene(stage):
        manager = FakeInside({"1": SimpleNamespace(logdir="runs")})
        stage.settings["tensorboard_manager"] = manager
        (owner,) = await stage.boards.read(stage.table.read())
        outcome = await stage.end(Holder(owner), asked=asked)
        assert outcome.result is (Result.DONE if asked else Result.WITHDRAWN)
        assert ("1" in manager) is not asked
        assert signals == []
        if asked:
            assert outcome.detail.endswith("; it ran within the server's own process, so nothing could be verified")
            assert (await stage.end(Holder(owner), asked=True)).result is Result.ALREADY_GONE
            with pytest.raises(GoneError):
                await BoardDoor(stage.settings, stage.identify, stage.boards.info_files).knock(owner)

    play(tmp_path, scene)


def test_a_tensorboard_without_a_process_that_is_not_within_the_server_is_nobodys_to_end(tmp_path):
    """Its name may be that of another one inside."""
    key = OwnerKey(OwnerKind.TENSORBOARD, "inside-1")
    owner = Owner(key, "TensorBoard", None, OwnerState.IDLE, board=Board("runs"))
    manager = FakeInside({"1": 1})
    with pytest.raises(GoneError):
        asyncio.run(BoardDoor({"tensorboard_manager": manager}, {}.get, lambda key: ()).knock(owner))
    assert "1" in manager


# ---- kernels ----

KERNEL = Owner(OwnerKey(OwnerKind.KERNEL, "k"), "a.ipynb", ProcessKey(4194301, 7), OwnerState.IDLE)


@pytest.mark.parametrize(
    ("judged", "now", "why"),
    [
        (OwnerState.IDLE, OwnerState.IDLE, None),
        (OwnerState.IDLE, OwnerState.EXECUTING, "it is executing again"),
        (OwnerState.IDLE, OwnerState.WAITING, "it is waiting-for-input by now"),
        (OwnerState.WAITING, OwnerState.WAITING, None),
        (OwnerState.WAITING, OwnerState.EXECUTING, "it is executing again"),
        (OwnerState.EXECUTING, OwnerState.BREAKPOINT, "it is at-breakpoint by now"),
        (OwnerState.EXECUTING, OwnerState.IDLE, None),
    ],
)
def test_a_cell_that_has_begun_since_forbids_to_end_a_kernel(judged, now, why):
    """So does one that has come to another state than the one that was judged."""
    holder = Holder(replace(KERNEL, state=judged), (), (KERNEL.root,))
    assert KernelDoor({}).why_not(holder, replace(KERNEL, state=now), None) == why
