"""`policy show`, `schema`, `test` and `why`, and what `check` adds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from jupyter_gpu_guard import running
from jupyter_gpu_guard.cli import main
from jupyter_gpu_guard.cli.policies import why_lines
from jupyter_gpu_guard.policyfile import discover, load
from jupyter_gpu_guard.policyfile.provenance import trace
from jupyter_gpu_guard.policyfile.schema import cases_schema, json_schema

FIRST = """\
version: 1
timezone: UTC
exemptions: [{match: {user: anna}, until: 2020-01-01, reason: a paper}]
defaults:
  idle: {for: 1h}
  states: {executing: never, serving: 9h}
rules:
  - {name: lectures, match: {notebook: "lectures/**"}, keep: true}
  - {name: students, match: {group: students}, keep: {per_day: 2, reason: required}}
"""
SECOND = """\
version: 1
mode: enforce
defaults: {idle: {memory_above: 1GiB}, states: {serving: 12h}}
rules:
  - {name: students, override: replace, match: {group: "stud*"}, idle: {for: 30m}, trickle: {over: 6h}}
  - {name: later, mode: observe, ladder: [{do: warn, after: 5m}]}
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two policy files in the folder that the server reads."""
    folder = tmp_path / "gpu-guard" / "policy.d"
    folder.mkdir(parents=True)
    monkeypatch.setattr("jupyter_core.paths.SYSTEM_CONFIG_PATH", [str(tmp_path)])
    monkeypatch.setattr("jupyter_core.paths.ENV_CONFIG_PATH", [])
    for name, text in (("1.yaml", FIRST), ("2.yaml", SECOND)):
        (folder / name).write_text(text, encoding="utf-8")
    return folder / "1.yaml", folder / "2.yaml"


def call(*arguments: str | Path) -> Result:
    """Run `jupyter gpu-guard policy` with these arguments."""
    result = CliRunner().invoke(main, ["policy", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_each_value_has_the_place_that_it_comes_from(files) -> None:
    """The nearest that says it: the rule, the later file's defaults, the earlier one's; or it is built in."""
    traced = trace(files)
    assert traced.policy.rules == load(files).rules
    students = next(rule for rule in traced.rules if rule.rule.name == "students")
    found = {
        value.name: (value.said, str(value.place).removeprefix(f"{files[0].parent}/")) for value in students.values
    }
    assert str(students.place) == f"{files[1]}:5:12"
    assert found == {
        "idle.compute_below": ("5%", "None"),
        "idle.memory_above": ("1GiB", "2.yaml:3:33"),
        "idle.for": ("30m", "2.yaml:5:78"),
        "states.executing": ("never", "1.yaml:6:23"),
        "states.serving": ("12h", "2.yaml:3:58"),
        "trickle.mean_below": ("2%", "None"),
        "trickle.over": ("6h", "2.yaml:5:100"),
        "notice": ("15m", "None"),
        "undelivered": ("12h", "None"),
        "keep.longest": ("8h", "None"),
        "ladder": ("warn at once, shutdown after 15m", "None"),
    }
    default = {value.name: str(value.place) for value in traced.rules[-1].values}
    assert default["idle.for"] == f"{files[0]}:5:15"


def test_show_prints_every_rule_and_where_it_comes_from(files) -> None:
    """Those that the server would read, in their order; what is built in is called so."""
    result = call("show")
    lines = [line.rstrip() for line in result.output.splitlines()]
    assert result.exit_code == 0
    assert lines[:2] == ["Mode enforce.", "Exempt until 2020-01-02T00:00+00:00: user anna (a paper)"]
    heads = [line for line in lines if line and not line.startswith((" ", "Mode", "Exempt"))]
    assert heads == [
        f"lectures: notebook lectures/**  {files[0]}:8",
        f"students: group stud*  {files[1]}:5",
        f"later: everything  {files[1]}:6",
        "default: everything",
    ]
    assert f"  keep  true  {files[0]}:8" in lines
    assert any(line.split() == ["mode", "observe", f"{files[1]}:6"] for line in lines)
    assert any(line.split() == ["notice", "15m", "built", "in"] for line in lines)


def test_show_gives_the_same_to_programs(files) -> None:
    """As JSON, with the columns too."""
    shown = json.loads(call("show", "--json", *files).output)
    assert shown["mode"] == "enforce"
    assert shown["exemptions"] == [
        {"match": {"user": "anna"}, "until": "2020-01-02T00:00:00+00:00", "reason": "a paper"}
    ]
    rules = {rule["name"]: rule for rule in shown["rules"]}
    assert list(rules) == ["lectures", "students", "later", "default"]
    assert rules["default"]["from"] is None
    assert rules["students"]["match"] == {"group": "stud*"}
    assert rules["students"]["values"]["idle.for"] == {"value": "30m", "from": f"{files[1]}:5:78"}


def test_show_and_test_name_every_problem(tmp_path: Path) -> None:
    """As `check` does: on stderr, status 1."""
    path = tmp_path / "p.yaml"
    path.write_text("version: 1\nmode: on\ndefaults: {notice: 5}\n", encoding="utf-8")
    (tmp_path / "p.cases.yaml").write_text("version: 1\ncases: [{name: a, given: {}, expect: {action: keep}}]", "utf-8")
    for arguments in (("show", path), ("test", path), ("test", tmp_path / "none.yaml")):
        result = call(*arguments)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(str(tmp_path))


def test_check_notes_what_is_over(files) -> None:
    """An exemption of the past is no mistake, and is said; a rule on trial is called so."""
    result = call("check", *files)
    assert result.exit_code == 0
    assert "Note: the exemption of user anna (a paper) is over since 2020-01-02 00:00 UTC." in result.output
    assert "later (on trial)" in result.output
    assert "Left alone until" not in result.output
    files[0].write_text(FIRST.replace("2020-01-01", "2999-01-01"), encoding="utf-8")
    result = call("check", *files)
    assert "Left alone until 2999-01-02 00:00 UTC: user anna (a paper)." in result.output
    assert "Note" not in result.output


def test_schema_prints_both() -> None:
    """For a policy, and for its cases."""
    assert json.loads(call("schema").output) == json_schema()
    assert json.loads(call("schema", "--cases").output) == cases_schema()


CASES = """\
version: 1
cases:
  - {name: one, given: {groups: students, idle: 59m}, expect: {rule: students, action: keep}}
  - {name: two, given: {idle: 31m}, expect: {rule: students, action: warn}}
