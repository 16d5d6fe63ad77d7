"""Guard.tick(): the only place where observing, judging and acting meet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

from .accounts import Accounts
from .aside import Aside
from .chronicle import Chronicle
from .core.assess import Perceived, bench_of, perceive, ruled
from .core.attribute import Attribution
from .core.entry import Entry
from .core.impact import Impact, impact
from .core.judge import leased
from .core.ledger import Ledger, begin, review, settle, under_new_rules, wait_before_loss
from .core.minutes import lengthen, readings
from .core.model import Gap, Holder, Instant, OwnerKey, OwnerKind, Snapshot, is_known
from .core.policy import NOBODY, Action, Mode, Policy, Site
from .core.verdict import Code, Lease, Notice, Outcome, Protection, Reason, Result, Verdict
from .keeping import DAY, KeepRefusedError, ReasonMissingError, refusal
from .protocols import Clock, Enforcer, Grant, Journal, Leases, NoJournal, NoUsageStore, UsageStore
from .published import NotPendingError, Pending, Price, Published, pending_sentence

RING = 10.0  # seconds for which the driver keeps its samples
VISITS = 50.0  # seconds; that somebody came to a TensorBoard can be seen for about 60
OUTCOMES_KEPT = 100  # of losses, and of all others
CLOSED_WITHIN = 15.0  # seconds for acts under way when the server ends
LET_GO_WITHIN = 1.0  # seconds of them, for those that are broken off


class TooLateError(RuntimeError):
    """The act has begun; nobody can step in any more."""


class Observes(Protocol):
    """What the guard needs of an Observer."""

    async def observe(self, before: Attribution) -> Snapshot:
        """One Snapshot. `before` is what the previous one led to."""
        ...

    async def stirs(self) -> bool:
        """Whether something begins: a cell, an owner. Asks no device."""
        ...


class Guard:
    """Looks, judges and acts, tick by tick. All state is values; a restart loses only kindness owed to nobody.

    It looks every `interval` seconds; while nobody is on any device, and no cell runs, every `resting_interval`, but
    often enough not to miss who comes to a TensorBoard.
    `problems` are sentences of others that health shows too. `site` says whose server this is.
    """

    def __init__(
        self,
        *,
        observer: Observes,
        enforcer: Enforcer,
        rehearsal: Enforcer,
        leases: Leases,
        clock: Clock,
        policy: Policy,
        interval: float = 5.0,
        resting_interval: float = 0.0,
        problems: Callable[[], tuple[str, ...]] = tuple,
        site: Site = NOBODY,
        price: Price | None = None,
        journal: Journal | None = None,
        usage: UsageStore | None = None,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger],
    ) -> None:
        self._observer = observer
        self._enforcer = enforcer
        self._rehearsal = rehearsal
        self._leases = leases
        self._clock = clock
        self._policy = policy
        self._interval = self._pause = interval
        self._resting_interval = resting_interval
        self._problems = problems
        self._log = log
        self._chronicle = Chronicle(journal or NoJournal(), clock)
        self._accounts = Accounts(usage or NoUsageStore(), clock, site)
        self._read_leases: Aside[tuple[Mapping[OwnerKey, Lease], tuple[Grant, ...]]] = Aside(
            "leases", lambda now: (leases.active(now), leases.grants(now - DAY)), RING
        )
        self._keeping = asyncio.Lock()
        self._pledged: dict[OwnerKey, Lease] = {}
        self._pending: Pending | None = None
        self._ledger = Ledger(rehearsal=policy.mode is Mode.OBSERVE)
        self._really_ended_at: tuple[float, ...] = ()  # for the belts, while a rehearsal has the Ledger
        self._outcomes: tuple[Outcome, ...] = ()
        self._acts: dict[OwnerKey, asyncio.Task[Outcome]] = {}
        self._doing: dict[OwnerKey, Action] = {}
        self._begun: dict[OwnerKey, datetime] = {}
        self._too_late: set[OwnerKey] = set()
        self.published = Published(policy=policy, interval=interval, site=site, price=price)

    async def run(self) -> None:
        """Tick at a steady rate until cancelled. One failed tick is logged, and the next one comes."""
        self._chronicle.started(self._policy)
        loop = asyncio.get_running_loop()
        due = loop.time()
        failing = False
        while True:
            try:
                await self.tick()
                failing = False
            except Exception:  # noqa: BLE001  logged, and tried again
                if not failing:
                    self._log.exception("GPU guard: a tick failed; nothing was done in it, the next one follows")
                failing = True
            due = max(due + self._interval, loop.time())
            await asyncio.sleep(due - loop.time())
            if (until := due + self._rest()) > due:
                due = await self._sleep_lightly(until)

    def _rest(self) -> float:
        """Seconds for which there is nothing to see beyond the usual interval: nobody is on any device."""
        seen = self.published.snapshot
        is_quiet = seen is not None and not seen.clients and not seen.gaps and not self._acts
        has_boards = seen is not None and any(owner.key.kind is OwnerKind.TENSORBOARD for owner in seen.owners)
        longest = min(self._resting_interval, VISITS) if has_boards else self._resting_interval
        self._pause = max(self._interval, longest) if is_quiet else self._interval
        return self._pause - self._interval

    async def _sleep_lightly(self, until: float) -> float:
        """Wait until then, or until a cell runs somewhere. When it was, on the loop's clock."""
        loop = asyncio.get_running_loop()
        while (left := until - loop.time()) > 0 and not await self._observer.stirs():  # noqa: ASYNC110 - it is asked
            await asyncio.sleep(min(left, self._interval))
        return loop.time()

    async def close(self) -> None:
        """Bring acts under way to their end, quickly: what a kernel left behind would be nobody's afterwards."""
        if self._acts:
            await self._close_acts()
        await self._accounts.close()
        await self._chronicle.stopped()

    async def _close_acts(self) -> None:
        """A release is for a kernel that goes on: it is broken off. What has begun to park or resume ends its step."""
        self._enforcer.hurry()
        acts = {act: (self._doing[owner], owner) for owner, act in self._acts.items()}
        for act, (action, owner) in acts.items():
            if action is Action.RELEASE:
                self._log.info("GPU guard: the release of %s is broken off, since the server ends", owner)
                act.cancel()
        _, late = await asyncio.wait(acts, timeout=CLOSED_WITHIN - LET_GO_WITHIN)
        for act in late:
            action, owner = acts[act]
            self._log.warning("GPU guard: the %s of %s was not over when the server ended", action.value, owner)
            act.cancel()
        if late:
            await asyncio.wait(late, timeout=LET_GO_WITHIN)  # a helper that waits in the driver may never be gone

    async def tick(self) -> Published:
        """One round: observe, attribute, push, judge, limit, enforce, settle, publish."""
        acting = set(self._acts)
        snapshot = await self._observer.observe(self.published.attribution)
        leases, snapshot = await self._current_leases(snapshot)
        now = snapshot.taken_at
        before = self.published
        seen_before = Perceived(before.attribution, before.windows)
        # With thousands of processes this takes a while: not on the event loop.
        longest_span = max(RING, 2 * self._pause)
        perceived = await asyncio.to_thread(perceive, snapshot, seen_before, longest_span)
        leases = {**leases, **self._pledged}  # also what was pledged meanwhile
        spending = self._accounts.look(perceived.attribution.holders, snapshot, self._policy, longest_span)
        self.published = replace(self.published, spending=spending)
        self._reconsider(snapshot, perceived, leases)
        policy = self._policy
        bench = bench_of(snapshot, perceived, policy, leases, self._ledger, before.site, self._reached(), spending)
        verdicts = ruled(perceived, bench)
        # What was seen of an owner while an act on it came to its end is out of date already.
        verdicts = tuple(
            replace(verdict, action=Action.KEEP, reasons=(Reason(Code.ACTING),)) if verdict.owner in acting else verdict
            for verdict in verdicts
        )
        self._ledger = review(self._ledger, verdicts, now)
        self._chronicle.looked(bench, perceived.attribution.holders, verdicts, self._ledger)
        self.published = replace(
            self.published,
            snapshot=snapshot,
            attribution=perceived.attribution,
            windows=perceived.windows,
            verdicts={verdict.owner: verdict for verdict in verdicts},
            leases=leases,
            gaps_since=self._gaps_since(before, snapshot),
            ticks=before.ticks + 1,
            offers={holder.owner.key: self._enforcer.offers(holder) for holder in perceived.attribution.holders},
            minutes=lengthen(
                before.minutes,
                readings(perceived.attribution.holders, snapshot.devices),
                now.monotonic,
                forget=not snapshot.gaps,
            ),
        )
        for verdict in verdicts:
            if self._policy is not policy:  # another one came meanwhile: the rest is judged by it, at the next look
                break
            if verdict.action is Action.KEEP:
                continue
            holder = self.published.holder(verdict.owner)
            if verdict.action is Action.WARN:
                await self._act(verdict, holder, rehearsing=self._rehearses(None))
            else:
                self._start(verdict, holder)
        self._publish()
        return self.published

    async def keep(
        self, key: OwnerKey, lasting: timedelta, reason: str, by: str, *, beyond_limits: bool = False
    ) -> Lease:
        """Promise to leave `key` alone for `lasting`; `beyond_limits` of its rule by the administrator's right.

        Raises NoSuchOwnerError, KeepRefusedError, TooLateError. A lease that could not be stored holds until this
        server ends; that is logged, and shown by health.
        """
        async with self._keeping:  # so that two at once are counted as two
            holder = self.published.holder(key)
            exceeds = await self._exceeds(holder, lasting, reason)
            if exceeds is not None and (not beyond_limits or isinstance(exceeds, ReasonMissingError)):
                raise exceeds
            if key in self._too_late:
                raise TooLateError(f"{key} is being shut down; it is too late to keep it")
            now = self._clock.now().wall
            lease = Lease(key, now + lasting, reason, by)
            self._pledged[key] = lease  # holds from this moment, also while it is being written
            try:
                await asyncio.to_thread(self._leases.grant, lease, Grant(key, holder.owner.notebook, now))
            except OSError as error:
                self._log.warning("GPU guard: a lease could not be stored, it holds until this server ends: %s", error)
        self._chronicle.kept(lease, holder, beyond=exceeds is not None)
        self._log.info("GPU guard: %s keeps %s until %s", by, key, lease.until.isoformat(timespec="minutes"))
        self._withdraw_notice(key)
        self._publish(leases={**self.published.leases, key: lease}, verdicts=self._spared_by(lease))
        return lease

    async def _exceeds(self, holder: Holder, lasting: timedelta, reason: str) -> KeepRefusedError | None:
        """Why the rule of `holder` does not allow to keep it like this, or None."""
        rule = self.published.rule_for(holder)
        now = self._clock.now().wall
        if rule.keep_limits.per_day is not None:
            granted = await asyncio.to_thread(self._leases.grants, now - DAY)
            self.published = replace(self.published, grants=granted)
        return refusal(rule, holder, lasting, reason, self.published.grants, now)

    async def unkeep(self, key: OwnerKey, by: str = "somebody") -> bool:
        """End the lease of `key` early, for `by`. False: there was none. Raises NoSuchOwnerError."""
        holder = self.published.holder(key)
        lease = self.published.leases.get(key)
        pledged = self._pledged.pop(key, None)
        stored = await asyncio.to_thread(self._leases.end, key)
        if stored or pledged is not None:
            self._chronicle.unkept(holder, lease or pledged, by)
        self._publish(leases={k: lease for k, lease in self.published.leases.items() if k != key})
        return stored or pledged is not None

    def act(self, action: Action, key: OwnerKey, by: str) -> asyncio.Task[Outcome]:
        """Release, park, resume or shut down `key` because a person asked for it, in any mode.

        An act that is under way already is given instead, whatever it is: `doing` tells. Raises NoSuchOwnerError.
        """
        holder = self.published.holder(key)
        if key in self._acts:
            return self._acts[key]
        asked = Reason(Code.ASKED, {"by": by})
        return self._start(Verdict(key, holder.owner.root, action, "asked", (asked,)), holder, by=by)

    def doing(self, key: OwnerKey) -> Action | None:
        """The act on `key` that is under way; None: there is none."""
        return self._doing.get(key)

    def begun(self, key: OwnerKey) -> datetime | None:
        """Since when (aware) the act on `key` is under way; None: there is none."""
        return self._begun.get(key)

    def propose(self, policy: Policy) -> bool:
        """Adopt `policy`, unless it would newly end many at once: then it waits for a person. Whether it was adopted.

        It takes the place of one that waits already.
        """
        if _content(policy) == _content(self._policy):
            self.adopt(policy)
            return True
        seen = self.published
        before = Perceived(seen.attribution, seen.windows)
        found = None if seen.snapshot is None else self._impact(policy, seen.snapshot, before, seen.leases)
        if found is None or not found.exceeds(policy.belts.share_of_holders):
            self.adopt(policy)
            return True
        self._pending = Pending(policy, self._clock.now().wall, found)
        self._policy = replace(self._policy, fault=None)
        self._log.warning("GPU guard: %s", pending_sentence(self._pending))
        self._chronicle.waits(policy, pending_sentence(self._pending))
        self._publish()
        return False

    def adopt(self, policy: Policy) -> None:
        """Put `policy` in force, from this moment. Idle time, and warnings given with their deadlines, stay.

        When the mode changes, what was rehearsed is forgotten, and so are warnings of what will not come.
        """
        changed = _content(policy) != _content(self._policy)
        rehearsal = policy.mode is Mode.OBSERVE
        if rehearsal and not self._ledger.rehearsal:
            self._really_ended_at = self._ledger.shutdowns_at
            self._ledger = Ledger(rehearsal=True)
        elif self._ledger.rehearsal and not rehearsal:
            self._ledger = Ledger(shutdowns_at=self._really_ended_at)
        elif policy.rules != self._policy.rules:
            self._ledger = under_new_rules(self._ledger)
        self._policy, self._pending = policy, None
        if changed:
            self._log.info("GPU guard: mode %s, policy %s from %s", policy.mode.value, policy.digest, policy.source)
        self._publish()

    def refuse(self, fault: str) -> None:
        """A newer policy cannot be used: the one in force stays, and whatever waited is out of date."""
        self._policy, self._pending = replace(self._policy, fault=fault, fault_is_own=False), None
        self._publish()

    def accept(self, digest: str, by: str) -> Policy:
        """Put the policy in force that waits under `digest`, because a person says so. Raises NotPendingError."""
        if self._pending is None:
            raise NotPendingError("no policy waits for anybody; GET policy shows the one in force")
        policy = self._pending.policy
        if policy.digest != digest:
            raise NotPendingError(f"the policy that waits is {policy.digest}, not {digest}: look at it first")
        self._log.warning("GPU guard: %s accepts policy %s", by, digest)
        self._chronicle.accepted(policy, by)
        self.adopt(policy)
        return policy

    def recall(self, outcomes: Iterable[Outcome]) -> None:
        """Show outcomes of before this server started, in the order of time, before those of its own."""
        self._outcomes = _latest((*outcomes, *self._outcomes))
        self._publish()

    @property
    def problems(self) -> tuple[str, ...]:
        """What the guard cannot do now, in sentences."""
        waits = pending_sentence(self.published.pending) if self.published.pending else None
        return self.problems_beside(self.published.policy.fault, waits)

    def problems_beside(self, *of_policy: str | None) -> tuple[str, ...]:
        """What the guard cannot do now, in sentences, with these about its policy."""
        state = self.published
        gaps = tuple(gap.why for gap in state.snapshot.gaps) if state.snapshot else ("no tick has been completed yet",)
        said = (*of_policy, self._leases.problem, self._chronicle.problem, self._accounts.problem)
        return (*gaps, *(fault for fault in said if fault), *self._problems())

    def longest_keep(self, holder: Holder) -> timedelta:
        """How long a person may keep `holder`, by the rule that decides about it."""
        return self.published.rule_for(holder).keep_limits.longest

    async def _current_leases(self, snapshot: Snapshot) -> tuple[Mapping[OwnerKey, Lease], Snapshot]:
        """The leases that hold; while they cannot be read, the last known ones and a gap, so that nothing is lost."""
        wall = snapshot.taken_at.wall
        stored: Mapping[OwnerKey, Lease]
        try:
            stored, grants = await self._read_leases(self._clock.now().wall)
            self.published = replace(self.published, grants=grants)
        except Exception as error:  # noqa: BLE001  whoever may be leased is not judged
            gap = Gap("leases", f"the leases could not be read: {error}")
            stored, snapshot = self.published.leases, replace(snapshot, gaps=(*snapshot.gaps, gap))
        self._pledged = {key: lease for key, lease in self._pledged.items() if lease.until >= wall}
        return {**stored, **self._pledged}, snapshot

    def _reached(self) -> frozenset[OwnerKey]:
        """Those whose warning has reached nobody at first, and does by now."""
        cases = self._ledger.cases.values()
        return frozenset(case.owner for case in cases if case.undelivered and self._enforcer.reaches(case.owner))

    def _reconsider(self, snapshot: Snapshot, perceived: Perceived, leases: Mapping[OwnerKey, Lease]) -> None:
        """Adopt the policy that waits, once it would not end so many any more."""
        if self._pending is None:
            return
        policy = self._pending.policy
        found = self._impact(policy, snapshot, perceived, leases)
        self._pending = replace(self._pending, impact=found)
        if not found.exceeds(policy.belts.share_of_holders):
            self.adopt(policy)

    def _impact(
        self, policy: Policy, snapshot: Snapshot, perceived: Perceived, leases: Mapping[OwnerKey, Lease]
    ) -> Impact:
        seen = self.published
        bench = bench_of(snapshot, perceived, self._policy, leases, self._ledger, seen.site, spending=seen.spending)
        return impact(perceived.attribution.holders, policy, bench)

    def _start(self, verdict: Verdict, holder: Holder, by: str | None = None) -> asyncio.Task[Outcome]:
        """Begin an act that takes its time; ticks go on meanwhile and leave this owner alone."""
        self._ledger = begin(self._ledger, verdict, self._clock.now())
        task = asyncio.get_running_loop().create_task(self._act(verdict, holder, by, rehearsing=self._rehearses(by)))
        self._acts[verdict.owner], self._doing[verdict.owner] = task, verdict.action
        self._begun[verdict.owner] = self._clock.now().wall

        def over(_: asyncio.Task[Outcome]) -> None:
            self._acts.pop(verdict.owner, None)
            self._doing.pop(verdict.owner, None)
            self._begun.pop(verdict.owner, None)

        task.add_done_callback(over)
        return task

    def _rehearses(self, by: str | None) -> bool:
        """Whether an act that begins now is only rehearsed."""
        return by is None and self._policy.mode is Mode.OBSERVE

    async def _act(self, verdict: Verdict, holder: Holder, by: str | None = None, *, rehearsing: bool) -> Outcome:
        key = verdict.owner

        def spared() -> bool:
            """Whether somebody or a new policy keeps it after all. From a No on, it is too late to."""
            if by is None and (rehearsing is not self._rehearses(None) or self._is_kept(holder)):
                return True
            if verdict.action.loses_work:
                self._too_late.add(key)
            return False

        begun = None
        if verdict.action.loses_work and not rehearsing:
            begun = await self._chronicle.begun(verdict, holder, by)
        try:
            outcome = await (self._rehearsal if rehearsing else self._enforcer).enforce(verdict, holder, spared)
        except asyncio.CancelledError:
            if begun is not None:
                self._chronicle.cut_off(begun)
            raise
        finally:
            self._too_late.discard(key)
        outcome = replace(outcome, by=by)
        self._enter(verdict, holder, outcome, begun, rehearsing=rehearsing)
        return outcome

    def _enter(
        self, verdict: Verdict, holder: Holder, outcome: Outcome, begun: Entry | None, *, rehearsing: bool
    ) -> None:
        """Note in ledger, audit and report how an act has ended."""
        now = self._clock.now()
        notice = None
        if verdict.action is Action.WARN and outcome.result is Result.DONE:
            notice = self._notice(verdict, holder, outcome, now)
            self._chronicle.warned(verdict, holder, notice)
        else:
            self._chronicle.ended(outcome, verdict, holder, begun)
        if outcome.by is not None or rehearsing is self._ledger.rehearsal:
            self._ledger = settle(self._ledger, verdict, outcome, now, notice)
        elif not rehearsing and verdict.action.loses_work and outcome.result is Result.DONE:
            self._really_ended_at = (*self._really_ended_at, now.monotonic)  # the mode has changed meanwhile
        if verdict.action is not Action.WARN or outcome.result is Result.FAILED:
            self._outcomes = _latest((*self._outcomes, outcome))
        self._publish()

    def _is_kept(self, holder: Holder) -> bool:
        """Whether a person, a rule or an exemption keeps it."""
        return holder.owner.key in self._pledged or self.published.leaves_alone(holder)

    def _notice(self, verdict: Verdict, holder: Holder, outcome: Outcome, now: Instant) -> Notice:
        """What a person is told. Its deadline is worked out as settle() does: never before the full notice."""
        deadline = None
        wait = wait_before_loss(verdict, undelivered=self._ledger.is_unheard(outcome))
        if verdict.deadline is not None and wait is not None:
            deadline = now.wall + timedelta(seconds=max(verdict.deadline - now.monotonic, wait))
        return Notice(
            owner=verdict.owner,
            name=holder.owner.name,
            notebook=holder.owner.notebook,
            rule=verdict.rule,
            next_action=verdict.next_action if deadline is not None else None,
            given_at=now.wall,
            deadline=deadline,
            memory_bytes=holder.memory if is_known(holder.memory) else 0.0,
            reasons=verdict.reasons,
            reached=outcome.reached,
            undelivered=outcome.undelivered,
        )

    def _withdraw_notice(self, key: OwnerKey) -> None:
        case = self._ledger.cases.get(key)
        if case is not None and not case.acting:
            cases = {owner: case for owner, case in self._ledger.cases.items() if owner != key}
            self._ledger = replace(self._ledger, cases=cases)

    def _gaps_since(self, before: Published, snapshot: Snapshot) -> dict[str, datetime]:
        """Since when each source is silent. A change is logged once, not at each tick."""
        since = {}
        for gap in snapshot.gaps:
            if gap.source not in before.gaps_since:
                self._log.info("GPU guard: %s", gap.why)
            since[gap.source] = before.gaps_since.get(gap.source, snapshot.taken_at.wall)
        for source in before.gaps_since.keys() - since.keys():
            self._log.info("GPU guard: %s can be read again", source)
        return since

    def _spared_by(self, lease: Lease) -> Mapping[OwnerKey, Verdict]:
        """The verdicts with that of a new lease, which need not wait for the next look."""
        verdicts = dict(self.published.verdicts)
        if (verdict := verdicts.get(lease.owner)) is not None:
            verdicts[lease.owner] = replace(
                verdict,
                action=Action.KEEP,
                reasons=(leased(lease),),
                protections=(Protection.LEASED, *(p for p in verdict.protections if p is not Protection.LEASED)),
                stage=None,
                next_action=None,
                deadline=None,
            )
        return verdicts

    def _publish(
        self,
        leases: Mapping[OwnerKey, Lease] | None = None,
        verdicts: Mapping[OwnerKey, Verdict] | None = None,
    ) -> None:
        self.published = replace(
            self.published,
            policy=self._policy,
            pending=self._pending,
            ledger=self._ledger,
            outcomes=self._outcomes,
            leases=self.published.leases if leases is None else leases,
            verdicts=self.published.verdicts if verdicts is None else verdicts,
        )


def _latest(outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
    """The latest of `outcomes`; of losses, the latest of their own: many small acts push out none of them."""
    numbered = tuple(enumerate(outcomes))
    losses = [(n, each) for n, each in numbered if each.action.loses_work and each.result is not Result.REHEARSED]
    others = [(n, each) for n, each in numbered if not each.action.loses_work or each.result is Result.REHEARSED]
    kept = {**dict(losses[-OUTCOMES_KEPT:]), **dict(others[-OUTCOMES_KEPT:])}
    return tuple(each for _, each in sorted(kept.items()))


def _content(policy: Policy) -> Policy:
    """What `policy` says, whatever is wrong with other files."""
    return replace(policy, fault=None, fault_is_own=False)
