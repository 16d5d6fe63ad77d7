"""One guard, one made-up world, one seed: whatever goes wrong, and when. Run as a program, it prints what it found.

python -m tests.endurance.chaos HISTORIES [FIRST SEED]
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from jupyter_gpu_guard.core.entry import Entry
from jupyter_gpu_guard.core.model import Holder, OwnerKey, OwnerState, is_known
from jupyter_gpu_guard.core.policy import Action, Belts
from jupyter_gpu_guard.guard import TooLateError
from jupyter_gpu_guard.published import NoSuchOwnerError

from .simulated_world import GIB, Body, Faults, Kernel, World
from .virtual_time import VirtualLoop, in_virtual_time, without_threads
from .watched_server import INTERVAL, POLICIES, QUICK, BrokenPromiseError, Server

PATIENCE = 2.5 * 3600  # seconds; the longest pause between two attempts is an hour


class History:
    """Everything that happens in one world, from one seed."""

    def __init__(self, loop: VirtualLoop, seed: int, folder: Path) -> None:
        self.loop, self.folder = loop, folder
        self.chance = random.Random(seed)
        self.world = World(loop, self.chance)
        self.entries: list[Entry] = []
        self.counted: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.is_calm = False
        self.asked: set[asyncio.Task[None]] = set()
        self.server = Server(self.world, folder, self.entries, QUICK, self.wrong, self.meanwhile)

    async def run(self) -> None:
        """Let it happen, let it calm down, and see whether anybody was forgotten."""
        self.world.new_kernel()
        for _ in range(self.chance.randint(15, 45)):
            await asyncio.sleep(self.chance.choice([0.5, 2, 4, 7, 12]))
            event = self.chance.choice(_EVENTS)
            event(self)
            self._look()
        await self._calm()
        self._end()

    def meanwhile(self, holder: Holder) -> None:
        """An act on `holder` begins: whatever may change one's mind about it comes now, or a moment later."""
        if self.is_calm or self.chance.random() < 0.5:
            return
        event = self.chance.choice([self.keeps, self._runs, self._restarts, self._switches_off, self._is_listed])
        self.loop.call_later(self.chance.choice([0, 0.1, 0.4, 2.0]), event, holder.owner.key)

    def keeps(self, key: OwnerKey) -> None:
        """A person asks for a lease of it."""
        task = self.loop.create_task(_keep(self.server, key, self.chance.choice([20, 60])))
        self.asked.add(task)
        task.add_done_callback(self.asked.discard)

    def _runs(self, key: OwnerKey) -> None:
        if (kernel := self.world.kernels.get(key.id)) is not None:
            kernel.state = OwnerState.EXECUTING

    def _restarts(self, key: OwnerKey) -> None:
        if (kernel := self.world.kernels.get(key.id)) is not None and not self.world.is_full():
            self.world.lives_on(kernel)

    def _is_listed(self, key: OwnerKey) -> None:
        self.world.faults.unlisted.discard(key.id)

    def _switches_off(self, key: OwnerKey) -> None:
        self.server.guard.adopt(self.chance.choice(POLICIES))

    async def _calm(self) -> None:
        """Faults stop, nobody works, and every warning is seen: then nothing that holds the GPU may be left."""
        world, self.is_calm = self.world, True
        world.faults = Faults(races=0.0)
        world.let_go()
        world.page = True
        for body in world.bodies.values():
            body.compute = 0.0
            body.heeds, body.may = body.heeds or signal.SIGKILL, True
        for kernel in world.kernels.values():
            kernel.state = OwnerState.IDLE
        self.server.guard.adopt(replace(QUICK, belts=Belts(1000, 1000)))
        await asyncio.sleep(4 * INTERVAL)  # until it has been looked at
        end = self.loop.time() + PATIENCE
        while self._forgotten() and self.loop.time() < end:
            await asyncio.sleep(4 * INTERVAL)
            self._look()
        if left := self._forgotten():
            raise BrokenPromiseError(f"forgotten: {left}")

    def _forgotten(self) -> list[str]:
        """Who still holds the GPU, of those that the guard knows or ought to know."""
        kernels = [str(kernel.key) for kernel in self.world.kernels.values() if kernel.root.memory >= GIB]
        kernels = [each for each in kernels if self._lives(each)]
        holders = self.server.guard.published.attribution.holders
        seen = [str(h.owner.key) for h in holders if not is_known(h.memory) or h.memory >= GIB]
        return sorted({*kernels, *seen})

    def _lives(self, key: str) -> bool:
        root = self.world.kernels[key.partition(":")[2]].root
        return self.world.bodies.get(root.key.pid) is root

    def _look(self) -> None:
        """Whether anything has broken in a task that nobody waits for."""
        if self.wrong:
            raise BrokenPromiseError("; ".join(self.wrong))
        if self.server.running.done() and not self.server.killed:
            raise BrokenPromiseError(f"the guard has stopped: {self.server.running}")

    def _end(self) -> None:
        self.counted.update(outcome.result.value for outcome in self.server.guard.published.outcomes)
        self.kill()

    def kill(self) -> None:
        """The server is no more, whatever it was about to do."""
        self.server.killed = self.server.journal.is_over = True
        for task in asyncio.all_tasks(self.loop):
            if task is not asyncio.current_task(self.loop):
                task.cancel()


