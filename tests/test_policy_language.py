"""What a policy can say besides idle limits: people, time, states, exemptions, trials; and its mistakes."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from jupyter_gpu_guard.core.calendars import Calendar, Hours
from jupyter_gpu_guard.core.model import OwnerKind, OwnerState
from jupyter_gpu_guard.core.policy import Exemption, KeepLimits, Match, Policy, Trickle
from jupyter_gpu_guard.policyfile import PolicyError, load

BERLIN = ZoneInfo("Europe/Berlin")
WORK = Calendar("work", BERLIN, (Hours(frozenset(range(5)), 8 * 60, 18 * 60),))


@pytest.fixture
def read(tmp_path: Path):
    """Reads files, each the text after its `version` line."""

    def _read(*texts: str) -> Policy:
        paths = [tmp_path / f"{name}.yaml" for name, _ in zip("abc", texts, strict=False)]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(f"version: 1\n{text}\n", encoding="utf-8")
        return load(paths)

    return _read


def utc(text: str) -> datetime:
    """A moment in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


def test_every_part_of_a_condition_arrives(read) -> None:
    """By its name, with its unit; a calendar with the time zone of its file."""
    policy = read(
        'timezone: Europe/Berlin\ncalendars: {work: ["mon-fri 08:00-18:00"]}\nrules:\n'
        "  - name: a\n"
        '    match: {user: "a*", group: students, server: big, owner: kernel, notebook: "x/**", kernelspec: python3,\n'
        '      device: "*H200*", mig: "1g.*", state: idle, memory_above: 2GiB, device_free_below: 10%,\n'
        "      older_than: 12h, during: work}"
    )
    assert policy.rules[0].match == Match(
        user="a*",
        group="students",
        server="big",
        owner=OwnerKind.KERNEL,
        notebook="x/**",
        kernelspec="python3",
        device="*H200*",
        mig="1g.*",
        state=OwnerState.IDLE,
        memory_above=2 * 2**30,
        device_free_below=10,
        older_than=timedelta(hours=12),
        during=WORK,
    )


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("mon-fri 08:00-18:00", Hours(frozenset(range(5)), 480, 1080)),
        ("Monday-Friday 8:00 - 18:00", Hours(frozenset(range(5)), 480, 1080)),
        ("fri-mon 22:00-06:00", Hours(frozenset({4, 5, 6, 0}), 1320, 360)),
        ("sat,sun", Hours(frozenset({5, 6}))),
        ("mon, wed-thu 00:00-24:00", Hours(frozenset({0, 2, 3}))),
        ("daily 12:00-13:30", Hours(frozenset(range(7)), 720, 810)),
        ("12:00-13:30", Hours(frozenset(range(7)), 720, 810)),
    ],
)
def test_hours_are_read_as_people_write_them(read, text: str, hours: Hours) -> None:
    """Days alone are whole days; without days it is every day; a single one needs no list."""
    policy = read(f'timezone: UTC\ncalendars: {{c: "{text}"}}\nrules: [{{name: a, match: {{during: c}}}}]')
    assert policy.rules[0].match.during == Calendar("c", ZoneInfo("UTC"), (hours,))


def test_a_time_zone_holds_for_its_file_and_those_behind_it(read) -> None:
    """A file that is added later does not move the hours of those before it; any file may name any calendar."""
    policy = read(
        "timezone: Europe/Berlin\ncalendars: {early: sat}\nrules: [{name: a, match: {during: late}}]",
        "calendars: {same: sun}\nrules: [{name: b, match: {during: early}}, {name: c, match: {during: same}}]",
        "timezone: Asia/Tokyo\ncalendars: {late: sat}",
    )
    zones = [str(rule.match.during.zone) for rule in policy.rules if rule.match.during]
    assert zones == ["Asia/Tokyo", "Europe/Berlin", "Europe/Berlin"]


@pytest.mark.parametrize(
    ("until", "ends"),
    [
        ("2027-01-20T00:00Z", "2027-01-20T00:00:00"),
        ("2027-01-20T10:30+02:00", "2027-01-20T08:30:00"),
        ("2027-01-20 18:00", "2027-01-20T17:00:00"),  # by the clock of Berlin
        ("2027-01-20", "2027-01-20T23:00:00"),  # a day ends with its last hour
        ("2027-10-31T02:30", "2027-10-31T01:30:00"),  # comes twice: the later one
        ("2027-03-28T02:30", "2027-03-28T01:30:00"),  # never comes: not earlier than meant
    ],
)
def test_an_exemption_ends_when_it_says(read, until: str, ends: str) -> None:
    """Without a zone by the clock of the file; where the clock is unclear, the later moment."""
    policy = read(
        "timezone: Europe/Berlin\nexemptions:\n"
        f"  - {{match: {{user: anna, notebook: 'neurips/**'}}, until: {until}, reason: rebuttal runs}}"
    )
    assert policy.exemptions == (Exemption(Match(user="anna", notebook="neurips/**"), utc(ends), "rebuttal runs"),)


