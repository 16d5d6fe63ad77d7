"""A terminal in which another program runs kernels, with real processes: the shell, the program, and a kernel."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from fake_clock import FakeClock
from jupyter_server_terminals.terminalmanager import TerminalManager
from kernel_room import until

from jupyter_gpu_guard.core.assess import Perceived, perceive
from jupyter_gpu_guard.core.model import Device, GpuClient, OwnerState
from jupyter_gpu_guard.observe import Observer
from jupyter_gpu_guard.protocols import DevicesSeen
from jupyter_gpu_guard.sources.insight import ProcfsInsight
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses
from jupyter_gpu_guard.sources.terminals import TerminalOwners

# As Jupyter does it: the kernel leads a session of its own, and its environment names whoever has started it.
STARTS_A_KERNEL = """\
import os, subprocess, sys
kernel = subprocess.Popen(
    [sys.executable, "-c", "import time; time.sleep(600)"],
    env={**os.environ, "JPY_PARENT_PID": str(os.getpid())}, start_new_session=True,
)
print(kernel.pid, file=open(sys.argv[1] + ".new", "w"), flush=True)
os.rename(sys.argv[1] + ".new", sys.argv[1])
kernel.wait()
input()
"""


class FakeGpu:
    """One device, with the processes in `on` on it, none of which computes."""

    simulated = False

    def __init__(self):
        self.on = []

    def read(self):
        """Who is on it."""
        clients = tuple(GpuClient("GPU-0", pid, 2.0**30, 0.0) for pid in self.on)
        return DevicesSeen((Device("GPU-0", 0, "Fake", 80 * 2.0**30, 2.0**30),), clients)

    def close(self):
        """Nothing to let go of."""


class Watch:
    """Looks at the terminals of a manager, five seconds apart by a clock of its own."""

    def __init__(self, manager):
        self.clock, self.gpu, self.perceived = FakeClock(), FakeGpu(), Perceived()
        processes = ProcfsProcesses()
        owners = TerminalOwners({"terminal_manager": manager}, processes, self.clock)
        self.observer = Observer(self.clock, self.gpu, processes, owners, insight=ProcfsInsight(), deadline=60.0)

    async def state(self):
        """What the terminal is doing, after two more looks: the first shows whose the processes are."""
        for _ in range(2):
            self.clock.advance(5)
            snapshot = await self.observer.observe(self.perceived.attribution)
            assert snapshot.gaps == ()
            self.perceived = perceive(snapshot, self.perceived, 20.0)
        (holder,) = self.perceived.attribution.holders
        return holder.state


def test_a_terminal_is_unknown_while_another_program_has_kernels_in_it(tmp_path):
    """Such a kernel may run a cell that waits, and nobody here would know. When it has ended, the terminal is idle."""
    script, told = tmp_path / "server.py", tmp_path / "kernel"
    script.write_text(STARTS_A_KERNEL, encoding="utf-8")

    async def scene():
        manager = TerminalManager(shell_command=["sh"])
        try:
            shell = manager.get_terminal("1").ptyproc
            watch = Watch(manager)
            watch.gpu.on = [shell.pid]
            assert await watch.state() is OwnerState.IDLE
            shell.write(f"{sys.executable} {script} {told}\n")
            await until(told.exists, "a kernel within")
            kernel = int(told.read_text(encoding="utf-8"))
            marked = ProcfsProcesses().identify(kernel).key
            await until(lambda: ProcfsInsight().marks([marked])[marked].server, "executing its own program")
            watch.gpu.on = [kernel]
            assert await watch.state() is OwnerState.UNKNOWN
            os.kill(kernel, signal.SIGKILL)
            await until(lambda: ProcfsProcesses().identify(kernel) is None, "the kernel has ended")
            watch.gpu.on = [shell.pid]
            assert await watch.state() is OwnerState.IDLE
        finally:
            await manager.terminate("1", force=True)
            await until(lambda: not manager.terminals, "the terminal is closed")
            manager.blocking_io_executor.shutdown()

    asyncio.run(scene())
