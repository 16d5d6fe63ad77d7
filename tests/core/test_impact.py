"""Whom a new policy would touch: limits of states count like that of idleness."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from jupyter_gpu_guard.core.impact import impact
from jupyter_gpu_guard.core.judge import Bench
from jupyter_gpu_guard.core.ledger import Ledger
from jupyter_gpu_guard.core.model import OwnerState
from jupyter_gpu_guard.core.policy import Exemption, Match

from .build import NOON, at, holder, owner, policy, rule, window

NOW = 100_000.0
WAITING = holder(of=owner(state=OwnerState.WAITING))
WHO = WAITING.owner.key


@pytest.mark.parametrize(("limit", "touched"), [(44, True), (50, True), (64, True), (66, False), (None, False)])
def test_a_limit_for_a_state_counts_within_the_notice(limit: int | None, touched: object) -> None:
    """Due now, or within the notice of a quarter of an hour; `never` ends nothing."""
    lasting = None if limit is None else timedelta(minutes=limit)
    new = policy(replace(rule(lasting="2h", notice="15m"), states={OwnerState.WAITING: lasting}))
    bench = Bench(policy(rule(lasting="9h")), {WHO: window("50m", now=NOW)}, {}, Ledger(), {}, at(NOW))
    assert (WHO in impact((WAITING,), new, bench).newly) is touched


def test_what_is_exempt_is_not_touched() -> None:
    """By the policy that comes."""
    new = replace(policy(rule(lasting="30m")), exemptions=(Exemption(Match(), NOON + timedelta(days=3), "x"),))
    held = holder()
    bench = Bench(policy(rule(lasting="9h")), {WHO: window("50m", now=NOW)}, {}, Ledger(), {}, at(NOW))
    assert impact((held,), new, bench).newly == ()
    assert impact((held,), replace(new, exemptions=()), bench).newly == (WHO,)
