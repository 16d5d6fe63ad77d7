"""What the guard tells its journal: enough to judge again by hand, each thing once, and whom it spares."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta

import pytest
from fake_clock import NOON, FakeClock
from fake_journal import FakeJournal

from jupyter_gpu_guard.core.entry import Entry, Kind, grounds, judged_again
from jupyter_gpu_guard.core.judge import Bench, judge
from jupyter_gpu_guard.core.ledger import Ledger
from jupyter_gpu_guard.core.model import (
    Activity,
    Board,
    GpuClient,
    Holder,
    Instant,
    Owner,
    OwnerKey,
    OwnerKind,
    OwnerState,
    ProcessKey,
    Snapshot,
    Unknown,
    Why,
)
from jupyter_gpu_guard.core.policy import Action, Mode
from jupyter_gpu_guard.core.verdict import Code, Result
from jupyter_gpu_guard.core.window import Window
from jupyter_gpu_guard.effects.enforcer import RehearsingEnforcer
from jupyter_gpu_guard.guard import Guard
from jupyter_gpu_guard.history.lines import from_line, to_line
from jupyter_gpu_guard.leases import FileLeases
from tests.test_guard import KEY, POLICY, ROOT, FakeEnforcer, FakeObserver

NOW = Instant(NOON, 9.0)


class FakeScene(FakeObserver):
    """One kernel that holds 2 GiB, with two pages; a test says what it computes, and what it does."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.compute: float | Unknown = 0.0
        self.state = OwnerState.IDLE

    async def observe(self, before) -> Snapshot:
        """What there is now."""
        seen = await super().observe(before)
        return replace(
            seen,
            clients=tuple(GpuClient(c.device, c.pid, c.memory, self.compute) for c in seen.clients),
            owners=tuple(replace(owner, clients=2, state=self.state) for owner in seen.owners),
        )


class Play:
    """A guard over that kernel, and its journal."""

    def __init__(self, folder, policy=POLICY) -> None:
        self.clock = FakeClock()
        self.observer = FakeScene(self.clock)
        self.enforcer = FakeEnforcer(self.observer)
        self.journal = FakeJournal()
        self.guard = Guard(
            observer=self.observer,
            enforcer=self.enforcer,
            rehearsal=RehearsingEnforcer(self.clock),
            leases=FileLeases(folder / "leases.json"),
            clock=self.clock,
            policy=policy,
            journal=self.journal,
            log=logging.getLogger("test"),
        )

    async def pass_time(self, seconds: int) -> None:
        """Tick every five seconds."""
        for _ in range(0, seconds, 5):
            self.clock.advance(5)
            await self.guard.tick()

    def kinds(self) -> list[str]:
        """What was told, in order, but for the policy."""
        return [entry.kind.value for entry in self.journal.entries if entry.kind is not Kind.POLICY]


def redone(entry: Entry):
    """The verdict to which the facts lead that stand on the disk."""
    kept = from_line(to_line(entry))
    assert kept == entry
    assert kept.grounds is not None
    return judged_again(kept.grounds)


def test_one_cull_can_be_judged_again_by_hand(tmp_path):
    """Warned, begun and ended: from what is on disk alone the same verdicts come out, and every process is named."""

    async def play():
        it = Play(tmp_path)
        it.enforcer.looking.set()
        it.enforcer.over.set()
        await it.pass_time(40)
        assert it.kinds() == ["warned", "begun", "outcome"]
        warned, begun, ended = (entry for entry in it.journal.entries if entry.kind is not Kind.POLICY)
        assert warned.clients == 2
        assert warned.deadline == warned.at + timedelta(seconds=10)
        for entry, action in ((warned, Action.WARN), (begun, Action.SHUTDOWN)):
            assert entry.verdict.action is action
            assert redone(entry) == entry.verdict
            assert entry.verdict.reasons[0].code is Code.IDLE_TOO_LONG
            assert entry.grounds.holder.tree == (ROOT,)
            assert entry.grounds.rule.idle.lasting == timedelta(seconds=10)
        assert (ended.act, ended.outcome.result, ended.verdict.root) == (begun.act, Result.DONE, ROOT)
        assert (ended.policy, ended.mode, ended.notebook) == (POLICY.digest, Mode.ENFORCE, "a.ipynb")

    asyncio.run(play())


