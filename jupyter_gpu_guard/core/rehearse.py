"""What would have been done: Snapshots through the same thoughts as in a guard, with rehearsed acts. Pure.

What is acted on goes on living in the Snapshots that follow, since they show what really happened; whoever rehearses
may leave it `without` those that count as ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from .assess import NOTHING_SPENT, Perceived, decide, perceive
from .ledger import Ledger, begin, review, settle
from .model import Holder, OwnerKey, ProcessKey, Snapshot
from .policy import NOBODY, Action, Around, Policy, Site
from .usage import Meter, spending
from .verdict import Lease, Outcome, Result, Verdict

Life: TypeAlias = tuple[OwnerKey, ProcessKey | None]
"""An owner between two restarts."""

NOBODY_KEEPS: Mapping[OwnerKey, Lease] = MappingProxyType({})
NOBODY_ENDED: AbstractSet[Life] = frozenset()


@dataclass(frozen=True)
class Carried:
    """What one round leaves to the next. An empty one is a server that has just started."""

    perceived: Perceived = field(default_factory=Perceived)
    ledger: Ledger = field(default_factory=lambda: Ledger(rehearsal=True))
    meter: Meter = field(default_factory=Meter)


@dataclass(frozen=True)
class Act:
    """One thing that would have been done, and to whom."""

    verdict: Verdict
    holder: Holder
    outcome: Outcome


@dataclass(frozen=True)
class Scene:
    """One Snapshot, what was thought of it, and what would have been done."""

    snapshot: Snapshot
    verdicts: Mapping[OwnerKey, Verdict]
    acts: tuple[Act, ...]
    carried: Carried


def rehearse(
    snapshot: Snapshot,
    before: Carried,
    policy: Policy,
    longest_span: float,
    leases: Mapping[OwnerKey, Lease] = NOBODY_KEEPS,
    without: AbstractSet[Life] = NOBODY_ENDED,
    site: Site = NOBODY,
) -> Scene:
    """One round. Readings further apart than `longest_span` seconds leave a gap; `leases` are those that hold now.

    Those that count as ended, `without`, are perceived, and not judged. `site`: whose server it is.
    """
    now = snapshot.taken_at
    perceived = perceive(snapshot, before.perceived, longest_span)
    left = _without(perceived, without)
    meter, spent = before.meter, NOTHING_SPENT
    if policy.budgets:
        around = Around({device.uuid: device for device in snapshot.devices}, now.wall, site)
        meter = meter.look(left.attribution.holders, policy, around, now, longest_span)
        if not snapshot.gaps:
            meter = meter.without_those_gone((h.owner.key for h in left.attribution.holders), policy.budgets)
        spent = spending((meter.usage,), policy.budgets, now.wall)
    verdicts = decide(snapshot, left, policy, leases, before.ledger, site, spent)
    ledger = review(before.ledger, verdicts, now)
    holders = {holder.owner.key: holder for holder in perceived.attribution.holders}
    acts = []
    for verdict in verdicts:
        if verdict.action is Action.KEEP:
            continue
        act = Act(verdict, holders[verdict.owner], _outcome(verdict, holders[verdict.owner], snapshot))
        acts.append(act)
        if verdict.action.loses_work:
            ledger = begin(ledger, verdict, now)
        ledger = settle(ledger, verdict, act.outcome, now)
    by_owner = {verdict.owner: verdict for verdict in verdicts}
    return Scene(snapshot, by_owner, tuple(acts), Carried(perceived, ledger, meter))


def _without(perceived: Perceived, ended: AbstractSet[Life]) -> Perceived:
    if not ended:
        return perceived
    left = tuple(h for h in perceived.attribution.holders if (h.owner.key, h.owner.root) not in ended)
    return replace(perceived, attribution=replace(perceived.attribution, holders=left))


def _outcome(verdict: Verdict, holder: Holder, snapshot: Snapshot) -> Outcome:
    return Outcome(
        owner=verdict.owner,
        root=verdict.root,
        action=verdict.action,
        rule=verdict.rule,
        result=Result.REHEARSED,
        at=snapshot.taken_at.wall,
        detail="nothing was done: this is a rehearsal",
        reasons=verdict.reasons,
        notebook=holder.owner.notebook,
        name=holder.owner.name,
    )
