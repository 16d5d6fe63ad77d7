"""What was used, hour by hour, and how two looks that follow each other add to it. Pure.

Only what was seen counts: a gap between two looks adds nothing, and neither does what is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeAlias

from .budget import Account, Amount, Budget, Measure, Per
from .model import Holder, Instant, OwnerKey, ProcessKey, Reading, is_known
from .policy import Around, Policy

HOUR = 3600.0
GIB = 2.0**30
LONGEST_WINDOW = timedelta(days=90)


@dataclass(frozen=True)
class Hours:
    """What was used in each hour, counted from 1970 by the wall clock, and for how many seconds that is not known."""

    used: Mapping[int, float] = field(default_factory=dict)
    unknown: Mapping[int, float] = field(default_factory=dict)

    def plus(self, hour: int, amount: float | None, seconds: float) -> Hours:
        """With `amount` more in that hour; None: not known, for so many `seconds`. Hours of long ago are dropped."""
        if amount is None:
            return replace(self, unknown=_added(self.unknown, hour, seconds))
        return replace(self, used=_added(self.used, hour, amount)) if amount > 0 else self

    def within(self, window: timedelta, now: datetime) -> Amount:
        """The sum over the hours that began within `window` before `now`."""
        last = now.timestamp() / HOUR
        first = last - window.total_seconds() / HOUR
        return Amount(
            sum(amount for hour, amount in self.used.items() if first <= hour <= last),
            sum(seconds for hour, seconds in self.unknown.items() if first <= hour <= last),
        )


Usage: TypeAlias = Mapping[Account, Hours]
NO_HOURS = Hours()


def together(usages: Iterable[Usage]) -> Usage:
    """The sum of all, account by account and hour by hour."""
    found: dict[Account, tuple[dict[int, float], dict[int, float]]] = {}
    for usage in usages:
        for account, hours in usage.items():
            used, unknown = found.setdefault(account, ({}, {}))
            for into, amounts in ((used, hours.used), (unknown, hours.unknown)):
                for hour, amount in amounts.items():
                    into[hour] = into.get(hour, 0.0) + amount
    return {account: Hours(used, unknown) for account, (used, unknown) in found.items()}


def spending(usages: Sequence[Usage], budgets: Iterable[Budget], now: datetime) -> Mapping[Account, Amount]:
    """What was used of each of `budgets` within its window, account by account."""
    by_name = {budget.name: budget for budget in budgets}
    found: dict[Account, Amount] = {}
    for usage in usages:
        for account, hours in usage.items():
            budget = by_name.get(account.budget)
            if budget is None or budget.measure is not account.measure:
                continue
            before, more = found.get(account, Amount()), hours.within(budget.window, now)
            found[account] = Amount(before.used + more.used, before.unknown_seconds + more.unknown_seconds)
    return found


@dataclass(frozen=True)
class Meter:
    """What was used so far, and the look up to which it is counted. An empty one has just begun."""

    usage: Usage = field(default_factory=dict)
    holders: Mapping[tuple[OwnerKey, ProcessKey | None], Holder] = field(default_factory=dict)
    at: float | None = None

    def look(
        self, holders: Iterable[Holder], policy: Policy, around: Around, now: Instant, longest_span: float
    ) -> Meter:
        """With what was used since the look before. Looks further apart than `longest_span` seconds are a gap."""
        if not policy.budgets:
            return Meter(self.usage) if self.holders else self
        holding = {(held.owner.key, held.owner.root): held for held in holders if held.holdings}
        seconds = 0.0 if self.at is None else now.monotonic - self.at
        usage = self.usage
        if 0 < seconds <= longest_span:
            usage = self._added(holding, policy, around, seconds, int(now.wall.timestamp() // HOUR))
        return Meter(usage, holding, now.monotonic)

    def _added(
        self,
        holding: Mapping[tuple[OwnerKey, ProcessKey | None], Holder],
        policy: Policy,
        around: Around,
        seconds: float,
        hour: int,
    ) -> Usage:
        usage = dict(self.usage)
        for life, held in holding.items():
            earlier = self.holders.get(life)
            matching = [budget for budget in policy.budgets if budget.match.holds(held, around)]
            if earlier is None or not matching:
                continue
            rule = policy.in_order(held, around)[-1]
            for budget in matching:
                amount: float | None = None
                if rule.trust_estimates or not (held.estimated or earlier.estimated):
                    amount = used_between(budget.measure, earlier, held, rule.idle.compute_below, seconds)
                for account in budget.accounts(held.owner.key, around.site):
                    usage[account] = usage.get(account, NO_HOURS).plus(hour, amount, seconds)
        return usage

    def without_those_gone(self, owners: Iterable[OwnerKey], budgets: Iterable[Budget]) -> Meter:
        """Without the accounts of single owners that are no more: another one may get their name."""
        here = {str(owner) for owner in owners}
        single = {budget.name for budget in budgets if budget.per is Per.KERNEL}
        gone = [account for account in self.usage if account.budget in single and account.whose not in here]
        if not gone:
            return self
        return replace(self, usage={a: hours for a, hours in self.usage.items() if a not in gone})


def used_between(measure: Measure, earlier: Holder, now: Holder, compute_below: float, seconds: float) -> float | None:
    """What one holder used between two looks; None: not known. Of two amounts the smaller one counts."""
    if earlier.unknown is not None or now.unknown is not None:
        return None
    if measure.is_idle:
        if not is_known(now.compute):
            return None
        if now.compute >= compute_below:
            return 0.0
    if measure.is_memory:
        before, after = earlier.memory, now.memory
        return min(before, after) * seconds / HOUR / GIB if is_known(before) and is_known(after) else None
    devices = _held(earlier), _held(now)
    if None in devices:
        return None
    return len((devices[0] or frozenset()) & (devices[1] or frozenset())) * seconds / HOUR


def _held(holder: Holder) -> frozenset[str] | None:
    """The devices on which it holds memory; None: not known."""
    readings: Mapping[str, Reading] = {holding.device: holding.memory for holding in holder.holdings}
    if not all(is_known(memory) for memory in readings.values()):
        return None
    return frozenset(device for device, memory in readings.items() if is_known(memory) and memory > 0)


def _added(hours: Mapping[int, float], hour: int, amount: float) -> Mapping[int, float]:
    if hour in hours:
        return {**hours, hour: hours[hour] + amount}
    oldest = hour - LONGEST_WINDOW.total_seconds() / HOUR
    kept = {each: was for each, was in hours.items() if each >= oldest}
    return {**kept, hour: amount}
