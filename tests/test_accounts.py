"""A guard with budgets: what it sees is counted, kept and shared, and brings another rule."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from fake_clock import FakeClock
from test_guard_policy import FakeEnforcer, FakeObserver, policy

from jupyter_gpu_guard.core.budget import Account, Budget, Measure, Per
from jupyter_gpu_guard.core.policy import Action, Idle, Match, Policy, Rule, Site
from jupyter_gpu_guard.core.usage import Hours, Usage
from jupyter_gpu_guard.core.verdict import Code
from jupyter_gpu_guard.guard import Guard
from jupyter_gpu_guard.leases import FileLeases
from jupyter_gpu_guard.protocols import NoUsageStore, UsageStore
from jupyter_gpu_guard.usage import FileUsage

SITE = Site("ada", frozenset({"students"}))
MINUTE = 2 * 60 / 3600  # GiB·hours of one kernel that holds 2 GiB


def budgeted(limit: float, per: Per = Per.USER) -> Policy:
    """A policy that ends nothing for an hour, unless the budget is used up: then after ten seconds."""
    usual = policy(3600)
    used_up = Rule("used-up", Match(user="nobody"), Idle(lasting=timedelta(seconds=10)), timedelta(seconds=20))
    budget = Budget("day", Measure.IDLE_GIB_HOURS, limit, timedelta(days=1), "used-up", per)
    return replace(usual, rules=(used_up, *usual.rules), budgets=(budget,))


class Room:
    """A guard over one kernel, with a clock in hand."""

    def __init__(self, folder: Path, by: Policy, store: UsageStore, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        observer = FakeObserver(self.clock, 1)
        self.guard = Guard(
            observer=observer,
            enforcer=FakeEnforcer(observer),
            rehearsal=FakeEnforcer(observer, rehearsed=True),
            leases=FileLeases(folder / "leases.json"),
            clock=self.clock,
            policy=by,
            site=SITE,
            usage=store,
            log=logging.getLogger("test"),
        )

    async def pass_time(self, seconds: float):
        """Look every five seconds. Gives the last verdict."""
        for _ in range(int(seconds // 5)):
            self.clock.advance(5)
            await self.guard.tick()
            await self.guard._accounts.shared()
        (verdict,) = self.guard.published.verdicts.values()
        return verdict


def test_a_budget_that_is_used_up_brings_its_rule_and_after_it_the_end(tmp_path: Path) -> None:
    """Seen idle for two minutes with 2 GiB: the rule of the budget warns, and shuts down after its notice."""

    async def play() -> None:
        room = Room(tmp_path, budgeted(2 * MINUTE), FileUsage(tmp_path / "usage", SITE))
        before = await room.pass_time(115)
        assert (before.rule, before.action) == ("default", Action.KEEP)
        after = await room.pass_time(15)
        assert after.rule == "used-up"
        assert Code.OVER_BUDGET in [reason.code for reason in after.reasons]
        assert room.guard.published.rule_for(room.guard.published.attribution.holders[0]).name == "used-up"
        await room.guard.close()

    asyncio.run(play())


def test_use_survives_a_restart_and_other_servers_count(tmp_path: Path) -> None:
    """What a server saw is on disk when it ends; the next one begins with it, and so does one beside it."""

    async def play() -> None:
        by = budgeted(3 * MINUTE)
        first = Room(tmp_path, by, FileUsage(tmp_path / "usage", SITE))
        await first.pass_time(125)
        await first.guard.close()
        second = Room(tmp_path, by, FileUsage(tmp_path / "usage", SITE), first.clock)
        assert (await second.pass_time(50)).rule == "default"
        assert (await second.pass_time(20)).rule == "used-up"

    asyncio.run(play())


def test_the_account_of_a_kernel_ends_with_it(tmp_path: Path) -> None:
    """Another one by its name begins anew."""

    async def play() -> None:
        room = Room(tmp_path, budgeted(MINUTE, Per.KERNEL), NoUsageStore())
        assert (await room.pass_time(70)).rule == "used-up"
        room.guard._observer.alive.clear()
        room.clock.advance(5)
        await room.guard.tick()
        room.guard._observer.alive.add(0)
        assert (await room.pass_time(55)).rule == "default"

    asyncio.run(play())


class FakeStore:
    """A storage that hangs until it is let go, or fails."""

    problem: str | None = None

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.let_go = threading.Event()
        self.asked: list[datetime] = []

    def exchange(self, own: Usage, now: datetime) -> Usage:
        """Answer late, or with a fault."""
        self.asked.append(now)
        if self.fails:
            raise RuntimeError("gone")
        self.let_go.wait(60)
        hour = int(now.timestamp() // 3600)
        return {Account("day", Measure.IDLE_GIB_HOURS, "user"): Hours({hour: 1000.0})}

    def close(self) -> None:
        """Nothing is open."""


def test_a_storage_that_hangs_holds_up_nothing(tmp_path: Path) -> None:
    """Looks go on; what others have used counts once it is known, and it is asked once a minute at most."""

    async def play() -> None:
        store = FakeStore()
        room = Room(tmp_path, budgeted(100), store)
        for _ in range(40):
            room.clock.advance(5)
            await room.guard.tick()
        assert len(store.asked) == 1
        (verdict,) = room.guard.published.verdicts.values()
        assert verdict.rule == "default"
        store.let_go.set()
        await room.guard._accounts.shared()
        assert (await room.pass_time(5)).rule == "used-up"
        await room.pass_time(300)
        gaps = [(b - a).total_seconds() for a, b in zip(store.asked[1:], store.asked[2:], strict=False)]
        assert len(gaps) > 2
        assert min(gaps) >= 60

    asyncio.run(play())


def test_a_storage_that_fails_is_a_problem_and_no_more(tmp_path: Path) -> None:
    """Health says so; what this server counts itself still counts."""

    async def play() -> None:
        room = Room(tmp_path, budgeted(MINUTE), FakeStore(fails=True))
        assert (await room.pass_time(70)).rule == "used-up"
        assert any("gone" in problem for problem in room.guard.problems)
        await room.guard.close()

    asyncio.run(play())


def test_without_budgets_no_storage_is_asked(tmp_path: Path) -> None:
    """Nothing is read, written or counted."""

    async def play() -> None:
        store = FakeStore()
        room = Room(tmp_path, policy(3600), store)
        await room.pass_time(200)
        await room.guard.close()
        assert store.asked == []
        assert room.guard.published.spending == {}

    asyncio.run(play())
