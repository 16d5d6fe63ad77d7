"""What should happen to each Holder now, and why. Pure: the same facts always give the same Verdicts.

Every Holder gets a Verdict, `keep` too, and every Verdict has at least one Reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from .ledger import Case, Ledger
from .model import Device, Holder, Instant, OwnerKey, OwnerState, is_known
from .policy import NOBODY, Action, Around, Exemption, Mode, Policy, Rule, Site, Stage
from .remarks import is_judged_unwatched, limit_of, remarks, run_ended
from .verdict import Code, Lease, Protection, Reason, Verdict
from .window import Window, Windows


@dataclass(frozen=True)
class Bench:
    """All that a judgement rests on, apart from the Holder itself."""

    policy: Policy
    windows: Windows
    leases: Mapping[OwnerKey, Lease]
    ledger: Ledger
    devices: Mapping[str, Device]
    now: Instant
    site: Site = NOBODY

    @property
    def around(self) -> Around:
        """What a rule's condition may ask about."""
        return Around(self.devices, self.now.wall, self.site)


# States in which nothing goes on that a rule could be about.
_AT_REST = frozenset({OwnerState.IDLE, OwnerState.STARTING, OwnerState.DEAD, OwnerState.UNKNOWN})

# It is over its limits.
OVER = frozenset({Code.IDLE_TOO_LONG, Code.UNWATCHED})


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


def _judge_one(holder: Holder, bench: Bench) -> Verdict:
    owner = holder.owner
    around = bench.around
    rule = bench.policy.rule_for(holder, around)
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
        idle_for=_idle_for(holder, rule, window),
        notice=rule.notice.total_seconds(),
        compute_below=rule.idle.compute_below,
    )
    spared = _spared(holder, rule, bench.ledger.cases.get(owner.key), lease, exemption, window)
    if spared is not None:
        return replace(verdict, reasons=(spared, *remarks(holder)))
    assert window is not None  # noqa: S101  spared otherwise
    weighed = _weigh(verdict, holder, rule, case, bench.now)
    if weighed.reasons[0].code is Code.COMPUTING and (case is None or case.warned_at is None):
        weighed = _with_hint(weighed, holder, rule, window, case)
    reasons = (*weighed.reasons, *remarks(holder))
    if bench.policy.mode is Mode.OBSERVE and any(r.code in OVER for r in reasons):
        reasons = (*reasons, Reason(Code.OBSERVING))
    return replace(weighed, reasons=reasons)


def _with_hint(verdict: Verdict, holder: Holder, rule: Rule, window: Window, case: Case | None) -> Verdict:
    """`verdict`, with a word, once, about processes that compute although no cell has run for long."""
    hint = run_ended(holder, rule, window)
    if hint is None:
        return verdict
    told = case is not None and case.stages_done > 0
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
    return Reason(Code.NEVER, {"rule": rule.name}) if limit_of(holder, rule) is None else None


def _unknown(holder: Holder, rule: Rule, window: Window | None) -> Reason | None:
    """What is not known and would have to be."""
    for what, reading in (("memory", holder.memory), ("compute", holder.compute)):
        if not is_known(reading):
            return Reason(Code.UNKNOWN_READING, {"what": what, "why": reading.why.value, "detail": reading.detail})
    if window is None:
        return Reason(Code.UNKNOWN_READING, {"what": "compute", "why": "first-reading", "detail": ""})
    if is_judged_unwatched(holder, rule) and holder.activity is None:
        return Reason(Code.UNKNOWN_READING, {"what": "visitors", "why": "not-read", "detail": ""})
    return None


def _is_attended(holder: Holder) -> bool:
    """Whether somebody is at the debugger in which it is halted."""
    return holder.state is OwnerState.BREAKPOINT and holder.owner.clients > 0


