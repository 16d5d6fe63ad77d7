"""A pid that is an innocent's by now, forced in a namespace where the next pid can be chosen: the innocent lives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("reused_pid.py")
PATHS = (PROGRAM.parents[2], PROGRAM.parents[1] / "support")
NAMESPACE = ["unshare", "-Urpf", "--mount-proc", "--kill-child"]
CHOOSES = "echo 40 > /proc/sys/kernel/ns_last_pid && exec sh -c 'true'"


@pytest.fixture(scope="module")
def found():
    """What the program saw of each act."""
    try:
        subprocess.run([*NAMESPACE, "sh", "-c", CHOOSES], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no pid namespace can be made here in which the next pid can be chosen")
    asked = subprocess.run(
        [*NAMESPACE, sys.executable, str(PROGRAM)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, PATHS))},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert asked.returncode == 0, asked.stderr
    return json.loads(asked.stdout)


@pytest.mark.parametrize("moment", ["worker_before", "worker_at_the_door", "kernel_before", "left_behind_before"])
def test_an_innocent_with_the_pid_of_one_of_ours_lives(found, moment):
    """Whenever it gets the pid, nobody is signalled at all, although it holds the same GPU."""
    assert found[moment]["sent"] == []
    assert found[moment]["innocent_lives"]


def test_an_innocent_that_gets_the_pid_during_the_grace_lives(found):
    """SIGTERM has reached the worker; the SIGKILL after the grace is not for whoever has its pid then."""
    act = found["worker_in_its_grace"]
    assert act["sent"] == [["SIGTERM", "sent"]]
    assert act["innocent_lives"]
    assert act["result"] == "done"
