"""A policy that changes while the guard runs: what stays, what is forgotten, and what waits for a person."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta

import pytest
from fake_clock import NOON, FakeClock
from fake_journal import FakeJournal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jupyter_gpu_guard.core.entry import Kind
from jupyter_gpu_guard.core.model import (
    Device,
    GpuClient,
    Holder,
    Owner,
    OwnerKey,
    OwnerKind,
    OwnerState,
    Process,
    ProcessKey,
    Snapshot,
)
from jupyter_gpu_guard.core.policy import Action, Belts, Idle, Mode, Policy, Rule, Stage
from jupyter_gpu_guard.core.verdict import Outcome, Result
from jupyter_gpu_guard.guard import Guard
from jupyter_gpu_guard.leases import FileLeases
from jupyter_gpu_guard.published import NotPendingError

GIB = 2.0**30


def policy(lasting: float = 100, notice: float = 20, mode: Mode = Mode.ENFORCE, **more) -> Policy:
    """A policy of one rule: warn once idle for so many seconds, shut down when the notice has run out."""
    span = timedelta(seconds=notice)
    rule = Rule(
        more.pop("rule", "default"),
        idle=Idle(lasting=timedelta(seconds=lasting)),
        notice=span,
        ladder=more.pop("ladder", (Stage(Action.WARN), Stage(Action.SHUTDOWN, span))),
    )
    digest = more.pop("digest", f"{mode.value}-{lasting}-{notice}-{rule.name}")
    return Policy(mode=mode, rules=(rule,), digest=digest, **more)


class FakeObserver:
    """So many idle kernels, each of which holds 2 GiB until somebody ends it."""

    def __init__(self, clock: FakeClock, kernels: int) -> None:
        self.clock = clock
        self.alive = set(range(kernels))

    def key(self, number: int) -> OwnerKey:
        """What the kernel is called."""
        return OwnerKey(OwnerKind.KERNEL, str(number))

    async def observe(self, before) -> Snapshot:
        """What there is now."""
        roots = {n: ProcessKey(100 + n, 7) for n in self.alive}
        return Snapshot(
            taken_at=self.clock.now(),
            devices=(Device("GPU-0", 0, "Fake", 80 * GIB, 2 * GIB),),
            clients=tuple(GpuClient("GPU-0", root.pid, 2 * GIB, 0.0) for root in roots.values()),
            processes={root.pid: Process(root, 1, root.pid, root.pid, "S", NOON) for root in roots.values()},
            owners=tuple(Owner(self.key(n), f"{n}.ipynb", root, OwnerState.IDLE) for n, root in roots.items()),
        )

    async def stirs(self) -> bool:
        """Never."""
        return False


class FakeEnforcer:
    """Does what it is told. `during`: what else happens in the middle of an act, before the point of no return."""

    def __init__(self, observer: FakeObserver, *, rehearsed: bool = False) -> None:
        self._observer, self._rehearsed = observer, rehearsed
        self.done: list[tuple[Action, str]] = []
        self.during = lambda: None

    async def enforce(self, verdict, holder, spared) -> Outcome:
        """Carry it out."""
        now = self._observer.clock.now().wall
        self.during()
        result = Result.REHEARSED if self._rehearsed else Result.DONE
        if not self._rehearsed and verdict.action is Action.SHUTDOWN and spared():
            result = Result.WITHDRAWN
        else:
            self.done.append((verdict.action, verdict.owner.id))
        if (verdict.action, result) == (Action.SHUTDOWN, Result.DONE):
            self._observer.alive.discard(int(verdict.owner.id))
        return Outcome(verdict.owner, verdict.root, verdict.action, verdict.rule, result, now, result.value)

    def offers(self, holder: Holder) -> tuple[Action, ...]:
        """Nothing."""
        return ()

    def reaches(self, key: OwnerKey) -> bool:
        """Everybody is always told."""
        return True

    def hurry(self) -> None:
        """Nothing takes its time."""


class Scene:
    """A guard over some idle kernels."""

    def __init__(self, folder, first: Policy, kernels: int = 1) -> None:
        self.clock = FakeClock()
        self.observer = FakeObserver(self.clock, kernels)
        self.enforcer = FakeEnforcer(self.observer)
        self.rehearsal = FakeEnforcer(self.observer, rehearsed=True)
        self.journal = FakeJournal()
        self.guard = Guard(
            observer=self.observer,
            enforcer=self.enforcer,
            rehearsal=self.rehearsal,
            leases=FileLeases(folder / "leases.json"),
            clock=self.clock,
            policy=first,
            journal=self.journal,
            log=logging.getLogger("test"),
        )

    async def pass_time(self, seconds: int) -> None:
        """Tick every five seconds."""
        for _ in range(0, seconds, 5):
            self.clock.advance(5)
            await self.guard.tick()
            await asyncio.sleep(0)  # an act that was begun comes to its end

    @property
    def deadline(self) -> float:
        """The deadline that was promised to the only kernel."""
        (case,) = self.guard.published.ledger.cases.values()
        return case.deadline

    @property
    def pending(self) -> Policy | None:
        """The policy that waits."""
        waits = self.guard.published.pending
        return waits.policy if waits else None


def play(acts) -> None:
    """Run the acts of a test on an event loop."""
    asyncio.run(acts())


WARNED = [(Action.WARN, "0")]
ENDED = [*WARNED, (Action.SHUTDOWN, "0")]


def test_idle_time_counts_on_under_a_new_policy(tmp_path):
    """It belongs to the holder: half an hour idle under the old limits is half an hour idle under the new ones."""

    async def acts():
        scene = Scene(tmp_path, policy(lasting=3600))
        await scene.guard.tick()
        await scene.pass_time(300)
        scene.guard.adopt(policy(lasting=200))
        await scene.pass_time(5)
        assert scene.enforcer.done == WARNED

    play(acts)


@pytest.mark.parametrize("later", [policy(10, 5), policy(10, 5, rule="other"), policy(100, 60)])
def test_a_promised_deadline_never_comes_closer(tmp_path, later):
    """Whatever policy comes after a warning, nothing is lost before its deadline, nor before the new rule's notice."""

    async def acts():
        scene = Scene(tmp_path, policy(100, 20))
        await scene.guard.tick()
        await scene.pass_time(105)
        promised = scene.deadline
        scene.guard.adopt(later)
        await scene.pass_time(10)
        assert scene.deadline >= promised
        await scene.pass_time(100)
        assert scene.enforcer.done == ENDED
        (outcome,) = scene.guard.published.outcomes
        lost_at = (outcome.at - NOON).total_seconds() + 1000
        assert lost_at >= promised
        assert lost_at >= 1000 + 100 + later.rules[0].notice.total_seconds()

    play(acts)


