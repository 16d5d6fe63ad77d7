"""`drive`: the whole pure flow, folded over Snapshots as a guard does it, with a scripted enforcer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from jupyter_gpu_guard.core.assess import Perceived, decide, perceive
from jupyter_gpu_guard.core.attribute import Attribution
from jupyter_gpu_guard.core.ledger import Ledger, begin, review, settle
from jupyter_gpu_guard.core.model import Holder, Instant, OwnerKey, ProcessKey, Snapshot
from jupyter_gpu_guard.core.policy import Action, Policy, Rule
from jupyter_gpu_guard.core.verdict import Lease, Notice, Result, Verdict

from .build import notice_of, outcome, policy

LONGEST_SPAN = 10.0

Script = Callable[[Verdict, Instant], Result]


def always_done(verdict: Verdict, now: Instant) -> Result:
    """Each act succeeds."""
    return Result.DONE


@dataclass(frozen=True)
class Act:
    """One verdict that was carried out, and how. `holder` is what was seen when it began, `rule` what decided."""

    begun: Instant
    verdict: Verdict
    holder: Holder
    result: Result
    rule: Rule
    notice: Notice | None = None


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
    ruled: Policy,
    leases: Iterable[Lease] = (),
    script: Script = always_done,
    takes: float = 0.0,
) -> Tick:
    """One round: attribute, push, judge, limit, review, act, settle. A shutdown is settled `takes` seconds later."""
    now = seen.taken_at
    state = _settled(state, now, takes)
    held = {promise.owner: promise for promise in leases if promise.until >= now.wall}
    perceived = perceive(seen, state.perceived, LONGEST_SPAN)
    verdicts = decide(seen, perceived, ruled, held, state.ledger)
    state = replace(state, perceived=perceived, ledger=review(state.ledger, verdicts, now))
    attribution = perceived.attribution
    holders = {held.owner.key: held for held in attribution.holders}
    acts = []
    for verdict in verdicts:
        if verdict.action is Action.KEEP:
            continue
        result = script(verdict, now)
        told = verdict.action is Action.WARN and result is Result.DONE
        decided = next(found for found in ruled.rules if found.name == verdict.rule)
        notice = notice_of(verdict, now) if told else None
        acts.append(Act(now, verdict, holders[verdict.owner], result, decided, notice))
        if verdict.action.loses_work:
            state = replace(state, ledger=begin(state.ledger, verdict, now), under_way=(*state.under_way, acts[-1]))
        else:
            settled = settle(state.ledger, verdict, outcome(verdict, result, now), now, notice)
            state = replace(state, ledger=settled)
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
    ruled: Policy | Callable[[float], Policy] | None = None,
    *,
    leases: Iterable[Lease] = (),
    script: Script = always_done,
    takes: float = 0.0,
    restart_at: Iterable[int] = (),
) -> list[Tick]:
    """Show `film` to the core, picture by picture. What was shut down is gone from the pictures that follow.

    `ruled` may change with the monotonic time. Before each picture in `restart_at` all state is lost.
    """
    leases, restart_at = tuple(leases), frozenset(restart_at)
    state, ended, ticks = State(), set[ProcessKey](), list[Tick]()
    for number, picture in enumerate(film):
        if number in restart_at:
            state = State()
        now = picture.taken_at.monotonic
        in_force = ruled(now) if callable(ruled) else ruled or policy()
        one = tick(_without(picture, ended), state, in_force, leases, script, takes)
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
