"""A real Chromium on a real JupyterLab."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

from .lab import TOKEN, Lab

OUTPUT = Path(__file__).parents[1] / "output"
PATIENCE_MS = 60_000
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_PLACES = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")


def chromium() -> str:
    """The browser's path: $CHROMIUM, or where Debian puts it."""
    for place in (os.environ.get("CHROMIUM", ""), *_PLACES):
        if place and Path(place).exists():
            return place
    raise AssertionError("the browser tests need Chromium: scripts/chromium.sh installs it")


@contextmanager
def browsing(*, width: int = 1400, height: int = 900, ignore_https_errors: bool = False) -> Iterator[Page]:
    """An empty page in a browser of its own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        try:
            viewport: ViewportSize = {"width": width, "height": height}
            context = browser.new_context(viewport=viewport, ignore_https_errors=ignore_https_errors)
            page = context.new_page()
            page.set_default_timeout(PATIENCE_MS)
            expect.set_options(timeout=PATIENCE_MS)
            yield page
        finally:
            browser.close()


@contextmanager
def open_page(lab: Lab, path: str, *, width: int = 1400, height: int = 900) -> Iterator[Page]:
    """A page of `lab` at `path`, in a browser of its own."""
    with browsing(width=width, height=height) as page:
        page.goto(f"{lab.url}{path}?token={TOKEN}")
        yield page


class Notebook:
    """One notebook, by path; `opened`: the page shows it already, as in Notebook 7."""

    def __init__(self, page: Page, path: str, *, opened: bool = False) -> None:
        self._page = page
        self.path = path
        wait_for_lab(page)
        if not opened:
            page.evaluate(
                """path => window.jupyterapp.commands
                    .execute('docmanager:open', {path, factory: 'Notebook'}).then(() => null)""",
                path,
            )
        # Any widget of the page, not the current one: a layout that is being restored may activate another.
        page.wait_for_function(
            """path => [...window.jupyterapp.shell.widgets('main')].some(widget => {
                const kernel = widget.context?.path === path && widget.sessionContext?.session?.kernel;
                return kernel && kernel.connectionStatus === 'connected' && kernel.status === 'idle';
            })""",
            arg=path,
        )
        if not opened:
            self.activate()

    def activate(self) -> None:
        """Bring its tab to the front."""
        self._page.get_by_role("tab", name=self.path.rpartition("/")[2]).first.click()

    def run(self, code: str) -> None:
        """Type `code` into the last cell and run it."""
        cell = self._page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell").last
        cell.locator(".cm-content").click()
        self._page.keyboard.insert_text(code)
        self._page.keyboard.press("Shift+Enter")

    def kernel_id(self) -> str | None:
        """The id of its kernel now, if it has one."""
        found = self._page.evaluate(
            """path => {
                for (const widget of window.jupyterapp.shell.widgets('main')) {
                    if (widget.context?.path === path) { return widget.sessionContext?.session?.kernel?.id ?? null; }
                }
                return null;
            }""",
            self.path,
        )
        return None if found is None else str(found)


def wait_for_lab(page: Page) -> None:
    """Until the application has started and put its layout back."""
    page.wait_for_function("window.jupyterapp !== undefined")
    page.evaluate("window.jupyterapp.restored.then(() => null)")
    page.wait_for_selector("#jupyterlab-splash", state="detached")


def open_panel(page: Page) -> None:
    """Show the sidebar."""
    wait_for_lab(page)
    page.evaluate("window.jupyterapp.shell.activateById('jupyter-gpu-guard')")
    expect(page.get_by_test_id("gpu-guard-panel")).to_be_visible()


def picture(page: Page, name: str) -> None:
    """Keep a screenshot in tests/output, where people look at it and `make screenshots` takes it from."""
    OUTPUT.mkdir(exist_ok=True)
    page.wait_for_timeout(1000)  # notifications slide in
    page.screenshot(path=str(OUTPUT / f"{name}.png"))
