"""Before a real kernel of a real server is shut down, it does what its person has registered."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from fake_clock import NOON
from fake_devices import GIB, GPU
from kernel_room import isolate, until
from server_room import server_room
from shutdown_scene import shutdown_scene, verdict_on

from jupyter_gpu_guard.core.model import Device, Holder, Owner, OwnerKey, OwnerKind, OwnerState, ProcessKey
from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.core.verdict import Result
from jupyter_gpu_guard.effects.farewell import Farewell
from jupyter_gpu_guard.effects.shutdown import Shutdown
from jupyter_gpu_guard.parking.answer import Answer, State
from jupyter_gpu_guard.parking.registry import Entry, Phase
from jupyter_gpu_guard.protocols import DevicesSeen


@pytest.fixture
def root(monkeypatch, tmp_path):
    """The folder with the notebooks."""
    isolate(monkeypatch, tmp_path / "home")
    monkeypatch.delenv("JUPYTER_GPU_GUARD_SIMULATED_DIR", raising=False)
    folder = tmp_path / "notebooks"
    folder.mkdir()
    return folder


def play(root, scene, hook_time=60.0):
    """Act `scene` with a server, a kernel and a page on it."""

    async def whole():
        async with server_room(root) as room:
            room.guard.guard._enforcer._shutdown._farewell._within = hook_time
            kernel_id = await room.notebook("training.ipynb")
            key = OwnerKey(OwnerKind.KERNEL, kernel_id)
            page = await room.page(kernel_id)

            async def run(code):
                await page.end_of(page.run(code))
                await until(lambda: room.owners.look_again(key).state is OwnerState.IDLE, "the end of the cell")
                await room.guard.guard.tick()

            def shut_down():
                return room.guard.guard.act(Action.SHUTDOWN, key, "anna")

            await scene(run, shut_down, page)

    asyncio.run(whole())


def test_what_was_registered_is_done_before_the_end(root):
    """The file is there when the kernel has gone, and the outcome says that it was called."""

    async def scene(run, shut_down, page):
        await run(
            "import jupyter_gpu_guard\n"
            "@jupyter_gpu_guard.on_shutdown\n"
            "def save():\n"
            "    open('saved', 'w').write(str(6 * 7))"
        )
        outcome = await shut_down()
        assert outcome.result is Result.DONE
        assert "before that, save was called" in outcome.detail
        assert (root / "saved").read_text() == "42"

    play(root, scene)


def test_a_failure_is_told_and_stops_nothing(root):
    """The kernel ends, and the outcome names the kind of the error and not its text."""

    async def scene(run, shut_down, page):
        await run("import jupyter_gpu_guard\ndef save(): raise OSError('secret')\njupyter_gpu_guard.on_shutdown(save)")
        outcome = await shut_down()
        assert outcome.result is Result.DONE
        assert "save, registered for its end, failed (OSError)" in outcome.detail
        assert "secret" not in outcome.detail

    play(root, scene)


def test_one_that_takes_too_long_is_waited_for_to_its_deadline_only(root):
    """Then the kernel is shut down all the same, and the outcome says so."""

    async def scene(run, shut_down, page):
        await run("import jupyter_gpu_guard, time\njupyter_gpu_guard.on_shutdown(lambda: time.sleep(600))")
        outcome = await shut_down()
        assert outcome.result is Result.DONE
        assert "was not over within 2 s" in outcome.detail

    play(root, scene, hook_time=2.0)


def test_nothing_is_said_where_nothing_was_registered(root):
    """A kernel without the package's functions just ends."""

    async def scene(run, shut_down, page):
        await run("x = 1")
        outcome = await shut_down()
        assert outcome.result is Result.DONE
        assert "registered" not in outcome.detail

    play(root, scene)


def test_a_kernel_that_executes_is_not_asked(root):
    """A person may end it in the middle of a cell; what was registered is for an idle kernel."""

    async def scene(run, shut_down, page):
        await run(
            "import jupyter_gpu_guard, time\n"
            "def save(): open('saved', 'w').close()\n"
            "jupyter_gpu_guard.on_shutdown(save)"
        )
        request = page.run("print('begun', flush=True)\nwhile True: time.sleep(0.1)")
        await page.receive("stream", request)
        outcome = await shut_down()
        assert outcome.result is Result.DONE
        assert not (root / "saved").exists()

    play(root, scene)


