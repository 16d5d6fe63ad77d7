"""The main job with no tab open: a real server, real kernels, the real pynvml over the driver's stand-in."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.driver import GpuProgram, StandIn

from .lab import GPU, QUICK_POLICY, Kernel, Lab, quoted, start_ticks, until


def _hold(kernel: Kernel, gib: float) -> None:
    kernel.run(GPU + f"gpu.hold('{gib} GiB')")


def test_idle_memory_comes_back_and_work_lives(lab: Lab, driver: StandIn) -> None:
    """An idle kernel is warned, then ended, and its memory freed; one that computes in waves lives through it all."""
    idle, working = lab.start_kernel("work/idle.ipynb"), lab.start_kernel("work/waves.ipynb")
    _hold(working, 3)
    working.run("gpu.wave(90, 2, 0, 3)")
    born = start_ticks(working.pid)
    _hold(idle, 6)
    idle.run("gpu.compute(90, 3)")

    row = until(lambda: (h := lab.holder(idle.id)) and h["memory_bytes"] and h, "the row")
    assert row["notebook"] == "work/idle.ipynb"
    assert row["memory_bytes"] == 6 * 2**30
    until(lambda: (lab.holder(idle.id)["compute_percent"] or 0) > 5, "the compute to show")

    notice = until(lambda: lab.notice(idle.id), "the warning")
    assert notice["notebook"] == "work/idle.ipynb"
    assert notice["next_action"] == "shutdown"
    outcome = until(lambda: lab.outcome(idle.id), "the shutdown")
    assert outcome["result"] == "done"
    assert outcome["freed_bytes"] == 6 * 2**30
    assert outcome["at"] >= notice["deadline"]
    assert start_ticks(idle.pid) is None
    assert lab.kernel_ids() == [working.id]
    until(lambda: lab.report()["devices"][0]["memory_used_bytes"] < 4 * 2**30, "the memory to be free")

    assert start_ticks(working.pid) == born
    assert working.run("print(6 * 7)") == "42"
    assert lab.notice(working.id) is None
    assert lab.outcome(working.id) is None


def test_keep_postpones_the_shutdown(lab: Lab) -> None:
    """While a lease holds nothing happens; it has limits; once it ends the warning comes anew, with the full notice."""
    kernel = lab.start_kernel("kept.ipynb")
    _hold(kernel, 2)
    first = until(lambda: lab.notice(kernel.id), "the warning")
    keep = f"gpu-guard/api/v1/owners/{quoted('kernel:' + kernel.id)}/keep"

    status, refusal = lab.request("POST", keep, {"seconds": 9 * 3600})
    assert (status, "8 h" in refusal["message"]) == (400, True)
    status, lease = lab.request("POST", keep, {"seconds": 3600, "reason": "lunch"})
    assert status == 200
    assert lease["reason"] == "lunch"
    until(lambda: lab.report()["taken_at"] > first["deadline"], "the promised deadline to pass")
    holder = lab.holder(kernel.id)
    assert holder["verdict"]["reasons"][0]["code"] == "leased"
    assert holder["protections"] == ["leased"]
    assert lab.notice(kernel.id) is None

    assert lab.request("DELETE", keep)[0] == 204
    second = until(lambda: lab.notice(kernel.id), "the second warning")
    assert second["id"] != first["id"]
    outcome = until(lambda: lab.outcome(kernel.id), "the shutdown")
    assert outcome["at"] >= second["deadline"] > first["deadline"]


def test_a_child_in_a_session_of_its_own_goes_with_its_notebook(lab: Lab, driver: StandIn, tmp_path: Path) -> None:
    """What a child in another session that ignores SIGTERM holds is the notebook's; a stranger is not touched."""
    stranger = GpuProgram(driver.folder)
    try:
        stranger.run("gpu.hold('20 GiB')")
        born = start_ticks(stranger.pid)
        kernel = lab.start_kernel("parent.ipynb")
        child = tmp_path / "child.py"
        child.write_text(
            "import signal, time\n" + GPU + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
            "gpu.hold('3 GiB'); print('ready', flush=True); time.sleep(600)\n"
        )
        code = (
            "import subprocess, sys\n"
            f"child = subprocess.Popen([sys.executable, {str(child)!r}], start_new_session=True, stdout=-1)\n"
            "child.stdout.readline(); print(child.pid)"
        )
        pid = int(kernel.run(code))
        row = until(lambda: (h := lab.holder(kernel.id)) and h["memory_bytes"] and h, "the row")
        assert row["memory_bytes"] == 3 * 2**30
        assert [p["pid"] for p in row["holdings"][0]["processes"]] == [pid]
        strangers = lab.report()["strangers"]
        assert [(s["processes"], s["memory_bytes"]) for s in strangers] == [(1, 20 * 2**30)]

        outcome = until(lambda: lab.outcome(kernel.id), "the shutdown")
        assert (outcome["result"], outcome["freed_bytes"]) == ("done", 3 * 2**30)
        assert start_ticks(pid) is None
        assert start_ticks(kernel.pid) is None
        assert start_ticks(stranger.pid) == born
    finally:
        stranger.bury()


