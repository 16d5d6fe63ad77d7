"""Whose word a policy file is, and what a person's own file may say beside the site's. Real files, owners and modes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpu_guard.core.model import OwnerState
from jupyter_gpu_guard.core.policy import Action, Idle, KeepLimits, Mode, Policy, Rule, Stage
from jupyter_gpu_guard.core.rehearse import Carried, rehearse
from jupyter_gpu_guard.policyfile import PolicyError, govern, load
from jupyter_gpu_guard.policyfile.tightening import loosened
from jupyter_gpu_guard.policyfile.trust import Person, Standing, standing
from tests.core.build import client, device, owner, process, snapshot

USER, GROUP = 54321, 54322
PERSON = Person(USER, frozenset({GROUP}))
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")

SITE = """\
version: 1
mode: enforce
defaults: {idle: {for: 2h}, notice: 15m}
rules:
  - {name: lectures, match: {notebook: "lectures/**"}, keep: true}
  - {name: large, match: {device: "*H200*"}, idle: {for: 30m}}
"""


@pytest.fixture
def room() -> Iterator[Path]:
    """A folder of root's alone, and so are all that lead to it."""
    with tempfile.TemporaryDirectory(dir="/root") as folder:
        yield Path(folder)


def write(path: Path, text: str = "version: 1\n", *, uid: int = 0, gid: int = 0, mode: int = 0o644) -> Path:
    """A file of this owner and mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    os.chown(path, uid, gid)
    path.chmod(mode)
    return path


def of(path: Path, who: Person = PERSON) -> Standing:
    """Whose word the file is."""
    return standing(path, path.stat(), who)


@pytest.mark.parametrize(
    ("uid", "gid", "mode", "expected"),
    [
        (0, 0, 0o644, Standing.SITE),
        (0, 0, 0o600, Standing.SITE),
        (0, 999, 0o664, Standing.SITE),  # a group of administrators
        (777, 999, 0o644, Standing.SITE),  # an administrator without root
        (0, GROUP, 0o644, Standing.SITE),
        (0, GROUP, 0o664, Standing.OWN),
        (USER, 0, 0o644, Standing.OWN),
        (USER, 0, 0o444, Standing.OWN),  # an owner can take the right to write
        (0, 0, 0o646, Standing.ANYBODY),
        (USER, GROUP, 0o666, Standing.ANYBODY),
    ],
)
def test_a_file_is_the_word_of_whoever_could_change_it(
    room: Path, uid: int, gid: int, mode: int, expected: Standing
) -> None:
    """Its owner, its group and its mode tell; who may only read it does not matter."""
    assert of(write(room / "site.yaml", uid=uid, gid=gid, mode=mode)) is expected


@pytest.mark.parametrize(
    ("uid", "gid", "mode", "expected"),
    [
        (0, 0, 0o755, Standing.SITE),
        (USER, 0, 0o755, Standing.OWN),
        (USER, 0, 0o555, Standing.OWN),
        (0, GROUP, 0o775, Standing.OWN),
        (0, 0, 0o777, Standing.ANYBODY),
        (0, 0, 0o1777, Standing.SITE),  # as /tmp: only owners may replace what is in it
        (USER, 0, 0o1777, Standing.OWN),
    ],
)
def test_a_folder_that_leads_to_it_counts_as_much(
    room: Path, uid: int, gid: int, mode: int, expected: Standing
) -> None:
    """Whoever may write in a folder can put another file in the place of this one, however far above it is."""
    path = write(room / "above" / "gpu-guard" / "policy.d" / "site.yaml")
    os.chown(room / "above", uid, gid)
    (room / "above").chmod(mode)
    assert of(path) is expected


def test_links_are_followed_to_their_end(room: Path) -> None:
    """A file of root's behind a person's link is theirs, and so is a person's file behind root's link."""
    site = write(room / "site.yaml")
    theirs = write(room / "home" / "own.yaml", uid=USER)
    os.chown(room / "home", USER, 0)
    (room / "out").symlink_to(theirs)
    (room / "in").symlink_to(site)
    (room / "home" / "in").symlink_to(site)
    (room / "around").symlink_to("home/in")
    (room / "folder").symlink_to("home")
    (room / "home" / ".." / "up").resolve().symlink_to("home/../site.yaml")
    assert {name: of(room / name) for name in ("out", "in", "around", "folder/own.yaml", "up")} == {
        "out": Standing.OWN,
        "in": Standing.SITE,
        "around": Standing.OWN,
        "folder/own.yaml": Standing.OWN,
        "up": Standing.OWN,
    }


def test_a_link_that_leads_nowhere_is_a_problem_and_not_an_endless_walk(room: Path) -> None:
    """Two links to each other are refused by name, and break no policy of the site if they are a person's own."""
    (room / "a").symlink_to("b")
    (room / "b").symlink_to("a")
    with pytest.raises(PolicyError, match="a: cannot be read"):
        govern([room / "a"], [], PERSON)
    os.chown(room / "a", USER, 0, follow_symlinks=False)
    policy = govern([write(room / "site.yaml", SITE), room / "a"], [], PERSON).policy
    assert policy.mode is Mode.ENFORCE
    assert policy.fault is not None


