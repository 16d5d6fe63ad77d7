"""`jupyter gpu-guard simulate`: recordings and series under policies, side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from jupyter_gpu_guard.cli import main, simulating
from jupyter_gpu_guard.core.policy import Policy
from jupyter_gpu_guard.policyfile import load

RECORDINGS = Path(__file__).parent / "recordings"
QUARTER, QUARTER_POLICY = RECORDINGS / "quarter.jsonl", RECORDINGS / "quarter.policy.yaml"
HALF_AN_HOUR = "version: 1\nmode: enforce\ndefaults:\n  idle: {for: 30m}\n  notice: 5m\n"

STUDENTS = "rules:\n  - {name: students, match: {group: students}, idle: {for: 20m}}\n"

Row = tuple[float, float]


def csv(path: Path, **series: Iterable[Row]) -> Path:
    """A file of series of (seconds, percent), each holding 2 GiB."""
    rows = [f"{name},{at},{share},2048\n" for name, points in series.items() for at, share in points]
    path.write_text("series,time,compute_percent,memory_mib\n" + "".join(rows), encoding="utf-8")
    return path


def forgotten(hours: float, then: float = 0.0) -> list[Row]:
    """Readings every 30 s of something idle for so long, and then so many hours of compute."""
    count, after = round(hours * 120), round(then * 120)
    return [(30.0 * n, 0.0 if n <= count else 80.0) for n in range(count + after + 1)]


@pytest.fixture
def simulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command, in an empty folder, without a policy of this machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("jupyter_gpu_guard.policyfile.discover", lambda: ())

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(main, ["simulate", *map(str, arguments)])

    return run


def figures(result: Result) -> list[dict[str, Any]]:
    """What was printed for each policy."""
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["policies"]


def test_policies_are_compared(tmp_path: Path, simulate: Callable[..., Result]) -> None:
    """Each --policy is one policy; a folder is all that lies in it. Hours and what came back are told for each."""
    day = csv(tmp_path / "day.csv", a=forgotten(4), b=forgotten(3, then=1))
    half = tmp_path / "half.yaml"
    half.write_text(HALF_AN_HOUR, encoding="utf-8")
    folder = tmp_path / "policy.d"
    folder.mkdir()
    (folder / "10-site.yaml").write_text("version: 1\n", encoding="utf-8")
    (folder / "20-more.yaml").write_text(HALF_AN_HOUR.replace("30m", "5h"), encoding="utf-8")
    first, second = figures(simulate(day, "--policy", half, "--policy", folder, "--json"))
    # 30 minutes, 5 more for the notice; the rest of 4 and 3 hours is idle, and then b computes for an hour.
    assert first["reclaimed_gpu_hours"] == pytest.approx(4 + 3 - 2 * 35 / 60)
    assert first["reclaimed_gib_hours"] == pytest.approx(2 * first["reclaimed_gpu_hours"])
    assert first["lost_gpu_hours"] == pytest.approx(1)
    assert (first["warned"], first["ended"], first["regretted"]) == (2, 2, 1)
    assert first["idle_gpu_hours"] == second["idle_gpu_hours"] == pytest.approx(7)
    assert (second["warned"], second["ended"], second["reclaimed_gpu_hours"]) == (0, 0, 0)
    assert second["policy"]["source"].count("policy.d") == 2


def test_rules_for_a_group_need_the_group(tmp_path: Path, simulate: Callable[..., Result]) -> None:
    """Whose notebooks they were is said with --user and --group; without it no such rule applies."""
    day, strict = csv(tmp_path / "day.csv", a=forgotten(1.5)), tmp_path / "site.yaml"
    strict.write_text(HALF_AN_HOUR.replace("30m", "5h") + STUDENTS, encoding="utf-8")
    asked = [(), ("--group", "students"), ("--user", "ada"), ("--user", "ada", "--group", "x", "--group", "students")]
    ended = [figures(simulate(day, "--policy", strict, "--json", *more))[0]["ended"] for more in asked]
    assert ended == [0, 1, 0, 1]


def test_regret_has_a_horizon(tmp_path: Path, simulate: Callable[..., Result]) -> None:
    """Who comes back later than --regret was not needed in that time; what it computed is lost all the same."""
    day = csv(tmp_path / "day.csv", b=forgotten(30, then=1))
    (soon,) = figures(simulate(day, "--json"))
    (late,) = figures(simulate(day, "--regret", "40h", "--json"))
    assert (soon["regretted"], late["regretted"]) == (0, 1)
    assert soon["lost_gpu_hours"] == late["lost_gpu_hours"] == pytest.approx(1)


def test_the_table_is_for_people(tmp_path: Path, simulate: Callable[..., Result]) -> None:
    """One line for each policy, with the built-in defaults where there is none."""
    result = simulate(csv(tmp_path / "day.csv", a=forgotten(4)))
    assert "481 readings of 1 " in result.output
    assert "Back within 24h" in result.output
    (line,) = [line for line in result.output.splitlines() if line.startswith("built-in defaults")]
    assert line.split()[2:] == ["1", "1", "0", "4.0", "1.8", "3.5", "0.0"]


def test_recordings_are_simulated_too(simulate: Callable[..., Result]) -> None:
    """The same ends as in a replay, the first for each; notes say what was left out."""
    (found,) = figures(simulate(QUARTER, "--policy", QUARTER_POLICY, "--json"))
    replayed = json.loads((RECORDINGS / "quarter.replay.json").read_text(encoding="utf-8"))
    shutdowns = [(act["at"], act["owner"]) for act in replayed["acts"] if act["action"] == "shutdown"]
    assert shutdowns
    assert [(end["at"], end["owner"]) for end in found["ends"]] == shutdowns
    assert found["readings"] == replayed["recording"]["snapshots"]


def test_several_processes_count_what_one_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the work is shared out, the sums are the same and in the same order, and all of it is reported."""
    day = csv(tmp_path / "day.csv", **{f"n{n}": forgotten(1 + n / 2, then=1) for n in range(8)})
    policies = [Policy(), load([QUARTER_POLICY])]
    alone = simulating.simulate([day, QUARTER], policies)
    monkeypatch.setattr(simulating, "WORTH_A_PROCESS", 3000)
    told = list[tuple[int, int]]()
    shared = simulating.simulate([day, QUARTER], policies, processes=2, progress=lambda *done: told.append(done))
    assert shared == alone
    assert told[-1][0] == told[-1][1] > 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("time,compute_percent,memory_mib\n0,0,x\n", "bad.csv:2: 'x' is no number"),
        ('{"format": "jupyter-gpu-guard snapshots", "version": 99}\n', "bad.csv:1: this is version 99"),
        ('{"a": 1}\n', "bad.csv:1: this is no recording"),
        (None, "bad.csv: No such file or directory"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(
    tmp_path: Path, simulate: Callable[..., Result], text: str | None, says: str
) -> None:
    """One sentence, and no traceback."""
    path = tmp_path / "bad.csv"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    result = simulate(path)
    assert result.exit_code == 1
    assert says in result.output
    assert isinstance(result.exception, SystemExit)


def test_a_hole_is_as_long_as_the_interval_makes_it(tmp_path: Path, simulate: Callable[..., Result]) -> None:
    """Points further apart than twice the interval leave a gap, in which nothing is idle; --interval says it."""
    sparse = csv(tmp_path / "day.csv", a=[(n * 600.0 if n < 60 else n * 600.0 + 3000, 0.0) for n in range(120)])
    (usual,) = figures(simulate(sparse, "--json"))
    (short,) = figures(simulate(sparse, "--interval", "1m", "--json"))
    assert usual["held_gpu_hours"] == pytest.approx(118 / 6)
    assert (usual["ended"], short["ended"], short["held_gpu_hours"]) == (1, 0, 0)
