"""A real kernel that holds a GPU, and all that is needed to shut it down."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fake_clock import FakeClock
from fake_devices import GIB, GPU, FakeDevices
from kernel_room import kernel_room, until

from jupyter_gpu_guard.core.model import GpuProcess, Holder, Holding, OwnerKey, OwnerKind, OwnerState, ProcessKey
from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.core.verdict import Code, Reason, Verdict
from jupyter_gpu_guard.effects.doors import KernelDoor
from jupyter_gpu_guard.sources.kernels import KernelOwners
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from kernel_room import Room

    from jupyter_gpu_guard.core.model import Process

LOG = logging.getLogger("jupyter_gpu_guard.test")

STUBBORN = """
import os, signal, sys, time

def ignore(signum, frame):
    with open(sys.argv[1] + ".term", "a") as note:
        note.write("TERM")
signal.signal(signal.SIGTERM, ignore)
with open(sys.argv[1], "w") as note:
    note.write(str(os.getpid()))
while True:
    time.sleep(0.05)
"""


class Scene:
    """The room, who watches it, and the means of an enforcer, on a clock that runs only while somebody sleeps."""

    def __init__(self, room: Room, root: Path) -> None:
        self.room = room
        self.root = root
        self.clock = FakeClock()
        self.table = ProcfsProcesses()
        self.identify = self.table.identify
        self.devices = FakeDevices(self.identify)
        self.owners = KernelOwners(room.kernels, room.sessions, self.table, self.clock, event_logger=room.events)
        self._started: list[subprocess.Popen[bytes]] = []

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass on the clock, and a little in this world, where processes need it to end."""
        self.clock.advance(seconds)
        await asyncio.sleep(0.02)

    async def processes(self) -> Mapping[int, Process]:
        """The process table."""
        return self.table.read()

    def means(self) -> dict[str, Any]:
        """What the constructors of effects ask for."""
        return {
            "doors": {OwnerKind.KERNEL: KernelDoor(self.room.kernels)},
            "owners": self.owners,
            "look": self.devices.look,
            "processes": self.processes,
            "identify": self.identify,
            "clock": self.clock,
            "log": LOG,
            "sleep": self.sleep,
        }

    async def kernel(self, name: str = "python3", *, run: str = "1 + 1") -> tuple[Holder, Any]:
        """A kernel that has run a cell, is idle and holds 6 GiB; and its client."""
        kernel_id = await self.room.kernels.start_kernel(kernel_name=name)
        client = await self.room.client(kernel_id)
        key = OwnerKey(OwnerKind.KERNEL, kernel_id)
        await self.run(key, client, run)
        owner = self.owners.look_again(key)
        holdings: tuple[Holding, ...] = ()
        if owner.root is not None:
            self.devices.hold(owner.root, 6 * GIB)
            row = GpuProcess(owner.root, GPU, 6 * GIB, 0.0, owner.started_at)
            holdings = (Holding(GPU, (row,)),)
        tree = () if owner.root is None else (owner.root,)
        return Holder(owner, holdings, tree), client

    async def run(self, key: OwnerKey, client: Any, code: str) -> None:
        """Run a cell, until everybody has heard that it has ended."""
        self.clock.advance(1)
        end = self.clock.now().monotonic
        await self.room.run(client, code)

        def over() -> bool:
            owner = self.owners.look_again(key)
            return owner.used_at == end and owner.state is OwnerState.IDLE

        await until(over, "the end of the cell was heard, by the server as well")

    async def stubborn_child(self, holder: Holder, client: Any) -> ProcessKey:
        """A process that the kernel starts in a session of its own, and that SIGTERM does not end."""
        note = self.root / "stubborn"
        script = self.root / "stubborn.py"
        script.write_text(STUBBORN)
        await self.run(
            holder.owner.key,
            client,
            "import subprocess, sys\n"
            f"p = subprocess.Popen([sys.executable, {str(script)!r}, {str(note)!r}], start_new_session=True)",
        )
        await until(lambda: note.exists() and note.read_text() != "", "the child runs")
        return self.identify(int(note.read_text())).key

    def stranger(self) -> ProcessKey:
        """A process beside the kernel."""
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        self._started.append(process)
        return self.identify(process.pid).key

    def lives(self, key: ProcessKey) -> bool:
        """Whether this very process lives."""
        process = self.identify(key.pid)
        return process is not None and process.key == key and not process.is_over

    def used_now(self, holder: Holder) -> Holder:
        """`holder` as it would be judged now: the latest use has been seen."""
        return replace(holder, owner=replace(holder.owner, used_at=self.owners.look_again(holder.owner.key).used_at))

    def close(self) -> None:
        """End what was started here."""
        self.owners.close()
        for process in self._started:
            process.kill()
            process.wait()


def verdict_on(holder: Holder, *, asked: bool = False, action: Action = Action.SHUTDOWN) -> Verdict:
    """A verdict as the guard makes it, by a rule or because a person asked."""
    reason = Reason(Code.ASKED, {"by": "anna"}) if asked else Reason(Code.IDLE_TOO_LONG, {"idle_seconds": 9000.0})
    return Verdict(holder.owner.key, holder.owner.root, action, "asked" if asked else "students", (reason,))


@asynccontextmanager
async def shutdown_scene(root: Path) -> AsyncIterator[Scene]:
    """A scene with nobody in it yet."""
    async with kernel_room(root) as room:
        scene = Scene(room, root)
        try:
            yield scene
        finally:
            scene.close()
