"""What the audit says of one event: values only. An Entry holds enough to redo its verdict by hand.

It never holds command lines, environments, log directories or anything of other users.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, Field, dataclass, fields, replace
from datetime import datetime
from enum import Enum
from typing import Any

from .budget import Amount, Spent
from .judge import Bench, judge
from .ledger import Case, Ledger
from .model import Device, Holder, Instant, OwnerKey
from .policy import DEFAULT_RULE, Exemption, Match, Mode, Policy, Rule, Site
from .verdict import Code, Lease, Outcome, Result, Verdict
from .window import Window

_BOOKKEEPING = frozenset({"tree", "cpu", "young", "efforts", "activity"})
_SOMEBODY = Site(groups=frozenset({"any"}))  # whose budget it was
_ABOUT_DAYS = frozenset({Code.TRICKLE, Code.POSSIBLE_KEEP_ALIVE})


class Kind(str, Enum):
    """What an Entry is about. Stable words: they are on disk."""

    STARTED = "started"  # the guard of a server began to look
    STOPPED = "stopped"  # a server ended in an orderly way
    POLICY = "policy"  # from now on this policy, mode or fault
    POLICY_WAITS = "policy-waits"  # a new one would newly end many at once, and waits for a person
    WARNED = "warned"  # a warning was delivered
    HINTED = "hinted"  # a word was delivered that nothing follows by itself
    LIFTED = "lifted"  # a standing warning was dropped: it is within its limits again
    KEPT = "kept"  # a person keeps it
    UNKEPT = "unkept"  # a person keeps it no more
    BEGUN = "begun"  # an act is about to begin; its outcome has the same `act`
    OUTCOME = "outcome"  # how an act ended, or a warning that could not be given
    SPARED = "spared"  # it would be due, and something spares it


@dataclass(frozen=True)
class Grounds:
    """What a Verdict rests on: to judge again, put them on a Bench."""

    now: Instant
    mode: Mode
    holder: Holder
    rule: Rule
    trials: tuple[Rule, ...] = ()
    exemption: Exemption | None = None
    window: Window | None = None
    case: Case | None = None
    lease: Lease | None = None
    devices: tuple[Device, ...] = ()
    reached: bool = False
    spent: Spent | None = None


@dataclass(frozen=True)
class Entry:
    """One event.

    `policy` is the digest of the policy in force. `by` is the person who asked. `clients` is how many pages were
    connected to the owner when a warning was delivered. `deadline` and `lease` are what a person was told.
    `server` is the folder in which the server's notebooks are.
    """

    kind: Kind
    at: datetime
    mode: Mode
    policy: str
    owner: OwnerKey | None = None
    name: str = ""
    notebook: str | None = None
    verdict: Verdict | None = None
    grounds: Grounds | None = None
    outcome: Outcome | None = None
    lease: Lease | None = None
    deadline: datetime | None = None
    by: str | None = None
    clients: int | None = None
    act: str | None = None
    detail: str = ""
    server: str = ""

    def concerns(self, wanted: str) -> bool:
        """Whether it is about the owner, notebook or name `wanted`."""
        return wanted in (str(self.owner), self.notebook, self.name)


def grounds(holder: Holder, bench: Bench, verdict: Verdict) -> Grounds:
    """What `verdict` about `holder` on `bench` rests on, without what nobody should keep."""
    key = holder.owner.key
    window = bench.windows.get(key)
    rules = bench.policy.rules_for(holder, bench.around)
    *trials, rule = rules
    exemption = bench.policy.exemption_for(holder, bench.around)
    spent = bench.policy.spent_for(holder, bench.around)
    return Grounds(
        now=bench.now,
        mode=bench.policy.mode,
        holder=_to_be_kept(holder),
        rule=_matching(rule),
        trials=tuple(_matching(each) for each in trials),
        exemption=exemption and replace(exemption, match=Match()),
        window=window and _for_judging(window, _without_days(rules, verdict)),
        case=bench.ledger.cases.get(key),
        lease=bench.leases.get(key),
        devices=tuple(bench.devices[h.device] for h in holder.holdings if h.device in bench.devices),
        reached=key in bench.reached,
        spent=spent and replace(spent, budget=replace(spent.budget, match=Match())),
    )


def cut_off(begun: Entry, now: datetime) -> Entry:
    """The outcome of an act that nobody saw the end of: it is not known."""
    detail, verdict, outcome = "the server ended before the act was over", begun.verdict, None
    if verdict is not None:
        outcome = Outcome(
            owner=verdict.owner,
            root=verdict.root,
            action=verdict.action,
            rule=verdict.rule,
            result=Result.UNKNOWN,
            at=begun.at,
            detail=detail,
            reasons=verdict.reasons,
            notebook=begun.notebook,
            name=begun.name,
            by=begun.by,
        )
    return replace(begun, kind=Kind.OUTCOME, at=now, grounds=None, outcome=outcome, detail=detail)


def judged_again(grounds: Grounds) -> Verdict:
    """The Verdict that `grounds` lead to, without the belts, which are about all holders together."""
    key, spent = grounds.holder.owner.key, grounds.spent
    bypassed = () if spent is None or spent.instead_of == grounds.rule.name else (Rule(spent.instead_of),)
    bench = Bench(
        policy=Policy(
            mode=grounds.mode,
            rules=(*grounds.trials, *bypassed, grounds.rule, Rule(DEFAULT_RULE)),
            exemptions=() if grounds.exemption is None else (grounds.exemption,),
            budgets=() if spent is None else (spent.budget,),
        ),
        site=_SOMEBODY,
        spending=dict.fromkeys(spent.budget.accounts(key, _SOMEBODY), Amount(spent.used)) if spent else {},
        windows={} if grounds.window is None else {key: grounds.window},
        leases={} if grounds.lease is None else {key: grounds.lease},
        ledger=Ledger() if grounds.case is None else Ledger({key: grounds.case}),
        devices={device.uuid: device for device in grounds.devices},
        now=grounds.now,
        reached=frozenset({key}) if grounds.reached else frozenset(),
    )
    (verdict,) = judge((grounds.holder,), bench)
    return verdict


def _matching(rule: Rule) -> Rule:
    """`rule`, of which it is known that it matched; of what it matches by, only the state weighs once more."""
    return replace(rule, match=Match(state=rule.match.state))


def _for_judging(window: Window, needless: frozenset[str]) -> Window:
    """`window` without what is `needless`, and what only the next reading needs: who did how much."""
    needless |= _BOOKKEEPING
    return replace(window, **{part.name: _default(part) for part in fields(window) if part.name in needless})


def _without_days(rules: Iterable[Rule], verdict: Verdict) -> frozenset[str]:
    """The parts of a window that are about days: long, and only about compute that comes now and then."""
    is_about_days = any(rule.trickle is not None for rule in rules)
    is_about_days |= any(reason.code in _ABOUT_DAYS for reason in verdict.reasons)
    return frozenset() if is_about_days else frozenset({"stretches", "stretch"})


def _default(part: Field[Any]) -> Any:
    return part.default if part.default_factory is MISSING else part.default_factory()


def _to_be_kept(holder: Holder) -> Holder:
    """`holder` without its log directory, which is part of a command line, and without what no verdict rests on."""
    owner = holder.owner
    if owner.board is not None:
        owner = replace(owner, board=replace(owner.board, log_dir=""))
    activity = holder.activity and replace(holder.activity, io={})
    return replace(holder, owner=owner, cpu={}, activity=activity)
