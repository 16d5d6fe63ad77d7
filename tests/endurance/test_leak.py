"""The guard runs for months: 20,000 ticks hold no more open than 2,000."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from tests.driver import StandIn

TICKS = 20_000
MIB = 2**20
REPOSITORY = Path(__file__).parents[2]


@pytest.mark.slow
def test_nothing_piles_up_while_faults_come_and_go(tmp_path: Path) -> None:
    """Descriptors and threads stay as many, give or take 2, and memory grows by less than 10 MiB."""
    program = [sys.executable, "-m", "tests.endurance.leak", str(tmp_path), str(TICKS)]
    environment = StandIn(tmp_path / "driver").environment()
    asked = subprocess.run(program, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stderr
    found = json.loads(asked.stdout)

    assert found["ticks"] == TICKS
    assert found["known"] > TICKS / 3, "hardly anything was read: this shows nothing"
    assert found["with_gaps"] > TICKS / 10, "no fault was seen: this shows nothing"
    assert found["acts"] > 10, "nothing was ever due: this shows nothing"
    _, *levels = found["levels"]
    warm = len(levels) // 10
    for kind in ("descriptors", "threads"):
        counts = [level[kind] for level in levels[warm:]]
        assert max(counts) - min(counts) <= 2, (kind, counts)
    begun, ended = (median(level["resident"] for level in part) for part in (levels[warm : 2 * warm], levels[-warm:]))
    assert ended - begun < 10 * MIB, [level["resident"] // MIB for level in levels]
