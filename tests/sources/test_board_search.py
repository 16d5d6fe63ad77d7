"""What finds TensorBoards: command lines, info files, sockets, and where a process comes from."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from fake_clock import NOON
from fake_processes import FakeProcesses

from jupyter_gpu_guard.core.model import OwnerKey, OwnerKind, Process, ProcessKey
from jupyter_gpu_guard.sources.board_commands import Told, read_command
from jupyter_gpu_guard.sources.board_files import read_infos
from jupyter_gpu_guard.sources.board_process import inherited_by, marked_by
from jupyter_gpu_guard.sources.descent import Descent, Place
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses
from jupyter_gpu_guard.sources.sockets import has_visitors, listening_ports

# ---- command lines ----


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("tensorboard --logdir runs", Told("runs", None)),
        ("/opt/bin/tensorboard --logdir=runs --port=6007", Told("runs", 6007)),
        ("/opt/bin/python3 /opt/bin/tensorboard --port 6008 --logdir runs", Told("runs", 6008)),
        ("python3.12 -m tensorboard.main --logdir runs", Told("runs", None)),
        ("python -u -W ignore -mtensorboard.main --logdir runs", Told("runs", None)),
        ("pypy3 -m tensorboard --logdir_spec=a:x,b:y", Told("a:x,b:y", None)),
        ("python /lib/site-packages/tensorboard/main.py --logdir-spec a:x", Told("a:x", None)),
        ("python /usr/lib/python3/dist-packages/tensorboard/__main__.py --logdir a", Told("a", None)),
        ("python /home/anna/tensorboard/main.py --logdir a", None),
        ("python tensorboard/main.py --logdir a", None),
        ("python site-packages/mine/tensorboard/main.py --logdir a", None),
        ("python main.py --logdir a", None),
        ("bash /usr/local/bin/tensorboard --logdir runs", Told("runs", None)),
        ("tensorboard --logdir", Told("", None)),
        ("tensorboard --logdir runs --port 0", Told("runs", None)),
        ("tensorboard --logdir runs --port default", Told("runs", None)),
        ("tensorboard --logdir s3://user:hunter2@bucket/runs", Told("s3://bucket/runs", None)),
        ("tensorboard serve --logdir runs", Told("runs", None)),
        ("tensorboard dev upload --logdir runs", None),
        ("vim tensorboard", None),
        ("tail -f logs/tensorboard", None),
        ("python train.py --out tensorboard", None),
        ("python -m train tensorboard", None),
        ("python -c tensorboard", None),
        ("bash -c tensorboard", None),
        ("python", None),
        ("python -m", None),
        ("python -W", None),
        ("/lib/tensorboard_data_server/bin/server --logdir=runs --port=0", None),
        ("tensorboardx --logdir runs", None),
        ("", None),
    ],
)
def test_command_lines(command, told):
    """A TensorBoard is known by its program, however that was started, and by nothing that merely names it."""
    assert read_command(command.split()) == told


def test_no_command_line_at_all():
    """A process of the system, or one that is gone."""
    assert read_command([]) is None
    assert read_command([""]) is None


# ---- info files ----


@pytest.fixture
def sleeper():
    """A process of ours, as the table shows it."""
    process = subprocess.Popen(["sleep", "60"])
    yield ProcfsProcesses().identify(process.pid)
    process.kill()
    process.wait()


def write(folder, process, **changed):
    """The info file of `process`, with some of it `changed`. Gives its path."""
    said = {"pid": process.key.pid, "port": 6006, "logdir": "runs", "start_time": int(time.time()), **changed}
    folder = folder / ".tensorboard-info"
    folder.mkdir(exist_ok=True)
    path = folder / f"pid-{process.key.pid}.info"
    path.write_text(json.dumps(said))
    return path


def test_an_info_file_of_a_living_process_is_believed(tmp_path, sleeper):
    """Where it is, what it shows, and the file itself."""
    path = write(tmp_path, sleeper)
    assert list(read_infos(tmp_path, {sleeper.key.pid: sleeper})) == [(path, sleeper, "runs", 6006)]


@pytest.mark.parametrize(
    "changed",
    [
        {"pid": 1},
        {"start_time": 1},
        {"start_time": None},
        {"start_time": "NaN"},
        {"start_time": 2**40},
        {"start_time": int(time.time()) + 2 * 3600},
        {"pid": None},
    ],
    ids=["pid", "early", "no time", "not a number", "far ahead", "two hours ahead", "no pid"],
)
def test_what_cannot_be_true_is_not_believed(tmp_path, sleeper, changed):
    """It was left behind by an earlier process with the same pid, or somebody made it up."""
    write(tmp_path, sleeper, **changed)
    assert list(read_infos(tmp_path, {sleeper.key.pid: sleeper})) == []


@pytest.mark.parametrize("port", [None, "6006", 0, 2**20, {}])
def test_an_impossible_port_is_none(tmp_path, sleeper, port):
    """The rest is believed all the same."""
    write(tmp_path, sleeper, port=port)
    ((_, _, log_dir, found),) = read_infos(tmp_path, {sleeper.key.pid: sleeper})
    assert (log_dir, found) == ("runs", None)


@pytest.mark.parametrize("text", ["", "[]", "1", "{", "[" * 10**5, '{"pid": 1'])
def test_a_file_that_makes_no_sense_is_skipped(tmp_path, sleeper, text):
    """So is one that is half written."""
    write(tmp_path, sleeper).write_text(text)
    assert list(read_infos(tmp_path, {sleeper.key.pid: sleeper})) == []


def test_a_file_of_a_process_that_has_ended_is_skipped(tmp_path, sleeper):
    """Gone, or a zombie: there are many of these in a shared folder."""
    write(tmp_path, sleeper)
    assert list(read_infos(tmp_path, {})) == []
    assert list(read_infos(tmp_path, {sleeper.key.pid: replace(sleeper, state="Z")})) == []


def test_links_pipes_and_strange_names_are_skipped(tmp_path, sleeper):
    """Everybody may write into that folder; a pipe must not hold anybody up."""
    path = write(tmp_path, sleeper)
    real = path.rename(tmp_path / "real")
    table = {sleeper.key.pid: sleeper}
    path.symlink_to(real)
    assert list(read_infos(tmp_path, table)) == []
    path.unlink()
    os.mkfifo(path)
    (path.parent / "pid-x.info").write_text("{}")
    (path.parent / "pid-1.info.swp").write_text("{}")
    assert list(read_infos(tmp_path, table)) == []
    assert list(read_infos(tmp_path / "nowhere", table)) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_anothers_file_about_a_process_of_ours_is_not_believed(tmp_path, sleeper):
    """Only who runs the TensorBoard can have written it."""
    os.chown(write(tmp_path, sleeper), 65534, 65534)
    assert list(read_infos(tmp_path, {sleeper.key.pid: sleeper})) == []


# ---- sockets ----


def test_who_listens_and_who_is_connected():
    """The port is this process's while it listens; a visitor is seen, also for a while after the end."""
    me = os.getpid()
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
        assert port in listening_ports(me)
        assert not has_visitors([me], port)
        with socket.create_connection(("127.0.0.1", port)):
            inside, _ = door.accept()
            assert has_visitors([me], port)
            assert not has_visitors([], port)
            inside.close()
        assert has_visitors([me], port)
    assert port not in listening_ports(me)


