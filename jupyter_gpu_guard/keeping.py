"""What a person may ask for when they keep something: the limits of its rule, counted over a day."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from .core.model import Holder
from .core.policy import Rule
from .protocols import Grant

DAY = timedelta(days=1)


class KeepRefusedError(ValueError):
    """The rule does not allow to keep it like this."""


class KeepTooLongError(KeepRefusedError):
    """Longer than the rule allows."""

    def __init__(self, longest: timedelta) -> None:
        super().__init__(f"the limit is {longest}")
        self.longest = longest


class KeptTooOftenError(KeepRefusedError):
    """As often as the rule allows in a day already; `again_at`: when it may be kept once more (None: never)."""

    def __init__(self, per_day: int, again_at: datetime | None) -> None:
        super().__init__(f"the limit is {per_day} times in 24 hours")
        self.per_day = per_day
        self.again_at = again_at


class ReasonMissingError(KeepRefusedError):
    """The rule wants to know what it is kept for. No right makes up for that."""

    def __init__(self, rule: str) -> None:
        super().__init__(f"rule {rule} wants a reason")
        self.rule = rule


def counting(grants: Iterable[Grant], holder: Holder, now: datetime) -> list[Grant]:
    """Those of the last 24 hours that count against `holder`, in the order of time.

    They count for the notebook, whatever kernel it has had since: otherwise a restart would start the count anew. They
    count for the kernel too, so that a new name does not either. They do not count for the person: then someone with
    many notebooks would have fewer for each.
    """
    owner = holder.owner
    found = (each for each in grants if each.at > now - DAY and each.counts_for(owner.key, owner.notebook))
    return sorted(found, key=lambda each: each.at)


def refusal(
    rule: Rule, holder: Holder, lasting: timedelta, reason: str, grants: Iterable[Grant], now: datetime
) -> KeepRefusedError | None:
    """Why `rule` does not allow to keep `holder` like this, or None."""
    limits = rule.keep_limits
    if limits.reason_required and not reason:
        return ReasonMissingError(rule.name)
    if lasting > limits.longest:
        return KeepTooLongError(limits.longest)
    if limits.per_day is None:
        return None
    counted = counting(grants, holder, now)
    if len(counted) < limits.per_day:
        return None
    return KeptTooOftenError(limits.per_day, counted[-limits.per_day].at + DAY if limits.per_day > 0 else None)
