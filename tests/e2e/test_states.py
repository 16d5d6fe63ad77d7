"""What the sidebar says where something is missing; and that all can read it, in every theme, narrow and mirrored."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.driver import StandIn

from .browser import Notebook, browsing, open_panel, picture
from .lab import GPU, TOKEN, Lab, until

pytestmark = pytest.mark.browser

AXE = Path(__file__).parents[2] / "labextension/node_modules/axe-core/axe.min.js"
REPORT = re.compile("gpu-guard/api/v1/report")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A server on which one notebook holds GPU memory, and which ends nothing. Its pages look every two seconds."""
    folder = tmp_path_factory.mktemp("states")
    with Lab(folder / "lab", driver=StandIn(folder / "driver"), policy=None) as running:
        settings = running.folder / "settings/jupyter-gpu-guard/plugin.jupyterlab-settings"
        settings.parent.mkdir(parents=True)
        settings.write_text('{"pollSeconds": 2}', encoding="utf-8")
        kernel = running.start_kernel("work/train.ipynb")
        kernel.run(GPU + "gpu.hold('6 GiB')")
        until(lambda: (h := running.holder(kernel.id)) and h["memory_bytes"], "the row")
        kernel.close()
        yield running


class FakeReports:
    """Answers in place of the server: a report, a status with a sentence, or no answer at all. None: it answers."""

    def __init__(self, page: Page, real: dict[str, Any]) -> None:
        self.real = real
        self.answer: dict[str, Any] | int | str | None = None
        page.route(REPORT, self._fulfil)

    def changed(self, **changes: Any) -> None:
        """From now on the real report with these changes; unless they say when, it was taken just now."""
        self.answer = {**copy.deepcopy(self.real), "taken_at": None, **changes}

    def device(self, **changes: Any) -> None:
        """From now on the real report with these changes of its first device."""
        first, *others = self.real["devices"]
        self.changed(devices=[{**first, **changes}, *others])

    def holder(self, **changes: Any) -> None:
        """From now on the real report with these changes of its only holder."""
        (holder,) = self.real["holders"]
        self.changed(holders=[{**holder, **changes}])

    def warned(self) -> None:
        """From now on its only holder is about to be shut down, and an earlier kernel of its notebook has been."""
        (holder,) = self.real["holders"]
        notice = _warning(holder)
        verdict = {**holder["verdict"], "next_action": "shutdown", "deadline": notice["deadline"]}
        self.changed(
            mode="enforce", notices=[notice], outcomes=[_end(holder)], holders=[{**holder, "verdict": verdict}]
        )

    def _fulfil(self, route: Route) -> None:
        if self.answer is None:
            route.continue_()
        elif isinstance(self.answer, int):
            route.fulfill(status=self.answer, json={"message": "refused"})
        elif isinstance(self.answer, str):
            route.abort(self.answer)
        else:
            now = datetime.now(timezone.utc).isoformat()
            route.fulfill(json={**self.answer, "taken_at": self.answer["taken_at"] or now})


def _warning(holder: dict[str, Any]) -> dict[str, Any]:
    """A notice that `holder` is about to be shut down."""
    now = datetime.now(timezone.utc)
    return {
        "id": "made-up", "owner": holder["owner"], "name": "train.ipynb", "notebook": "work/train.ipynb",
        "rule": "default", "next_action": "shutdown", "given_at": (now - timedelta(minutes=1)).isoformat(),
        "deadline": (now + timedelta(minutes=14)).isoformat(), "memory_bytes": 6 * 2**30,
        "longest_keep_seconds": 28800, "reasons": [],
    }  # fmt: skip


def _end(holder: dict[str, Any]) -> dict[str, Any]:
    """What would be told of a kernel that had the notebook of `holder` before."""
    return {
        "id": "made-up", "owner": "kernel:earlier", "name": "train.ipynb", "notebook": "work/train.ipynb",
        "action": "shutdown", "rule": "default", "result": "done", "at": datetime.now(timezone.utc).isoformat(),
        "by": None, "detail": "", "freed_bytes": 6 * 2**30, "took_seconds": 2.0, "survivors": [],
        "reasons": holder["verdict"]["reasons"],
    }  # fmt: skip


def _gap(source: str, why: str) -> dict[str, Any]:
    return {"source": source, "why": why, "since": datetime.now(timezone.utc).isoformat()}


