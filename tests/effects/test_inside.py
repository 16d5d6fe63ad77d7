"""Asking something of a real kernel, under a real server's managers: nothing in it, and nothing about it, changes."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager

import pytest
from kernel_room import RemoteProvisioner, isolate, kernel_room, provide_kernelspec, until

from jupyter_gpu_guard.clock import SystemClock
from jupyter_gpu_guard.core.model import OwnerKey, OwnerKind, OwnerState
from jupyter_gpu_guard.effects import inside as module
from jupyter_gpu_guard.effects.inside import BrokenError, Inside, LateError, Question, UnsuitedError, WithdrawnError
from jupyter_gpu_guard.sources.kernels import KernelOwners
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses

HOW_MUCH = Question("def double(until, number):\n    return {'twice': 2 * number}", "double", {"number": 21})

# What a person can see of their kernel. It is stored nowhere in the kernel itself.
SEEN = """
(lambda ip, sys, gc: __import__("json").dumps([
    sorted(ip.user_ns), repr(ip.user_ns["_"]), repr(ip.user_ns["__"]), repr(ip.user_ns["Out"]),
    repr(ip.user_ns["In"]), ip.execution_count, sorted(sys.modules), gc.isenabled(), gc.get_threshold(),
    gc.get_debug(), str(getattr(sys, "last_value", None)), repr(ip.user_ns["mine"]),
    list(ip.history_manager.get_range()),
]))(get_ipython(), __import__("sys"), __import__("gc"))
"""


@pytest.fixture
def jupyter_data(monkeypatch, tmp_path):
    """Jupyter's data folder, empty."""
    return isolate(monkeypatch, tmp_path / "home")


@pytest.fixture
def root(jupyter_data, tmp_path):
    """The folder with the notebooks."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    return folder


class Stage:
    """One kernel, who watches it, and who asks it."""

    def __init__(self, room, owners, inside, kernel_id, client):
        self.room, self.owners, self.inside, self.client = room, owners, inside, client
        self.key = OwnerKey(OwnerKind.KERNEL, kernel_id)
        self.kernel = room.kernels.get_kernel(kernel_id)

    async def ready(self):
        """The kernel as an Owner, once everybody has heard that it is idle."""
        calm = 0  # looks in a row at which it is idle: that it became busy may be heard late, too

        def is_calm():
            nonlocal calm
            calm = calm + 1 if self.owners.look_again(self.key).state is OwnerState.IDLE else 0
            return calm > 10

        await until(is_calm, "idle")
        return self.owners.look_again(self.key)

    async def value(self, expression):
        """What an expression is in the kernel, asked as a front end does for itself."""
        reply = await self.client.execute(
            "", silent=True, store_history=False, user_expressions={"it": expression}, reply=True, timeout=60
        )
        return reply["content"]["user_expressions"]["it"]["data"]["text/plain"]


@asynccontextmanager
async def stage(root, kernel_name="python3"):
    """A stage with one kernel."""
    async with kernel_room(root) as room:
        inside = Inside(room.kernels, lambda key: owners.look_again(key))  # noqa: PLW0108 - it comes later
        owners = KernelOwners(
            room.kernels, room.sessions, ProcfsProcesses(), SystemClock(), event_logger=room.events, own=inside.session
        )
        try:
            kernel_id = await room.kernels.start_kernel(kernel_name=kernel_name)
            yield Stage(room, owners, inside, kernel_id, await room.client(kernel_id))
        finally:
            owners.close()


def test_an_idle_kernel_answers(root):
    """The function of the text is called with its arguments, and what it returns comes back."""

    async def scene():
        async with stage(root) as it:
            owner = await it.ready()
            assert await it.inside.ask(owner, HOW_MUCH, 30) == {"twice": 42}

    asyncio.run(scene())


def test_nothing_in_the_kernel_changes(root):
    """Names, `_`, `__`, `Out`, `In`, the count, the history, modules, the collector and the last error stay."""

    async def scene():
        async with stage(root) as it:
            await it.room.run(it.client, "mine = [1, 2, 3]", store_history=True)
            await it.room.run(it.client, "mine", store_history=True)
            await it.client.execute("1 / 0", reply=True, timeout=60)
            await it.room.run(it.client, "len(mine)", store_history=True)
            before = await it.value(SEEN)
            owner = await it.ready()
            failing = Question("def fail(until):\n    raise RuntimeError('the secret')", "fail")
            assert await it.inside.ask(owner, HOW_MUCH, 30) == {"twice": 42}
            with pytest.raises(BrokenError, match="RuntimeError") as caught:
                await it.inside.ask(owner, failing, 30)
            assert "secret" not in str(caught.value)
            assert await it.value(SEEN) == before
            for part in ("division by zero", "[1, 2, 3]", "len(mine)"):
                assert part in before

    asyncio.run(scene())


def test_it_is_no_activity(root):
    """Neither the server's last activity nor its word for the state moves, and for the guard nobody used it."""

    async def scene():
        async with stage(root) as it:
            await it.room.run(it.client, "1 + 1")
            await it.ready()
            heard = []
            other = it.kernel.connect_iopub()
            other.on_recv(heard.append)

            def noted():
                return it.kernel.last_activity, it.room.kernels.last_kernel_activity, it.kernel.execution_state

            await asyncio.sleep(1)  # what was broadcast before reaches everybody
            before, used = noted(), it.owners.look_again(it.key).used_at
            for _ in range(4):
                await it.inside.ask(await it.ready(), HOW_MUCH, 30)
            await until(lambda: len(heard) >= 12, "all that was broadcast to arrive")
            await asyncio.sleep(1)
            other.close()
            assert noted() == before
            owner = it.owners.look_again(it.key)
            assert (owner.used_at, owner.state) == (used, OwnerState.IDLE)
            await it.room.run(it.client, "2 + 2")
            await until(lambda: it.kernel.last_activity > before[0], "a person's cell to count as before")
            await until(lambda: it.owners.look_again(it.key).used_at > used, "and for the guard as well")

    asyncio.run(scene())


