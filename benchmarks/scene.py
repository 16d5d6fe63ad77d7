"""A machine with so many devices and real processes: kernels with children, strangers, and others without a GPU."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_gpu_guard.kernel.declaration import FOR_EVER, Declaration, DeclaredDevice, Load, living, now_us
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses
from tests.driver import StandIn

if TYPE_CHECKING:
    from pathlib import Path

GIB, MIB = 2**30, 2**20
PER_KERNEL = 4  # one kernel with three workers
_SHELL = "sleep 3600 & sleep 3600 & sleep 3600 & wait"
_STARTED_WITHIN = 60.0  # seconds


@dataclass(frozen=True)
class Size:
    """`hosts`: how many processes there are at least, GPU or not."""

    devices: int
    clients: int
    hosts: int

    def __str__(self) -> str:
        return f"{self.devices}:{self.clients}:{self.hosts}"

    @classmethod
    def parse(cls, text: str) -> Size:
        """The inverse of `str`."""
        devices, clients, hosts = map(int, text.split(":"))
        return cls(devices, clients, hosts)


class Machine:
    """Half of the clients belong to kernels, in trees of four; every fourth client computes. End it with `end`."""

    def __init__(self, folder: Path, size: Size) -> None:
        devices = [
            DeclaredDevice(index, f"GPU-00000000-0000-0000-0000-{index:012d}", 80 * GIB, "Stand-in H100")
            for index in range(size.devices)
        ]
        self.driver = StandIn(folder, devices)
        self._table = ProcfsProcesses()
        self._started: list[int] = []
        self.kernels = [self._start("sh", "-c", _SHELL) for _ in range(size.clients // 2 // PER_KERNEL)]
        family = self._families()
        strangers = [self._start("sleep", "3600") for _ in range(size.clients - len(family))]
        self._declare([*family, *strangers], size.devices)
        while len(self._table.read(())) < size.hosts:
            self._start("sleep", "3600")

    def end(self) -> None:
        """End every process that was started, and its session with it."""
        for pid in self._started:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        for pid in self._started:
            os.waitpid(pid, 0)

    def _start(self, *command: str) -> int:
        pid = os.posix_spawnp(command[0], command, os.environ, setsid=True)
        self._started.append(pid)
        return pid

    def _families(self) -> list[int]:
        """The kernels and their workers, once all of them are there."""
        deadline = time.monotonic() + _STARTED_WITHIN
        while True:
            rows = self._table.read().values()
            family = [row.key.pid for row in rows if row.session in self.kernels]
            if len(family) == len(self.kernels) * PER_KERNEL:
                return family
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(family)} processes of {len(self.kernels)} kernels have started")
            time.sleep(0.05)

    def _declare(self, pids: list[int], devices: int) -> None:
        since = now_us() - 30_000_000
        for number, pid in enumerate(pids):
            device = number % devices
            work = (Load(device, since, FOR_EVER, 5.0),) if number % 4 == 0 else ()
            declaration = Declaration({device: 100 * MIB}, work)
            path = self.driver.folder / "clients" / f"{pid}-{living(pid)}"
            path.write_text(str(declaration), encoding="utf-8")
