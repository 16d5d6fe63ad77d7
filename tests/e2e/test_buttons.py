"""The buttons of a row, pressed by a person in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.driver import StandIn

from .browser import open_page, open_panel
from .lab import GPU, Lab, until
from .test_release import TORCH

pytest.importorskip("cuda.bindings", reason="cuda-bindings is not installed: pip install 'jupyter-gpu-guard[park]'")

pytestmark = pytest.mark.browser

GIB = 2**30


def test_open_release_park_resume_and_shut_down(tmp_path, driver: StandIn):
    """Each does what it says, the row tells what came of it, and the kernel keeps its variables until its end."""
    with Lab(tmp_path / "lab", driver=driver, policy=None, options=("--GpuGuard.parking=True",)) as lab:
        kernel, cached = lab.start_kernel("work/train.ipynb"), lab.start_kernel("work/cached.ipynb")
        kernel.run(GPU + "weights = [1, 2, 3]; gpu.hold('2 GiB')")
        cached.run(TORCH + "batch = torch.zeros(3 * 2**30)\ndel batch")
        for each in (kernel, cached):
            until(lambda each=each: (h := lab.holder(each.id)) and "release" in h["offers"], "release is offered")
        with open_page(lab, "lab") as page:
            open_panel(page)
            panel = page.get_by_test_id("gpu-guard-panel")
            row, other = (panel.get_by_role("listitem", name=f"work/{name}.ipynb") for name in ("train", "cached"))

            row.get_by_role("button", name="train.ipynb", exact=True).click()
            expect(page.get_by_role("tab", name="train.ipynb").first).to_be_visible()

            other.get_by_role("button", name="Release GPU memory of cached.ipynb").click()
            expect(other).to_contain_text("gave back 3.0 GiB", ignore_case=True)

            row.get_by_role("button", name="Park train.ipynb").click()
            resume = row.get_by_role("button", name="Resume train.ipynb")
            expect(resume).to_be_visible()
            expect(row).to_contain_text("2.0 GiB in the memory of the host")
            resume.click()
            until(lambda: (h := lab.holder(kernel.id)) and h["memory_bytes"] == 2 * GIB, "it has its memory again")
            expect(row.get_by_role("button", name="Park train.ipynb")).to_be_visible()
            assert kernel.run("print(sum(weights))") == "6"

            row.get_by_role("button", name="Shut down train.ipynb").click()
            page.get_by_role("dialog").get_by_role("button", name="Shut down").click()
            until(lambda: kernel.id not in lab.kernel_ids(), "the kernel to be gone")
            expect(page.get_by_role("tab", name="train.ipynb").first).to_be_visible()
            assert cached.id in lab.kernel_ids()
