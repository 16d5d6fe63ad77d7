"""What files say, before it is merged: each value with the place it was written at."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Generic, TypeVar

from jupyter_gpu_guard.core.policy import Match, Mode, Stage

from .problems import Place

T = TypeVar("T")


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
    notice: Placed[timedelta] | None = None
    longest: Placed[timedelta] | None = None
    per_day: Placed[int] | None = None
    reason_required: Placed[bool] | None = None
    ladder: tuple[Placed[Stage], ...] | None = None
    trust_estimates: Placed[bool] | None = None

    def over(self, earlier: Settings) -> Settings:
        """These settings, and for what they leave open those of `earlier`."""
        said = {f.name: getattr(self, f.name) for f in fields(self)}
        return Settings(**{name: getattr(earlier, name) if value is None else value for name, value in said.items()})


@dataclass(frozen=True)
class RuleDraft:
    """One rule as written. `match` None: it could not be read, so nothing can be said about its reach."""

    name: str
    place: Place
    match: Match | None
    keep: bool
    settings: Settings


@dataclass
class FileDraft:
    """One file as written. `rules` holds those that could be read."""

    mode: Mode | None = None
    shutdowns_per_hour: int | None = None
    shutdowns_per_tick: int | None = None
    share_of_holders: float | None = None
    defaults: Settings = field(default_factory=Settings)
    rules: list[RuleDraft] = field(default_factory=list)