@pytest.mark.parametrize("close_first", ["caller", "called"])
def test_a_visit_is_seen_whoever_has_hung_up(close_first):
    """The system remembers a closed connection at the end that was closed first."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
        caller = socket.create_connection(("127.0.0.1", port))
        called, _ = door.accept()
        first, last = (caller, called) if close_first == "caller" else (called, caller)
        first.close()
        assert last.recv(1) == b""
        last.close()
        assert has_visitors([os.getpid()], port)


AT_ANOTHER_ADDRESS = """
import socket, sys
door = socket.create_server(("127.0.0.2", int(sys.argv[1])))
print("up", flush=True)
one, _ = door.accept()
print("met", flush=True)
one.recv(1)
"""


def test_who_comes_to_another_program_at_another_address_is_no_visitor():
    """Two may listen on the same port; each has its own visitors."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
        line = [sys.executable, "-c", AT_ANOTHER_ADDRESS, str(port)]
        with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout.readline() == "up\n"
            with socket.create_connection(("127.0.0.2", port)):
                assert other.stdout.readline() == "met\n"
                assert has_visitors([other.pid], port)
                assert not has_visitors([os.getpid()], port)


def test_a_process_that_is_gone_cannot_be_looked_into():
    """An error, and not a process that nobody visits."""
    with pytest.raises(OSError, match="4194301"):
        listening_ports(4194301)
    with pytest.raises(OSError, match="4194301"):
        has_visitors([4194301], 6006)


# ---- marks ----


def test_a_mark_means_a_server_of_the_same_pid_namespace():
    """In a container of this very user, the same number is that of another server."""
    line = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "sh", "-c", "echo up; read x"]
    with subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "JPY_PARENT_PID": "17"}
    ) as outer:
        if outer.stdout.readline() != b"up\n":
            pytest.skip("no pid namespaces here")
        (inner,) = map(int, Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split())
        assert marked_by(outer.pid) == 17
        assert inherited_by(inner).server == 17
        assert marked_by(inner) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may start a process of another user")
def test_the_mark_of_anothers_process_is_not_read():
    """Not even by a server that could."""
    environment = {**os.environ, "JPY_PARENT_PID": "17"}
    with subprocess.Popen(["sleep", "60"], user=65534, env=environment, cwd="/") as theirs:
        assert marked_by(theirs.pid) is None
        theirs.kill()


# ---- where a process comes from ----

SERVER, KERNEL, SHELL = 100, 200, 300
K, T = OwnerKey(OwnerKind.KERNEL, "k"), OwnerKey(OwnerKind.TERMINAL, "1")
ROOTS = {ProcessKey(KERNEL, 20): K, ProcessKey(SHELL, 30): T}


def row(pid, parent, ticks, session=1):
    """One process."""
    return Process(ProcessKey(pid, ticks), parent, pid, session, "S", NOON + timedelta(seconds=ticks))


