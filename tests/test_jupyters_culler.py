"""What is said of Jupyter's own culler: its limit for a kernel, and whether the guard's comes before it."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

from jupyter_gpu_guard.core.policy import Mode
from jupyter_gpu_guard.server.jupyters_culler import its_limit, which_comes_first
from tests.core.build import holder, policy, rule, rungs


@dataclass
class FakeKernel:
    """A kernel of a kernelspec with this metadata."""

    metadata: dict[str, Any]

    @property
    def kernel_spec(self) -> SimpleNamespace:
        """Its kernelspec."""
        return SimpleNamespace(metadata=self.metadata)


def manager(usual: int, **metadata: object) -> AsyncMappingKernelManager:
    """The real manager of kernels with this limit, and one kernel `k`."""
    made = AsyncMappingKernelManager(cull_idle_timeout=usual)
    made._kernels["k"] = FakeKernel(metadata)
    return made


@pytest.mark.parametrize(
    ("usual", "metadata", "limit"),
    [
        (0, {}, None),
        (0, {"cull_idle_timeout": 30}, None),
        (600, {}, 600),
        (600, {"cull_idle_timeout": 30}, 30),
        (600, {"cull_idle_timeout": "soon"}, None),
    ],
)
def test_the_limit_is_the_kernelspecs_or_else_the_usual_one(usual: int, metadata: dict, limit: float | None) -> None:
    """A kernelspec's own limit counts only while the culler is on; what is no number is not known."""
    assert its_limit(manager(usual, **metadata), "k") == limit


def test_of_a_kernel_that_is_gone_nothing_is_said() -> None:
    """It may end between two looks."""
    assert its_limit(manager(600), "gone") is None
    assert its_limit(object(), "k") is None


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (7200 + 899, "ends this kernel after 2 h 14 min without a message (cull_idle_timeout); that comes before"),
        (7200 + 900, "the guard's limit of 2 h 15 min comes first."),
    ],
)
def test_the_limit_that_comes_first_is_named(seconds: float, words: str) -> None:
    """The guard's limit is reached when the rule's first stage that loses work is due."""
    assert words in which_comes_first(seconds, holder(), rule(), policy()).text


def test_where_the_guard_ends_nothing_only_jupyters_limit_counts() -> None:
    """A rule that keeps, one that only warns, one that never is reached, and a policy that only observes."""
    for spared in (rule(keep=True), rule(ladder=rungs("warn")), rule(lasting=None)):
        assert which_comes_first(60, holder(), spared, policy()).text.endswith("; the guard does not.")
    assert which_comes_first(60, holder(), rule(), policy(mode=Mode.OBSERVE)).text.endswith("; the guard does not.")
