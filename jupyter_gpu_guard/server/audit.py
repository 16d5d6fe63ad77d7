"""Entries of the audit as JSON for people: the same words over REST and on the command line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from jupyter_gpu_guard.core.entry import Entry, Kind
from jupyter_gpu_guard.core.explain import sentence
from jupyter_gpu_guard.core.model import ProcessKey
from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.core.verdict import Reason
from jupyter_gpu_guard.history.audit import Extract
from jupyter_gpu_guard.history.plain import to_plain

from .wire import WireAudit, WireEntry, WireProcessKey, WireReason

MOST = 2000  # entries in one answer
SOMEBODY = "somebody else"
_ABOUT_FILES = (Kind.STARTED, Kind.POLICY, Kind.POLICY_WAITS)  # of the site: where they are, and what is wrong there


def audit(extract: Extract, since: datetime, owner: str | None = None, *, only_of: str | None = None) -> WireAudit:
    """What `extract` says of `owner` (a key, a notebook or a name; None: everything), the newest if it is too much.

    `only_of`: the names of all other people are left out.
    """
    found = [each for each in extract.entries if owner is None or each.concerns(owner)]
    told = found[-MOST:]
    if only_of is not None:
        told = [_without_others(each, only_of) for each in told]
    return WireAudit(
        since=since,
        entries=[entry_to_wire(each) for each in told],
        left_out=len(found) - len(told),
        unreadable=extract.unreadable,
    )


def entry_to_wire(entry: Entry) -> WireEntry:
    """One entry."""
    verdict, outcome, lease = entry.verdict, entry.outcome, entry.lease
    act = outcome or verdict
    return WireEntry(
        at=entry.at,
        kind=entry.kind.value,
        mode=entry.mode.value,
        policy=entry.policy,
        server=entry.server,
        owner=None if entry.owner is None else str(entry.owner),
        name=entry.name,
        notebook=entry.notebook,
        rule=None if verdict is None else verdict.rule,
        action=None if act is None or act.action is Action.KEEP else act.action.value,
        result=None if outcome is None else outcome.result.value,
        act=entry.act,
        detail=outcome.detail if outcome is not None else entry.detail,
        by=entry.by,
        clients=entry.clients,
        deadline=entry.deadline,
        kept_until=None if lease is None else lease.until,
        kept_because=None if lease is None else lease.reason,
        freed_bytes=None if outcome is None else outcome.freed_bytes,
        took_seconds=None if outcome is None else outcome.took_seconds,
        processes=[WireProcessKey(pid=key.pid, start_ticks=key.start_ticks) for key in _processes(entry)],
        reasons=[_reason(reason) for reason in (verdict.reasons if verdict is not None else ())],
        grounds=None if entry.grounds is None else to_plain(entry.grounds),
    )


def _reason(reason: Reason) -> WireReason:
    try:
        text = sentence(reason)
    except (KeyError, TypeError, ValueError):  # written by a version that had other facts
        text = reason.code.value
    return WireReason(code=reason.code.value, text=text, facts=dict(reason.facts))


def _processes(entry: Entry) -> Iterable[ProcessKey]:
    """Whom it is about: the whole tree, or at least its root."""
    if entry.grounds is not None and entry.grounds.holder.tree:
        return entry.grounds.holder.tree
    root = entry.verdict.root if entry.verdict is not None else None
    return () if root is None else (root,)


def _without_others(entry: Entry, me: str) -> Entry:
    """`entry` without the names and words of other people, and without the files of the site."""
    grounds, verdict, lease = entry.grounds, entry.verdict, entry.lease
    if lease is not None and lease.by != me:
        lease = replace(lease, by=SOMEBODY, reason="")
    if grounds is not None and grounds.lease is not None and grounds.lease.by != me:
        grounds = replace(grounds, lease=replace(grounds.lease, by=SOMEBODY, reason=""))
    if verdict is not None:
        verdict = replace(verdict, reasons=tuple(_reason_without(reason, me) for reason in verdict.reasons))
    detail = "" if entry.kind in _ABOUT_FILES else entry.detail
    by = entry.by if entry.by in (None, me) else SOMEBODY
    return replace(entry, by=by, detail=detail, lease=lease, verdict=verdict, grounds=grounds)


def _reason_without(reason: Reason, me: str) -> Reason:
    if reason.facts.get("by", me) == me:
        return reason
    facts = {**reason.facts, "by": SOMEBODY}
    return replace(reason, facts={**facts, "reason": ""} if "reason" in facts else facts)
