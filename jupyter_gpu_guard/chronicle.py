"""What the guard does, as Entries for a Journal. It decides nothing, and says nothing twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from uuid import uuid4

from .core.entry import Entry, Kind, cut_off, grounds
from .core.judge import Bench
from .core.ledger import Ledger
from .core.model import Holder, OwnerKey
from .core.policy import Policy
from .core.spared import Spared, spared
from .core.verdict import Code, Lease, Notice, Outcome, Verdict
from .protocols import Clock, Journal

WRITTEN_WITHIN = 2.0  # seconds; an act waits no longer for a disk
SAME_AGAIN = 600.0  # seconds within which the same reason is not said twice of the same owner


class Chronicle:
    """Hands on what happens, in order. Every method returns at once, but for `begun`."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._policy: Policy | None = None
        self._bench: Bench | None = None
        self._verdicts: Mapping[OwnerKey, Verdict] = {}
        self._spared: Mapping[OwnerKey, Spared] = {}
        self._said: dict[tuple[OwnerKey, Code], float] = {}

    @property
    def problem(self) -> str | None:
        """What is wrong with the journal, in a sentence."""
        return self._journal.problem

    def started(self, policy: Policy) -> None:
        """A server begins to look."""
        self._policy = policy
        self._record(Entry(Kind.STARTED, self._clock.now().wall, policy.mode, policy.digest, detail=_said_of(policy)))

    async def stopped(self) -> None:
        """It ends in an orderly way. Waits for the disk, but not long."""
        if self._policy is not None:
            self._note(Kind.STOPPED)
            await self._journal.written(WRITTEN_WITHIN)

    def waits(self, policy: Policy, why: str) -> None:
        """A new `policy` is not put in force before a person says so."""
        self._note(Kind.POLICY_WAITS, detail=f"{why} It is from {policy.source}")

    def accepted(self, policy: Policy, by: str) -> None:
        """A person puts a policy in force that waited for them."""
        self._policy = policy
        self._note(Kind.POLICY, detail=_said_of(policy), by=by)

    def looked(self, bench: Bench, holders: tuple[Holder, ...], verdicts: tuple[Verdict, ...], after: Ledger) -> None:
        """One look: under another policy, who is spared, and whose warning does not stand in the ledger `after` it."""
        if self._policy is None or _key(bench.policy) != _key(self._policy):
            self._policy = bench.policy
            self._note(Kind.POLICY, detail=_said_of(bench.policy))
        now_spared = spared(holders, verdicts, bench, self._spared, self._verdicts)
        self._bench = bench
        for holder, verdict in zip(holders, verdicts, strict=True):
            key = verdict.owner
            if self._is_news(key, now_spared.get(key), bench.now.monotonic):
                self._about(Kind.SPARED, verdict, holder)
            elif _was_warned(bench.ledger, key) and not _was_warned(after, key) and key not in now_spared:
                self._about(Kind.LIFTED, verdict, holder)
        self._spared = now_spared
        self._verdicts = {verdict.owner: verdict for verdict in verdicts}

    def warned(self, verdict: Verdict, holder: Holder, notice: Notice) -> None:
        """A warning was given, and by which ways it reached somebody; without a deadline it was a hint."""
        kind = Kind.HINTED if verdict.deadline is None else Kind.WARNED
        entry = self._entry(kind, verdict, holder)
        detail = "it has reached nobody so far" if notice.undelivered else ""
        if notice.reached:
            detail = f"reached somebody by {', '.join(notice.reached)}"
        self._record(replace(entry, deadline=notice.deadline, clients=holder.owner.clients, detail=detail))

    async def begun(self, verdict: Verdict, holder: Holder, by: str | None) -> Entry:
        """An act is about to begin. Returns once that is on disk, or cannot be brought there soon."""
        entry = replace(self._entry(Kind.BEGUN, verdict, holder), by=by, act=uuid4().hex)
        self._record(entry)
        await self._journal.written(WRITTEN_WITHIN)
        return entry

    def ended(self, outcome: Outcome, verdict: Verdict, holder: Holder, begun: Entry | None) -> None:
        """An act has an outcome. What was not `begun` for real brings its own grounds."""
        entry = self._entry(Kind.OUTCOME, verdict, holder) if begun is None else replace(begun, grounds=None)
        self._record(
            replace(
                entry,
                kind=Kind.OUTCOME,
                at=self._clock.now().wall,
                outcome=replace(outcome, name=holder.owner.name, notebook=holder.owner.notebook),
                by=outcome.by,
            )
        )

    def cut_off(self, begun: Entry) -> None:
        """Nobody will see the end of an act."""
        self._record(cut_off(begun, self._clock.now().wall))

    def kept(self, lease: Lease, holder: Holder, *, beyond: bool) -> None:
        """A person keeps it; `beyond` the rule's limits, by the administrator's right."""
        detail = "beyond the limits of its rule, by the administrator's right" if beyond else ""
        verdict = self._verdicts.get(lease.owner)
        entry = self._of(Kind.KEPT, holder) if verdict is None else self._entry(Kind.KEPT, verdict, holder)
        self._record(replace(entry, lease=lease, by=lease.by, detail=detail))

    def unkept(self, holder: Holder, lease: Lease | None, by: str) -> None:
        """A person keeps it no more."""
        self._record(replace(self._of(Kind.UNKEPT, holder), lease=lease, by=by))

    def _is_news(self, key: OwnerKey, now: Spared | None, at: float) -> bool:
        """Whether this was not yet so at the look before, nor said shortly before."""
        before = self._spared.get(key)
        if now is None or not now.is_due or (before is not None and before.is_due and before.by is now.by):
            return False
        said = self._said.get((key, now.by))
        if said is not None and at - said < SAME_AGAIN:
            return False
        self._said = {pair: time for pair, time in self._said.items() if at - time < SAME_AGAIN}
        self._said[key, now.by] = at
        return True

    def _about(self, kind: Kind, verdict: Verdict, holder: Holder) -> None:
        self._record(self._entry(kind, verdict, holder))

    def _entry(self, kind: Kind, verdict: Verdict, holder: Holder) -> Entry:
        facts = None if self._bench is None else grounds(holder, self._bench, verdict)
        return replace(self._of(kind, holder), verdict=verdict, grounds=facts)

    def _of(self, kind: Kind, holder: Holder) -> Entry:
        policy = self._policy or Policy()
        owner = holder.owner
        at = self._clock.now().wall
        return Entry(kind, at, policy.mode, policy.digest, owner.key, owner.name, owner.notebook)

    def _note(self, kind: Kind, detail: str = "", by: str | None = None) -> None:
        policy = self._policy or Policy()
        self._record(Entry(kind, self._clock.now().wall, policy.mode, policy.digest, by=by, detail=detail))

    def _record(self, entry: Entry) -> None:
        self._journal.record(entry)


def _key(policy: Policy) -> tuple[object, ...]:
    return policy.mode, policy.digest, policy.source, policy.fault


def _said_of(policy: Policy) -> str:
    return f"from {policy.source}" + (f"; {policy.fault}" if policy.fault else "")


def _was_warned(ledger: Ledger, key: OwnerKey) -> bool:
    case = ledger.cases.get(key)
    return case is not None and case.notice is not None
