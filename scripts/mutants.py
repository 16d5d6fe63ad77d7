"""Mutation testing of the core: break each line in every small way there is, and see whether a test notices.

    scripts/mutants.py                 all modules: takes hours
    scripts/mutants.py ladder ledger   only these
    scripts/mutants.py --sample 40     of each module no more than so many, the same ones at each run

Prints for each module how many of its mutants were killed, and the names of those that lived. `mutmut show NAME` shows
one. All modules at once: what was judged before and has not changed since is not judged again. Nothing outside
`mutants/` is written.
"""  # noqa: INP001 - a script, not a package

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "jupyter_gpu_guard.core"
KILLED = frozenset({"killed", "timeout", "segfault", "suspicious"})
LINE = re.compile(rf"^\s*(?P<name>{re.escape(PACKAGE)}\.(?P<module>\w+)\.\S+): (?P<status>.+?)\s*$")


def mutmut(*args: str, says: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run it here, with few examples for each property. `says`: where what it prints goes, by default the terminal."""
    command = [str(Path(sys.executable).with_name("mutmut")), *args]
    settings = {"SHARE_OF_EXAMPLES": "0.05", **os.environ}
    return subprocess.run(command, cwd=ROOT, env=settings, text=True, stdout=says, stderr=says, check=False)  # noqa: S603


def statuses() -> dict[str, dict[str, str]]:
    """By module, what has become of each mutant."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for line in mutmut("results", "--all", "true", says=subprocess.PIPE).stdout.splitlines():
        if seen := LINE.match(line):
            found[seen["module"]][seen["name"]] = seen["status"]
    return found


def main() -> int:
    """Run, and print the score. Fails only if nothing could be run."""
    asked = argparse.ArgumentParser(description="Mutation testing of the core")
    asked.add_argument("modules", nargs="*", help="of jupyter_gpu_guard/core; none: all")
    asked.add_argument("--sample", type=int, help="of each module no more mutants than so many")
    asked.add_argument("--children", type=int, default=1, help="processes at once")
    given = asked.parse_args()
    names = [f"{PACKAGE}.{module}.*" for module in given.modules]
    if given.sample is not None:
        mutmut("run", "none", says=subprocess.DEVNULL)  # writes the mutants, and finds none of that name to run
        chosen = statuses()
        names = [
            name
            for module in given.modules or sorted(chosen)
            for name in random.Random(module).sample(sorted(chosen[module]), min(given.sample, len(chosen[module])))  # noqa: S311
        ]
    mutmut("run", "--max-children", str(given.children), *names)
    whole, killed, lines = 0, 0, []
    for module, found in sorted(statuses().items()):
        judged = {name: status for name, status in found.items() if status != "not checked"}
        lived = {name: status for name, status in judged.items() if status not in KILLED}
        if judged:
            whole, killed = whole + len(judged), killed + len(judged) - len(lived)
            lines.append(
                f"{module:12} {len(judged) - len(lived):5} of {len(judged):5} killed, of {len(found)} there are"
            )
            lines += [f"             {name}  {status}" for name, status in sorted(lived.items())]
    lines.append(f"{'all':12} {killed:5} of {whole:5} killed" if whole else "nothing was judged")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
