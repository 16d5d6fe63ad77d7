"""TensorBoards as owners: real programs that listen and write files, of which this very process is the server."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from board_stub import install
from fake_clock import FakeClock
from fake_processes import FakeProcesses

from jupyter_gpu_guard.core.model import Owner, OwnerKey, OwnerKind, OwnerState
from jupyter_gpu_guard.sources.board_commands import read_command
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses
from jupyter_gpu_guard.sources.tensorboard import BoardOwners

KERNEL = OwnerKey(OwnerKind.KERNEL, "k")
PR_SET_CHILD_SUBREAPER = 36


class Bench:
    """A server's root, a folder for temporary files, and what runs there."""

    def __init__(self, folder):
        self.root, self.temporary = folder / "root", folder / "tmp"
        self.root.mkdir()
        self.temporary.mkdir()
        self.program = install(folder / "bin")
        self.table = ProcfsProcesses()
        self.clock = FakeClock()
        self.settings = {}
        self.owners = self.new_server()
        self._started = []
        self._pids = []

    def new_server(self):
        """What is under test, knowing nothing yet."""
        return BoardOwners(self.settings, self.root, self.table, self.clock, temporary=self.temporary)

    def start(self, *words, command=None, **how):
        """Start a TensorBoard, or another `command`, and wait until it listens. Gives its pid."""
        environment = {**os.environ, "TMPDIR": str(self.temporary), **how.pop("env", {})}
        process = subprocess.Popen(
            command or [self.program, *words], cwd=self.root, env=environment, stdout=subprocess.PIPE, text=True, **how
        )
        self._started.append(process)
        process.port = int(process.stdout.readline())
        return process

    def adopt(self, pid):
        """End this one, too."""
        self._pids.append(pid)

    async def read(self, *starters, owners=None):
        """All TensorBoards now."""
        return await (owners or self.owners).read(self.table.read(), starters)

    def kernel(self, pid, notebook="a.ipynb"):
        """The owner that a kernel would be, whose first process is `pid`."""
        return Owner(KERNEL, "a.ipynb", self.table.identify(pid).key, OwnerState.IDLE, notebook=notebook)

    def close(self):
        """End what was started."""
        for pid in self._pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for process in self._started:
            process.kill()
            process.communicate()


@pytest.fixture
def bench(tmp_path):
    """Nothing runs yet."""
    bench = Bench(tmp_path)
    yield bench
    bench.close()


def test_a_tensorboard_is_an_owner_of_its_own(bench):
    """Its process, its log directory from the server's root, its port, its age; and idle while nobody looks."""
    started = bench.start("--logdir", "runs/first")
    process = bench.table.identify(started.pid)
    (owner,) = asyncio.run(bench.read())
    assert owner.key == OwnerKey(OwnerKind.TENSORBOARD, f"{process.key.pid}-{process.key.start_ticks}")
    assert owner.name == "TensorBoard first"
    assert (owner.root, owner.started_at, owner.state) == (process.key, process.started_at, OwnerState.IDLE)
    assert (owner.board.log_dir, owner.board.port, owner.board.started_by) == ("runs/first", started.port, None)
    assert not owner.board.inside
    assert not owner.board.duplicate
    assert bench.owners.look_again(owner.key) == owner
    (file,) = bench.owners.info_files(owner.key)
    assert file == bench.temporary / f".tensorboard-info/pid-{started.pid}.info"


def test_it_is_found_without_a_readable_folder_and_nothing_there_is_changed(bench):
    """The folder belongs to whoever came first; the process table is enough, and the port is seen at its socket."""
    folder = bench.temporary / ".tensorboard-info"
    folder.mkdir(mode=0o700)
    foreign = folder / "pid-1.info"
    foreign.write_text("{}")
    foreign.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(foreign, 65534, 65534)
        os.chown(folder, 65534, 65534)
    before = [(path.stat().st_mode, path.stat().st_uid, path.stat().st_mtime_ns) for path in (folder, foreign)]
    started = bench.start("--logdir", "runs", "--no-info")
    (owner,) = asyncio.run(bench.read())
    assert owner.board.port == started.port
    assert bench.owners.info_files(owner.key) == ()
    after = [(path.stat().st_mode, path.stat().st_uid, path.stat().st_mtime_ns) for path in (folder, foreign)]
    assert after == before


