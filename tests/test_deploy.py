"""The example policies: each is valid and does what its comments say."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_gpu_guard.core.policy import Mode, Policy
from jupyter_gpu_guard.policyfile import load

POLICIES = Path(__file__).parent.parent / "deploy" / "policies"


def example(name: str) -> Policy:
    """The example policy of that name."""
    return load([POLICIES / f"{name}.yaml"])


@pytest.mark.parametrize("path", sorted(POLICIES.iterdir()), ids=lambda path: path.name)
def test_every_example_policy_is_valid(path: Path) -> None:
    """Each file in the folder loads without a problem and ends in the catch-all."""
    assert load([path]).rules[-1].name == "default"


def test_the_laptop_policy_ends_nothing() -> None:
    """What a single person starts with only shows."""
    assert example("laptop").mode is Mode.OBSERVE


@pytest.mark.parametrize("name", ["shared-workstation", "classroom"])
def test_shared_machines_are_enforced_with_a_notice(name: str) -> None:
    """Every rule that may end something warns a full notice earlier."""
    policy = example(name)
    assert policy.mode is Mode.ENFORCE
    for rule in policy.rules:
        for stage in rule.ladder:
            assert not stage.do.loses_work or stage.after >= rule.notice


def test_an_executing_kernel_on_a_workstation_is_only_warned() -> None:
    """The rule for executing kernels has no lossy stage."""
    executing = next(rule for rule in example("shared-workstation").rules if rule.name == "executing")
    assert not any(stage.do.loses_work for stage in executing.ladder)
