"""The check of release: what the text that is sent to kernels does in a real process with PyTorch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from .checks import GIB, Scene, Seen, listed
from .workers import REPOSITORY


def release_in_torch(scene: Scene) -> Seen:
    """What PyTorch has cached comes back, and what a tensor holds stays as it is."""
    if scene.start_torch is None:
        return Seen("not checked", "PyTorch is not installed here")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.gpu.torch_release"],
        cwd=REPOSITORY,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": scene.uuid},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        before = _line(process)
        held = listed(scene).get(process.pid)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        after = _line(process)
        left = listed(scene).get(process.pid)
        if held is None or left is None:
            return Seen("not listed", f"{held} and {left} bytes")
        said = f"{(held - left) / GIB:.2f} of {held / GIB:.2f} GiB came back; {after['told']}"
        if before["checksum"] != after["checksum"]:
            return Seen("something else", said)
        return Seen("the cache" if held - left >= 2 * GIB and left >= GIB else "another amount", said)
    finally:
        process.kill()
        process.communicate()


def _line(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())