def world(*more):
    """A server with a kernel and a terminal, beside another program; and whatever a test adds."""
    return FakeProcesses(
        row(1, 0, 1), row(SERVER, 1, 10), row(KERNEL, SERVER, 20, KERNEL), row(SHELL, SERVER, 30, SHELL), row(7, 1, 5),
        *more,
    )  # fmt: skip


def places(descent, processes):
    """Whose each process is, by pid."""
    return {key.pid: place.owner for key, place in descent.places(processes.read(), ROOTS).items()}


def test_what_a_server_has_started_is_its_own():
    """By kernel and terminal where there is one; the server itself and others are not among it."""
    found = places(
        Descent(SERVER), world(row(201, KERNEL, 21), row(202, 201, 22), row(301, SHELL, 31), row(110, SERVER, 11))
    )
    assert found == {KERNEL: K, 201: K, 202: K, SHELL: T, 301: T, 110: None}


def test_who_was_seen_once_is_known_when_its_parents_have_ended():
    """Whatever has adopted it, and although its session is its own."""
    descent, table = Descent(SERVER), world(row(201, KERNEL, 21), row(202, 201, 22, 202))
    places(descent, table)
    del table.table[201]
    table.table[202] = row(202, 1, 22, 202)
    assert places(descent, table)[202] == K
    del table.table[KERNEL]
    assert places(descent, table)[202] == K


def test_a_session_tells_where_an_orphan_comes_from():
    """It was never seen with its parents, but nobody gets into a session from outside."""
    assert places(Descent(SERVER), world(row(202, 1, 22, KERNEL)))[202] == K
    assert 203 not in places(Descent(SERVER), world(row(203, 1, 15, KERNEL)))  # older than the session's leader


def test_a_reused_pid_is_nobodys_child():
    """A parent that is younger than its child is another process; and so is a later one with a known pid."""
    descent = Descent(SERVER)
    assert 205 not in places(descent, world(row(205, KERNEL, 9)))
    table = world(row(201, KERNEL, 21))
    assert places(descent, table)[201] == K
    table.table[201] = row(201, 1, 99)
    assert 201 not in places(descent, table)


def test_a_stranger_is_looked_at_again_when_a_kernel_is_new():
    """Its own first process may have been started by somebody else: a queue system, say."""
    descent, table = Descent(SERVER), world(row(400, 7, 40), row(401, 400, 41))
    assert 401 not in places(descent, table)
    far = OwnerKey(OwnerKind.KERNEL, "far")
    found = descent.places(table.read(), {**ROOTS, ProcessKey(400, 40): far})
    assert found[ProcessKey(401, 41)] == Place(far)


def test_a_torn_table_ends_the_search():
    """Parents in a circle are nobody's, and are not walked for ever."""
    assert 501 not in places(Descent(SERVER), world(row(501, 502, 50), row(502, 501, 50)))


def test_a_server_that_is_the_first_process_adopts_orphans():
    """In a container: what comes from a kernel stays the kernel's, by its session or by having been seen."""
    descent = Descent(1)
    table = FakeProcesses(row(1, 0, 1), row(KERNEL, 1, 20, KERNEL), row(201, KERNEL, 21, 201), row(202, 1, 22, KERNEL))
    assert places(descent, table) == {KERNEL: K, 201: K, 202: K}
    table.table[201] = row(201, 1, 21, 201)
    assert places(descent, table)[201] == K


def test_a_server_that_adopts_nobody_is_the_parent_of_its_own_children_only():
    """Whatever session they are in, and also if that of the server has its leader outside this namespace."""
    inside, apart = row(300, SERVER, 40, 0), row(301, SERVER, 41, 301)
    found = places(Descent(SERVER, adopts=False), world(inside, apart))
    assert (found[300], found[301]) == (None, None)


def test_an_orphan_that_a_server_has_adopted_is_not_started_by_it():
    """A child of the server in a session of its own: ours by the mark of this server alone, or by what it was."""
    orphan, below = row(300, 1, 40, 300), row(301, 300, 41, 300)
    first, kernel = row(1, 0, 1), row(KERNEL, 1, 20, KERNEL)
    table = FakeProcesses(first, kernel, row(2, 1, 10), orphan, below)
    assert places(Descent(1), table) == {KERNEL: K, 2: None}
    assert places(Descent(1, {300: 7}.get), table) == {KERNEL: K, 2: None}
    assert places(Descent(1, {300: 1}.get), table) == {KERNEL: K, 2: None, 300: None, 301: None}
    seen = Descent(1)
    table.table[300] = row(300, 2, 40, 300)
    assert places(seen, table) == {KERNEL: K, 2: None, 300: None, 301: None}
    table.table = {each.key.pid: each for each in (first, kernel, orphan, below)}
    assert places(seen, table) == {KERNEL: K, 300: None, 301: None}


def test_a_session_from_outside_of_the_container_proves_nothing():
    """Whoever was sent into it from outside has session 0, as its first process may have."""
    table = FakeProcesses(row(1, 0, 1, 0), row(300, 1, 40, 0))
    assert places(Descent(1), table) == {}