"""


def test_cases_that_fail_are_named_and_counted(files) -> None:
    """Each with file, line and column; status 1. When all hold: 0."""
    cases = files[0].with_name("1.cases.yaml")
    cases.write_text(CASES, encoding="utf-8")
    result = call("test", files[0])
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert lines[0].startswith(f"{cases}:4:52: two: rule is default, not students; rule default says: Holds 8.0 GiB")
    assert lines[-1] == f"{cases}: 1 of 2 cases as expected"
    cases.write_text(CASES.replace("{idle: 31m}, expect: {rule: students, action: warn}", "{}, expect: {action: keep}"))
    result = call("test", cases)
    assert (result.exit_code, result.output) == (0, f"{cases}: 2 of 2 cases as expected\n")


def test_cases_are_judged_by_all_files_that_the_server_reads(files) -> None:
    """Without a file: together. And the server does not take cases for a policy."""
    cases = files[0].with_name("site.cases.yaml")
    cases.write_text(
        "version: 1\ncases: [{name: a, given: {groups: students, memory: 900MiB, idle: 9h}, "
        "expect: {rule: students, action: keep, reason: holds-little}}]"
    )
    assert call("test").output == f"{cases}: 1 of 1 cases as expected\n"
    assert discover() == files
    result = call("test", cases, "--policy", files[0])
    assert result.exit_code == 1
    assert "action is warn, not keep" in result.output


def test_without_cases_there_is_nothing_to_test(files) -> None:
    """That is said, and is no success."""
    result = call("test")
    assert result.exit_code == 1
    assert "There are no cases files" in result.stderr


HOLDER = {"owner": "kernel:a", "kind": "kernel", "name": "a.ipynb", "notebook": "work/a.ipynb"}
EXPLANATION = {
    "holder": HOLDER,
    "lines": ["Rule: default.", "Holds 8.0 GiB."],
    "passed_over": [{"rule": "lectures", "unmet": ["notebook", "during"]}, {"rule": "trial", "unmet": []}],
}


def test_why_names_the_rules_that_were_passed_over() -> None:
    """Each with what does not hold; then the argument of the rule that decides."""
    assert list(why_lines(EXPLANATION)) == [
        "work/a.ipynb (kernel:a)",
        "  Not rule lectures: notebook and during do not hold.",
        "  Not rule trial: it is on trial.",
        "  Rule: default.",
        "  Holds 8.0 GiB.",
    ]


def test_why_asks_the_running_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of none: one sentence, status 1. An older server tells no rules that were passed over."""
    monkeypatch.setattr(running, "running_servers", list)
    result = call("why", "a.ipynb")
    assert result.exit_code == 1
    assert "No Jupyter server of yours is running here" in result.stderr
    server = running.Server("http://localhost:1/", "localhost", 1)
    monkeypatch.setattr(running, "running_servers", lambda: [server])
    monkeypatch.setattr(
        "jupyter_gpu_guard.cli.explaining.explanations", lambda *_: [{**EXPLANATION, "passed_over": []}]
    )
    assert call("why", "kernel:a").output.splitlines()[0] == "work/a.ipynb (kernel:a)"
    assert json.loads(call("why", "kernel:a", "--json").output)["explanations"][0]["holder"] == HOLDER