def test_each_state_has_its_words(lab: Lab) -> None:
    """Whatever is missing is named, with a way out; nothing unknown is a number; all of it without websocket events."""
    with browsing() as page:
        page.route_web_socket(re.compile("api/events/subscribe"), lambda socket: socket.close())
        reports = FakeReports(page, lab.report())
        reports.answer = 404
        page.goto(f"{lab.url}lab?token={TOKEN}&reset")
        open_panel(page)
        panel = page.get_by_role("region", name="GPU Guard")
        again = panel.get_by_role("button", name="Try again")

        # No server part, and no permission: nothing is asked any more until a person wants it.
        expect(panel).to_contain_text("The server part of GPU Guard is not running.")
        expect(panel).to_contain_text("jupyter server extension enable jupyter_gpu_guard")
        expect(panel).to_contain_text("Asked for: /gpu-guard/api/v1/report")
        reports.answer = 403
        again.click()
        expect(panel).to_contain_text("You may not see the GPUs of this server.")
        expect(panel).to_contain_text("“gpu_guard”")

        # No driver, no GPU, process numbers of another container.
        reports.changed(devices=[], holders=[], gaps=[_gap("devices", "No NVIDIA driver is loaded here.")])
        again.click()
        expect(panel).to_contain_text("No NVIDIA driver is loaded here.")
        expect(panel).not_to_contain_text("0 MiB")
        reports.changed(devices=[], holders=[])
        expect(panel).to_contain_text("No notebook holds GPU memory.")
        reports.changed(gaps=[_gap("clients", "This container cannot see its own GPU processes.")])
        expect(panel).to_contain_text("This container cannot see its own GPU processes.")

        # What is not known is a dash that says why; a lost device says so.
        row = panel.get_by_role("listitem", name="work/train.ipynb")
        reports.holder(memory_bytes=None, memory_bytes_unknown="no-permission", holdings=[])
        expect(row).to_contain_text("–")
        expect(row.get_by_title("the driver does not let this user see it").first).to_be_visible()
        reports.device(state="lost", memory_used_bytes=None, memory_used_bytes_unknown="device-lost")
        expect(panel).to_contain_text("This device is lost: it fell off the bus or needs a reset.")
        expect(panel.get_by_role("listitem", name=re.compile("GPU 0"))).to_contain_text("– of 80.0 GiB")

        # Simulated figures are marked; a guard that has stopped looking is found out.
        reports.changed(simulated=True)
        expect(panel.get_by_text("simulated", exact=True)).to_be_visible()
        old = datetime.now(timezone.utc) - timedelta(minutes=10)
        reports.changed(simulated=True, taken_at=old.isoformat())
        expect(panel).to_contain_text("The newest reading is 10 min old.")

        # A warning comes by polling, too; it stands where a screen reader finds it.
        (holder,) = reports.real["holders"]
        reports.changed(mode="enforce", notices=[_warning(holder)])
        expect(page.get_by_role("alert").filter(has_text="train.ipynb")).to_contain_text("It is shut down in 1")
        expect(panel.get_by_role("status")).to_contain_text("train.ipynb will be shut down at")

        # The network goes: what is shown is grey, and says how old it is. It comes back by itself.
        reports.answer = "connectionrefused"
        expect(panel).to_contain_text("The server does not answer.")
        expect(panel).to_contain_text(re.compile(r"What is shown here is \d+ s old"))
        expect(row).to_contain_text("6.0 GiB")
        picture(page, "stale")
        reports.answer = None
        page.evaluate("window.dispatchEvent(new Event('online'))")
        expect(panel).not_to_contain_text("The server does not answer.")
        expect(row).to_contain_text("6.0 GiB")


def _serious(part: Locator) -> list[str]:
    """What axe finds serious or critical in `part`, which must be there."""
    found = part.evaluate(
        """part => {
            document.body.style.height = '100vh'; // JupyterLab's body has no height, so axe takes all for hidden
            return axe.run(part, {resultTypes: ['violations']}).then(({violations}) => violations
                .filter(({impact}) => impact === 'serious' || impact === 'critical')
                .flatMap(({id, nodes}) => nodes.map(node => `${id}: ${node.html} ${node.failureSummary}`)));
        }"""
    )
    return list(found)


def _fits(page: Page) -> None:
    """Nothing is wider than a panel of 200 pixels, from left to right and mirrored; it stays so."""
    for direction in ("ltr", "rtl"):
        page.evaluate("direction => { document.documentElement.dir = direction; }", direction)
        width, needed = page.evaluate("""() => {
            const panel = document.querySelector('#jupyter-gpu-guard');
            panel.style.minWidth = '0'; // JupyterLab's own sidebar is not that narrow
            panel.style.width = '200px';
            return [panel.clientWidth, panel.scrollWidth];
        }""")
        assert (width, needed) == (200, 200), direction


