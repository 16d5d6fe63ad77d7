"""A closer look at real processes and real sockets."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing

import pytest
from fake_clock import FakeClock

from jupyter_gpu_guard.core.model import Mark, OwnerKey, OwnerKind, ProcessKey
from jupyter_gpu_guard.sources.connections import End, Pair, is_from_afar, read_connections
from jupyter_gpu_guard.sources.insight import ProcfsInsight
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses

ME = OwnerKey(OwnerKind.KERNEL, "me")

SERVER = """
import socket, sys, threading
def serve(one):
    while one.recv(100): pass
    one.close()
listening = socket.create_server(
    (sys.argv[1], 0), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET,
    dualstack_ipv6=":" in sys.argv[1],
)
print(listening.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()
"""

CLIENT = """
import socket, sys
one = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print("connected", flush=True)
sys.stdin.readline()
one.close()
print("closed", flush=True)
sys.stdin.readline()
"""

WRITER = """
import sys
print("up", flush=True)
sys.stdin.readline()
open("/dev/null", "w").write("x" * 10**6)
print("done", flush=True)
sys.stdin.readline()
"""

WAITING = "import sys; sys.stdin.readline()"


class Child:
    """A process that ends with the test; `say` and `hear` are its standard input and output, line by line."""

    def __init__(self, code, *arguments, **environment):
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PATH": os.environ["PATH"], **environment},
        )
        self.key = ProcfsProcesses().identify(self._process.pid).key

    def hear(self):
        """The next line that it writes."""
        line = self._process.stdout.readline().strip()
        assert line, "it has ended"
        return line

    def say(self, line=""):
        """Write a line to it."""
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def close(self):
        """End it."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def child():
    """Starts children."""
    with ExitStack() as stack:
        yield lambda code, *arguments, **environment: stack.enter_context(
            closing(Child(code, *arguments, **environment))
        )


@pytest.fixture
def serving(child):
    """A child that listens, and its port."""
    server = child(SERVER, "127.0.0.1")
    return server, int(server.hear())


def until(condition, what):
    """Wait until `condition` holds."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def look(insight, *children, own_ports=()):
    """What the children do, as one owner."""
    return insight.activity({ME: [one.key for one in children]}, {ME: own_ports})[ME]


def is_remembered(port):
    """Whether a connection to `port` was closed lately."""
    return bool(read_connections(ProcfsInsight()._root / "self/net").closed_at(port))


def test_marks_are_what_the_server_has_given_to_the_kernel(child):
    """Its pid and the path of the notebook; nothing else of an environment is kept."""
    marked = child(WAITING, JPY_PARENT_PID="4711", JPY_SESSION_NAME="/home/a/b c.ipynb", TOKEN="hunter2")
    halfway = child(WAITING, JPY_PARENT_PID="x", JPY_SESSION_NAME="", XJPY_PARENT_PID="1")
    plain = child(WAITING, TOKEN="hunter2")
    insight = ProcfsInsight()
    until(lambda: insight._mark(plain.key) is not None, "started")
    until(lambda: ProcfsInsight().marks([marked.key])[marked.key].server, "executing its own program")
    assert insight.marks([marked.key, halfway.key, plain.key]) == {
        marked.key: Mark(4711, "/home/a/b c.ipynb"),
        halfway.key: Mark(None, None),
        plain.key: Mark(None, None),
    }
    assert "hunter2" not in repr(vars(insight))


@pytest.mark.skipif(os.getuid() != 0, reason="only root may start a process of another user")
def test_the_environment_of_another_user_is_not_read():
    """Not even by a server that could."""
    environment = {**os.environ, "JPY_PARENT_PID": "4711"}
    with subprocess.Popen(["sleep", "60"], user=65534, env=environment, cwd="/") as theirs:
        until(lambda: ProcfsProcesses().identify(theirs.pid) is not None, "there")
        key = ProcfsProcesses().identify(theirs.pid).key
        assert ProcfsInsight().marks([key]) == {}
        theirs.kill()


def test_what_is_gone_or_another_has_no_marks(child):
    """A reused pid does not inherit the marks of the one before."""
    marked = child(WAITING, JPY_PARENT_PID="4711")
    other = ProcessKey(marked.key.pid, marked.key.start_ticks + 1)
    marked_as = {marked.key: Mark(4711, None)}
    insight = ProcfsInsight()
    until(lambda: insight.marks([marked.key, other]) == marked_as, "marked")
    marked.close()
    assert ProcfsInsight().marks([marked.key]) == {}


def test_an_environment_that_cannot_be_read_is_missing(tmp_path):
    """That is not the same as an environment without marks."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7/stat").write_bytes(b"7 (x) S" + b" 1" * 48)
    key = ProcessKey(7, 1)
    assert ProcfsInsight(tmp_path).marks([key]) == {}
    (tmp_path / "7/environ").write_bytes(b"")
    assert ProcfsInsight(tmp_path).marks([key]) == {key: Mark(None, None)}