def test_a_ladder_that_gets_shorter_is_still_walked_to_its_end(tmp_path):
    """Stages done under the old rules do not make those of the new ones be skipped."""
    slow = (Stage(Action.WARN), Stage(Action.WARN, timedelta(seconds=5)), Stage(Action.SHUTDOWN, timedelta(hours=9)))

    async def acts():
        scene = Scene(tmp_path, policy(100, 20, ladder=slow))
        await scene.guard.tick()
        await scene.pass_time(115)
        assert scene.enforcer.done == [*WARNED, *WARNED]
        scene.guard.adopt(policy(100, 20))
        await scene.pass_time(10 * 3600)
        assert scene.enforcer.done[-1] == (Action.SHUTDOWN, "0")

    play(acts)


def test_what_was_rehearsed_is_no_warning(tmp_path):
    """From observe to enforce: a warning that nobody was given counts for nothing, and the full notice is given."""

    async def acts():
        scene = Scene(tmp_path, policy(100, 20, Mode.OBSERVE))
        await scene.guard.tick()
        await scene.pass_time(300)
        assert scene.rehearsal.done[:2] == ENDED
        assert scene.guard.published.ledger.rehearsal
        scene.guard.adopt(policy(100, 20))
        assert not scene.guard.published.ledger.rehearsal
        await scene.pass_time(5)
        assert scene.enforcer.done == WARNED
        await scene.pass_time(10)
        assert scene.enforcer.done == WARNED
        await scene.pass_time(10)
        assert scene.enforcer.done == ENDED

    play(acts)


def test_a_mode_that_changes_in_the_middle_of_a_tick_turns_no_rehearsal_into_an_act(tmp_path):
    """A shutdown that was judged while observing is never carried out for real, whatever comes meanwhile."""

    async def acts():
        scene = Scene(tmp_path, policy(100, 20, Mode.OBSERVE), kernels=2)
        await scene.guard.tick()
        await scene.pass_time(115)
        scene.rehearsal.during = lambda: scene.guard.adopt(policy(100, 20))
        await scene.pass_time(5)
        assert (Action.SHUTDOWN, "0") in scene.rehearsal.done
        assert scene.enforcer.done == []
        await scene.pass_time(15)
        assert {action for action, _ in scene.enforcer.done} == {Action.WARN}

    play(acts)


def test_what_was_judged_by_the_old_policy_is_judged_anew(tmp_path):
    """A policy that comes while one is being warned spares the next one, who would be warned under the old one."""

    async def acts():
        scene = Scene(tmp_path, policy(100, 20), kernels=2)
        await scene.guard.tick()
        await scene.pass_time(95)
        scene.enforcer.during = lambda: scene.guard.adopt(policy(3600))
        await scene.pass_time(60)
        assert scene.enforcer.done == WARNED

    play(acts)


