"""What should happen to each Holder now, and why. Pure: the same facts always give the same Verdicts.

Every Holder gets a Verdict, `keep` too, and every Verdict has at least one Reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .budget import Account, Amount, Spent
from .ladder import Climb, usable
from .ledger import Case, Ledger
from .model import Device, Holder, Instant, OwnerKey, OwnerState, is_known
from .policy import NOBODY, Action, Around, Exemption, Mode, Policy, Rule, Site
from .remarks import is_judged_unwatched, keep_alive, limit_of, remarks, run_ended
from .standing import Standing, idle_for, is_at_rest, standing
from .verdict import Code, Lease, Protection, Reason, Verdict
from .window import Window, Windows


@dataclass(frozen=True)
class Bench:
    """All that a judgement rests on, apart from the Holder itself.

    `reached` are those whose warning has reached nobody at first, and does by now. `spending` is what has been used of
    budgets.
    """

    policy: Policy
    windows: Windows
    leases: Mapping[OwnerKey, Lease]
    ledger: Ledger
    devices: Mapping[str, Device]
    now: Instant
    site: Site = NOBODY
    reached: frozenset[OwnerKey] = frozenset()
    spending: Mapping[Account, Amount] = field(default_factory=dict)

    @property
    def around(self) -> Around:
        """What a rule's condition may ask about."""
        return Around(self.devices, self.now.wall, self.site, self.spending)


# It is over its limits.
OVER = frozenset({Code.IDLE_TOO_LONG, Code.UNWATCHED, Code.TRICKLE})


def judge(holders: tuple[Holder, ...], bench: Bench) -> tuple[Verdict, ...]:
    """One Verdict for each Holder, in the order of the holders."""
    return tuple(_judge_one(holder, bench) for holder in holders)


def protections(
    holder: Holder, rule: Rule, lease: Lease | None, exemption: Exemption | None = None
) -> tuple[Protection, ...]:
    """The facts that spare `holder` now."""
    found = []
    if lease is not None:
        found.append(Protection.LEASED)
    if holder.state.is_running_a_cell or holder.owner.state is OwnerState.EXECUTING:
        found.append(Protection.EXECUTING)
    if _is_attended(holder):
        found.append(Protection.ATTENDED)
    if holder.state is OwnerState.INPUT_BOUND:
        found.append(Protection.BUSY)
    if holder.state is OwnerState.SERVING:
        found.append(Protection.SERVING)
    if holder.estimated and not rule.trust_estimates:
        found.append(Protection.ESTIMATED)
    if not is_known(holder.memory) or not is_known(holder.compute):
        found.append(Protection.UNKNOWN)
    if rule.keep or exemption is not None:
        found.append(Protection.EXEMPT)
    return tuple(found)


def leased(lease: Lease) -> Reason:
    """The Reason that a lease is."""
    return Reason(Code.LEASED, {"until": lease.until.isoformat(), "reason": lease.reason, "by": lease.by})


def over_budget(spent: Spent) -> Reason:
    """The Reason that a budget is used up."""
    budget = spent.budget
    facts = {
        "budget": budget.name,
        "rule": budget.then,
        "instead_of": spent.instead_of,
        "measure": budget.measure.value,
        "per": budget.per.value,
        "used": spent.used,
        "limit": budget.limit,
        "window_seconds": budget.window.total_seconds(),
    }
    return Reason(Code.OVER_BUDGET, facts)


def _judge_one(holder: Holder, bench: Bench) -> Verdict:
    verdict = _by_the_rules(holder, bench)
    spent = bench.policy.spent_for(holder, bench.around)
    return verdict if spent is None else replace(verdict, reasons=(*verdict.reasons, over_budget(spent)))


def _by_the_rules(holder: Holder, bench: Bench) -> Verdict:
    owner = holder.owner
    around = bench.around
    *on_trial, rule = bench.policy.rules_for(holder, around)
    exemption = bench.policy.exemption_for(holder, around)
    case = bench.ledger.case_of(owner.key, owner.root)
    lease = bench.leases.get(owner.key)
    window = bench.windows.get(owner.key)
    verdict = Verdict(
        owner=owner.key,
        root=owner.root,
        action=Action.KEEP,
        rule=rule.name,
        reasons=(),
        protections=protections(holder, rule, lease, exemption),
        idle_for=idle_for(holder, rule, window),
        notice=rule.notice.total_seconds(),
        undelivered=None if rule.undelivered is None else rule.undelivered.total_seconds(),
        compute_below=rule.idle.compute_below,
    )
    latest = bench.ledger.cases.get(owner.key)
    trials = tuple(
        would
        for trial in on_trial
        if _spared(holder, trial, latest, lease, exemption, window) is None
        and (would := _would(holder, trial, window)) is not None
    )
    spared = _spared(holder, rule, latest, lease, exemption, window)
    if spared is not None:
        return replace(verdict, reasons=(spared, *trials, *remarks(holder)))
    assert window is not None  # noqa: S101  spared otherwise
    stand = standing(holder, rule, window)
    weighed = _weigh(verdict, stand, holder, rule, case, bench)
    if not stand.is_over and (case is None or case.warned_at is None):
        weighed = _with_hint(weighed, stand, holder, rule, window, case)
    pulse = None if stand.is_over else keep_alive(holder, rule, window, at_rest=is_at_rest(holder, rule))
    reasons = (*weighed.reasons, *((pulse,) if pulse else ()), *trials, *remarks(holder))
    if bench.policy.mode is Mode.OBSERVE and any(r.code in OVER for r in reasons):
        reasons = (*reasons, Reason(Code.OBSERVING))
    return replace(weighed, reasons=reasons)