def test_one_keep_and_whom_it_spares(tmp_path):
    """Who keeps what until when and why; once it would be due that is said, and said once."""

    async def play():
        it = Play(tmp_path)
        await it.pass_time(5)
        lease = await it.guard.keep(KEY, timedelta(hours=1), "long read", "anna")
        await it.pass_time(300)
        assert it.kinds() == ["kept", "spared"]
        kept, spared = it.journal.of(Kind.KEPT, Kind.SPARED)
        assert (kept.lease, kept.by) == (lease, "anna")
        assert [reason.code for reason in spared.verdict.reasons] == [Code.LEASED]
        assert redone(spared) == spared.verdict
        assert spared.grounds.window.idle_for(5.0) >= 10

    asyncio.run(play())


def test_one_cull_that_was_skipped_for_an_unknown_reading(tmp_path):
    """It was due, and now its compute cannot be read: told once, with the reason, and the same comes out again."""

    async def play():
        it = Play(tmp_path)
        await it.pass_time(15)
        it.observer.compute = Unknown(Why.DRIVER_ERROR, "999")
        await it.pass_time(600)
        assert it.kinds() == ["warned", "spared"]
        (spared,) = it.journal.of(Kind.SPARED)
        assert spared.verdict.reasons[0].code is Code.UNKNOWN_READING
        assert spared.verdict.reasons[0].facts["why"] == "driver-error"
        assert redone(spared) == spared.verdict
        assert it.observer.alive

    asyncio.run(play())


def test_what_was_never_known_is_said_once_it_lasts(tmp_path):
    """Where nothing could be read from the start, that is told after the time in which it would have become due."""

    async def play():
        it = Play(tmp_path)
        it.observer.compute = Unknown(Why.DRIVER_ERROR)
        await it.pass_time(10)
        assert it.kinds() == []
        await it.pass_time(100)
        assert it.kinds() == ["spared"]

    asyncio.run(play())


def test_a_reading_that_comes_and_goes_does_not_flood(tmp_path):
    """The same reason for the same owner is not told again within ten minutes."""

    async def play():
        it = Play(tmp_path)
        for _ in range(8):
            it.observer.compute = 0.0
            await it.pass_time(15)
            it.observer.compute = Unknown(Why.NOT_READ)
            await it.pass_time(10)
        assert len(it.journal.of(Kind.SPARED)) == 1

    asyncio.run(play())


def test_a_warning_that_is_lifted(tmp_path):
    """It computes again: the warning goes, and why is told."""

    async def play():
        it = Play(tmp_path)
        await it.pass_time(15)
        it.observer.compute = 80.0
        await it.pass_time(20)
        assert it.kinds() == ["warned", "lifted"]
        (lifted,) = it.journal.of(Kind.LIFTED)
        assert lifted.verdict.reasons[0].code is Code.COMPUTING
        assert redone(lifted) == lifted.verdict

    asyncio.run(play())


def test_what_is_not_due_is_not_told(tmp_path):
    """Kept, and in use all the same: nobody was spared anything."""

    async def play():
        it = Play(tmp_path)
        it.observer.compute = 80.0
        await it.pass_time(5)
        await it.guard.keep(KEY, timedelta(hours=1), "", "anna")
        await it.pass_time(60)
        assert it.kinds() == ["kept"]

    asyncio.run(play())


def test_a_running_cell_that_spares_is_told(tmp_path):
    """A cell that runs without compute is only warned about; that nothing more follows is told."""

    async def play():
        it = Play(tmp_path)
        it.observer.state = OwnerState.EXECUTING
        await it.pass_time(120)
        assert it.kinds() == ["hinted", "spared"]
        (spared,) = it.journal.of(Kind.SPARED)
        assert Code.STATE_WARNS_ONLY in [reason.code for reason in spared.verdict.reasons]

    asyncio.run(play())