def _pick(history: History, wanted: Callable[[Body], bool] = lambda _: True) -> Body | None:
    found = [body for body in history.world.bodies.values() if wanted(body)]
    return history.chance.choice(found) if found else None


def _kernel(history: History) -> Kernel | None:
    found = list(history.world.kernels.values())
    return history.chance.choice(found) if found else None


def _a_kernel_starts(history: History) -> None:
    if len(history.world.kernels) < 3 and not history.world.is_full():
        history.world.new_kernel()


def _a_child_starts(history: History) -> None:
    parent = _pick(history, lambda body: body.of is not None)
    if parent is None or history.world.is_full():
        return
    child = history.world.born(parent.of, parent.key.pid, apart=history.chance.random() < 0.7)
    child.memory = history.chance.choice([0.0, 2 * GIB])
    child.heeds = history.chance.choice([signal.SIGTERM, signal.SIGKILL, signal.SIGKILL, None])
    child.may = history.chance.random() < 0.9


def _a_stranger_starts(history: History) -> None:
    parent = _pick(history, lambda body: body.of is None)
    if not history.world.is_full():
        near = parent.key.pid if parent is not None and history.chance.random() < 0.6 else 1
        body = history.world.born(None, near, apart=history.chance.random() < 0.4)
        body.memory = history.chance.choice([0.0, 2 * GIB])


def _somebody_ends(history: History) -> None:
    roots = {kernel.root.key for kernel in history.world.kernels.values()}
    body = _pick(history, lambda body: body.key not in roots)
    if body is not None:
        history.chance.choice([history.world.ends, history.world.replaced])(body)


def _a_kernel_restarts(history: History) -> None:
    if (kernel := _kernel(history)) is not None and not history.world.is_full():
        history.world.lives_on(kernel)


def _a_kernel_is_closed(history: History) -> None:
    if (kernel := _kernel(history)) is not None:
        history.world.ends(kernel.root)
        del history.world.kernels[kernel.ident]


def _work_begins(history: History) -> None:
    body = _pick(history, lambda body: body.memory > 0)
    if body is not None:
        body.compute = 60.0


def _work_ends(history: History) -> None:
    for body in history.world.bodies.values():
        body.compute = 0.0


def _a_cell_begins(history: History) -> None:
    if (kernel := _kernel(history)) is not None:
        kernel.state = OwnerState.EXECUTING


def _cells_end(history: History) -> None:
    for kernel in history.world.kernels.values():
        if kernel.state is OwnerState.EXECUTING:
            kernel.state, kernel.used_at = OwnerState.IDLE, history.loop.time()


def _sources_fail(history: History) -> None:
    faults, chance = history.world.faults, history.chance
    sources = ("devices", "processes", "owners", "activity", "leases")
    faults.silent = {each for each in sources if chance.random() < 0.3}
    faults.late = {each for each in sources if chance.random() < 0.3}
    faults.gap = chance.random() < 0.3