def _would(holder: Holder, rule: Rule, window: Window | None) -> Reason | None:
    """What a rule that only observes would do by now, had it decided all the time; None: nothing."""
    assert window is not None  # noqa: S101  spared otherwise
    stand = standing(holder, rule, window)
    over = stand.over
    if over is None:
        return None
    reached = [stage.do for stage in usable(holder, rule)[0] if stage.after.total_seconds() <= over]
    if not reached:
        return None
    facts = {"rule": rule.name, "would": reached[-1].value, "idle_seconds": idle_for(holder, rule, window)}
    return Reason(Code.RULE_OBSERVES, facts)


def _with_hint(
    verdict: Verdict, stand: Standing, holder: Holder, rule: Rule, window: Window, case: Case | None
) -> Verdict:
    """`verdict`, with a word, once, about processes that compute although no cell has run for long."""
    told = case is not None and case.stages_done > 0
    if stand.reason.code is not Code.COMPUTING and not (told and stand.reason.code is Code.IDLE_NOT_LONG):
        return verdict
    hint = run_ended(holder, rule, window, told=told)
    if hint is None:
        return verdict
    return replace(verdict, action=Action.KEEP if told else Action.WARN, reasons=(*verdict.reasons, hint), notice=None)


def _spared(
    holder: Holder,
    rule: Rule,
    case: Case | None,
    lease: Lease | None,
    exemption: Exemption | None,
    window: Window | None,
) -> Reason | None:
    """Why nothing may happen to `holder`, whatever the clocks say. `case` may concern an earlier root of it."""
    if case is not None and case.acting:
        return Reason(Code.ACTING)
    if holder.owner.root is None:
        return Reason(Code.NOT_LOCAL, {"state": holder.owner.state.value})
    if rule.keep:
        return Reason(Code.RULE_KEEPS, {"rule": rule.name})
    if lease is not None:
        return leased(lease)
    if exemption is not None:
        return Reason(Code.EXEMPT, {"until": exemption.until.isoformat(), "reason": exemption.reason})
    if _is_attended(holder):
        return Reason(Code.ATTENDED, {"state": holder.state.value})
    if (unknown := _unknown(holder, rule, window)) is not None:
        return unknown
    is_unlimited = limit_of(holder, rule) is None and rule.trickle is None
    return Reason(Code.NEVER, {"rule": rule.name}) if is_unlimited else None


def _unknown(holder: Holder, rule: Rule, window: Window | None) -> Reason | None:
    """What is not known and would have to be."""
    for what, reading in (("memory", holder.memory), ("compute", holder.compute)):
        if not is_known(reading):
            return Reason(Code.UNKNOWN_READING, {"what": what, "why": reading.why.value, "detail": reading.detail})
    if window is None:
        return Reason(Code.UNKNOWN_READING, {"what": "compute", "why": "first-reading", "detail": ""})
    if is_judged_unwatched(holder, rule) and (holder.activity is None or holder.activity.visitors is None):
        return Reason(Code.UNKNOWN_READING, {"what": "visitors", "why": "not-read", "detail": ""})
    return None


def _is_attended(holder: Holder) -> bool:
    """Whether somebody is at the debugger in which it is halted."""
    return holder.state is OwnerState.BREAKPOINT and holder.owner.clients > 0


def _weigh(verdict: Verdict, stand: Standing, holder: Holder, rule: Rule, case: Case | None, bench: Bench) -> Verdict:
    """Compare the readings with the rule's thresholds and find the rung that is due."""
    now = bench.now
    ladder, cut = usable(holder, rule)
    reasons, over = (stand.reason, *cut), stand.over
    if over is None:
        return replace(verdict, reasons=(stand.reason,))
    first = ladder[0] if ladder else None
    if over < 0:
        wait = first.after.total_seconds() - over if first else 0.0
        return replace(
            verdict,
            reasons=reasons,
            stage=0 if first else None,
            next_action=first.do if first else None,
            deadline=now.monotonic + wait if first else None,
        )
    if stand.reason.code is Code.TRICKLE:  # no clock tells since when: the ladder begins with the Case
        over = (first.after.total_seconds() if first else 0.0) + (now.monotonic - case.opened_at if case else 0.0)

    climb = Climb(ladder, rule, case, over, now.monotonic)
    verdict = replace(verdict, reasons=reasons)
    if case is not None and case.undelivered and case.owner in bench.reached:
        return climb.told_again(verdict)
    return climb.step(verdict)
