"""A wheel in an environment with a plain JupyterLab, on a machine without a driver: all well, said in one sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from playwright.sync_api import expect

from .browser import open_page, open_panel, picture
from .lab import Lab, until

HERE = Path(__file__).parents[2]
pytestmark = [pytest.mark.browser, pytest.mark.slow]


class PlainLab(Lab):
    """A server from another environment, which sees no driver."""

    def environment(self) -> dict[str, str]:
        """Without whatever might lead to a driver."""
        environment = super().environment()
        environment.pop("LD_LIBRARY_PATH", None)
        return environment


def _environment_with_wheel(folder: Path) -> Path:
    """The Python of a new virtual environment with JupyterLab, Notebook and our wheel, as a user has it."""
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(HERE)]
    subprocess.run(build, check=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=True, symlinks=True)
    python = folder / "venv/bin/python"
    install = [str(python), "-m", "pip", "install", "--quiet", "jupyterlab>=4,<5", "notebook>=7,<8", str(wheel)]
    subprocess.run(install, check=True, timeout=600)
    return python


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a driver")
def test_no_driver_is_a_normal_state(tmp_path: Path) -> None:
    """Extension and sidebar are there by themselves; sidebar, health and doctor name one reason; the log is quiet."""
    python = _environment_with_wheel(tmp_path)
    with PlainLab(tmp_path / "lab", policy=None, python=str(python)) as lab:
        report = lab.report()
        assert report["devices"] == []
        (gap,) = report["gaps"]
        assert gap["source"] == "devices"
        assert "driver" in gap["why"]
        assert lab.health()["problems"] == [gap["why"]]
        with open_page(lab, "lab") as page:
            open_panel(page)
            expect(page.get_by_test_id("gpu-guard-panel")).to_contain_text(gap["why"])
            picture(page, "no-driver")
        doctor = subprocess.run(
            [str(python), "-m", "jupyter_gpu_guard", "doctor", "--json"],
            env=lab.environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert doctor.returncode == 0, doctor.stdout + doctor.stderr
        assert gap["why"] in json.dumps(json.loads(doctor.stdout), ensure_ascii=False)
        until(lambda: lab.health()["ticks"] > 10, "some more ticks")
        lines = [line for line in lab.log.read_text().splitlines() if "GPU guard" in line or "gpu_guard" in line]
        ours = [line for line in lines if "extension" not in line]  # two lines of each extension are the server's own
        assert 0 < len(ours) <= 3, ours

    for command in (["server", "extension", "list"], ["labextension", "list"]):
        listed = subprocess.run(
            [str(python), "-m", "jupyter", *command],
            env={**os.environ, "JUPYTER_PREFER_ENV_PATH": "1"},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        text = listed.stdout + listed.stderr
        (ours,) = [line for line in text.splitlines() if "gpu" in line and "OK" in line]
        assert "0.1.0" in ours
