"""Whom a new policy would touch: limits of states count like that of idleness."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from jupyter_gpu_guard.core.impact import Impact, impact
from jupyter_gpu_guard.core.judge import Bench
from jupyter_gpu_guard.core.ledger import Ledger
from jupyter_gpu_guard.core.model import Activity, OwnerKind, OwnerState
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


def test_all_that_hold_something_are_counted() -> None:
    """Those that hold nothing are not."""
    bench = Bench(policy(), {WHO: window("50m", now=NOW)}, {}, Ledger(), {}, at(NOW))
    empty = replace(holder(of=owner("b", 200)), holdings=())
    assert impact((holder(), empty), policy(rule(lasting="1m")), bench) == Impact((WHO,), 1)


@pytest.mark.parametrize(
    ("newly", "holders", "share", "exceeds"),
    [
        (1, 1, 0, False),
        (2, 2, 50, True),
        (2, 4, 50, False),
        (2, 4, 49.9, True),
        (3, 4, 50, True),
        (2, 100, 2.01, False),
    ],
)
def test_more_than_the_share_is_too_many(newly: int, holders: int, share: float, exceeds: object) -> None:
    """Exactly the share is not; and one alone never is."""
    assert Impact((WHO,) * newly, holders).exceeds(share) is exceeds


@pytest.mark.parametrize(("unwatched", "touched"), [(64, True), (66, False)])
def test_a_tensorboard_counts_within_the_notice(unwatched: int, touched: object) -> None:
    """Unwatched for fifty minutes, with a notice of a quarter of an hour."""
    board = replace(holder(of=owner(kind=OwnerKind.TENSORBOARD)), activity=Activity())
    usual = rule(lasting="1m", notice="15m")
    new = policy(replace(usual, idle=replace(usual.idle, unwatched_for=timedelta(minutes=unwatched))))
    bench = Bench(policy(rule(lasting="9h")), {board.owner.key: window("50m", now=NOW)}, {}, Ledger(), {}, at(NOW))
    assert (board.owner.key in impact((board,), new, bench).newly) is touched
