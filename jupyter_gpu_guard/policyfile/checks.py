"""What only the whole of a policy can tell: names, reach, ladders, and values that contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import timedelta

from jupyter_gpu_guard.core.policy import DEFAULT_RULE, Action, Idle, Match, Rule, Stage, Trickle
from jupyter_gpu_guard.quantities import say_duration

from .draft import BudgetDraft, Placed, RuleDraft, Settings
from .problems import Place, Problem, suggestion

_GLOBS = ("user", "group", "server", "notebook", "kernelspec", "device", "mig")
_WARNED_OF = (Action.PARK, Action.SHUTDOWN)  # a kernel that is parked answers late
_ALL = 101.0  # percent: more than can be free


def check_names(rules: Sequence[RuleDraft], problems: list[Problem]) -> None:
    """No name stands for two rules."""
    first: dict[str, Place] = {}
    for rule in rules:
        if not rule.name:
            continue
        earlier = first.setdefault(rule.name, rule.place)
        if earlier is rule.place:
            continue
        right = "use another" if earlier.file == rule.place.file else "use another, or write `override: replace`"
        problems.append(Problem(rule.place, f"the name {rule.name!r} is taken by the rule at {earlier}", right))


def check_budgets(budgets: Sequence[BudgetDraft], rules: Sequence[RuleDraft], problems: list[Problem]) -> None:
    """No name stands for two budgets, and each leads to a rule that can decide."""
    first: dict[str, Place] = {}
    known = {DEFAULT_RULE: None, **{rule.name: rule for rule in rules if rule.name}}
    for budget in budgets:
        name, then = budget.name, budget.then
        earlier = first.setdefault(name.value, name.place)
        if earlier is not name.place:
            what = f"the name {name.value!r} is taken by the budget at {earlier}"
            problems.append(Problem(name.place, what, "use another"))
        if then.value not in known:
            problems.append(Problem(then.place, f"no rule is called {then.value!r}", suggestion(then.value, known)))
            continue
        rule = known[then.value]
        if rule is not None and rule.keep:
            what = f"the rule {then.value!r} leaves alone what has used too much"
            problems.append(Problem(then.place, what, "name a rule with a shorter `idle: {for: ...}`"))
        elif rule is not None and rule.observe:
            what = f"the rule {then.value!r} is on trial and decides nothing"
            problems.append(Problem(then.place, what, "name another rule, or remove `mode: observe` from it"))


def check_reach(
    rules: Sequence[tuple[RuleDraft, Match]], of_budgets: AbstractSet[str], problems: list[Problem]
) -> None:
    """No rule stands behind one that matches all that it does. What only observes is in nobody's way.

    A rule `of_budgets`, by its name, may: budgets lead to it.
    """
    for position, (rule, match) in enumerate(rules):
        if rule.name in of_budgets:
            continue
        for earlier, wide in rules[:position]:
            if not earlier.observe and _covers(wide, match):
                reach = "everything" if wide == Match() else "all that this one matches"
                what = f"never reached: the rule at {earlier.place} matches {reach}"
                problems.append(Problem(rule.place, what, "move this one before it, or narrow its `match`"))
                break


def _covers(wide: Match, narrow: Match) -> bool:
    """Whether all that `narrow` matches is matched by `wide`, as far as can be told from the text."""
    return (
        (wide.owner is None or wide.owner is narrow.owner)
        and (wide.state is None or wide.state is narrow.state)
        and (wide.during is None or wide.during == narrow.during)
        and all(_glob_covers(getattr(wide, part), getattr(narrow, part)) for part in _GLOBS)
        and (wide.memory_above is None or (narrow.memory_above or 0.0) >= wide.memory_above)
        and (wide.older_than is None or (narrow.older_than or timedelta(0)) >= wide.older_than)
        and (wide.device_free_below is None or (narrow.device_free_below or _ALL) <= wide.device_free_below)
    )


def _glob_covers(wide: str | None, narrow: str | None) -> bool:
    return wide is None or wide == narrow or (narrow is not None and not wide.strip("*"))


def check_trickle(said: Settings, whole: Settings, problems: list[Problem]) -> None:
    """A trickle is less than what counts as compute. `said` is what stands here, `whole` with its defaults."""
    if said.mean_below is not None and whole.over is None:
        problems.append(
            Problem(said.mean_below.place, "a trickle without a time to look at", "add for example `over: 6h`")
        )
    if whole.over is None or whole.over.value is None:
        return
    below = whole.compute_below.value if whole.compute_below else Idle().compute_below
    mean = whole.mean_below.value if whole.mean_below else Trickle().mean_below
    here = said.mean_below or said.compute_below or said.over
    if here is not None and mean >= below:
        what = f"a mean of {mean:g}% is no trickle where {below:g}% counts as compute"
        problems.append(Problem(here.place, what, f"write `mean_below` with less than {below:g}%"))


def check_ladder(said: Settings, whole: Settings, problems: list[Problem]) -> None:
    """Nothing is lost before a warning and the full notice. `said` is what stands here, `whole` with its defaults."""
    if not whole.ladder:
        return
    notice = whole.notice.value if whole.notice else Rule(DEFAULT_RULE).notice
    warned_at: timedelta | None = None
    before: Placed[Stage] | None = None
    for stage in whole.ladder:
        place = stage.place if said.ladder or not said.notice else said.notice.place
        name = stage.value.do.value
        if before and before.value.do.loses_work:
            problems.append(
                Problem(place, f"a stage after {before.value.do.value}", "remove it: nothing is left to act on")
            )
        elif before and stage.value.after < before.value.after:
            earliest = say_duration(before.value.after)
            problems.append(
                Problem(place, f"this {name} is due before the stage above it", f"write `after: {earliest}` or more")
            )
        elif stage.value.do in _WARNED_OF and warned_at is None:
            problems.append(Problem(place, f"a {name} without a warning before it", "put `{do: warn}` before it"))
        elif stage.value.do.loses_work and warned_at is not None and stage.value.after < warned_at + notice:
            earliest = say_duration(warned_at + notice)
            what = f"this {name} comes before its notice of {say_duration(notice)} has run out"
            problems.append(Problem(place, what, f"write `after: {earliest}` or more, or a shorter `notice`"))
        if stage.value.do is Action.WARN and warned_at is None:
            warned_at = stage.value.after
        before = stage


def check_undelivered(said: Settings, whole: Settings, problems: list[Problem]) -> None:
    """A warning that reaches nobody stands no shorter than one that does. `said` and `whole` as above."""
    if whole.undelivered is None or whole.undelivered.value is None:
        return
    notice = whole.notice.value if whole.notice else Rule(DEFAULT_RULE).notice
    if whole.undelivered.value < notice:
        here = said.undelivered or said.notice or whole.undelivered
        what = f"a warning that reaches nobody would stand {say_duration(whole.undelivered.value)} only"
        right = f"write `undelivered: {say_duration(notice)}` or more, as long as the `notice`, or `never`"
        problems.append(Problem(here.place, what, right))