def test_a_warning_of_what_will_not_come_is_taken_back(tmp_path):
    """From enforce to observe: no notice stands, nothing is ended, and an act in its last look is withdrawn."""

    async def acts():
        scene = Scene(tmp_path, policy(100, 20))
        await scene.guard.tick()
        await scene.pass_time(105)
        assert scene.guard.published.ledger.notices
        scene.enforcer.during = lambda: scene.guard.adopt(policy(100, 20, Mode.OBSERVE))
        await scene.pass_time(300)
        assert scene.guard.published.ledger.notices == ()
        assert scene.enforcer.done == WARNED
        assert scene.guard.published.outcomes[0].result is Result.WITHDRAWN
        assert scene.observer.alive

    play(acts)


def test_a_policy_that_spares_comes_in_time_until_the_last_moment(tmp_path):
    """A rule that keeps it, and comes while the act still looks, withdraws the act."""

    async def acts():
        scene = Scene(tmp_path, policy(100, 20))
        await scene.guard.tick()
        await scene.pass_time(105)
        scene.enforcer.during = lambda: scene.guard.adopt(Policy(Mode.ENFORCE, (Rule("default", keep=True),)))
        await scene.pass_time(300)
        assert scene.guard.published.outcomes[0].result is Result.WITHDRAWN
        assert scene.observer.alive

    play(acts)


def test_belts_remember_what_was_really_ended(tmp_path):
    """Observing for a moment in between does not make room for more shutdowns in the same hour."""
    strict = policy(100, 20, belts=Belts(shutdowns_per_hour=1))

    async def acts():
        scene = Scene(tmp_path, strict, kernels=2)
        await scene.guard.tick()
        await scene.pass_time(130)
        assert len(scene.observer.alive) == 1
        scene.guard.adopt(policy(100, 20, Mode.OBSERVE))
        await scene.pass_time(30)
        scene.guard.adopt(strict)
        await scene.pass_time(600)
        assert len(scene.observer.alive) == 1
        await scene.pass_time(3600)
        assert scene.observer.alive == set()

    play(acts)


def test_a_fault_stays_until_it_is_mended_and_changes_nothing_else(tmp_path):
    """The last good policy judges on, the fault is a problem of health; the same policy again takes it away."""

    async def acts():
        good = policy(100, 20)
        scene = Scene(tmp_path, good)
        await scene.guard.tick()
        scene.guard.refuse("site.yaml:2:7: no")
        assert scene.guard.published.policy == replace(good, fault="site.yaml:2:7: no")
        assert "site.yaml:2:7: no" in scene.guard.problems
        await scene.pass_time(105)
        assert scene.enforcer.done == WARNED
        assert scene.guard.propose(good)
        assert scene.guard.problems == ()
        await scene.pass_time(25)
        assert scene.enforcer.done == ENDED

    play(acts)


async def _idle_for_five_minutes(folder, kernels: int, first: Policy | None = None) -> Scene:
    scene = Scene(folder, first or policy(3600), kernels)
    await scene.guard.tick()
    await scene.pass_time(300)
    return scene


def test_a_policy_that_would_end_many_waits_and_says_so(tmp_path):
    """It is not in force before a person accepts it by its digest; then everybody gets a warning first."""

    async def acts():
        scene = await _idle_for_five_minutes(tmp_path, 3)
        new = policy(200)
        assert not scene.guard.propose(new)
        waits = scene.journal.entries[-1]
        assert (waits.kind, waits.policy) == (Kind.POLICY_WAITS, scene.guard.published.policy.digest)
        assert new.digest in waits.detail
        await scene.pass_time(60)
        assert scene.pending == new
        assert scene.enforcer.done == []
        assert any(f"Policy {new.digest}" in problem and "3 of 3" in problem for problem in scene.guard.problems)
        with pytest.raises(NotPendingError, match="not other"):
            scene.guard.accept("other", "anna")
        assert scene.guard.accept(new.digest, "anna") == new
        entry = scene.journal.entries[-1]
        assert (entry.kind, entry.policy, entry.by) == (Kind.POLICY, new.digest, "anna")
        assert scene.pending is None
        with pytest.raises(NotPendingError):
            scene.guard.accept(new.digest, "anna")
        await scene.pass_time(10)
        assert {action for action, _ in scene.enforcer.done} == {Action.WARN}
        assert len(scene.enforcer.done) == 3

    play(acts)


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (policy(200, mode=Mode.OBSERVE), "it only observes"),
        (policy(3000), "nobody is due, nor within the notice"),
        (policy(200, belts=Belts(share_of_holders=100)), "the share is that of all"),
        (policy(200, ladder=(Stage(Action.WARN),)), "it only warns"),
    ],
)
def test_a_policy_that_touches_few_is_in_force_at_once(tmp_path, new, why):
    """Only a loss that comes newly, to more than the share, makes a policy wait."""

    async def acts():
        scene = await _idle_for_five_minutes(tmp_path, 4)
        assert scene.guard.propose(new), why
        assert scene.guard.published.policy == new

    play(acts)


