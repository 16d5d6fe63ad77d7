"""The tick, with fakes for whatever it touches: who has the last word, and what happens when the server ends."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta

import pytest
from fake_clock import NOON, FakeClock

import jupyter_gpu_guard.guard as guard_module
from jupyter_gpu_guard.core.attribute import Attribution
from jupyter_gpu_guard.core.model import (
    Device,
    Gap,
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
from jupyter_gpu_guard.core.policy import Action, Idle, Mode, Policy, Rule, Stage
from jupyter_gpu_guard.core.verdict import Code, Outcome, Result
from jupyter_gpu_guard.guard import VISITS, Guard, TooLateError
from jupyter_gpu_guard.keeping import KeepTooLongError
from jupyter_gpu_guard.leases import FileLeases
from jupyter_gpu_guard.published import NoSuchOwnerError, Price
from jupyter_gpu_guard.server.report import report

KEY = OwnerKey(OwnerKind.KERNEL, "k")
ROOT = ProcessKey(100, 7)
POLICY = Policy(
    mode=Mode.ENFORCE,
    rules=(
        Rule(
            "default",
            idle=Idle(lasting=timedelta(seconds=10)),
            notice=timedelta(seconds=10),
            ladder=(Stage(Action.WARN), Stage(Action.SHUTDOWN, timedelta(seconds=10))),
        ),
    ),
)


class FakeObserver:
    """One idle kernel that holds 2 GiB, for as long as nobody ends it."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.alive = True
        self.begins = False
        self.boards: tuple[Owner, ...] = ()
        self.asked = self.looks = 0

    async def observe(self, before: Attribution) -> Snapshot:
        """What there is now."""
        self.looks += 1
        return Snapshot(
            taken_at=self.clock.now(),
            devices=(Device("GPU-0", 0, "Fake", 80 * 2.0**30, 2 * 2.0**30),),
            clients=(GpuClient("GPU-0", ROOT.pid, 2 * 2.0**30, 0.0),) if self.alive else (),
            processes={ROOT.pid: Process(ROOT, 1, ROOT.pid, ROOT.pid, "S", NOON)} if self.alive else {},
            owners=((Owner(KEY, "a.ipynb", ROOT, OwnerState.IDLE, "a.ipynb"),) if self.alive else ()) + self.boards,
        )

    async def reached(self, there):
        """Until `there` says that it has come so far."""
        while not there(self):  # noqa: ASYNC110 - it counts, and has nobody to tell
            await asyncio.sleep(0.001)

    async def stirs(self) -> bool:
        """What a test says."""
        self.asked += 1
        return self.asked > 5 and self.begins


class FakeEnforcer:
    """Warns at once; a shutdown looks for as long as `looking` is not set, asks, and takes until `over` is set."""

    def __init__(self, observer: FakeObserver) -> None:
        self._observer = observer
        self.looking, self.over = asyncio.Event(), asyncio.Event()
        self.done: list[Action] = []

    async def enforce(self, verdict, holder, spared):
        """Carry it out, like the real one in its order of steps."""
        result = Result.DONE
        if verdict.action is Action.SHUTDOWN:
            await self.looking.wait()
            if spared():
                result = Result.WITHDRAWN
            else:
                await self.over.wait()
                self._observer.alive = False
        if result is Result.DONE:
            self.done.append(verdict.action)
        now = self._observer.clock.now().wall
        return Outcome(verdict.owner, verdict.root, verdict.action, verdict.rule, result, now, result.value)

    def offers(self, holder: Holder) -> tuple[Action, ...]:
        """Nothing."""
        return ()

    def reaches(self, key: OwnerKey) -> bool:
        """Everybody is always told."""
        return True

    def hurry(self) -> None:
        """End what is under way."""
        self.looking.set()
        self.over.set()


class Scene:
    """A guard over one idle kernel."""

    def __init__(self, folder, **more) -> None:
        self.clock = FakeClock()
        self.observer = FakeObserver(self.clock)
        self.enforcer = FakeEnforcer(self.observer)
        self.guard = Guard(
            observer=self.observer,
            enforcer=self.enforcer,
            rehearsal=self.enforcer,
            leases=FileLeases(folder / "leases.json"),
            clock=self.clock,
            policy=POLICY,
            log=logging.getLogger("test"),
            **more,
        )

    async def pass_time(self, seconds: int) -> None:
        """Tick every five seconds."""
        for _ in range(0, seconds, 5):
            self.clock.advance(5)
            await self.guard.tick()

    async def doom(self) -> None:
        """Until the shutdown has begun to look."""
        await self.guard.tick()
        await self.pass_time(30)
        assert self.enforcer.done == [Action.WARN]
        assert self.guard.published.ledger.cases[KEY].acting


