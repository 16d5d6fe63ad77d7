"""What goes wrong around a server: a broken policy, a driver that fails, hangs or does not fit its library."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.driver import StandIn

from .lab import GPU, QUICK_POLICY, Lab, start_ticks, until


def test_a_broken_policy_ends_nothing_and_names_line_and_remedy(tmp_path: Path, driver: StandIn) -> None:
    """The server starts and only observes; report, health and log name file, line and remedy."""
    policy = QUICK_POLICY.replace("compute_below", "compute_bellow")
    with Lab(tmp_path / "lab", driver=driver, policy=policy) as lab:
        report = lab.report()
        assert report["mode"] == "observe"
        for text in (report["policy"]["fault"], *lab.health()["problems"], lab.log.read_text()):
            assert "policy.yaml:4:" in text
            assert "compute_bellow" in text
            assert "did you mean" in text.lower()
            assert "compute_below" in text


def test_a_failing_driver_freezes_the_clock(lab: Lab, driver: StandIn) -> None:
    """While utilisation cannot be read nothing is idle; when it can again, the period starts anew."""
    kernel = lab.start_kernel("frozen.ipynb")
    kernel.run(GPU + "gpu.hold('2 GiB')")
    until(lambda: lab.notice(kernel.id), "the warning")
    driver.fault("all error UNKNOWN nvmlDeviceGetProcess*Utilization*")
    row = until(lambda: (h := lab.holder(kernel.id)) and h["compute_percent"] is None and h, "compute to be unknown")
    assert row["compute_percent_unknown"] == "driver-error"
    assert row["verdict"]["action"] == "keep"
    time.sleep(15)
    assert lab.notice(kernel.id) is None
    assert start_ticks(kernel.pid) is not None
    driver.fault()
    back = until(lambda: (h := lab.holder(kernel.id)) and h["compute_percent"] is not None and h, "compute again")
    assert back["idle_seconds"] < 5
    assert until(lambda: lab.outcome(kernel.id), "the end, after a whole new period")["result"] == "done"


def test_a_hanging_driver_holds_up_nobody(tmp_path: Path, driver: StandIn) -> None:
    """A call that does not return is a gap: the server answers everybody, asks no second time, and ends when told."""
    with Lab(tmp_path / "lab", driver=driver) as lab:
        kernel = lab.start_kernel("waiting.ipynb")
        driver.fault("all slow_ms 100000 *")
        gap = until(lambda: next(iter(lab.report()["gaps"]), None), "the gap")
        assert "no answer within" in gap["why"]
        driver.count_calls()
        with ThreadPoolExecutor(20) as pool:
            for _ in range(5):
                answers = pool.map(lambda _: lab.request("GET", "gpu-guard/api/v1/report")[0], range(20))
                assert list(answers) == [200] * 20
        assert kernel.run("print(1)") == "1"
        assert sum(driver.calls().values()) == 0
        assert lab.stop() == 0


def test_a_mismatch_of_driver_and_library_is_a_normal_state(tmp_path: Path, driver: StandIn) -> None:
    """A driver that was updated under a running system: the server works, says so, and logs it once."""
    driver.fault("global init_error LIB_RM_VERSION_MISMATCH")
    with Lab(tmp_path / "lab", driver=driver) as lab:
        (gap,) = lab.report()["gaps"]
        assert "reboot" in gap["why"]
        kernel = lab.start_kernel("fine.ipynb")
        assert kernel.run("print(1)") == "1"
        holder = until(lambda: lab.holder(kernel.id), "the row")
        assert (holder["memory_bytes"], holder["memory_bytes_unknown"]) == (None, "not-read")
        until(lambda: lab.health()["ticks"] > 15, "some ticks")
        assert lab.log.read_text().count("reboot") == 1
