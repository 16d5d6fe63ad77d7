"""Where a Holder stands against the limits of a rule: within them, or over them, and for how long. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from .model import Holder, OwnerState, is_known
from .policy import Rule
from .remarks import is_judged_unwatched, limit_of
from .verdict import Code, Reason
from .window import Window

# States in which nothing goes on that a rule could be about.
_AT_REST = frozenset({OwnerState.IDLE, OwnerState.STARTING, OwnerState.DEAD, OwnerState.UNKNOWN})


@dataclass(frozen=True)
class Standing:
    """`over`: seconds since the limit was reached; negative: until it is; None: no clock runs."""

    reason: Reason
    over: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether the limit was reached."""
        return self.over is not None and self.over >= 0


def is_at_rest(holder: Holder, rule: Rule) -> bool:
    """Whether visitors, new processes and work on the CPU are uses. While a cell runs they are what is being judged.

    So they are where the rule ends owners in the state that they make. Otherwise an owner that works now and then
    would be over its limit whenever it works, and within it whenever it does not.
    """
    if holder.owner.state not in _AT_REST:
        return False
    return holder.state in _AT_REST or not rule.ends_in(holder.state)


def idle_for(holder: Holder, rule: Rule, window: Window | None) -> float | None:
    """Seconds idle under the thresholds of `rule`; None: not known."""
    if window is None or not is_known(holder.compute) or not is_known(holder.memory):
        return None
    return window.idle_for(rule.idle.compute_below, at_rest=is_at_rest(holder, rule))


def standing(holder: Holder, rule: Rule, window: Window) -> Standing:
    """How `holder`, whose memory and compute are known, stands by the readings.

    A trickle is over its limit from the first moment at which it is one, so `over` is 0 then.
    """
    memory, compute = holder.memory, holder.compute
    assert is_known(memory)  # noqa: S101  the caller has seen to it
    assert is_known(compute)  # noqa: S101
    idle, lasting, unwatched = rule.idle, limit_of(holder, rule), is_judged_unwatched(holder, rule)
    if (memory < idle.memory_above or memory <= 0) and not unwatched:
        return Standing(
            Reason(Code.HOLDS_LITTLE, {"memory_bytes": memory, "memory_above_bytes": idle.memory_above}),
        )
    idle_seconds = window.idle_for(idle.compute_below, at_rest=is_at_rest(holder, rule))
    is_computing = compute >= idle.compute_below
    if is_computing or lasting is None or idle_seconds < lasting:
        trickle = _trickle(holder, rule, window, memory)
        if trickle is not None:
            return Standing(trickle, 0.0)
    if is_computing:
        facts = {"compute_percent": compute, "compute_below_percent": idle.compute_below}
        return Standing(Reason(Code.COMPUTING, facts))
    if lasting is None:
        return Standing(Reason(Code.NEVER, {"rule": rule.name}))
    over = idle_seconds - lasting
    if unwatched:
        watch = {"unwatched_seconds": idle_seconds, "unwatched_for_seconds": lasting}
        return Standing(Reason(Code.WATCHED if over < 0 else Code.UNWATCHED, watch), over)
    evidence = {
        "idle_seconds": idle_seconds,
        "for_seconds": lasting,
        "memory_bytes": memory,
        "compute_percent": compute,
        "compute_below_percent": idle.compute_below,
    }
    return Standing(Reason(Code.IDLE_NOT_LONG if over < 0 else Code.IDLE_TOO_LONG, evidence), over)


def _trickle(holder: Holder, rule: Rule, window: Window, memory: float) -> Reason | None:
    """That it is a trickle by the rule's measure: seen so for the whole time, and not used in it."""
    if rule.trickle is None:
        return None
    over = rule.trickle.over.total_seconds()
    if window.unused_for(at_rest=is_at_rest(holder, rule)) < over:
        return None
    mean = window.mean_over(over)
    if mean is None or mean >= rule.trickle.mean_below:
        return None
    facts = {
        "mean_percent": mean,
        "mean_below_percent": rule.trickle.mean_below,
        "over_seconds": over,
        "memory_bytes": memory,
    }
    return Reason(Code.TRICKLE, facts)
