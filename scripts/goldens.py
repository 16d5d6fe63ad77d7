"""Write the recordings in tests/recordings anew, with what their replay gives. `--check`: only compare.

A recording is a film: notebooks from moment to moment, in the very form in which a server's are recorded.
"""  # noqa: INP001 - a script, not a package

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from jupyter_gpu_guard.cli.replaying import replay  # noqa: E402
from jupyter_gpu_guard.core.model import OwnerState, Snapshot, Unknown, Why  # noqa: E402
from jupyter_gpu_guard.policyfile import load  # noqa: E402
from jupyter_gpu_guard.snapshots import Header, only_what_matters, to_json, without_names  # noqa: E402
from tests.core.films import Look, Moment, film  # noqa: E402

FOLDER = ROOT / "tests" / "recordings"
EVERY = 15.0  # seconds between two pictures, of which there are:
PICTURES, LAST_CELL, UNREAD, RESTART, WITHOUT_OWNERS = 60, 2, (16, 17), 20, 40


class Numbered:
    """`notebook-1`, `notebook-2`, …: the same in each run of this script."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}

    def __call__(self, kind: str, name: str) -> str:
        """The word for `name`."""
        count = sum(known == kind for known, _ in self._known)
        return self._known.setdefault((kind, name), f"{kind}-{count + 1}")


def a_quarter_of_an_hour() -> list[Snapshot]:
    """Five notebooks: forgotten, computing now and then, unread for a while, in a cell, restarted in between."""
    silent = Unknown(Why.NOT_READ)
    moments = []
    for number in range(PICTURES):
        kernels = {
            "a": Look(used=number == LAST_CELL),
            "b": Look(compute=(60.0,) if number % 9 == 0 else (0.0,)),
            "c": Look(compute=(silent,) if number in UNREAD else (0.0,)),
            "d": Look(state=OwnerState.EXECUTING),
            "e": Look(life=int(number >= RESTART), children=2),
        }
        moments.append(Moment(kernels, EVERY, ("owners",) if number == WITHOUT_OWNERS else ()))
    return film(moments)


def lines() -> Iterator[str]:
    """The recording."""
    token = Numbered()
    yield Header("0.1.0", "golden", EVERY, policy="none").line()
    for snapshot in a_quarter_of_an_hour():
        yield to_json(without_names(only_what_matters(snapshot), token))


def main() -> None:
    """Write or compare."""
    recording, result = FOLDER / "quarter.jsonl", FOLDER / "quarter.replay.json"
    made = {recording: "".join(f"{line}\n" for line in lines())}
    if "--check" not in sys.argv:
        recording.write_text(made[recording], encoding="utf-8")
    policy = load([FOLDER / "quarter.policy.yaml"])
    replayed = replay(recording, policy).as_json(recording, policy)
    del replayed["policy"]["source"]  # where it lies is different everywhere
    made[result] = json.dumps(replayed, indent=1) + "\n"
    if "--check" not in sys.argv:
        result.write_text(made[result], encoding="utf-8")
    stale = [path.name for path, text in made.items() if path.read_text(encoding="utf-8") != text]
    if stale:
        sys.exit(f"not what the code makes now: {', '.join(stale)}; look at the difference after `make goldens`")


if __name__ == "__main__":
    main()