def test_a_rehearsal_is_told_as_one(tmp_path):
    """In mode observe each act that would have been is told with its grounds, and as rehearsed."""

    async def play():
        it = Play(tmp_path, replace(POLICY, mode=Mode.OBSERVE))
        await it.pass_time(60)
        told = it.journal.of(Kind.OUTCOME)
        assert [(entry.outcome.action, entry.outcome.result) for entry in told] == [
            (Action.WARN, Result.REHEARSED),
            (Action.SHUTDOWN, Result.REHEARSED),
        ]
        assert all(redone(entry) == entry.verdict for entry in told)
        assert it.journal.of(Kind.BEGUN, Kind.WARNED) == []

    asyncio.run(play())


def test_what_a_person_asked_for_names_them(tmp_path):
    """A shutdown that was asked for is told with who did, and with what was known of it."""

    async def play():
        it = Play(tmp_path)
        it.enforcer.looking.set()
        it.enforcer.over.set()
        await it.pass_time(5)
        await it.guard.act(Action.SHUTDOWN, KEY, "anna")
        begun, ended = it.journal.of(Kind.BEGUN, Kind.OUTCOME)
        assert (begun.by, ended.by, ended.outcome.rule) == ("anna", "anna", "asked")
        assert begun.grounds.rule.name == "default"

    asyncio.run(play())


def test_an_act_that_is_left_undone_is_closed(tmp_path):
    """A server that cannot wait any longer says that the outcome is not known, and then that it ends."""

    async def play():
        it = Play(tmp_path)
        await it.pass_time(30)
        (act,) = it.guard._acts.values()
        await asyncio.sleep(0)
        act.cancel()
        with pytest.raises(asyncio.CancelledError):
            await act
        it.guard._chronicle.started(POLICY)
        await it.guard.close()
        assert it.kinds() == ["warned", "begun", "outcome", "started", "stopped"]
        assert it.journal.of(Kind.OUTCOME)[0].outcome.result is Result.UNKNOWN

    asyncio.run(play())


def test_another_policy_is_told_once(tmp_path):
    """Its digest, where it is from, and its fault; what follows carries it."""

    async def play():
        it = Play(tmp_path)
        await it.pass_time(5)
        it.guard.adopt(replace(POLICY, digest="new", source="/etc/site.yaml", fault="line 3"))
        await it.pass_time(20)
        first, second = it.journal.of(Kind.POLICY)
        assert (first.policy, second.policy) == (POLICY.digest, "new")
        assert "/etc/site.yaml" in second.detail
        assert "line 3" in second.detail
        assert {entry.policy for entry in it.journal.of(Kind.WARNED)} == {"new"}

    asyncio.run(play())


def test_a_journal_in_trouble_is_a_problem_and_no_more(tmp_path):
    """The guard goes on, and health says what is wrong."""

    async def play():
        it = Play(tmp_path)
        it.journal.problem = "The disk is full."
        await it.pass_time(15)
        assert "The disk is full." in it.guard.problems
        assert it.enforcer.done == [Action.WARN]

    asyncio.run(play())


def test_a_line_tells_no_more_than_it_should():
    """A log directory, which stands in a command line, and what each process has used are not kept."""
    key, root = OwnerKey(OwnerKind.TENSORBOARD, "b"), ProcessKey(200, 9)
    board = Board("/home/anna/--api-key=hunter2", 6006)
    owner = Owner(key, "runs", root, OwnerState.IDLE, board=board)
    seen = Activity(io={root: 4711.0}, listens=frozenset({6006}), visitors=1)
    holder = Holder(owner, tree=(root,), cpu={root: 815.0}, activity=seen)
    bench = Bench(POLICY, {key: Window(root, 0.0, 9.0, 0.0, activity=seen)}, {}, Ledger(), {}, NOW)
    (verdict,) = judge((holder,), bench)
    entry = Entry(Kind.SPARED, NOW.wall, Mode.ENFORCE, "abc", key, grounds=grounds(holder, bench, verdict))
    line = to_line(entry).decode()
    assert all(text not in line for text in ("hunter2", "4711", "815"))
    assert '{"pid":200,"start_ticks":9}' in line
    assert from_line(line.encode()) == entry
