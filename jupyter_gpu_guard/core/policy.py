"""What the rules are: frozen values, already merged and complete. Reading them from files is `policyfile`'s task."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from fnmatch import fnmatchcase

from .model import Device, Holder, OwnerKind, OwnerState

_FOLDERS = re.compile(r"(?:^|(?<=/))\*\*/")


class Mode(str, Enum):
    """`observe` shows and rehearses and ends nothing; `enforce` acts."""

    OBSERVE = "observe"
    ENFORCE = "enforce"


class Action(str, Enum):
    """What a verdict asks for. The order of the ladder is the order of harm."""

    KEEP = "keep"
    WARN = "warn"
    SHUTDOWN = "shutdown"

    @property
    def loses_work(self) -> bool:
        """Whether something a person may want is gone afterwards; such a stage needs a delivered warning first."""
        return self is Action.SHUTDOWN


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
class Match:
    """A condition on a holder. Every part that is given must hold; a part that is None holds for all.

    Globs follow fnmatch, whose `*` crosses folders; `**/` is any number of folders, none too. In `notebook` they match
    the path relative to the server's root. `device` matches the name of any device the holder is on.
    """

    owner: OwnerKind | None = None
    notebook: str | None = None
    kernelspec: str | None = None
    device: str | None = None
    state: OwnerState | None = None

    def holds(self, holder: Holder, devices: Mapping[str, Device]) -> bool:
        """Whether the condition is true for `holder`, given the devices by UUID."""
        owner = holder.owner
        if self.owner is not None and owner.key.kind is not self.owner:
            return False
        if self.state is not None and holder.state is not self.state:
            return False
        if self.kernelspec is not None and not _matches(owner.kernelspec, self.kernelspec):
            return False
        if self.notebook is not None and not _matches(owner.notebook, self.notebook):
            return False
        if self.device is not None:
            names = [devices[h.device].name for h in holder.holdings if h.device in devices]
            if not any(_matches(name, self.device) for name in names):
                return False
        return True


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
class Rule:
    """A condition with thresholds and a ladder. `keep` True: whatever matches is left alone.

    `trust_estimates`: something may be ended although it is only inferred that it is on a device.
    """

    name: str
    match: Match = Match()
    idle: Idle = Idle()
    notice: timedelta = timedelta(minutes=15)
    keep_limits: KeepLimits = KeepLimits()
    ladder: tuple[Stage, ...] = (Stage(Action.WARN), Stage(Action.SHUTDOWN, timedelta(minutes=15)))
    keep: bool = False
    trust_estimates: bool = False


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

    `digest` identifies the content, `source` says where it came from, `fault` why a newer one was not taken.
    """

    mode: Mode = Mode.OBSERVE
    rules: tuple[Rule, ...] = (Rule(DEFAULT_RULE),)
    belts: Belts = field(default_factory=Belts)
    digest: str = ""
    source: str = "built-in defaults"
    fault: str | None = None

    def rule_for(self, holder: Holder, devices: Mapping[str, Device]) -> Rule:
        """The first rule that matches `holder`."""
        for rule in self.rules:
            if rule.match.holds(holder, devices):
                return rule
        raise ValueError("a policy must end in a rule that matches everything")
