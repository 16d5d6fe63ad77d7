"""A machine that is made up: processes with few pids, kernels, one GPU, people. It obeys one seed, and judges nobody.

Whatever its processes are told is really done to them, by the same system calls that the guard uses on a real machine:
only these are made up. So what is under test is all of the guard above the kernel's interface.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
import signal
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

from jupyter_gpu_guard.core.model import (
    Activity,
    Device,
    GpuClient,
    Mark,
    Owner,
    OwnerKey,
    OwnerKind,
    OwnerState,
    Process,
    ProcessKey,
)
from jupyter_gpu_guard.protocols import DevicesSeen

from .virtual_time import NOON, VirtualLoop

GIB = 2.0**30
FIRST, PIDS = 5_000_000, 24  # above all real pids; so few that each is somebody else's soon
SERVER = FIRST - 1
GPU = "GPU-0"


class FaultError(Exception):
    """What fails when it is to."""


@dataclass
class Body:
    """A process. `of` is the kernel and the life of it that it belongs to; None: a stranger.

    `heeds`: the mildest signal that ends it (None: nothing does). `may`: the server may signal it.
    """

    process: Process
    of: tuple[str, int] | None
    heeds: signal.Signals | None = signal.SIGTERM
    may: bool = True
    memory: float = 0.0
    compute: float = 0.0

    @property
    def key(self) -> ProcessKey:
        """Its identity."""
        return self.process.key


@dataclass
class Kernel:
    """One kernel as Jupyter knows it. Its `root` may have ended."""

    ident: str
    root: Body
    life: int = 0
    state: OwnerState = OwnerState.IDLE
    used_at: float | None = None

    @property
    def key(self) -> OwnerKey:
        """As the guard calls it."""
        return OwnerKey(OwnerKind.KERNEL, self.ident)

    def owner(self) -> Owner:
        """As a source tells of it."""
        return Owner(
            self.key,
            f"{self.ident}.ipynb",
            self.root.key,
            self.state,
            f"{self.ident}.ipynb",
            "python3",
            self.root.process.started_at,
            self.used_at,
        )


@dataclass
class Faults:
    """What does not work at the moment.

    `unlisted`: kernels that Jupyter forgets to list. `manners`: how Jupyter shuts a kernel down. `races`: how likely a
    process ends, and its pid is a stranger's, in the very moment in which it is looked at; before it is pinned to be
    signalled, this is much more likely.
    """

    silent: set[str] = field(default_factory=set)
    unlisted: set[str] = field(default_factory=set)
    late: set[str] = field(default_factory=set)
    gap: bool = False
    manners: str = "well"
    publishing: bool = False
    disk: bool = False
    races: float = 0.004


class World:
    """All there is. `told` is asked before each signal that arrives: (the process, the signal)."""

    def __init__(self, loop: VirtualLoop, chance: random.Random) -> None:
        self.loop, self.chance = loop, chance
        self.faults = Faults()
        self.bodies: dict[int, Body] = {}
        self.kernels: dict[str, Kernel] = {}
        self.page = True
        self.told: Callable[[Body, int], None] = lambda *_: None
        self._ticks, self._named = 1000, 0
        self._roots: frozenset[ProcessKey] = frozenset()
        self._pinned: dict[int, Body] = {}
        self._let_go = asyncio.Event()

    # ---- life ----

    def born(self, of: tuple[str, int] | None, parent: int = 1, *, pid: int | None = None, apart: bool = True) -> Body:
        """A new process, with the next free pid, or with that very one. `apart`: in a session of its own."""
        if pid is None:
            pid = self.chance.choice([each for each in range(FIRST, FIRST + PIDS) if self._is_free(each)])
        self._ticks = max(self._ticks + 1, int(self.loop.time() * 100))
        group = pid if apart or parent not in self.bodies else self.bodies[parent].process.session
        started = NOON + timedelta(seconds=self.loop.time())
        body = Body(Process(ProcessKey(pid, self._ticks), parent, group, group, "S", started), of)
        self.bodies[pid] = body
        return body

    def _is_free(self, pid: int) -> bool:
        """Whether a process may get this pid: no system gives away the number of a session or group that lives."""
        return all(pid not in {b.key.pid, b.process.session, b.process.group} for b in self.bodies.values())

    def is_full(self) -> bool:
        """Whether there is hardly a pid left."""
        return sum(map(self._is_free, range(FIRST, FIRST + PIDS))) < 4

    def ends(self, body: Body) -> None:
        """It is gone, and its children are adopted."""
        if self.bodies.get(body.key.pid) is not body:
            return
        del self.bodies[body.key.pid]
        for child in self.bodies.values():
            if child.process.parent == body.key.pid:
                child.process = replace(child.process, parent=1)

    def replaced(self, body: Body) -> None:
        """It ends, and a stranger has its pid in the same moment."""
        if self.bodies.get(body.key.pid) is body:
            self.ends(body)
            if self._is_free(body.key.pid):
                self.born(None, pid=body.key.pid).memory = self.chance.choice([0.0, 2 * GIB])

    def new_kernel(self) -> Kernel:
        """One that holds a GPU."""
        self._named += 1
        ident = f"k{self._named}"
        root = self.born((ident, 0), SERVER)
        root.memory = 4 * GIB
        self.kernels[ident] = Kernel(ident, root, used_at=self.loop.time())
        return self.kernels[ident]

    def lives_on(self, kernel: Kernel) -> None:
        """Its process ends, and Jupyter starts another."""
        self.ends(kernel.root)
        kernel.life += 1
        kernel.root = self.born((kernel.ident, kernel.life), SERVER)
        kernel.root.memory = self.chance.choice([0.0, 4 * GIB])
        kernel.state, kernel.used_at = OwnerState.IDLE, None

    def let_go(self) -> None:
        """Whatever hangs goes on."""
        self._let_go.set()

    # ---- the system's interface ----

    def identify(self, pid: int) -> Process | None:
        """`Processes.identify`: one row of the table, and now and then that was the last one that was true."""
        self._race(pid)
        found = self.bodies.get(pid)
        return None if found is None else found.process

    def read(self, closely: Collection[int] | None = None) -> Mapping[int, Process]:
        """`Processes.read`."""
        if "processes" in self.faults.silent:
            raise FaultError("processes")
        rows = {body.key.pid: body.process for body in self.bodies.values()}
        return {SERVER: Process(ProcessKey(SERVER, 1), 1, SERVER, SERVER, "S", NOON), **rows}

    def _race(self, pid: int, times: int = 1) -> None:
        body = self.bodies.get(pid)
        if body is not None and self.chance.random() < times * self.faults.races:
            self.replaced(body)

    def _pin(self, pid: int, flags: int = 0) -> int:
        self._race(pid, 50)
        if pid not in self.bodies:
            raise ProcessLookupError(errno.ESRCH, "no such process")
        descriptor = os.open(os.devnull, os.O_RDONLY)
        self._pinned[descriptor] = self.bodies[pid]
        self._race(pid, 50)
        return descriptor

    def _signal(self, descriptor: int, number: int) -> None:
        body = self._pinned[descriptor]
        if self.bodies.get(body.key.pid) is not body:
            raise ProcessLookupError(errno.ESRCH, "no such process")
        self.told(body, number)
        if not body.may:
            raise PermissionError(errno.EPERM, "not yours")
        if body.heeds is not None and number in {body.heeds, signal.SIGKILL}:
            self.loop.call_later(self.chance.uniform(0, 3), self.ends, body)

    @contextmanager
    def system_calls(self) -> Iterator[None]:
        """Those that the guard uses to signal go to this world."""
        real = os.pidfd_open, signal.pidfd_send_signal
        os.pidfd_open, signal.pidfd_send_signal = self._pin, self._signal
        try:
            yield
        finally:
            os.pidfd_open, signal.pidfd_send_signal = real

    # ---- the driver, and what Jupyter tells ----

    def devices(self) -> DevicesSeen:
        """`Devices.read`."""
        if "devices" in self.faults.silent:
            raise FaultError("devices")
        if self.faults.gap:
            return DevicesSeen()
        rows = tuple(
            GpuClient(GPU, body.key.pid, body.memory, body.compute) for body in self.bodies.values() if body.memory
        )
        return DevicesSeen((Device(GPU, 0, "Fake", 80 * GIB, sum(row.memory for row in rows)),), rows)

    def lateness(self, source: str) -> float:
        """Seconds after which a source answers."""
        return 9.0 if source in self.faults.late else self.chance.choice([0.0, 0.0, 0.3, 1.5])

    def marks(self, keys: Collection[ProcessKey]) -> Mapping[ProcessKey, Mark]:
        """`Insight.marks`: nothing is marked here."""
        return {}

    def activity(
        self, trees: Mapping[OwnerKey, Collection[ProcessKey]], own_ports: Mapping[OwnerKey, Collection[int]]
    ) -> Mapping[OwnerKey, Activity]:
        """`Insight.activity`: nothing but the GPU is used."""
        if "activity" in self.faults.silent:
            raise FaultError("activity")
        return {key: Activity() for key in trees}

    async def owners(self, processes: Mapping[int, Process] | None = None) -> tuple[Owner, ...]:
        """`Owners.read`."""
        await asyncio.sleep(0)
        if "owners" in self.faults.silent:
            raise FaultError("owners")
        listed = tuple(kernel.owner() for name, kernel in self.kernels.items() if name not in self.faults.unlisted)
        self._roots = frozenset(owner.root for owner in listed if owner.root is not None)
        return listed

    def look_again(self, key: OwnerKey) -> Owner | None:
        """`Owners.look_again`."""
        kernel = self.kernels.get(key.id)
        return None if kernel is None or key.id in self.faults.unlisted else kernel.owner()

    def roots(self) -> frozenset[ProcessKey]:
        """The first process of each kernel that was listed at the last reading."""
        return self._roots

    async def shut_kernel_down(self, ident: str) -> None:
        """What Jupyter does, in whichever manner it does it now."""
        kernel, manners = self.kernels[ident], self.faults.manners
        if manners == "raises":
            raise FaultError("the provisioner")
        if manners == "finds nothing":
            self.ends(self.kernels.pop(ident).root)
            raise KeyError(ident)
        if manners == "hangs":
            await self._let_go.wait()
        await asyncio.sleep(self.chance.uniform(0, 4))
        if self.kernels.get(ident) is not kernel:
            raise KeyError(ident)
        if manners != "forgets":
            for body in [kernel.root, *self.bodies.values()]:
                if body.process.group == kernel.root.key.pid and body.of == kernel.root.of:
                    self.ends(body)
        self.kernels.pop(ident, None)
