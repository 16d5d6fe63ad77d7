"""What a person should know about a Holder besides the verdict, and what a rule measures it by. Pure."""

from __future__ import annotations

from .model import Evidence, Holder, OwnerKind, OwnerState, is_known, total
from .policy import Rule
from .verdict import Code, Fact, Reason
from .window import HOUR, QUIET_BELOW, Window

KEEP_ALIVE_OVER = 2 * HOUR


def is_judged_unwatched(holder: Holder, rule: Rule) -> bool:
    """Whether it is a TensorBoard that is due for want of visitors, whatever memory it holds."""
    return holder.owner.key.kind is OwnerKind.TENSORBOARD and rule.idle.unwatched_for is not None


def limit_of(holder: Holder, rule: Rule) -> float | None:
    """Seconds of idleness from which `rule` has something to say about `holder`; None: never."""
    limit = rule.lasting_in(holder.state)
    if limit is None:
        return None
    lasting = limit.total_seconds()
    if rule.idle.unwatched_for is None or not is_judged_unwatched(holder, rule):
        return lasting
    return max(lasting, rule.idle.unwatched_for.total_seconds())


def run_ended(holder: Holder, rule: Rule, window: Window, *, told: bool = False) -> Reason | None:
    """The hint that no cell has run for as long as the rule's limit, and processes it started computed all the time.

    So it is with the ranks of a training that wait for each other for ever. Once it is `told`, it holds until they
    rest: a little less compute in between is no new beginning.
    """
    owner, lasting = holder.owner, limit_of(holder, rule)
    if owner.key.kind is not OwnerKind.KERNEL or holder.state is not OwnerState.IDLE or lasting is None:
        return None
    rests = (at for at in (window.used_at, window.quiet_at) if at is not None)
    if window.at - max(window.began, *rests, window.began) < lasting:
        return None
    rows = [row for holding in holder.holdings for row in holding.processes]
    remaining = [row for row in rows if row.key != owner.root]
    busy = [row.compute for row in remaining if is_known(row.compute)]
    if not busy or max(busy) < (QUIET_BELOW if told else rule.idle.compute_below):
        return None
    held = total(row.memory for row in remaining)
    facts: dict[str, Fact] = {
        "processes": len({row.key for row in remaining}),
        "memory_bytes": held if is_known(held) else None,
        "compute_percent": max(busy),
    }
    return Reason(Code.RUN_ENDED, facts)


def keep_alive(holder: Holder, rule: Rule, window: Window, *, at_rest: bool) -> Reason | None:
    """The remark that a little compute comes regularly while nobody uses it. Nothing follows from it.

    Not where the rule deals with trickles, nor for less than `KEEP_ALIVE_OVER` or the rule's limit.
    """
    lasting = limit_of(holder, rule)
    if rule.trickle is not None or lasting is None:
        return None
    over = max(lasting, KEEP_ALIVE_OVER)
    if window.unused_for(at_rest=at_rest) < over:
        return None
    mean, pulses = window.mean_over(over), window.pulses_over(over, rule.idle.compute_below)
    if mean is None or pulses is None or mean >= rule.idle.compute_below / 2:
        return None
    return Reason(Code.POSSIBLE_KEEP_ALIVE, {"pulses": pulses, "over_seconds": over, "mean_percent": mean})


def remarks(holder: Holder) -> tuple[Reason, ...]:
    """What a person should know besides, whatever the verdict."""
    found = []
    owner = holder.owner
    memory = holder.memory
    if owner.parked is not None:
        found.append(Reason(Code.PARKED, {"memory_bytes": owner.parked.memory}))
        if (waiting := owner.parked.waiting) is not None:
            place: dict[str, Fact] = {
                "device": waiting.device,
                "needed_bytes": waiting.needed,
                "free_bytes": waiting.free if is_known(waiting.free) else None,
                "held_by": waiting.held_by,
            }
            found.append(Reason(Code.WAITING_FOR_ROOM, place))
    if owner.failed and owner.state is OwnerState.IDLE and is_known(memory) and memory > 0:
        found.append(Reason(Code.LAST_CELL_FAILED))
    if holder.leftovers:
        held = total(row.memory for row in holder.leftovers)
        left: dict[str, Fact] = {
            "processes": len({row.key for row in holder.leftovers}),
            "memory_bytes": held if is_known(held) else None,
            "died": int(owner.died),
        }
        found.append(Reason(Code.LEFT_BEHIND, left))
    evidence = {holding.evidence for holding in holder.holdings}
    if Evidence.ESTIMATE in evidence:
        found.append(Reason(Code.ESTIMATED))
    if Evidence.SOLE_OWNER in evidence:
        found.append(Reason(Code.SOLE_OWNER))
    return tuple(found)
