"""What the sidebar's buttons do, done from a shell on the server's machine."""

from __future__ import annotations

import json
import subprocess
import sys

from .lab import GPU, Lab, start_ticks, until


def call(lab: Lab, *words: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of one command in the shell of the server's user."""
    command = [sys.executable, "-m", "jupyter_gpu_guard", *words]
    done = subprocess.run(
        command,
        env=lab.environment(),
        cwd=lab.root,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_notebook_is_kept_released_and_shut_down_from_a_shell(lab: Lab) -> None:
    """Each command does what its button does, and says what came of it; what is refused is not done."""
    kernel = lab.start_kernel("work/train.ipynb")
    kernel.run(GPU + "gpu.hold('2 GiB')")
    until(lambda: (lab.holder(kernel.id) or {}).get("memory_bytes") == 2 * 2**30, "it is seen")
    named = f"work/train.ipynb (kernel:{kernel.id}): "

    assert call(lab, "keep", "train.ipynb", "9h")[0] == 1
    status, out, _ = call(lab, "keep", "./work/train.ipynb", "1h", "30m", "--reason", "for the demo")
    assert (status, out.startswith(f"{named}kept until ")) == (0, True), out
    lease = until(lambda: (lab.holder(kernel.id) or {}).get("lease"), "the lease")
    assert lease["reason"] == "for the demo"
    assert call(lab, "unkeep", "train.ipynb")[:2] == (0, f"{named}not kept any more\n")
    until(lambda: lab.holder(kernel.id)["lease"] is None, "the lease is gone")
    status, _, err = call(lab, "unkeep", "train.ipynb")
    assert (status, "is not kept by anybody" in err) == (1, True), err
    assert call(lab, "keep", f"kernel:{kernel.id}", "1h")[0] == 0

    status, out, err = call(lab, "release", "train.ipynb")
    assert (status, out.startswith(f"{named}released: ")) == (0, True), err
    status, _, err = call(lab, "park", "train.ipynb")
    assert (status, "c.GpuGuard.parking" in err) == (1, True), err

    status, _, err = call(lab, "shutdown", "train.ipynb")
    assert (status, "--yes" in err) == (1, True), err
    assert start_ticks(kernel.pid) is not None
    status, out, err = call(lab, "shutdown", "train.ipynb", "--yes", "--json")
    assert status == 0, err
    outcome = json.loads(out)["outcome"]
    assert (outcome["result"], outcome["freed_bytes"]) == ("done", 2 * 2**30)
    assert outcome["detail"].startswith("freed 2.0 GiB on GPU 0 in ")
    assert start_ticks(kernel.pid) is None
    until(lambda: lab.holder(kernel.id) is None, "the row to go")
    status, _, err = call(lab, "shutdown", "train.ipynb", "--yes")
    assert (status, "Nothing called 'train.ipynb'" in err) == (1, True), err
