"""A kernel that is parked, by a rule or a person, and comes back when it is used."""

from __future__ import annotations

from datetime import datetime

import pytest

pytest.importorskip("cuda.bindings", reason="cuda-bindings is not installed: pip install 'jupyter-gpu-guard[park]'")

from tests.driver import StandIn

from .lab import GPU, Lab, quoted, start_ticks, until

PARKING_POLICY = """\
version: 1
mode: enforce
defaults:
  idle: {compute_below: 5%, memory_above: 512MiB, for: 4s}
  notice: 1h
  ladder: [{do: warn}, {do: park, after: 2s}, {do: shutdown, after: 1h}]
"""
CALM_POLICY = PARKING_POLICY.replace("for: 4s", "for: 2h").replace("{do: warn}, {do: park, after: 2s}", "{do: warn}")
GIB = 2**30


def _lab(folder, driver, policy=PARKING_POLICY):
    return Lab(folder / "lab", driver=driver, policy=policy, options=("--GpuGuard.parking=True",))


def _outcome(lab, kernel, action):
    found = [o for o in lab.report()["outcomes"] if o["owner"] == f"kernel:{kernel.id}" and o["action"] == action]
    return found[-1] if found else None


def _act(lab, kernel, action):
    status, outcome = lab.request("POST", f"gpu-guard/api/v1/owners/{quoted(f'kernel:{kernel.id}')}/{action}")
    assert status == 200, outcome
    return outcome


def test_parked_by_a_rule_and_resumed_by_a_cell(tmp_path, driver: StandIn):
    """Its memory is free and its variables are there; the next cell brings it back, ends, and its clocks begin anew."""
    with _lab(tmp_path, driver) as lab:
        kernel = lab.start_kernel("train.ipynb")
        kernel.run(GPU + "weights = [1, 2, 3]\ngpu.hold('2 GiB')")
        parked = until(lambda: _outcome(lab, kernel, "park"), "it is parked")
        assert parked["result"] == "done", parked
        assert parked["freed_bytes"] == 2 * GIB
        assert (parked["rule"], parked["by"]) == ("default", None)

        row = until(lambda: (h := lab.holder(kernel.id)) and h["state"] == "parked" and h, "it is shown as parked")
        assert row["memory_bytes"] == 0
        assert row["parked"]["memory_bytes"] == 2 * GIB
        assert row["offers"] == ["resume", "shutdown"]
        assert lab.notice(kernel.id) is None
        assert "parked" in [reason["code"] for reason in row["verdict"]["reasons"]]

        assert kernel.run("gpu.hold('3 GiB'); print(sum(weights))") == "6"
        resumed = until(lambda: _outcome(lab, kernel, "resume"), "it is resumed")
        assert (resumed["result"], resumed["by"]) == ("done", "a cell that was run")
        row = until(lambda: (h := lab.holder(kernel.id)) and h["memory_bytes"] == 3 * GIB and h, "it has its memory")
        assert row["parked"] is None
        assert start_ticks(kernel.pid) is not None


def test_it_waits_for_room_and_says_who_has_it(tmp_path, driver: StandIn):
    """A person parks one, another notebook takes the device; once that gives it back, the first one goes on."""
    with _lab(tmp_path, driver, CALM_POLICY) as lab:
        kernel, other = lab.start_kernel("train.ipynb"), lab.start_kernel("other.ipynb")
        kernel.run(GPU + "gpu.hold('2 GiB')")
        until(lambda: (h := lab.holder(kernel.id)) and "park" in h["offers"], "parking is offered")
        outcome = _act(lab, kernel, "park")
        assert outcome["result"] == "done", outcome
        other.run(GPU + "gpu.hold('79 GiB')")
        kernel.begin("gpu.hold('1 GiB'); result = 42")

        def waits():
            reasons = (lab.holder(kernel.id) or {"verdict": {"reasons": []}})["verdict"]["reasons"]
            return next((reason for reason in reasons if reason["code"] == "waiting-for-room"), None)

        reason = until(waits, "it says what it waits for")
        assert reason["facts"]["held_by"] == "other.ipynb 79.0 GiB"
        assert reason["facts"]["needed_bytes"] == 2 * GIB
        told = _outcome(lab, kernel, "resume")
        assert told["result"] == "unsuited"
        assert "other.ipynb 79.0 GiB" in told["detail"]

        other.run("gpu.release()")
        until(lambda: (o := _outcome(lab, kernel, "resume")) and o["result"] == "done", "it is resumed")
        assert kernel.run("print(result)") == "42"


def test_a_parked_kernel_can_be_shut_down(tmp_path, driver: StandIn):
    """By a person, and with the server: nothing hangs."""
    with _lab(tmp_path, driver, CALM_POLICY) as lab:
        first, second = lab.start_kernel("first.ipynb"), lab.start_kernel("second.ipynb")
        for kernel in (first, second):
            kernel.run(GPU + "gpu.hold('1 GiB')")
            until(lambda kernel=kernel: "park" in (lab.holder(kernel.id) or {"offers": ()})["offers"], "it is offered")
            assert _act(lab, kernel, "park")["result"] == "done"
        assert _act(lab, first, "shutdown")["result"] == "done"
        assert start_ticks(first.pid) is None
        assert lab.stop() == 0
        assert start_ticks(second.pid) is None


def test_parking_is_off_by_default(lab: Lab):
    """It is not offered, and whoever asks is told how to allow it."""
    kernel = lab.start_kernel("train.ipynb")
    kernel.run(GPU + "gpu.hold('1 GiB')")
    row = until(lambda: (h := lab.holder(kernel.id)) and h["memory_bytes"] and h, "it is seen")
    assert "park" not in row["offers"]
    outcome = _act(lab, kernel, "park")
    assert outcome["result"] == "unsuited"
    assert "c.GpuGuard.parking" in outcome["detail"]


def test_what_the_driver_does_not_bring_back_stays_parked(tmp_path, driver: StandIn):
    """It is said; nothing is lost, and the next try succeeds. Its clocks begin anew then."""
    with _lab(tmp_path, driver, CALM_POLICY) as lab:
        kernel = lab.start_kernel("train.ipynb")
        kernel.run(GPU + "weights = [1, 2, 3]\ngpu.hold('1 GiB')")
        until(lambda: ((lab.holder(kernel.id) or {}).get("idle_seconds") or 0) > 10, "it has been idle for a while")
        assert _act(lab, kernel, "park")["result"] == "done"
        driver.fault("global cuda_error 2 cuCheckpointProcessRestore")
        outcome = _act(lab, kernel, "resume")
        assert outcome["result"] == "failed"
        assert "it stays parked, and nothing is lost" in outcome["detail"]
        until(lambda: (h := lab.holder(kernel.id)) and h["state"] == "parked", "it is shown as parked")

        driver.fault()
        outcome = _act(lab, kernel, "resume")
        assert outcome["result"] == "done", outcome

        def back():
            report = lab.report()
            (row,) = (row for row in report["holders"] if row["owner"] == f"kernel:{kernel.id}")
            return report if row["memory_bytes"] == GIB and row["idle_seconds"] is not None else None

        report = until(back, "it has its memory")
        since = datetime.fromisoformat(report["taken_at"]) - datetime.fromisoformat(outcome["at"])
        (row,) = (row for row in report["holders"] if row["owner"] == f"kernel:{kernel.id}")
        assert row["idle_seconds"] <= since.total_seconds() + 1
        assert kernel.run("print(sum(weights))") == "6"
