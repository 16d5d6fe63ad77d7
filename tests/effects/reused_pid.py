"""Pids that are an innocent's in the next moment, for real. Runs as the first process of a pid namespace.

It prints for each act what was signalled, who lives, and how the act ended, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fake_devices import GIB, GPU, FakeDevices

from jupyter_gpu_guard.clock import SystemClock
from jupyter_gpu_guard.core.left_behind import left_behind
from jupyter_gpu_guard.core.model import GpuProcess, Holder, Holding, Owner, OwnerKey, OwnerKind, OwnerState, ProcessKey
from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.core.verdict import Code, Reason, Verdict
from jupyter_gpu_guard.effects import shutdown
from jupyter_gpu_guard.effects.doors import KernelDoor, LeftoversDoor
from jupyter_gpu_guard.effects.shutdown import Shutdown
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses

LAST = Path("/proc/sys/kernel/ns_last_pid")
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
DEAF = [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); print(1); time.sleep(600)"]
KEY = OwnerKey(OwnerKind.KERNEL, "k")


class Stage:
    """A kernel and its worker, both with GPU memory; and whoever gets a pid of theirs."""

    def __init__(self) -> None:
        self.table = ProcfsProcesses()
        self.devices = FakeDevices(self.table.identify)
        self.kernel = self._started(SLEEP)
        self.worker = self._started(DEAF)
        self.worker.stdout.readline()
        self.root, self.child = self.key(self.kernel), self.key(self.worker)
        self.innocent: ProcessKey | None = None
        for key in (self.root, self.child):
            self.devices.hold(key, 3 * GIB)

    @staticmethod
    def _started(line: list[str]) -> subprocess.Popen[Any]:
        return subprocess.Popen(line, start_new_session=True, stdout=subprocess.PIPE)

    def key(self, process: subprocess.Popen[Any]) -> ProcessKey:
        """Its identity."""
        return self.table.identify(process.pid).key

    def replaced(self, process: subprocess.Popen[Any]) -> None:
        """It ends, and in the next moment an innocent has its pid, and memory on the same GPU."""
        process.kill()
        process.wait()
        time.sleep(0.03)  # the clock of start times ticks a hundred times a second
        for _ in range(100_000):
            LAST.write_text(str(process.pid - 1))
            innocent = self._started(SLEEP)
            if innocent.pid == process.pid:
                break
            innocent.kill()
            innocent.wait()
        self.innocent = self.key(innocent)
        assert self.innocent.pid == process.pid
        self.devices.hold(self.innocent, 20 * GIB)

    def lives(self, key: ProcessKey) -> bool:
        """Whether this very process does."""
        found = self.table.identify(key.pid)
        return found is not None and found.key == key and not found.is_over

    def end(self) -> None:
        """Nobody is left."""
        for pid in (int(path.name) for path in Path("/proc").glob("[0-9]*")):
            if pid != os.getpid():
                os.kill(pid, signal.SIGKILL)
        for process in (self.kernel, self.worker):
            process.wait()

    def act(self, holder: Holder, manager: Any, **changed: Any) -> dict[str, Any]:
        """Shut `holder` down. What was signalled, who lives, how it ended."""
        sent = []
        real = shutdown.send

        def noting(key: ProcessKey, signum: signal.Signals, identify: Any) -> Any:
            answer = real(key, signum, identify)
            sent.append((signum.name, answer.value))
            return answer

        async def processes() -> Any:
            return self.table.read()

        owner = holder.owner
        effect = Shutdown(
            doors={OwnerKind.KERNEL: KernelDoor(manager), OwnerKind.LEFTOVERS: LeftoversDoor()},
            owners=SimpleNamespace(look_again=lambda key: owner if key == owner.key else None),
            look=self.devices.look,
            processes=processes,
            identify=self.table.identify,
            clock=SystemClock(),
            log=logging.getLogger("reused"),
            grace=changed.pop("grace", 0.5),
            **changed,
        )
        reason = Reason(Code.IDLE_TOO_LONG, {"idle_seconds": 9000.0})
        verdict = Verdict(owner.key, owner.root, Action.SHUTDOWN, "students", (reason,))
        shutdown.send = noting
        try:
            outcome = asyncio.run(effect.shut_down(verdict, holder))
        finally:
            shutdown.send = real
        return {"sent": sent, "result": outcome.result.value, "innocent_lives": self.lives(self.innocent)}

    def holder(self) -> Holder:
        """The kernel with its worker."""
        owner = Owner(KEY, "a.ipynb", self.root, OwnerState.IDLE)
        return Holder(owner, (), (self.root, self.child))


class FakeManager(dict):
    """A kernel manager that ends the kernel, and does something besides."""

    def __init__(self, stage: Stage, besides: Any = lambda: None) -> None:
        super().__init__({KEY.id: 1})
        self.stage, self.besides = stage, besides

    async def shutdown_kernel(self, ident: str, **how: Any) -> None:
        """End it."""
        del self[ident]
        if self.stage.kernel.returncode is None:
            self.stage.kernel.kill()
            self.stage.kernel.wait()
        self.besides()


def worker_before(stage: Stage) -> dict[str, Any]:
    """The worker's pid is an innocent's before the act begins."""
    stage.replaced(stage.worker)
    return stage.act(stage.holder(), FakeManager(stage))


def worker_at_the_door(stage: Stage) -> dict[str, Any]:
    """While Jupyter shuts the kernel down."""
    return stage.act(stage.holder(), FakeManager(stage, lambda: stage.replaced(stage.worker)))


def worker_in_its_grace(stage: Stage) -> dict[str, Any]:
    """Between SIGTERM and SIGKILL."""

    async def sleep(seconds: float) -> None:
        if stage.innocent is None:
            stage.replaced(stage.worker)
        await asyncio.sleep(seconds)

    return stage.act(stage.holder(), FakeManager(stage), sleep=sleep, grace=2.0)


def kernel_before(stage: Stage) -> dict[str, Any]:
    """The kernel's own pid, and Jupyter has not noticed its end."""
    stage.replaced(stage.kernel)
    stage.worker.kill()
    stage.worker.wait()
    return stage.act(stage.holder(), FakeManager(stage))


def left_behind_before(stage: Stage) -> dict[str, Any]:
    """What was left behind has ended since."""
    owner = Owner(KEY, "a.ipynb", stage.root, OwnerState.IDLE)
    row = GpuProcess(stage.child, GPU, 3 * GIB, 0.0, stage.table.identify(stage.child.pid).started_at)
    holder = Holder(left_behind(owner, [row]), (Holding(GPU, (row,)),), (stage.child,))
    stage.replaced(stage.worker)
    return stage.act(holder, FakeManager(stage))


ACTS = (worker_before, worker_at_the_door, worker_in_its_grace, kernel_before, left_behind_before)

if __name__ == "__main__":
    found = {}
    for each in ACTS:
        stage = Stage()
        found[each.__name__] = each(stage)
        stage.end()
    print(json.dumps(found))
