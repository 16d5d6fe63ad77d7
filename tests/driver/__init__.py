"""A stand-in for the NVIDIA driver's library, at its own ABI, so that the real `pynvml` is under test without a GPU.

    driver = StandIn(tmp_path)
    driver.fault("0 lost 1")
    subprocess.run([...], env=driver.environment())

Processes declare what they hold and compute with `jupyter_gpu_guard.kernel.simulated_gpu`.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_gpu_guard.kernel.declaration import DeclaredDevice
from jupyter_gpu_guard.kernel.simulated_gpu import VARIABLE
from jupyter_gpu_guard.sources.simulated import DEFAULT_DEVICES, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

HERE = Path(__file__).parent
LIBRARY = "libnvidia-ml.so.1"
CUDA = "libcuda.so.1"  # whoever has it loaded looks like a CUDA program; it can park processes
FLAGS = ("-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden")

CURRENT: tuple[str, ...] = ()
ONLY_V2 = ("-DSTANDIN_ONLY_V2",)  # a driver from before the _v3 process lists
ONLY_V1 = (*ONLY_V2, "-DSTANDIN_ONLY_V1")  # and one from before those of _v2


def build(switches: tuple[str, ...] = CURRENT) -> Path:
    """The folder that holds the library, built if its source, header or switches have changed."""
    header = _header()
    declared = [HERE / "declared.c", HERE / "generations.c"]
    parts = {CUDA: [*sorted((HERE / "cuda").glob("*.c")), *declared], LIBRARY: sorted(HERE.glob("*.c"))}
    digest = hashlib.sha256(" ".join([*FLAGS, *switches]).encode())
    for path in [*parts[CUDA], *parts[LIBRARY], *sorted(HERE.glob("*.h")), header]:
        digest.update(path.read_bytes())
    folder = HERE / "build" / digest.hexdigest()[:16]
    for name, sources in parts.items():
        if (folder / name).exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as draft:
            built = Path(draft) / name
            command = [os.environ.get("CC", "gcc"), *FLAGS, *switches, "-isystem", str(header.parent)]
            command += [f"-Wl,-soname,{name}", "-o", str(built), *map(str, sources), "-lpthread", "-ldl"]
            subprocess.run(command, check=True)
            built.replace(folder / name)  # another test run may build at the same time
    return folder


def _header() -> Path:
    files = distribution("nvidia-nvml-dev").files or []
    return Path(next(str(file.locate()) for file in files if file.name == "nvml.h"))


class StandIn:
    """One driver: its devices, its faults, and how often each of its functions was called."""

    def __init__(
        self, folder: Path, devices: Iterable[DeclaredDevice] = DEFAULT_DEVICES, switches: tuple[str, ...] = CURRENT
    ) -> None:
        self.folder = folder
        self._library = build(switches)
        prepare(folder, devices)

    def environment(self) -> dict[str, str]:
        """What a process needs to find this driver; processes started by it find it too."""
        path = os.pathsep.join(filter(None, [str(self._library), os.environ.get("LD_LIBRARY_PATH")]))
        return {**os.environ, "LD_LIBRARY_PATH": path, VARIABLE: str(self.folder)}

    def fault(self, *lines: str) -> None:
        """Switch exactly these faults on: `<device index|all|global> <fault> [argument [function pattern]]`."""
        draft = self.folder / "faults.draft"
        draft.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        draft.replace(self.folder / "faults")

    def count_calls(self) -> None:
        """Start to count calls from zero."""
        (self.folder / "calls").write_text("", encoding="utf-8")

    def calls(self) -> Counter[str]:
        """How often each function was called since `count_calls`."""
        return Counter((self.folder / "calls").read_text(encoding="utf-8").split())


class GpuProgram:
    """A real process that holds and computes as it is told: `run` executes Python in it, with `gpu` at hand.

    Like every CUDA program it has libcuda loaded. `prefix` is a command that runs a command.
    """

    _LOOP = (
        "import ctypes, json, sys\n"
        "ctypes.CDLL(sys.argv[1])\n"
        "from jupyter_gpu_guard.kernel import simulated_gpu as gpu\n"
        "for line in sys.stdin:\n"
        "    try:\n"
        "        exec(json.loads(line), globals())\n"
        "    except BaseException as error:\n"
        "        print(type(error).__name__, error, flush=True)\n"
        "    else:\n"
        "        print('done', flush=True)\n"
    )

    def __init__(self, folder: Path, prefix: tuple[str, ...] = ()) -> None:
        self._process = subprocess.Popen(
            [*prefix, sys.executable, "-c", self._LOOP, str(build() / CUDA)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, VARIABLE: str(folder)},
        )
        self.pid = self._process.pid

    def run(self, code: str) -> str:
        """Execute `code`; "done", or the name and text of the exception."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(code) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().rstrip("\n")

    def kill(self) -> None:
        """End it at once; it stays a zombie until `bury`."""
        self._process.kill()
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def bury(self) -> None:
        """End it, if it lives, and reap it."""
        self._process.kill()
        self._process.communicate()


def until(look: Callable[[], object], seconds: float = 20) -> None:
    """Look again and again until `look` answers something true; AssertionError after so many seconds."""
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, f"{look} did not come true within {seconds} s"
        time.sleep(0.02)