def test_marks_are_read_once_and_a_lack_of_them_again_after_a_while(tmp_path):
    """Marks stay; a process without may have become another program. Who is not asked for is forgotten."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7/stat").write_bytes(b"7 (x) S" + b" 1" * 48)
    environ, key, clock = tmp_path / "7/environ", ProcessKey(7, 1), FakeClock()
    insight = ProcfsInsight(tmp_path, lambda: clock.now().monotonic)

    def seen():
        return insight.marks([key])[key].server

    environ.write_bytes(b"HOME=/")
    assert seen() is None
    environ.write_bytes(b"HOME=/\0JPY_PARENT_PID=11\0")
    assert seen() is None
    clock.advance(60)
    assert seen() == 11
    environ.write_bytes(b"JPY_PARENT_PID=12")
    clock.advance(600)
    assert seen() == 11
    insight.marks([])
    assert seen() == 12


def test_what_is_read_and_written_is_counted_by_process(child):
    """Unreadable and ended ones are missing."""
    writer, other = child(WRITER), child(WAITING)
    writer.hear()
    insight = ProcfsInsight()
    before = look(insight, writer, other).io
    writer.say()
    writer.hear()
    after = look(insight, writer, other).io
    assert before.keys() == after.keys() == {writer.key, other.key}
    assert after[writer.key] - before[writer.key] >= 10**6
    other.close()
    assert look(insight, writer, other).io.keys() == {writer.key}


def test_somebody_from_outside_is_a_visitor(serving):
    """While connected, and for a while after; Jupyter's own ports do not count."""
    server, port = serving
    insight = ProcfsInsight()
    assert look(insight, server).listens == {port}
    assert look(insight, server).visitors == 0
    with socket.create_connection(("127.0.0.1", port)):
        assert look(insight, server).visitors == 1
        own = look(ProcfsInsight(), server, own_ports=[port])
        assert (own.listens, own.visitors) == (frozenset(), 0)
    until(lambda: is_remembered(port), "closed")
    assert look(insight, server).visitors == 1
    assert look(ProcfsInsight(), server).visitors == 0  # nobody was ever seen to come: it may have asked itself


def test_workers_that_talk_to_each_other_are_no_visitors(serving, child):
    """While connected and after, as long as nobody else comes to that port."""
    server, port = serving
    first, second = child(CLIENT, port), child(CLIENT, port)
    insight = ProcfsInsight()
    assert [first.hear(), second.hear()] == ["connected", "connected"]
    family = (server, first, second)
    assert look(insight, *family).listens == {port}
    assert look(insight, *family).visitors == 0
    first.say()
    first.hear()
    until(lambda: is_remembered(port), "closed")
    assert look(insight, *family).visitors == 0
    third = child(CLIENT, port)  # comes and goes between two looks
    third.hear()
    third.say()
    third.hear()
    assert look(insight, *family, third).visitors == 0
    assert look(insight, server).visitors >= 1  # to those who are not one family, it is a visitor


def test_a_port_that_was_visited_is_not_private_any_more(serving, child):
    """From then on, a connection that nobody has seen open counts as a visit."""
    server, port = serving
    worker = child(CLIENT, port)
    worker.hear()
    insight = ProcfsInsight()
    assert look(insight, server, worker).visitors == 0
    with socket.create_connection(("127.0.0.1", port)):
        assert look(insight, server, worker).visitors == 1
    until(lambda: is_remembered(port), "closed")
    assert look(insight, server, worker).visitors == 1
    worker.say()
    worker.hear()
    assert look(insight, server, worker).visitors == 1