def test_what_was_checked_is_what_was_read(room: Path) -> None:
    """A file that was put in the place of the one that is open is noticed."""
    path = write(room / "site.yaml")
    opened = path.stat()
    write(room / "other.yaml").replace(path)
    with pytest.raises(OSError, match="replaced"):
        standing(path, opened, PERSON)


def test_root_is_bound_by_nothing_but_what_everybody_may_change(room: Path) -> None:
    """Who may change everything is the administrator: each of their files is the site's."""
    root = Person(0, frozenset({0}))
    assert of(write(room / "own.yaml", uid=USER), root) is Standing.SITE
    assert of(write(room / "open.yaml", mode=0o666), root) is Standing.ANYBODY
    own = write(room / "named.yaml", "version: 1\nmode: observe\n")
    governing = govern([write(room / "site.yaml", SITE)], [own], root)
    assert (governing.policy.mode, governing.by_site) == (Mode.OBSERVE, False)


def test_without_a_policy_of_the_site_ones_own_is_in_force(room: Path) -> None:
    """On one's own machine one's own file may enforce."""
    own = write(room / "own.yaml", "version: 1\nmode: enforce\ndefaults: {idle: {for: 9h}}\n", uid=USER)
    governing = govern([], [own], PERSON)
    assert governing.policy == load([own])
    assert not governing.by_site


def test_what_everybody_may_change_enforces_nothing(room: Path) -> None:
    """It is refused with a remedy in mode enforce; to observe by it does no harm."""
    path = write(room / "site.yaml", SITE, mode=0o666)
    with pytest.raises(PolicyError, match=r"site.yaml: everybody .* may change it.*chmod o-w"):
        govern([path], [], PERSON)
    path.write_text(SITE.replace("enforce", "observe"), encoding="utf-8")
    assert govern([path], [], PERSON).policy.fault is None


def governed(room: Path, own: str, site: str = SITE) -> Policy:
    """The policy of a person under the site's, with a file of their own that configuration names."""
    files = write(room / "etc" / "site.yaml", site), write(room / "own.yaml", own, uid=USER)
    governing = govern(files[:1], files[1:], PERSON)
    assert governing.by_site
    return governing.policy


