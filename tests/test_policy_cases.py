"""Cases beside a policy: what they say about a holder is what a guard would say."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_gpu_guard.core.model import OwnerKind, OwnerState
from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.core.verdict import Code
from jupyter_gpu_guard.policyfile import PolicyError, load
from jupyter_gpu_guard.policyfile.cases import failures, judged, policy_beside, read_cases

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "deploy" / "policies").glob("*.cases.yaml"))
OLD = "idle: 20m, memory: 20GiB, kernelspec: python3, server: big"
POLICY = """\
version: 1
mode: enforce
timezone: Europe/Berlin
calendars: {office-hours: "mon-fri 08:00-18:00"}
exemptions: [{match: {user: anna}, until: 2027-01-20, reason: rebuttal}]
defaults: {trickle: {over: 6h}}
rules:
  - {name: lectures, match: {notebook: "lectures/**", during: office-hours}, keep: true}
  - {name: boards, match: {owner: tensorboard}, idle: {for: 1h, unwatched_for: 1h}}
  - {name: scarce, match: {device: "*H200*", device_free_below: 10%}, idle: {for: 10m}}
  - {name: old, match: {older_than: 12h, memory_above: 20GiB, kernelspec: "py*", server: big}, idle: {for: 15m}}
  - {name: students, match: {group: students}, idle: {for: 30m}}
