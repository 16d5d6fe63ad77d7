"""`policy`: the rules of a site, where they come from, and whether they say what is expected of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from jupyter_gpu_guard.core.budget import Budget
from jupyter_gpu_guard.core.policy import Match, Policy, Rule
from jupyter_gpu_guard.policyfile import load
from jupyter_gpu_guard.policyfile.cases import failures, policy_beside, read_cases
from jupyter_gpu_guard.policyfile.grammar import CASES_SUFFIX
from jupyter_gpu_guard.policyfile.problems import Place, Problem
from jupyter_gpu_guard.policyfile.provenance import Traced, Value
from jupyter_gpu_guard.policyfile.words import conditions, limit, share, size, stage
from jupyter_gpu_guard.quantities import say_duration

from .tables import name_of, plain, table_of


def policy_view(policy: Policy, now: datetime | None = None) -> RenderableType:
    """The rules as they will be asked, from the first to the catch-all, and what is exempt `now`."""
    now = now or datetime.now(timezone.utc)
    table = table_of("Rule", "Matches", "Idle when", "Then", "Notice", "Keep at most")
    for rule in policy.rules:
        leaves_alone = rule.keep or (rule.idle.lasting is None and not rule.states and rule.trickle is None)
        table.add_row(
            plain(rule.name) + (" (on trial)" if rule.observe else ""),
            _condition(rule.match),
            "never: left alone" if rule.keep else _idle(rule),
            "" if leaves_alone else ", ".join(stage(each) for each in rule.ladder),
            "" if leaves_alone else say_duration(rule.notice),
            "" if leaves_alone else _keep(rule),
        )
    belts = (
        f"at most {policy.belts.shutdowns_per_tick} shutdowns at once and {policy.belts.shutdowns_per_hour} in an hour"
    )
    budgets = [Text(f"Budget {_budget(each)}.") for each in policy.budgets]
    exempt = [
        Text(f"Left alone until {each.until:%Y-%m-%d %H:%M} UTC: {_condition(each.match)} ({plain(each.reason)}).")
        for each in policy.exemptions
        if each.until >= now
    ]
    return Group(Text(f"Mode {policy.mode.value}, {belts}. Policy {policy.digest}.\n"), table, *budgets, *exempt)


def notes(policy: Policy, now: datetime | None = None) -> Iterator[str]:
    """What is no mistake, and yet worth knowing."""
    now = now or datetime.now(timezone.utc)
    for exemption in policy.exemptions:
        if exemption.until < now:
            yield (
                f"Note: the exemption of {_condition(exemption.match)} ({plain(exemption.reason)}) is over since "
                f"{exemption.until:%Y-%m-%d %H:%M} UTC."
            )


def _condition(match: Match) -> str:
    return ", ".join(f"{name} {plain(said)}" for name, said in conditions(match).items()) or "everything"


def _budget(budget: Budget) -> str:
    return (
        f"{plain(budget.name)}: {budget.limit:g} {budget.measure.value} per {budget.per.value} in "
        f"{say_duration(budget.window)}, of {_condition(budget.match)}; then rule {plain(budget.then)}"
    )


def _idle(rule: Rule) -> str:
    idle = rule.idle
    limits = [f"compute < {share(idle.compute_below)}, memory ≥ {size(idle.memory_above)}, for {limit(idle.lasting)}"]
    if idle.lasting is None:
        limits = ["never"]
    if idle.unwatched_for is not None:
        limits.append(f"unwatched for {limit(idle.unwatched_for)}")
    limits += [f"{state.value}: {limit(lasting)}" for state, lasting in rule.states.items()]
    if rule.trickle is not None:
        limits.append(f"mean < {share(rule.trickle.mean_below)} over {say_duration(rule.trickle.over)}")
    return "; ".join(limits)


def _keep(rule: Rule) -> str:
    keep = rule.keep_limits
    often = f", {keep.per_day} in 24h" if keep.per_day is not None else ""
    return f"{say_duration(keep.longest)}{often}{', with a reason' if keep.reason_required else ''}"


def shown(traced: Traced) -> Iterator[str]:
    """Each rule with its values, and where each was written."""
    policy = traced.policy
    yield f"Mode {policy.mode.value}."
    for exemption in policy.exemptions:
        until = exemption.until.isoformat(timespec="minutes")
        yield f"Exempt until {until}: {_condition(exemption.match)} ({plain(exemption.reason)})"
    for each in traced.rules:
        yield ""
        yield f"{plain(each.rule.name)}: {_condition(each.rule.match)}{_at(each.place)}"
        yield from _values(each.values)
    for each_budget in traced.budgets:
        budget = each_budget.budget
        yield ""
        yield f"Budget {plain(budget.name)}: {_condition(budget.match)}{_at(each_budget.place)}"
        yield from _values(each_budget.values)


def _values(values: Sequence[Value]) -> Iterator[str]:
    width = max(len(value.name) for value in values)
    said = max(len(value.said) for value in values if value.name != "ladder") if len(values) > 1 else 0
    for value in values:
        yield f"  {value.name:{width}}  {plain(value.said):{said}}{_at(value.place) or '  built in'}".rstrip()


def _at(place: Place | None) -> str:
    return f"  {plain(place.file)}:{place.line}" if place else ""


def as_json(traced: Traced) -> dict[str, Any]:
    """The same for programs."""
    return {
        "mode": traced.policy.mode.value,
        "exemptions": [
            {"match": dict(conditions(e.match)), "until": e.until.isoformat(), "reason": e.reason}
            for e in traced.policy.exemptions
        ],
        "rules": [_as_json(each.rule.name, each.rule.match, each.place, each.values) for each in traced.rules],
        "budgets": [_as_json(each.budget.name, each.budget.match, each.place, each.values) for each in traced.budgets],
    }


def _as_json(name: str, match: Match, place: Place | None, values: Sequence[Value]) -> dict[str, Any]:
    return {
        "name": name,
        "match": dict(conditions(match)),
        "from": str(place) if place else None,
        "values": {
            value.name: {"value": value.said, "from": str(value.place) if value.place else None} for value in values
        },
    }


def why_lines(explanation: Mapping[str, Any]) -> Iterator[str]:
    """What the guard says about one holder, with the rules that it has passed over."""
    holder = explanation["holder"]
    yield f"{plain(name_of(holder))} ({plain(holder['owner'])})"
    for passed in explanation.get("passed_over", ()):
        unmet = passed["unmet"]
        held = f"{' and '.join(unmet)} {'does' if len(unmet) == 1 else 'do'} not hold" if unmet else "it is on trial"
        yield f"  Not rule {plain(passed['rule'])}: {held}."
    for line in explanation["lines"]:
        yield f"  {plain(line)}"


@dataclass(frozen=True)
class Tried:
    """One cases file: how many cases it holds, in how many something is not as expected, and what."""

    path: Path
    cases: int
    failed: int
    failures: Sequence[Problem]


def cases_beside(policies: Sequence[Path]) -> tuple[Path, ...]:
    """All cases files in the folders of these policy files, by name."""
    folders = dict.fromkeys(path.parent for path in policies)
    return tuple(path for folder in folders for path in sorted(folder.glob(f"*{CASES_SUFFIX}")))


def try_cases(paths: Sequence[Path], policies: Sequence[Path]) -> Iterator[Tried]:
    """Judge the cases of each file under `policies` or, if there are none, the policy beside it. Raises PolicyError."""
    for path in paths:
        about = path if path.name.endswith(CASES_SUFFIX) else path.with_name(path.stem + CASES_SUFFIX)
        scenes = read_cases(about)
        policy = load(tuple(policies) or (policy_beside(about),))
        wrong = [found for scene in scenes if (found := failures((scene,), policy))]
        yield Tried(about, len(scenes), len(wrong), [problem for found in wrong for problem in found])