def test_exemptions_of_all_files_hold(read) -> None:
    """Also those of the past are read: they are no mistake."""
    one = "exemptions: [{match: {user: a}, until: 2001-01-01T00:00Z, reason: past}]"
    assert [each.reason for each in read(one, one.replace("past", "other")).exemptions] == ["past", "other"]
    assert read("exemptions: []").exemptions == ()


def test_how_often_and_why_something_may_be_kept(read) -> None:
    """Not given: as often as they like, and without a word. Key by key, as everything in `defaults`."""
    policy = read("defaults: {keep: {per_day: 3, reason: required}}\nrules: [{name: a, keep: {reason: optional}}]")
    assert policy.rules[1].keep_limits == KeepLimits(timedelta(hours=8), per_day=3, reason_required=True)
    assert policy.rules[0].keep_limits == KeepLimits(timedelta(hours=8), per_day=3, reason_required=False)
    assert Policy().rules[0].keep_limits == KeepLimits(per_day=None, reason_required=False)


def test_limits_of_states_are_merged_one_by_one(read) -> None:
    """A rule changes one and inherits the others."""
    policy = read(
        "defaults: {states: {waiting-for-input: 6h, executing: never}}\nrules: [{name: a, states: {executing: 9h}}]"
    )
    waiting, executing = OwnerState.WAITING, OwnerState.EXECUTING
    assert policy.rules[0].states == {waiting: timedelta(hours=6), executing: timedelta(hours=9)}
    assert policy.rules[1].states == {waiting: timedelta(hours=6), executing: None}


def test_a_trickle_is_off_until_a_time_is_given(read) -> None:
    """Two percent, if nothing else is said; `never` switches it off in a rule."""
    assert read("").rules[0].trickle is None
    policy = read(
        "defaults: {trickle: {over: 6h}}\nrules: [{name: a, match: {owner: kernel}, trickle: {over: never}}, "
        "{name: b, match: {owner: terminal}, trickle: {mean_below: 1%}}]"
    )
    six = timedelta(hours=6)
    assert [rule.trickle for rule in policy.rules] == [None, Trickle(1, six), Trickle(2, six)]


def test_a_rule_on_trial_covers_nothing(read) -> None:
    """What stands behind it is reached; with `mode: observe` it ends no search."""
    policy = read("rules: [{name: a, mode: observe, idle: {for: 1h}}, {name: b, match: {owner: kernel}}]")
    assert [rule.observe for rule in policy.rules] == [True, False, False]


def test_a_later_file_replaces_or_disables_a_rule_by_its_name(read) -> None:
    """What replaces comes in the place of the other; a disabled rule is gone."""
    first = "rules: [{name: a, match: {user: a}}, {name: b, match: {user: b}}, {name: c, match: {user: c}}]"
    second = (
        "rules: [{name: c, override: disable}, {name: a, override: replace, match: {user: z}}, {name: d, keep: true}]"
    )
    policy = read(first, second)
    assert [(rule.name, rule.match.user) for rule in policy.rules[:-1]] == [("a", "z"), ("b", "b"), ("d", None)]