def test_a_person_may_tighten(room: Path) -> None:
    """Shorter limits, a lower threshold and rules of one's own hold beside the site's rules, which come first."""
    policy = governed(
        room,
        "version: 1\ndefaults: {idle: {for: 1h, memory_above: 256MiB, compute_below: 8%}, keep: {longest: 1h}}\n"
        "rules: [{name: mine, match: {notebook: 'x/**'}, idle: {for: 10m}, notice: 5m, undelivered: 1h}]\n",
    )
    assert policy.fault is None
    assert policy.mode is Mode.ENFORCE
    assert [rule.name for rule in policy.rules] == ["lectures", "large", "mine", "default"]
    assert policy.rules[1].idle == Idle(8.0, 256 * 2**20, timedelta(minutes=30))
    assert policy.rules[2].idle.lasting == timedelta(minutes=10)
    assert policy.rules[3].idle.lasting == timedelta(hours=1)


@pytest.mark.parametrize(
    ("own", "expected"),
    {
        "mode: observe": "2:7: the site's policy is in mode enforce",
        "belts: {shutdowns_per_hour: 1}": "2:1: only the site's policy may say 'belts'",
        "budgets: [{name: b, per: user, window: 1d, measure: gpu_hours, limit: 1, then: default}]": (
            "2:1: only the site's policy may say 'budgets'"
        ),
        "defaults: {idle: {for: 3h}}": "2:24: `idle.for` is looser here",
        "defaults: {idle: {for: never}}": "2:24: `idle.for` is looser here",
        "defaults: {idle: {compute_below: 1%}}": "2:34: `idle.compute_below` is looser here",
        "defaults: {idle: {memory_above: 8GiB}}": "2:33: `idle.memory_above` is looser here",
        "defaults: {notice: 20m}": "2:20: `notice` is looser here",
        "defaults: {undelivered: 13h}": "2:25: `undelivered` is looser here",
        "defaults: {undelivered: never}": "2:25: `undelivered` is looser here",
        "defaults: {keep: {longest: 9h}}": "2:28: `keep.longest` is looser here",
        "defaults: {ladder: [{do: warn}]}": "2:20: `ladder` is looser here",
        "defaults: {idle: {unwatched_for: 1h}}": "2:34: `idle.unwatched_for` is looser here",
        "rules: [{name: all, keep: true}]": "2:27: `keep` is looser here",
        "rules: [{name: a, match: {notebook: 'a/*'}, idle: {for: 3h}}]": "2:57: `idle.for` is looser here",
        "rules: [{name: lectures, match: {notebook: x}}]": "the name 'lectures' is taken",
        "mood: bad": "2:1: 'mood' is not known",
        "rules: [": "is not YAML",
    }.items(),
)
def test_what_loosens_is_left_out_and_said_with_its_place(room: Path, own: str, expected: str) -> None:
    """The site's policy is in force without the file, to the last value, and the fault names file, line and column."""
    policy = governed(room, f"version: 1\n{own}\n")
    assert policy.fault is not None
    assert f"{room}/own.yaml" in policy.fault
    assert expected in policy.fault
    assert policy.fault_is_own  # it is told to them
    assert replace(policy, fault=None, fault_is_own=False) == load([room / "etc" / "site.yaml"])


GENTLE = SITE.replace(
    "notice: 15m", "notice: 15m, ladder: [{do: warn}, {do: park, after: 15m}, {do: shutdown, after: 8h}]"
)


@pytest.mark.parametrize(
    ("own", "is_taken"),
    [
        ("{do: warn}, {do: shutdown, after: 8h}", False),
        ("{do: warn}, {do: release, after: 15m}, {do: shutdown, after: 8h}", False),
        ("{do: warn}, {do: park, after: 20m}, {do: shutdown, after: 8h}", False),
        ("{do: warn}, {do: park, after: 15m}", False),
        ("{do: warn}, {do: park, after: 15m}, {do: shutdown, after: 9h}", False),
        ("{do: warn}, {do: release}, {do: park, after: 15m}, {do: shutdown, after: 7h}", True),
        ("{do: warn}, {do: shutdown, after: 15m}", True),
    ],
)
def test_no_stage_of_the_site_may_be_left_out(room: Path, own: str, *, is_taken: bool) -> None:
    """Parking spares work, and yet gives the GPU back early: each stage stays, or a harder one, and no later."""
    policy = governed(room, f"version: 1\ndefaults: {{ladder: [{own}]}}\n", GENTLE)
    assert (policy.fault is None) is is_taken, policy.fault
    assert is_taken or "`ladder` is looser here" in str(policy.fault)


