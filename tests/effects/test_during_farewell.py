"""What happens while a real kernel of a real server saves before its end: pages, clients, interrupts, restarts."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from fake_devices import GIB
from kernel_room import isolate, kernel_room, until
from server_room import server_room
from shutdown_scene import shutdown_scene, verdict_on

from jupyter_gpu_guard.core.model import Holder, Owner, OwnerKey, OwnerKind, OwnerState
from jupyter_gpu_guard.core.verdict import Result
from jupyter_gpu_guard.effects.doors import KernelDoor, RefusedError
from jupyter_gpu_guard.effects.shutdown import Shutdown

HOOK = """
import jupyter_gpu_guard, time
@jupyter_gpu_guard.on_shutdown
def save():
    open('saving', 'w').close()
    time.sleep({seconds})
    open('saved', 'w').close()
"""
CELL = "open('used', 'w').close()\nimport time\ntime.sleep({seconds})\nopen('done', 'w').close()"


@pytest.fixture
def root(monkeypatch, tmp_path):
    """The folder with the notebooks."""
    isolate(monkeypatch, tmp_path / "home")
    monkeypatch.delenv("JUPYTER_GPU_GUARD_SIMULATED_DIR", raising=False)
    folder = tmp_path / "notebooks"
    folder.mkdir()
    return folder


class Saving:
    """A kernel that saves, since it is about to be shut down; a page and another client are connected to it."""

    def __init__(self, room, root, kernel_id, page, client):
        self.room, self.root, self.id, self.page, self.client = room, root, kernel_id, page, client
        self.act = None

    def is_there(self, name):
        """Whether the kernel has written this file."""
        return (self.root / name).exists()

    def send(self, way, seconds=2):
        """Send a cell that takes so long."""
        cell = CELL.format(seconds=seconds)
        if way == "page":
            self.page.run(cell)
        else:
            self.client.execute(cell)

    async def is_spared(self):
        """Wait until the act is withdrawn. Gives why."""
        outcome = await self.act
        assert outcome.result is Result.WITHDRAWN, outcome.detail
        assert self.id in self.room.app.kernel_manager
        return outcome.detail


@asynccontextmanager
async def saving(root, *, asked=False, seconds=3, hook_time=60.0):
    """A kernel in the middle of its farewell, which takes so many seconds, by a rule or because a person asked."""
    async with server_room(root) as room:
        enforcer = room.guard.guard._enforcer
        enforcer._shutdown._farewell._within = hook_time
        kernel_id = await room.notebook("training.ipynb")
        key = OwnerKey(OwnerKind.KERNEL, kernel_id)
        page = await room.page(kernel_id)
        client = room.app.kernel_manager.get_kernel(kernel_id).client()
        client.start_channels()
        try:
            await client.wait_for_ready(timeout=60)
            await page.end_of(page.run(HOOK.format(seconds=seconds)))
            await until(lambda: room.owners.look_again(key).state is OwnerState.IDLE, "the end of the cell")
            one = Saving(room, root, kernel_id, page, client)
            while not one.is_there("saving"):  # the server may note a little later that the cell had begun
                owner = room.owners.look_again(key)
                holder = Holder(owner, (), (owner.root,))
                act = one.act = asyncio.ensure_future(enforcer.enforce(verdict_on(holder, asked=asked), holder))
                await until(lambda act=act: act.done() or one.is_there("saving"), "it saves")
            yield one
        finally:
            client.stop_channels()


@pytest.mark.parametrize("way", ["page", "client"])
def test_a_cell_sent_while_it_saves_is_run(root, way):
    """It waits until the kernel has saved; then it runs to its end, and the kernel lives on."""

    async def scene():
        async with saving(root) as one:
            one.send(way)
            assert await one.is_spared() in ("it is executing again", "it has been used since")
            assert one.is_there("saved")
            await until(lambda: one.is_there("done"), "the cell has ended")

    asyncio.run(scene())


def test_a_page_is_heard_also_when_the_kernel_is_late(root):
    """It is not done with what was registered, and cannot say that a cell is waiting; the page's request tells it."""

    async def scene():
        async with saving(root, seconds=25, hook_time=10.0) as one:
            one.send("page")
            assert await one.is_spared() == "it is executing again"
            await until(lambda: one.is_there("done"), "the cell has ended")

    asyncio.run(scene())


