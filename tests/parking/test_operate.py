"""The helper: each step, each failure of it, over the stand-in driver and real processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from kernel_room import until as wait_until

from jupyter_gpu_guard.parking import asking
from jupyter_gpu_guard.parking.answer import State
from jupyter_gpu_guard.parking.asking import ask_helper, why_not_installed
from tests.driver import until

GIB = 2**30


def ask(do, key, within=None):
    """The helper's answer."""
    return asyncio.run(ask_helper(do, key, within))


def test_parked_and_resumed_with_all_it_had(program):
    """Afterwards nobody lists it; its calls wait, while it lives; resumed, it has what it had and its calls go on."""
    assert ask("look", program.key).state is State.RUNNING
    parked = ask("park", program.key)
    assert (parked.state, parked.fault) == (State.CHECKPOINTED, None)
    assert program.held == 0
    program._process.stdin.write("\"gpu.hold('2 GiB')\"\n")
    program._process.stdin.flush()
    assert ask("park", program.key).fault is None  # a second time: it is parked already
    assert program.held == 0
    resumed = ask("resume", program.key)
    assert (resumed.state, resumed.fault) == (State.RUNNING, None)
    assert program._process.stdout.readline() == "done\n"
    assert program.held == 2 * GIB
    assert ask("resume", program.key).state is State.RUNNING


@pytest.mark.parametrize("step", ["Lock", "Checkpoint"])
def test_a_step_of_parking_that_fails_leaves_it_running(driver, program, step):
    """It is unlocked, holds what it held, and the answer names the step and the driver's word."""
    driver.fault(f"global cuda_error 401 cuCheckpointProcess{step}")
    said = ask("park", program.key)
    assert (said.state, said.step) == (State.RUNNING, step.lower())
    assert said.fault == f"the driver refuses the step {step.lower()} (CUDA_ERROR_ILLEGAL_STATE)"
    assert program.held == GIB
    assert program.run("gpu.hold('3 GiB')") == "done"


def test_a_lock_that_is_late_and_left_behind_is_taken_off(driver, program):
    """Its time runs out, and the driver leaves the lock: the process goes on all the same."""
    driver.fault("global cuda_late 1 cuCheckpointProcessLock")
    said = ask("park", program.key)
    assert (said.state, said.step) == (State.RUNNING, "lock")
    assert program.run("gpu.hold('3 GiB')") == "done"


def test_no_room_leaves_it_parked(driver, program):
    """The driver refuses to restore; what it had stays in the host's memory until there is room."""
    assert ask("park", program.key).state is State.CHECKPOINTED
    driver.fault("global cuda_error 2 cuCheckpointProcessRestore")
    said = ask("resume", program.key)
    assert (said.state, said.step) == (State.CHECKPOINTED, "restore")
    assert "CUDA_ERROR_OUT_OF_MEMORY" in said.fault
    driver.fault()
    assert ask("resume", program.key).state is State.RUNNING
    assert program.held == GIB


def test_an_unlock_that_fails_can_be_made_up_for(driver, program):
    """It has its memory back and waits; the next try ends that."""
    ask("park", program.key)
    driver.fault("global cuda_error 999 cuCheckpointProcessUnlock")
    said = ask("resume", program.key)
    assert (said.state, said.step) == (State.LOCKED, "unlock")
    driver.fault()
    assert ask("free", program.key).state is State.RUNNING
    assert program.run("gpu.hold('3 GiB')") == "done"


def test_what_the_driver_gives_up_is_said_to_be_failed(driver, program):
    """Nothing more is tried with it."""
    driver.fault("global cuda_breaks 999 cuCheckpointProcessCheckpoint")
    assert ask("park", program.key).state is State.FAILED
    driver.fault()
    said = ask("resume", program.key)
    assert (said.state, said.step) == (State.FAILED, "look")


def test_a_driver_that_crashes_takes_only_the_helper(driver, program):
    """No answer comes; the lock that is left behind can be taken off by the next helper."""
    driver.fault("global cuda_crash 1 cuCheckpointProcessCheckpoint")
    said = ask("park", program.key)
    assert said.state is State.UNKNOWN
    assert said.fault == "the helper has ended without an answer (status -11)"
    driver.fault()
    assert ask("look", program.key).state is State.LOCKED
    assert ask("free", program.key).state is State.RUNNING
    assert program.held == GIB