def test_what_is_due_within_the_notice_counts(tmp_path):
    """Whoever would be warned in a moment is touched as well as who would be warned now."""

    async def acts():
        scene = await _idle_for_five_minutes(tmp_path, 2)
        assert not scene.guard.propose(policy(315, notice=20))
        assert scene.guard.propose(policy(325, notice=20))

    play(acts)


def test_those_who_are_due_already_do_not_count(tmp_path):
    """A policy under which the same ones go, and no others, does not wait."""

    async def acts():
        scene = await _idle_for_five_minutes(tmp_path, 4, policy(290, notice=3600))
        assert scene.guard.propose(policy(280, notice=3600))

    play(acts)


def test_to_enforce_for_the_first_time_counts_as_new(tmp_path):
    """While observing nobody would lose anything, so whoever is due under the same rules is touched newly."""

    async def acts():
        scene = await _idle_for_five_minutes(tmp_path, 2, policy(100, mode=Mode.OBSERVE))
        assert not scene.guard.propose(policy(100))

    play(acts)


def test_one_holder_alone_never_makes_a_policy_wait(tmp_path):
    """Its user gets a warning, and that is enough."""

    async def acts():
        scene = await _idle_for_five_minutes(tmp_path, 1)
        assert scene.guard.propose(policy(200))

    play(acts)


def test_a_newer_policy_takes_the_place_of_one_that_waits(tmp_path):
    """Also one that cannot be read, and the one that is in force: nobody can accept what is not in the files."""

    async def acts():
        scene = await _idle_for_five_minutes(tmp_path, 3)
        first = scene.guard.published.policy
        scene.guard.propose(policy(200))
        scene.guard.propose(policy(150))
        assert scene.pending == policy(150)
        scene.guard.refuse("broken")
        assert scene.pending is None
        scene.guard.propose(policy(150))
        assert scene.guard.published.policy == first  # and the fault is gone
        scene.guard.propose(first)
        assert scene.pending is None

    play(acts)


def test_a_policy_that_would_not_end_many_any_more_is_adopted_by_itself(tmp_path):
    """Once those whom it would end are gone, nobody has to say anything."""

    async def acts():
        scene = await _idle_for_five_minutes(tmp_path, 3)
        new = policy(200)
        scene.guard.propose(new)
        scene.observer.alive = {0}
        await scene.pass_time(5)
        assert scene.pending is None
        assert scene.guard.published.policy == new

    play(acts)


def test_before_the_first_look_there_is_nobody_to_ask_for(tmp_path):
    """A policy that comes while nothing has been seen yet is in force at once."""

    async def acts():
        scene = Scene(tmp_path, policy(3600), 3)
        assert scene.guard.propose(policy(200))

    play(acts)


spans = st.integers(1, 12).map(lambda n: 5.0 * n)
policies = st.builds(
    policy,
    spans,
    spans,
    st.sampled_from([Mode.ENFORCE, Mode.ENFORCE, Mode.OBSERVE]),
    rule=st.sampled_from(["default", "other"]),
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(policies, st.lists(st.tuples(st.integers(1, 12), policies), max_size=6))
def test_however_policies_change_nobody_is_surprised(tmp_path, first, changes):
    """Whoever is ended was warned for real, under the notice of the rule that ends it, and at each deadline shown."""

    async def acts():
        scene = Scene(tmp_path, first)
        shown: list[float] = []
        warned_at = None
        for ticks, later in [*changes, (40, None)]:
            for _ in range(ticks):
                scene.clock.advance(5)
                before = len(scene.enforcer.done)
                published = await scene.guard.tick()
                await asyncio.sleep(0)
                now = scene.clock.now()
                for action, _ in scene.enforcer.done[before:]:
                    if action is Action.WARN:
                        warned_at = now.monotonic
                    else:
                        assert warned_at is not None
                        assert now.monotonic >= warned_at + published.policy.rules[0].notice.total_seconds()
                        assert all(now.wall >= deadline for deadline in shown)
                        return
                shown += [notice.deadline for notice in scene.guard.published.ledger.notices if notice.deadline]
                if not scene.guard.published.ledger.notices:
                    shown, warned_at = [], None
            if later is not None:
                scene.guard.adopt(later)
                if later.mode is Mode.OBSERVE:
                    shown, warned_at = [], None

    play(acts)
