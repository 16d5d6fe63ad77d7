"""What the rules are: frozen values, already merged and complete. Reading them from files is `policyfile`'s task."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .calendars import Calendar
from .model import Device, Holder, OwnerKind, OwnerState, Reading, is_known

if TYPE_CHECKING:
    from .budget import Account, Amount, Budget, Spent

_FOLDERS = re.compile(r"(?:^|(?<=/))\*\*/")


class Mode(str, Enum):
    """`observe` shows and rehearses and ends nothing; `enforce` acts."""

    OBSERVE = "observe"
    ENFORCE = "enforce"


class Action(str, Enum):
    """What a verdict asks for. The order of the ladder is the order of harm."""

    KEEP = "keep"
    WARN = "warn"
    RELEASE = "release"  # have the kernel give back what its frameworks keep for later; its variables stay
    PARK = "park"  # move what it has on devices to the host's memory; the kernel lives on
    SHUTDOWN = "shutdown"
    RESUME = "resume"  # undo PARK; never a stage of a ladder

    @property
    def loses_work(self) -> bool:
        """Whether something a person may want is gone afterwards; such a stage needs a delivered warning first."""
        return self is Action.SHUTDOWN

    @property
    def leaves_it_alive(self) -> bool:
        """Whether it does something to the owner, and yet the owner lives on with all its variables."""
        return self in (Action.RELEASE, Action.PARK, Action.RESUME)


STAGES = (Action.WARN, Action.RELEASE, Action.PARK, Action.SHUTDOWN)  # what a ladder may consist of


@dataclass(frozen=True)
class Stage:
    """One rung of a ladder: `do` this `after` so much more idle time than `Idle.lasting`."""

    do: Action
    after: timedelta = timedelta(0)


@dataclass(frozen=True)
class Idle:
    """When a holder counts as idle.

    Compute below `compute_below` percent and at least `memory_above` bytes held, for `lasting` (None: never).
    `unwatched_for` is for TensorBoards only: one that nobody has looked at for so long is due without holding any
    memory; None: a TensorBoard is judged like everything else.
    """

    compute_below: float = 5.0
    memory_above: float = 512 * 2**20
    lasting: timedelta | None = timedelta(hours=2)
    unwatched_for: timedelta | None = None


@dataclass(frozen=True)
class KeepLimits:
    """How long a person may ask to keep a holder at once, and how often in 24 hours (None: any number of times).

    `reason_required`: they must say what for.
    """

    longest: timedelta = timedelta(hours=8)
    per_day: int | None = None
    reason_required: bool = False


@dataclass(frozen=True)
class Site:
    """Whose server this is: the user's name, the groups they are in, and the name of the server (None: it has none)."""

    user: str | None = None
    groups: frozenset[str] = frozenset()
    server: str | None = None


NOBODY = Site()


@dataclass(frozen=True)
class Around:
    """What a condition may ask about beyond the holder: the devices by UUID, the time (aware), whose server it is.

    `spending` is what has been used of budgets by now.
    """

    devices: Mapping[str, Device]
    now: datetime
    site: Site = NOBODY
    spending: Mapping[Account, Amount] = field(default_factory=dict)


@dataclass(frozen=True)
class Match:
    """A condition on a holder. Every part that is given must hold; a part that is None holds for all.

    Globs follow fnmatch, whose `*` crosses folders; `**/` is any number of folders, none too. In `notebook` they match
    the path relative to the server's root. `device` matches the name of any device the holder is on, `mig` the profile
    of any MIG instance, `group` any group of the user. `memory_above`: holds at least so many bytes.
    `device_free_below`: of any device it is on less than so many percent are free. `older_than`: it was started longer
    ago. What is not known does not hold.
    """

    user: str | None = None
    group: str | None = None
    server: str | None = None
    owner: OwnerKind | None = None
    notebook: str | None = None
    kernelspec: str | None = None
    device: str | None = None
    mig: str | None = None
    state: OwnerState | None = None
    memory_above: float | None = None
    device_free_below: float | None = None
    older_than: timedelta | None = None
    during: Calendar | None = None

    def holds(self, holder: Holder, around: Around) -> bool:
        """Whether the condition is true for `holder`."""
        return next(self.misses(holder, around), None) is None

    def misses(self, holder: Holder, around: Around) -> Iterator[str]:
        """The parts, by their names in a policy file, that do not hold for `holder`. None: the condition is true."""
        for part, asked in self._given:
            if not _TESTS[part](asked, holder, around):
                yield part

    def is_about(self, site: Site) -> bool:
        """Whether its parts about people and servers hold for `site`, whatever it has."""
        parts = ((self.user, {site.user}), (self.group, site.groups), (self.server, {site.server}))
        return all(glob is None or any(_matches(text, glob) for text in texts) for glob, texts in parts)

    def groups_of(self, site: Site) -> tuple[str, ...]:
        """The groups of `site` that the condition allows, by name."""
        return tuple(sorted(g for g in site.groups if self.group is None or _matches(g, self.group)))

    @cached_property
    def _given(self) -> tuple[tuple[str, Any], ...]:
        """What is asked at all: worked out once, since it is asked of every holder at each look."""
        parts = ((part, getattr(self, part)) for part in _TESTS)
        return tuple((part, asked) for part, asked in parts if asked is not None)


