"""Drafts of files to one Policy: merge, find what is named, complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta, timezone, tzinfo

from jupyter_gpu_guard.core.budget import Budget
from jupyter_gpu_guard.core.calendars import Calendar
from jupyter_gpu_guard.core.policy import (
    DEFAULT_RULE,
    Action,
    Belts,
    Exemption,
    Idle,
    KeepLimits,
    Match,
    Mode,
    Policy,
    Rule,
    Stage,
    Trickle,
)

from .checks import check_budgets, check_ladder, check_names, check_reach, check_trickle, check_undelivered
from .draft import BudgetDraft, Condition, FileDraft, RuleDraft, Settings
from .grammar import Override
from .problems import Place, Problem, suggestion
from .values import in_zone

_NO_ZONE = timezone.utc  # where none was given, which is a problem of its own
_USUAL_MEAN = Trickle().mean_below


@dataclass(frozen=True)
class Built:
    """A policy, and for each of its rules and budgets where its values were written, by their names in a file.

    What is missing there is built in. `name` is where the rule itself stands.
    """

    policy: Policy
    origins: Mapping[str, Mapping[str, Place]]
    origins_of_budgets: Mapping[str, Mapping[str, Place]]


def build(drafts: Sequence[FileDraft], problems: list[Problem]) -> Policy:
    """The policy that the files make together. Later files win key by key; rules follow each other."""
    return build_with_origins(drafts, problems).policy


def build_with_origins(drafts: Sequence[FileDraft], problems: list[Problem]) -> Built:
    """As `build`, and where each value comes from."""
    mode = Mode.OBSERVE
    defaults = Settings()
    belts = Belts()
    for draft in drafts:
        mode = draft.mode or mode
        defaults = draft.defaults.upon(defaults)
        belts = Belts(
            shutdowns_per_hour=draft.shutdowns_per_hour or belts.shutdowns_per_hour,
            shutdowns_per_tick=draft.shutdowns_per_tick or belts.shutdowns_per_tick,
            share_of_holders=draft.share_of_holders or belts.share_of_holders,
        )
    named = _Named(drafts, problems)
    written = _overridden(drafts, problems)
    check_names(written, problems)
    matches = {rule.place: named.match(rule.condition) for rule in written if rule.condition is not None}
    drawn = [budget for draft in drafts for budget in draft.budgets]
    check_budgets(drawn, written, problems)
    reached = [(rule, match) for rule in written if (match := matches.get(rule.place)) is not None]
    check_reach(reached, {budget.then.value for budget in drawn}, problems)
    check_ladder(defaults, defaults, problems)
    check_trickle(defaults, defaults, problems)
    check_undelivered(defaults, defaults, problems)
    rules, origins = [], {}
    for rule in written:
        whole = rule.settings.upon(defaults)
        if rule.settings.ladder or rule.settings.notice:
            check_ladder(rule.settings, whole, problems)
        check_trickle(rule.settings, whole, problems)
        if rule.settings.undelivered or rule.settings.notice:
            check_undelivered(rule.settings, whole, problems)
        completed = _complete(rule.name, whole)
        match = matches.get(rule.place) or Match()
        rules.append(replace(completed, match=match, keep=rule.keep, observe=rule.observe))
        origins[rule.name] = {"name": rule.place, "keep": rule.place, "mode": rule.place, **dict(whole.places())}
    origins[DEFAULT_RULE] = dict(defaults.places())
    catch_all = _complete(DEFAULT_RULE, defaults)
    policy = Policy(
        mode=mode,
        rules=(*rules, catch_all),
        belts=belts,
        exemptions=named.exemptions(),
        budgets=tuple(_budget(each, named.match(each.condition)) for each in drawn),
    )
    return Built(policy, origins, {each.name.value: dict(each.places()) for each in drawn})


def _budget(said: BudgetDraft, match: Match) -> Budget:
    return Budget(
        name=said.name.value,
        measure=said.measure.value,
        limit=said.limit.value,
        window=said.window.value,
        then=said.then.value,
        per=said.per.value,
        match=match,
    )


def _overridden(drafts: Sequence[FileDraft], problems: list[Problem]) -> list[RuleDraft]:
    """All rules in order. One that replaces another comes in its place, and what is disabled is gone."""
    written: list[RuleDraft] = []
    for rule in (rule for draft in drafts for rule in draft.rules):
        if rule.override is None:
            written.append(rule)
            continue
        place, how = rule.override.place, rule.override.value
        named = [n for n, earlier in enumerate(written) if earlier.name == rule.name]
        if not named:
            others = {earlier.name for earlier in written if earlier.name}
            right = suggestion(rule.name, others) if others else "remove `override`"
            problems.append(Problem(place, f"no rule {rule.name!r} stands before this one", right))
        elif written[named[0]].place.file == rule.place.file:
            problems.append(Problem(place, f"the other rule {rule.name!r} is in this file too", "keep one of them"))
        elif how is Override.REPLACE:
            written[named[0]] = rule
        else:
            del written[named[0]]
    return written


class _Named:
    """What stands in one place and is called by its name in another: calendars, and the time zone of each file."""

    def __init__(self, drafts: Sequence[FileDraft], problems: list[Problem]) -> None:
        self._drafts = drafts
        self._problems = problems
        self._calendars: dict[str, tuple[Calendar, Place]] = {}
        zone: tzinfo | None = None
        self._zones: list[tzinfo | None] = []
        for draft in drafts:
            zone = draft.timezone or zone
            self._zones.append(zone)
            for calendar in draft.calendars:
                self._add(Calendar(calendar.name, zone or _NO_ZONE, calendar.hours), calendar.place, zone)

    def _add(self, calendar: Calendar, place: Place, zone: tzinfo | None) -> None:
        if zone is None:
            right = "add for example `timezone: Europe/Berlin` at the top level of the file"
            self._problems.append(Problem(place, "hours without a time zone", right))
        if calendar.name in self._calendars:
            taken = self._calendars[calendar.name][1]
            self._problems.append(
                Problem(place, f"the name {calendar.name!r} is taken by the calendar at {taken}", "use another")
            )
        self._calendars.setdefault(calendar.name, (calendar, place))

    def match(self, condition: Condition) -> Match:
        """The condition with its calendar."""
        during = condition.during
        if during is None:
            return condition.match
        if during.value not in self._calendars:
            right = suggestion(during.value, self._calendars) if self._calendars else "add it to `calendars`"
            self._problems.append(Problem(during.place, f"no calendar is called {during.value!r}", right))
            return condition.match
        return replace(condition.match, during=self._calendars[during.value][0])

    def exemptions(self) -> tuple[Exemption, ...]:
        """Those of all files, each by the clock of its file."""
        found = []
        for draft, zone in zip(self._drafts, self._zones, strict=True):
            for each in draft.exemptions:
                until = each.until.value
                if until.tzinfo is None and zone is None:
                    right = "write Z at its end, or `timezone:` at the top level of the file"
                    self._problems.append(Problem(each.until.place, "a moment without a time zone", right))
                found.append(Exemption(self.match(each.condition), in_zone(until, zone or _NO_ZONE), each.reason))
        return tuple(found)


def _complete(name: str, said: Settings) -> Rule:
    idle, built_in = Idle(), Rule(name)
    keeps = built_in.keep_limits
    notice = said.notice.value if said.notice else built_in.notice
    over = said.over.value if said.over else None
    return Rule(
        name=name,
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
        trust_estimates=said.trust_estimates.value if said.trust_estimates else built_in.trust_estimates,
        states={state: limit.value for state, limit in (said.states or {}).items()},
        trickle=None if over is None else Trickle(said.mean_below.value if said.mean_below else _USUAL_MEAN, over),
        undelivered=said.undelivered.value if said.undelivered else max(notice, built_in.undelivered or notice),
    )


def usual_ladder(notice: timedelta) -> tuple[Stage, ...]:
    """Warn at once, shut down when the notice has run out."""
    return (Stage(Action.WARN), Stage(Action.SHUTDOWN, notice))
