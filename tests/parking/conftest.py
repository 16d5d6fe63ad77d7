"""A driver that can park, and programs on it."""

from __future__ import annotations

import pytest

pytest.importorskip("cuda.bindings", reason="cuda-bindings is not installed: pip install 'jupyter-gpu-guard[park]'")

from jupyter_gpu_guard.core.model import ProcessKey
from jupyter_gpu_guard.kernel.declaration import read_clients
from jupyter_gpu_guard.kernel.simulated_gpu import VARIABLE
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses
from tests.driver import GpuProgram, StandIn


class Program(GpuProgram):
    """A program that holds a GPU, and what the stand-in driver sees of it."""

    def __init__(self, folder):
        super().__init__(folder)
        self._folder = folder
        assert self.run("gpu.hold('1 GiB')") == "done"
        self.key: ProcessKey = ProcfsProcesses().identify(self.pid).key

    @property
    def held(self):
        """Bytes on the first device; 0: it is not listed."""
        client = read_clients(self._folder).get(self.pid)
        return 0 if client is None else client.memory[0]


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """The stand-in, which every helper that is started finds."""
    stand_in = StandIn(tmp_path / "driver")
    for name in ("LD_LIBRARY_PATH", VARIABLE):
        monkeypatch.setenv(name, stand_in.environment()[name])
    return stand_in


@pytest.fixture
def program(driver):
    """A real process that holds 1 GiB on the first device."""
    running = Program(driver.folder)
    yield running
    running.bury()