def _devices(holder: Holder, around: Around) -> list[Device]:
    return [around.devices[h.device] for h in holder.holdings if h.device in around.devices]


def _is_older(age: timedelta, holder: Holder, around: Around) -> bool:
    started_at = holder.owner.started_at
    return started_at is not None and around.now - started_at > age


def _holds_at_least(amount: float, holder: Holder, _: Around) -> bool:
    memory = holder.memory
    return is_known(memory) and memory >= amount


def _is_scarce(share: float, holder: Holder, around: Around) -> bool:
    free = (free_percent(device) for device in _devices(holder, around))
    return any(is_known(percent) and percent < share for percent in free)


# By the names of the parts, the cheap ones first.
_TESTS: Mapping[str, Callable[[Any, Holder, Around], bool]] = {
    "owner": lambda kind, holder, _: holder.owner.key.kind is kind,
    "state": lambda state, holder, _: holder.state is state,
    "during": lambda calendar, _, around: calendar.holds(around.now),
    "user": lambda glob, _, around: _matches(around.site.user, glob),
    "group": lambda glob, _, around: any(_matches(group, glob) for group in around.site.groups),
    "server": lambda glob, _, around: _matches(around.site.server, glob),
    "kernelspec": lambda glob, holder, _: _matches(holder.owner.kernelspec, glob),
    "notebook": lambda glob, holder, _: _matches(holder.owner.notebook, glob),
    "device": lambda glob, holder, around: any(_matches(d.name, glob) for d in _devices(holder, around)),
    "mig": lambda glob, holder, around: any(_matches(d.profile, glob) for d in _devices(holder, around)),
    "memory_above": _holds_at_least,
    "device_free_below": _is_scarce,
    "older_than": _is_older,
}


def free_percent(device: Device) -> Reading:
    """How much of its memory nobody uses, in percent."""
    whole, used, reserved = device.memory_total, device.memory_used, device.memory_reserved
    for reading in (whole, used, reserved):
        if not is_known(reading):
            return reading
    assert is_known(whole)  # noqa: S101  all are
    assert is_known(used)  # noqa: S101
    assert is_known(reserved)  # noqa: S101
    return 100.0 * max(0.0, whole - used - reserved) / whole if whole > 0 else 0.0


def _matches(text: str | None, glob: str) -> bool:
    if text is None:
        return False
    # fnmatch's "*" crosses "/", so only that "**/" may stand for no folder at all needs care of its own.
    *before, last = _FOLDERS.split(glob)
    folders = [0, *(place + 1 for place, letter in enumerate(text) if letter == "/")]
    starts = [0]
    for part in before:
        end = next((end for end in folders for start in starts if fnmatchcase(text[start:end], part)), None)
        if end is None:
            return False
        starts = [folder for folder in folders if folder >= end]
    return any(fnmatchcase(text[start:], last) for start in starts)


@dataclass(frozen=True)
class Trickle:
    """Due although it peaks: unused, and in the mean below `mean_below` percent, for as long as `over`."""

    mean_below: float = 2.0
    over: timedelta = timedelta(hours=6)