def test_a_driver_that_hangs_is_left_after_the_deadline(driver, program):
    """The system ends the helper."""
    driver.fault("global cuda_delay_ms 60000 cuCheckpointProcessCheckpoint")
    said = ask("park", program.key, within=3.0)
    assert said.state is State.UNKNOWN
    assert "status -14" in said.fault


def test_a_helper_that_is_killed_in_mid_act_leaves_the_rest_to_the_next(driver, program):
    """The process is locked, not lost."""
    driver.fault("global cuda_delay_ms 60000 cuCheckpointProcessCheckpoint")

    async def scene():
        act = asyncio.ensure_future(ask_helper("park", program.key))
        while (await ask_helper("look", program.key)).state is not State.LOCKED:
            pass
        act.cancel()
        await asyncio.gather(act, return_exceptions=True)
        return await ask_helper("free", program.key)

    assert asyncio.run(scene()).state is State.RUNNING
    assert program.held == GIB


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("cuda_version 12040 cuDriverGetVersion", "it speaks CUDA 12.4, parking needs driver 570"),
        ("cuda_missing 1 cuCheckpoint*", "parking needs driver 570"),
        ("cuda_error 100 cuInit", "the driver refuses the step connect"),
    ],
)
def test_a_driver_that_cannot_park(driver, program, fault, says):
    """The answer says what is missing, and nothing was done."""
    driver.fault(f"global {fault}")
    said = ask("park", program.key)
    assert said.state is State.UNKNOWN
    assert says in said.fault
    assert program.held == GIB


def test_another_process_with_the_same_pid_is_left_alone(driver, program):
    """A bare pid is no identity."""
    driver.count_calls()
    said = ask("park", replace(program.key, start_ticks=program.key.start_ticks + 1))
    assert "another one by now" in said.fault
    assert driver.calls().total() == 0


def test_a_process_that_is_replaced_between_two_steps_is_left_alone(driver, program):
    """It is looked at before each step: here it ends while it is being locked."""
    driver.fault("global cuda_delay_ms 3000 cuCheckpointProcessLock")
    driver.count_calls()

    async def scene():
        act = asyncio.ensure_future(ask_helper("park", program.key))
        await wait_until(lambda: "cuCheckpointProcessLock" in driver.calls(), "it is being locked")
        program.kill()
        return await act

    said = asyncio.run(scene())
    assert (said.state, said.step) == (State.UNKNOWN, "checkpoint")
    assert "has ended, or is another one by now" in said.fault
    assert "cuCheckpointProcessCheckpoint" not in driver.calls()


@pytest.mark.skipif(os.geteuid() != 0, reason="it takes root to start a process of another user")
def test_a_process_of_another_user_is_left_alone(driver):
    """Although root could."""
    process = subprocess.Popen(["sleep", "60"], user=65534)
    try:
        from jupyter_gpu_guard.sources.procfs import ProcfsProcesses

        said = ask("park", ProcfsProcesses().identify(process.pid).key)
        assert said.fault == f"process {process.pid} belongs to another user"
    finally:
        process.kill()
        process.wait()


def test_a_parked_process_can_be_ended(program):
    """SIGTERM reaches it as ever."""
    ask("park", program.key)
    program._process.terminate()
    assert program._process.wait(60) == -15


def test_it_goes_on_when_the_server_that_asked_is_killed(driver, program):
    """The helper is a process of its own, and ends its act by itself."""
    driver.fault("global cuda_delay_ms 1500 cuCheckpointProcessCheckpoint")
    driver.count_calls()
    program_text = (
        "import asyncio, sys\n"
        "from jupyter_gpu_guard.core.model import ProcessKey\n"
        "from jupyter_gpu_guard.parking.asking import ask_helper\n"
        f"asyncio.run(ask_helper('park', ProcessKey({program.key.pid}, {program.key.start_ticks})))\n"
    )
    server = subprocess.Popen([sys.executable, "-c", program_text])
    until(lambda: "cuCheckpointProcessCheckpoint" in driver.calls(), 60)
    server.kill()
    server.wait()
    until(lambda: program.held == 0, 60)
    assert ask("look", program.key).state is State.CHECKPOINTED


def test_without_the_package_it_is_said_how_to_get_it(monkeypatch):
    """What is offered must work."""
    assert why_not_installed() is None
    monkeypatch.setattr(asking, "version", lambda name: "12.4.0")
    assert "12.8 or later" in why_not_installed()
    monkeypatch.setattr(asking, "version", lambda name: "unreadable")
    assert "pip install 'jupyter-gpu-guard[park]'" in why_not_installed()