ZONED = "timezone: UTC\ncalendars: {work: mon}\n"
ONE_MISTAKE = {
    "kept never": ("defaults: {keep: {per_day: 0}}", "2:28: 0 must be 1 or more; write a larger number, or leave it"),
    "a reason as a yes": ("defaults: {keep: {reason: yes}}", "2:27: 'yes' is not a way to ask for a reason; write opt"),
    "unknown part of a match": (
        "rules: [{name: a, match: {groups: x}}]",
        "2:27: 'groups' is not known in 'match'; did you mean 'group'?",
    ),
    "group that is a number": (
        "rules: [{name: a, match: {group: 1000}}]",
        "2:34: '1000' is not read as a text by YAML; put it in quotes",
    ),
    "age of nothing": ("rules: [{name: a, match: {older_than: 0}}]", "2:39: '0' is the age of everything; write for"),
    "free share without a sign": (
        "rules: [{name: a, match: {device_free_below: 10}}]",
        "2:46: '10' has no unit; write 10%",
    ),
    "a board that waits": (
        "rules: [{name: a, match: {owner: tensorboard, state: waiting-for-input}}]",
        "2:54: only a kernel is ever waiting-for-input; remove it, or write `owner: kernel`",
    ),
    "unknown calendar": (
        f"{ZONED}rules: [{{name: a, match: {{during: wrok}}}}]",
        "4:35: no calendar is called 'wrok'; did you mean 'work'?",
    ),
    "no calendar at all": (
        "rules: [{name: a, match: {during: work}}]",
        "2:35: no calendar is called 'work'; add it to `calendars`",
    ),
    "hours without a zone": (
        "calendars: {work: mon}",
        "2:13: hours without a time zone; add for example `timezone: Europe/Berlin` at the top level of the file",
    ),
    "calendar twice": (f"{ZONED[:-1][:-1]}, work: tue}}", "3:24: 'work' is given twice; keep one of them"),
    "unknown zone": (
        "timezone: Europe/Berln",
        "2:11: 'Europe/Berln' is not a time zone; did you mean 'Europe/Berlin'?",
    ),
    "zone by its city": ("timezone: berlin", "2:11: 'berlin' is not a time zone; did you mean 'Europe/Berlin'?"),
    "zone that is a folder": ("timezone: Europe", "2:11: 'Europe' is not a time zone; "),
    "zone outside": ("timezone: ../../etc/passwd", "2:11: '../../etc/passwd' is not a time zone; write for example"),
    "unknown day": (
        "timezone: UTC\ncalendars: {c: [mond 08:00-09:00]}",
        "3:17: 'mond' is not a day; did you mean 'mon'?",
    ),
    "hour of no day": ("timezone: UTC\ncalendars: {c: 'mon 08:00-25:00'}", "3:16: '25:00' is not a time of day; write"),
    "no hours": ("timezone: UTC\ncalendars: {c: weekends!}", "3:16: 'weekends!' are no hours; write for example"),
    "empty hours": ("timezone: UTC\ncalendars: {c: '08:00-08:00'}", "3:16: '08:00-08:00' are no hours; write 00:00-24"),
    "calendars as a list": (
        "timezone: UTC\ncalendars: [mon]",
        "3:12: 'calendars' must be a mapping of keys to values, not a list; write for example office-hours:",
    ),
    "exemption without a reason": (
        "exemptions: [{match: {user: a}, until: 2027-01-01T00:00Z}]",
        "2:14: an exemption without 'reason'; add `reason:`",
    ),
    "exemption of everything, by accident": (
        "exemptions: [{until: 2027-01-01T00:00Z, reason: x}]",
        "2:14: an exemption without 'match'; add `match:`",
    ),
    "exemption until whenever": (
        "exemptions: [{match: {user: a}, until: soon, reason: x}]",
        "2:40: 'soon' is not a moment; write for example 2027-01-20, ",
    ),
    "exemption until no day": (
        "exemptions: [{match: {user: a}, until: 2027-02-30, reason: x}]",
        "2:40: '2027-02-30' is not on the calendar; write",
    ),
    "exemption until the end of time": (
        "exemptions: [{match: {user: a}, until: 9999-12-31, reason: x}]",
        "2:40: '9999-12-31' is not on the calendar; write",
    ),
    "exemption by no clock": (
        "exemptions: [{match: {user: a}, until: 2027-01-01T00:00, reason: x}]",
        "2:40: a moment without a time zone; write Z at its end, or `timezone:` at the top level of the file",
    ),
    "state without a limit of its own": (
        "defaults: {states: {idle: 6h}}",
        "2:21: 'idle' is not known in 'states'; write `idle: {for: 2h}` beside `states`",
    ),
    "state that the rule does not match": (
        "rules: [{name: a, match: {state: idle}, states: {executing: 6h}}]",
        "2:61: never used: this rule matches only what is idle; remove it, or remove `state` from `match`",
    ),
    "trickle without a time": (
        "defaults: {trickle: {mean_below: 1%}}",
        "2:34: a trickle without a time to look at; add for example `over: 6h`",
    ),
    "trickle of a moment": ("defaults: {trickle: {over: 5m}}", "2:28: '5m' is not between 1h and 3d; write for exam"),
    "trickle of weeks": ("defaults: {trickle: {over: 2w}}", "2:28: '2w' is not between 1h and 3d; write for example"),
    "trickle that is work": (
        "defaults: {trickle: {over: 6h, mean_below: 8%}}",
        "2:44: a mean of 8% is no trickle where 5% counts as compute; write `mean_below` with less than 5%",
    ),
    "trickle that is work in one rule": (
        "defaults: {trickle: {over: 6h}}\nrules: [{name: a, idle: {compute_below: 1%}}]",
        "3:41: a mean of 2% is no trickle where 1% counts as compute; write",
    ),
    "trial that keeps": (
        "rules: [{name: a, mode: observe, keep: true}]",
        "2:25: 'mode' has no effect beside `keep: true`; remove 'mode', or remove",
    ),
    "rule that enforces": (
        "rules: [{name: a, mode: enforce}]",
        "2:25: 'enforce' is not a mode of a rule; write observe",
    ),
    "override of nothing": (
        "rules: [{name: a, override: replace}]",
        "2:29: no rule 'a' stands before this one; remove `override`",
    ),
    "override in one file": (
        "rules: [{name: a, match: {user: a}}, {name: a, override: replace}]",
        "2:58: the other rule 'a' is in this file too; keep one of them",
    ),
    "override in no way": (
        "rules: [{name: a, override: remove}]",
        "2:29: 'remove' is not a way to deal with an earlier rule; write disable or replace",
    ),
    "key of a match in an exemption": (
        "exemptions: [{user: a, match: {}, until: 2027-01-01T00:00Z, reason: x}]",
        "2:15: 'user' is not known in an exemption; it belongs in match",
    ),
    "covered by a wider memory": (
        "rules: [{name: a, match: {memory_above: 1GiB}}, {name: b, match: {memory_above: 2GiB}}]",
        "never reached: the rule at ",
    ),
    "covered by a wider group": (
        'rules: [{name: a, match: {group: "*"}}, {name: b, match: {group: students, user: a}}]',
        "never reached: the rule at ",
    ),
    "covered at its hours": (
        f"{ZONED}rules: [{{name: a, match: {{during: work}}}}, {{name: b, match: {{during: work, user: a}}}}]",
        "never reached: the rule at ",
    ),
}


