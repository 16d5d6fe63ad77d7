"""How much of the devices may be used in a time, whose use counts together, and what follows. Pure.

Hours of memory are in GiB times hours, hours of devices in devices times hours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum

from .model import OwnerKey
from .policy import Match, Site


class Measure(str, Enum):
    """What is counted. What is idle is the part with less compute than the rule of the holder counts as use."""

    GIB_HOURS = "gib_hours"
    IDLE_GIB_HOURS = "idle_gib_hours"
    GPU_HOURS = "gpu_hours"  # one for each device that is held
    IDLE_GPU_HOURS = "idle_gpu_hours"

    @property
    def is_idle(self) -> bool:
        """Whether only time without compute counts."""
        return self in (Measure.IDLE_GIB_HOURS, Measure.IDLE_GPU_HOURS)

    @property
    def is_memory(self) -> bool:
        """Whether it is memory that is counted, and not devices."""
        return self in (Measure.GIB_HOURS, Measure.IDLE_GIB_HOURS)


class Per(str, Enum):
    """Whose use counts together."""

    KERNEL = "kernel"  # one owner, of whatever kind
    USER = "user"
    GROUP = "group"
    SITE = "site"


@dataclass(frozen=True)
class Account:
    """Where use is entered: under which budget, by which measure, and for whom.

    `whose`: `user`, `site`, `group:NAME`, or an owner's key.
    """

    budget: str
    measure: Measure
    whose: str


@dataclass(frozen=True)
class Amount:
    """What was used in a time, and for how many seconds somebody was on a device and it is not known how much."""

    used: float = 0.0
    unknown_seconds: float = 0.0


NOTHING = Amount()


@dataclass(frozen=True)
class Budget:
    """A limit on what all that matches uses in a rolling `window`.

    Once `limit`, in the unit of `measure`, is used up, the rule `then` decides about all that matches.
    """

    name: str
    measure: Measure
    limit: float
    window: timedelta
    then: str
    per: Per = Per.USER
    match: Match = field(default_factory=Match)

    def accounts(self, owner: OwnerKey, site: Site) -> tuple[Account, ...]:
        """The accounts that the use of `owner` is entered in: one, or one for each group of its user."""
        if self.per is Per.GROUP:
            names = [f"group:{group}" for group in self.match.groups_of(site)]
        else:
            names = [str(owner) if self.per is Per.KERNEL else self.per.value]
        return tuple(Account(self.name, self.measure, name) for name in names)

    def used(self, owner: OwnerKey, site: Site, spending: Mapping[Account, Amount]) -> Amount:
        """What counts for `owner`: of several groups the one that has used most."""
        found = (spending.get(account, NOTHING) for account in self.accounts(owner, site))
        return max(found, key=lambda amount: amount.used, default=NOTHING)


@dataclass(frozen=True)
class Spent:
    """That a budget is used up for a holder: how much of it was used, and which rule would have decided otherwise."""

    budget: Budget
    used: float
    instead_of: str
