"""What every `Processes` promises, asked of the fake and of the real one."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from fake_processes import FakeProcesses

from jupyter_gpu_guard.core.model import Process, ProcessKey
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_gpu_guard.protocols import Processes


@dataclass
class Stage:
    """A process table with one process of ours in a session of its own: `end` ends it, `reap` buries it."""

    processes: Processes
    pid: int
    end: Callable[[], None]
    reap: Callable[[], None]


@pytest.fixture(params=["fake", "procfs"])
def stage(request) -> Iterator[Stage]:
    """The same scene, played twice."""
    if request.param == "fake":
        began = datetime.now(timezone.utc)
        child = Process(ProcessKey(4242, 77), os.getpid(), 4242, 4242, "S", began)
        ours = Process(ProcessKey(os.getpid(), 5), 1, os.getpid(), os.getpid(), "R", began)
        fake = FakeProcesses(ours, child)
        yield Stage(
            fake,
            4242,
            end=lambda: fake.table.update({4242: replace(child, state="Z")}),
            reap=lambda: fake.table.pop(4242),
        )
        return
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)

    def end() -> None:
        child.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    yield Stage(ProcfsProcesses(), child.pid, end=end, reap=child.wait)
    child.kill()
    child.wait()


def test_a_living_process_is_in_the_table_and_can_be_identified(stage):
    """Both ways give one and the same row, under its own pid."""
    row = stage.processes.read()[stage.pid]
    assert row.key.pid == stage.pid
    again = stage.processes.identify(stage.pid)
    assert again is not None
    assert replace(again, state=row.state) == row


def test_its_place_in_the_tree_is_told(stage):
    """Parent, group and session are those of a child of ours that leads its own session."""
    row = stage.processes.identify(stage.pid)
    assert (row.parent, row.group, row.session) == (os.getpid(), stage.pid, stage.pid)
    assert not row.is_over


def test_the_start_time_is_aware_and_about_now(stage):
    """Start times are shown to people: with a time zone, and plausible."""
    started = stage.processes.identify(stage.pid).started_at
    assert started.tzinfo is not None
    assert abs(started - datetime.now(timezone.utc)) < timedelta(minutes=5)


def test_the_identity_stays_the_same_for_life(stage):
    """Two readings give the same key, also when the process is a zombie by then."""
    before = stage.processes.identify(stage.pid).key
    assert stage.processes.read()[stage.pid].key == before
    stage.end()
    assert stage.processes.identify(stage.pid).key == before


def test_a_zombie_is_over_but_still_there(stage):
    """It is listed, and says that it is over."""
    stage.end()
    assert stage.processes.identify(stage.pid).is_over
    assert stage.processes.read()[stage.pid].is_over


def test_a_process_that_has_gone_is_absent(stage):
    """Neither the table nor identify knows it any more."""
    assert stage.pid in stage.processes.read()
    stage.end()
    stage.reap()
    deadline = time.monotonic() + 10
    while stage.processes.identify(stage.pid) is not None and time.monotonic() < deadline:
        pass
    assert stage.processes.identify(stage.pid) is None
    assert stage.pid not in stage.processes.read()


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1])
def test_a_pid_that_cannot_be_is_nobody(stage, pid):
    """Zero and negative numbers mean groups elsewhere; here they name no process."""
    assert stage.processes.identify(pid) is None


def test_rows_that_are_asked_for_are_of_this_moment_and_nobody_else_is_missing(stage):
    """Close rows follow at once; the others are there under the same keys."""
    everybody = stage.processes.read(())
    assert not everybody[stage.pid].is_over
    stage.end()
    closely = stage.processes.read({stage.pid})
    assert closely[stage.pid].is_over
    assert closely[stage.pid].key == everybody[stage.pid].key
    assert closely[os.getpid()].key == everybody[os.getpid()].key


def test_asking_for_one_that_does_not_exist_changes_nothing(stage):
    """A pid of another namespace, as a driver may name it, is simply not there."""
    table = stage.processes.read({2**22 + 1, stage.pid})
    assert stage.pid in table
    assert 2**22 + 1 not in table