# ---- a parked kernel ----

SAVES = "import jupyter_gpu_guard\n@jupyter_gpu_guard.on_shutdown\ndef save(): open('saved', 'w').close()"
NO_ROOM = (
    "it is parked and may have something to save, and GPU 0 has no room for it; "
    "resume it first, or end it by Jupyter's own shutdown, which saves nothing"
)


class FakeDriver:
    """Brings a parked process back as it is told to, and notes what was saved by then."""

    def __init__(self, root) -> None:
        self._root = root
        self.used = 0.0
        self.brings_back = True
        self.saved_before: list[bool] = []

    async def look(self):
        """One GPU."""
        return DevicesSeen((Device(GPU, 0, "Fake", 80 * GIB, self.used),))

    async def ask(self, do, process):
        """Bring it back."""
        assert do == "resume"
        self.saved_before.append((self._root / "saved").exists())
        if self.brings_back:
            return Answer(State.RUNNING, None, None, 0.1)
        return Answer(State.CHECKPOINTED, "restore", "the driver refuses the step restore", 0.1)


def play_parked(root, code, scene):
    """Act `scene` with a kernel that is parked once it has run `code`."""

    async def whole():
        async with server_room(root) as room:
            guard = room.guard.guard
            key = OwnerKey(OwnerKind.KERNEL, await room.notebook("training.ipynb"))
            page = await room.page(key.id)
            await page.end_of(page.run(code))
            await until(lambda: room.owners.look_again(key).state is OwnerState.IDLE, "the end of the cell")
            driver, resume = FakeDriver(root), guard._enforcer._remedies[Action.RESUME]
            resume._means = replace(resume._means, look=driver.look, ask=driver.ask)
            process = room.owners.look_again(key).root
            room.guard._registry.put(Entry(key, "training", process, process, NOON, {GPU: 6 * GIB}, Phase.PARKED))
            await guard.tick()
            assert guard.published.holder(key).owner.parked is not None
            await scene(driver, lambda: guard.act(Action.SHUTDOWN, key, "anna"), room, key)

    asyncio.run(whole())


def test_a_parked_kernel_is_resumed_before_it_saves(root):
    """What it asks of its GPU would wait otherwise, until its time was over: first it is back, then it is asked."""

    async def scene(driver, shut_down, room, key):
        outcome = await shut_down()
        assert (outcome.result, driver.saved_before) == (Result.DONE, [False])
        assert "before that, save was called" in outcome.detail
        assert (root / "saved").exists()

    play_parked(root, SAVES, scene)


def test_a_parked_kernel_without_room_is_not_ended_before_it_has_saved(root):
    """Nothing is done to it, it waits in no line to come back, and it is said what helps."""

    async def scene(driver, shut_down, room, key):
        driver.used = 79 * GIB
        outcome = await shut_down()
        assert (outcome.result, outcome.detail) == (Result.FAILED, NO_ROOM)
        now = room.guard.guard._enforcer._shutdown._owners.look_again(key)
        assert (now.state, now.parked.waiting) == (OwnerState.IDLE, None)
        assert (driver.saved_before, (root / "saved").exists()) == ([], False)
        driver.used = 0.0  # there is room again
        assert (await shut_down()).result is Result.DONE
        assert (root / "saved").exists()

    play_parked(root, SAVES, scene)


def test_a_parked_kernel_that_does_not_come_back_is_not_ended(root):
    """The driver's word is told, and it stays parked."""

    async def scene(driver, shut_down, room, key):
        driver.brings_back = False
        outcome = await shut_down()
        assert outcome.result is Result.FAILED
        assert outcome.detail.startswith("it is parked and may have something to save; the driver refuses the step")
        assert room.guard._registry.of(key, room.owners.look_again(key).root) is not None

    play_parked(root, SAVES, scene)


def test_a_parked_kernel_with_nothing_to_save_just_ends(root):
    """It is not resumed for that, and needs no room."""

    async def scene(driver, shut_down, room, key):
        driver.used = 79 * GIB
        assert (await shut_down()).result is Result.DONE
        assert driver.saved_before == []

    play_parked(root, "x = 1", scene)


