"""One run of a server in a made-up world: the real guard and its real effects, and whoever watches what they do."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from jupyter_gpu_guard.core.entry import Entry
from jupyter_gpu_guard.core.ledger import wait_before_loss
from jupyter_gpu_guard.core.model import Holder, OwnerKey, OwnerKind, OwnerState
from jupyter_gpu_guard.core.policy import Action, Belts, Idle, Match, Mode, Policy, Rule, Stage
from jupyter_gpu_guard.core.verdict import Lease, Outcome, Result, Verdict
from jupyter_gpu_guard.effects.doors import KernelDoor, LeftoversDoor
from jupyter_gpu_guard.effects.enforcer import OwnerEnforcer, RehearsingEnforcer
from jupyter_gpu_guard.effects.notices import SCHEMAS
from jupyter_gpu_guard.guard import Guard
from jupyter_gpu_guard.history.audit import ends
from jupyter_gpu_guard.leases import FileLeases
from jupyter_gpu_guard.observe import Observer

from .simulated_world import Body, FaultError, World
from .virtual_time import VirtualClock

LOG = logging.getLogger("jupyter_gpu_guard.chaos")
LOG.setLevel(logging.CRITICAL + 1)
INTERVAL = 5.0
LIMIT = timedelta(seconds=15)
BY_RULE = "default"


def _rule(name: str, notice: float = 15, **more: Any) -> Rule:
    wait = timedelta(seconds=notice)
    ladder = more.pop("ladder", (Stage(Action.WARN), Stage(Action.SHUTDOWN, wait)))
    return Rule(name, idle=Idle(lasting=more.pop("lasting", LIMIT)), notice=wait, ladder=ladder, **more)


LEFT = _rule("left-behind", match=Match(owner=OwnerKind.LEFTOVERS))
QUICK = Policy(Mode.ENFORCE, (LEFT, _rule(BY_RULE)), digest="quick")
POLICIES = (
    QUICK,
    replace(QUICK, rules=(LEFT, _rule(BY_RULE, 30)), digest="slow"),
    replace(QUICK, rules=(_rule(BY_RULE, undelivered=None),), digest="patient"),
    replace(QUICK, rules=(LEFT, _rule(BY_RULE, undelivered=timedelta(seconds=40))), digest="unheard"),
    replace(QUICK, rules=(_rule("kept", match=Match(notebook="k1*"), keep=True), LEFT, _rule(BY_RULE)), digest="kept"),
    replace(QUICK, belts=Belts(2, 1), digest="belts"),
    replace(QUICK, mode=Mode.OBSERVE, digest="observe"),
)


class BrokenPromiseError(AssertionError):
    """What must never happen has happened."""


class FakeDisk(FileLeases):
    """Leases on a disk that may be full."""

    def __init__(self, path: Path, world: World) -> None:
        super().__init__(path)
        self._world = world

    def active(self, now: datetime) -> Mapping[OwnerKey, Lease]:
        """Those that can be read."""
        if "leases" in self._world.faults.silent:
            raise OSError(errno.EIO, "input/output error")
        return super().active(now)

    def _write(self, *told: Any) -> None:
        if self._world.faults.disk:
            raise OSError(errno.ENOSPC, "no space left on device")
        super()._write(*told)


class FakeJournal:
    """The audit: what is on disk survives the server."""

    def __init__(self, world: World, entries: list[Entry]) -> None:
        self._world, self._entries = world, entries
        self.problem: str | None = None
        self.is_over = False

    def record(self, entry: Entry) -> None:
        """Keep it, if the disk takes it."""
        if not self._world.faults.disk and not self.is_over:
            self._entries.append(entry)

    async def written(self, within: float) -> bool:
        """A full disk is waited for."""
        await asyncio.sleep(within if self._world.faults.disk else 0)
        return not self._world.faults.disk


@dataclass
class Loss:
    """An act by which something is lost, from the moment on at which nobody can step in."""

    verdict: Verdict
    life: int


@dataclass
class Server:
    """One run of the server. What it does once it is `killed` reaches nobody."""

    world: World
    folder: Path
    entries: list[Entry]
    policy: Policy
    wrong: list[str]
    meanwhile: Callable[[Holder], None]
    killed: bool = False
    warnings: list[tuple[float, Verdict, Outcome]] = field(default_factory=list)
    losses: dict[OwnerKey, Loss] = field(default_factory=dict)
    under_way: set[OwnerKey] = field(default_factory=set)
    promises: dict[OwnerKey, tuple[datetime, bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        world = self.world
        self.clock = VirtualClock(world.loop)
        self.journal = FakeJournal(world, self.entries)
        owners = SimpleNamespace(read=world.owners, look_again=world.look_again)
        observer = Observer(
            self.clock,
            SimpleNamespace(read=world.devices, simulated=True, close=lambda: None),
            world,
            owners,
            insight=SimpleNamespace(marks=world.marks, activity=world.activity),
        )
        self.enforcer = OwnerEnforcer(
            event_logger=SimpleNamespace(schemas=SCHEMAS, emit=self._emit),
            log=LOG,
            doors={OwnerKind.KERNEL: KernelDoor(self), OwnerKind.LEFTOVERS: LeftoversDoor()},
            owners=owners,
            look=observer.look,
            processes=observer.processes,
            identify=world.identify,
            clock=self.clock,
            roots=world.roots,
            grace=20,
            page_is_open=lambda: world.page,
        )
        self.guard = Guard(
            observer=observer,
            enforcer=self,
            rehearsal=RehearsingEnforcer(self.clock),
            leases=FakeDisk(self.folder / "leases.json", world),
            journal=self.journal,
            clock=self.clock,
            policy=self.policy,
            interval=INTERVAL,
            log=LOG,
        )
        self.guard.recall(ends(self.entries, self.clock.now().wall, ""))
        world.told = self.signalled
        self.running = asyncio.ensure_future(self.guard.run())

    def broken(self, what: str) -> NoReturn:
        """Note it, as whoever is told may take it for an ordinary fault. Raises BrokenPromiseError."""
        if not self.killed:
            self.wrong.append(what)
        raise BrokenPromiseError(what)

    # ---- the kernel manager ----

    def __contains__(self, ident: str) -> bool:
        return ident in self.world.kernels

    async def shutdown_kernel(self, ident: str, *, now: bool) -> None:
        """Jupyter's own door."""
        key = OwnerKey(OwnerKind.KERNEL, ident)
        if self.killed:
            raise FaultError("this server is no more")
        loss = self.losses.get(key)
        if loss is None:
            self.broken(f"{key} is shut down, and no act is under way")
        if self.world.kernels[ident].root.key != loss.verdict.root:
            self.broken(f"{key} is another process by now")
        await self.world.shut_kernel_down(ident)

    # ---- what is said ----

    def _emit(self, **event: Any) -> None:
        if self.killed or self.world.faults.publishing:
            raise FaultError("nobody listens")

    # ---- the enforcer, watched ----

    def offers(self, holder: Holder) -> tuple[Action, ...]:
        """As the real one."""
        return self.enforcer.offers(holder)

    def reaches(self, key: OwnerKey) -> bool:
        """As the real one."""
        return self.enforcer.reaches(key)

    def hurry(self) -> None:
        """As the real one."""
        self.enforcer.hurry()

    async def enforce(self, verdict: Verdict, holder: Holder, spared: Callable[[], bool]) -> Outcome:
        """Have it done, and look whether it may be."""
        key = verdict.owner
        if not verdict.action.loses_work:
            outcome = await self.enforcer.enforce(verdict, holder, spared)
            if outcome.result is Result.DONE:
                self.warnings.append((self.world.loop.time(), verdict, outcome))
            return outcome
        if key in self.under_way:
            self.broken(f"two acts on {key} at once")
        self.under_way.add(key)
        self.meanwhile(holder)

        def last_word() -> bool:
            if spared():
                return True
            self.may_be_lost(verdict, holder)
            kernel = None if key.id in self.world.faults.unlisted else self.world.kernels.get(key.id)
            self.losses[key] = Loss(verdict, kernel.life if kernel else 1 << 30)
            return False

        try:
            return await self.enforcer.enforce(verdict, holder, last_word)
        finally:
            self.under_way.discard(key)
            self.losses.pop(key, None)

    def may_be_lost(self, verdict: Verdict, holder: Holder) -> None:
        """Whether all that comes before a loss by a rule has come. Raises BrokenPromiseError."""
        if verdict.rule == "asked":
            return
        key = verdict.owner
        policy = self.guard.published.policy
        if policy.mode is not Mode.ENFORCE:
            self.broken(f"{key} is lost in mode observe")
        until = self.promises.get(key)
        if until is not None and until[0] > self.clock.now().wall:
            self.broken(f"{key} is lost although somebody keeps it")
        if policy.digest == "kept" and (holder.owner.notebook or "").startswith("k1"):
            self.broken(f"{key} is lost although a rule keeps it")
        kernel = self.world.kernels.get(key.id) if key.kind is OwnerKind.KERNEL else None
        if kernel is not None and kernel.state is not OwnerState.IDLE:
            self.broken(f"{key} is lost while it is {kernel.state.value}")
        used_at = 0.0 if kernel is None or kernel.used_at is None else kernel.used_at
        told = [each for each in self.warnings if each[0] >= used_at and self._names(each[1], verdict)]
        if not any(self._was_in_time(at, outcome, verdict) for at, _, outcome in told):
            self.broken(f"{key} is lost at {self.world.loop.time():g} without a warning in time: {told}")

    @staticmethod
    def _names(warning: Verdict, verdict: Verdict) -> bool:
        same = (warning.owner, warning.root) == (verdict.owner, verdict.root)
        return same and warning.next_action is Action.SHUTDOWN

    def _was_in_time(self, at: float, outcome: Outcome, verdict: Verdict) -> bool:
        wait = wait_before_loss(verdict, undelivered=outcome.undelivered)
        return wait is not None and self.world.loop.time() >= at + wait - 1e-6

    def signalled(self, body: Body, number: int) -> None:
        """Whether `body` may get this signal. Raises BrokenPromiseError."""
        if self.killed:
            raise ProcessLookupError(errno.ESRCH, "no such process")  # it is not sent at all
        if body.of is not None:
            ident, life = body.of
            for key, loss in self.losses.items():
                is_left = life < loss.life if key.kind is OwnerKind.LEFTOVERS else life == loss.life
                if key.id == ident and is_left:
                    return
        self.broken(f"{signal.Signals(number).name} to an innocent: {body}, in {list(self.losses)}")
