"""As `leak`, with the real owners and the closer look, over managers that are made up. Prints JSON.

python -m tests.endurance.leak_closely FOLDER TICKS
"""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psutil
import zmq
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from jupyter_client.session import Session
from ptyprocess import PtyProcess
from zmq.eventloop.zmqstream import ZMQStream

from jupyter_gpu_guard.core.model import OwnerKind
from jupyter_gpu_guard.kernel.simulated_gpu import Declaration, declare_for
from jupyter_gpu_guard.sources.insight import ProcfsInsight
from jupyter_gpu_guard.sources.kernels import KernelOwners
from jupyter_gpu_guard.sources.nvml import NvmlDevices
from jupyter_gpu_guard.sources.owners import JoinedOwners
from jupyter_gpu_guard.sources.tensorboard import BoardOwners
from jupyter_gpu_guard.sources.terminals import TerminalOwners
from jupyter_gpu_guard.sources.traffic import Traffic, connected
from tests.driver import GpuProgram, StandIn
from tests.support.board_stub import install

from .leak import INTERVAL, FaultyProcesses, HastyClock, Level
from .one_kernel import KERNEL, FakeEnforcer, guard_over

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from jupyter_gpu_guard.sources.traffic import Flow

STRETCH = 50  # ticks with one fault, and then as many without any
GIB = 2**30
FAULTS = ("processes", "kernels", "terminals", "boards", "traffic", "no descriptors")

# The kernel serves itself and others, and has a worker of its own; each time others than before.
STIRS = """
import socket, subprocess
for old in globals().get("ends", []): old.close()
if "worker" in globals(): worker.kill(); worker.wait()
door = socket.create_server(("127.0.0.1", 0))
caller = socket.create_connection(door.getsockname())
called, _ = door.accept()
caller.sendall(bytes(1000)); called.recv(1000)
ends = [caller, called, door]
worker = subprocess.Popen(["sleep", "600"])
"""


@dataclass
class Found:
    """What the run has seen, in ticks: with gaps, with all three owners, a kernel that listens, one that was heard."""

    ticks: int = 0
    with_gaps: int = 0
    complete: int = 0
    listening: int = 0
    heard: int = 0
    acts: int = 0
    levels: list[Level] = field(default_factory=list)


class FakeKernel(SimpleNamespace):
    """What a kernel manager tells of one process, and a channel on which it is heard."""

    def __init__(self, popen: subprocess.Popen[str]) -> None:
        provisioner = LocalProvisioner()
        provisioner.process, provisioner.pid = popen, popen.pid
        super().__init__(
            kernel_id=KERNEL.id,
            kernel_name="python3",
            parent=None,
            provisioner=provisioner,
            session=Session(key=b"key"),
            transport="tcp",
            ip="127.0.0.1",
            execution_state="idle",
            last_activity=None,
        )
        self.publishes = zmq.Context.instance().socket(zmq.PUB)
        self.iopub_port = self.publishes.bind_to_random_port("tcp://127.0.0.1")
        self.ports = [self.iopub_port]

    def connect_iopub(self) -> ZMQStream:
        """As the real one does."""
        listens = zmq.Context.instance().socket(zmq.SUB)
        listens.linger = 0
        listens.subscribe(b"")
        listens.connect(f"tcp://127.0.0.1:{self.iopub_port}")
        return ZMQStream(listens)

    def runs_a_cell(self) -> None:
        """From beginning to end."""
        request = self.session.msg("execute_request")
        busy, idle = ("status", {"execution_state": "busy"}), ("status", {"execution_state": "idle"})
        for kind, content in (busy, ("execute_input", {"code": "1"}), idle):
            self.session.send(self.publishes, kind, content, parent=request, ident=kind.encode())

    def close(self) -> None:
        """It publishes no more."""
        self.publishes.close(linger=0)


class FakeManager(dict[str, Any]):
    """Kernels, terminals or TensorBoards by name; with `fault`, none can be listed."""

    fault = False
    get_kernel = dict.__getitem__

    def list_kernel_ids(self) -> list[str]:
        """Their names."""
        return list(self._all())

    @property
    def terminals(self) -> dict[str, Any]:
        """All of them."""
        return self._all()

    async def list_sessions(self) -> list[dict[str, Any]]:
        """One notebook."""
        return [{"path": "a.ipynb", "name": "a.ipynb", "type": "notebook", "kernel": {"id": KERNEL.id}}]

    def _all(self) -> dict[str, Any]:
        if self.fault:
            raise RuntimeError("nobody can be listed")
        return self


class FaultySystem:
    """Tells of TCP connections; with `fault`, nothing, or that no descriptor is left."""

    fault: str | None = None

    def __call__(self) -> Collection[Flow] | None:
        """All that are open."""
        if self.fault == "no descriptors":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return None if self.fault == "traffic" else connected()


