"""Where each value of each rule was written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jupyter_gpu_guard.core.budget import Budget
from jupyter_gpu_guard.core.policy import Policy, Rule

from .building import build_with_origins
from .draft import FileDraft
from .marked import compose, read_text
from .problems import Place, PolicyError, Problem
from .reading import Reader
from .words import budget_settings, settings


@dataclass(frozen=True)
class Value:
    """One value as a file would say it, and where it was written; None: it is built in, or follows from others."""

    name: str
    said: str
    place: Place | None


@dataclass(frozen=True)
class TracedRule:
    """A rule, where it stands (None: it is made of the defaults), and where its values come from."""

    rule: Rule
    place: Place | None
    values: tuple[Value, ...]


@dataclass(frozen=True)
class TracedBudget:
    """A budget, where it stands, and where its values come from."""

    budget: Budget
    place: Place | None
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Traced:
    """A policy and the origins of its rules and budgets, in order."""

    policy: Policy
    rules: tuple[TracedRule, ...]
    budgets: tuple[TracedBudget, ...]


def trace(paths: Sequence[Path]) -> Traced:
    """The policy that `paths` make together, value by value. Raises PolicyError with every problem."""
    problems: list[Problem] = []
    drafts: list[FileDraft] = []
    for path in paths:
        text = read_text(path)
        if isinstance(text, Problem):
            problems.append(text)
            continue
        root = compose(text, str(path), problems)
        if root is not None:
            drafts.append(Reader(str(path), problems).file(root))
    built = build_with_origins(drafts, problems)
    if problems:
        raise PolicyError(problems)
    policy = built.policy
    return Traced(
        policy,
        tuple(_rule(rule, built.origins[rule.name]) for rule in policy.rules),
        tuple(_budget(budget, built.origins_of_budgets[budget.name]) for budget in policy.budgets),
    )


def _rule(rule: Rule, places: Mapping[str, Place]) -> TracedRule:
    return TracedRule(rule, places.get("name"), _values(settings(rule), places))


def _budget(budget: Budget, places: Mapping[str, Place]) -> TracedBudget:
    return TracedBudget(budget, places.get("name"), _values(budget_settings(budget), places))


def _values(said: Mapping[str, str], places: Mapping[str, Place]) -> tuple[Value, ...]:
    return tuple(Value(name, word, places.get(name)) for name, word in said.items())