@pytest.mark.parametrize(("text", "expected"), ONE_MISTAKE.values(), ids=ONE_MISTAKE.keys())
def test_each_mistake_is_named_once_with_its_place_and_remedy(read, text: str, expected: str) -> None:
    """One mistake gives one problem: file, line, column, what is wrong, what would be right."""
    with pytest.raises(PolicyError) as refused:
        read(text)
    (problem,) = refused.value.problems
    assert expected in str(problem)
    assert "/a.yaml:" in str(problem)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("memory_above: 2GiB", "memory_above: 1GiB"),
        ("memory_above: 2GiB", "user: a"),
        ("older_than: 2h", "older_than: 1h"),
        ("device_free_below: 5%", "device_free_below: 10%"),
        ("device_free_below: 100%", "user: a"),
        ("during: work", "during: rest"),
        ("during: work", "user: a"),
        ("group: staff", "group: students"),
        ("server: a", "user: a"),
    ],
)
def test_a_rule_that_may_be_reached_is_no_mistake(read, wide: str, narrow: str) -> None:
    """Only what is covered for certain is refused."""
    zoned = "timezone: UTC\ncalendars: {work: mon, rest: tue}\n"
    assert len(read(f"{zoned}rules: [{{name: a, match: {{{wide}}}}}, {{name: b, match: {{{narrow}}}}}]").rules) == 3


def test_names_are_one_space_over_all_files(read) -> None:
    """A name that is taken elsewhere can be overridden, and that is said; a calendar cannot."""
    with pytest.raises(
        PolicyError, match=r"b.yaml:2:16: the name 'a' is taken .*; use another, or write `override: rep"
    ):
        read("rules: [{name: a, match: {user: a}}]", "rules: [{name: a, match: {user: b}}]")
    with pytest.raises(PolicyError, match=r"b.yaml:2:13: the name 'work' is taken by the calendar at .*; use another"):
        read(ZONED, "calendars: {work: tue}")
    with pytest.raises(PolicyError, match="'match' has no effect beside `override: disable`"):
        read("rules: [{name: a, match: {user: a}}]", "rules: [{name: a, override: disable, match: {user: b}}]")