def _a_kernel_is_not_listed(history: History) -> None:
    if (kernel := _kernel(history)) is not None:
        history.world.faults.unlisted.add(kernel.ident)


def _faults_end(history: History) -> None:
    history.world.faults = Faults(manners=history.world.faults.manners)


def _the_disk_is_full(history: History) -> None:
    history.world.faults.disk = True


def _nothing_can_be_published(history: History) -> None:
    history.world.faults.publishing = True


def _jupyter_changes_its_manners(history: History) -> None:
    history.world.faults.manners = history.chance.choice(["well", "raises", "hangs", "forgets", "finds nothing"])


def _pages_come_and_go(history: History) -> None:
    history.world.page = not history.world.page


def _another_policy(history: History) -> None:
    guard = history.server.guard
    history.chance.choice([guard.adopt, guard.propose])(history.chance.choice(POLICIES))


def _somebody(history: History) -> Holder | None:
    holders = history.server.guard.published.attribution.holders
    return history.chance.choice(holders) if holders else None


def _somebody_keeps(history: History) -> None:
    if (holder := _somebody(history)) is not None:
        history.keeps(holder.owner.key)


async def _keep(server: Server, key: OwnerKey, seconds: float) -> None:
    stored = not server.world.faults.disk
    with suppress(TooLateError, NoSuchOwnerError):
        lease = await server.guard.keep(key, timedelta(seconds=seconds), "", "anna")
        server.promises[key] = (lease.until, stored)


def _somebody_shuts_down(history: History) -> None:
    if (holder := _somebody(history)) is not None and Action.SHUTDOWN in history.server.offers(holder):
        history.server.guard.act(Action.SHUTDOWN, holder.owner.key, "anna")


def _the_server_is_killed(history: History) -> None:
    before = history.server
    history.counted.update(outcome.result.value for outcome in before.guard.published.outcomes)
    history.kill()
    after = Server(
        history.world,
        history.folder,
        history.entries,
        history.chance.choice(POLICIES),
        history.wrong,
        history.meanwhile,
    )
    after.promises = {key: promise for key, promise in before.promises.items() if promise[1]}
    history.server = after


_EVENTS: tuple[Callable[[History], None], ...] = (
    *[_a_child_starts] * 3,
    *[_a_stranger_starts] * 2,
    *[_somebody_ends] * 2,
    *[_a_kernel_restarts] * 2,
    *[_work_ends] * 2,
    *[_cells_end] * 2,
    *[_faults_end] * 4,
    *[_the_server_is_killed] * 2,
    *[_another_policy] * 2,
    _a_kernel_starts,
    _a_kernel_is_closed,
    _work_begins,
    _a_cell_begins,
    _sources_fail,
    _a_kernel_is_not_listed,
    _the_disk_is_full,
    _nothing_can_be_published,
    _jupyter_changes_its_manners,
    _pages_come_and_go,
    _somebody_keeps,
    _somebody_shuts_down,
)


def live(seed: int, folder: Path) -> Counter[str]:
    """One history. Gives how often acts ended in which way. Raises BrokenPromiseError, which names the seed."""

    async def whole(loop: VirtualLoop) -> Counter[str]:
        history = History(loop, seed, folder)
        with history.world.system_calls(), without_threads(history.world.lateness):
            try:
                await history.run()
            except BrokenPromiseError as error:
                raise BrokenPromiseError(f"seed {seed}: {error}") from error
            finally:
                history.kill()
                await asyncio.sleep(0)
        return history.counted

    return in_virtual_time(whole)


def live_all(count: int, first: int = 0) -> Counter[str]:
    """As many histories, from the seed `first` on. Raises BrokenPromiseError at the first that breaks a promise."""
    counted: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            place = Path(folder, str(seed))
            place.mkdir()
            counted += live(seed, place)
    return counted


if __name__ == "__main__":
    began = time.process_time()
    many, *start = map(int, sys.argv[1:])
    print(json.dumps({**live_all(many, *start), "cpu_seconds": round(time.process_time() - began, 1)}))
