"""The audit of a real server: a cull, a keep, a crash in mid act, and what must never stand in it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from tests.driver import StandIn

from .lab import GPU, QUICK_POLICY, Lab, quoted, start_ticks, until

SECRET = "hunter2-in-an-argument"
POLICY = QUICK_POLICY.replace("keep: {longest: 8h}", "keep: {longest: 8h, per_day: 1, reason: required}")


def _entries(lab: Lab, owner: str, *kinds: str) -> list[Any]:
    found = lab.get(f"gpu-guard/api/v1/audit?since=1h&owner={quoted(owner)}")["entries"]
    return [entry for entry in found if not kinds or entry["kind"] in kinds]


def _deaf_child(folder: Path) -> str:
    """Code that starts a child with a secret in its arguments, which holds memory and is deaf to signals."""
    child = folder / "child.py"
    child.write_text(
        "import signal, time\n" + GPU + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "gpu.hold('2 GiB'); print('ready', flush=True); time.sleep(600)\n"
    )
    return (
        "import subprocess, sys, os\n"
        f"environment = {{**os.environ, 'API_KEY': {SECRET!r}}}\n"
        f"child = subprocess.Popen([sys.executable, {str(child)!r}, '--key={SECRET}'], start_new_session=True,"
        " stdout=-1, env=environment)\n"
        "child.stdout.readline(); print(child.pid)"
    )


def test_a_server_that_is_killed_in_mid_cull(tmp_path: Path, driver: StandIn) -> None:
    """The next server says that the outcome is not known; a keep is there with its reason; a secret is nowhere."""
    child = None
    try:
        with Lab(tmp_path / "lab", driver=driver, policy=POLICY, grace=600) as lab:
            kept = lab.start_kernel("kept.ipynb")
            kept.run(GPU + "gpu.hold('1 GiB')")
            _keep_within_limits(lab, f"kernel:{kept.id}")
            kernel = lab.start_kernel("parent.ipynb")
            child = int(kernel.run(_deaf_child(tmp_path)))
            tree = {kernel.pid, child}
            until(lambda: f"SIGTERM to pid {child}: sent" in lab.log.read_text(), "the act to begin")
            until(lambda: _entries(lab, f"kernel:{kept.id}", "spared"), "the other to be spared")
            os.kill(lab.pid, signal.SIGKILL)
        with Lab(tmp_path / "lab", driver=driver, policy=POLICY) as lab:
            (ended,) = until(lambda: _entries(lab, f"kernel:{kernel.id}", "outcome"), "the act to be closed")
            (begun,) = _entries(lab, f"kernel:{kernel.id}", "begun")
            assert (ended["result"], ended["act"], ended["rule"]) == ("unknown", begun["act"], "default")
            assert tree <= {process["pid"] for process in begun["processes"]}
            assert begun["grounds"]["window"]["began"] < begun["grounds"]["window"]["at"]
            outcome = until(lambda: lab.outcome(kernel.id), "the report to show it")
            assert outcome["result"] == "unknown"
            (spared,) = _entries(lab, f"kernel:{kept.id}", "spared")
            assert "long read" in spared["reasons"][0]["text"]
            kinds = [e["kind"] for e in lab.get("gpu-guard/api/v1/audit?since=1h")["entries"]]
            assert kinds.count("started") == 2
            _assert_nowhere(lab, tmp_path)
    finally:
        if child is not None and start_ticks(child) is not None:
            os.kill(child, signal.SIGKILL)


def _keep_within_limits(lab: Lab, owner: str) -> None:
    """A reason is wanted, and once a day is the limit; more is for an administrator."""
    until(lambda: any(holder["owner"] == owner for holder in lab.report()["holders"]), "the row")
    address = f"gpu-guard/api/v1/owners/{quoted(owner)}/keep"
    status, refusal = lab.request("POST", address, {"seconds": 600})
    assert (status, "reason" in refusal["message"]) == (400, True)
    assert lab.request("POST", address, {"seconds": 600, "reason": "long read"})[0] == 200
    status, refusal = lab.request("POST", address, {"seconds": 600, "reason": "longer read"})
    assert (status, "once in 24 hours" in refusal["message"]) == (403, True)
    row = until(lambda: (h := lab.holder(owner.partition(":")[2])) and h["keeps_left"] == 0 and h, "none to be left")
    assert row["keep_needs_reason"] is True
    assert row["lease"]["reason"] == "long read"


def _assert_nowhere(lab: Lab, folder: Path) -> None:
    """The secret stands neither in the audit, nor in the log, nor in any answer."""
    state = folder / "lab/data/gpu-guard"
    files = [path for path in state.rglob("*") if path.is_file()]
    assert any(path.suffix == ".jsonl" for path in files)
    assert all(SECRET not in path.read_text(encoding="utf-8") for path in files)
    answers = [lab.report(), lab.health(), lab.get("gpu-guard/api/v1/audit")]
    assert SECRET not in json.dumps(answers)
    # The server's own log shows requests, never what a kernel was told to run.
    assert SECRET not in lab.log.read_text()
