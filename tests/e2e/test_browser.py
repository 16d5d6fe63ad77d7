"""The main job as a person sees it: real JupyterLab in real Chromium, real ipykernel, the real pynvml."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.driver import StandIn

from .browser import Notebook, open_page, open_panel, picture
from .lab import EMPTY_NOTEBOOK, GPU, QUICK_POLICY, Lab, start_ticks, until

pytestmark = pytest.mark.browser

# A browser on a busy machine is slow: time enough between the warning and the end to press a button.
UNHURRIED_POLICY = QUICK_POLICY.replace("for: 8s", "for: 10s").replace("12s", "30s")


@pytest.fixture
def lab(tmp_path: Path, driver: StandIn) -> Iterator[Lab]:
    """A server under the unhurried policy."""
    with Lab(tmp_path / "lab", driver=driver, policy=UNHURRIED_POLICY) as running:
        yield running


def _prepare(lab: Lab, *paths: str) -> None:
    for path in paths:
        (lab.root / path).parent.mkdir(parents=True, exist_ok=True)
        (lab.root / path).write_text(json.dumps(EMPTY_NOTEBOOK), encoding="utf-8")


def test_see_warn_keep_cull(lab: Lab) -> None:  # noqa: PLR0915  one story
    """A person sees what each notebook holds, is warned, keeps one, loses the other and is told why; waves live on."""
    _prepare(lab, "work/train.ipynb", "work/forgotten.ipynb", "work/waves.ipynb")
    with open_page(lab, "lab") as page:
        panel = page.get_by_test_id("gpu-guard-panel")
        waves = Notebook(page, "work/waves.ipynb")
        waves.run(GPU + "gpu.hold('3 GiB')\ngpu.wave(90, 2, 0, 3)")
        working = waves.kernel_id()
        assert working is not None
        row = until(lambda: (h := lab.holder(working)) and h["memory_bytes"] and h, "the waves to be seen")
        waves_pid = row["holdings"][0]["processes"][0]["pid"]
        born = start_ticks(waves_pid)

        kept = Notebook(page, "work/train.ipynb")
        kept.run(GPU + "gpu.hold('2 GiB')")
        lost = Notebook(page, "work/forgotten.ipynb")
        lost.run(GPU + "gpu.hold('6 GiB')\ngpu.compute(90, 6)")
        open_panel(page)

        # The sidebar shows path, memory and compute.
        forgotten = panel.get_by_role("listitem", name="work/forgotten.ipynb")
        expect(forgotten).to_contain_text("6.0 GiB")
        expect(forgotten).to_contain_text(re.compile("Compute, mean of the last minute: [1-9]"))
        expect(panel.get_by_role("listitem", name="work/waves.ipynb")).to_contain_text("3.0 GiB")
        expect(panel.get_by_test_id("gpu-guard-device")).to_have_count(2)
        picture(page, "sidebar")

        # It goes idle; the notifications appear, and one of the two is kept.
        toast = page.get_by_role("alert").filter(has_text="train.ipynb")
        expect(toast).to_contain_text("2.0 GiB")
        picture(page, "warning")
        toast.get_by_role("button", name="Keep 1 h").click()
        train = panel.get_by_role("listitem", name="work/train.ipynb")
        expect(train.get_by_role("button", name="Stop keeping train.ipynb")).to_be_visible()
        doomed = lost.kernel_id()
        assert doomed is not None
        warning = until(lambda: lab.notice(doomed), "the other warning")
        assert warning["reached"] == ["page"]

        # Without Keep the kernel is gone, and the notebook tells what happened and why.
        banner = page.get_by_test_id("gpu-guard-banner")
        expect(banner).to_contain_text("forgotten.ipynb")
        expect(banner).to_contain_text("rule default")
        expect(banner).to_contain_text("6.0 GiB")
        expect(forgotten).to_have_count(0)
        picture(page, "aftermath")
        outcome = lab.outcome(doomed)
        assert (outcome["result"], outcome["freed_bytes"]) == ("done", 6 * 2**30)
        until(lambda: lab.report()["devices"][0]["memory_used_bytes"] < 6 * 2**30, "the memory to be free")

        # No new kernel starts by itself, and the other two live.
        time.sleep(5)
        kept_id = kept.kernel_id()
        assert kept_id is not None
        assert sorted(lab.kernel_ids()) == sorted([working, kept_id])
        assert lost.kernel_id() is None
        assert lab.notice(kept_id) is None
        assert start_ticks(waves_pid) == born

        # The banner is lasting: it is there again after a reload, until it is dismissed.
        page.reload()
        Notebook(page, "work/waves.ipynb")
        lost.activate()
        expect(banner).to_contain_text("forgotten.ipynb")
        banner.get_by_role("button", name="Dismiss").click()
        expect(banner).to_have_count(0)
