"""The guard runs for months: many ticks hold no more open than few."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.driver import StandIn

from .leak_closely import FAULTS

TICKS = 20_000
FEW_TICKS = 2_000
MIB = 2**20
REPOSITORY = Path(__file__).parents[2]


def found_by(module: str, folder: Path, ticks: int) -> dict[str, Any]:
    """What so many ticks have come to, in a process of their own."""
    program = [sys.executable, "-m", module, str(folder), str(ticks)]
    environment = StandIn(folder / "driver").environment()
    asked = subprocess.run(program, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stderr
    found: dict[str, Any] = json.loads(asked.stdout)
    assert found["ticks"] == ticks
    return found


def nothing_piles_up(levels: list[dict[str, int]], warm: int) -> None:
    """Descriptors and threads stay as many after `warm` levels, and memory grows by less than 10 MiB."""
    for kind in ("descriptors", "threads"):
        counts = [level[kind] for level in levels[warm:]]
        assert max(counts) - min(counts) <= 2, (kind, counts)
    few = max(1, len(levels[warm:]) // 10)
    parts = levels[warm : warm + few], levels[-few:]
    begun, ended = (median(level["resident"] for level in part) for part in parts)
    assert ended - begun < 10 * MIB, [level["resident"] // MIB for level in levels]


@pytest.mark.slow
def test_nothing_piles_up_while_faults_come_and_go(tmp_path: Path) -> None:
    """Descriptors and threads stay as many, give or take 2, and memory grows by less than 10 MiB."""
    found = found_by("tests.endurance.leak", tmp_path, TICKS)
    assert found["known"] > TICKS / 3, "hardly anything was read: this shows nothing"
    assert found["with_gaps"] > TICKS / 10, "no fault was seen: this shows nothing"
    assert found["acts"] > 10, "nothing was ever due: this shows nothing"
    _, *levels = found["levels"]
    nothing_piles_up(levels, len(levels) // 10)


@pytest.mark.slow
def test_nothing_piles_up_while_owners_come_and_go(tmp_path: Path) -> None:
    """The same with the real sources of owners and the closer look, over kernels, terminals and TensorBoards."""
    found = found_by("tests.endurance.leak_closely", tmp_path, FEW_TICKS)
    assert found["complete"] > FEW_TICKS / 2, "not all kinds of owners were there: this shows nothing"
    assert found["listening"] > FEW_TICKS / 2, "nobody was looked at closely: this shows nothing"
    assert found["heard"] > FEW_TICKS / 3, "no kernel was heard: this shows nothing"
    assert found["with_gaps"] > FEW_TICKS / 10, "no fault was seen: this shows nothing"
    assert found["acts"] > 10, "nothing was ever due: this shows nothing"
    nothing_piles_up(found["levels"], len(FAULTS) + 1)  # each fault has come once
