"""Parks or resumes one process, in a process of its own: `python -m jupyter_gpu_guard.parking.operate`.

One request as JSON on stdin, one answer as JSON on stdout. If the driver crashes or hangs, it takes only this helper
with it: past its deadline the system ends it. Who it is about is checked again before each step.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from jupyter_gpu_guard.core.model import ProcessKey

from .answer import NEEDED_VERSION, Answer, State
from .target import why_not


class StepError(Exception):
    """One step was refused; `step` is which, and the text says why."""

    def __init__(self, step: str, why: str) -> None:
        super().__init__(why)
        self.step = step


class Driver:
    """The driver's calls on one process. Each checks first that it is still the process that is meant."""

    def __init__(self, key: ProcessKey) -> None:
        # The library is optional, and loading it is what may go wrong.
        from cuda.bindings import driver  # noqa: PLC0415

        self._key = key
        self._api: Any = driver
        self._states = {
            driver.CUprocessState.CU_PROCESS_STATE_RUNNING: State.RUNNING,
            driver.CUprocessState.CU_PROCESS_STATE_LOCKED: State.LOCKED,
            driver.CUprocessState.CU_PROCESS_STATE_CHECKPOINTED: State.CHECKPOINTED,
            driver.CUprocessState.CU_PROCESS_STATE_FAILED: State.FAILED,
        }

    def connect(self) -> None:
        """Connect with the driver. Raises StepError if it cannot park."""
        self._call("connect", "cuInit", 0)
        version = int(self._call("connect", "cuDriverGetVersion"))
        if version < NEEDED_VERSION:
            speaks = f"{version // 1000}.{version % 1000 // 10}"
            raise StepError("connect", f"the driver is too old: it speaks CUDA {speaks}, parking needs driver 570")

    def state(self) -> State:
        """What the process is now."""
        found = self._call("look", "cuCheckpointProcessGetState", self._key.pid)
        return self._states.get(found, State.UNKNOWN)

    def lock(self, seconds: float) -> None:
        """Wait for what it has begun, and let no new call begin."""
        arguments = self._api.CUcheckpointLockArgs()
        arguments.timeoutMs = max(1, round(seconds * 1000))
        self._act("lock", "cuCheckpointProcessLock", arguments)

    def checkpoint(self) -> None:
        """Move what it has on devices to its host memory."""
        self._act("checkpoint", "cuCheckpointProcessCheckpoint", None)

    def restore(self) -> None:
        """Move it back."""
        self._act("restore", "cuCheckpointProcessRestore", None)

    def unlock(self) -> None:
        """Let its calls begin again."""
        self._act("unlock", "cuCheckpointProcessUnlock", None)

    def _act(self, step: str, name: str, arguments: Any) -> None:
        refusal = why_not(self._key)
        if refusal is not None:
            raise StepError(step, refusal)
        self._call(step, name, self._key.pid, arguments)

    def _call(self, step: str, name: str, *arguments: Any) -> Any:
        try:
            code, *values = getattr(self._api, name)(*arguments)
        except RuntimeError as fault:  # the library finds no such function in the driver
            raise StepError(step, f"the driver is too old: parking needs driver 570 ({fault})") from fault
        if int(code) != 0:
            raise StepError(step, f"the driver refuses the step {step} ({code.name})")
        return values[0] if values else None


def park(driver: Driver, lock_seconds: float) -> None:
    """Lock and checkpoint. Raises StepError; then it is unlocked again, if that can be done."""
    if driver.state() is State.CHECKPOINTED:
        return
    _expect(driver, State.RUNNING)
    try:
        driver.lock(lock_seconds)
        driver.checkpoint()
    except StepError:
        with suppress(StepError):  # the first refusal is the one to be told; the state at last tells the rest
            free(driver)  # also after a lock whose time has run out
        raise


def resume(driver: Driver) -> None:
    """Restore and unlock, from whichever step it is at. Raises StepError."""
    _expect(driver, State.RUNNING, State.LOCKED, State.CHECKPOINTED)
    if driver.state() is State.CHECKPOINTED:
        driver.restore()
    if driver.state() is State.LOCKED:
        driver.unlock()


def free(driver: Driver) -> None:
    """Unlock it if a step was broken off; what is parked stays parked. Raises StepError."""
    if driver.state() is State.LOCKED:
        driver.unlock()


def _expect(driver: Driver, *states: State) -> None:
    found = driver.state()
    if found not in states:
        raise StepError("look", f"the driver says that the process is {found.value}")


def answer(request: dict[str, Any]) -> Answer:
    """Do what is asked, and say what came of it."""
    began = time.monotonic()
    key = ProcessKey(int(request["pid"]), int(request["start_ticks"]))
    state, step, fault = State.UNKNOWN, None, why_not(key)
    if fault is not None:
        return Answer(state, "look", fault, 0.0)
    try:
        driver = Driver(key)
        driver.connect()
        try:
            do = request["do"]
            if do == "park":
                park(driver, float(request["lock_seconds"]))
            elif do == "resume":
                resume(driver)
            elif do == "free":
                free(driver)
        except StepError as refusal:
            step, fault = refusal.step, str(refusal)
        state = driver.state()
    except StepError as refusal:
        step, fault = step or refusal.step, fault or str(refusal)
    except (ImportError, AttributeError) as missing:
        step, fault = "connect", f"cuda.bindings cannot be used ({missing})"
    return Answer(state, step, fault, time.monotonic() - began)


def main() -> None:
    """Read one request, do it, answer. The system ends this process when its time has run out."""
    request = json.load(sys.stdin)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, float(request["within"]))
    said = asdict(answer(request))
    json.dump({**said, "state": said["state"].value}, sys.stdout)


if __name__ == "__main__":
    main()
