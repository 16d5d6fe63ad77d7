"""What the Observer puts together, and what becomes of a source that fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from fake_clock import NOON, FakeClock
from fake_processes import FakeProcesses

from jupyter_gpu_guard.core.attribute import attribute
from jupyter_gpu_guard.core.model import (
    Activity,
    Device,
    Gap,
    GpuClient,
    Mark,
    Owner,
    OwnerKey,
    OwnerKind,
    OwnerState,
    Process,
    ProcessKey,
    Reading,
    Unknown,
    Why,
)
from jupyter_gpu_guard.observe import Observer
from jupyter_gpu_guard.protocols import DevicesSeen

KERNEL, ALIEN = ProcessKey(100, 1000), ProcessKey(300, 3000)
BOARD = ProcessKey(200, 2000)
KEY, BOARD_KEY = OwnerKey(OwnerKind.KERNEL, "a"), OwnerKey(OwnerKind.TENSORBOARD, "b")
GPU = Device("GPU-0", 0, "Fake", 80 * 2.0**30, 2 * 2.0**30)


class FakeGpu:
    """One device with the pids in `on` on it."""

    simulated = False

    def __init__(self) -> None:
        self.on = [KERNEL.pid]
        self.fails = False
        self.compute: list[Reading] = []
        self.overall: list[Reading] = []

    def read(self) -> DevicesSeen:
        """Who is on it. What it was told to say of compute it says once, as a driver does."""
        compute = self.compute.pop(0) if self.compute else 0.0
        overall = self.overall.pop(0) if self.overall else 0.0
        if self.fails:
            raise OSError("too late")
        clients = tuple(GpuClient("GPU-0", pid, 2.0**30, compute) for pid in self.on)
        return DevicesSeen((replace(GPU, overall=overall),), clients)

    def close(self) -> None:
        """Nothing to let go of."""


class FakeOwners:
    """One kernel and one TensorBoard."""

    def __init__(self) -> None:
        self.key = KEY
        self.state = OwnerState.IDLE
        self.used_at: float | None = None
        self.fails = False

    async def read(self, processes=None):
        """Both, unless told to fail."""
        if self.fails:
            raise OSError("out of files")
        return (
            Owner(self.key, "a.ipynb", KERNEL, self.state, used_at=self.used_at, own_ports=frozenset({5000})),
            Owner(BOARD_KEY, "TensorBoard", BOARD, OwnerState.IDLE),
        )


class FakeInsight:
    """Says what it was asked for, and answers the same each time."""

    def __init__(self) -> None:
        self.marked: list[set[ProcessKey]] = []
        self.looked: list[tuple[dict, dict]] = []
        self.threads: set[threading.Thread] = set()
        self.fails = False

    def marks(self, keys):
        """A mark for each."""
        self.marked.append(set(keys))
        return {key: Mark(1, "/a.ipynb") for key in keys}

    def activity(self, trees, own_ports):
        """A visitor for each."""
        self.threads.add(threading.current_thread())
        if self.fails:
            raise OSError("out of files")
        self.looked.append((dict(trees), dict(own_ports)))
        return {owner: Activity(visitors=1) for owner in trees}


class Scene:
    """An Observer over fakes, which looks every five seconds and looks closer every thirty."""

    def __init__(self) -> None:
        self.clock, self.gpu, self.owners, self.insight = FakeClock(), FakeGpu(), FakeOwners(), FakeInsight()
        self.processes = FakeProcesses(
            *(Process(key, 1, key.pid, key.pid, "S", NOON) for key in (KERNEL, BOARD, ALIEN))
        )
        self.silent: list[Gap] = []
        self.loop = asyncio.new_event_loop()
        self.observer = Observer(
            *(self.clock, self.gpu, self.processes, self.owners),
            insight=self.insight,
            activity_every=30,
            of_owners=lambda: tuple(self.silent),
        )
        self.before = attribute(self.loop.run_until_complete(self.observer.observe()), {})

    def look(self, count: int = 1):
        """So many more looks, and the last Snapshot."""

        async def looks():
            for _ in range(count):
                self.clock.advance(5)
                snapshot = await self.observer.observe(self.before)
                self.before = attribute(snapshot, self.before.lineage)
            return snapshot

        return self.loop.run_until_complete(looks())


@pytest.fixture
def scene() -> Iterator[Scene]:
    """After its first look."""
    it = Scene()
    yield it
    it.loop.close()


def test_activity_is_read_now_and_then_off_the_loop_and_stays_between(scene: Scene) -> None:
    """Of the trees that hold a device, and of TensorBoards, with the ports that are Jupyter's."""
    seen = scene.look(13)
    assert scene.insight.looked == [({KEY: (KERNEL,), BOARD_KEY: (BOARD,)}, {KEY: {5000}, BOARD_KEY: set()})] * 3
    assert seen.activity == {KEY: Activity(visitors=1), BOARD_KEY: Activity(visitors=1)}
    assert threading.main_thread() not in scene.insight.threads


