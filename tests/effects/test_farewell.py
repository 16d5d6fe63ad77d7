"""Before a real kernel of a real server is shut down, it does what its person has registered."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from fake_devices import GIB
from kernel_room import isolate, until
from server_room import server_room
from shutdown_scene import shutdown_scene, verdict_on

from jupyter_gpu_guard.core.model import Holder, Owner, OwnerKey, OwnerKind, OwnerState, ProcessKey
from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.core.verdict import Result
from jupyter_gpu_guard.effects.farewell import Farewell
from jupyter_gpu_guard.effects.shutdown import Shutdown


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