def test_everybody_can_read_it(lab: Lab) -> None:
    """In light, dark and high contrast axe finds nothing serious; keys reach all; it fits 200 pixels, mirrored too."""
    with browsing() as page:
        page.emulate_media(reduced_motion="reduce")
        reports = FakeReports(page, lab.report())
        page.goto(f"{lab.url}lab?token={TOKEN}&reset")
        Notebook(page, "work/train.ipynb")
        open_panel(page)
        page.add_script_tag(path=str(AXE))
        panel = page.get_by_role("region", name="GPU Guard")
        row = panel.get_by_role("listitem", name="work/train.ipynb")
        row.get_by_role("button", name="Why? train.ipynb").click()
        page.evaluate("window.jupyterapp.commands.execute('gpu-guard:open-history').then(() => null)")
        history = page.get_by_role("region", name="GPU history")
        expect(history.get_by_role("img").first).to_be_visible()
        page.evaluate("""() => { // beside the notebook, so that both are seen
            const shell = window.jupyterapp.shell;
            const ours = ({node}) => node.matches(':has(.jp-GpuGuard-History)');
            const history = [...shell.widgets('main')].find(ours);
            shell.add(history, 'main', {mode: 'split-bottom'});
        }""")

        # A warning that stands, and what was done to an earlier kernel: a toast and a banner.
        reports.warned()
        toast = page.get_by_role("alert").filter(has_text="It is shut down in")
        banner = page.get_by_role("status").filter(has_text="The kernel of train.ipynb was shut down at")
        badge = page.get_by_role("button", name=re.compile("GPU memory held by train.ipynb"))
        for part in (toast, banner, badge):
            expect(part).to_be_visible()

        status = page.get_by_test_id("gpu-guard-status")
        for theme in ("JupyterLab Light", "JupyterLab Dark", "JupyterLab Dark High Contrast"):
            page.evaluate(
                "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme}).then(() => null)", theme
            )
            expect(page.locator("body")).to_have_attribute("data-jp-theme-name", theme)
            page.wait_for_function("document.fonts.status === 'loaded'")
            for part in (panel, history, status, toast, banner, badge):
                assert _serious(part) == [], (theme, part)
            picture(page, f"everywhere-{theme.rpartition('JupyterLab ')[2].lower().replace(' ', '-')}")
        reports.answer = None
        expect(toast).to_have_count(0)

        # The questions too.
        row.get_by_role("button", name="Shut down train.ipynb").click()
        question = page.get_by_role("dialog").filter(has_text="Shut down train.ipynb?")
        expect(question).to_be_visible()
        assert _serious(question) == []
        page.keyboard.press("Escape")
        expect(question).to_have_count(0)

        # By keys alone: to the row's buttons, and through the menu of Keep.
        keep = row.get_by_role("button", name="Keep train.ipynb")
        keep.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("menuitem", name="Keep train.ipynb for 30 min")).to_be_visible()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(row.get_by_role("button", name="Stop keeping train.ipynb")).to_be_visible()

        # Nothing of ours moves by itself, and nothing is wider than the panel.
        moving = "document.querySelector('#jupyter-gpu-guard').getAnimations({subtree: true}).length"
        assert page.evaluate(moving) == 0
        _fits(page)
        picture(page, "narrow-mirrored")


def test_it_speaks_chinese(lab: Lab) -> None:
    """With JupyterLab in Chinese, all of ours is: panel, history, status bar, menus, warnings and the settings page."""
    language = lab.folder / "settings/@jupyterlab/translation-extension/plugin.jupyterlab-settings"
    language.parent.mkdir(parents=True, exist_ok=True)
    language.write_text('{"locale": "zh_CN"}', encoding="utf-8")
    try:
        with browsing() as page:
            page.emulate_media(reduced_motion="reduce")
            reports = FakeReports(page, lab.report())
            reports.warned()
            page.goto(f"{lab.url}lab?token={TOKEN}&reset")
            Notebook(page, "work/train.ipynb")
            open_panel(page)
            panel = page.get_by_role("region", name="GPU 守护")
            row = panel.get_by_role("listitem", name="work/train.ipynb")
            row.get_by_role("button", name="为什么？train.ipynb").click()
            warning = page.get_by_role("alert").filter(has_text="train.ipynb 占用 6.0 GiB GPU")
            expect(warning.get_by_role("button", name="保留 1 小时")).to_be_visible()
            banner = page.get_by_role("status").filter(has_text="train.ipynb 的内核已于")
            expect(banner).to_be_visible()
            picture(page, "everywhere-chinese")
            english = page.get_by_test_id("gpu-guard-panel").evaluate(
                "panel => panel.innerText.split('\\n').filter(line => /[a-z]{3,} [a-z]{3,}/.test(line))"
            )
            assert english == []

            page.evaluate("window.jupyterapp.commands.execute('settingeditor:open', {query: 'GPU'}).then(() => null)")
            page.get_by_role("tab", name="GPU 守护", exact=True).click()
            for words in ("GPU 侧边栏显示什么，以及多久查看一次。", "在状态栏中显示", "通知提示和消息"):
                expect(page.get_by_text(words).first).to_be_visible()
            picture(page, "settings-chinese")
    finally:
        language.unlink()