def _weigh(verdict: Verdict, holder: Holder, rule: Rule, case: Case | None, now: Instant) -> Verdict:
    """Compare the readings with the rule's thresholds and find the rung that is due."""
    memory, compute = holder.memory, holder.compute
    assert is_known(memory)  # noqa: S101  spared otherwise
    assert is_known(compute)  # noqa: S101
    idle, lasting, unwatched = rule.idle, limit_of(holder, rule), is_judged_unwatched(holder, rule)
    assert lasting is not None  # noqa: S101
    if (memory < idle.memory_above or memory <= 0) and not unwatched:
        facts = {"memory_bytes": memory, "memory_above_bytes": idle.memory_above}
        return replace(verdict, reasons=(Reason(Code.HOLDS_LITTLE, facts),))
    if compute >= idle.compute_below:
        facts = {"compute_percent": compute, "compute_below_percent": idle.compute_below}
        return replace(verdict, reasons=(Reason(Code.COMPUTING, facts),))

    idle_for = verdict.idle_for
    assert idle_for is not None  # noqa: S101  known where memory and compute are
    ladder, cut = _ladder(holder, rule)
    evidence = {
        "idle_seconds": idle_for,
        "for_seconds": lasting,
        "memory_bytes": memory,
        "compute_percent": compute,
        "compute_below_percent": idle.compute_below,
    }
    watch = {"unwatched_seconds": idle_for, "unwatched_for_seconds": lasting}
    if idle_for < lasting:
        first = ladder[0] if ladder else None
        wait = lasting - idle_for + (first.after.total_seconds() if first else 0.0)
        still = Reason(Code.WATCHED, watch) if unwatched else Reason(Code.IDLE_NOT_LONG, evidence)
        return replace(
            verdict,
            reasons=(still, *cut),
            stage=0 if first else None,
            next_action=first.do if first else None,
            deadline=now.monotonic + wait if first else None,
        )

    over_long = Reason(Code.UNWATCHED, watch) if unwatched else Reason(Code.IDLE_TOO_LONG, evidence)
    reasons = (over_long, *cut)
    index = case.stages_done if case is not None else 0
    if index >= len(ladder):
        return replace(verdict, reasons=(*reasons, Reason(Code.LADDER_DONE)))
    is_told = case is not None and case.warned_at is not None
    if ladder[index].do.loses_work and not is_told:
        index = _last_warning(ladder[:index], index)
    stage = ladder[index]
    over = idle_for - lasting
    loss = _loss_at(ladder[index:], rule, case, over, now)
    due = now.monotonic + stage.after.total_seconds() - over
    if stage.do.loses_work and loss is not None:
        due = loss
    verdict = replace(verdict, stage=index, next_action=stage.do, deadline=due)
    if case is not None and case.retry_at is not None and now.monotonic < case.retry_at:
        again = Reason(Code.RETRY_LATER, {"wait_seconds": case.retry_at - now.monotonic})
        return replace(verdict, reasons=(*reasons, again), deadline=max(due, case.retry_at))
    if now.monotonic < due or (stage.do.loses_work and not is_told):
        left = max(0.0, due - now.monotonic)
        return replace(verdict, reasons=(*reasons, Reason(Code.NOTICE_RUNNING, {"wait_seconds": left})))
    following = next((later.do for later in ladder[index:] if later.do.loses_work), None)
    return replace(verdict, action=stage.do, next_action=following, deadline=loss, reasons=reasons)


def _ladder(holder: Holder, rule: Rule) -> tuple[tuple[Stage, ...], tuple[Reason, ...]]:
    """The rungs that may be used: unless the rule names the state, all but an idle owner is only ever warned.

    Nor does anything more follow where it is only inferred that it is on a device, unless the rule trusts that.
    """
    state = holder.state
    named = state is OwnerState.IDLE or rule.match.state is state
    trusted = rule.trust_estimates or not holder.estimated
    if named and trusted:
        return rule.ladder, ()
    harmless = tuple(stage for stage in rule.ladder if not stage.do.loses_work)
    return harmless, () if named else (Reason(Code.STATE_WARNS_ONLY, {"state": state.value}),)


def _last_warning(before: tuple[Stage, ...], otherwise: int) -> int:
    """The rung that warns of a loss of which nobody was told, although its turn has come."""
    return next((n for n, stage in reversed(tuple(enumerate(before))) if not stage.do.loses_work), otherwise)


def _loss_at(stages: tuple[Stage, ...], rule: Rule, case: Case | None, over: float, now: Instant) -> float | None:
    """The monotonic time of the first loss that may come: after its stage is due, and after the full notice.

    A deadline that was promised stays: a rule that takes over may move it away, never closer.
    """
    lossy = next((stage for stage in stages if stage.do.loses_work), None)
    if lossy is None:
        return None
    due = now.monotonic + lossy.after.total_seconds() - over
    warned_at = case.warned_at if case is not None and case.warned_at is not None else now.monotonic
    promised = case.deadline if case is not None and case.deadline is not None else due
    return max(due, warned_at + rule.notice.total_seconds(), promised)


def _idle_for(holder: Holder, rule: Rule, window: Window | None) -> float | None:
    """Seconds idle under the thresholds of `rule`. While a cell runs, what its processes do is no use of it."""
    if window is None or not is_known(holder.compute) or not is_known(holder.memory):
        return None
    return window.idle_for(rule.idle.compute_below, at_rest=holder.state in _AT_REST)