@dataclass(frozen=True)
class Rule:
    """A condition with thresholds and a ladder. `keep` True: whatever matches is left alone.

    `trust_estimates`: something may be ended although it is only inferred that it is on a device. `observe`: it only
    says what it would do, and a later rule decides. `states` are limits of their own for owners in these states, for
    which the whole ladder holds then (None: they are only ever warned, after `idle.lasting`). `undelivered`: how long
    before a loss a warning must have been given that reached nobody; None: nothing is lost before it reaches somebody.
    """

    name: str
    match: Match = Match()
    idle: Idle = Idle()
    notice: timedelta = timedelta(minutes=15)
    keep_limits: KeepLimits = KeepLimits()
    ladder: tuple[Stage, ...] = (Stage(Action.WARN), Stage(Action.SHUTDOWN, timedelta(minutes=15)))
    keep: bool = False
    trust_estimates: bool = False
    observe: bool = False
    states: Mapping[OwnerState, timedelta | None] = field(default_factory=dict)
    trickle: Trickle | None = None
    undelivered: timedelta | None = timedelta(hours=12)

    def lasting_in(self, state: OwnerState) -> timedelta | None:
        """How long an owner in this state must be idle; None: never."""
        return self.states.get(state) or self.idle.lasting

    def ends_in(self, state: OwnerState) -> bool:
        """Whether the whole ladder holds for an owner in this state, and not only its warnings."""
        if state in self.states:
            return self.states[state] is not None
        is_left_behind = state is OwnerState.DEAD and self.match.owner is OwnerKind.LEFTOVERS
        return state is OwnerState.IDLE or self.match.state is state or is_left_behind


@dataclass(frozen=True)
class Exemption:
    """A condition under which a holder is left alone `until` then (aware), to the last second; and why."""

    match: Match
    until: datetime
    reason: str


@dataclass(frozen=True)
class Belts:
    """Limits on how much is done at once, whatever the rules say.

    `share_of_holders`: a new policy that would newly end more than so many percent of the holders waits for a person.
    """

    shutdowns_per_hour: int = 20
    shutdowns_per_tick: int = 5
    share_of_holders: float = 50.0


DEFAULT_RULE = "default"


@dataclass(frozen=True)
class Policy:
    """All rules in order; the first whose match is true decides. The last is a catch-all named `default`.

    Once one of `budgets` is used up, the rule that it names decides about all that the budget matches, unless the rules
    keep it. Of several, the first in order counts. `digest` identifies the content, `source` says where it came from,
    `fault` why a newer one was not taken, and `fault_is_own` that it is about a file of the governed user's own.
    """

    mode: Mode = Mode.OBSERVE
    rules: tuple[Rule, ...] = (Rule(DEFAULT_RULE),)
    belts: Belts = field(default_factory=Belts)
    digest: str = ""
    source: str = "built-in defaults"
    fault: str | None = None
    fault_is_own: bool = False
    exemptions: tuple[Exemption, ...] = ()
    budgets: tuple[Budget, ...] = ()

    def rule_for(self, holder: Holder, around: Around) -> Rule:
        """The rule that decides about `holder`: the first that matches and does not only observe, or a budget's."""
        return self.rules_for(holder, around)[-1]

    def rules_for(self, holder: Holder, around: Around) -> tuple[Rule, ...]:
        """Those that match `holder` and only observe and, as the last, the one that decides."""
        *trials, decides = self.in_order(holder, around)
        spent = self._spent(decides, holder, around)
        if spent is not None:
            decides = next((rule for rule in self.rules if rule.name == spent.budget.then), decides)
        return (*trials, decides)

    def spent_for(self, holder: Holder, around: Around) -> Spent | None:
        """The budget that has brought another rule to decide about `holder`; None: none has."""
        return self._spent(self.in_order(holder, around)[-1], holder, around) if self.budgets else None

    def _spent(self, decides: Rule, holder: Holder, around: Around) -> Spent | None:
        if decides.keep or not self.budgets:
            return None
        from .budget import Spent  # noqa: PLC0415  a budget has a condition, and a policy has budgets

        for budget in self.budgets:
            if budget.match.holds(holder, around):
                used = budget.used(holder.owner.key, around.site, around.spending).used
                if used >= budget.limit:
                    return Spent(budget, used, decides.name)
        return None

    def in_order(self, holder: Holder, around: Around) -> tuple[Rule, ...]:
        """As `rules_for`, by the order of the rules alone, whatever was used."""
        found = []
        for rule in self.rules:
            if rule.match.holds(holder, around):
                found.append(rule)
                if not rule.observe:
                    return tuple(found)
        raise ValueError("a policy must end in a rule that matches everything")

    def passed_over(self, holder: Holder, around: Around) -> Mapping[str, tuple[str, ...]]:
        """The rules that stand before the one that decides about `holder`: for each, the parts that do not hold.

        None, where it matches: such a rule only observes.
        """
        missed = {}
        decides = self.in_order(holder, around)[-1]
        for rule in self.rules:
            if rule is decides:
                break
            missed[rule.name] = tuple(rule.match.misses(holder, around))
        return missed

    def exemption_for(self, holder: Holder, around: Around) -> Exemption | None:
        """The exemption of `holder` that lasts longest, if there is any now."""
        holding = (each for each in self.exemptions if each.until >= around.now and each.match.holds(holder, around))
        return max(holding, key=lambda each: each.until, default=None)
