"""What administrators copy: each policy is valid and does what its comments say, the Hub's configuration too."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from traitlets.config.loader import PyFileConfigLoader

from jupyter_gpu_guard.core.policy import Mode, Policy
from jupyter_gpu_guard.policyfile import load
from jupyter_gpu_guard.site import GROUPS, site_of

POLICIES = Path(__file__).parent.parent / "deploy" / "policies"
HUB = POLICIES.parent / "jupyterhub"


def example(name: str) -> Policy:
    """The example policy of that name."""
    return load([POLICIES / f"{name}.yaml"])


@pytest.mark.parametrize(
    "path", [path for path in sorted(POLICIES.iterdir()) if ".cases." not in path.name], ids=lambda path: path.name
)
def test_every_example_policy_is_valid(path: Path) -> None:
    """Each file in the folder loads without a problem and ends in the catch-all."""
    assert load([path]).rules[-1].name == "default"


def test_the_laptop_policy_ends_nothing() -> None:
    """What a single person starts with only shows."""
    assert example("laptop").mode is Mode.OBSERVE


@pytest.mark.parametrize("name", ["shared-workstation", "classroom", "teaching-hub", "hpc"])
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


# ---- JupyterHub ----


class FakeGroup(NamedTuple):
    """A group of the Hub."""

    name: str


class FakeUser(NamedTuple):
    """A user of the Hub."""

    groups: list[FakeGroup]


class FakeSpawner(NamedTuple):
    """Who starts the user's server."""

    user: FakeUser
    log: logging.Logger


def hub_config(folder: Path, before: str = "") -> Any:
    """What a Hub makes of a configuration that says `before`, and then loads ours as the README says."""
    ours = HUB / "gpu_guard_config.py"
    text = f"c = get_config()\n{before}\nload_subconfig({str(ours)!r})\n"
    (folder / "jupyterhub_config.py").write_text(text, encoding="utf-8")
    return PyFileConfigLoader("jupyterhub_config.py", path=str(folder)).load_config()


def handed_over(environment: Any, *groups: str) -> str:
    """The names of the user's groups, as their server gets them."""
    user = FakeUser([FakeGroup(name) for name in groups])
    return str(environment["JUPYTER_GPU_GUARD_GROUPS"](FakeSpawner(user, logging.getLogger("spawner"))))


def test_the_hub_hands_over_the_groups_that_the_servers_read(tmp_path: Path) -> None:
    """What one side writes the other side reads: the same groups, or none."""
    environment = hub_config(tmp_path, "c.Spawner.environment = {}").Spawner.environment
    for groups in ((), ("staff",), ("students", "first year")):
        text = handed_over(environment, *groups)
        assert site_of({GROUPS: text}, os.getuid(), ()).groups == set(groups)


@pytest.mark.parametrize("name", ["guests,staff", " staff", "staff "])
def test_no_name_of_a_group_makes_a_member_of_another(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A group whose name would be read as another's is left out, with a word in the Hub's log."""
    environment = hub_config(tmp_path, "c.Spawner.environment = {}").Spawner.environment
    assert handed_over(environment, name, "students") == "students"
    assert name in caplog.text


def test_what_the_hub_had_before_stays(tmp_path: Path) -> None:
    """The environment that a site gives its servers is kept, however it was written."""
    for line in ("c.Spawner.environment = {'OWN': 'yes'}", "c.Spawner.environment.update({'OWN': 'yes'})"):
        spawner = hub_config(tmp_path, line).Spawner
        environment = spawner.environment
        made = environment if isinstance(environment, dict) else environment.get_value({})
        assert made["OWN"] == "yes"
        assert "JUPYTER_GPU_GUARD_GROUPS" in made
        assert spawner.disable_user_config is True


def test_the_hubs_policy_gives_each_group_its_limit_and_begins_with_looking() -> None:
    """Students have the shortest limit, staff the longest, everybody else one between; nothing is ended at first."""
    policy = load([HUB / "site.yaml"])
    limits = {rule.match.group or rule.name: rule.idle.lasting for rule in policy.rules}
    assert list(limits) == ["students", "staff", "default"]
    assert limits["students"] < limits["default"] < limits["staff"]
    assert policy.mode is Mode.OBSERVE


def test_the_hubs_readme_tells_of_every_file() -> None:
    """No file lies there without a word."""
    text = (HUB / "README.md").read_text(encoding="utf-8")
    assert [
        path.name for path in HUB.iterdir() if path.suffix in {".py", ".yaml"} and f"({path.name})" not in text
    ] == []
