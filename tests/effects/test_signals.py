"""A signal reaches exactly one process, whose start time was compared while it was pinned, or it reaches nobody."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jupyter_gpu_guard.core.model import ProcessKey
from jupyter_gpu_guard.effects.signals import Sent, send
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses

FILES = Path("/proc/self/fd")

identify = ProcfsProcesses().identify


@pytest.fixture
def sleeper():
    """A process of ours that would sleep for a minute."""
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def test_the_named_process_gets_the_signal(sleeper):
    """It ends by SIGTERM."""
    assert send(identify(sleeper.pid).key, signal.SIGTERM, identify) is Sent.SENT
    assert sleeper.wait(timeout=30) == -signal.SIGTERM


def test_another_process_with_the_same_pid_gets_nothing(sleeper):
    """A key with another start time names somebody who is gone; whoever has the pid now is left alone."""
    key = identify(sleeper.pid).key
    for start_ticks in (key.start_ticks - 1, key.start_ticks + 1, 0):
        assert send(ProcessKey(key.pid, start_ticks), signal.SIGKILL, identify) is Sent.NOT_THE_SAME
    assert sleeper.poll() is None
    assert identify(sleeper.pid).key == key


def test_a_process_that_is_gone_is_gone(sleeper):
    """Also as a zombie that nobody has waited for."""
    key = identify(sleeper.pid).key
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert send(key, signal.SIGTERM, identify) is Sent.GONE
    sleeper.wait()
    assert send(key, signal.SIGTERM, identify) is Sent.GONE


def test_the_start_time_is_read_after_the_process_is_pinned(sleeper):
    """When the identity is looked up, a pidfd is already open: nothing can change between looking and sending."""
    pinned = []

    def looking(pid):
        pinned.append(any("pidfd" in str(entry.readlink()) for entry in FILES.iterdir() if entry.is_symlink()))
        return identify(pid)

    before = len(list(FILES.iterdir()))
    assert send(identify(sleeper.pid).key, signal.SIGTERM, looking) is Sent.SENT
    assert pinned == [True]
    assert len(list(FILES.iterdir())) <= before


def test_a_process_that_ends_after_the_comparison_is_gone_and_nobody_else_is_hit(sleeper):
    """The pidfd holds on to the process that was compared, not to its number."""

    def too_late(pid):
        process = identify(pid)
        sleeper.kill()
        sleeper.wait()
        return process

    assert send(identify(sleeper.pid).key, signal.SIGTERM, too_late) is Sent.GONE


@pytest.mark.parametrize("pid", [1, 0, -1, -2])
def test_groups_and_the_first_process_are_refused(pid):
    """No number may stand for init, for our group, or for everybody."""
    assert send(ProcessKey(pid, 0), signal.SIGTERM, identify) is Sent.REFUSED


def test_this_server_is_refused():
    """Whatever a tree says, the guard does not end its own server."""
    assert send(identify(os.getpid()).key, signal.SIGTERM, identify) is Sent.REFUSED


def test_only_the_process_is_hit_and_not_its_group():
    """A child in the same group lives on."""
    script = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"
    parent = subprocess.Popen([sys.executable, "-c", script], start_new_session=True, stdout=subprocess.PIPE, text=True)
    child = identify(int(parent.stdout.readline()))
    try:
        assert child.group == parent.pid
        assert send(identify(parent.pid).key, signal.SIGKILL, identify) is Sent.SENT
        parent.wait(timeout=30)
        assert identify(child.key.pid).key == child.key
        assert not identify(child.key.pid).is_over
    finally:
        parent.stdout.close()
        assert send(child.key, signal.SIGKILL, identify) is Sent.SENT
        deadline = time.monotonic() + 30
        while (left := identify(child.key.pid)) is not None and not left.is_over:
            assert time.monotonic() < deadline


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_users_process_is_said_to_be_out_of_reach(sleeper):
    """No permission is an answer, not an exception."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setuid(65534)
            os.write(writing, send(identify(sleeper.pid).key, signal.SIGKILL, identify).value.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        assert answer.read() == "no-permission"
    os.waitpid(child, 0)
    assert sleeper.poll() is None


@pytest.mark.parametrize(
    ("code", "sent"),
    [(errno.ENOSYS, Sent.NOT_SUPPORTED), (errno.EMFILE, Sent.NOT_SUPPORTED), (errno.EPERM, Sent.NO_PERMISSION)],
)
def test_without_pidfds_nothing_is_sent(monkeypatch, sleeper, code, sent):
    """An old kernel, or a sandbox that forbids them: there is no second best way."""

    def refuse(pid):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert send(identify(sleeper.pid).key, signal.SIGKILL, identify) is sent
    assert sleeper.poll() is None
