"""The server ends: in the middle of an act, or after the extension has failed to load."""

from __future__ import annotations

from pathlib import Path

from tests.driver import StandIn

from .lab import GPU, QUICK_POLICY, Lab, start_ticks, until


def test_a_server_told_to_end_in_mid_act_leaves_nothing_on_the_gpu(tmp_path: Path, driver: StandIn) -> None:
    """A child that ignores SIGTERM has a long grace; when the server ends meanwhile, it is killed all the same."""
    child = tmp_path / "child.py"
    child.write_text(
        "import signal, time\n" + GPU + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "gpu.hold('2 GiB'); print('ready', flush=True); time.sleep(600)\n"
    )
    with Lab(tmp_path / "lab", driver=driver, policy=QUICK_POLICY, grace=600) as lab:
        kernel = lab.start_kernel("parent.ipynb")
        code = (
            "import subprocess, sys\n"
            f"child = subprocess.Popen([sys.executable, {str(child)!r}], start_new_session=True, stdout=-1)\n"
            "child.stdout.readline(); print(child.pid)"
        )
        pid = int(kernel.run(code))
        until(lambda: f"SIGTERM to pid {pid}: sent" in lab.log.read_text(), "the act to begin")
        assert start_ticks(pid) is not None
        assert lab.stop() == 0
        assert start_ticks(pid) is None
        assert f"SIGKILL to pid {pid}: sent" in lab.log.read_text()


def test_an_extension_that_cannot_load_does_not_hold_up_the_server(tmp_path: Path, driver: StandIn) -> None:
    """The log says why; the server works without it and ends when told. Odd numbers are put right with a word."""
    nowhere = ("--GpuGuard.devices=simulated", "--GpuGuard.simulated_directory=/proc/nowhere")
    lab = Lab(tmp_path / "lab", driver=driver, policy=None, options=nowhere)
    lab.start(lambda: lab.request("GET", "api/status")[0] == 200)
    assert lab.request("GET", "gpu-guard/api/v1/report")[0] == 404
    assert "/proc/nowhere" in lab.log.read_text()
    assert lab.stop() == 0
    nan = float("nan")
    with Lab(tmp_path / "odd", driver=driver, policy=None, grace=nan, interval=nan) as lab:
        assert lab.report()["interval_seconds"] == 5
        text = lab.log.read_text()
        assert "c.GpuGuard.sample_interval = nan cannot be used" in text
        assert "c.GpuGuard.grace_time = nan cannot be used" in text