def test_a_keep_that_is_granted_is_kept(tmp_path):
    """While the act still looks, Keep is granted and withdraws it, and the report says so at once."""

    async def play():
        scene = Scene(tmp_path)
        await scene.doom()
        await scene.guard.keep(KEY, timedelta(hours=1), "", "anna")
        verdict = scene.guard.published.verdicts[KEY]
        assert [reason.code for reason in verdict.reasons] == [Code.LEASED]
        assert (verdict.action, verdict.deadline) == (Action.KEEP, None)
        scene.enforcer.looking.set()
        await scene.pass_time(60)
        assert scene.enforcer.done == [Action.WARN]
        assert [outcome.result for outcome in scene.guard.published.outcomes] == [Result.WITHDRAWN]
        assert scene.observer.alive

    asyncio.run(play())


def test_the_report_has_the_last_hour_of_owners_and_devices_and_the_price(tmp_path):
    """Minute by minute, what each had; what never came near a GPU has none. A price is there only if it is set."""

    async def play():
        scene = Scene(tmp_path, price=Price(2.5, "€"))
        quiet = OwnerKey(OwnerKind.TENSORBOARD, "6006")
        scene.observer.boards = (Owner(quiet, "TensorBoard", ProcessKey(7, 7), OwnerState.IDLE),)
        await scene.pass_time(60)
        told = report(scene.guard.published)
        kernel, board = sorted(told.holders, key=lambda holder: holder.kind)
        assert kernel.history.compute_percent == [0.0, 0.0]
        assert kernel.history.memory_bytes == [2 * 2**30] * 2
        assert board.history is None
        assert told.devices[0].history.memory_bytes == [2 * 2**30] * 2
        assert told.devices[0].history.compute_percent == [None, None]
        assert (told.price.gpu_hour, told.price.currency) == (2.5, "€")
        assert report(Scene(tmp_path).guard.published).price is None

    asyncio.run(play())


def test_the_report_has_sentences_by_their_codes(tmp_path):
    """What was done and why a source is silent come with codes where they are known sentences; else as they are."""

    async def play():
        scene = Scene(tmp_path)
        await scene.guard.tick()
        kernel = scene.guard.published.holder(KEY).owner
        detail = "freed 2.0 GiB in 1.5 s; and so on"
        done = Outcome(kernel.key, ROOT, Action.SHUTDOWN, "default", Result.DONE, NOON, detail)
        scene.guard.recall([done, replace(done, detail="nobody knows")])
        silent = (Gap("devices", "The guard is stopping."), Gap("owners", "nobody knows"))
        seen = replace(scene.guard.published.snapshot, gaps=silent)
        told = report(replace(scene.guard.published, snapshot=seen))
        known, unknown = told.outcomes
        assert [part.code for part in known.said] == ["freed-in", ""]
        assert "; ".join(part.text for part in known.said) == detail
        assert known.said[0].facts == {"freed_bytes": 2 * 2**30, "took_seconds": 1.5}
        assert unknown.said == []
        assert [gap.said and gap.said.code for gap in told.gaps] == ["stopping", None]

    asyncio.run(play())


def test_many_small_acts_push_no_loss_out_of_the_report(tmp_path):
    """Of what was done to kernels that live on only the latest is shown; what was ended stays, in the order of time."""
    scene = Scene(tmp_path)
    ended = Outcome(KEY, ROOT, Action.SHUTDOWN, "default", Result.DONE, NOON, "ended")
    small = [
        Outcome(KEY, ROOT, Action.RELEASE, "default", Result.DONE, NOON + timedelta(minutes=n), f"release {n}")
        for n in range(250)
    ]
    would = replace(ended, result=Result.REHEARSED, at=NOON + timedelta(days=1))
    scene.guard.recall([small[0], ended, *small[1:], *[would] * 10])
    told = scene.guard.published.outcomes
    assert told == (ended, *small[160:], *[would] * 10)
    scene.guard.recall([])
    assert scene.guard.published.outcomes == told


def test_a_keep_that_comes_too_late_is_refused(tmp_path):
    """Once the kernel is being shut down nobody is told that it is kept; afterwards there is no such owner."""

    async def play():
        scene = Scene(tmp_path)
        await scene.doom()
        scene.enforcer.looking.set()
        for _ in range(10):  # the act goes on to its point of no return
            await asyncio.sleep(0)
        with pytest.raises(TooLateError, match="too late"):
            await scene.guard.keep(KEY, timedelta(hours=1), "", "anna")
        scene.enforcer.over.set()
        await scene.pass_time(10)
        with pytest.raises(NoSuchOwnerError):
            await scene.guard.keep(KEY, timedelta(hours=1), "", "anna")
        assert scene.enforcer.done == [Action.WARN, Action.SHUTDOWN]
        assert scene.guard.published.leases == {}

    asyncio.run(play())


