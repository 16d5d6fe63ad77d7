"""Policy files: what is read, how files merge, and that every mistake is named with its place and its remedy."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpu_guard.core.model import OwnerKind, OwnerState
from jupyter_gpu_guard.core.policy import Action, Belts, Idle, KeepLimits, Match, Mode, Policy, Rule, Stage
from jupyter_gpu_guard.policyfile import PolicyError, broken, discover, from_traits, load


@pytest.fixture
def write(tmp_path: Path):
    """Writes a policy file and gives its path."""

    def _write(text: str | bytes, name: str = "site.yaml") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return _write


def problems_of(*paths: Path) -> list[str]:
    """Every problem that load() finds, without the folder."""
    with pytest.raises(PolicyError) as refused:
        load(paths)
    assert str(refused.value).splitlines() == [str(problem) for problem in refused.value.problems]
    return [str(problem).removeprefix(f"{paths[0].parent}/") for problem in refused.value.problems]


EVERYTHING = """\
version: 1
mode: enforce
belts: {shutdowns_per_hour: 7, shutdowns_per_tick: 2}
defaults:
  idle: {compute_below: 4%, memory_above: 1GiB, for: 1h}
  notice: 10m
  keep: {longest: 4h}
  ladder: [{do: warn}, {do: shutdown, after: 12m}]
rules:
  - {name: lectures, match: {notebook: "lectures/**", kernelspec: python3}, keep: true}
  - name: cards
    match: {owner: kernel, device: "*H200*", state: idle}
    idle: {for: 20m}
    ladder: [{do: warn, after: 5m}, {do: warn, after: +1m}, {do: shutdown, after: "+14m"}]
    keep: {longest: 30m}
  - {name: never, match: {owner: terminal}, idle: {for: never}}
