"""What the sidebar costs a browser: scripting for one update with so many rows, and the size of the bundle.

A real JupyterLab in a real Chromium; its reports are made up, and all figures of all rows change with each. Nothing
passes or fails.
"""

from __future__ import annotations

import copy
import gzip
import json
import statistics
import sys
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import click
from playwright.sync_api import CDPSession, Page, Route, expect

from tests.driver import StandIn
from tests.e2e.browser import browsing, open_panel
from tests.e2e.lab import GPU, TOKEN, Lab, until

BUNDLE = Path(__file__).parents[1] / "jupyter_gpu_guard/labextension/static"
GIB = 2**30
METRICS = ("ScriptDuration", "RecalcStyleDuration", "LayoutDuration", "TaskDuration")


class FakeReports:
    """A report with `rows` notebooks on `devices` devices, other than the one before at each call."""

    def __init__(self, real: dict[str, Any], rows: int) -> None:
        self._real = real
        self._rows = rows
        self._turn = 0

    def fulfil(self, route: Route) -> None:
        """Answer one request."""
        self._turn += 1
        route.fulfill(body=json.dumps(self.next()), content_type="application/json")

    def next(self) -> dict[str, Any]:
        """The report of this turn."""
        (model,) = self._real["holders"]
        holders = []
        for number in range(self._rows):
            holder = copy.deepcopy(model)
            path = f"work/project-{number:03}/training.ipynb"
            memory = (1 + number % 70) * GIB + self._turn * 2**20 * 64
            holder.update(owner=f"kernel:{number:03}", name="training.ipynb", notebook=path, memory_bytes=memory)
            holder["compute_percent"] = float((number * 7 + self._turn) % 100)
            holder["idle_seconds"] = float(60 * number + 5 * self._turn)
            holder["history"] = {
                "compute_percent": [float((number + minute * 13 + self._turn) % 100) for minute in range(60)],
                "memory_bytes": [float(memory)] * 60,
            }
            for holding in holder["holdings"]:
                holding.update(memory_bytes=memory, compute_percent=holder["compute_percent"])
            holders.append(holder)
        now = datetime.now(timezone.utc) + timedelta(seconds=self._turn)
        return {**self._real, "taken_at": now.isoformat(), "holders": holders}


def _read(session: CDPSession) -> dict[str, float]:
    return {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}


REFRESH = "window.jupyterapp.commands.execute('gpu-guard:refresh').then(() => null)"
NOTHING = "Promise.resolve(null)"  # what the measuring and the rest of the page cost


def _measured(page: Page, times: int, script: str) -> dict[str, list[float]]:
    """Milliseconds of each run of `script` with what is drawn after it, by metric."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    taken: dict[str, list[float]] = {name: [] for name in METRICS}
    for _ in range(times):
        before = _read(session)
        page.evaluate(script)
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(null))))")
        after = _read(session)
        for name in METRICS:
            taken[name].append((after[name] - before[name]) * 1000)
    return taken


def _size(bundle: Path) -> int:
    """Bytes of all scripts of the extension, each gzipped as a server would."""
    return sum(len(gzip.compress(path.read_bytes())) for path in bundle.glob("*.js"))


@click.command()
@click.option("--rows", default=200, show_default=True)
@click.option("--updates", default=40, show_default=True)
@click.option("--bundle", type=click.Path(path_type=Path), default=BUNDLE, help="the folder of the built scripts")
def main(rows: int, updates: int, bundle: Path) -> None:
    """Print both."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Lab(folder / "lab", driver=StandIn(folder / "driver"), policy=None) as lab:
            kernel = lab.start_kernel("model.ipynb")
            kernel.run(GPU + "gpu.hold('6 GiB')")
            until(lambda: (h := lab.holder(kernel.id)) and h["memory_bytes"], "the row")
            kernel.close()
            reports = FakeReports(lab.report(), rows)
            with browsing() as page:
                page.route("**/gpu-guard/api/v1/report*", reports.fulfil)
                page.goto(f"{lab.url}lab?token={TOKEN}&reset")
                open_panel(page)
                expect(page.get_by_test_id("gpu-guard-row")).to_have_count(rows)
                _measured(page, 5, REFRESH)  # until the browser has compiled what is run often
                taken, idle = _measured(page, updates, REFRESH), _measured(page, updates, NOTHING)
    print(f"{rows} rows, {updates} updates, all rows changed; milliseconds, median (least to most), and without update")
    for metric in METRICS:
        values, rest = taken[metric], statistics.median(idle[metric])
        middle = statistics.median(values)
        print(f"  {metric:22}{middle:8.1f}  ({min(values):.1f} to {max(values):.1f}){rest:8.1f}")
    print(f"bundle, gzipped: {_size(bundle) / 1000:.1f} kB")


if __name__ == "__main__":
    sys.exit(main())