def test_a_keep_beyond_the_limit_changes_nothing(tmp_path):
    """It is refused with the limit of the rule, and the warning stands."""

    async def play():
        scene = Scene(tmp_path)
        await scene.guard.tick()
        await scene.pass_time(15)
        (notice,) = scene.guard.published.ledger.notices
        with pytest.raises(KeepTooLongError) as refusal:
            await scene.guard.keep(KEY, timedelta(hours=9), "", "anna")
        assert refusal.value.longest == timedelta(hours=8)
        assert scene.guard.published.ledger.notices == (notice,)

    asyncio.run(play())


def test_a_server_that_ends_finishes_what_it_has_begun(tmp_path):
    """An act under way is hurried to its end, not dropped: what it leaves behind would be nobody's afterwards."""

    async def play():
        scene = Scene(tmp_path)
        await scene.doom()
        await scene.guard.close()
        assert scene.enforcer.done == [Action.WARN, Action.SHUTDOWN]
        assert [outcome.result for outcome in scene.guard.published.outcomes] == [Result.DONE]

    asyncio.run(play())


class StuckEnforcer(FakeEnforcer):
    """Comes to no end; a `helper` that waits in the driver does not even when it is broken off."""

    def __init__(self, observer: FakeObserver, *, helper: bool) -> None:
        super().__init__(observer)
        self._helper = helper
        self.begun, self.freed = asyncio.Event(), asyncio.Event()

    async def enforce(self, verdict, holder, spared):
        """Begin it."""
        try:
            self.begun.set()
            await asyncio.Event().wait()
        finally:
            if self._helper:
                await self.freed.wait()


def closed_during(folder, action, *, helper=False):
    """A server ends while `action` is under way, and hangs."""

    async def play():
        scene = Scene(folder)
        stuck = scene.guard._enforcer = StuckEnforcer(scene.observer, helper=helper)
        await scene.guard.tick()
        act = scene.guard.act(action, KEY, "anna")
        await stuck.begun.wait()
        await scene.guard.close()
        stuck.freed.set()
        await asyncio.wait({act})
        assert act.cancelled()

    asyncio.run(play())


def test_a_server_that_ends_does_not_wait_for_a_release(tmp_path, monkeypatch, caplog):
    """What it would give back is free anyway, a moment later: it is broken off at once, and the log names it."""
    monkeypatch.setattr(guard_module, "CLOSED_WITHIN", 3600.0)
    with caplog.at_level(logging.INFO):
        closed_during(tmp_path, Action.RELEASE)
    assert f"the release of {KEY} is broken off" in caplog.text
    assert "was not over" not in caplog.text


@pytest.mark.parametrize("action", [Action.PARK, Action.RESUME, Action.SHUTDOWN])
def test_a_server_that_ends_waits_so_long_for_the_others_and_names_them(tmp_path, monkeypatch, caplog, action):
    """It is the act that is named, whatever it is; and one whose helper cannot be ended holds nobody up."""
    monkeypatch.setattr(guard_module, "CLOSED_WITHIN", 0.02)
    monkeypatch.setattr(guard_module, "LET_GO_WITHIN", 0.01)
    closed_during(tmp_path, action, helper=True)
    assert f"the {action.value} of {KEY} was not over when the server ended" in caplog.text


@pytest.mark.parametrize(("boards", "longest"), [(0, 3600), (1, VISITS)])
def test_a_guard_at_rest_misses_nobody_who_comes_to_a_tensorboard(tmp_path, boards, longest):
    """A visit can be seen for a minute, so two looks must not be further apart while there is one."""

    async def play():
        scene = Scene(tmp_path, interval=5, resting_interval=3600)
        scene.observer.alive = False
        board = Owner(OwnerKey(OwnerKind.TENSORBOARD, "b"), "TensorBoard", ROOT, OwnerState.IDLE)
        scene.observer.boards = (board,) * boards
        await scene.guard.tick()
        assert scene.guard._rest() == longest - 5

    asyncio.run(play())


@pytest.mark.parametrize("alive", [True, False], ids=["somebody", "nobody"])
def test_while_nobody_is_on_a_device_the_guard_rests(tmp_path, alive):
    """It looks at the devices again when something begins, and not before; while somebody is there it goes on."""

    async def play():
        scene = Scene(tmp_path, interval=0.001, resting_interval=3600)
        scene.observer.alive = alive
        running = asyncio.create_task(scene.guard.run())
        await scene.observer.reached(lambda it: it.looks >= 20 or it.asked >= 20)
        looks = scene.observer.looks
        scene.observer.begins = True
        await scene.observer.reached(lambda it: it.looks > looks)
        running.cancel()
        assert (looks == 1) is not alive

    asyncio.run(play())
