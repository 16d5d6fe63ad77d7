"""What one tick costs, beside nvitop and gpustat on the same machine and the same stand-in driver.

    python -m benchmarks.tick [--sizes 1:4:0,8:64:500,8:2000:5000] [--json FILE]

A size is devices:GPU processes:host processes (at least). Every process is real. Medians, and the least CPU time, which
a busy machine disturbs less; nothing passes or fails.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from .lookers import LOOKERS
from .scene import Machine, Size

SIZES = "1:4:0,8:64:500,8:2000:5000"
OURS = "guard_tick"
REPOSITORY = Path(__file__).parents[1]
_FEWEST, _FEW, _MANY = 3, 12, 60  # looks; the slower one is, the fewer


def measure(size: Size, names: list[str]) -> dict[str, dict[str, float]]:
    """Medians in milliseconds, by the name of the looker."""
    with tempfile.TemporaryDirectory(prefix="gpu-guard-benchmark-") as folder:
        machine = Machine(Path(folder) / "driver", size)
        try:
            return {name: looked for name in names if (looked := _look(name, size, machine)) is not None}
        finally:
            machine.end()


def _look(name: str, size: Size, machine: Machine) -> dict[str, float] | None:
    is_large, is_slow = size.clients > 500, name.startswith(("gpustat", "nvitop_snapshots"))
    times = _FEWEST if is_large and is_slow else _FEW if is_large or is_slow else _MANY
    kernels = ",".join(map(str, machine.kernels))
    command = [sys.executable, "-m", "benchmarks.lookers", name, str(times), str(machine.driver.folder), kernels]
    asked = subprocess.run(
        command, cwd=REPOSITORY, env=machine.driver.environment(), capture_output=True, text=True, check=False
    )
    if asked.returncode != 0:
        print(f"{name} could not be measured: {asked.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    found = json.loads(asked.stdout)
    figures = {kind: 1000 * median(seconds) for kind, seconds in found.items() if seconds}
    return {**figures, "cpu_least": 1000 * min(found["cpu"])}


def show(size: Size, found: dict[str, dict[str, float]]) -> None:
    """A table for people."""
    print(f"\n{size.devices} devices, {size.clients} GPU processes, at least {size.hosts} processes in all")
    heads = ("CPU ms", "least", "wall ms", "in the driver", "without it", "times ours")
    widths = (10, 9, 10, 15, 12, 12)
    print(" " * 20 + "".join(f"{head:>{width}}" for head, width in zip(heads, widths, strict=True)))
    ours = found[OURS]["cpu"] if OURS in found else None
    for name, looked in found.items():
        driver = looked.get("driver")
        without = None if driver is None else looked["cpu"] - driver
        ratio = None if ours is None else looked["cpu"] / ours
        parts = (looked["cpu"], looked["cpu_least"], looked["wall"], driver, without, ratio)
        shown = ("" if part is None else f"{part:.2f}" for part in parts)
        print(f"{name:20}" + "".join(f"{part:>{width}}" for part, width in zip(shown, widths, strict=True)))


def about_this_machine() -> dict[str, str]:
    """What the figures depend on."""

    def version(package: str) -> str:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return "not installed"

    packages = {name: version(name) for name in ("jupyter-gpu-guard", "nvidia-ml-py", "nvitop", "gpustat", "psutil")}
    return {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cores": str(os.cpu_count()),
        "load": f"{os.getloadavg()[0]:.1f}",
        **packages,
    }


def main() -> None:
    """Measure all and say it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--only", default=",".join(LOOKERS), help="which lookers, by name")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    asked = parser.parse_args()
    names = asked.only.split(",")
    machine = about_this_machine()
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    figures = {}
    for size in map(Size.parse, asked.sizes.split(",")):
        figures[str(size)] = found = measure(size, names)
        show(size, found)
    if asked.json:
        asked.json.write_text(
            json.dumps({"machine": machine, "milliseconds": figures}, indent=2) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