def test_one_that_is_late_is_cut_off(root):
    """A rule waits no longer than it says; what was being written then is not complete."""

    async def scene():
        async with saving(root, seconds=25, hook_time=10.0) as one:
            outcome = await one.act
            assert outcome.result is Result.DONE
            assert "was not over within 10 s" in outcome.detail
            assert not one.is_there("saved")

    asyncio.run(scene())


def test_a_person_who_shuts_it_down_learns_of_the_cell(root):
    """Their wish goes first, and the outcome says what it has ended."""

    async def scene():
        async with saving(root, asked=True) as one:
            one.send("page", 600)
            outcome = await one.act
            assert outcome.result is Result.DONE
            assert "; a cell had begun or was waiting by then; before that, save was called" in outcome.detail

    asyncio.run(scene())


def test_whoever_interrupts_it_is_there(root):
    """The kernel saves no more, and lives on."""

    async def scene():
        async with saving(root) as one:
            await one.room.ask("POST", f"api/kernels/{one.id}/interrupt")
            assert await one.is_spared() in ("it was interrupted meanwhile", "it has been used since")
            assert not one.is_there("saved")

    asyncio.run(scene())


def test_whoever_restarts_it_is_there(root, caplog):
    """It is restarted and nothing else is done to it."""

    async def scene():
        async with saving(root) as one:
            before = one.room.owners.look_again(OwnerKey(OwnerKind.KERNEL, one.id)).root
            await one.room.ask("POST", f"api/kernels/{one.id}/restart")
            await one.is_spared()
            after = one.room.owners.look_again(OwnerKey(OwnerKind.KERNEL, one.id)).root
            assert after not in (None, before)

    asyncio.run(scene())
    assert "InvalidStateError" not in caplog.text


def test_in_the_middle_of_a_restart_jupyter_is_not_asked_for_a_shutdown(root):
    """Not even for a person: it would break both. Afterwards it may be asked again."""

    async def scene():
        async with kernel_room(root) as room:
            kernel_id = await room.kernels.start_kernel()
            client = await room.client(kernel_id)
            await room.run(client, "1 + 1")
            kernel = room.kernels.get_kernel(kernel_id)
            door = KernelDoor(room.kernels)
            owner = Owner(OwnerKey(OwnerKind.KERNEL, kernel_id), "a.ipynb", None, OwnerState.IDLE)
            holder = Holder(owner)
            assert door.why_not(holder, owner, None) is None
            restart = asyncio.ensure_future(room.kernels.restart_kernel(kernel_id))
            await until(lambda: kernel.shutting_down, "it is being restarted")
            assert door.why_not(holder, owner, None) == "somebody restarts it or shuts it down"
            with pytest.raises(RefusedError, match="somebody restarts it"):
                await door.knock(owner)
            await restart
            assert door.why_not(holder, owner, None) is None
            await door.knock(owner)
            assert not door.has(owner)

    asyncio.run(scene())


class FakeFarewell:
    """Saves, and meanwhile the devices show something else, for so many readings."""

    def __init__(self, devices, root, compute, readings):
        self._devices, self._root, self._compute, self._readings = devices, root, compute, readings

    async def __call__(self, verdict, holder):
        """Ask it."""
        look, left = self._devices.look, self._readings

        async def changed():
            nonlocal left
            self._devices.hold(self._root, 6 * GIB, self._compute if left > 0 else 0.0)
            left -= 1
            return await look()

        self._devices.look = changed
        return "before that, save was called"


@pytest.mark.parametrize(
    ("readings", "result"), [(1, Result.DONE), (1000, Result.WITHDRAWN)], ids=["for its saving", "anew"]
)
def test_the_devices_are_read_again_after_it(root, readings, result):
    """Compute that began meanwhile withdraws a rule's act; what was computed for saving is soon over."""

    async def scene():
        async with shutdown_scene(root) as scene:
            holder, _ = await scene.kernel()
            devices = scene.devices
            means = {**scene.means(), "look": lambda: devices.look()}  # noqa: PLW0108 - it is replaced meanwhile
            farewell = FakeFarewell(devices, holder.owner.root, 80.0, readings)
            verdict = replace(verdict_on(holder), compute_below=5.0)
            outcome = await Shutdown(**means, farewell=farewell).shut_down(verdict, holder)
            assert outcome.result is result
            if result is Result.WITHDRAWN:
                assert outcome.detail == "it computes again"

    asyncio.run(scene())
