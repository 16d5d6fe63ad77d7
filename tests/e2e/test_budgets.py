"""A budget in a real server: counted, used up, followed by its rule, and remembered by the next server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.driver import StandIn

from .lab import GPU, QUICK_POLICY, Lab, quoted, start_ticks, until

# By the usual rule nothing is ended for an hour. 4 GiB for nine seconds are 0.01 GiB·hours.
POLICY = (
    QUICK_POLICY.replace("for: 8s", "for: 1h")
    + """\
rules:
  - {name: used-up, match: {user: "nobody at all"}, idle: {for: 8s}}
budgets:
  - {name: day, per: user, window: 1d, measure: idle_gib_hours, limit: 0.01, then: used-up}
"""
)


def _budget(lab: Lab) -> dict[str, Any]:
    (budget,) = lab.get("gpu-guard/api/v1/policy")["budgets"]
    return dict(budget)


@pytest.mark.slow
def test_what_was_held_without_work_is_counted_and_followed(tmp_path: Path, driver: StandIn) -> None:
    """The rule of the budget warns and ends; why is told; the next server knows what was used."""
    with Lab(tmp_path / "lab", driver=driver, policy=POLICY) as lab:
        assert (_budget(lab)["used"], _budget(lab)["applies_to_me"]) == (0, True)
        kernel = lab.start_kernel("held.ipynb")
        kernel.run(GPU + "gpu.hold('4 GiB')")
        kernel.close()
        notice = until(lambda: lab.notice(kernel.id), "the warning")
        assert notice["rule"] == "used-up"
        assert "over-budget" in [reason["code"] for reason in notice["reasons"]]
        said = lab.get(f"gpu-guard/api/v1/explain/{quoted('kernel:' + kernel.id)}")["lines"]
        assert any("Budget day is used up" in line and "in place of default" in line for line in said)
        outcome = until(lambda: lab.outcome(kernel.id), "the shutdown")
        assert (outcome["rule"], outcome["result"]) == ("used-up", "done")
        assert start_ticks(kernel.pid) is None
        used = _budget(lab)["used"]
        assert used >= 0.01
    with Lab(tmp_path / "lab", driver=driver, policy=POLICY) as lab:
        again = until(lambda: _budget(lab)["used"], "the use of before")
        assert again == pytest.approx(used, rel=0.5)  # what was seen after the last answer may be in it too
        assert again >= used - 1e-6
