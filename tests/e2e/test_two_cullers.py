"""Jupyter's own culler of idle kernels beside the guard: whichever limit comes first counts, and nobody stumbles."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.driver import StandIn

from .lab import GPU, Lab, start_ticks, until

GUARDS_LIMIT = 20  # seconds: the quick policy warns after 8 s and ends 12 s later


@pytest.mark.slow
@pytest.mark.parametrize("limit", [15, GUARDS_LIMIT], ids=["jupyters first", "both at once"])
def test_one_kernel_is_ended_once_by_two_cullers(tmp_path: Path, driver: StandIn, limit: int) -> None:
    """There is exactly one shutdown and no error, and no warning outlives the kernel."""
    options = (
        f"--MappingKernelManager.cull_idle_timeout={limit}",
        "--MappingKernelManager.cull_interval=1",
        "--GpuGuard.resting_interval=0",  # once the kernel is gone, it would look less often
    )
    with Lab(tmp_path / "lab", driver=driver, options=options) as lab:
        kernel = lab.start_kernel("twice.ipynb")
        kernel.run(GPU + "gpu.hold('2 GiB')")
        kernel.close()
        until(lambda: lab.notice(kernel.id), "the guard's warning")
        said = lab.get(f"gpu-guard/api/v1/explain/kernel%3A{kernel.id}")["lines"][-1]
        until(lambda: start_ticks(kernel.pid) is None, "the end of the kernel")
        until(lambda: kernel.id not in lab.kernel_ids(), "the server to know it")
        looks = lab.health()["ticks"]
        until(lambda: lab.health()["ticks"] > looks + GUARDS_LIMIT - limit + 5, "both limits to be over")
        report = lab.report()
        log = lab.log.read_text(encoding="utf-8")
    assert ("that comes before the guard's limit of 20 s" in said) == (limit < GUARDS_LIMIT)
    assert log.count(f"Kernel shutdown: {kernel.id}") == 1
    assert re.findall(r"^\[[EC] .*|^Traceback.*", log, re.MULTILINE) == []
    assert report["notices"] == []
    ended = [outcome for outcome in report["outcomes"] if outcome["action"] == "shutdown"]
    if limit < GUARDS_LIMIT:
        assert ended == []  # it was not the guard
    else:
        assert [outcome["result"] for outcome in ended] in ([], ["done"], ["already-gone"], ["withdrawn"])