def test_a_program_that_asks_itself_has_no_visitors_and_a_tensorboard_has(serving):
    """Its short connections are never seen open. Only of a TensorBoard is it known that it does not do that."""
    server, port = serving
    insight = ProcfsInsight()
    with socket.create_connection(("127.0.0.1", port)):
        pass
    until(lambda: is_remembered(port), "closed")
    assert look(insight, server).visitors == 0
    board = OwnerKey(OwnerKind.TENSORBOARD, "b")
    assert ProcfsInsight().activity({board: [server.key]}, {})[board].visitors == 1


def test_the_marks_of_a_process_in_another_pid_namespace_mean_nothing(child, monkeypatch):
    """The number of its server is one of there."""
    marked = child(WAITING, JPY_PARENT_PID="4711", JPY_SESSION_NAME="/a.ipynb")
    insight = ProcfsInsight()
    until(lambda: ProcfsInsight().marks([marked.key])[marked.key].server, "executing its own program")
    monkeypatch.setattr(insight, "_here", "pid:[1]")
    assert insight.marks([marked.key]) == {}


def test_a_server_for_both_protocols_knows_its_family(child):
    """Its own row shows a caller by IPv4 at an address of IPv6."""
    if not socket.has_ipv6 or not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    server = child(SERVER, "::")
    port = int(server.hear())
    worker = child(CLIENT, port)
    worker.hear()
    insight = ProcfsInsight()
    assert look(insight, server, worker).visitors == 0
    assert look(insight, server).visitors == 1


def test_a_process_in_another_network_is_left_out(serving, monkeypatch):
    """Its numbers mean other sockets."""
    server, port = serving
    insight = ProcfsInsight()
    assert look(insight, server).listens == {port}
    monkeypatch.setattr(insight, "_namespace", {"self": "net:[1]", str(server.key.pid): "net:[2]"}.get)
    assert look(insight, server).listens == frozenset()
    assert look(insight, server).io.keys() == {server.key}
    assert look(insight, server).visitors is None


def test_a_reused_pid_listens_nowhere(serving):
    """What another process does is not charged to the one before."""
    server, _ = serving
    other = ProcessKey(server.key.pid, server.key.start_ticks + 1)
    found = ProcfsInsight().activity({ME: [other]}, {})[ME]
    assert (found.listens, found.visitors, found.io) == (frozenset(), 0, {})


HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def row(local, remote, state, inode=0):
    """A line of /proc/net/tcp."""
    return f"   0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000     0        0 {inode} 1 0\n"


def test_a_caller_from_afar_is_a_visitor_also_at_a_private_port(tmp_path):
    """And a connection that goes out to the same port of another machine is none."""
    server, here, afar = "0A00000A:1F90", "0A00000A:C001", "0B00000A:C002"
    (tmp_path / "tcp").write_text(
        HEADER
        + row("00000000:1F90", "00000000:0000", "0A", 5)
        + row(server, here, "06")
        + row(server, afar, "06")
        + row(here, "0B00000A:1F90", "06")
        + row(here, "0B00000A:1F90", "02")
        + "torn"
    )
    connections = read_connections(tmp_path)
    assert connections.ports({5}) == {0x1F90}
    pairs = connections.closed_at(0x1F90)
    assert {pair.client for pair in pairs} == {End("0A00000A", 0xC001), End("0B00000A", 0xC002)}
    assert {pair.client.port for pair in pairs if is_from_afar(pair)} == {0xC002}


def test_the_loopback_of_each_protocol_is_here():
    """127.0.0.0/8 and ::1, as the kernel writes them."""
    for address in ("0100007F", "3500007F", "00000000000000000000000001000000"):
        assert not is_from_afar(Pair(End("0A00000A", 1), End(address, 2)))
    for address in ("0B00000A", "0000000000000000000000000200007F"):
        assert is_from_afar(Pair(End("0A00000A", 1), End(address, 2)))
