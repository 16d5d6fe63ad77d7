"""What the guard publishes after a tick: values, from which every face is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from .core.attribute import Attribution
from .core.budget import Account, Amount
from .core.impact import Impact
from .core.ledger import Ledger
from .core.minutes import Minutes
from .core.model import Holder, OwnerKey, Snapshot
from .core.policy import NOBODY, Action, Around, Policy, Rule, Site
from .core.verdict import Lease, Outcome, Verdict
from .core.window import Windows
from .keeping import counting
from .protocols import Grant

EPOCH = datetime.fromtimestamp(0, timezone.utc)


class NoSuchOwnerError(LookupError):
    """No kernel, terminal or TensorBoard of this server has this name."""


class NotPendingError(LookupError):
    """No policy by that digest waits for a person."""


@dataclass(frozen=True)
class Pending:
    """A new policy that would newly end many at once, and so waits for a person. Who it is about may yet change."""

    policy: Policy
    since: datetime
    impact: Impact


@dataclass(frozen=True)
class Price:
    """What one whole GPU costs an hour, in `currency`: a sign or a code, for people."""

    gpu_hour: float
    currency: str = ""


@dataclass(frozen=True)
class Published:
    """The state after a tick, from which every face is made. Values, not sources: reading it costs nothing.

    `offers`: what a person may ask to be done to each owner. `spending`: what was used of budgets. `minutes`:
    the last hour of each owner and device. `price` None: not set.
    """

    policy: Policy
    interval: float
    snapshot: Snapshot | None = None
    attribution: Attribution = field(default_factory=Attribution)
    windows: Windows = field(default_factory=dict)
    verdicts: Mapping[OwnerKey, Verdict] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    leases: Mapping[OwnerKey, Lease] = field(default_factory=dict)
    grants: tuple[Grant, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    gaps_since: Mapping[str, datetime] = field(default_factory=dict)
    ticks: int = 0
    site: Site = NOBODY
    pending: Pending | None = None
    offers: Mapping[OwnerKey, tuple[Action, ...]] = field(default_factory=dict)
    minutes: Mapping[str, Minutes] = field(default_factory=dict)
    price: Price | None = None

    spending: Mapping[Account, Amount] = field(default_factory=dict)

    def rule_for(self, holder: Holder) -> Rule:
        """The rule that decides about `holder` as things are now."""
        return self.policy.rule_for(holder, self._around)

    def passed_over(self, holder: Holder) -> Mapping[str, tuple[str, ...]]:
        """The rules that do not decide about `holder` although they stand before, and what does not hold of each."""
        return self.policy.passed_over(holder, self._around)

    def leaves_alone(self, holder: Holder) -> bool:
        """Whether a rule or an exemption keeps `holder`, whatever it does."""
        return self.rule_for(holder).keep or self.policy.exemption_for(holder, self._around) is not None

    @property
    def _around(self) -> Around:
        seen = self.snapshot
        devices = {device.uuid: device for device in seen.devices} if seen else {}
        return Around(devices, seen.taken_at.wall if seen else EPOCH, self.site, self.spending)

    def keeps_left(self, holder: Holder) -> int | None:
        """How often `holder` may yet be kept in the present 24 hours, as of the last look; None: without limit."""
        per_day = self.rule_for(holder).keep_limits.per_day
        if per_day is None or self.snapshot is None:
            return per_day
        return max(0, per_day - len(counting(self.grants, holder, self.snapshot.taken_at.wall)))

    def holder(self, key: OwnerKey) -> Holder:
        """The holder named `key`. Raises NoSuchOwnerError."""
        for holder in self.attribution.holders:
            if holder.owner.key == key:
                return holder
        raise NoSuchOwnerError(f"no owner {key} on this server; GET report lists those there are")


def pending_sentence(pending: Pending) -> str:
    """What a person should know of a policy that waits, and what to do."""
    newly, holders = len(pending.impact.newly), pending.impact.holders
    return (
        f"Policy {pending.policy.digest} is not in force yet: it would newly end {newly} of {holders} that hold GPU "
        "memory. Look at it, and accept it with `jupyter gpu-guard policy accept`, or mend its files."
    )
