"""Whom a new policy would touch that the old one leaves alone. Pure: a look ahead, before it is in force."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from .judge import Bench, judge
from .ledger import Ledger
from .model import Holder, OwnerKey
from .policy import Mode, Policy, Rule
from .verdict import Verdict

FEWEST = 2  # whoever has only one kernel is told by its warning
_AT_ONCE = timedelta(microseconds=1)


@dataclass(frozen=True)
class Impact:
    """Who would newly be warned of a loss, now or within the notice, out of how many that hold GPU memory."""

    newly: tuple[OwnerKey, ...]
    holders: int

    def exceeds(self, share: float) -> bool:
        """Whether that is more than `share` percent of them, and not just one."""
        return len(self.newly) >= FEWEST and len(self.newly) * 100 > share * self.holders


def impact(holders: Sequence[Holder], new: Policy, bench: Bench) -> Impact:
    """What `new` would do to `holders` that the policy on `bench` does not."""
    holding = tuple(holder for holder in holders if holder.holdings)
    already = touched(holding, bench)
    return Impact(
        tuple(key for key in touched(holding, replace(bench, policy=new)) if key not in already),
        len(holding),
    )


def touched(holders: Sequence[Holder], bench: Bench) -> tuple[OwnerKey, ...]:
    """Those of `holders` that the policy would warn of a loss now or within its notice. Warnings given do not count."""
    if bench.policy.mode is Mode.OBSERVE:
        return ()
    sooner = replace(bench.policy, rules=tuple(_by_its_notice(rule) for rule in bench.policy.rules))
    verdicts = judge(tuple(holders), replace(bench, policy=sooner, ledger=Ledger()))
    return tuple(verdict.owner for verdict in verdicts if _threatens(verdict))


def _by_its_notice(rule: Rule) -> Rule:
    """`rule`, its limits shorter by its notice: what it finds due at this moment is due within the notice."""

    def sooner(limit: timedelta | None) -> timedelta | None:
        return None if limit is None else max(_AT_ONCE, limit - rule.notice)

    idle = replace(rule.idle, lasting=sooner(rule.idle.lasting), unwatched_for=sooner(rule.idle.unwatched_for))
    return replace(rule, idle=idle, states={state: sooner(limit) for state, limit in rule.states.items()})


def _threatens(verdict: Verdict) -> bool:
    follows = verdict.next_action
    return verdict.action.loses_work or (follows is not None and follows.loses_work)
