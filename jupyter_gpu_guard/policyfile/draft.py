"""What files say, before it is merged: each value with the place it was written at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta, tzinfo
from typing import Generic, TypeVar

from jupyter_gpu_guard.core.budget import Measure, Per
from jupyter_gpu_guard.core.calendars import Hours
from jupyter_gpu_guard.core.model import OwnerState
from jupyter_gpu_guard.core.policy import Match, Mode, Stage

from .grammar import Override
from .problems import Place

T = TypeVar("T")

# How each of the settings is called in a file.
WRITTEN = {
    "compute_below": "idle.compute_below",
    "memory_above": "idle.memory_above",
    "lasting": "idle.for",
    "unwatched_for": "idle.unwatched_for",
    "mean_below": "trickle.mean_below",
    "over": "trickle.over",
    "longest": "keep.longest",
    "per_day": "keep.per_day",
    "reason_required": "keep.reason",
}


@dataclass(frozen=True)
class Placed(Generic[T]):
    """A value and where it was written."""

    value: T
    place: Place


@dataclass(frozen=True)
class Settings:
    """What a rule or the defaults say; None: nothing was said."""

    compute_below: Placed[float] | None = None
    memory_above: Placed[float] | None = None
    lasting: Placed[timedelta | None] | None = None
    unwatched_for: Placed[timedelta | None] | None = None
    mean_below: Placed[float] | None = None
    over: Placed[timedelta | None] | None = None
    notice: Placed[timedelta] | None = None
    undelivered: Placed[timedelta | None] | None = None
    longest: Placed[timedelta] | None = None
    per_day: Placed[int] | None = None
    reason_required: Placed[bool] | None = None
    ladder: tuple[Placed[Stage], ...] | None = None
    trust_estimates: Placed[bool] | None = None
    states: Mapping[OwnerState, Placed[timedelta | None]] | None = None

    def upon(self, earlier: Settings) -> Settings:
        """These settings, and for what they leave open those of `earlier`; `states` one by one."""
        said = {f.name: getattr(self, f.name) for f in fields(self)}
        merged = {name: getattr(earlier, name) if value is None else value for name, value in said.items()}
        if self.states is not None and earlier.states is not None:
            merged["states"] = {**earlier.states, **self.states}
        return Settings(**merged)

    def places(self) -> Iterator[tuple[str, Place]]:
        """Where each of the settings was written, by its name in a file."""
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, Placed):
                yield WRITTEN.get(each.name, each.name), value.place
            elif each.name == "ladder" and value:
                yield "ladder", value[0].place
            elif each.name == "states" and value:
                yield from ((f"states.{state.value}", limit.place) for state, limit in value.items())


@dataclass(frozen=True)
class Condition:
    """A condition as written; `during` is the name of a calendar that stands elsewhere."""

    match: Match
    during: Placed[str] | None = None


@dataclass(frozen=True)
class RuleDraft:
    """One rule as written. `condition` None: it could not be read, so nothing can be said about its reach."""

    name: str
    place: Place
    condition: Condition | None
    keep: bool
    settings: Settings
    observe: bool = False
    override: Placed[Override] | None = None


@dataclass(frozen=True)
class ExemptionDraft:
    """One exemption as written; `until` without a zone is by the clock of its file."""

    condition: Condition
    until: Placed[datetime]
    reason: str
    place: Place


@dataclass(frozen=True)
class BudgetDraft:
    """One budget as written; `then` is the name of a rule that stands elsewhere."""

    name: Placed[str]
    condition: Condition
    per: Placed[Per]
    window: Placed[timedelta]
    measure: Placed[Measure]
    limit: Placed[float]
    then: Placed[str]

    def places(self) -> Iterator[tuple[str, Place]]:
        """Where each of its values was written, by its name in a file."""
        for each in fields(self):
            if isinstance(value := getattr(self, each.name), Placed):
                yield each.name, value.place


@dataclass(frozen=True)
class CalendarDraft:
    """One calendar as written: hours by the clock of its file."""

    name: str
    hours: tuple[Hours, ...]
    place: Place


@dataclass
class FileDraft:
    """One file as written. `rules`, `exemptions`, `budgets` and `calendars` hold those that could be read."""

    mode: Mode | None = None
    timezone: tzinfo | None = None
    shutdowns_per_hour: int | None = None
    shutdowns_per_tick: int | None = None
    share_of_holders: float | None = None
    defaults: Settings = field(default_factory=Settings)
    rules: list[RuleDraft] = field(default_factory=list)
    exemptions: list[ExemptionDraft] = field(default_factory=list)
    budgets: list[BudgetDraft] = field(default_factory=list)
    calendars: list[CalendarDraft] = field(default_factory=list)
