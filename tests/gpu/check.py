"""Checks on a real GPU what is assumed about its driver, and says where the stand-in of the tests does otherwise.

    python -m tests.gpu.check [--device N] [--json FILE] [--record FILE] [--stand-in]

It takes about three minutes, computes and holds memory on the device meanwhile, and changes no setting. `--stand-in`
runs the same against the stand-in alone: no GPU is needed, and nothing is compared. With `--record` it writes what the
guard saw, one line a look, for the tests that replay.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from jupyter_gpu_guard import __version__
from jupyter_gpu_guard.clock import SystemClock
from jupyter_gpu_guard.observe import Observer
from jupyter_gpu_guard.snapshots import Header, only_what_matters, to_json
from jupyter_gpu_guard.sources.nvml import NvmlDevices
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses

from .checks import AFTERWARDS, BEFORE_OPENING, NOBODY, Scene, Seen, run
from .parking import PARKING
from .releasing import release_in_torch
from .workers import REPOSITORY, CudaWorker, DeclaringWorker, Worker

FOLDER = "JUPYTER_GPU_GUARD_SIMULATED_DIR"
RECORDED = 6  # looks
INTERVAL = 5.0  # seconds between them
MORE = (release_in_torch, *PARKING)
PROMISES = {check.__name__: (check.__doc__ or "").strip() for check in (*BEFORE_OPENING, *AFTERWARDS, *MORE)}


def why_not() -> str | None:
    """Why nothing can be checked here; None: it can."""
    for library in ("libnvidia-ml.so.1", "libcuda.so.1"):
        try:
            ctypes.CDLL(library)
        except OSError:
            return f"no NVIDIA GPU here: there is no {library}"
    if not Path("/dev/nvidiactl").exists():
        return "no NVIDIA GPU here: there is no /dev/nvidiactl"
    return None


def uuid_of(index: int) -> str:
    """The UUID of a device, asked in another process: this one must not yet be connected when it forks."""
    program = f"import pynvml as p; p.nvmlInit(); print(p.nvmlDeviceGetUUID(p.nvmlDeviceGetHandleByIndex({index})))"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def scene_here(index: int, *, stand_in: bool) -> Scene:
    """The device and the workers on it. On a real GPU, CUDA counts devices as the driver's bus does."""
    uuid = uuid_of(index)
    if stand_in:
        start = partial(DeclaringWorker, Path(os.environ[FOLDER]))
        return Scene(uuid, start, None, start())
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    start_here: partial[Worker] = partial(CudaWorker, index)
    as_nobody = partial(CudaWorker, index, NOBODY) if os.geteuid() == 0 else None
    start_torch = partial(CudaWorker, index, program="tests.gpu.torch_gpu") if find_spec("torch") else None
    return Scene(uuid, start_here, as_nobody, start_here(), start_torch)


class InTheStandIn:
    """The same checks at the same time, in a process that finds the stand-in instead of NVIDIA's library."""

    def __init__(self, folder: Path) -> None:
        from tests.driver import StandIn

        self._found = folder / "found.json"
        program = [sys.executable, "-m", "tests.gpu.check", "--stand-in", "--json", str(self._found)]
        environment = StandIn(folder / "driver").environment()
        self._process = subprocess.Popen(program, cwd=REPOSITORY, env=environment, stdout=subprocess.DEVNULL)

    def found(self) -> dict[str, Seen]:
        """What they found, once they are over."""
        self._process.wait()
        return {name: Seen(**seen) for name, seen in json.loads(self._found.read_text(encoding="utf-8")).items()}

    def end(self) -> None:
        """End them, if they are not over."""
        self._process.kill()
        self._process.wait()


class NoOwners:
    """`Owners` of a machine without a Jupyter server."""

    async def read(self, processes: object = None) -> tuple[()]:
        """Nobody."""
        return ()

    def look_again(self, key: object) -> None:
        """Nobody."""


async def looks() -> list[str]:
    """A recording of some looks of the guard's own observer, a line each."""
    devices = NvmlDevices()
    observer = Observer(SystemClock(), devices, ProcfsProcesses(), NoOwners())
    header = Header(f"jupyter-gpu-guard {__version__}", secrets.token_hex(8), INTERVAL)
    lines = [header.line()]
    try:
        for _ in range(RECORDED):
            lines.append(to_json(only_what_matters(await observer.observe())))
            await asyncio.sleep(INTERVAL)
    finally:
        devices.close()
    return lines


def main() -> int:
    """Check all and say it. 1: nothing can be checked here, or our own reading is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--stand-in", action="store_true")
    asked = parser.parse_args()
    reason = None if asked.stand_in else why_not()
    if reason:
        print(reason)
        return 1
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpu-guard-check-") as folder:
        beside = None if asked.stand_in else _start_beside(Path(folder))
        try:
            found = _check(asked.device, asked.record, stand_in=asked.stand_in)
            if beside is not None:
                _compare(found, beside.found())
        finally:
            if beside is not None:
                beside.end()
    if asked.json:
        text = json.dumps({name: asdict(seen) for name, seen in found.items()}, indent=2)
        asked.json.write_text(text, encoding="utf-8")
    print(f"{len(found)} checks in {time.monotonic() - began:.0f} s")
    return int(found["our_reading"].what != "right")


def _check(index: int, recording: Path | None, *, stand_in: bool) -> dict[str, Seen]:
    scene = scene_here(index, stand_in=stand_in)
    found: dict[str, Seen] = {}
    try:
        for name, seen in run(scene, MORE):
            found[name] = seen
            print(f"{PROMISES[name]}\n    seen: {seen.what}  {seen.detail}", flush=True)
        if recording:
            scene.worker.work(1, 0)
            lines = asyncio.run(looks())
            recording.write_text("".join(f"{line.rstrip()}\n" for line in lines), encoding="utf-8")
            print(f"recorded {len(lines) - 1} looks in {recording}")
    finally:
        scene.worker.bury()
    return found


def _start_beside(folder: Path) -> InTheStandIn | None:
    try:
        return InTheStandIn(folder)
    except (ImportError, OSError, StopIteration, subprocess.SubprocessError) as error:
        print(f"The stand-in cannot be built here, so nothing is compared: {error}")
        return None


def _compare(found: dict[str, Seen], stand_in: dict[str, Seen]) -> None:
    print("\nWhere the stand-in does otherwise:")
    for name, stands in stand_in.items():
        if found[name].differs_from(stands):
            print(f"- {PROMISES[name]}\n    here: {found[name].what}; stand-in: {stands.what} {stands.detail}")


if __name__ == "__main__":
    sys.exit(main())
