"""Whether a process becomes the parent of orphans, asked of the real kernel."""

from __future__ import annotations

import subprocess
import sys

from jupyter_gpu_guard.sources.orphans import adopts_orphans

ASK = "from jupyter_gpu_guard.sources.orphans import adopts_orphans; print(adopts_orphans())"
BECOME = "import ctypes; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); "  # PR_SET_CHILD_SUBREAPER


def say(code):
    """What a Python process prints."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_an_ordinary_process_adopts_nobody():
    """Orphans go to the first process of the namespace."""
    assert not adopts_orphans()
    assert say(ASK) == "False"


def test_a_process_that_asks_for_orphans_gets_them():
    """So its children may be others'."""
    assert say(BECOME + ASK) == "True"