def test_while_it_answers_nobody_takes_it_for_executing(root):
    """What the guard does in a kernel protects nobody, and is shown as nothing that a person does."""

    async def scene():
        async with stage(root) as it:
            slow = Question("def slow(until):\n    import time\n    time.sleep(2)", "slow")
            asking = asyncio.ensure_future(it.inside.ask(await it.ready(), slow, 30))
            states = set()
            while not asking.done():
                states.add((it.owners.look_again(it.key).state, it.kernel.execution_state))
                await asyncio.sleep(0.05)
            await asking
            assert states == {(OwnerState.IDLE, "idle")}

    asyncio.run(scene())


def test_nothing_is_asked_while_a_cell_runs(root):
    """The request is not even sent: the cell ends, and nothing has happened after it."""

    async def scene():
        async with stage(root) as it:
            owner = await it.ready()
            mark = root / "asked"
            question = Question(f"def mark(until):\n    open({str(mark)!r}, 'w').close()", "mark")
            running = asyncio.ensure_future(it.client.execute("import time; time.sleep(3)", reply=True, timeout=60))
            await until(lambda: it.owners.look_again(it.key).state is OwnerState.EXECUTING, "the cell to run")
            with pytest.raises(WithdrawnError, match="executing"):
                await it.inside.ask(owner, question, 30)
            await running
            await it.value("1")
            assert not mark.exists()

    asyncio.run(scene())


def test_the_last_word_is_asked_right_before(root):
    """Whoever has something against it is heard once, and then nothing is asked."""

    async def scene():
        async with stage(root) as it:
            mark = root / "asked"
            question = Question(f"def mark(until):\n    open({str(mark)!r}, 'w').close()", "mark")
            asked = []

            def somebody_keeps_it():
                asked.append(True)
                return "it is kept"

            with pytest.raises(WithdrawnError, match="it is kept"):
                await it.inside.ask(await it.ready(), question, 30, somebody_keeps_it)
            await it.value("1")
            assert asked == [True]
            assert not mark.exists()

    asyncio.run(scene())


def test_an_answer_that_takes_too_long_is_not_waited_for(root):
    """After the deadline it is said that it was late; the kernel is not interrupted, and later answers again."""

    async def scene():
        async with stage(root) as it:
            owner = await it.ready()
            mark = root / "done"
            slow = Question(
                f"def slow(until):\n    import time\n    time.sleep(4)\n    open({str(mark)!r}, 'w').close()", "slow"
            )
            with pytest.raises(LateError, match="not interrupted") as caught:
                await it.inside.ask(owner, slow, 2)
            assert caught.value.begun
            await until(mark.exists, "what was begun to come to its end")
            assert await it.inside.ask(owner, HOW_MUCH, 30) == {"twice": 42}

    asyncio.run(scene())


