"""Who would be due, and what spares them: the other half of the question why something was ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from .judge import OVER, Bench, judge
from .ledger import Ledger
from .model import Holder, OwnerKey
from .policy import DEFAULT_RULE, Action, Match, Mode, Policy, Rule
from .remarks import limit_of
from .verdict import Code, Protection, Verdict

# Each of these stands in the way of a judgement, whatever the clocks say.
_SHIELDS = frozenset({Code.LEASED, Code.RULE_KEEPS, Code.EXEMPT, Code.ATTENDED})


@dataclass(frozen=True)
class Spared:
    """What spares one Holder, since when (monotonic seconds), and whether it would be due without that."""

    by: Code
    since: float
    is_due: bool = True


def spared(
    holders: tuple[Holder, ...],
    verdicts: tuple[Verdict, ...],
    bench: Bench,
    before: Mapping[OwnerKey, Spared],
    verdicts_before: Mapping[OwnerKey, Verdict],
) -> Mapping[OwnerKey, Spared]:
    """Those of `holders` that something spares, given what did so at the look before.

    Without readings it is not known whether something would be due: then it is taken to be if it was due when they
    failed, or once they have failed for as long as it would have had to be idle.
    """
    found = {}
    for holder, verdict in zip(holders, verdicts, strict=True):
        code = _by(verdict)
        if code is None:
            continue
        key, now = verdict.owner, bench.now.monotonic
        earlier = before.get(key)
        since = earlier.since if earlier is not None and earlier.by is code else now
        if code in _SHIELDS:
            is_due = _is_over_unshielded(holder, bench, _rule(bench, verdict.rule))
        elif code is Code.UNKNOWN_READING:
            was_due = earlier is not None and earlier.by is code and earlier.is_due
            is_due = (
                was_due or _is_over(verdicts_before.get(key)) or _lasts(holder, _rule(bench, verdict.rule), now - since)
            )
        else:
            is_due = True
        found[key] = Spared(code, since, is_due)
    return found


def _by(verdict: Verdict) -> Code | None:
    """What spares it, if anything does."""
    if verdict.action is not Action.KEEP:
        return None
    codes = [reason.code for reason in verdict.reasons]
    if codes[0] in _SHIELDS or codes[0] is Code.UNKNOWN_READING:
        return codes[0]
    if Code.BELT in codes:
        return Code.BELT
    if Code.LADDER_DONE in codes:
        if Code.STATE_WARNS_ONLY in codes:
            return Code.STATE_WARNS_ONLY
        if Protection.ESTIMATED in verdict.protections:
            return Code.ESTIMATED
    return None


def _is_over(verdict: Verdict | None) -> bool:
    return verdict is not None and any(reason.code in OVER for reason in verdict.reasons)


def _is_over_unshielded(holder: Holder, bench: Bench, rule: Rule) -> bool:
    """Whether it would be over its limits if nobody kept it, attended to it, or exempted it."""
    bare = replace(rule, keep=False, match=Match(state=rule.match.state))
    policy = Policy(mode=Mode.ENFORCE, rules=(bare, Rule(DEFAULT_RULE)))
    alone = replace(holder, owner=replace(holder.owner, clients=0))
    (verdict,) = judge((alone,), replace(bench, policy=policy, leases={}, ledger=Ledger()))
    return _is_over(verdict)


def _lasts(holder: Holder, rule: Rule, seconds: float) -> bool:
    limit = limit_of(holder, rule)
    return limit is not None and seconds >= limit


def _rule(bench: Bench, name: str) -> Rule:
    return next((rule for rule in bench.policy.rules if rule.name == name), bench.policy.rules[-1])