"""


def test_every_key_arrives(write) -> None:
    """A file with every key gives exactly the policy it says, and a catch-all made of its defaults."""
    policy = load([write(EVERYTHING)])
    idle = Idle(compute_below=4, memory_above=2**30, lasting=timedelta(hours=1))
    usual = (Stage(Action.WARN), Stage(Action.SHUTDOWN, timedelta(minutes=12)))
    notice = timedelta(minutes=10)
    longest = KeepLimits(timedelta(hours=4))
    assert policy.mode is Mode.ENFORCE
    assert policy.belts == Belts(shutdowns_per_hour=7, shutdowns_per_tick=2)
    assert policy.fault is None
    assert policy.rules == (
        Rule("lectures", Match(notebook="lectures/**", kernelspec="python3"), idle, notice, longest, usual, keep=True),
        Rule(
            "cards",
            Match(owner=OwnerKind.KERNEL, device="*H200*", state=OwnerState.IDLE),
            Idle(compute_below=4, memory_above=2**30, lasting=timedelta(minutes=20)),
            notice,
            KeepLimits(timedelta(minutes=30)),
            (
                Stage(Action.WARN, timedelta(minutes=5)),
                Stage(Action.WARN, timedelta(minutes=6)),
                Stage(Action.SHUTDOWN, timedelta(minutes=20)),
            ),
        ),
        Rule("never", Match(owner=OwnerKind.TERMINAL), Idle(4, 2**30, None), notice, longest, usual),
        Rule("default", Match(), idle, notice, longest, usual),
    )


def test_a_file_that_says_little_gets_the_built_in_defaults(write) -> None:
    """Only a version: the same rules as with no file at all, and observing."""
    policy = load([write("version: 1\n")])
    assert policy.rules == Policy().rules
    assert (policy.mode, policy.belts) == (Mode.OBSERVE, Belts())
    assert load([]).rules == Policy().rules


def test_the_usual_ladder_follows_the_notice(write) -> None:
    """Who changes only the notice need not write a ladder: the shutdown moves with it."""
    policy = load([write("version: 1\ndefaults: {notice: 1h}\nrules:\n - {name: r, notice: 2h}\n")])
    assert [rule.ladder[-1] for rule in policy.rules] == [
        Stage(Action.SHUTDOWN, timedelta(hours=2)),
        Stage(Action.SHUTDOWN, timedelta(hours=1)),
    ]


def test_later_files_win_key_by_key_and_rules_follow_each_other(write) -> None:
    """`defaults`, `mode` and `belts` are merged key by key; rules are asked in the order of the files."""
    first = write(
        "version: 1\nmode: enforce\nbelts: {shutdowns_per_hour: 3}\n"
        "defaults: {idle: {compute_below: 2%, for: 1h}, notice: 20m}\n"
        "rules: [{name: a, match: {owner: kernel}, idle: {memory_above: 2GiB}}]\n",
        "a.yaml",
    )
    second = write(
        "version: 1\nbelts: {shutdowns_per_tick: 1}\ndefaults: {idle: {for: 3h}, keep: {longest: 1h}}\n"
        "rules: [{name: b, match: {owner: terminal}}]\n",
        "b.yaml",
    )
    policy = load([first, second])
    assert policy.mode is Mode.ENFORCE
    assert policy.belts == Belts(shutdowns_per_hour=3, shutdowns_per_tick=1)
    assert [rule.name for rule in policy.rules] == ["a", "b", "default"]
    assert policy.rules[0].idle == Idle(2, 2 * 2**30, timedelta(hours=3))
    assert policy.rules[1].idle == Idle(2, 512 * 2**20, timedelta(hours=3))
    assert {rule.notice for rule in policy.rules} == {timedelta(minutes=20)}
    assert {rule.keep_limits.longest for rule in policy.rules} == {timedelta(hours=1)}
    assert policy.source == f"{first}, {second}"


def test_the_digest_follows_the_content(write, tmp_path: Path) -> None:
    """Twelve hex digits: the same for the same content elsewhere, another for any other content or order."""
    one, two = write("version: 1\n", "1.yaml"), write("version: 1\nmode: enforce\n", "2.yaml")
    same = write("version: 1\n", "copy.yaml")
    digests = [load(paths).digest for paths in ([one], [two], [one, two], [two, one], [])]
    assert len(set(digests)) == len(digests)
    assert load([same]).digest == digests[0]
    assert all(len(digest) == 12 and int(digest, 16) >= 0 for digest in digests)


@pytest.mark.parametrize("text", ["0", "-1", "-5m", "0s", "never", "Never", "-0.5"])
def test_zero_or_less_means_never(write, text: str) -> None:
    """A timeout of 0 or less is never, not at once."""
    assert load([write(f"version: 1\ndefaults: {{idle: {{for: {text}}}}}\n")]).rules[-1].idle.lasting is None


def test_a_rule_may_only_warn(write) -> None:
    """A ladder without a shutdown is complete."""
    policy = load([write("version: 1\nrules: [{name: r, ladder: [{do: warn}]}]\n")])
    assert policy.rules[0].ladder == (Stage(Action.WARN),)


def test_a_byte_order_mark_and_an_empty_list_of_rules_are_fine(write) -> None:
    """Editors write byte order marks; a `rules:` with everything commented out holds no rule."""
    assert load([write(b"\xef\xbb\xbfversion: 1\nrules:\n")]).rules == Policy().rules
    assert load([write("version: 1\nrules: []\n")]).rules == Policy().rules


ONE_MISTAKE = {
    "version missing": ("mode: observe\n", "1:1: says no version; add `version: 1` as its first line"),
    "version unknown": ("version: 2\nmodes: x\n", "1:10: '2' is not a known version; write `version: 1`"),
    "mode": ("version: 1\nmode: enforced\n", "2:7: 'enforced' is not a mode; did you mean 'enforce'?"),
    "mode read as a boolean": ("version: 1\nmode: off\n", "2:7: 'off' is not a mode; write enforce or observe"),
    "mode empty": ("version: 1\nmode:\n", "2:6: a mode must be a single value, not empty; write enforce or observe"),
    "top-level key": ("version: 1\nrule: []\n", "2:1: 'rule' is not known in the file; did you mean 'rules'?"),
    "key in the wrong place": (
        "version: 1\nnotice: 5m\n",
        "2:1: 'notice' is not known in the file; it belongs in defaults or a rule",
    ),
    "idle key one level up": (
        "version: 1\ndefaults: {for: 2h}\n",
        "2:12: 'for' is not known in 'defaults'; it belongs in idle",
    ),
    "key that is no word": ("version: 1\n? [a]\n: b\n", "2:3: a key must be a single word; write belts"),
    "key twice": ("version: 1\nmode: observe\nmode: enforce\n", "3:1: 'mode' is given twice; keep one of them"),
    "belt of zero": (
        "version: 1\nbelts: {shutdowns_per_hour: 0}\n",
        "2:29: 0 must be 1 or more; write `mode: observe` to end nothing",
    ),
    "belt below zero": ("version: 1\nbelts: {shutdowns_per_tick: -2}\n", "2:29: -2 must be 1 or more; write"),
    "belt that is no number": ("version: 1\nbelts: {shutdowns_per_tick: 1.5}\n", "2:29: '1.5' is not a whole number"),
    "belt out of reach": (
        "version: 1\nbelts: {shutdowns_per_tick: 99999999999}\n",
        "is no limit; write 1000000 or less",
    ),
    "number for a duration": (
        "version: 1\ndefaults: {idle: {for: 30}}\n",
        "2:24: '30' has no unit; write for example 30s, 30m or 30h",
    ),
    "sexagesimal": ("version: 1\ndefaults: {notice: 12:30}\n", "2:20: '12:30' is a time of day, not a duration"),
    "size": (
        "version: 1\ndefaults: {idle: {memory_above: 5x}}\n",
        "2:33: '5x' is not a size; write for example 512MiB",
    ),
    "size of zero": ("version: 1\ndefaults: {idle: {memory_above: 0}}\n", "holds no GPU memory at all; write"),
    "size below zero": ("version: 1\ndefaults: {idle: {memory_above: -1GiB}}\n", "holds no GPU memory at all; write"),
    "share without a sign": ("version: 1\ndefaults: {idle: {compute_below: 0.05}}\n", "'0.05' has no unit; write 5%"),
    "share of zero": ("version: 1\ndefaults: {idle: {compute_below: 0%}}\n", "is not between 0% and 100%"),
    "share above all": ("version: 1\ndefaults: {idle: {compute_below: 101%}}\n", "is not between 0% and 100%"),
    "notice of zero": ("version: 1\ndefaults: {notice: 0}\n", "2:20: '0' leaves people no time to answer; write"),
    "notice below zero": ("version: 1\ndefaults: {notice: -5m}\n", "'-5m' leaves people no time to answer"),
    "undelivered before the notice": (
        "version: 1\ndefaults: {notice: 20m, undelivered: 10m}\n",
        "2:38: a warning that reaches nobody would stand 10m only; write `undelivered: 20m` or more",
    ),
    "a rule whose notice is longer than undelivered": (
        "version: 1\ndefaults: {undelivered: 30m}\nrules:\n  - {name: a, notice: 1h}\n",
        "4:23: a warning that reaches nobody would stand 30m only; write `undelivered: 1h` or more",
    ),
    "keep of zero": ("version: 1\ndefaults: {keep: {longest: 0}}\n", "'0' leaves people no time to answer"),
    "keep true in defaults": ("version: 1\ndefaults: {keep: true}\n", "'keep' must be a mapping of keys to values"),
    "list for a mapping": (
        "version: 1\ndefaults: []\n",
        "2:11: 'defaults' must be a mapping of keys to values, not a list",
    ),
    "mapping for a list": (
        "version: 1\nrules: {a: b}\n",
        "2:8: 'rules' must be a list, not a mapping of keys to values",
    ),
    "list for a duration": ("version: 1\ndefaults: {notice: [5m]}\n", "a quantity must be a single value, not a list"),
    "text for the file": ("just text\n", "1:1: the file must be a mapping of keys to values, not a single value"),
    "text for a rule": ("version: 1\nrules:\n  - everyone\n", "3:5: a rule must be a mapping of keys to values"),
    "empty match": (
        "version: 1\nrules:\n  - {name: a, match: }\n",
        "'match' must be a mapping of keys to values, not empty",
    ),
    "rule without a name": ("version: 1\nrules:\n  - {keep: true}\n", "3:5: a rule without a name; add `name:`"),
    "name that is a number": (
        "version: 1\nrules: [{name: 12}]\n",
        "'12' is not read as a text by YAML; put it in quotes",
    ),
    "reserved name": (
        "version: 1\nrules: [{name: default}]\n",
        "the name 'default' stands for the rule made of `defaults`",
    ),
    "same name": (
        "version: 1\nrules:\n  - {name: a, match: {state: idle}}\n  - {name: a, match: {state: dead}}\n",
        "site.yaml:4:12: the name 'a' is taken by the rule at ",
    ),
    "owner": (
        "version: 1\nrules: [{name: a, match: {owner: kernal}}]\n",
        "2:34: 'kernal' is not an owner; did you mean 'kernel'?",
    ),
    "state that nobody can match": (
        "version: 1\nrules: [{name: a, match: {state: unknown}}]\n",
        "'unknown' is not a state; write at-breakpoint, dead, executing, idle, input-bound, serving, starting",
    ),
    "a kernel that is watched": (
        "version: 1\nrules: [{name: a, match: {owner: kernel}, idle: {unwatched_for: 1h}}]\n",
        "only a TensorBoard is watched; remove it, or write `owner: tensorboard`",
    ),
    "half-trusted estimates": (
        "version: 1\ndefaults: {trust_estimates: maybe}\n",
        "'maybe' is neither true nor false; write true or false",
    ),
    "absolute notebook": (
        "version: 1\nrules: [{name: a, match: {notebook: /home/ann/x.ipynb}}]\n",
        "'/home/ann/x.ipynb' never matches: notebook paths start at the server's root folder; write for example 'home",
    ),
    "kernelspec of a terminal": (
        "version: 1\nrules: [{name: a, match: {owner: terminal, kernelspec: python3}}]\n",
        "only a kernel has a kernelspec; remove it, or write `owner: kernel`",
    ),
    "notebook of a terminal": (
        "version: 1\nrules: [{name: a, match: {owner: terminal, notebook: '*'}}]\n",
        "a terminal has no notebook; remove it",
    ),
    "keep that is no word": (
        "version: 1\nrules: [{name: a, keep: yes}]\n",
        "'yes' is not a way to keep; write `keep: true`",
    ),
    "keep beside thresholds": (
        "version: 1\nrules: [{name: a, keep: true, idle: {for: 1h}}]\n",
        "2:37: 'idle' has no effect beside `keep: true`; remove 'idle', or remove `keep: true`",
    ),
    "rule after everything": (
        "version: 1\nrules:\n  - {name: all, match: {}}\n  - {name: a, match: {owner: kernel}}\n",
        "matches everything; move this one before it, or narrow its `match`",
    ),
    "rule after a wider one": (
        "version: 1\nrules:\n  - {name: a, match: {notebook: '**'}}\n  - {name: b, match: {notebook: x}}\n",
        "site.yaml:4:12: never reached: the rule at ",
    ),
    "shutdown unannounced": (
        "version: 1\ndefaults: {ladder: [{do: shutdown, after: 1h}]}\n",
        "2:43: a shutdown without a warning before it; put `{do: warn}` before it",
    ),
    "park unannounced": (
        "version: 1\ndefaults: {ladder: [{do: park, after: 1h}, {do: warn, after: 2h}]}\n",
        "2:39: a park without a warning before it; put `{do: warn}` before it",
    ),
    "shutdown before its notice": (
        "version: 1\ndefaults: {notice: 15m, ladder: [{do: warn, after: 5m}, {do: shutdown, after: 15m}]}\n",
        "2:79: this shutdown comes before its notice of 15m has run out; write `after: 20m` or more, or a",
    ),
    "notice longer than an inherited ladder": (
        "version: 1\ndefaults: {ladder: [{do: warn}, {do: shutdown, after: 15m}]}\nrules: [{name: a, notice: 30m}]\n",
        "3:27: this shutdown comes before its notice of 30m has run out; write `after: 30m` or more",
    ),
    "shutdown at once": (
        "version: 1\nrules: [{name: a, ladder: [{do: warn}, {do: shutdown}]}]\n",
        "2:40: this shutdown comes before its notice of 15m has run out",
    ),
    "stages out of order": (
        "version: 1\ndefaults: {ladder: [{do: warn, after: 5m}, {do: warn, after: 2m}]}\n",
        "this warn is due before the stage above it; write `after: 5m` or more",
    ),
    "stage after the end": (
        "version: 1\ndefaults: {ladder: [{do: warn}, {do: shutdown, after: 1h}, {do: warn, after: 2h}]}\n",
        "a stage after shutdown; remove it: nothing is left to act on",
    ),
    "stage that is none": (
        "version: 1\ndefaults: {ladder: [{do: keep}]}\n",
        "'keep' is not a stage; write park, release, shutdown or warn",
    ),
    "stage without an act": (
        "version: 1\ndefaults: {ladder: [{after: 5m}]}\n",
        "a stage that does nothing; add `do: warn`",
    ),
    "stage below zero": ("version: 1\ndefaults: {ladder: [{do: warn, after: -1m}]}\n", "'-1m' is negative; write"),
    "ladder without a rung": ("version: 1\ndefaults: {ladder: []}\n", "'ladder' is empty; leave it out"),
    "tab": ("version: 1\ndefaults:\n\tnotice: 5m\n", "3:1: a tab cannot indent in YAML; use spaces"),
    "pattern read as an alias": (
        'version: 1\nrules: [{name: a, match: {device: *H200, notebook: "x"}}]\n',
        "2:35: '*H200' is read as an alias, and aliases are not used here; write \"*H200\" in quotes",
    ),
    "pattern that is no alias": (
        "version: 1\nrules: [{name: a, match: {notebook: *.ipynb}}]\n",
        "2:38: a value that starts with * is read as an alias; put the pattern in quotes",
    ),
    "anchor": ("version: 1\ndefaults: &d {notice: 5m}\n", "2:11: '&d' is an anchor, and anchors are not used here"),
    "tag": ("version: !!python/name:os.system 1\n", "is a tag, and tags are not used here"),
    "open bracket": ("version: 1\nrules: [\n", "3:1: is not YAML: expected the node content, but found '<stream end>'"),
    "two documents": ("version: 1\n---\nversion: 1\n", "2:1: a second document starts here; keep one document"),
    "colon": ("version: 1\ndefaults: a: b\n", "2:12: a colon is not expected here; check the indentation"),
    "percent sign first": (
        "version: 1\nmode: %x\n",
        "2:7: found character '%' that cannot start any token; put the value",
    ),
    "empty": ("", "site.yaml: is empty; start with `version: 1`, or remove the file"),
    "only comments": ("# nothing yet\n", "site.yaml: is empty; start with `version: 1`, or remove the file"),
    "control character": ("version: 1\nmode: \x07\n", "2:7: the character U+0007 is not allowed; remove it"),
    "not UTF-8": (b"version: 1\nmode: \xff\n", "2:7: byte 0xff is not UTF-8; save the file as UTF-8"),
    "too large": ("version: 1\n" + "#" * 2**18, "site.yaml: is larger than 256 KiB; split it into several files"),
    "too deep": ("version: 1\nrules: " + "[" * 5000, "2:39: is nested more than 32 deep; write it flatter"),
}


@pytest.mark.parametrize(("text", "expected"), ONE_MISTAKE.values(), ids=ONE_MISTAKE.keys())
def test_each_mistake_is_named_once_with_its_place_and_remedy(write, text: str | bytes, expected: str) -> None:
    """One mistake gives one problem: file, line, column, what is wrong, what would be right."""
    (problem,) = problems_of(write(text))
    assert problem.startswith("site.yaml:")
    assert expected in problem
    assert "; " in problem


def test_all_problems_of_all_files_are_told_at_once(write, tmp_path: Path) -> None:
    """Nobody fixes a file one error at a time; the order is that of the files and lines."""
    first = write(
        "version: 1\nmode: on\nrules:\n - {name: a, idle: {for: 5}}\n - {name: b}\ndefaults: {notic: 1m}\n", "a.yaml"
    )
    second = write("version: 1\nrules: [{name: a, match: {state: idle}}]\n", "b.yaml")
    found = problems_of(first, tmp_path / "missing.yaml", second)
    places = [problem.split("; ")[0].removeprefix(f"{tmp_path}/")[:11] for problem in found]
    assert places == [
        "a.yaml:2:7:",
        "a.yaml:4:26",
        "a.yaml:5:11",
        "a.yaml:6:12",
        "missing.yam",
        "b.yaml:2:16",
        "b.yaml:2:16",
    ]


def test_a_match_that_cannot_be_read_covers_nothing(write) -> None:
    """A typing error in one match is not blamed on the rules behind it."""
    text = "version: 1\nrules:\n - {name: a, match: {ownr: kernel}}\n - {name: b, match: {owner: kernel}}\n"
    assert problems_of(write(text)) == ["site.yaml:3:22: 'ownr' is not known in 'match'; did you mean 'owner'?"]


def test_what_is_no_file_is_a_problem_and_not_a_wait(tmp_path: Path) -> None:
    """A folder, a missing file and a pipe that nobody writes to are refused at once."""
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    assert "is not a regular file; name a YAML file" in problems_of(pipe)[0]
    assert "cannot be read (Is a directory)" in problems_of(tmp_path)[0]
    assert "cannot be read (No such file or directory)" in problems_of(tmp_path / "none.yaml")[0]
    assert "cannot be read" in problems_of(tmp_path / "a\0b.yaml")[0]


def test_aliases_cannot_unfold(write) -> None:
    """The 'billion laughs' file is refused; nothing in it is expanded."""
    lines = ["version: 1", "a0: &a0 [lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    assert any("aliases are not used here" in problem for problem in problems_of(write("\n".join(lines))))


@given(st.text(max_size=60))
def test_any_text_gives_a_policy_or_problems(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """Whatever the file holds, load() answers with a policy or a PolicyError, and with nothing else."""
    path = tmp_path_factory.mktemp("any") / "p.yaml"
    path.write_text(f"version: 1\ndefaults:\n  {text}", encoding="utf-8", errors="replace")
    try:
        policy = load([path])
    except PolicyError as error:
        assert error.problems  # noqa: PT017 - either end is right
    else:
        assert policy.rules[-1].name == "default"


def test_traits_make_the_same_policy_as_a_file(write) -> None:
    """The options and the file with the same figures differ in nothing but their source and digest."""
    by_file = load([write("version: 1\nmode: enforce\ndefaults: {idle: {compute_below: 3%, for: 1h}, notice: 5m}\n")])
    by_traits = from_traits(mode="enforce", cull_idle_timeout=3600, cull_compute_below=3, notice_time=300)
    assert by_traits.rules == by_file.rules
    assert by_traits.mode is by_file.mode
    assert from_traits().rules == Policy().rules
    assert len({by_traits.digest, from_traits().digest}) == 2


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("{notice: 5m}", timedelta(hours=12)),
        ("{notice: 30h}", timedelta(hours=30)),
        ("{undelivered: 3h}", timedelta(hours=3)),
        ("{undelivered: never}", None),
        ("{undelivered: 0}", None),
    ],
)
def test_how_long_a_warning_that_reaches_nobody_stands(write, said: str, means: timedelta | None) -> None:
    """Half a day, never less than the notice, or as a file says; a rule says its own."""
    assert load([write(f"version: 1\ndefaults: {said}\n")]).rules[-1].undelivered == means
    by_rule = f"version: 1\ndefaults: {{undelivered: 1h}}\nrules:\n  - {{name: a, {said[1:]}\n"
    if "undelivered" in said:
        assert [rule.undelivered for rule in load([write(by_rule)]).rules] == [means, timedelta(hours=1)]


def test_options_say_how_long_a_warning_that_reaches_nobody_stands() -> None:
    """Never less than the notice; 0 or less is never."""
    assert from_traits(undelivered_time=3600).rules[-1].undelivered == timedelta(hours=1)
    assert from_traits(undelivered_time=60, notice_time=600).rules[-1].undelivered == timedelta(minutes=10)
    assert from_traits(undelivered_time=0).rules[-1].undelivered is None


@pytest.mark.parametrize("seconds", [0, -1, -0.5])
def test_options_of_zero_or_less_never_run_out(seconds: float) -> None:
    """No idle limit: never idle. No notice limit: people are told and nothing is ended."""
    assert from_traits(cull_idle_timeout=seconds).rules[-1].idle.lasting is None
    assert from_traits(notice_time=seconds).rules[-1].ladder == (Stage(Action.WARN),)


def test_options_that_cannot_be_used_are_named() -> None:
    """Each wrong option is one problem under its own name."""
    with pytest.raises(PolicyError) as refused:
        from_traits(
            mode="enforced", cull_compute_below=500, cull_memory_above=0, cull_idle_timeout=1e300, longest_keep=-1
        )
    assert [str(problem).split(":")[0] for problem in refused.value.problems] == [
        "c.GpuGuard.mode",
        "c.GpuGuard.cull_idle_timeout",
        "c.GpuGuard.cull_compute_below",
        "c.GpuGuard.cull_memory_above",
        "c.GpuGuard.longest_keep",
    ]
    assert "did you mean 'enforce'?" in str(refused.value)


def test_options_that_are_no_numbers_are_named() -> None:
    """A value that is not a number, not even infinity, never becomes a limit."""
    for bad in (float("nan"), float("inf")):
        with pytest.raises(PolicyError) as refused:
            from_traits(
                cull_idle_timeout=bad, cull_compute_below=bad, cull_memory_above=bad, notice_time=bad, longest_keep=bad
            )
        assert len(refused.value.problems) == 5


def test_a_broken_policy_only_observes_and_says_why(write) -> None:
    """Whatever the fallback was, it ends nothing, and its fault names the first problems and counts the rest."""
    path = write("version: 1\nmode: on\n" + "".join(f"x{n}: 1\n" for n in range(6)))
    with pytest.raises(PolicyError) as refused:
        load([path])
    policy = broken(refused.value.problems, from_traits(mode="enforce"))
    assert policy.mode is Mode.OBSERVE
    assert policy.fault is not None
    assert policy.fault.splitlines()[0] == f"{path}:2:7: 'on' is not a mode; write enforce or observe"
    assert policy.fault.splitlines()[-1] == "and 2 more"


def test_policy_files_are_found_site_first(tmp_path: Path) -> None:
    """The site's folder comes before the user's, each in name order; other files and folders do not count."""
    user, site = tmp_path / "user", tmp_path / "site"
    for root, names in ((user, ["50-mine.yaml"]), (site, ["20-b.yaml", "10-a.yaml", "notes.txt"])):
        folder = root / "gpu-guard" / "policy.d"
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).write_text("version: 1\n")
    found = discover([str(user), str(tmp_path / "absent"), str(site), str(site)])
    assert [path.name for path in found] == ["10-a.yaml", "20-b.yaml", "50-mine.yaml"]


def test_the_sites_folders_are_searched_and_the_users_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an argument the folders are Jupyter's system paths: a policy is the site's, not the user's."""
    for name in ("system", "user"):
        (tmp_path / name / "gpu-guard" / "policy.d").mkdir(parents=True)
        (tmp_path / name / "gpu-guard" / "policy.d" / "a.yaml").write_text("version: 1\n")
    monkeypatch.setattr("jupyter_core.paths.SYSTEM_CONFIG_PATH", [str(tmp_path / "system")])
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "user"))
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path / "user"))
    found = discover()
    assert tmp_path / "system" / "gpu-guard" / "policy.d" / "a.yaml" in found
    assert tmp_path / "user" / "gpu-guard" / "policy.d" / "a.yaml" not in found
