"""Outcomes, made the same way by every effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpu_guard.core.verdict import Code, Outcome, Result, Survivor, Verdict

if TYPE_CHECKING:
    from jupyter_gpu_guard.core.model import Holder
    from jupyter_gpu_guard.protocols import Clock


def asked_by(verdict: Verdict) -> str | None:
    """The person who asked for this, or None if a rule did."""
    for reason in verdict.reasons:
        if reason.code is Code.ASKED:
            return str(reason.facts.get("by") or "a user")
    return None


def outcome_of(
    verdict: Verdict,
    holder: Holder,
    clock: Clock,
    result: Result,
    detail: str,
    *,
    freed_bytes: float | None = None,
    took_seconds: float | None = None,
    survivors: tuple[Survivor, ...] = (),
) -> Outcome:
    """What happened to `holder`, as of now. `detail` is a sentence for people without secrets: everybody may see it."""
    return Outcome(
        owner=verdict.owner,
        root=verdict.root,
        action=verdict.action,
        rule=verdict.rule,
        result=result,
        at=clock.now().wall,
        detail=detail,
        reasons=verdict.reasons,
        notebook=holder.owner.notebook,
        name=holder.owner.name,
        by=asked_by(verdict),
        freed_bytes=freed_bytes,
        took_seconds=took_seconds,
        survivors=survivors,
    )


def say_bytes(amount: float) -> str:
    """An amount of memory for people: `5.9 GiB`, `300 MiB`."""
    return f"{amount / 2**30:.1f} GiB" if amount >= 2**30 else f"{amount / 2**20:.0f} MiB"