def test_nobody_can_switch_the_sites_policy_off_by_breaking_their_own(room: Path) -> None:
    """A file of one's own that is missing, a pipe or everybody's changes nothing but the fault."""
    site = write(room / "etc" / "site.yaml", SITE)
    os.mkfifo(room / "pipe.yaml")
    everybodys = write(room / "everybodys.yaml", uid=USER, mode=0o666)
    for own in (room / "missing.yaml", room / "pipe.yaml", everybodys):
        policy = govern([site], [own], PERSON).policy
        assert policy.mode is Mode.ENFORCE
        assert policy.fault is not None
        assert own.name in policy.fault


def test_a_file_that_is_named_is_no_site_policy_whoever_owns_it(room: Path) -> None:
    """A person could name any file of root's that suits them."""
    suits = write(room / "example.yaml", "version: 1\nmode: observe\n")
    policy = govern([write(room / "etc" / "site.yaml", SITE)], [suits], PERSON).policy
    assert policy.mode is Mode.ENFORCE
    assert policy.fault is not None


def test_a_mistake_in_the_sites_own_files_is_no_matter_of_the_person(room: Path) -> None:
    """Then there is no policy, and the server only observes."""
    with pytest.raises(PolicyError, match="mood"):
        governed(room, "version: 1\n", "version: 1\nmood: bad\n")


def _lengths(most: int) -> st.SearchStrategy[timedelta]:
    return st.integers(1, most).map(lambda n: timedelta(seconds=10 * n))


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    """A rule of tens of seconds."""
    notice = draw(_lengths(4))
    ladder = [Stage(Action.WARN)]
    if draw(st.booleans()):
        ladder.append(Stage(Action.SHUTDOWN, notice + draw(_lengths(4))))
    return Rule(
        "default",
        idle=Idle(
            draw(st.sampled_from([1.0, 5.0, 50.0])),
            draw(st.sampled_from([1.0, 2.0**30, 2.0**34])),
            draw(st.none() | _lengths(8)),
        ),
        notice=notice,
        keep_limits=KeepLimits(draw(_lengths(3))),
        ladder=tuple(ladder),
        keep=draw(st.booleans()),
        trust_estimates=draw(st.booleans()),
        states=draw(st.dictionaries(st.sampled_from([OwnerState.IDLE, OwnerState.EXECUTING]), st.none() | _lengths(8))),
    )


def ended_after(rule: Rule, state: OwnerState, compute: float) -> float:
    """Seconds after which an owner that stays as it is would be ended; infinity: not within the film."""
    policy, carried = Policy(Mode.ENFORCE, (rule,)), Carried()
    for second in range(0, 300, 10):
        seen = snapshot(
            process(100),
            owners=[owner(state=state)],
            clients=[client(100, compute=compute)],
            devices=[device()],
            now=float(second),
        )
        scene = rehearse(seen, carried, policy, 20.0)
        if any(act.verdict.action is Action.SHUTDOWN for act in scene.acts):
            return second
        carried = scene.carried
    return float("inf")


@given(rules(), rules(), st.sampled_from([OwnerState.IDLE, OwnerState.EXECUTING]), st.sampled_from([0.0, 3.0, 20.0]))
def test_a_tightened_rule_never_ends_anything_later(site: Rule, own: Rule, state: OwnerState, compute: float) -> None:
    """Whatever passes as no looser ends each owner as soon as the site's rule does, or sooner."""
    if not loosened(own, site):
        assert ended_after(own, state, compute) <= ended_after(site, state, compute)
    assert loosened(site, site) == []
