"""Whether a process was left behind is told by what was recorded of it, and not by who its parent is now."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from fake_clock import NOON

from jupyter_gpu_guard.core.attribute import Attribution, attribute
from jupyter_gpu_guard.core.model import (
    Device,
    GpuClient,
    Holder,
    Instant,
    Owner,
    OwnerKey,
    OwnerKind,
    OwnerState,
    ProcessKey,
    Snapshot,
)
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses

PR_SET_CHILD_SUBREAPER = 36
KERNEL = OwnerKey(OwnerKind.KERNEL, "a")

# A kernel, an intermediate parent, and the child that holds a device; each tells its pid.
FAMILY = """
import json, os, sys, time
def fork(then):
    pid = os.fork()
    if pid == 0:
        then()
        time.sleep(600)
        os._exit(0)
    return pid
reading, writing = os.pipe()
def between():
    holds = fork(lambda: None)
    os.write(writing, json.dumps([os.getpid(), holds]).encode())
fork(between)
print(json.dumps([os.getpid(), *json.loads(os.read(reading, 100))]), flush=True)
time.sleep(600)
"""


class Family:
    """The three processes, under this test as the process that adopts orphans."""

    def __init__(self) -> None:
        self.root = subprocess.Popen(
            [sys.executable, "-c", FAMILY], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self.root.stdout is not None
        _, self.between, self.child = json.loads(self.root.stdout.readline())
        self.processes = ProcfsProcesses()
        self.key = self._key(self.root.pid)

    def _key(self, pid: int) -> ProcessKey:
        process = self.processes.identify(pid)
        assert process is not None
        return process.key

    def look(self, before: Attribution, *, root: ProcessKey | None) -> Attribution:
        """What is seen of them, with the child on a device; `root`: the kernel's process now."""
        owners = (Owner(KERNEL, "a.ipynb", root, OwnerState.IDLE if root else OwnerState.DEAD),)
        seen = Snapshot(
            taken_at=Instant(NOON, time.monotonic()),
            devices=(Device("GPU-0", 0, "Fake", 80 * 2.0**30, 2.0**30),),
            clients=(GpuClient("GPU-0", self.child, 2.0**30, 0.0),),
            processes=self.processes.read(),
            owners=owners,
        )
        return attribute(seen, before.lineage)

    def kill(self, pid: int) -> None:
        """End one of them and wait until it is no more."""
        os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + 20
        while (process := self.processes.identify(pid)) is not None and not process.is_over:
            assert time.monotonic() < end
            time.sleep(0.01)

    def adopted_by(self) -> int:
        """The parent that the child has now."""
        process = self.processes.identify(self.child)
        assert process is not None
        return process.parent

    def bury(self) -> None:
        """End all of them, and wait for those that this test has adopted."""
        for pid in (self.child, self.between, self.root.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.root.communicate()
        for pid in (self.between, self.child):
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                continue


@pytest.fixture
def family() -> Iterator[Family]:
    """Orphans come to this process, as they do to the session process of a desktop: their parent is not 1."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    it = Family()
    yield it
    it.bury()
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _holder(found: Attribution) -> Holder:
    (holder,) = found.holders
    return holder


def test_an_orphan_of_a_living_kernel_is_not_left_behind(family: Family) -> None:
    """The parents between have ended and somebody else has adopted it: it is the kernel's as before."""
    first = family.look(Attribution(), root=family.key)
    assert [row.key.pid for holding in _holder(first).holdings for row in holding.processes] == [family.child]
    family.kill(family.between)
    then = family.look(first, root=family.key)
    assert [row.key.pid for holding in _holder(then).holdings for row in holding.processes] == [family.child]
    assert _holder(then).leftovers == ()


def test_an_orphan_of_a_kernel_that_died_is_left_behind_whoever_adopts_it(family: Family) -> None:
    """Its parent is this very process and not 1, and yet it was left behind."""
    first = family.look(Attribution(), root=family.key)
    family.kill(family.root.pid)
    family.kill(family.between)
    then = family.look(first, root=None)
    assert family.adopted_by() == os.getpid()
    kernel, left = then.holders
    assert kernel.holdings == ()
    assert [row.key.pid for row in kernel.leftovers] == [family.child]
    assert (left.owner.key.kind, left.owner.root.pid) == (OwnerKind.LEFTOVERS, family.child)
