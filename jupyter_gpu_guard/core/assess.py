"""One round of thought: from a Snapshot to Verdicts. Pure. The guard, a replay and the tests all go through here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from .attribute import Attribution, attribute
from .budget import Account, Amount
from .judge import Bench, judge
from .ledger import Ledger
from .limit import limit
from .model import OwnerKey, Snapshot
from .policy import NOBODY, Policy, Site
from .states import refine
from .verdict import Lease, Verdict
from .window import Windows, push

NOTHING_SPENT: Mapping[Account, Amount] = MappingProxyType({})


@dataclass(frozen=True)
class Perceived:
    """What a Snapshot means in the light of those before it. An empty one makes every clock start anew."""

    attribution: Attribution = field(default_factory=Attribution)
    windows: Windows = field(default_factory=dict)


def perceive(snapshot: Snapshot, before: Perceived, longest_span: float) -> Perceived:
    """Attribute, push, refine. `longest_span`: readings further apart (seconds) leave a gap.

    With thousands of processes this takes a while.
    """
    attribution = attribute(snapshot, before.attribution.lineage)
    windows = push(before.windows, attribution.holders, snapshot.taken_at.monotonic, longest_span)
    return Perceived(replace(attribution, holders=refine(attribution.holders, windows, snapshot)), windows)


def decide(
    snapshot: Snapshot,
    perceived: Perceived,
    policy: Policy,
    leases: Mapping[OwnerKey, Lease],
    ledger: Ledger,
    site: Site = NOBODY,
    spending: Mapping[Account, Amount] = NOTHING_SPENT,
) -> tuple[Verdict, ...]:
    """Judge and limit: one Verdict for each Holder, in the order of the holders."""
    return ruled(perceived, bench_of(snapshot, perceived, policy, leases, ledger, site, spending=spending))


def bench_of(
    snapshot: Snapshot,
    perceived: Perceived,
    policy: Policy,
    leases: Mapping[OwnerKey, Lease],
    ledger: Ledger,
    site: Site = NOBODY,
    reached: frozenset[OwnerKey] = frozenset(),
    spending: Mapping[Account, Amount] = NOTHING_SPENT,
) -> Bench:
    """All that the judgement of this Snapshot rests on. `site`: whose server it is; for the others see Bench."""
    return Bench(
        policy=policy,
        windows=perceived.windows,
        leases=leases,
        ledger=ledger,
        devices={device.uuid: device for device in snapshot.devices},
        now=snapshot.taken_at,
        site=site,
        reached=reached,
        spending=spending,
    )


def ruled(perceived: Perceived, bench: Bench) -> tuple[Verdict, ...]:
    """Judge on `bench`, and limit: one Verdict for each Holder, in the order of the holders."""
    verdicts = judge(perceived.attribution.holders, bench)
    return limit(verdicts, bench.ledger, bench.policy.belts, bench.now)
