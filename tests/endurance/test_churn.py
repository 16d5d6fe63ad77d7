"""GPU clients are born and killed every 20 ms while the guard looks: each look is whole and right."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.driver import StandIn

TICKS = 600  # one minute
REPOSITORY = Path(__file__).parents[2]


@pytest.mark.slow
def test_each_tick_is_whole_and_right_while_processes_come_and_go(tmp_path: Path) -> None:
    """No exception, no missed tick; the kernel's row holds what the kernel holds, and its children, and nobody else."""
    program = [sys.executable, "-m", "tests.endurance.churn", str(tmp_path), str(TICKS)]
    environment = StandIn(tmp_path / "driver").environment()
    asked = subprocess.run(program, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stderr
    found = json.loads(asked.stdout)
    assert found["wrong"] == []
    assert found["ticks"] == TICKS
    assert 2 * found["known"] > TICKS
    assert min(found["births"], found["children"], found["strangers"]) > TICKS, "hardly anybody was born"