def test_a_kernel_without_a_device_is_not_looked_into(scene: Scene) -> None:
    """What it does is nobody's business."""
    scene.gpu.on = []
    scene.look(20)
    assert KEY not in scene.insight.looked[-1][0]


def test_marks_are_read_only_where_nothing_else_is_known(scene: Scene) -> None:
    """Of a process on a device that is nobody's, with those of the owners' roots beside it."""
    scene.insight.marked.clear()
    assert scene.look().marks == {}
    scene.gpu.on.append(ALIEN.pid)
    seen = scene.look()
    assert scene.insight.marked == [{ALIEN, KERNEL, BOARD}]
    assert set(seen.marks) == {ALIEN, KERNEL, BOARD}


def test_marks_are_read_in_terminals_that_hold_a_device_down_to_what_began_just_now(scene: Scene) -> None:
    """Another server may run kernels there."""
    scene.owners.key = OwnerKey(OwnerKind.TERMINAL, "1")
    child, grandchild, older = ProcessKey(401, 4010), ProcessKey(402, 4020), ProcessKey(403, 1)
    scene.look()
    scene.insight.marked.clear()
    parents = {child: KERNEL.pid, grandchild: child.pid, older: KERNEL.pid}
    rows = (Process(key, parent, key.pid, key.pid, "S", NOON) for key, parent in parents.items())
    scene.processes.table |= {row.key.pid: row for row in rows}
    assert set(scene.look().marks) == {KERNEL, child, grandchild}
    scene.gpu.on = []
    scene.look(2)
    scene.insight.marked.clear()
    assert scene.look().marks == {}
    assert scene.insight.marked == []


def test_insight_that_fails_is_a_gap_of_itself_and_forgets_what_it_knew(scene: Scene) -> None:
    """The rest of the Snapshot is whole, and it is asked again at the next look."""
    scene.look(2)
    scene.insight.fails = True
    seen = scene.look(7)
    assert [gap.source for gap in seen.gaps] == ["activity"]
    assert "out of files" in seen.gaps[0].why
    assert seen.activity == {}
    assert seen.clients
    assert seen.owners
    scene.insight.fails = False
    seen = scene.look()
    assert (seen.gaps, set(seen.activity)) == ((), {KEY, BOARD_KEY})


@pytest.mark.parametrize("what", ["a cell runs", "a cell has run", "owners fail"])
def test_what_stirs(scene: Scene, what: str) -> None:
    """Nothing, until something begins, has begun and ended since the last look, or cannot be told."""
    scene.look()
    assert not scene.loop.run_until_complete(scene.observer.stirs())
    scene.owners.state = OwnerState.EXECUTING if what == "a cell runs" else OwnerState.IDLE
    scene.owners.used_at = 7.0 if what == "a cell has run" else None
    scene.owners.fails = what == "owners fail"
    assert scene.loop.run_until_complete(scene.observer.stirs())


GONE, UNASKED = Unknown(Why.NOT_READ), Unknown(Why.NOT_SUPPORTED)


@pytest.mark.parametrize(
    ("between", "afterwards", "seen"),
    [(40.0, 0.0, 40.0), (0.0, 40.0, 40.0), (GONE, 0.0, GONE), (40.0, GONE, GONE), (UNASKED, 3.0, 3.0)],
)
def test_compute_seen_by_an_extra_look_is_not_lost(scene: Scene, between, afterwards, seen) -> None:
    """The driver tells it only once: the next Snapshot has the higher of the two, and Unknown beats all."""
    scene.gpu.compute, scene.gpu.overall = [between, afterwards], [between, afterwards]
    scene.loop.run_until_complete(scene.observer.look())
    snapshot = scene.look()
    assert [client.compute for client in snapshot.clients] == [seen]
    assert snapshot.devices[0].overall == seen


def test_an_extra_look_that_failed_makes_compute_unknown_once(scene: Scene) -> None:
    """What the driver told then, it does not tell again."""
    scene.gpu.compute, scene.gpu.fails = [90.0], True
    assert scene.loop.run_until_complete(scene.observer.look()) is None
    scene.gpu.fails = False
    for expected in (Why.NOT_READ, None):
        snapshot = scene.look()
        readings = [*(client.compute for client in snapshot.clients), snapshot.devices[0].overall]
        assert [reading.why if isinstance(reading, Unknown) else None for reading in readings] == [expected] * 2


def test_one_kind_of_owners_that_cannot_be_listed_is_a_gap_of_itself(scene: Scene) -> None:
    """It is said, and blinds nobody: what is not known of its owners they say themselves."""
    scene.silent = [Gap("terminals", "the terminals could not be listed")]
    seen = scene.look()
    assert seen.gaps == (scene.silent[0],)
    (kernel,) = (holder for holder in scene.before.holders if holder.owner.key == KEY)
    assert kernel.memory == 2.0**30