def test_what_comes_too_late_is_not_done_any_more(root):
    """A request that a cell has held up beyond its time does nothing when its turn comes."""

    async def scene():
        async with stage(root) as it:
            mark = root / "done"
            question = Question(f"def mark(until):\n    open({str(mark)!r}, 'w').close()", "mark")
            text = await it.value(question.expression(until=0.0))
            assert "namespace" in text
            assert not mark.exists()

    asyncio.run(scene())


def test_a_kernel_that_is_stuck_is_not_asked(root, monkeypatch):
    """One that seems idle and does not say who it is gets no question, and so none is left in its queue."""
    monkeypatch.setattr(module, "READY_WITHIN", 1.0)

    async def scene():
        async with stage(root) as it:
            mark = root / "asked"
            question = Question(f"def mark(until):\n    open({str(mark)!r}, 'w').close()", "mark")
            # What a cell has left in the loop of the kernel holds up its shell, and is no cell.
            await it.room.run(
                it.client, "import asyncio, time\nasyncio.get_running_loop().call_later(1, time.sleep, 6)"
            )
            owner = await it.ready()
            await asyncio.sleep(1.5)
            with pytest.raises(LateError, match="did not answer") as caught:
                await it.inside.ask(owner, question, 30)
            assert not caught.value.begun
            await it.value("1")
            assert not mark.exists()

    asyncio.run(scene())


def test_another_process_is_not_asked(root):
    """After a restart the verdict on the earlier process says nothing any more."""

    async def scene():
        async with stage(root) as it:
            owner = await it.ready()
            await it.room.kernels.restart_kernel(it.key.id)
            with pytest.raises(WithdrawnError):
                await it.inside.ask(owner, HOW_MUCH, 30)

    asyncio.run(scene())


def test_a_kernel_that_has_ended_is_not_asked(root):
    """It is said that it has ended."""

    async def scene():
        async with stage(root) as it:
            owner = await it.ready()
            it.client.stop_channels()
            await it.room.kernels.shutdown_kernel(it.key.id, now=True)
            with pytest.raises(UnsuitedError):
                await it.inside.ask(owner, HOW_MUCH, 30)

    asyncio.run(scene())


def test_kernels_elsewhere_and_other_owners_are_unsuited(root, jupyter_data):
    """A remote kernel and a terminal cannot be asked, and it is said why."""
    provide_kernelspec(jupyter_data, "remote", RemoteProvisioner)

    async def scene():
        async with stage(root, "remote") as it:
            owner = it.owners.look_again(it.key)
            with pytest.raises(UnsuitedError, match="another machine"):
                await it.inside.ask(owner, HOW_MUCH, 30)
            assert "terminal" in it.inside.why_unsuited(
                owner.__class__(OwnerKey(OwnerKind.TERMINAL, "1"), "1", None, OwnerState.UNKNOWN)
            )

    asyncio.run(scene())


OTHER = """
import sys
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp

class Other(IPythonKernel):
    implementation = "other"

IPKernelApp.launch_instance(kernel_class=Other)
"""


@pytest.mark.parametrize("language", ["R", "python"])
def test_another_language_or_implementation_is_unsuited(root, jupyter_data, language):
    """Only an IPython kernel is asked: a kernelspec for Python may hide another program behind it."""
    folder = jupyter_data / "kernels" / "other"
    folder.mkdir(parents=True)
    (folder / "kernel.py").write_text(OTHER)
    argv = [sys.executable, str(folder / "kernel.py"), "-f", "{connection_file}"]
    (folder / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "other", "language": language}))

    async def scene():
        async with stage(root, "other") as it:
            owner = await it.ready()
            with pytest.raises(UnsuitedError, match="a kernel for R" if language == "R" else "no IPython kernel"):
                await it.inside.ask(owner, HOW_MUCH, 30)

    asyncio.run(scene())


def test_a_server_that_notes_activity_in_its_own_way_is_not_asked(root):
    """Where asking would count as activity, nothing is asked."""

    async def scene():
        async with stage(root) as it:
            owner = await it.ready()
            it.room.kernels.stop_watching_activity(it.key.id)
            with pytest.raises(UnsuitedError, match="would count"):
                await it.inside.ask(owner, HOW_MUCH, 30)

    asyncio.run(scene())
