"""The policy in force, and one that waits, as JSON: each value by its name in a policy file, with its unit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from enum import Enum
from typing import Any

from jupyter_gpu_guard.core.budget import NOTHING, Budget, Per
from jupyter_gpu_guard.core.model import OwnerKey, OwnerKind
from jupyter_gpu_guard.core.policy import Match, Mode, Policy, Rule, Stage
from jupyter_gpu_guard.core.verdict import Fact
from jupyter_gpu_guard.published import Pending, Published

from .said import of_policy_fault
from .wire import (
    WireBudget,
    WireEffectivePolicy,
    WireExemption,
    WirePending,
    WirePolicy,
    WireReason,
    WireRule,
    WireStage,
    WireTouched,
)

# What is called otherwise in a file, and units that a type does not tell.
_NAMES = {"lasting": "for", "keep_limits": "keep", "reason_required": "reason_is_required"}
_UNITS = {"compute_below": "percent", "memory_above": "bytes", "device_free_below": "percent", "mean_below": "percent"}


_ANY = OwnerKey(OwnerKind.KERNEL, "")
_KEPT = "The newest files of the policy could not be used; the one before is in force."
_NONE = "The files of the policy could not be used; nothing is ended until they are mended."
WAITS = "A newer policy waits for an administrator; the one before is in force."


def for_users(state: Published) -> Published:
    """`state` without what is for administrators only: what is wrong with files of the site, and where they are."""
    policy, waits = state.policy, state.pending
    if policy.fault is not None and not policy.fault_is_own:
        is_first = policy.mode is Mode.OBSERVE and policy.source == Policy().source
        policy = replace(policy, fault=_NONE if is_first else _KEPT)
    if waits is not None:
        waits = replace(waits, policy=replace(waits.policy, source=""))
    return replace(state, policy=policy, pending=waits)


def in_force(state: Published) -> WirePolicy:
    """Which policy it is, and which one waits."""
    policy = state.policy
    said = of_policy_fault(policy.fault)
    return WirePolicy(
        hash=policy.digest,
        source=policy.source,
        fault=policy.fault,
        said=None if said is None else WireReason(code=said.code, text=said.text, facts=dict(said.facts)),
        pending=pending(state),
    )


def effective(state: Published) -> WireEffectivePolicy:
    """All that the policy in force says."""
    policy = state.policy
    return WireEffectivePolicy(
        hash=policy.digest,
        source=policy.source,
        mode=policy.mode.value,
        fault=policy.fault,
        pending=pending(state),
        belts={
            "shutdowns_per_hour": policy.belts.shutdowns_per_hour,
            "shutdowns_per_tick": policy.belts.shutdowns_per_tick,
            "share_of_holders_percent": policy.belts.share_of_holders,
        },
        exemptions=[
            WireExemption(match=_match(each.match), until=each.until, reason=each.reason) for each in policy.exemptions
        ],
        budgets=[_budget(budget, state) for budget in policy.budgets],
        rules=[_rule(rule) for rule in policy.rules],
    )


def _budget(budget: Budget, state: Published) -> WireBudget:
    amounts = [amount for account, amount in state.spending.items() if account.budget == budget.name]
    if budget.per is not Per.KERNEL:  # one's own accounts are the same whatever one runs
        accounts = budget.accounts(_ANY, state.site)
        amounts = [state.spending[account] for account in accounts if account in state.spending]
    amount = max(amounts, key=lambda each: each.used, default=NOTHING)
    return WireBudget(
        name=budget.name,
        match=_match(budget.match),
        per=budget.per.value,
        measure=budget.measure.value,
        window_seconds=budget.window.total_seconds(),
        used=amount.used,
        unknown_seconds=amount.unknown_seconds,
        limit=budget.limit,
        then=budget.then,
        applies_to_me=budget.match.is_about(state.site),
    )


def pending(state: Published) -> WirePending | None:
    """The policy that waits for a person, and whom it would touch."""
    waits: Pending | None = state.pending
    if waits is None:
        return None
    names = {holder.owner.key: holder.owner.name for holder in state.attribution.holders}
    return WirePending(
        hash=waits.policy.digest,
        source=waits.policy.source,
        since=waits.since,
        touched=[WireTouched(owner=str(key), name=names.get(key, "")) for key in waits.impact.newly],
        holders=waits.impact.holders,
    )


def _rule(rule: Rule) -> WireRule:
    settings: dict[str, Fact] = {}
    for part in fields(rule):
        if part.name not in {"name", "match", "ladder"}:
            settings.update(_flat(part.name, getattr(rule, part.name), part.type))
    ladder = [_stage(stage) for stage in rule.ladder]
    return WireRule(name=rule.name, match=_match(rule.match), settings=settings, ladder=ladder)


def _match(match: Match) -> dict[str, Fact]:
    """The parts that are given. A calendar goes by its name."""
    return {
        name: fact
        for part in fields(match)
        if (value := getattr(match, part.name)) is not None
        for name, fact in _flat(part.name, getattr(value, "name", value) if part.name == "during" else value, part.type)
    }


def _stage(stage: Stage) -> WireStage:
    return WireStage(do=stage.do.value, after_seconds=stage.after.total_seconds())


def _flat(name: str, value: Any, kind: Any = "") -> Iterator[tuple[str, Fact]]:
    """`value` as facts, its parts after a dot. What lasts is in seconds; None: never, or not set."""
    *inside, last = name.split(".")
    called = ".".join((*inside, _NAMES.get(last, last)))
    if isinstance(value, Enum):
        yield called, value.value
    elif isinstance(value, timedelta) or (value is None and "timedelta" in str(kind)):
        yield f"{called}_seconds", None if value is None else value.total_seconds()
    elif value is None or isinstance(value, (bool, int, float, str)):
        yield f"{called}_{_UNITS[last]}" if last in _UNITS else called, value
    elif is_dataclass(value):
        for part in fields(value):
            yield from _flat(f"{called}.{part.name}", getattr(value, part.name), part.type)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(f"{called}.{key.value if isinstance(key, Enum) else key}", part, kind)
    else:
        yield called, str(value)
