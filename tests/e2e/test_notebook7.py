"""The same front end in Notebook 7."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.driver import StandIn

from .browser import Notebook, open_page, picture, wait_for_lab
from .lab import EMPTY_NOTEBOOK, GPU, Lab

pytestmark = pytest.mark.browser


def test_panel_and_warning_in_notebook_7(tmp_path: Path, driver: StandIn) -> None:
    """A notebook page of its own shows the panel with the row, and the warning with its Keep button."""
    with Lab(tmp_path / "lab", driver=driver) as lab:
        (lab.root / "single.ipynb").write_text(json.dumps(EMPTY_NOTEBOOK), encoding="utf-8")
        with open_page(lab, "notebooks/single.ipynb") as page:
            wait_for_lab(page)
            notebook = Notebook(page, "single.ipynb", opened=True)
            notebook.run(GPU + "gpu.hold('6 GiB')")
            page.evaluate("window.jupyterapp.shell.activateById('jupyter-gpu-guard')")
            row = page.get_by_test_id("gpu-guard-panel").get_by_role("listitem", name="single.ipynb")
            expect(row).to_contain_text("6.0 GiB")
            toast = page.get_by_role("alert").filter(has_text="single.ipynb")
            expect(toast).to_be_visible()
            picture(page, "notebook7")
            assert [notice["reached"] for notice in lab.report()["notices"]] == [["page"]]
            toast.get_by_role("button", name="Keep 1 h").click()
            expect(row.get_by_role("button", name="Stop keeping single.ipynb")).to_be_visible()
            # The toolbar says it too, and the history opens beside the notebook: there is no other room on the page.
            expect(page.get_by_role("button", name="GPU memory held by single.ipynb: 6.0 GiB")).to_be_visible()
            page.evaluate("window.jupyterapp.commands.execute('gpu-guard:open-history').then(() => null)")
            history = page.get_by_role("region", name="GPU history")
            expect(history.get_by_role("img", name="single.ipynb, memory: now 6.0 GiB")).to_be_visible()
