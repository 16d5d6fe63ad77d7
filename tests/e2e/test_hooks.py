"""Hooks of a real server without any page: a command that is told, and one that hangs while the server ends."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.driver import StandIn

from .lab import GPU, QUICK_POLICY, Lab, start_ticks, until

PATIENT = QUICK_POLICY.replace("undelivered: 12s", "undelivered: never")
NOTE = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + chr(10))"
HANG = "import os, sys, time; print(os.getpid(), file=open(sys.argv[1], 'a'), flush=True); time.sleep(600)"


def _command(code: str, target: Path) -> tuple[str, ...]:
    return tuple(f"--GpuGuard.notify_command={word}" for word in (sys.executable, "-I", "-c", code, str(target)))


def _told(target: Path) -> list[Any]:
    return [json.loads(line) for line in target.read_text("utf-8").splitlines()] if target.exists() else []


def test_a_command_tells_whoever_has_closed_the_tab(driver: StandIn, tmp_path: Path) -> None:
    """The warning is delivered by it, once; then the notice runs, and it is told what came of it."""
    target = tmp_path / "told"
    with Lab(tmp_path / "lab", driver=driver, policy=PATIENT, options=_command(NOTE, target)) as lab:
        kernel = lab.start_kernel("work/closed.ipynb")
        kernel.run(GPU + "gpu.hold('3 GiB')")
        notice = until(lambda: (n := lab.notice(kernel.id)) and n["reached"] and n, "the delivered warning")
        assert notice["reached"] == ["command"]
        outcome = until(lambda: lab.outcome(kernel.id), "the shutdown")
        assert outcome["result"] == "done"
        assert outcome["at"] >= notice["deadline"]
        until(lambda: len(_told(target)) > 1, "the second message")
        warning, ending = _told(target)
        assert (warning["about"], ending["about"], ending["result"]) == ("warning", "outcome", "done")
        assert warning["owner"] == ending["owner"] == f"kernel:{kernel.id}"
        assert warning["notebook"] == "work/closed.ipynb"
        assert warning["memory_bytes"] == 3 * 2**30
        assert warning["given_at"] < warning["deadline"] <= notice["deadline"]
        assert warning["link"].startswith(lab.url)
        assert lab.token not in json.dumps([warning, ending])
        assert lab.health()["problems"] == []


def test_a_hook_that_hangs_holds_up_neither_looks_nor_the_end(driver: StandIn, tmp_path: Path) -> None:
    """The server goes on looking and ends in time, and the command ends with it."""
    target = tmp_path / "pids"
    lab = Lab(tmp_path / "lab", driver=driver, policy=PATIENT, options=_command(HANG, target))
    with lab:
        kernel = lab.start_kernel("a.ipynb")
        kernel.run(GPU + "gpu.hold('3 GiB')")
        until(target.exists, "the command to start")
        ticks = lab.health()["ticks"]
        until(lambda: lab.health()["ticks"] > ticks + 3, "more looks")
        assert lab.notice(kernel.id)["undelivered"]
        assert lab.stop() == 0  # it need not be killed
    pids = [int(line) for line in target.read_text("utf-8").split()]
    assert pids
    until(lambda: all(start_ticks(pid) is None for pid in pids), "the command to end")
