"""How fast `simulate` reads and judges series of 5 s samples: GPU-years for each minute of one core.

    python -m benchmarks.simulate [--days 60]

Under the built-in defaults most days are ended soon, and what follows an end is only counted; so a policy that ends
nothing is measured too, and one that is judged at every point.
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from jupyter_gpu_guard.cli.simulating import simulate
from jupyter_gpu_guard.core.policy import Idle, Policy, Rule, Trickle

EVERY, DAY, YEAR = 5, 86_400, 365.25 * 86_400
SLOW_DAYS = 2

USUAL = Policy()
NEVER = Policy(rules=(Rule("default", idle=Idle(lasting=None)),), source="nothing is ever ended")
LONG_WAY = Policy(rules=(Rule("default", idle=Idle(lasting=None), trickle=Trickle()),), source="a limit on trickles")


def write(path: Path, days: int) -> None:
    """One series for each day: stretches of compute and of rest."""
    dice = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        file.write("series,time,compute_percent,memory_mib,state\n")
        for day in range(days):
            at = 0
            while at < DAY:
                busy = dice.random() < 0.4
                for _ in range(dice.randint(10, 2000)):
                    percent, state = (dice.uniform(20, 100), "executing") if busy else (0.0, "idle")
                    at += EVERY
                    if at <= DAY:
                        file.write(f"day-{day},{at},{percent:.1f},8192,{state}\n")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=60)
    days = parser.parse_args().days
    with tempfile.TemporaryDirectory(prefix="gpu-guard-benchmark-") as folder:
        path, short = Path(folder) / "days.csv", Path(folder) / "few.csv"
        write(path, days)
        write(short, SLOW_DAYS)
        for policy, file, count in ((USUAL, path, days), (NEVER, path, days), (LONG_WAY, short, SLOW_DAYS)):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            cpu, wall = time.process_time(), time.perf_counter()
            simulate([file], [replace(policy)], processes=1)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            years, grown = count * DAY / YEAR, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            print(
                f"{policy.source:24} {count} GPU-days: {60 * years / cpu:.2f} GPU-years a minute of one core, "
                f"{60 * years / wall:.2f} a minute by the clock; {grown / 1024:.1f} MiB more memory"
            )


if __name__ == "__main__":
    main()
