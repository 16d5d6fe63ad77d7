"""Behind a gateway: TLS ends before the server, and everything is below a prefix with a space and an @."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from playwright.sync_api import expect

from tests.driver import StandIn

from .browser import Notebook, browsing, open_panel
from .lab import EMPTY_NOTEBOOK, GPU, QUICK_POLICY, TOKEN, Lab
from .tls_proxy import tls_proxy

pytestmark = pytest.mark.browser

# Time enough, on a busy machine, to press a button.
PATIENT_POLICY = QUICK_POLICY.replace("12s", "60s")
PREFIX = "/user/a%40b/lab%201/"


class PrefixedLab(Lab):
    """A server that has everything below the prefix."""

    base_url = PREFIX


def test_behind_tls_and_a_prefix_all_is_filled_and_nothing_is_asked_for_outside(
    tmp_path: Path, driver: StandIn
) -> None:
    """Panel, history and Keep work over the gateway, notices come over its websocket, and no path is outside."""
    (tmp_path / "tls").mkdir()
    options = ("--ServerApp.allow_origin_pat=.*", "--ServerApp.trust_xheaders=True")
    lab = PrefixedLab(tmp_path / "lab", driver=driver, policy=PATIENT_POLICY, options=options)
    with lab, tls_proxy(tmp_path / "tls", lab.url) as (origin, asked):
        (lab.root / "behind.ipynb").write_text(json.dumps(EMPTY_NOTEBOOK), encoding="utf-8")
        with browsing(ignore_https_errors=True) as page:
            page.goto(f"{origin}{PREFIX[1:]}lab?token={TOKEN}&reset")
            notebook = Notebook(page, "behind.ipynb")
            notebook.run(GPU + "gpu.hold('6 GiB')")
            open_panel(page)
            panel = page.get_by_role("region", name="GPU Guard")
            row = panel.get_by_role("listitem", name="behind.ipynb")
            expect(row).to_contain_text("6.0 GiB")
            toast = page.get_by_role("alert").filter(has_text="behind.ipynb")
            toast.get_by_role("button", name="Keep 1 h").click()
            expect(row.get_by_role("button", name="Stop keeping behind.ipynb")).to_be_visible()
            page.evaluate("window.jupyterapp.commands.execute('gpu-guard:open-history').then(() => null)")
            history = page.get_by_role("region", name="GPU history")
            expect(history.get_by_role("img", name=re.compile("behind.ipynb, memory: now 6.0 GiB"))).to_be_visible()
        ours = [path for path in asked if "gpu-guard" in path]
        assert any(path.endswith("/keep") for path in ours)
        assert any("api/events/subscribe" in path for path in asked)
        outside = {path for path in asked if not unquote(path).startswith(unquote(PREFIX))}
        assert outside <= {"/favicon.ico"}, outside  # the browser's own idea
