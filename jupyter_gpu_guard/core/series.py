"""A series of readings of one kernel under a policy: the judging code of the guard, without what changes nothing. Pure.

A series tells compute, memory and perhaps the kernel's state at each point in time. Each point becomes a Snapshot with
that one kernel. Most of them cannot change anything: nothing is open, and the kernel cannot have been idle for as long
as any rule asks. Of those only as much is noted as a rule could ask a Window for. A policy with conditions for which
this was not thought through is judged at every point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import datetime, timedelta, timezone
from math import ceil, inf
from typing import Any, NamedTuple

from .model import (
    Device,
    GpuClient,
    Instant,
    Owner,
    OwnerKey,
    OwnerKind,
    OwnerState,
    Process,
    ProcessKey,
    Reading,
    Snapshot,
    Unknown,
)
from .policy import NOBODY, Action, Idle, Policy, Rule, Site
from .rehearse import Act, Carried, rehearse
from .simulate import ended_by
from .tally import Ended, Hold, Tally
from .verdict import Code
from .window import Peak, Window

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_ROOT = ProcessKey(100, 1)
_DEVICE = Device("series", 0, "series", memory_total=float(2**50), memory_used=0.0)

# Judged without regard to how much time has passed: it stays so while the readings stay alike.
_STEADY = frozenset({Code.RULE_KEEPS, Code.NEVER, Code.HOLDS_LITTLE, Code.LADDER_DONE})

# What the short way has been thought through for. A policy that has anything else is judged at every point.
_THOUGHT_OF: Mapping[type, frozenset[str]] = {
    Policy: frozenset({"mode", "rules", "belts", "digest", "source", "fault", "exemptions"}),
    Rule: frozenset(
        {
            *("name", "match", "idle", "notice", "keep_limits", "ladder", "keep", "trust_estimates", "observe"),
            *("states", "undelivered"),  # in a series every warning counts as delivered
        }
    ),
    Idle: frozenset({"compute_below", "memory_above", "lasting", "unwatched_for"}),
}
# Conditions that hold for ever or never, as long as the kernel's state is the same.
_TIMELESS = frozenset({"user", "group", "server", "owner", "notebook", "kernelspec", "device", "state"})


class Point(NamedTuple):
    """One reading, `at` so many seconds of the epoch or since any beginning. `compute` is the mean since the last."""

    at: float
    compute: Reading
    memory: Reading
    state: OwnerState = OwnerState.IDLE


class SeriesSimulation:
    """One policy over one series. `acts` are what would have been done, in order.

    Points further apart than `longest_span` seconds leave a gap. `short` False judges at every point: the same, slower.
    `site`: whose server it is.
    """

    def __init__(
        self, name: str, policy: Policy, longest_span: float, *, short: bool = True, site: Site = NOBODY
    ) -> None:
        self.acts: list[Act] = []
        self._name = name
        self._policy, self._site = policy, site
        self._longest_span = longest_span
        self._short = short and is_thought_of(policy)
        self._is_timeless = is_timeless(policy)
        self._compute_below = policy.rules[-1].idle.compute_below
        self._carried = Carried()
        self._readings, self._has_held, self._is_warned = 0, False, False
        self._held = Hold()  # up to the end
        self._ended: Ended | None = None
        self._used_at: float | None = None
        self._before: Point | None = None
        self._steady: tuple[object, ...] | None = None
        # What a Window would know: its begin, and by threshold, from high to low, the last time of so much compute.
        self._began: float | None = None
        rules = [rule for rule in policy.rules if not rule.keep]
        self._thresholds = sorted({rule.idle.compute_below for rule in policy.rules}, reverse=True)
        self._busy_at = [-inf] * len(self._thresholds)
        self._earliest = min((limit.total_seconds() for r in rules for limit in _limits(r)), default=inf)
        self._little = min(rule.idle.memory_above for rule in policy.rules)
        self._much = max(rule.idle.memory_above for rule in policy.rules)

    @property
    def tally(self) -> Tally:
        """The sums so far."""
        held = replace(self._held)
        ended = [] if self._ended is None else [self._ended]
        for each in ended:
            held.include(each.after)
        rules = Counter(each.rule for each in ended)
        return Tally(self._readings, int(self._has_held), int(self._is_warned), rules, held, ended)

    def see(self, point: Point) -> None:
        """The next point of the series; its time is later than that of the one before."""
        at, compute, memory, state = point
        before = self._before
        self._before = point
        self._readings += 1
        span = 0.0 if before is None else at - before.at
        is_gap = before is None or span > self._longest_span
        devices = 1 if isinstance(memory, Unknown) or memory > 0 else 0
        if self._ended is not None:
            self._ended.see(at, 0.0 if is_gap else span, devices, memory, compute, self._compute_below)
            self._has_held = self._has_held or devices > 0
            return
        if devices:
            self._has_held = True
            if not is_gap:
                self._held.add(span, 1, memory, compute, self._compute_below)
        if before is not None and before.state.is_running_a_cell and not state.is_running_a_cell:
            self._used_at = at
        if not self._short or not self._changes_nothing(point, before):
            self._judge(point, before)
        self._note(point, before, is_gap=is_gap)

    def _changes_nothing(self, point: Point, before: Point | None) -> bool:
        """Whether nothing can follow from `point`."""
        if self._carried.ledger.cases:
            return self._steady is not None and self._steady == self._kind(point, before)
        began = self._began
        if began is None or point.at - max(began, self._busy_at[0]) < self._earliest:
            return True
        return self._steady is not None and self._steady == self._kind(point, before)

    def _kind(self, point: Point, before: Point | None) -> tuple[object, ...] | None:
        """What it is about `point` that a steady verdict rests on. None: no verdict is steady there."""
        if before is None or point.at - before.at > self._longest_span:
            return None
        _, compute, memory, state = point
        if isinstance(compute, Unknown) or isinstance(memory, Unknown) or compute >= self._thresholds[-1]:
            return None
        return state, -1.0 if memory < self._little else inf if memory >= self._much else memory

    def _judge(self, point: Point, before: Point | None) -> None:
        carried = self._carried
        if self._short:
            carried = replace(carried, perceived=replace(carried.perceived, windows=self._windows(before)))
        scene = rehearse(self._snapshot(point), carried, self._policy, self._longest_span, site=self._site)
        self._carried = scene.carried
        for act in scene.acts:
            self.acts.append(act)
            if act.verdict.action is Action.WARN:
                self._is_warned = True
            elif act.verdict.action.loses_work:
                self._ended = ended_by(act, point.at)
        if self._short:
            codes = {reason.code for verdict in scene.verdicts.values() for reason in verdict.reasons}
            self._steady = self._kind(point, before) if codes & _STEADY and self._is_timeless else None

    def _note(self, point: Point, before: Point | None, *, is_gap: bool) -> None:
        """Remember of `point` what a Window would."""
        at, compute, memory, _ = point
        if isinstance(compute, Unknown) or isinstance(memory, Unknown):
            self._began = None
            return
        if self._began is None or is_gap:
            self._began = at
            return
        assert before is not None  # noqa: S101  there is a Window
        assert not isinstance(before.compute, Unknown)  # noqa: S101
        both_ends = max(before.compute, compute)
        if both_ends < self._thresholds[-1] - 1:
            return
        both_ends = ceil(both_ends * 10) / 10  # as a Window rounds
        for n, threshold in enumerate(self._thresholds):
            if both_ends >= threshold:
                self._busy_at[n] = at

    def _windows(self, before: Point | None) -> dict[OwnerKey, Window]:
        """The Window that all points so far would have made, in as much as a rule asks for."""
        began = self._began
        if before is None or began is None or isinstance(before.compute, Unknown):
            return {}
        peaks = [Peak(t, until) for t, until in zip(self._thresholds, self._busy_at, strict=True)]
        key = OwnerKey(OwnerKind.KERNEL, self._name)
        window = Window(
            root=_ROOT,
            began=began,
            at=before.at,
            compute=before.compute,
            tree=frozenset({_ROOT}),
            peaks=tuple(peaks),
        )
        return {key: window}

    def _snapshot(self, point: Point) -> Snapshot:
        owner = Owner(
            key=OwnerKey(OwnerKind.KERNEL, self._name),
            name=self._name,
            root=_ROOT,
            state=point.state,
            notebook=self._name,
            used_at=self._used_at,
        )
        return Snapshot(
            taken_at=Instant(EPOCH + timedelta(seconds=point.at), point.at),
            devices=(_DEVICE,),
            clients=(GpuClient(_DEVICE.uuid, _ROOT.pid, point.memory, point.compute),),
            processes={_ROOT.pid: Process(_ROOT, 1, _ROOT.pid, _ROOT.pid, "S", EPOCH)},
            owners=(owner,),
        )


def is_thought_of(policy: Policy) -> bool:
    """Whether `policy` does something only about who is idle for as long as a rule asks, whichever rule that is."""
    parts: list[tuple[Any, Any]] = [(policy, Policy())]
    for rule in policy.rules:
        parts += [(rule, Rule("")), (rule.idle, Idle())]
    return all(
        each.name in _THOUGHT_OF[type(usual)] or getattr(part, each.name) == getattr(usual, each.name, None)
        for part, usual in parts
        for each in fields(part)
    )


def is_timeless(policy: Policy) -> bool:
    """Whether the rule that decides depends on the kernel's state alone, and not on time, memory or the device."""
    conditions = (
        getattr(r.match, each.name) for r in policy.rules for each in fields(r.match) if each.name not in _TIMELESS
    )
    return not policy.exemptions and all(asked is None for asked in conditions)


def _limits(rule: Rule) -> list[timedelta]:
    return [limit for limit in (rule.idle.lasting, *rule.states.values()) if limit is not None]
