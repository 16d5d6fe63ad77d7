"""What a policy can say besides idle limits: people, time, states, exemptions, trials; and its mistakes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from jupyter_gpu_guard.core.policy import KeepLimits, Policy
from jupyter_gpu_guard.policyfile import PolicyError, load


@pytest.fixture
def read(tmp_path: Path):
    """Reads the text of a file after its `version` line."""

    def _read(text: str) -> Policy:
        path = tmp_path / "site.yaml"
        path.write_text(f"version: 1\n{text}\n", encoding="utf-8")
        return load([path])

    return _read


def test_how_often_and_why_something_may_be_kept(read) -> None:
    """Not given: as often as they like, and without a word. Key by key, as everything in `defaults`."""
    policy = read("defaults: {keep: {per_day: 3, reason: required}}\nrules: [{name: a, keep: {reason: optional}}]")
    assert policy.rules[1].keep_limits == KeepLimits(timedelta(hours=8), per_day=3, reason_required=True)
    assert policy.rules[0].keep_limits == KeepLimits(timedelta(hours=8), per_day=3, reason_required=False)
    assert Policy().rules[0].keep_limits == KeepLimits(per_day=None, reason_required=False)


ONE_MISTAKE = {
    "kept never": ("defaults: {keep: {per_day: 0}}", "2:28: 0 must be 1 or more; write a larger number, or leave it"),
    "a reason as a yes": ("defaults: {keep: {reason: yes}}", "2:27: 'yes' is not a way to ask for a reason; write opt"),
}


@pytest.mark.parametrize(("text", "expected"), ONE_MISTAKE.values(), ids=ONE_MISTAKE.keys())
def test_each_mistake_is_named_once_with_its_place_and_remedy(read, text: str, expected: str) -> None:
    """One mistake gives one problem: file, line, column, what is wrong, what would be right."""
    with pytest.raises(PolicyError) as refused:
        read(text)
    (problem,) = refused.value.problems
    assert f"site.yaml:{expected}" in str(problem)