def test_what_a_rule_finds_parked_it_leaves(root):
    """Nothing is done to a parked kernel but by a person: it was parked in the last moment."""

    async def scene(driver, shut_down, room, key):
        guard = room.guard.guard
        holder = guard.published.holder(key)
        outcome = await guard._enforcer.enforce(verdict_on(holder), holder)
        assert (outcome.result, outcome.detail) == (Result.WITHDRAWN, "it is parked already")
        assert room.owners.look_again(key).state is OwnerState.IDLE

    play_parked(root, SAVES, scene)


class FakeFarewell:
    """Takes its time, in which something may happen; then the kernel has saved."""

    def __init__(self, meanwhile):
        self._meanwhile = meanwhile
        self.asked = 0

    async def __call__(self, verdict, holder):
        """Ask it."""
        self.asked += 1
        await self._meanwhile()
        return "before that, save was called"


def act_with(root, meanwhile, spared=lambda: False, compute=0.0):
    """Have a rule shut a kernel down while `meanwhile` happens during its farewell. Gives outcome and farewell."""

    async def whole():
        async with shutdown_scene(root) as scene:
            holder, client = await scene.kernel()
            scene.devices.hold(holder.owner.root, 6 * GIB, compute)
            farewell = FakeFarewell(lambda: meanwhile(scene, holder, client))
            shutdown = Shutdown(**scene.means(), farewell=farewell)
            verdict = replace(verdict_on(holder), compute_below=5.0)
            return await shutdown.shut_down(verdict, holder, spared), farewell

    return asyncio.run(whole())


async def nothing(scene, holder, client):
    """Nothing happens."""


def test_whoever_comes_back_during_the_farewell_keeps_their_kernel(root):
    """The last look is after it: a cell that was run meanwhile withdraws the shutdown."""

    async def a_cell(scene, holder, client):
        await scene.run(holder.owner.key, client, "2 + 2")

    outcome, farewell = act_with(root, a_cell)
    assert (outcome.result, outcome.detail, farewell.asked) == (Result.WITHDRAWN, "it has been used since", 1)


def test_whoever_keeps_it_during_the_farewell_is_heard(root):
    """Until it is over, it is not too late."""
    outcome, _ = act_with(root, nothing, spared=lambda: True)
    assert (outcome.result, outcome.detail) == (Result.WITHDRAWN, "it was kept at the last moment")


def test_a_kernel_that_is_not_going_to_end_is_not_asked(root):
    """One that computes is left alone, and so it has nothing to save."""
    outcome, farewell = act_with(root, nothing, compute=80.0)
    assert (outcome.result, farewell.asked) == (Result.WITHDRAWN, 0)


def test_what_was_saved_is_in_the_outcome(root):
    """After what was freed."""
    outcome, _ = act_with(root, nothing)
    assert outcome.result is Result.DONE
    assert outcome.detail.startswith("freed 6.0 GiB")
    assert outcome.detail.endswith("; before that, save was called")


def test_what_it_has_started_for_that_ends_with_it(root):
    """A process that came during the farewell, and holds a device, is the kernel's like those before."""

    async def whole():
        async with shutdown_scene(root) as scene:
            holder, client = await scene.kernel()
            children = []

            async def start_one():
                children.append(await scene.stubborn_child(holder, client))
                scene.devices.hold(children[0], 2 * GIB)

            shutdown = Shutdown(**scene.means(), farewell=FakeFarewell(start_one))
            outcome = await shutdown.shut_down(verdict_on(holder, asked=True), holder)
            assert outcome.result is Result.DONE
            assert not scene.lives(children[0])

    asyncio.run(whole())


class FakeInside:
    """Answers what a test says, or raises it."""

    def __init__(self, answer):
        self._answer = answer

    async def ask(self, owner, question, within, unless):
        """Answer."""
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize("answer", [OSError("a socket"), {"done": 5}, "nonsense"])
def test_whatever_goes_wrong_stops_no_shutdown(answer):
    """A kernel may answer anything at all, and a kernel manager raise it: it is told by its kind."""
    owner = Owner(OwnerKey(OwnerKind.KERNEL, "k"), "a.ipynb", ProcessKey(100, 7), OwnerState.IDLE)
    holder = Holder(owner)
    farewell = Farewell(FakeInside(answer), {owner.key: owner}.get, 60.0)
    said = asyncio.run(farewell(verdict_on(holder), holder))
    assert said.startswith("what was registered for its end could not be asked for (")
