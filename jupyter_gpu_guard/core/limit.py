"""The belt: however many Verdicts are due, only so many lose something at once. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from .ledger import HOUR, Ledger
from .model import Instant
from .policy import Action, Belts
from .verdict import Code, Reason, Verdict


def limit(verdicts: Iterable[Verdict], ledger: Ledger, belts: Belts, now: Instant) -> tuple[Verdict, ...]:
    """Let pass as many losses as the belts allow, the oldest Case first; the others are kept, and say why."""
    verdicts = tuple(verdicts)
    lossy = [verdict for verdict in verdicts if verdict.action.loses_work]

    def age(verdict: Verdict) -> tuple[float, str]:
        case = ledger.case_of(verdict.owner, verdict.root)
        return (case.opened_at if case is not None else now.monotonic, str(verdict.owner))

    lately = sum(1 for at in ledger.shutdowns_at if at > now.monotonic - HOUR)
    under_way = sum(1 for case in ledger.cases.values() if case.acting and not case.gently)
    room = max(0, min(belts.shutdowns_per_tick, belts.shutdowns_per_hour - lately - under_way))
    held_back = {verdict.owner for verdict in sorted(lossy, key=age)[room:]}
    facts = {"shutdowns_per_hour": belts.shutdowns_per_hour, "shutdowns_per_tick": belts.shutdowns_per_tick}
    return tuple(
        replace(verdict, action=Action.KEEP, reasons=(*verdict.reasons, Reason(Code.BELT, facts)))
        if verdict.owner in held_back
        else verdict
        for verdict in verdicts
    )
