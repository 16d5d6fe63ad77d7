"""Where else the guard shows: toolbar, menus, what runs, history; and that it is light, also with several tabs."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Request, expect

from tests.driver import StandIn

from .browser import Notebook, browsing, open_page, open_panel, wait_for_lab
from .lab import GPU, TOKEN, Lab, until

pytestmark = pytest.mark.browser

BINDINGS = "window.jupyterapp.commands.keyBindings"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A server on which two notebooks hold GPU memory, and which ends nothing."""
    folder = tmp_path_factory.mktemp("everywhere")
    with Lab(folder / "lab", driver=StandIn(folder / "driver"), policy=None) as running:
        for path, hold in (("work/large.ipynb", "6 GiB"), ("work/small.ipynb", "2 GiB")):
            kernel = running.start_kernel(path)
            kernel.run(GPU + f"gpu.hold('{hold}')")
            until(lambda kernel=kernel: (h := running.holder(kernel.id)) and h["memory_bytes"], "the row")
            kernel.close()
        yield running


def _command(page: Page, command: str) -> None:
    page.evaluate("command => { window.jupyterapp.commands.execute(command); }", command)


def _writes_layout(request: Request) -> bool:
    """Whether JupyterLab writes down, a little later than it changes, where everything stands; with our history."""
    return (
        request.method == "PUT"
        and "api/workspaces" in request.url
        and (request.post_data or "").count("gpu-guard-history") > 1
    )


def _menu(page: Page) -> list[str]:
    labels = page.locator(".lm-Menu:not(.lm-MenuBar-menu)").get_by_role("menuitem").all_inner_texts()
    return [label.split("\t")[0] for label in labels]


def test_toolbar_menus_running_and_history(lab: Lab) -> None:
    """From the toolbar, tabs, files and what runs one gets at the same owner; the history is there after a reload."""
    with open_page(lab, "lab") as page:
        panel = page.get_by_test_id("gpu-guard-panel")
        Notebook(page, "work/large.ipynb")

        # Keys open it, and they are nobody else's.
        page.evaluate("window.jupyterapp.shell.collapseRight()")
        expect(panel).to_be_hidden()
        page.wait_for_function(f"{BINDINGS}.some(({{command}}) => command === 'gpu-guard:open')")
        page.keyboard.press("Control+Alt+g")
        expect(panel).to_be_visible()
        same = page.evaluate(
            f"""() => {{
                const ours = {BINDINGS}.find(({{command}}) => command === 'gpu-guard:open').keys.join();
                return {BINDINGS}.filter(({{keys}}) => keys.join() === ours).map(({{command}}) => command);
            }}"""
        )
        assert same == ["gpu-guard:open"]

        # The notebook's own toolbar says what it holds, and leads to its row.
        badge = page.get_by_role("button", name=re.compile("GPU memory held by large.ipynb: 6.0 GiB"))
        expect(badge).to_have_text("GPU 6.0 GiB")
        badge.click()
        row = panel.get_by_role("listitem", name="work/large.ipynb")
        expect(row.get_by_role("button", name="Why? large.ipynb")).to_have_attribute("aria-expanded", "true")

        # The tab and the file browser offer the same.
        page.get_by_role("tab", name="large.ipynb").first.click(button="right")
        expect(page.get_by_role("menuitem", name="Keep on GPU…")).to_be_visible()
        assert "Shut down and free GPU memory" in _menu(page)
        page.get_by_role("menuitem", name="Keep on GPU…").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("combobox").select_option("2 h")
        dialog.get_by_role("button", name="Keep").click()
        expect(row.get_by_role("button", name="Stop keeping large.ipynb")).to_be_visible()
        page.evaluate("window.jupyterapp.commands.execute('filebrowser:open-path', {path: 'work'}).then(() => null)")
        page.get_by_role("listitem", name=re.compile("small.ipynb")).first.click(button="right")
        expect(page.get_by_role("menuitem", name="Shut down and free GPU memory")).to_be_visible()
        page.keyboard.press("Escape")

        # Among what runs, the largest comes first.
        page.evaluate("window.jupyterapp.shell.activateById('jp-running-sessions')")
        running = page.get_by_role("treeitem").filter(has_text="GiB")
        expect(running).to_have_count(2)
        expect(running.first).to_contain_text("large.ipynb")
        running.nth(1).click(button="right")
        page.get_by_role("menuitem", name="Shut down and free GPU memory").click()
        question = page.get_by_role("dialog").filter(has_text="Shut down small.ipynb?")
        question.get_by_role("button", name="Cancel").click()

        # The history opens in the main area, and is there again after a reload.
        with page.expect_response(lambda response: _writes_layout(response.request)):
            _command(page, "gpu-guard:open-history")
        history = page.get_by_role("region", name="GPU history")
        expect(history.get_by_role("img", name=re.compile("GPU 0, memory: now [0-9.]+ GiB, highest"))).to_be_visible()
        expect(history.get_by_role("img", name=re.compile("small.ipynb, memory: now 2.0 GiB"))).to_be_visible()
        page.goto(f"{lab.url}lab")
        wait_for_lab(page)
        expect(history.get_by_role("img", name=re.compile("GPU 0, memory: now [0-9.]+ GiB"))).to_be_visible()
        history.get_by_role("button", name="small.ipynb").click()
        why = panel.get_by_role("button", name="Why? small.ipynb")
        expect(why).to_have_attribute("aria-expanded", "true")


def _reports_asked_for(page: Page) -> list[str]:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "gpu-guard/api/v1/report" in request.url else None)
    return asked


def test_tabs_share_one_poll(lab: Lab) -> None:
    """Two tabs with the sidebar open ask together about as often as one, and when one is closed the other goes on."""
    settings = lab.folder / "settings/jupyter-gpu-guard/plugin.jupyterlab-settings"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text('{"pollSeconds": 2}', encoding="utf-8")
    with browsing() as first:
        first.goto(f"{lab.url}lab/workspaces/one?token={TOKEN}&reset")
        open_panel(first)
        second = first.context.new_page()
        second.goto(f"{lab.url}lab/workspaces/two?reset")
        open_panel(second)
        expect(second.get_by_test_id("gpu-guard-row")).to_have_count(2)
        asked = [_reports_asked_for(page) for page in (first, second)]
        second.wait_for_timeout(12_000)  # six turns of two seconds
        assert 3 <= sum(len(urls) for urls in asked) <= 8, asked  # twelve if each asked for itself
        first.close()
        before = len(asked[1])
        second.wait_for_timeout(6_000)
        assert len(asked[1]) > before
