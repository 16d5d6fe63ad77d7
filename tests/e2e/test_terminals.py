"""What runs in terminals, with real shells on one real server under a quick policy."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import websocket

from tests.driver import StandIn

from .lab import QUICK_POLICY, TOKEN, Lab, quoted, start_ticks, until


class Terminal:
    """One terminal, used as a page does."""

    def __init__(self, lab: Lab) -> None:
        status, model = lab.request("POST", "api/terminals")
        assert status == 200, (status, model)
        self.name = model["name"]
        self.owner = f"terminal:{self.name}"
        self._lab = lab

    def type(self, line: str, shows: str) -> str:
        """Type a line, wait for what it is to print, and close the page. Gives what was shown."""
        address = f"{self._lab.url.replace('http', 'ws')}terminals/websocket/{self.name}?token={TOKEN}"
        page = websocket.create_connection(address, timeout=60)
        shown = ""
        try:
            page.send(json.dumps(["stdin", f"{line}\r"]))
            while shows not in shown:
                kind, *words = json.loads(page.recv())
                shown += words[0] if kind == "stdout" else ""
        finally:
            page.close()
        return shown

    def row(self) -> Any | None:
        """What the report says of it."""
        return next((holder for holder in self._lab.report()["holders"] if holder["owner"] == self.owner), None)

    def notice(self) -> Any | None:
        """Its standing warning."""
        return next((notice for notice in self._lab.report()["notices"] if notice["owner"] == self.owner), None)

    def outcome(self) -> Any | None:
        """What became of it."""
        found = [outcome for outcome in self._lab.report()["outcomes"] if outcome["owner"] == self.owner]
        return found[-1] if found else None

    def is_there(self) -> bool:
        """Whether Jupyter lists it."""
        return any(terminal["name"] == self.name for terminal in self._lab.get("api/terminals"))


def job(lab: Lab, name: str, *lines: str) -> str:
    """The command that runs these lines in the background for good, deaf to a closed terminal. It notes its pid."""
    script = lab.root / f"{name}.py"
    head = ["import os, time", "from jupyter_gpu_guard.kernel import simulated_gpu as gpu"]
    tail = [f"open({name + '.pid'!r}, 'w').write(str(os.getpid()))", "time.sleep(600)"]
    script.write_text("\n".join([*head, *lines, *tail]), encoding="utf-8")
    return f"nohup {sys.executable} {script.name} >/dev/null 2>&1 &"


def pid_of(lab: Lab, name: str) -> int:
    """The pid that the job has noted."""
    note = lab.root / f"{name}.pid"
    return int(until(lambda: note.exists() and note.read_text(), f"the job {name}"))


@pytest.fixture
def lab(tmp_path: Path, driver: StandIn) -> Iterator[Lab]:
    """A server whose terminals are plain shells."""
    shell = "--ServerApp.terminado_settings={'shell_command': ['/bin/sh']}"
    with Lab(
        tmp_path / "lab", driver=driver, policy=QUICK_POLICY, options=(shell, "--GpuGuard.resting_interval=0")
    ) as running:
        yield running


def test_jobs_in_the_background_of_terminals(lab: Lab) -> None:
    """Compute keeps a terminal that shows nothing; with memory alone it is warned, and then ended with its job."""
    busy, idle, plain = Terminal(lab), Terminal(lab), Terminal(lab)
    busy.type(job(lab, "busy", "gpu.hold('5 GiB'); gpu.wave(90, 3, 0, 2)") + " echo star''ted", "started")
    idle.type(job(lab, "idle", "gpu.hold('5 GiB')") + " echo star''ted", "started")
    idle.type("nohup sleep 600 >/dev/null 2>&1 & echo $! > cpu.pid; echo ready$?", "ready0")

    row = until(lambda: (found := idle.row()) and found["memory_bytes"] and found, "the terminal's row")
    assert (row["kind"], row["name"]) == ("terminal", f"Terminal {idle.name}")
    assert row["memory_bytes"] == 5 * 2**30
    (holding,) = row["holdings"]
    assert [process["pid"] for process in holding["processes"]] == [pid_of(lab, "idle")]
    assert lab.report()["strangers"] == []

    until(idle.notice, "the warning")
    outcome = until(idle.outcome, "the end")
    assert outcome["result"] == "done"
    assert start_ticks(pid_of(lab, "idle")) is None
    assert outcome["freed_bytes"] == 5 * 2**30
    until(lambda: not idle.is_there(), "the terminal to be closed")
    # What it had started without a GPU is none of the guard's business.
    left_alone = pid_of(lab, "cpu")
    assert start_ticks(left_alone) is not None
    os.kill(left_alone, signal.SIGKILL)

    # The one that computes has shown nothing for as long, and was not even warned; nor was the one that does nothing.
    assert busy.notice() is None
    assert busy.outcome() is None
    assert start_ticks(pid_of(lab, "busy")) is not None
    assert busy.row()["memory_bytes"] == 5 * 2**30
    assert plain.is_there()
    assert plain.notice() is None
    os.kill(pid_of(lab, "busy"), signal.SIGKILL)


def test_a_detached_job_stays_with_its_terminal_and_a_person_ends_both(lab: Lab) -> None:
    """It has left its shell and its session; the button on the row ends terminal and job."""
    terminal = Terminal(lab)
    far = job(lab, "far", "gpu.hold('3 GiB')").replace("nohup", "setsid nohup")
    terminal.type(f"sh -c 'echo $$ > between.pid; {far} sleep 5' & echo star''ted", "started")
    far_pid, between = pid_of(lab, "far"), pid_of(lab, "between")
    until(lambda: start_ticks(between) is None, "its parent to have ended")
    row = until(lambda: (row := terminal.row()) and row["memory_bytes"] == 3 * 2**30 and row, "the terminal's row")
    assert [process["pid"] for process in row["holdings"][0]["processes"]] == [far_pid]
    assert lab.report()["strangers"] == []
    status, outcome = lab.request("POST", f"gpu-guard/api/v1/owners/{quoted(terminal.owner)}/shutdown", {})
    assert status == 200, outcome
    assert outcome["result"] == "done"
    assert start_ticks(far_pid) is None
    until(lambda: not terminal.is_there(), "the terminal to be closed")
    until(lambda: (row := terminal.row()) is None or not row["holdings"], "the row to go")


def test_a_server_without_terminals(tmp_path: Path, driver: StandIn) -> None:
    """Switched off, or not installed: everything else is as ever."""
    with Lab(tmp_path / "lab", driver=driver, options=("--ServerApp.terminals_enabled=False",)) as lab:
        assert lab.request("POST", "api/terminals")[0] == 404
        kernel = lab.start_kernel("a.ipynb")
        until(lambda: lab.holder(kernel.id), "the kernel's row")
        assert lab.report()["gaps"] == []
