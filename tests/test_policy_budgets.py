"""Budgets in policy files: what is read, what is refused with its place, what is shown, and their cases."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from jupyter_gpu_guard.cli import main
from jupyter_gpu_guard.core.budget import Budget, Measure, Per
from jupyter_gpu_guard.core.policy import Match
from jupyter_gpu_guard.policyfile import PolicyError, load
from jupyter_gpu_guard.policyfile.cases import failures, policy_beside, read_cases

RULES = """\
version: 1
mode: enforce
rules:
  - {name: students, match: {group: students}, idle: {for: 1h}}
  - {name: used-up, match: {group: students}, idle: {for: 10m}}
  - {name: stay, match: {user: x}, keep: true}
  - {name: trial, mode: observe}
"""
WEEK = "name: week, match: {group: students}, per: user, window: 7d, measure: idle_gib_hours, limit: 40, then: used-up"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Where the policy of a site is."""
    return tmp_path / "site.yaml"


def written(path: Path, *budgets: str) -> Path:
    """The rules with these budgets."""
    path.write_text(RULES + "budgets:\n" + "".join(f"  - {{{text}}}\n" for text in budgets), encoding="utf-8")
    return path


def test_a_budget_arrives(site: Path) -> None:
    """With all its values, and the rule that it leads to may stand behind one that matches all that it does."""
    assert load([written(site, WEEK, WEEK.replace("week", "tiny").replace("40", "0.5"))]).budgets == (
        Budget("week", Measure.IDLE_GIB_HOURS, 40.0, timedelta(days=7), "used-up", Per.USER, Match(group="students")),
        Budget("tiny", Measure.IDLE_GIB_HOURS, 0.5, timedelta(days=7), "used-up", Per.USER, Match(group="students")),
    )


def test_budgets_of_all_files_follow_each_other(site: Path, tmp_path: Path) -> None:
    """In the order of the files; a rule of another file may decide."""
    later = tmp_path / "t.yaml"
    later.write_text(f"version: 1\nbudgets:\n  - {{{WEEK.replace('week', 'later')}}}\n", encoding="utf-8")
    assert [each.name for each in load([written(site, WEEK), later]).budgets] == ["week", "later"]


@pytest.mark.parametrize(
    ("old", "new", "at", "what", "right"),
    [
        ("then: used-up", "then: used_up", "used_up", "no rule is called 'used_up'", "did you mean 'used-up'?"),
        ("then: used-up", "then: stay", "stay", "the rule 'stay' leaves alone what has used too much", "name a rule"),
        (
            "then: used-up",
            "then: trial",
            "trial",
            "the rule 'trial' is on trial and decides nothing",
            "name another rule",
        ),
        ("limit: 40", "limit: 0", "0, then", "0 must be more than 0", "write for example 40"),
        ("limit: 40", "limit: -3", "-3", "-3 must be more than 0", "write for example 40"),
        ("limit: 40", "limit: 40GiB", "40GiB", "'40GiB' is not a number", "its unit is that of `measure`"),
        ("window: 7d", "window: 7", "7,", "'7' has no unit", "write for example 7s"),
        ("window: 7d", "window: 91d", "91d", "'91d' is not between 1h and 90d", "write for example 7d"),
        (
            "idle_gib_hours",
            "idle_gb_hours",
            "idle_gb",
            "'idle_gb_hours' is not a measure",
            "did you mean 'idle_gib_hours'?",
        ),
        ("per: user", "per: users", "users", "'users' is not a way to count together", "did you mean 'user'?"),
        ("limit: 40", "limits: 40", "limits", "'limits' is not known in a budget", "did you mean 'limit'?"),
        (", limit: 40", "", "{name", "a budget without 'limit'", "add `limit:`"),
        ("{group: students}", "{grup: students}", "grup", "'grup' is not known in 'match'", "did you mean 'group'?"),
    ],
)
def test_mistakes_are_named_with_their_place(site: Path, old: str, new: str, at: str, what: str, right: str) -> None:
    """What is wrong, where, and what would be right."""
    line = written(site, WEEK.replace(old, new)).read_text(encoding="utf-8").splitlines()[8]
    with pytest.raises(PolicyError) as error:
        load([site])
    (problem,) = (each for each in error.value.problems if what in each.what)
    assert (problem.place.line, problem.place.column) == (9, line.index(at) + 1), str(problem)
    assert right in problem.right


def test_no_name_stands_for_two_budgets(site: Path) -> None:
    """The second one is told where the first one is."""
    with pytest.raises(PolicyError) as error:
        load([written(site, WEEK, WEEK)])
    assert [problem.what for problem in error.value.problems] == [
        f"the name 'week' is taken by the budget at {site}:9:12"
    ]


def test_a_rule_that_no_budget_leads_to_must_be_reached(site: Path) -> None:
    """Without the budget the rule behind is a mistake, as ever."""
    site.write_text(RULES, encoding="utf-8")
    with pytest.raises(PolicyError, match="never reached"):
        load([site])


def test_a_budget_is_shown_with_its_origin(site: Path) -> None:
    """`policy show` says where each value was written, `policy check` what follows."""
    shown = CliRunner().invoke(main, ["policy", "show", str(written(site, WEEK))]).output
    assert "Budget week: group students" in shown
    assert f"limit 40 {site}:9" in " ".join(shown.split())
    checked = CliRunner().invoke(main, ["policy", "check", str(site)]).output
    assert "Budget week: 40 idle_gib_hours per user in 7d, of group students; then rule used-up." in " ".join(
        checked.split()
    )


CASES = """\
version: 1
cases:
  - name: below
    given: {groups: [students], idle: 30m, used: {week: 39.9}}
    expect: {rule: students, action: keep}
  - name: over
    given: {groups: [students], idle: 30m, used: {week: 40}}
    expect: {rule: used-up, action: warn, next: shutdown, reason: over-budget}
  - name: others
    given: {groups: [staff], idle: 30m, used: {week: 400}}
    expect: {rule: default, action: keep}
"""


def test_cases_say_what_was_used(site: Path, tmp_path: Path) -> None:
    """By the names of the budgets; one that there is not is a failure with its place."""
    cases = tmp_path / "site.cases.yaml"
    policy = load([written(site, WEEK)])
    assert policy_beside(cases) == site
    cases.write_text(CASES, encoding="utf-8")
    assert failures(read_cases(cases), policy) == []
    cases.write_text(CASES.replace("{week: 39.9}", "{weak: 39.9}").replace("{week: 40}", "{week: 4}"), "utf-8")
    first, second, third, *_ = failures(read_cases(cases), policy)
    assert (first.what, first.right, first.place.line) == (
        "below: no budget is called 'weak'",
        "did you mean 'week'?",
        4,
    )
    assert second.what.startswith("over: rule is students, not used-up")
    assert third.what.startswith("over: action is keep")


def test_what_is_used_must_be_a_number(site: Path, tmp_path: Path) -> None:
    """As in a limit."""
    cases = tmp_path / "site.cases.yaml"
    cases.write_text(CASES.replace("{week: 40}", "{week: lots}"), encoding="utf-8")
    with pytest.raises(PolicyError, match="'lots' is not a number"):
        read_cases(cases)