class Run:
    """A kernel, a terminal and a TensorBoard that others take the place of again and again; and a guard over them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.driver = StandIn(folder / "driver")
        self.driver.fault("global remember_ms 1000000")
        self.programs = [GpuProgram(self.driver.folder), GpuProgram(self.driver.folder)]
        for program in self.programs:
            declare_for(program.pid, Declaration({0: 2 * GIB}), self.driver.folder)
        self.clock = HastyClock()
        self.processes, self.system = FaultyProcesses(Path("/proc")), FaultySystem()
        self.kernels, self.terminals = FakeManager(), FakeManager()
        self.enforcer = FakeEnforcer(self.clock)
        settings = {"terminal_manager": self.terminals}
        self.boards = BoardOwners(settings, folder, self.processes, self.clock, temporary=folder)
        self._list_boards, self._boards_fault = self.boards.read, False
        self.boards.read = self._read_boards  # type: ignore[method-assign]
        self.kernel_owners = KernelOwners(self.kernels, self.kernels, self.processes, self.clock)
        owners = JoinedOwners(self.kernel_owners, TerminalOwners(settings, self.processes, self.clock), self.boards)
        self.devices = NvmlDevices(self.clock.monotonic, self.clock.wall, namespaced=False)
        self.guard = guard_over(
            self.devices,
            self.processes,
            owners,
            self.enforcer,
            self.clock,
            folder,
            insight=ProcfsInsight(monotonic=self.clock.monotonic, traffic=Traffic(self.system)),
        )
        self._program = install(folder / "bin")
        self._board: subprocess.Popen[str] | None = None
        self._ends: list[Callable[[], object]] = []

    async def _read_boards(self, *asked: Any) -> Any:
        if self._boards_fault:
            raise RuntimeError("no TensorBoard can be listed")
        return await self._list_boards(*asked)

    def begin_anew(self, fault: str | None) -> None:
        """All are others than before, and one thing may go wrong."""
        self.end_owners()
        kernel = FakeKernel(self.programs[0]._process)
        self.kernels[KERNEL.id] = kernel
        shell = PtyProcess.spawn(["sh"])
        self.terminals["1"] = SimpleNamespace(ptyproc=shell, clients=[])
        board = subprocess.Popen(
            [str(self._program), "--logdir", "runs"],
            env={**os.environ, "TMPDIR": str(self.folder)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert board.stdout is not None
        assert board.stdout.readline()
        self._ends = [kernel.close, lambda: shell.close(force=True), board.kill, board.communicate]
        self.processes.fault = OSError("no file can be opened") if fault == "processes" else None
        self.kernels.fault, self.terminals.fault = fault == "kernels", fault == "terminals"
        self._boards_fault, self.system.fault = fault == "boards", fault

    def end_owners(self) -> None:
        """End what was begun last."""
        for end in self._ends:
            end()
        self._ends = []

    async def tick(self, found: Found) -> None:
        """One tick, and what came of it."""
        if found.ticks % 10 == 0:
            assert self.programs[0].run(STIRS) == "done"
        if found.ticks % 20 == 5:
            self.kernels[KERNEL.id].runs_a_cell()
        self.clock.passed += INTERVAL
        seen = await self.guard.tick()
        assert seen.snapshot is not None
        found.ticks += 1
        found.with_gaps += bool(seen.snapshot.gaps)
        owners, active = {owner.key: owner for owner in seen.snapshot.owners}, seen.snapshot.activity.get(KERNEL)
        found.complete += {key.kind for key in owners} == set(OwnerKind) - {OwnerKind.LEFTOVERS}
        found.listening += active is not None and bool(active.listens)
        found.heard += KERNEL in owners and owners[KERNEL].used_at is not None

    def end(self) -> None:
        """End what was started."""
        self.end_owners()
        self.kernel_owners.close()
        self.devices.close()
        self.programs[0].run("worker.kill(); worker.wait()")
        for program in self.programs:
            program.bury()


async def run(folder: Path, ticks: int) -> Found:
    """So many ticks, half of them under a fault."""
    run, found, me = Run(folder), Found(), psutil.Process()
    try:
        for stretch in range(ticks // STRETCH):
            fault = FAULTS[stretch // 2 % len(FAULTS)] if stretch % 2 else None
            run.begin_anew(fault)
            for _ in range(STRETCH):
                await run.tick(found)
            if fault is None:
                gc.collect()
                found.levels.append(Level(me.num_fds(), me.num_threads(), me.memory_info().rss))
        found.acts = len(run.enforcer.done)
        await run.guard.close()
    finally:
        run.end()
    return found


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2]))))))
