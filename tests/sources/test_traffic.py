"""What goes through real sockets by `recv` and `send`, and how it adds up."""

from __future__ import annotations

import errno
import logging
import os
import socket
import struct
import subprocess
import sys
import threading
from contextlib import ExitStack, closing, contextmanager

import pytest

from jupyter_gpu_guard.core.model import OwnerKey, OwnerKind, ProcessKey
from jupyter_gpu_guard.sources import traffic
from jupyter_gpu_guard.sources.insight import ProcfsInsight
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses
from jupyter_gpu_guard.sources.traffic import End, Flow, Traffic, connected

ME, OTHER = OwnerKey(OwnerKind.KERNEL, "me"), OwnerKey(OwnerKind.KERNEL, "other")
MUCH, LITTLE = 100 * 10**6, 10**6

tells = pytest.mark.skipif(connected() is None, reason="this system does not tell what goes through TCP connections")

DOES_AS_TOLD = """
import os, socket, sys
scope = {"os": os, "socket": socket}
for line in sys.stdin:
    exec(line.replace(";;", chr(10)), scope)
    print(scope.get("said", "done"), flush=True)
"""
RECEIVE = "block, left = bytearray(2**20), {much};;while left > 0: left -= one.recv_into(block)"
SEND = "block, left = bytes(10**6), {much};;while left > 0: left -= one.send(block)"


