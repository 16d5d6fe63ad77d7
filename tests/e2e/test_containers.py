"""A real server with real kernels in a real pid namespace, as in a container: right or unknown, never a wrong name."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpu_guard.kernel.declaration import Declaration
from tests.driver import GpuProgram, StandIn
from tests.driver.container import can_be_made, command_inside, command_with_shared_pids, declare_elsewhere, pids

from .lab import GPU, Kernel, Lab, start_ticks, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

CUDA = "import ctypes; ctypes.CDLL('libcuda.so.1')\n"  # as every CUDA program does
GIB = 2**30
HIDDEN_TEXT = "cannot see its own GPU processes"
TIME_TO_BE_ENDED = 22  # seconds: 8 idle, 12 of notice, and a little


@pytest.fixture
def namespaced(driver: StandIn) -> tuple[str, ...]:
    """Put before a command, it makes a container with a pid namespace of its own."""
    if not can_be_made(driver):
        pytest.skip("no pid namespace with a /proc of its own can be made here")
    return command_inside(driver)


def start_kernel(lab: Lab, notebook: str, code: str) -> Kernel:
    """A kernel that is a CUDA program and has run `code`."""
    kernel = lab.start_kernel(notebook)
    kernel.run(CUDA + GPU + code)
    return kernel


def rows(lab: Lab, kernel: Kernel) -> list[Any]:
    """The processes of a kernel on the devices."""
    holder = lab.holder(kernel.id)
    return [process for holding in (holder or {"holdings": []})["holdings"] for process in holding["processes"]]


def gaps(lab: Lab) -> str:
    """All that is missing, in one text."""
    return "\n".join(gap["why"] for gap in lab.report()["gaps"])


def test_each_generation_is_right_or_unknown(tmp_path: Path, driver: StandIn, namespaced: tuple[str, ...]) -> None:
    """Nobody is named wrongly or ended on what cannot be told; with a driver that translates all is as usual."""
    neighbour = GpuProgram(driver.folder)
    declare_elsewhere(driver, neighbour.pid, Declaration({0: 8 * GIB}))
    driver.fault("global generation 535.104")
    try:
        with Lab(tmp_path / "lab", driver=driver, prefix=namespaced) as lab:
            working = start_kernel(lab, "working.ipynb", "gpu.hold('4 GiB'); gpu.compute(70, None)")
            idle = start_kernel(lab, "idle.ipynb", "gpu.hold('2 GiB')")
            began = time.monotonic()

            # The server is the first process of its namespace, so that kernels have the parent 1, as orphans have.
            assert pids(lab.pid)[-1] == 1
            assert working.run("import os; print(os.getppid())") == "1"

            until(lambda: HIDDEN_TEXT in gaps(lab), "the word that processes are hidden")
            until(lambda: len(lab.report()["holders"]) == 2, "both kernels to be seen")
            report = lab.report()
            assert [holder["holdings"] for holder in report["holders"]] == [[], []]
            assert [holder["protections"] for holder in report["holders"]] == [["unknown"], ["unknown"]]
            assert report["strangers"] == []

            driver.fault("global generation 535.113")
            for kernel in (working, idle):
                (row,) = until(lambda kernel=kernel: rows(lab, kernel), "the kernel's process")
                assert (row["pid"], row["memory_bytes_unknown"]) == (kernel.pid, "pids-hidden")
            until(lambda: rows(lab, idle)[0]["compute_percent_unknown"] == "pids-hidden", "compute to be unknown")

            driver.fault("global generation 565")
            until(lambda: rows(lab, working)[0]["memory_bytes"] == 4 * GIB, "the memory")
            assert rows(lab, idle)[0]["memory_bytes"] == 2 * GIB
            assert {rows(lab, kernel)[0]["compute_percent_unknown"] for kernel in (working, idle)} == {"pids-hidden"}

            until(lambda: time.monotonic() - began > TIME_TO_BE_ENDED, "the time in which an idle kernel is ended")
            report = lab.report()
            assert (report["outcomes"], report["notices"]) == ([], [])
            assert set(lab.kernel_ids()) == {working.id, idle.id}

            driver.fault("global generation 570")
            until(lambda: rows(lab, working)[0]["compute_percent"] == 70, "the compute")
            assert rows(lab, idle)[0]["compute_percent"] == 0
            report = lab.report()
            assert (report["gaps"], report["strangers"]) == ([], [])
            assert [holder["leftovers"] for holder in report["holders"]] == [[], []]
            until(lambda: lab.outcome(idle.id), "the idle kernel's end")
            assert lab.outcome(idle.id)["result"] == "done"
            assert lab.kernel_ids() == [working.id]
            assert working.run("print('here')") == "here"
        assert start_ticks(neighbour.pid) is not None
    finally:
        neighbour.bury()


def test_the_only_kernel_is_estimated_and_spared(tmp_path: Path, driver: StandIn, namespaced: tuple[str, ...]) -> None:
    """With the option, what the device holds is shown as the only kernel's own, and no more than a warning follows."""
    driver.fault("global generation 535.104")
    option = ("--GpuGuard.estimate_sole_owner=True",)
    with Lab(tmp_path / "lab", driver=driver, prefix=namespaced, options=option) as lab:
        alone = start_kernel(lab, "alone.ipynb", "gpu.hold('4 GiB')")
        lab.start_kernel("plain.ipynb")
        holder = until(lambda: (h := lab.holder(alone.id)) and h["estimated"] and h, "the estimate")
        assert (holder["memory_bytes"], holder["holdings"][0]["evidence"]) == (4 * GIB, "estimate")
        assert "estimated" in holder["protections"]
        until(lambda: lab.notice(alone.id), "the warning")
        assert lab.notice(alone.id)["next_action"] is None


def test_a_container_that_shares_the_hosts_pids_is_as_the_host(tmp_path: Path, driver: StandIn) -> None:
    """The oldest driver gives the host's numbers, and these are the server's own."""
    driver.fault("global generation 535.104")
    with Lab(tmp_path / "lab", driver=driver, prefix=command_with_shared_pids()) as lab:
        kernel = start_kernel(lab, "a.ipynb", "gpu.hold('4 GiB'); gpu.compute(70, None)")
        until(lambda: rows(lab, kernel) and rows(lab, kernel)[0]["compute_percent"] == 70, "the compute")
        (row,) = rows(lab, kernel)
        assert (row["pid"], row["memory_bytes"]) == (kernel.pid, 4 * GIB)
        assert gaps(lab) == ""