"""


@pytest.fixture
def one(tmp_path: Path):
    """What is said about the holder that is `given` in a case."""
    (tmp_path / "p.yaml").write_text(POLICY, encoding="utf-8")

    def _one(given: str):
        path = tmp_path / "p.cases.yaml"
        path.write_text(f"version: 1\ncases: [{{name: x, given: {{{given}}}, expect: {{action: keep}}}}]\n", "utf-8")
        (scene,) = read_cases(path)
        return judged(scene, load([policy_beside(path)]))

    return _one


@pytest.mark.parametrize(
    ("given", "rule", "action", "code"),
    [
        ("idle: 119m", "default", Action.KEEP, Code.IDLE_NOT_LONG),
        ("idle: 2h", "default", Action.WARN, Code.IDLE_TOO_LONG),
        ("idle: 3h, warned: 16m", "default", Action.SHUTDOWN, Code.IDLE_TOO_LONG),
        ("idle: 3h, warned: 14m", "default", Action.KEEP, Code.NOTICE_RUNNING),
        ("idle: 3h, kept: true", "default", Action.KEEP, Code.LEASED),
        ("idle: 3h, memory: 500MiB", "default", Action.KEEP, Code.HOLDS_LITTLE),
        ("idle: 3h, compute: 5%", "default", Action.KEEP, Code.COMPUTING),
        ("idle: 3h, state: executing", "default", Action.WARN, Code.STATE_WARNS_ONLY),
        ("memory: 3GiB", "default", Action.KEEP, Code.UNKNOWN_READING),
        ("unused: 7h, compute: 40%, mean: 1%", "default", Action.WARN, Code.TRICKLE),
        ("unused: 5h, compute: 40%, mean: 1%", "default", Action.KEEP, Code.COMPUTING),
        ("idle: 31m, groups: [a, students]", "students", Action.WARN, Code.IDLE_TOO_LONG),
        ("idle: 31m, groups: students", "students", Action.WARN, Code.IDLE_TOO_LONG),
        ("idle: 9h, user: anna, at: 2027-01-20T22:59Z", "default", Action.KEEP, Code.EXEMPT),
        ("idle: 9h, user: anna, at: 2027-01-20T23:01Z", "default", Action.WARN, Code.IDLE_TOO_LONG),
        ("idle: 9h, notebook: lectures/a.ipynb, at: 2027-01-11T07:00Z", "lectures", Action.KEEP, Code.RULE_KEEPS),
        ("idle: 9h, notebook: lectures/a.ipynb, at: 2027-01-11T06:59Z", "default", Action.WARN, Code.IDLE_TOO_LONG),
        ("idle: 61m, owner: tensorboard, memory: 1MiB", "boards", Action.WARN, Code.UNWATCHED),
        ("idle: 11m, device: NVIDIA H200, device_free: 9%", "scarce", Action.WARN, Code.IDLE_TOO_LONG),
        ("idle: 11m, device: NVIDIA H200, device_free: 10%", "default", Action.KEEP, Code.IDLE_NOT_LONG),
        (f"{OLD}, age: 13h", "old", Action.WARN, Code.IDLE_TOO_LONG),
        (f"{OLD}, age: 11h", "default", Action.KEEP, Code.IDLE_NOT_LONG),
    ],
)
def test_what_is_given_is_what_is_judged(one, given: str, rule: str, action: Action, code: Code) -> None:
    """Each word makes the difference that its name promises."""
    verdict = one(given)
    assert (verdict.rule, verdict.action) == (rule, action)
    assert code in [reason.code for reason in verdict.reasons]


@pytest.mark.parametrize("kind", OwnerKind)
@pytest.mark.parametrize("state", OwnerState)
def test_every_kind_and_state_can_be_given(one, kind: OwnerKind, state: OwnerState) -> None:
    """Also those that no rule can name."""
    assert one(f"owner: {kind.value}, state: {state.value}, idle: 1m").action is Action.KEEP


def test_what_is_not_as_expected_is_named_with_its_place(tmp_path: Path) -> None:
    """File, line and column of the expectation, what is said instead, and why."""
    path = tmp_path / "p.cases.yaml"
    path.write_text(
        "version: 1\ncases:\n"
        "  - {name: right, given: {idle: 3h}, expect: {action: warn, next: shutdown, reason: observing}}\n"
        "  - name: wrong\n"
        "    given: {idle: 3h}\n"
        "    expect: {rule: students, action: keep, next: warn, reason: never}\n",
        "utf-8",
    )
    (tmp_path / "p.yaml").write_text("version: 1\n", "utf-8")
    found = [
        str(problem).removeprefix(f"{tmp_path}/") for problem in failures(read_cases(path), load([tmp_path / "p.yaml"]))
    ]
    why = (
        "Holds 8.0 GiB with less than 5 % compute for 3 h; the limit is 2 h. The guard only observes: nothing is ended."
    )
    assert found == [
        f"p.cases.yaml:6:20: wrong: rule is default, not students; rule default says: {why}",
        f"p.cases.yaml:6:38: wrong: action is warn, not keep; rule default says: {why}",
        f"p.cases.yaml:6:50: wrong: next is shutdown, not warn; rule default says: {why}",
        f"p.cases.yaml:6:64: wrong: reason is idle-too-long, observing, not never; rule default says: {why}",
    ]


MISTAKES = {
    "no version": ("cases: []", "1:1: the file without 'version'; add `version:`"),
    "no cases": ("version: 1\ncases: []", "2:8: 'cases' is empty; "),
    "another version": (
        "version: 2\ncases: [{name: a, given: {}, expect: {action: keep}}]",
        "1:10: this is not a known v",
    ),
    "no expectation": ("version: 1\ncases: [{name: a, given: {}}]", "2:9: a case without 'expect'; add `expect:`"),
    "nothing expected": (
        "version: 1\ncases: [{name: a, given: {}, expect: {}}]",
        "2:38: a case that expects nothing; add for example `action: keep`",
    ),
    "a word that is no fact": (
        "version: 1\ncases: [{name: a, given: {group: x}, expect: {action: keep}}]",
        "2:27: 'group' is not known in 'given'; ",
    ),
    "a state that is none": (
        "version: 1\ncases: [{name: a, given: {state: idel}, expect: {action: keep}}]",
        "2:34: 'idel' is not known as state; did you mean 'idle'?",
    ),
    "an action that is none": (
        "version: 1\ncases: [{name: a, given: {}, expect: {action: kill}}]",
        "2:47: 'kill' is not known as action; write keep, park, release, shutdown or warn",
    ),
    "a reason that is none": (
        "version: 1\ncases: [{name: a, given: {}, expect: {reason: idle-to-long}}]",
        "2:47: 'idle-to-long' is not known as reason; did you mean 'idle-too-long'?",
    ),
    "a moment without a zone": (
        "version: 1\ncases: [{name: a, given: {at: 2027-01-11T10:00}, expect: {action: keep}}]",
        "2:31: a moment without a time zone; write Z or for example +01:00 at its end",
    ),
    "a duration without a unit": (
        "version: 1\ncases: [{name: a, given: {idle: 30}, expect: {action: keep}}]",
        "2:33: '30' has no unit; write for example 30s",
    ),
    "empty": ("", "is empty"),
}


@pytest.mark.parametrize(("text", "expected"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_in_cases_are_named_like_those_in_policies(tmp_path: Path, text: str, expected: str) -> None:
    """A case that cannot be read is never counted as one that holds."""
    path = tmp_path / "p.cases.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(PolicyError) as refused:
        read_cases(path)
    assert expected in str(refused.value)


def test_a_file_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    """As everywhere."""
    with pytest.raises(PolicyError, match="cannot be read"):
        read_cases(tmp_path / "none.cases.yaml")


def test_every_example_policy_has_cases() -> None:
    """Whoever copies one can change it and see what breaks."""
    assert len(EXAMPLES) >= 5
    policies = {path for path in (ROOT / "deploy" / "policies").glob("*.yaml") if path not in EXAMPLES}
    assert {policy_beside(path) for path in EXAMPLES} == policies


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_example_policies_say_what_their_cases_expect(path: Path) -> None:
    """Each rule of each decides about at least one of its cases."""
    policy, scenes = load([policy_beside(path)]), read_cases(path)
    assert failures(scenes, policy) == []
    decided = {judged(scene, policy).rule for scene in scenes}
    assert decided >= {rule.name for rule in policy.rules if not rule.observe} - {"default"}