class Worker:
    """A process that executes a line after the other. It ends with the test."""

    def __init__(self, *handed):
        self._process = subprocess.Popen(
            [sys.executable, "-c", DOES_AS_TOLD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=handed,
        )
        self.key = ProcfsProcesses().identify(self._process.pid).key

    def begin(self, line):
        """Let it execute `line`."""
        self._process.stdin.write(line.format(much=MUCH).replace("\n", ";;") + "\n")
        self._process.stdin.flush()

    def end(self):
        """Wait for that. Gives `said`."""
        answer = self._process.stdout.readline().strip()
        assert answer, "it has ended"
        return answer

    def do(self, line):
        """Both."""
        self.begin(line)
        return self.end()

    def close(self):
        """End it."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def worker():
    """Starts workers."""
    with ExitStack() as stack:
        yield lambda *handed: stack.enter_context(closing(Worker(*handed)))


@contextmanager
def door(worker, address="127.0.0.1"):
    """A connection that a worker, the called one, has as `one`; gives this end of it, and its port."""
    family = "AF_INET6" if ":" in address else "AF_INET"
    port = int(
        worker.do(
            f"listening = socket.create_server(('{address}', 0), family=socket.{family});;"
            "said = listening.getsockname()[1]"
        )
    )
    with socket.create_connection((address, port)) as here:
        worker.do("one = listening.accept()[0];;said = 'done'")
        yield here, port


def pour(here):
    """Send much into this end, in the background."""
    thread = threading.Thread(target=here.sendall, args=(bytes(MUCH),))
    thread.start()
    return thread


def drain(here):
    """Take much out of this end."""
    left = MUCH
    while left > 0:
        left -= len(here.recv(2**20))


def bytes_of(insight, *workers, own_ports=()):
    """What the workers, one owner, have moved so far."""
    io = insight.activity({ME: [one.key for one in workers]}, {ME: own_ports})[ME].io
    assert io.keys() == {one.key for one in workers}
    return sum(io.values())


@tells
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_what_a_thread_receives_is_moved(worker, address):
    """`recv_into` is no reading of a file, and it counts; so does `send`. Nothing is taken back at the end."""
    if ":" in address and not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    insight, one = ProcfsInsight(), worker()
    with door(one, address) as (here, _):
        before = bytes_of(insight, one)
        thread = pour(here)
        one.do(RECEIVE)
        thread.join()
        received = bytes_of(insight, one)
        assert MUCH <= received - before < MUCH + LITTLE
        one.begin(SEND)
        drain(here)
        one.end()
        sent = bytes_of(insight, one)
        assert MUCH <= sent - received < MUCH + LITTLE
        one.do("one.close()")
        assert sent <= bytes_of(insight, one) < sent + LITTLE
    assert sent <= bytes_of(insight, one) < sent + LITTLE


@tells
def test_what_jupyter_says_to_a_kernel_is_not_moved(worker):
    """Messages go through the kernel's own ports; through any other port they would count."""
    zmq = pytest.importorskip("zmq")
    insight, one = ProcfsInsight(), worker()
    port = int(
        one.do(
            "import zmq;;one = zmq.Context().socket(zmq.PULL);;"
            "said = one.bind_to_random_port('tcp://127.0.0.1', 20000, 60000)"
        )
    )
    with zmq.Context() as context, context.socket(zmq.PUSH) as jupyter:
        jupyter.connect(f"tcp://127.0.0.1:{port}")
        bytes_of(insight, one, own_ports=[port])

        def talk():
            for _ in range(20):
                jupyter.send(bytes(MUCH // 20))

        thread = threading.Thread(target=talk)
        before, plain = bytes_of(insight, one, own_ports=[port]), ProcfsInsight()
        bytes_of(plain, one)
        thread.start()
        one.do("for _ in range(20): one.recv()")
        thread.join()
        assert bytes_of(insight, one, own_ports=[port]) - before < LITTLE
        assert bytes_of(plain, one) - before > MUCH
        # What went through a port does not count later either, when the port is not known to be Jupyter's any more.
        assert bytes_of(insight, one) - before < LITTLE


@tells
def test_workers_of_one_tree_move_nothing_among_themselves(worker):
    """Two of different owners do."""
    together, called, caller = ProcfsInsight(), worker(), worker()
    port = int(
        called.do("listening = socket.create_server(('127.0.0.1', 0));;said = listening.getsockname()[1]"),
    )
    caller.do(f"one = socket.create_connection(('127.0.0.1', {port}))")
    called.do("one = listening.accept()[0]")
    trees = {ME: [called.key], OTHER: [caller.key]}
    apart = ProcfsInsight()
    before, alone = bytes_of(together, called, caller), apart.activity(trees, {})
    caller.begin(SEND)
    called.do(RECEIVE)
    caller.end()
    assert bytes_of(together, called, caller) - before < LITTLE
    for owner, seen in apart.activity(trees, {}).items():
        assert MUCH <= sum(seen.io.values()) - sum(alone[owner].io.values()) < MUCH + LITTLE


@tells
def test_a_unix_socket_is_not_counted(worker):
    """It leads to a process of this machine."""
    here, there = socket.socketpair()
    with here:
        with there:
            one = worker(there.fileno())
            one.do(f"one = socket.socket(fileno={there.fileno()})")
        insight = ProcfsInsight()
        before = bytes_of(insight, one)
        thread = pour(here)
        one.do(RECEIVE)
        thread.join()
        assert bytes_of(insight, one) - before < LITTLE


@tells
def test_a_socket_of_several_processes_counts_once(worker):
    """As where a pool has inherited it."""
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()) as here:
        there, _ = listening.accept()
        with there:
            both = [worker(there.fileno()) for _ in range(2)]
            for one in both:
                one.do(f"one = socket.socket(fileno={there.fileno()})")
        insight = ProcfsInsight()
        before = bytes_of(insight, *both)
        thread = pour(here)
        both[1].do(RECEIVE)
        thread.join()
        assert MUCH <= bytes_of(insight, *both) - before < MUCH + LITTLE


# ---- how it adds up ----

ONE, TWO = ProcessKey(1, 1), ProcessKey(2, 2)


class FakeLinux:
    """What the system would tell; a test changes it. None: nothing."""

    def __init__(self, *flows):
        self.flows = flows
        self.asked = 0

    def __call__(self):
        """All connections now."""
        self.asked += 1
        return self.flows


def flow(inode, moved, port=1, to=2):
    """A connection from this machine to another one."""
    return Flow(inode + 1000, inode, End(b"\n\0\0\1", port), End(b"\n\0\0\2", to), moved)


def added(it, sockets, **own_ports):
    """By process."""
    return it.moved({ME: sockets}, {ME: own_ports.get("own_ports", ())})[ME]


def test_what_was_moved_stays_while_the_process_lives():
    """When its socket is closed or handed on, and when the inode is another's; with the process it is forgotten."""
    linux = FakeLinux(flow(7, 100))
    it = Traffic(linux)
    assert added(it, {ONE: frozenset({7})}) == {ONE: 100}
    linux.flows = ()
    assert added(it, {ONE: frozenset()}) == {ONE: 100}
    linux.flows = (flow(7, 10)._replace(cookie=5),)
    assert added(it, {ONE: frozenset({7})}) == {ONE: 110}
    linux.flows = (flow(7, 30)._replace(cookie=5),)
    assert added(it, {ONE: frozenset(), TWO: frozenset({7})}) == {ONE: 110, TWO: 20}
    assert added(it, {TWO: frozenset({7})}) == {TWO: 20}
    assert added(it, {ONE: frozenset({7}), TWO: frozenset()}) == {ONE: 0, TWO: 20}


def test_a_process_that_could_not_be_looked_into_for_once_moves_nothing_twice():
    """Its socket lived on meanwhile."""
    linux = FakeLinux(flow(7, 100), flow(8, 0))
    it = Traffic(linux)
    assert added(it, {ONE: frozenset({7}), TWO: frozenset({8})})[ONE] == 100
    assert added(it, {ONE: frozenset(), TWO: frozenset({8})})[ONE] == 100
    linux.flows = flow(7, 101), flow(8, 0)
    assert added(it, {ONE: frozenset({7}), TWO: frozenset({8})})[ONE] == 101


def test_little_is_remembered():
    """Of closed sockets, and of processes that have ended, nothing."""
    linux = FakeLinux()
    it = Traffic(linux)
    for number in range(1, 1000):
        linux.flows = (flow(number, 1),)
        added(it, {ProcessKey(number, 1): frozenset({number})})
    assert len(it._moved[ME]) == len(it._seen[ME]) == 1
    it.moved({}, {})
    assert it._moved == {}


def test_own_ports_are_those_of_this_machine():
    """Another machine may serve on a port with the same number: what comes from there counts."""
    afar, called, calling = flow(7, 1, 50, 5), flow(8, 10, 5, 60), flow(9, 100, 51, 5)
    itself = calling._replace(remote=End(b"\n\0\0\1", 5))
    loopback = [flow(10, 1000)._replace(remote=End(address, 5)) for address in (b"\x7f\0\0\2", bytes(15) + b"\1")]
    for expected, *flows in ((1, afar), (0, called), (100, calling), (0, itself), (0, loopback[0]), (0, loopback[1])):
        it = Traffic(FakeLinux(*flows))
        assert added(it, {ONE: frozenset({7, 8, 9, 10})}, own_ports=[5]) == {ONE: expected}


def test_nobody_is_asked_about_nothing():
    """Who has no sockets open needs no answer."""
    linux = FakeLinux()
    assert added(Traffic(linux), {ONE: frozenset()}) == {ONE: 0}
    assert linux.asked == 0


def test_a_system_that_does_not_tell_is_noted_once(caplog):
    """In the debug log, once for each time that it falls silent. What was known before stays."""
    linux = FakeLinux(flow(7, 100))
    it = Traffic(linux)
    sockets = {ONE: frozenset({7})}
    with caplog.at_level(logging.DEBUG):
        assert added(it, sockets) == {ONE: 100}
        assert caplog.records == []
        linux.flows = None
        assert [added(it, sockets) for _ in range(3)] == 3 * [{ONE: 100}]
        assert [(record.levelname, "TCP" in record.message) for record in caplog.records] == [("DEBUG", True)]
        linux.flows = (flow(7, 150),)
        assert added(it, sockets) == {ONE: 150}


def test_without_an_answer_files_still_count(worker):
    """The rest of a closer look is not harmed."""
    one = worker()
    assert bytes_of(ProcfsInsight(traffic=Traffic(lambda: None)), one) > 0


# ---- what the system answers ----


class FakeLine:
    """A netlink socket that gives one answer after the other, or raises it."""

    def __init__(self, *answers):
        self._answers = list(answers)

    def __call__(self, *_):
        """Open it."""
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Nothing is open."""

    def settimeout(self, seconds):
        """It answers at once."""

    def sendto(self, question, address):
        """Any question."""

    def recv(self, size):
        """The next answer."""
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def message(kind, body=b"", sequence=socket.AF_INET, length=None):
    """One message as it comes over netlink."""
    header = struct.pack("=IHHII", 16 + len(body) if length is None else length, kind, 0, sequence, 0)
    return header + body + bytes(-len(body) % 4)


def refused(number, family=socket.AF_INET):
    """An answer that is an error."""
    return message(2, struct.pack("=i", -number), family)


DONE = message(3, bytes(4))
DONE_6 = message(3, bytes(4), socket.AF_INET6)


@pytest.mark.parametrize(
    "answers",
    [
        [OSError(errno.EPROTONOSUPPORT, "not here")],
        [PermissionError(errno.EPERM, "a filter")],
        [TimeoutError()],
        [refused(errno.ENOENT)],
        [refused(errno.EINVAL)],
        [b"torn"],
        [message(20, bytes(10))],
        [message(20, b"", length=0)],
        [message(20, b"", length=500)],
        [DONE, TimeoutError()],
    ],
)
def test_a_refusal_or_nonsense_is_no_answer(monkeypatch, answers):
    """And never an error, nor a list that lacks something."""
    monkeypatch.setattr(traffic.socket, "socket", FakeLine(*answers))
    assert connected() is None


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS])
def test_a_want_of_our_own_is_an_error(monkeypatch, number):
    """It must not look like a system that never tells."""
    monkeypatch.setattr(traffic.socket, "socket", FakeLine(OSError(number, os.strerror(number))))
    with pytest.raises(OSError, match=os.strerror(number)):
        connected()


def test_a_system_without_ipv6_or_without_counters_tells_what_it_can(monkeypatch):
    """An old one tells of no bytes: then of no connection. Answers to earlier questions are skipped."""
    old = message(20, bytes([socket.AF_INET]) + bytes(71))
    other = message(20, bytes(10), sequence=99)
    monkeypatch.setattr(traffic.socket, "socket", FakeLine(other + old, DONE, refused(errno.ENOENT, socket.AF_INET6)))
    assert connected() == ()
    monkeypatch.setattr(traffic.socket, "socket", FakeLine(DONE, DONE_6))
    assert connected() == ()


@tells
def test_both_ends_of_a_connection_are_told():
    """With their inodes, also where one end is for both protocols."""
    if not socket.has_ipv6 or not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listening:
        port = listening.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as caller, listening.accept()[0] as called:
            caller.sendall(b"x" * 1000)
            assert len(called.recv(1000, socket.MSG_WAITALL)) == 1000
            found = {flow.inode: flow for flow in connected()}
            here, there = (found[os.fstat(end.fileno()).st_ino] for end in (caller, called))
            assert (here.local, here.remote) == (there.remote, there.local)
            assert here.remote == End(b"\x7f\0\0\1", port)
            assert here.cookie != there.cookie
            assert there.moved == 1000
