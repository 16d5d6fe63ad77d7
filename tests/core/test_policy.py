"""What a rule matches."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jupyter_gpu_guard.core.model import OwnerKind, OwnerState
from jupyter_gpu_guard.core.policy import Action, Around, Idle, Match, Policy, Stage

from .build import NOON, device, holder, owner, policy, rule

DEVICES = {"gpu-0": device("gpu-0", name="NVIDIA H200"), "gpu-1": device("gpu-1", name="NVIDIA A100 MIG 1g.10gb")}
AROUND = Around(DEVICES, NOON)


@pytest.mark.parametrize(
    ("glob", "path", "holds"),
    [
        ("lectures/**", "lectures/one.ipynb", True),
        ("lectures/**", "lectures/week 1/one.ipynb", True),
        ("lectures/**", "my lectures/one.ipynb", False),
        ("lectures/**", "lectures.ipynb", False),
        ("lectures/*", "lectures/week 1/one.ipynb", True),  # as in fnmatch, a star crosses folders
        ("**", "one.ipynb", True),
        ("*.ipynb", "deep/down/one.ipynb", True),
        ("**/one.ipynb", "deep/down/one.ipynb", True),
        ("**/one.ipynb", "one.ipynb", True),
        ("**/one.ipynb", "someone.ipynb", False),
        ("a/**/z.ipynb", "a/z.ipynb", True),
        ("a/**/z.ipynb", "a/b/c/z.ipynb", True),
        ("a/**/z.ipynb", "a/bz.ipynb", False),
        ("a/**/b/**/z.ipynb", "a/b/z.ipynb", True),
        ("a/**/b/**/z.ipynb", "a/1/b/z.ipynb", True),
        ("a/**/b/**/z.ipynb", "a/1/z.ipynb", False),
        ("**/**/z.ipynb", "z.ipynb", True),
        ("a**/z.ipynb", "ab/z.ipynb", True),  # not a folder of its own: two plain stars
        ("a**/z.ipynb", "az.ipynb", False),
        ("One.ipynb", "one.ipynb", False),
        ("[ab].ipynb", "b.ipynb", True),
        ("?.ipynb", "b.ipynb", True),
        ("one.ipynb", None, False),
    ],
)
def test_notebook_globs(glob: str, path: str | None, holds: object) -> None:
    """They match the whole path, with case; `**/` stands for any number of folders, none too."""
    held = holder(of=owner("x", notebook=path) if path else owner("x", kind=OwnerKind.TERMINAL, notebook=""))
    if path is None:
        held = holder(of=type(held.owner)(held.owner.key, "x", held.owner.root, held.owner.state))
    assert Match(notebook=glob).holds(held, AROUND) is holds


def test_a_glob_of_many_stars_answers() -> None:
    """A path that does not match is refused at once, however long the glob is."""
    assert not Match(notebook="**/" * 40 + "z").holds(holder(of=owner("x", notebook="a/" * 40 + "y")), AROUND)


@pytest.mark.parametrize(
    ("match", "holds"),
    [
        (Match(), True),
        (Match(owner=OwnerKind.KERNEL), True),
        (Match(owner=OwnerKind.TENSORBOARD), False),
        (Match(kernelspec="python*"), True),
        (Match(kernelspec="ir"), False),
        (Match(state=OwnerState.IDLE), True),
        (Match(state=OwnerState.DEAD), False),
        (Match(device="*H200*"), True),
        (Match(device="*1g.10gb"), True),
        (Match(device="*H100*"), False),
        (Match(owner=OwnerKind.KERNEL, kernelspec="python3", notebook="a.ipynb", device="*H200*"), True),
        (Match(owner=OwnerKind.KERNEL, kernelspec="python3", notebook="a.ipynb", device="*H100*"), False),
        (Match(owner=OwnerKind.KERNEL, kernelspec="python3", notebook="b.ipynb", device="*H200*"), False),
    ],
)
def test_every_part_that_is_given_must_hold(match: Match, holds: object) -> None:
    """And the device may be any that the holder is on."""
    assert match.holds(holder(compute=(0.0, 0.0)), AROUND) is holds


def test_a_holder_on_no_device_matches_no_device() -> None:
    """Nor one on a device that nobody knows."""
    assert not Match(device="*").holds(holder(compute=()), AROUND)
    assert not Match(device="*").holds(holder(), Around({}, NOON))


def test_a_kernel_without_a_spec_matches_no_spec() -> None:
    """What is not known is not guessed."""
    assert not Match(kernelspec="*").holds(holder(of=owner(kernelspec=None)), AROUND)


def test_a_policy_without_a_rule_for_everything_is_refused() -> None:
    """Reading a file always adds the catch-all; a Policy made otherwise must not fail in silence."""
    with pytest.raises(ValueError, match="matches everything"):
        policy(rule("boards", match=Match(owner=OwnerKind.TENSORBOARD))).rule_for(holder(), AROUND)


def test_the_built_in_policy_observes_and_warns_before_it_ends() -> None:
    """Without any file nothing is ended, and the one rule matches everything."""
    built_in = Policy()
    assert built_in.mode.value == "observe"
    assert built_in.rule_for(holder(), AROUND).name == "default"
    assert [stage.do.loses_work for stage in built_in.rules[0].ladder] == [False, True]


def test_the_built_in_numbers() -> None:
    """Those that the documentation names."""
    usual, belts = Policy().rules[0], Policy().belts
    assert usual.idle == Idle(compute_below=5, memory_above=512 * 2**20, lasting=timedelta(hours=2))
    assert usual.ladder == (Stage(Action.WARN, timedelta(0)), Stage(Action.SHUTDOWN, timedelta(minutes=15)))
    assert (usual.notice, usual.keep_limits.longest) == (timedelta(minutes=15), timedelta(hours=8))
    assert (belts.shutdowns_per_hour, belts.shutdowns_per_tick) == (20, 5)
