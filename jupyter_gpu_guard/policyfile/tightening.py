"""What a person's own file may say beside the site's policy: anything that spares less, nothing that spares more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from jupyter_gpu_guard.core.model import OwnerState
from jupyter_gpu_guard.core.policy import STAGES, Action, Mode, Policy, Rule, Stage

from .marked import place_of
from .problems import Place, Problem

_NEVER = timedelta.max
_MAY_SAY = ("version", "mode", "defaults", "rules")
_MAY_SAY_IN_A_RULE = (
    "name",
    "match",
    "idle",
    "notice",
    "undelivered",
    "keep",
    "ladder",
    "trust_estimates",
    "states",
    "trickle",
)
_REMEDY = "remove it, or ask whoever keeps the site's policy"

# Where a value stands in a file, from the rule or the defaults on.
_WRITTEN = {
    "compute_below": ("idle", "compute_below"),
    "memory_above": ("idle", "memory_above"),
    "lasting": ("idle", "for"),
    "unwatched_for": ("idle", "unwatched_for"),
    "longest": ("keep", "longest"),
    "per_day": ("keep", "per_day"),
    "reason_required": ("keep", "reason"),
}


@dataclass(frozen=True)
class OwnFile:
    """A file that the governed person may change, as it was read."""

    file: str
    root: Node


def loosenings(own: Sequence[OwnFile], site: Policy, both: Policy) -> list[Problem]:
    """Where the files of `own` loosen what `site` says. `both` is what all files make together."""
    problems = [problem for each in own for problem in _what_only_the_site_says(each)]
    if site.mode is Mode.ENFORCE and both.mode is Mode.OBSERVE:
        problems.append(_problem(own, ("mode",), "the site's policy is in mode enforce"))
    sites, between = len(site.rules) - 1, both.rules[len(site.rules) - 1 : -1]
    default = site.rules[-1]
    if [rule.name for rule in both.rules[:sites]] != [rule.name for rule in site.rules[:-1]]:
        problems.append(_problem(own, ("rules",), "this changes the rules of the site"))
        return problems
    through_defaults = [*zip(both.rules[:sites], site.rules[:sites], strict=True), (both.rules[-1], default)]
    looser = [("defaults", value) for new, old in through_defaults for value in loosened(new, old)]
    looser += [(rule.name, value) for rule in between for value in loosened(rule, default)]
    for home, value in dict.fromkeys(looser):
        written = _WRITTEN.get(value, (value,))
        problems.append(_problem(own, (home, *written), f"`{'.'.join(written)}` is looser here"))
    return problems


def loosened(new: Rule, old: Rule) -> list[str]:
    """The values in which `new` may spare something that `old` does not. What cannot be compared must be the same."""
    found = []
    for part in fields(old):
        before, after = getattr(old, part.name), getattr(new, part.name)
        if part.name in {"name", "match"} or before == after:
            continue
        if part.name in {"idle", "keep_limits"}:
            pairs = ((f.name, getattr(before, f.name), getattr(after, f.name)) for f in fields(before))
            found += [name for name, was, now in pairs if was != now and not _is_tighter(name, was, now)]
        elif part.name == "states":
            if any(_limit_in(state, new) > _limit_in(state, old) for state in OwnerState):
                found.append(part.name)
        elif not _is_tighter(part.name, before, after):
            found.append(part.name)
    return found


_TIGHTER: dict[str, Callable[[Any, Any], bool]] = {
    "compute_below": lambda was, now: now >= was,
    "memory_above": lambda was, now: now <= was,
    "lasting": lambda was, now: (_NEVER if now is None else now) <= (_NEVER if was is None else was),
    "unwatched_for": lambda was, now: None not in (was, now) and now <= was,
    "notice": lambda was, now: now <= was,
    "undelivered": lambda was, now: (_NEVER if now is None else now) <= (_NEVER if was is None else was),
    "longest": lambda was, now: now <= was,
    "per_day": lambda was, now: now is not None and (was is None or now <= was),
    "reason_required": lambda _, now: bool(now),
    "ladder": lambda was, now: all(_is_reached(stage, now) for stage in was if stage.do is not Action.WARN),
    "keep": lambda _, now: not now,
    "trust_estimates": lambda _, now: bool(now),
    "trickle": lambda was, now: (
        now is not None and (was is None or (now.mean_below >= was.mean_below and now.over <= was.over))
    ),
}


def _is_tighter(name: str, was: Any, now: Any) -> bool:
    return name in _TIGHTER and _TIGHTER[name](was, now)


def _is_reached(stage: Stage, ladder: Sequence[Stage]) -> bool:
    """Whether `ladder` has this stage, or one that does more, no later."""
    hardness = STAGES.index(stage.do)
    return any(STAGES.index(each.do) >= hardness and each.after <= stage.after for each in ladder)


def _limit_in(state: OwnerState, rule: Rule) -> timedelta:
    """How long something in this state must be idle before it may be ended."""
    if state in rule.states:
        return rule.states[state] or _NEVER
    may_end = state is OwnerState.IDLE or rule.match.state is state
    return (rule.idle.lasting or _NEVER) if may_end else _NEVER


def _what_only_the_site_says(own: OwnFile) -> Iterator[Problem]:
    for key, value in _pairs(own.root):
        if key.value not in _MAY_SAY:
            yield Problem(place_of(own.file, key.start_mark), f"only the site's policy may say {key.value!r}", _REMEDY)
        if key.value == "rules" and isinstance(value, SequenceNode):
            for rule in value.value:
                for word, _ in _pairs(rule):
                    if word.value not in _MAY_SAY_IN_A_RULE:
                        place = place_of(own.file, word.start_mark)
                        yield Problem(place, f"only the site's policy may say {word.value!r} in a rule", _REMEDY)


def _problem(own: Sequence[OwnFile], where: tuple[str, ...], what: str) -> Problem:
    return Problem(_place(own, where), f"{what}, and this file may only tighten the site's policy", _REMEDY)


def _place(own: Sequence[OwnFile], where: tuple[str, ...]) -> Place:
    """The spot in the last file that says it, or the nearest to it that there is."""
    best, best_depth = Place(own[-1].file), 0
    for each in own:
        node, depth = each.root, 0
        for word in where:
            inside = _inside(node, word)
            if inside is None:
                break
            node, depth = inside, depth + 1
        if depth and depth >= best_depth:
            best, best_depth = place_of(each.file, node.start_mark), depth
    return best


def _inside(node: Node, word: str) -> Node | None:
    """The value of a key; at the top level of a file also the rule of that name."""
    found = next((value for key, value in _pairs(node) if key.value == word), None)
    if found is not None:
        return found
    for key, value in _pairs(node):
        if key.value == "rules" and isinstance(value, SequenceNode):
            for rule in value.value:
                name = next((said for word_of, said in _pairs(rule) if word_of.value == "name"), None)
                if isinstance(name, ScalarNode) and name.value == word:
                    return rule if isinstance(rule, Node) else None
    return None


def _pairs(node: Node) -> Iterator[tuple[ScalarNode, Node]]:
    if isinstance(node, MappingNode):
        yield from ((key, value) for key, value in node.value if isinstance(key, ScalarNode))