def test_who_started_it_is_remembered_after_its_kernel_has_ended(bench):
    """The kernel that is nearest above it, with its notebook; a restart or the end of the kernel changes nothing."""

    async def scene():
        line = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:]); time.sleep(600)"
        kernel = bench.start(command=[sys.executable, "-c", line, bench.program, "--logdir", "runs"])
        (owner,) = await bench.read(bench.kernel(kernel.pid))
        bench.adopt(owner.root.pid)
        assert (owner.board.started_by, owner.notebook) == (KERNEL, "a.ipynb")
        (renamed,) = await bench.read(bench.kernel(kernel.pid, "b.ipynb"))
        assert renamed.notebook == "b.ipynb"
        kernel.kill()
        kernel.wait()
        for starters in ((), (bench.kernel(os.getpid(), "b.ipynb"),)):
            (orphan,) = await bench.read(*starters)
            assert (orphan.key, orphan.board.started_by, orphan.notebook) == (owner.key, KERNEL, "b.ipynb")

    asyncio.run(scene())


DETACHED = "import os, subprocess, sys; p = subprocess.Popen(sys.argv[1:], start_new_session=True); print('pid', p.pid)"


def detach(bench, **env):
    """Start a TensorBoard whose parent ends before anybody looks. Gives its pid, once it listens."""
    environment = {**os.environ, "TMPDIR": str(bench.temporary), **env}
    command = [sys.executable, "-c", DETACHED, bench.program, "--logdir", "runs"]
    with subprocess.Popen(command, cwd=bench.root, env=environment, stdout=subprocess.PIPE, text=True) as process:
        lines = [process.stdout.readline(), process.stdout.readline()]
    pid = next(int(line.split()[1]) for line in lines if line.startswith("pid "))
    bench.adopt(pid)
    return pid


def test_a_detached_one_is_ours_by_the_mark_of_this_server(bench):
    """It has no parent and no session of ours; its file and what it has inherited say whose it is."""
    root = bench.root / "deep/c.ipynb"
    pid = detach(bench, JPY_PARENT_PID=str(os.getpid()), JPY_SESSION_NAME=str(root))
    (owner,) = asyncio.run(bench.read())
    assert owner.root.pid == pid
    assert (owner.board.log_dir, owner.notebook) == ("runs", "deep/c.ipynb")


@pytest.mark.parametrize("mark", [None, "1", "0", "junk"])
def test_a_detached_one_without_that_mark_is_a_strangers(bench, mark):
    """Started before the server was, by another server, or by hand: shown nowhere, touched never."""
    detach(bench, **({} if mark is None else {"JPY_PARENT_PID": mark}))
    assert asyncio.run(bench.read()) == ()


