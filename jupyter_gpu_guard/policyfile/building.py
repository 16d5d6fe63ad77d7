"""Drafts of files to one Policy: merge, complete, and check what only the whole can tell."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from jupyter_gpu_guard.core.policy import (
    DEFAULT_RULE,
    Action,
    Belts,
    Idle,
    KeepLimits,
    Match,
    Mode,
    Policy,
    Rule,
    Stage,
)
from jupyter_gpu_guard.quantities import say_duration

from .draft import FileDraft, Placed, RuleDraft, Settings
from .problems import Place, Problem


def build(drafts: Sequence[FileDraft], problems: list[Problem]) -> Policy:
    """The policy that the files make together. Later files win key by key; rules follow each other."""
    mode = Mode.OBSERVE
    defaults = Settings()
    belts = Belts()
    for draft in drafts:
        mode = draft.mode or mode
        defaults = draft.defaults.over(defaults)
        belts = Belts(
            shutdowns_per_hour=draft.shutdowns_per_hour or belts.shutdowns_per_hour,
            shutdowns_per_tick=draft.shutdowns_per_tick or belts.shutdowns_per_tick,
            share_of_holders=draft.share_of_holders or belts.share_of_holders,
        )
    written = [rule for draft in drafts for rule in draft.rules]
    _check_names(written, problems)
    _check_reach(written, problems)
    _check_ladder(defaults, defaults, problems)
    rules = []
    for rule in written:
        if rule.settings.ladder or rule.settings.notice:
            _check_ladder(rule.settings, rule.settings.over(defaults), problems)
        rules.append(_complete(rule.name, rule.settings.over(defaults), match=rule.match, keep=rule.keep))
    return Policy(mode=mode, rules=(*rules, _complete(DEFAULT_RULE, defaults)), belts=belts)


def _complete(name: str, said: Settings, *, match: Match | None = None, keep: bool = False) -> Rule:
    idle, built_in = Idle(), Rule(name)
    keeps = built_in.keep_limits
    notice = said.notice.value if said.notice else built_in.notice
    return Rule(
        name=name,
        match=match or Match(),
        idle=Idle(
            compute_below=said.compute_below.value if said.compute_below else idle.compute_below,
            memory_above=said.memory_above.value if said.memory_above else idle.memory_above,
            lasting=said.lasting.value if said.lasting else idle.lasting,
            unwatched_for=said.unwatched_for.value if said.unwatched_for else idle.unwatched_for,
        ),
        notice=notice,
        keep_limits=KeepLimits(
            longest=said.longest.value if said.longest else keeps.longest,
            per_day=said.per_day.value if said.per_day else keeps.per_day,
            reason_required=said.reason_required.value if said.reason_required else keeps.reason_required,
        ),
        ladder=tuple(stage.value for stage in said.ladder) if said.ladder else usual_ladder(notice),
        keep=keep,
        trust_estimates=said.trust_estimates.value if said.trust_estimates else built_in.trust_estimates,
    )


def usual_ladder(notice: timedelta) -> tuple[Stage, ...]:
    """Warn at once, shut down when the notice has run out."""
    return (Stage(Action.WARN), Stage(Action.SHUTDOWN, notice))


def _check_names(rules: Sequence[RuleDraft], problems: list[Problem]) -> None:
    first: dict[str, Place] = {}
    for rule in rules:
        if not rule.name:
            continue
        earlier = first.setdefault(rule.name, rule.place)
        if earlier is not rule.place:
            problems.append(
                Problem(rule.place, f"the name {rule.name!r} is taken by the rule at {earlier}", "use another")
            )


def _check_reach(rules: Sequence[RuleDraft], problems: list[Problem]) -> None:
    read = [(rule, rule.match) for rule in rules if rule.match is not None]
    for position, (rule, match) in enumerate(read):
        for earlier, wide in read[:position]:
            if _covers(wide, match):
                reach = "everything" if wide == Match() else "all that this one matches"
                what = f"never reached: the rule at {earlier.place} matches {reach}"
                problems.append(Problem(rule.place, what, "move this one before it, or narrow its `match`"))
                break


def _covers(wide: Match, narrow: Match) -> bool:
    return (
        (wide.owner is None or wide.owner is narrow.owner)
        and (wide.state is None or wide.state is narrow.state)
        and _glob_covers(wide.notebook, narrow.notebook)
        and _glob_covers(wide.kernelspec, narrow.kernelspec)
        and _glob_covers(wide.device, narrow.device)
    )


def _glob_covers(wide: str | None, narrow: str | None) -> bool:
    return wide is None or wide == narrow or (narrow is not None and not wide.strip("*"))


def _check_ladder(said: Settings, whole: Settings, problems: list[Problem]) -> None:
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
        elif stage.value.do.loses_work and warned_at is None:
            problems.append(Problem(place, f"a {name} without a warning before it", "put `{do: warn}` before it"))
        elif stage.value.do.loses_work and warned_at is not None and stage.value.after < warned_at + notice:
            earliest = say_duration(warned_at + notice)
            what = f"this {name} comes before its notice of {say_duration(notice)} has run out"
            problems.append(Problem(place, what, f"write `after: {earliest}` or more, or a shorter `notice`"))
        if stage.value.do is Action.WARN and warned_at is None:
            warned_at = stage.value.after
        before = stage
