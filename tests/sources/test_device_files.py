"""What can be seen at a process of its use of a device: real processes with open files, in place of a real driver's."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from jupyter_gpu_guard.sources.device_files import DeviceFiles, Use
from tests.driver import CUDA, LIBRARY, build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    """A folder with files that are called as the driver's."""
    folder = tmp_path / "dev"
    folder.mkdir()
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm", "null", "nvme0"):
        (folder / name).touch()
    return folder


@pytest.fixture
def program() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts programs that do as they are told and then wait for a line of input."""
    started: list[subprocess.Popen[str]] = []

    def start(code: str = "") -> subprocess.Popen[str]:
        lines = f"import ctypes, os, sys\n{code}\nprint('ready', flush=True)\nsys.stdin.readline()\n"
        command = [sys.executable, "-c", lines]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout is not None
        assert started[-1].stdout.readline() == "ready\n"
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.communicate()


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), Use.NONE),
        (("null", "nvme0"), Use.NONE),
        (("nvidiactl",), Use.OPEN),
        (("nvidiactl", "nvidia0"), Use.OPEN),
        (("nvidiactl", "nvidia0", "nvidia-uvm"), Use.CUDA),
    ],
)
def test_open_files_tell(devices: Path, program: Start, names: tuple[str, ...], expected: Use) -> None:
    """Whoever asks the driver opens the first two files; a CUDA program opens the third one as well."""
    running = program(f"files = [open(os.path.join({str(devices)!r}, name)) for name in {names!r}]")
    assert DeviceFiles(devices=devices).use(running.pid) is expected


def test_a_library_tells(devices: Path, program: Start) -> None:
    """CUDA's own library is loaded by every CUDA program; the driver's management library proves nothing."""
    running = program(f"ctypes.CDLL({str(build() / CUDA)!r})")
    assert DeviceFiles(devices=devices).use(running.pid) is Use.CUDA
    only_asks = program(f"os.environ['JUPYTER_GPU_GUARD_SIMULATED_DIR'] = ''\nctypes.CDLL({str(build() / LIBRARY)!r})")
    assert DeviceFiles(devices=devices).use(only_asks.pid) is Use.NONE


def test_with_files_and_library_the_library_counts(devices: Path, program: Start) -> None:
    """A program may have CUDA loaded and yet only the plain device files open."""
    running = program(f"file = open({str(devices / 'nvidia0')!r})\nctypes.CDLL({str(build() / CUDA)!r})")
    assert DeviceFiles(devices=devices).use(running.pid) is Use.CUDA


def test_a_file_that_was_deleted_since_is_still_open(devices: Path, program: Start) -> None:
    """So it looks after device files were made anew."""
    running = program(f"file = open({str(devices / 'nvidia-uvm')!r})")
    (devices / "nvidia-uvm").unlink()
    assert DeviceFiles(devices=devices).use(running.pid) is Use.CUDA


def test_nobody_is_absent(devices: Path, program: Start) -> None:
    """A process that has ended and was waited for."""
    running = program()
    running.communicate("\n")
    assert DeviceFiles(devices=devices).use(running.pid) is Use.ABSENT


def test_a_process_at_its_end_proves_nothing(devices: Path, program: Start) -> None:
    """Its files are closed and its memory is unmapped while the driver may still clean up after it."""
    running = program(f"ctypes.CDLL({str(build() / CUDA)!r})")
    running.kill()
    os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)
    assert DeviceFiles(devices=devices).use(running.pid) is Use.UNREADABLE


LOOK = """
import sys
from pathlib import Path
from jupyter_gpu_guard.sources.device_files import DeviceFiles
print(DeviceFiles().use(int(sys.argv[1])).name)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")
def test_a_process_of_another_user_proves_nothing(program: Start) -> None:
    """No permission to look is neither "it holds a device" nor "it does not"."""
    owned_by_root = program(f"ctypes.CDLL({str(build() / CUDA)!r})")
    code = f"import os\nos.setgid(65534)\nos.setuid(65534)\n{LOOK}"
    # The module is imported before the rights are given up: a checkout need not be readable for everybody.
    code = f"import jupyter_gpu_guard.sources.device_files\n{code}"
    looked = subprocess.run(
        [sys.executable, "-c", code, str(owned_by_root.pid)], check=True, capture_output=True, text=True
    )
    assert looked.stdout == "UNREADABLE\n"


def test_a_process_that_may_not_be_looked_into_proves_nothing(devices: Path, tmp_path: Path) -> None:
    """A folder of open files that cannot be listed, as for a process that protects itself."""
    if os.geteuid() == 0:
        pytest.skip("root may look into every folder")
    (tmp_path / "7/fd").mkdir(parents=True)
    (tmp_path / "7/fd").chmod(0)
    assert DeviceFiles(tmp_path, devices).use(7) is Use.UNREADABLE
