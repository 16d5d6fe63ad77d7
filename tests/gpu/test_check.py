"""The checks themselves: in full where there is a GPU, and their logic on the stand-in driver everywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.driver import StandIn

from .check import why_not
from .checks import Seen

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_real_driver_is_read_rightly() -> None:
    """On a real GPU our own reading is right; what else differs from the stand-in is printed."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    asked = subprocess.run([sys.executable, "-m", "tests.gpu.check"], cwd=REPOSITORY, check=False)
    assert asked.returncode == 0


@pytest.mark.slow
def test_the_checks_find_what_the_stand_in_does(tmp_path: Path) -> None:
    """Each check comes to an end and says what the stand-in is known to do."""
    file = tmp_path / "found.json"
    recorded = tmp_path / "looks.jsonl"
    program = [sys.executable, "-m", "tests.gpu.check", "--stand-in", "--json", str(file), "--record", str(recorded)]
    environment = StandIn(tmp_path / "driver").environment()
    asked = subprocess.run(program, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stdout + asked.stderr
    found = {name: seen["what"] for name, seen in json.loads(file.read_text(encoding="utf-8")).items()}
    ring, average = found.pop("ring_length"), found.pop("averaging")
    assert 8 < ring < 13
    assert 35 < average < 65
    assert found == {
        "samples_for_nobody": "yes",
        "list_for_nobody": "yes",
        "counters_for_nobody": "read",
        "memory_of_a_process": "exact",
        "context_alone": "listed",
        "whoever_asks": "not listed",
        "foreign_process": "not checked",
        "clock_of_stamps": "1970",
        "one_row_for_each": 1.0,
        "little_work": "always",
        "empty_answer": "NVMLError_NotFound",
        "device_samples_when_idle": "rows",
        "counters": "read",
        "accounting": "off",
        "release_after_kill": "within 2 s",
        "time_of_a_call": "below 1 s",
        "our_reading": "right",
        "release_in_torch": "not checked",
        "park_and_resume": "the same",
        "park_and_resume_torch": "not checked",
        "parked_and_ended": "ended",
    }
    assert len(recorded.read_text(encoding="utf-8").splitlines()) > 1


def test_what_is_the_same_within_a_third_does_not_differ() -> None:
    """Numbers are measured, words are not."""
    assert not Seen(10.0).differs_from(Seen(11.5))
    assert Seen(10.0).differs_from(Seen(20.0))
    assert Seen("off").differs_from(Seen("on"))
    assert Seen("longer").differs_from(Seen(10.0))
    assert not Seen("off", "here").differs_from(Seen("off", "there"))