def test_bad_requests_name_the_remedy(lab: Lab) -> None:
    """An unknown owner is a 404 with a sentence; malformed bodies are a 400 that shows what would be right."""
    api = "gpu-guard/api/v1"
    for method, path in [
        ("GET", f"{api}/explain/kernel%3Anone"),
        ("POST", f"{api}/owners/kernel%3Anone/keep"),
        ("POST", f"{api}/owners/kernel%3Anone/shutdown"),
        ("DELETE", f"{api}/owners/nonsense/keep"),
        ("GET", f"{api}/no-such-thing"),
    ]:
        status, body = lab.request(method, path, {} if method == "POST" else None)
        assert status == 404, path
        assert len(body["message"]) > 20, path
    kernel = lab.start_kernel("asked.ipynb")
    until(lambda: lab.holder(kernel.id), "the row")
    keep = f"{api}/owners/{quoted('kernel:' + kernel.id)}/keep"
    for body in (
        {},
        {"seconds": "soon"},
        {"seconds": -1},
        {"seconds": 1e300},
        {"seconds": 60, "why": "?"},
        [1],
        {"seconds": True},
    ):
        status, refusal = lab.request("POST", keep, body)
        assert status == 400, body
        assert "seconds" in refusal["message"], body
    for reason in ("x" * 201, "two\nlines", "\x1b[31mred"):
        status, refusal = lab.request("POST", keep, {"seconds": 60, "reason": reason})
        assert (status, refusal["message"].startswith("reason: ")) == (400, True)


def test_a_person_may_shut_down_at_once_in_any_mode(tmp_path: Path, driver: StandIn) -> None:
    """In observe nothing is ended by itself, however long idle; a person's own request is carried out and recorded."""
    policy = QUICK_POLICY.replace("enforce", "observe").replace("8s", "2s").replace("12s", "2s")
    with Lab(tmp_path / "lab", driver=driver, policy=policy) as lab:
        kernel = lab.start_kernel("observed.ipynb")
        _hold(kernel, 2)
        rehearsed = until(lambda: lab.outcome(kernel.id), "the rehearsal")
        assert rehearsed["result"] == "rehearsed"
        assert lab.report()["notices"] == []
        time.sleep(2)
        assert start_ticks(kernel.pid) is not None
        path = f"gpu-guard/api/v1/owners/{quoted('kernel:' + kernel.id)}/shutdown"
        status, outcome = lab.request("POST", path)
        assert status == 200
        assert (outcome["result"], outcome["freed_bytes"]) == ("done", 2 * 2**30)
        assert outcome["by"]
        assert lab.kernel_ids() == []


def test_status_and_explain_from_a_shell(lab: Lab) -> None:
    """`jupyter gpu-guard status` finds the running server and shows the same rows as the report."""
    kernel = lab.start_kernel("shell.ipynb")
    _hold(kernel, 2)
    until(lambda: (h := lab.holder(kernel.id)) and h["memory_bytes"], "the row")
    for arguments in (["status"], ["status", "--json"], ["explain", "shell.ipynb"]):
        command = [sys.executable, "-m", "jupyter_gpu_guard", *arguments]
        done = subprocess.run(command, env=lab.environment(), capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert "shell.ipynb" in done.stdout
        assert "let-the-tests-in" not in done.stdout + done.stderr
