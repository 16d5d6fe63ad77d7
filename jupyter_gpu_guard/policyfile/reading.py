"""Marked YAML nodes to a draft: every key, type and unit is checked, and each mistake is noted where it stands."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from typing import TypeVar

from yaml.nodes import Node, ScalarNode

from jupyter_gpu_guard.core.budget import Measure, Per
from jupyter_gpu_guard.core.calendars import Hours
from jupyter_gpu_guard.core.model import OwnerKind, OwnerState
from jupyter_gpu_guard.core.policy import DEFAULT_RULE, Action, Match, Mode, Stage

from . import grammar
from .draft import BudgetDraft, CalendarDraft, Condition, ExemptionDraft, FileDraft, Placed, RuleDraft, Settings
from .grammar import VERSION, Asked, Override
from .nodes import Nodes, within
from .problems import Problem

E = TypeVar("E", bound=Enum)

_PEOPLE_ASK = (OwnerState.WAITING, OwnerState.BREAKPOINT)


class Reader:
    """Reads one file into a draft and notes its problems."""

    def __init__(self, file: str, problems: list[Problem]) -> None:
        self._nodes = Nodes(file, problems)
        self._problems = problems

    def file(self, root: Node) -> FileDraft:
        """The whole file. An unknown version is the only thing said about such a file."""
        draft, read = FileDraft(), self._nodes
        noted = len(self._problems)
        keys = read.mapping(root, "the file", grammar.FILE)
        if keys is None:
            return draft
        version = keys.get("version")
        if version is None:
            read.say(root, "says no version", f"add `version: {VERSION}` as its first line")
        elif not isinstance(version, ScalarNode) or version.value != VERSION:
            del self._problems[noted:]
            said = repr(version.value) if isinstance(version, ScalarNode) else "this"
            read.say(version, f"{said} is not a known version", f"write `version: {VERSION}`")
            return draft
        draft.mode = read.word(keys.get("mode"), Mode, "a mode")
        zone = read.quantity(keys.get("timezone"), grammar.ZONE)
        draft.timezone = zone.value if zone else None
        draft.calendars = self._calendars(keys.get("calendars"))
        belts = read.section(keys.get("belts"), grammar.BELTS)
        draft.shutdowns_per_hour = self._shutdowns(belts.get("shutdowns_per_hour"))
        draft.shutdowns_per_tick = self._shutdowns(belts.get("shutdowns_per_tick"))
        share = read.quantity(belts.get("share_of_holders"), grammar.SHARE)
        draft.share_of_holders = share.value if share else None
        draft.defaults = self._settings(read.section(keys.get("defaults"), grammar.DEFAULTS))
        for item in read.items(keys.get("exemptions"), "exemptions", empty_is_fine=True):
            if exemption := self._exemption(item):
                draft.exemptions.append(exemption)
        for item in read.items(keys.get("rules"), "rules", empty_is_fine=True):
            if rule := self._rule(item):
                draft.rules.append(rule)
        for item in read.items(keys.get("budgets"), "budgets", empty_is_fine=True):
            if budget := self._budget(item):
                draft.budgets.append(budget)
        return draft

    def _shutdowns(self, node: Node | None) -> int | None:
        count = self._nodes.count(node, "a number of shutdowns", "write `mode: observe` to end nothing")
        return None if count is None else count.value

    def _calendars(self, node: Node | None) -> list[CalendarDraft]:
        read, found = self._nodes, dict[str, CalendarDraft]()
        right = 'write for example office-hours: ["mon-fri 08:00-18:00"]'
        for key, value in (read.pairs(node, "'calendars'", right) or ()) if node is not None else ():
            name = read.text(key, "the name of a calendar")
            items = [value] if isinstance(value, ScalarNode) else read.items(value, "hours")
            hours: list[Hours] = [each.value for item in items if (each := read.quantity(item, grammar.HOURS))]
            if name is None:
                continue
            if name.value in found:
                read.say(key, f"{name.value!r} is given twice", "keep one of them")
            found[name.value] = CalendarDraft(name.value, tuple(hours), name.place)
        return list(found.values())

    def _exemption(self, node: Node) -> ExemptionDraft | None:
        read = self._nodes
        keys = read.mapping(node, "an exemption", grammar.EXEMPTION)
        if keys is None:
            return None
        whole = read.required(node, keys, grammar.EXEMPTION)
        condition = self._condition(keys.get("match"))
        until = read.quantity(keys.get("until"), grammar.MOMENT)
        reason = read.text(keys.get("reason"), "a reason")
        if not whole or until is None or reason is None:
            return None
        return ExemptionDraft(condition, until, reason.value, read.place(node))

    def _budget(self, node: Node) -> BudgetDraft | None:
        read = self._nodes
        keys = read.mapping(node, "a budget", grammar.BUDGET)
        if keys is None:
            return None
        whole = read.required(node, keys, grammar.BUDGET)
        condition = self._condition(keys.get("match"))
        name, then = read.text(keys.get("name"), "a name"), read.text(keys.get("then"), "the name of a rule")
        per = self._placed(keys.get("per"), Per, "a way to count together")
        window = read.quantity(keys.get("window"), grammar.SPAN)
        measure = self._placed(keys.get("measure"), Measure, "a measure")
        limit = read.number(keys.get("limit"), "a limit", "write for example 40: its unit is that of `measure`")
        if not whole or None in (name, then, per, window, measure, limit):
            return None
        assert name and then and per and window and measure and limit  # noqa: S101, PT018  seen just now
        return BudgetDraft(name, condition, per, window, measure, limit, then)

    def _placed(self, node: Node | None, words: type[E], name: str) -> Placed[E] | None:
        word = self._nodes.word(node, words, name)
        return None if word is None or node is None else Placed(word, self._nodes.place(node))

    def _rule(self, node: Node) -> RuleDraft | None:
        read = self._nodes
        keys = read.mapping(node, "a rule", grammar.RULE)
        if keys is None:
            return None
        if (name := self._name(node, keys.get("name"))) is None:
            name = Placed("", read.place(node))
        override = read.word(keys.get("override"), Override, "a way to deal with an earlier rule")
        observe = read.word(keys.get("mode"), Mode, "a mode of a rule", but=(Mode.ENFORCE,))
        keep = keys.get("keep")
        keeps = isinstance(keep, ScalarNode)
        if isinstance(keep, ScalarNode) and keep.value != "true":
            right = "write `keep: true` to leave alone what matches, or `keep: {longest: 8h}`"
            read.say(keep, f"{keep.value!r} is not a way to keep", right)
        if override is Override.DISABLE:
            self._say_idle_keys(keys, ("name", "override"), "`override: disable`")
        elif keeps:
            self._say_idle_keys(keys, ("name", "match", "override", "keep"), "`keep: true`")
        said = {key: value for key, value in keys.items() if not (keeps and key == "keep")}
        noted = len(self._problems)
        condition = self._condition(keys.get("match"))
        self._check_rule(condition.match, keys)
        whole = len(self._problems) == noted
        return RuleDraft(
            name=name.value,
            place=name.place,
            condition=condition if whole else None,
            keep=keeps,
            settings=self._settings(said),
            observe=observe is Mode.OBSERVE,
            override=None if override is None else Placed(override, read.place(keys["override"])),
        )

    def _say_idle_keys(self, keys: dict[str, Node], fine: tuple[str, ...], beside: str) -> None:
        for other, value in keys.items():
            if other not in fine:
                what = f"{other!r} has no effect beside {beside}"
                self._nodes.say(value, what, f"remove {other!r}, or remove {beside}")

    def _check_rule(self, match: Match, keys: dict[str, Node]) -> None:
        """What in a rule can have no effect, given whom it matches."""
        watched = within(keys.get("idle"), "unwatched_for")
        if watched is not None and match.owner not in {None, OwnerKind.TENSORBOARD}:
            self._nodes.say(watched, "only a TensorBoard is watched", "remove it, or write `owner: tensorboard`")
        if match.state is None:
            return
        for state in OwnerState:
            limit = within(keys.get("states"), state.value)
            if limit is not None and state is not match.state:
                what = f"never used: this rule matches only what is {match.state.value}"
                self._nodes.say(limit, what, "remove it, or remove `state` from `match`")

    def _name(self, rule: Node, node: Node | None) -> Placed[str] | None:
        if node is None:
            self._nodes.say(rule, "a rule without a name", "add `name:` with a short word for it")
            return None
        name = self._nodes.text(node, "a name")
        if name is not None and name.value == DEFAULT_RULE:
            self._nodes.say(
                node, f"the name {DEFAULT_RULE!r} stands for the rule made of `defaults`", "use another name"
            )
        return name

    def _condition(self, node: Node | None) -> Condition:
        read = self._nodes
        keys = read.section(node, grammar.MATCH)
        owner = read.word(keys.get("owner"), OwnerKind, "an owner")
        state = read.word(keys.get("state"), OwnerState, "a state", but=grammar.NO_RULES)
        memory = read.quantity(keys.get("memory_above"), grammar.MEMORY)
        free = read.quantity(keys.get("device_free_below"), grammar.SHARE)
        older = read.quantity(keys.get("older_than"), grammar.AGE)
        match = Match(
            user=self._glob(keys.get("user")),
            group=self._glob(keys.get("group")),
            server=self._glob(keys.get("server")),
            owner=owner,
            notebook=self._glob(keys.get("notebook"), of_path=True),
            kernelspec=self._glob(keys.get("kernelspec")),
            device=self._glob(keys.get("device")),
            mig=self._glob(keys.get("mig")),
            state=state,
            memory_above=memory.value if memory else None,
            device_free_below=free.value if free else None,
            older_than=older.value if older else None,
        )
        if owner not in {None, OwnerKind.KERNEL, OwnerKind.LEFTOVERS} and "kernelspec" in keys:
            read.say(keys["kernelspec"], "only a kernel has a kernelspec", "remove it, or write `owner: kernel`")
        if owner is OwnerKind.TERMINAL and "notebook" in keys:
            read.say(keys["notebook"], "a terminal has no notebook", "remove it, or write `owner: kernel`")
        if owner not in {None, OwnerKind.KERNEL} and state in _PEOPLE_ASK:
            read.say(keys["state"], f"only a kernel is ever {state.value}", "remove it, or write `owner: kernel`")
        elif owner is OwnerKind.LEFTOVERS and state not in {None, OwnerState.DEAD}:
            read.say(keys["state"], "what was left behind is always dead", "remove it, or write `owner: kernel`")
        return Condition(match, read.text(keys.get("during"), "the name of a calendar"))

    def _glob(self, node: Node | None, *, of_path: bool = False) -> str | None:
        glob = self._nodes.text(node, "a pattern")
        if glob is None or node is None:
            return None
        if of_path and glob.value.startswith(("/", "./", "~")):
            right = glob.value.lstrip("~./") or "lectures/**"
            what = f"{glob.value!r} never matches: notebook paths start at the server's root folder"
            self._nodes.say(node, what, f"write for example {right!r}")
        return glob.value

    def _settings(self, keys: dict[str, Node]) -> Settings:
        read = self._nodes
        idle = read.section(keys.get("idle"), grammar.IDLE)
        trickle = read.section(keys.get("trickle"), grammar.TRICKLE)
        keep = read.section(keys.get("keep"), grammar.KEEP)
        asked = read.word(keep.get("reason"), Asked, "a way to ask for a reason")
        return Settings(
            compute_below=read.quantity(idle.get("compute_below"), grammar.SHARE),
            memory_above=read.quantity(idle.get("memory_above"), grammar.MEMORY),
            lasting=read.quantity(idle.get("for"), grammar.LASTING),
            unwatched_for=read.quantity(idle.get("unwatched_for"), grammar.LASTING),
            mean_below=read.quantity(trickle.get("mean_below"), grammar.LITTLE),
            over=read.quantity(trickle.get("over"), grammar.TRICKLING),
            notice=read.quantity(keys.get("notice"), grammar.NOTICE),
            undelivered=read.quantity(keys.get("undelivered"), grammar.LASTING),
            longest=read.quantity(keep.get("longest"), grammar.NOTICE),
            per_day=read.count(keep.get("per_day"), "a number of times", "write a larger number, or leave it out"),
            reason_required=None if asked is None else Placed(asked is Asked.REQUIRED, read.place(keep["reason"])),
            ladder=self._ladder(keys["ladder"]) if "ladder" in keys else None,
            trust_estimates=read.yes_or_no(keys.get("trust_estimates")),
            states=self._states(keys["states"]) if "states" in keys else None,
        )

    def _states(self, node: Node) -> dict[OwnerState, Placed[timedelta | None]]:
        limits = self._nodes.section(node, grammar.STATES)
        read = {word: self._nodes.quantity(limit, grammar.LASTING) for word, limit in limits.items()}
        return {OwnerState(word): limit for word, limit in read.items() if limit is not None}

    def _ladder(self, node: Node) -> tuple[Placed[Stage], ...]:
        read = self._nodes
        stages: list[Placed[Stage]] = []
        before = timedelta(0)
        for item in read.items(node, "ladder"):
            keys = read.mapping(item, "a stage", grammar.STAGE)
            if keys is None:
                continue
            if "do" not in keys:
                read.say(item, "a stage that does nothing", "add `do: warn` or `do: shutdown`")
            after = keys.get("after")
            relative = isinstance(after, ScalarNode) and after.value.strip().startswith("+")
            delay = read.quantity(after, grammar.DELAY)
            action = read.word(keys.get("do"), Action, "a stage", but=(Action.KEEP, Action.RESUME))
            if action is None or (after is not None and delay is None):
                continue
            due = delay.value if delay else timedelta(0)
            if relative:
                due += before
            before = max(before, due)
            stages.append(Placed(Stage(action, due), delay.place if delay else read.place(item)))
        return tuple(stages)
