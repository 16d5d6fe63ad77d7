"""A rule in the words of a file: what one would write to get its values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from typing import Any

from jupyter_gpu_guard.core.budget import Budget
from jupyter_gpu_guard.core.calendars import Calendar
from jupyter_gpu_guard.core.policy import Action, Match, Rule, Stage
from jupyter_gpu_guard.quantities import say_duration

_SIZES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))


def conditions(match: Match) -> Mapping[str, str]:
    """The parts of a condition that are given, by their names."""
    parts = {name: getattr(match, name) for name in Match.__dataclass_fields__}
    return {name: _said(name, value) for name, value in parts.items() if value is not None}


def settings(rule: Rule) -> Mapping[str, str]:
    """The values of a rule, by their names in a file; what is switched off is left out."""
    if rule.keep:
        return {"keep": "true"}
    keep = rule.keep_limits
    said: dict[str, Any] = {
        "mode": "observe" if rule.observe else None,
        "idle.compute_below": share(rule.idle.compute_below),
        "idle.memory_above": size(rule.idle.memory_above),
        "idle.for": limit(rule.idle.lasting),
        "idle.unwatched_for": limit(rule.idle.unwatched_for) if rule.idle.unwatched_for else None,
        **{f"states.{state.value}": limit(lasting) for state, lasting in rule.states.items()},
        "trickle.mean_below": share(rule.trickle.mean_below) if rule.trickle else None,
        "trickle.over": say_duration(rule.trickle.over) if rule.trickle else None,
        "notice": say_duration(rule.notice),
        "undelivered": limit(rule.undelivered),
        "keep.longest": say_duration(keep.longest),
        "keep.per_day": keep.per_day,
        "keep.reason": "required" if keep.reason_required else None,
        "ladder": ", ".join(stage(each) for each in rule.ladder),
        "trust_estimates": "true" if rule.trust_estimates else None,
    }
    return {name: str(value) for name, value in said.items() if value is not None}


def budget_settings(budget: Budget) -> Mapping[str, str]:
    """The values of a budget, by their names in a file."""
    return {
        "per": budget.per.value,
        "window": say_duration(budget.window),
        "measure": budget.measure.value,
        "limit": f"{budget.limit:g}",
        "then": budget.then,
    }


def stage(each: Stage) -> str:
    """`warn at once`, `shutdown after 15m`."""
    if each.do is Action.WARN and not each.after:
        return "warn at once"
    return f"{each.do.value} after {say_duration(each.after)}"


def limit(lasting: timedelta | None) -> str:
    """`2h` or `never`."""
    return "never" if lasting is None else say_duration(lasting)


def share(percent: float) -> str:
    """`5%`."""
    return f"{percent:g}%"


def size(amount: float) -> str:
    """`512MiB`: in the largest unit of which it is a whole number."""
    unit, name = next((unit, name) for unit, name in _SIZES if amount % unit == 0 or unit == 1)
    return f"{amount / unit:g}{name}"


def _said(name: str, value: object) -> str:
    if isinstance(value, Calendar):
        return value.name
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, timedelta):
        return say_duration(value)
    if isinstance(value, float | int):
        return size(value) if name == "memory_above" else share(value)
    return str(value)
