"""`drive`: the whole pure flow, folded over Snapshots as a guard does it, with a scripted enforcer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from jupyter_gpu_guard.core.assess import Perceived, bench_of, perceive, ruled
from jupyter_gpu_guard.core.attribute import Attribution
from jupyter_gpu_guard.core.ledger import Ledger, begin, review, settle
from jupyter_gpu_guard.core.model import Holder, Instant, OwnerKey, ProcessKey, Snapshot
from jupyter_gpu_guard.core.policy import Action, Policy, Rule
from jupyter_gpu_guard.core.verdict import Lease, Notice, Result, Verdict

from .build import notice_of, outcome, policy

LONGEST_SPAN = 10.0

Script = Callable[[Verdict, Instant], Result]
Presence = Callable[[OwnerKey, float], bool]


def always_done(verdict: Verdict, now: Instant) -> Result:
    """Each act succeeds."""
    return Result.DONE


def always_there(owner: OwnerKey, now: float) -> bool:
    """Each warning reaches somebody."""
    return True


@dataclass(frozen=True)
class Act:
    """One verdict that was carried out, and how. `holder` is what was seen when it began, `rule` what decided.

    `reached`: somebody was there to be told.
    """

    begun: Instant
    verdict: Verdict
    holder: Holder
    result: Result
    rule: Rule
    notice: Notice | None = None
    reached: bool = True


@dataclass(frozen=True)
class State:
    """All that a guard carries from one tick to the next. A restart is `State()`."""

    perceived: Perceived = field(default_factory=Perceived)
    ledger: Ledger = field(default_factory=Ledger)
    under_way: tuple[Act, ...] = ()


@dataclass(frozen=True)
class Tick:
    """What one tick saw and said, which acts it began, and the state that it left to the next."""

    snapshot: Snapshot
    attribution: Attribution
    verdicts: Mapping[OwnerKey, Verdict]
    acts: tuple[Act, ...]
    state: State


def tick(
    seen: Snapshot,
    state: State,
    in_force: Policy,
    leases: Iterable[Lease] = (),
    script: Script = always_done,
    takes: float = 0.0,
    present: Presence = always_there,
) -> Tick:
    """One round: attribute, push, judge, limit, review, act, settle. Whatever is no warning takes so many seconds."""
    now = seen.taken_at
    state = _settled(state, now, takes)
    held = {promise.owner: promise for promise in leases if promise.until >= now.wall}
    perceived = perceive(seen, state.perceived, LONGEST_SPAN)
    unheard = (case.owner for case in state.ledger.cases.values() if case.undelivered)
    reached = frozenset(key for key in unheard if present(key, now.monotonic))
    verdicts = ruled(perceived, bench_of(seen, perceived, in_force, held, state.ledger, reached=reached))
    state = replace(state, perceived=perceived, ledger=review(state.ledger, verdicts, now))
    attribution = perceived.attribution
    holders = {held.owner.key: held for held in attribution.holders}
    acts = []
    for verdict in verdicts:
        if verdict.action is Action.KEEP:
            continue
        result = script(verdict, now)
        told = verdict.action is Action.WARN and result is Result.DONE
        decided = next(found for found in in_force.rules if found.name == verdict.rule)
        there = present(verdict.owner, now.monotonic)
        said = outcome(verdict, result, now, undelivered=told and not there)
        notice = notice_of(verdict, now, undelivered=state.ledger.is_unheard(said)) if told else None
        acts.append(Act(now, verdict, holders[verdict.owner], result, decided, notice, there))
        if verdict.action is Action.WARN:
            state = replace(state, ledger=settle(state.ledger, verdict, said, now, notice))
        else:
            state = replace(state, ledger=begin(state.ledger, verdict, now), under_way=(*state.under_way, acts[-1]))
    state = _settled(state, now, takes)
    return Tick(seen, attribution, {verdict.owner: verdict for verdict in verdicts}, tuple(acts), state)


def _settled(state: State, now: Instant, takes: float) -> State:
    ledger = state.ledger
    over = [act for act in state.under_way if act.begun.monotonic + takes <= now.monotonic]
    for act in over:
        ledger = settle(ledger, act.verdict, outcome(act.verdict, act.result, now), now)
    return replace(state, ledger=ledger, under_way=tuple(act for act in state.under_way if act not in over))


def drive(
    film: Sequence[Snapshot],
    rules: Policy | Callable[[float], Policy] | None = None,
    *,
    leases: Iterable[Lease] = (),
    script: Script = always_done,
    takes: float = 0.0,
    restart_at: Iterable[int] = (),
    present: Presence = always_there,
) -> list[Tick]:
    """Show `film` to the core, picture by picture. What was shut down is gone from the pictures that follow.

    `rules` may change with the monotonic time. Before each picture in `restart_at` all state is lost.
    """
    leases, restart_at = tuple(leases), frozenset(restart_at)
    state, ended, ticks = State(), set[ProcessKey](), list[Tick]()
    for number, picture in enumerate(film):
        if number in restart_at:
            state = State()
        now = picture.taken_at.monotonic
        in_force = rules(now) if callable(rules) else rules or policy()
        one = tick(_without(picture, ended), state, in_force, leases, script, takes, present)
        for act in one.acts:
            if act.verdict.action.loses_work and act.result is Result.DONE:
                ended.update(act.holder.tree)
        state = one.state
        ticks.append(one)
    return ticks


def acts(ticks: Iterable[Tick], do: Action, of: str | None = None) -> list[Act]:
    """The acts of one kind, in order: all of them, or those on the kernel `of`."""
    begun = (act for one in ticks for act in one.acts if act.verdict.action is do)
    return [act for act in begun if of is None or act.verdict.owner.id == of]


def _without(picture: Snapshot, ended: set[ProcessKey]) -> Snapshot:
    dead = {pid for pid, row in picture.processes.items() if row.key in ended}
    return replace(
        picture,
        owners=tuple(found for found in picture.owners if found.root not in ended),
        processes={pid: row for pid, row in picture.processes.items() if pid not in dead},
        clients=tuple(row for row in picture.clients if row.pid not in dead),
    )