@pytest.fixture
def adopting():
    """Orphans come to this process, as they come to a server that is the first process of a container."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.mark.parametrize("is_ours", [False, True])
@pytest.mark.usefixtures("adopting")
def test_an_adopted_one_is_ours_by_the_mark_of_this_server_alone(bench, is_ours):
    """Somebody has started it from outside and gone away, and now the server is its parent: a stranger all the same."""
    pid = detach(bench, **({"JPY_PARENT_PID": str(os.getpid())} if is_ours else {}))
    assert bench.table.identify(pid).parent == os.getpid()
    found = [owner.root.pid for owner in asyncio.run(bench.read())]
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert found == ([pid] if is_ours else [])


def test_what_is_once_ours_stays_ours(bench):
    """Also when its file is gone."""

    async def scene():
        pid = detach(bench, JPY_PARENT_PID=str(os.getpid()))
        (owner,) = await bench.read()
        (bench.temporary / f".tensorboard-info/pid-{pid}.info").unlink()
        assert [each.key for each in await bench.read()] == [owner.key]
        assert await bench.read(owners=bench.new_server()) == ()

    asyncio.run(scene())


def test_a_wrapper_and_its_program_are_one(bench):
    """The outermost process is its root; port and file are those of the program."""
    wrapper = bench.program.parent / "wrapped/tensorboard"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\n{bench.program} "$@"\nexit $?\n')
    wrapper.chmod(0o755)
    started = bench.start(command=[wrapper, "--logdir", "runs"])
    (owner,) = asyncio.run(bench.read())
    assert (owner.root.pid, owner.board.port) == (started.pid, started.port)
    (file,) = bench.owners.info_files(owner.key)
    inner = int(file.stem.removeprefix("pid-"))
    assert inner != started.pid
    bench.adopt(inner)


def test_the_data_server_is_no_tensorboard(bench):
    """It belongs to the one that has started it."""
    bench.start("--logdir", "runs", "--helper")
    assert len(asyncio.run(bench.read())) == 1


def test_the_second_for_a_log_directory_is_marked(bench):
    """However the directory was written; the first is not, nor is one for another directory."""

    async def scene():
        (bench.root / "runs").mkdir()
        (bench.root / "link").symlink_to("runs")
        bench.start("--logdir", "runs")
        await asyncio.sleep(0.05)  # so that their start times differ
        bench.start("--logdir", f"{bench.root}/./runs/")
        await asyncio.sleep(0.05)
        bench.start("--logdir", "link")
        bench.start("--logdir", "other")
        shown = [(owner.board.log_dir, owner.board.duplicate) for owner in await bench.read()]
        assert shown == [("runs", False), ("runs", True), ("runs", True), ("other", False)]

    asyncio.run(scene())


def test_a_log_directory_outside_the_servers_root_is_shown_in_full(bench, tmp_path):
    """It could be anywhere."""
    bench.start("--logdir", str(tmp_path / "elsewhere"))
    (owner,) = asyncio.run(bench.read())
    assert owner.board.log_dir == str(tmp_path / "elsewhere")


def test_somebody_who_looks_is_seen_at_the_last_look(bench):
    """While the connection is open, and for about a minute afterwards."""

    async def scene():
        started = bench.start("--logdir", "runs")
        (owner,) = await bench.read()
        assert bench.owners.look_again(owner.key).state is OwnerState.IDLE
        with socket.create_connection(("127.0.0.1", started.port)) as visit:
            assert bench.owners.look_again(owner.key).state is OwnerState.SERVING
            visit.sendall(b"GET / HTTP/1.0\r\n\r\n")
            while visit.recv(100):
                pass
        assert bench.owners.look_again(owner.key).state is OwnerState.SERVING

    asyncio.run(scene())


def test_connections_that_cannot_be_read_are_not_none(bench, monkeypatch):
    """Whether somebody looks is not known then."""
    bench.start("--logdir", "runs")
    (owner,) = asyncio.run(bench.read())

    def refuse(pids, port):
        raise PermissionError

    monkeypatch.setattr("jupyter_gpu_guard.sources.tensorboard.has_visitors", refuse)
    assert bench.owners.look_again(owner.key).state is OwnerState.UNKNOWN


def test_one_that_has_ended_is_gone(bench):
    """At the last look, and at the next reading; a zombie too."""
    started = bench.start("--logdir", "runs")
    (owner,) = asyncio.run(bench.read())
    started.kill()
    os.waitid(os.P_PID, started.pid, os.WEXITED | os.WNOWAIT)
    assert bench.owners.look_again(owner.key) is None
    assert asyncio.run(bench.read()) == ()


def test_without_a_process_table_nothing_is_forgotten(bench):
    """No table is not an empty table."""

    async def scene():
        bench.start("--logdir", "runs")
        (owner,) = await bench.read()
        assert await bench.owners.read(None) == (owner,)
        assert await bench.owners.read({}) == (owner,)

    asyncio.run(scene())


def test_a_process_may_become_a_tensorboard_after_it_was_seen(bench):
    """Between fork and exec it looks like its parent: a young process is looked at again, an old one is not."""

    async def scene():
        line = "import os, sys; print(1, flush=True); sys.stdin.readline(); os.execv(sys.argv[1], sys.argv[1:])"
        words = [bench.program, "--logdir", "runs", "--no-info"]
        young = bench.start(command=[sys.executable, "-c", line, *words], stdin=subprocess.PIPE)
        old = bench.start(command=[sys.executable, "-c", line, *words], stdin=subprocess.PIPE)
        stays = bench.owners
        assert await bench.read() == ()
        young.stdin.write("\n")
        young.stdin.flush()
        young.stdout.readline()
        assert [owner.root.pid for owner in await bench.read()] == [young.pid]
        bench.clock.advance(100)
        await bench.read()
        old.stdin.write("\n")
        old.stdin.flush()
        old.stdout.readline()
        assert [owner.root.pid for owner in await bench.read(owners=stays)] == [young.pid]

    asyncio.run(scene())


def test_a_long_lived_wrapper_is_found_by_the_file_of_what_it_has_become(bench):
    """It listens on the port that its file names, and comes from here: that is a TensorBoard, whatever it is called."""

    async def scene():
        copy = bench.program.parent / "tb-launcher"
        copy.write_text(bench.program.read_text())
        copy.chmod(0o755)
        started = bench.start(command=[copy, "--logdir", "runs"])
        (owner,) = await bench.read()
        assert (owner.root.pid, owner.board.log_dir) == (started.pid, "runs")

    asyncio.run(scene())


def test_a_stale_file_makes_no_tensorboard_of_a_process_that_does_not_listen(bench):
    """A worker has got the pid of a TensorBoard that was killed within seconds."""
    sleeper = subprocess.Popen([sys.executable, "-c", "print(0, flush=True); import time; time.sleep(600)"])
    try:
        folder = bench.temporary / ".tensorboard-info"
        folder.mkdir()
        said = f'{{"pid": {sleeper.pid}, "port": 6006, "logdir": "runs", "start_time": {int(time.time())}}}'
        (folder / f"pid-{sleeper.pid}.info").write_text(said)
        assert asyncio.run(bench.read()) == ()
    finally:
        sleeper.kill()
        sleeper.wait()


def test_a_kernel_is_never_a_tensorboard(bench):
    """Even if the program that a kernelspec starts is called so."""
    started = bench.start("--logdir", "runs")
    assert asyncio.run(bench.read(bench.kernel(started.pid))) == ()


class FakeInside(dict):
    """The manager of an extension that runs TensorBoards within the server."""

    broken = False

    def items(self):
        """All of them, or an error."""
        if self.broken:
            raise RuntimeError("broken")
        return super().items()


def test_those_within_the_server_are_listed(bench):
    """Without a process of their own; a manager that breaks harms nobody else and forgets nothing."""

    async def scene():
        manager = FakeInside({"1": SimpleNamespace(name="1", logdir=str(bench.root / "runs"))})
        bench.settings["tensorboard_manager"] = manager
        started = bench.start("--logdir", "runs")
        inside, other = await bench.read()
        assert inside.key == OwnerKey(OwnerKind.TENSORBOARD, "inside-1")
        assert (inside.name, inside.root, inside.state) == ("TensorBoard runs", None, OwnerState.IDLE)
        assert (inside.board.inside, inside.board.log_dir, inside.board.duplicate) == (True, "runs", False)
        assert (other.root.pid, other.board.duplicate) == (started.pid, True)
        assert bench.owners.look_again(inside.key) == inside
        manager.broken = True
        inside, other = await bench.read()
        assert (inside.state, other.state) == (OwnerState.UNKNOWN, OwnerState.IDLE)
        manager.broken = False
        manager.clear()
        assert bench.owners.look_again(inside.key) is None
        assert [owner.root.pid for owner in await bench.read()] == [started.pid]

    asyncio.run(scene())


def test_terminals_and_kernels_are_not_asked_for_here(bench):
    """Whatever they are called."""
    owners = BoardOwners({}, bench.root, FakeProcesses(), FakeClock())
    assert owners.look_again(KERNEL) is None
    assert owners.look_again(OwnerKey(OwnerKind.TENSORBOARD, "1-1")) is None
    assert owners.info_files(OwnerKey(OwnerKind.TENSORBOARD, "1-1")) == ()


def test_nothing_is_read_on_the_event_loop(bench, monkeypatch):
    """Command lines and files may be slow to come: they are read in a thread."""
    threads = []

    def noting(argv):
        threads.append(threading.current_thread())
        return read_command(argv)

    monkeypatch.setattr("jupyter_gpu_guard.sources.tensorboard.read_command", noting)
    bench.start("--logdir", "runs")
    assert len(asyncio.run(bench.read())) == 1
    assert threads
    assert threading.main_thread() not in threads
