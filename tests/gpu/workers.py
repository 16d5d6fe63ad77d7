"""Who computes during the checks: a process on a real GPU, or one that declares to the stand-in driver."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Protocol

from jupyter_gpu_guard.kernel.declaration import Wave, read_clients
from jupyter_gpu_guard.kernel.simulated_gpu import CONTEXT_BYTES, FOR_EVER, Declaration, Load, declare_for, now_us
from tests.driver import GpuProgram

REPOSITORY = Path(__file__).parents[2]


class WorkerError(RuntimeError):
    """The worker could not do as it was told."""


class Worker(Protocol):
    """A process on the GPU."""

    pid: int

    def hold(self, amount: int) -> None:
        """Hold so many bytes."""

    def work(self, busy: float, idle: float) -> None:
        """Compute for so many seconds, rest for so many, again and again."""

    def rest(self) -> None:
        """Compute no more."""

    def mark(self) -> None:
        """Write something of its own into what is held."""

    def checksum(self) -> str:
        """What stands for what is held."""
        ...

    def kill(self) -> None:
        """End it at once, by SIGKILL."""

    def bury(self) -> None:
        """End it, if it lives, and reap it."""


class CudaWorker:
    """`Worker` on a real GPU. `user`: as whom it runs; None: as we do. `program` obeys the commands."""

    def __init__(self, index: int, user: int | None = None, program: str = "tests.gpu.cuda") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", program, str(index)],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            user=user,
        )
        self.pid = self._process.pid
        self._expect_done()

    def hold(self, amount: int) -> None:
        """Hold so many bytes."""
        self._say(f"hold {amount}")

    def work(self, busy: float, idle: float) -> None:
        """Compute for so many seconds, rest for so many, again and again."""
        self._say(f"work {busy} {idle}")

    def rest(self) -> None:
        """Compute no more."""
        self._say("rest")

    def mark(self) -> None:
        """Write something of its own into what is held."""
        self._say("mark")

    def checksum(self) -> str:
        """A checksum of what is held."""
        return self._say("checksum")

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def bury(self) -> None:
        """End it, if it lives, and reap it."""
        self._process.kill()
        self._process.communicate()

    def _say(self, command: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self._expect_done()

    def _expect_done(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline().strip()
        word, _, value = answer.partition(" ")
        if word != "done":
            self.bury()
            raise WorkerError(answer or "the worker has ended")
        return value


class DeclaringWorker:
    """`Worker` that declares to the stand-in driver in `folder`, on its first device."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._program = GpuProgram(folder)
        self.pid = self._program.pid
        self._memory = CONTEXT_BYTES
        self._work: Load | Wave | None = None
        self._declare()

    def hold(self, amount: int) -> None:
        """Hold so many bytes, and a context."""
        self._memory = amount + CONTEXT_BYTES
        self._declare()

    def work(self, busy: float, idle: float) -> None:
        """Compute for so many seconds, rest for so many, again and again."""
        now = now_us()
        self._work = Wave(0, now, 100, round(busy * 1e6), 0, round(idle * 1e6)) if idle else Load(0, now, FOR_EVER, 100)
        self._declare()

    def rest(self) -> None:
        """Compute no more. What was computed without a rest stays in the driver's memory."""
        was = self._work
        self._work = Load(0, was.since, now_us(), was.percent) if isinstance(was, Load) and was.until < 0 else None
        self._declare()

    def mark(self) -> None:
        """There is nothing to write to."""

    def checksum(self) -> str:
        """What it declares to hold, read back where the driver reads it."""
        return str(read_clients(self._folder)[self.pid].memory)

    def kill(self) -> None:
        """End it at once."""
        self._program.kill()

    def bury(self) -> None:
        """End it, if it lives, and reap it."""
        self._program.bury()

    def _declare(self) -> None:
        work = () if self._work is None else (self._work,)
        declare_for(self.pid, Declaration({0: self._memory}, work), self._folder)
