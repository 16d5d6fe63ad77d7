"""JupyterLab with the demo notebooks: simulated GPUs and a policy of seconds, or real GPUs that are only observed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import jupyter_gpu_guard

_HERE = Path(jupyter_gpu_guard.__file__).parent / "demo"
NOTEBOOKS = ("gpu-guard-demo.ipynb", "gpu-guard-waves.ipynb")


class DemoError(Exception):
    """The demo cannot start; the text says what would help."""


def run(folder: Path, *, port: int, browser: bool, extra: Sequence[str], say: Callable[[str], object]) -> NoReturn:
    """Become JupyterLab with the demo in `folder` and the options `extra`. Raises DemoError."""
    if importlib.util.find_spec("jupyterlab") is None:
        raise DemoError("JupyterLab is not installed here: pip install jupyterlab")
    simulated = not has_real_devices()
    try:
        copy_notebooks(folder)
    except OSError as error:
        raise DemoError(
            f"The demo notebooks cannot be put in {folder} ({error.strerror}): give --dir another folder"
        ) from None
    if simulated:
        say("No GPU driver here: the GPUs of this demo are simulated.")
        say("Run the notebook, watch the sidebar, then do nothing: it is warned after about 20 s and ended 30 s later.")
    else:
        say("The GPUs are real: the demo shows what it would do, and ends nothing.")
    policies = [_HERE / "policy.yaml"] if simulated else [_HERE / "policy.yaml", _HERE / "observe.yaml"]
    arguments = command(folder, policies, port=port, browser=browser, simulated=simulated)
    sys.stdout.flush()
    os.execv(sys.executable, [*arguments, *extra])  # noqa: S606 - our own interpreter


def has_real_devices() -> bool:
    """Whether a driver answers with at least one device."""
    from jupyter_gpu_guard.sources.several import every_device  # noqa: PLC0415

    devices = every_device()
    try:
        return bool(devices.read().devices)
    finally:
        devices.close()


def copy_notebooks(folder: Path) -> None:
    """Put the demo notebooks into `folder`; those that are there already stay as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in NOTEBOOKS:
        if not (folder / name).exists():
            shutil.copyfile(_HERE / name, folder / name)


def command(folder: Path, policies: list[Path], *, port: int, browser: bool, simulated: bool) -> list[str]:
    """The command line that starts JupyterLab for the demo."""
    root = folder.resolve()
    options = {
        "ServerApp.root_dir": str(root),
        "ServerApp.port": str(port),
        "LabApp.default_url": f"/lab/tree/{NOTEBOOKS[0]}",
        "GpuGuard.devices": "simulated" if simulated else "auto",
        "GpuGuard.sample_interval": "1",
    }
    if simulated:
        options["GpuGuard.simulated_directory"] = str(root / ".simulated-gpus")
    arguments = [sys.executable, "-m", "jupyterlab", *(f"--{name}={value}" for name, value in options.items())]
    arguments += [f"--GpuGuard.policy_paths={path}" for path in policies]
    return arguments if browser else [*arguments, "--no-browser"]
