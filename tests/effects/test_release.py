"""Release in a real kernel of a real server. The GPU is simulated, and so is the allocator of the framework on it."""

from __future__ import annotations

import asyncio
import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from fake_devices import GIB, GPU
from kernel_room import isolate, until
from server_room import server_room

from jupyter_gpu_guard.core.model import OwnerKey, OwnerKind, OwnerState, ProcessKey
from jupyter_gpu_guard.effects.held import Grip, Held
from jupyter_gpu_guard.effects.release import say

FRAMEWORKS = Path(__file__).parents[1] / "support" / "frameworks"
MODEL = "import torch\nmodel = torch.zeros(2 * 2**30)\nbatch = torch.zeros(3 * 2**30)\n"
SEEN = (
    '__import__("json").dumps([sorted(get_ipython().user_ns), repr(_), repr(Out), repr(In), '
    'get_ipython().execution_count, sorted(__import__("sys").modules)])'
)


@pytest.fixture
def root(monkeypatch, tmp_path):
    """The folder with the notebooks. Kernels find the frameworks of these tests."""
    isolate(monkeypatch, tmp_path / "home")
    monkeypatch.setenv("PYTHONPATH", str(FRAMEWORKS))
    monkeypatch.delenv("JUPYTER_GPU_GUARD_SIMULATED_DIR", raising=False)
    folder = tmp_path / "notebooks"
    folder.mkdir()
    return folder


class Desk:
    """A notebook, its page, and what the guard says of it."""

    def __init__(self, room, kernel_id, page):
        self.room, self.kernel_id, self.page = room, kernel_id, page
        self.key = OwnerKey(OwnerKind.KERNEL, kernel_id)

    async def run(self, code):
        """Run a cell to its end, until the guard has seen what it led to."""
        request = self.page.run(code)
        await self.page.end_of(request)
        await until(lambda: self.owner().state is OwnerState.IDLE, "the end of the cell was heard")
        await self.room.guard.guard.tick()

    def owner(self):
        """The kernel at this moment."""
        return self.room.owners.look_again(self.key)

    async def release(self):
        """Press the button. Gives the outcome."""
        return await self.room.ask("POST", f"gpu-guard/api/v1/owners/kernel%3A{self.kernel_id}/release")

    async def seen(self):
        """All that a person can see of their kernel."""
        content = {"code": "", "silent": True, "user_expressions": {"it": SEEN}, "allow_stdin": False}
        request = self.page.send("shell", "execute_request", {"store_history": False, **content})
        reply = await self.page.receive("execute_reply", request)
        return json.loads(eval(reply["user_expressions"]["it"]["data"]["text/plain"]))

    async def noted(self):
        """The last activity that the server has noted, once all that was broadcast before has reached it."""
        kernel = self.room.app.kernel_manager.get_kernel(self.kernel_id)
        while True:
            before = kernel.last_activity
            await asyncio.sleep(1)
            if kernel.last_activity == before and kernel.execution_state == "idle":
                return before

    async def holder(self):
        """Its row in the report."""
        report = await self.room.ask("GET", "gpu-guard/api/v1/report")
        return next(row for row in report["holders"] if row["owner"] == str(self.key))


def play(root, scene):
    """Act `scene` at a desk."""

    async def whole():
        async with server_room(root) as room:
            kernel_id = await room.notebook("training.ipynb")
            await scene(Desk(room, kernel_id, await room.page(kernel_id)))

    asyncio.run(whole())


def test_what_the_framework_cached_comes_back_and_nothing_else_changes(root):
    """The bytes are those that the devices show; names, history, modules and the server's last activity stay."""

    async def scene(desk):
        await desk.run(MODEL + "del batch")
        await desk.run("6 * 7")
        row = await desk.holder()
        assert "release" in row["offers"]
        assert row["memory_bytes"] == 5.25 * GIB
        before, used = await desk.seen(), desk.owner().used_at
        activity = await desk.noted()
        outcome = await desk.release()
        assert (outcome["result"], outcome["freed_bytes"]) == ("done", 3 * GIB)
        said = "gave back 3.0 GiB of 5.2 GiB, on GPU 0; PyTorch keeps 2.0 GiB that variables hold"
        assert outcome["detail"] == said, outcome["detail"]
        assert await desk.noted() == activity
        assert desk.owner().used_at == used
        assert await desk.seen() == before
        await desk.room.guard.guard.tick()
        assert (await desk.holder())["memory_bytes"] == 2.25 * GIB

    play(root, scene)


def test_what_refers_to_itself_is_collected_first(root):
    """A cycle that nothing reaches any more frees its tensors before the cache is emptied."""

    async def scene(desk):
        await desk.run(MODEL + "import gc; gc.disable()\nbatch.itself = batch\ndel batch, gc")
        outcome = await desk.release()
        assert outcome["freed_bytes"] == 3 * GIB

    play(root, scene)


def test_the_saved_last_error_is_named_when_it_holds_the_memory(root):
    """What only the frames of the last error hold cannot be given back, and the outcome says what helps."""

    async def scene(desk):
        await desk.run("import torch\ndef train():\n    batch = torch.zeros(3 * 2**30)\n    raise ValueError")
        await desk.run("train()")
        outcome = await desk.release()
        assert outcome["result"] == "done"
        assert outcome["detail"].startswith(
            "nothing to give back; the saved last error holds 3.0 GiB: run `%gpu_guard release errors`"
        )

    play(root, scene)


def test_a_kernel_that_executes_is_not_asked(root):
    """Release does not suit it: nothing is done, and it is said why."""

    async def scene(desk):
        await desk.run(MODEL)
        request = desk.page.run("import time; time.sleep(3)")
        await until(lambda: desk.owner().state is OwnerState.EXECUTING, "the cell to run")
        await desk.room.guard.guard.tick()
        assert "release" not in (await desk.holder())["offers"]
        outcome = await desk.release()
        assert outcome["result"] == "unsuited"
        assert "executing" in outcome["detail"]
        await desk.page.end_of(request)

    play(root, scene)


def test_a_kernel_without_a_framework_says_so(root):
    """Memory that no known framework holds is not promised back."""

    async def scene(desk):
        await desk.run("from jupyter_gpu_guard.kernel import simulated_gpu\nsimulated_gpu.hold('2 GiB')")
        outcome = await desk.release()
        assert outcome["detail"] == "nothing to give back; it uses no framework that can be asked"

    play(root, scene)


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_the_real_pytorch_keeps_every_tensor(root, monkeypatch):
    """On a machine without a GPU nothing comes back, nothing is initialised, and no tensor, name or module changes."""
    monkeypatch.delenv("PYTHONPATH")

    async def scene(desk):
        await desk.run(
            "import warnings; warnings.simplefilter('ignore')\n"
            "import torch, gc\n"
            "from jupyter_gpu_guard.kernel import simulated_gpu\n"
            "simulated_gpu.hold('2 GiB')\n"
            "torch.manual_seed(7)\n"
            "model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 8))\n"
            "loss = model(torch.rand(16, 64)).sum(); loss.backward()\n"
            "optimizer = torch.optim.Adam(model.parameters()); optimizer.step()\n"
            "sparse = torch.eye(3).to_sparse(); half = torch.ones(4, dtype=torch.bfloat16)\n"
            "view = model[0].weight.view(-1)\n"
            "def checksum():\n"
            "    parts = [*model.parameters(), *(p.grad for p in model.parameters()), sparse.to_dense(), half, view]\n"
            "    return [float(part.double().sum()) for part in parts], torch.random.get_rng_state().sum().item()"
        )
        await desk.run("checksum()")
        await desk.seen()  # so long an answer has the kernel's own messaging load a module
        before = await desk.seen()
        outcome = await desk.release()
        assert (outcome["result"], outcome["freed_bytes"]) == ("done", 0)
        assert outcome["detail"].startswith("nothing to give back"), outcome["detail"]
        assert await desk.seen() == before
        await desk.run("assert checksum() == _ and not torch.cuda.is_initialized(); print('the same')")
        assert not desk.owner().failed

    play(root, scene)


def held(amount):
    """So many bytes, held by one process."""
    return Held((Grip(ProcessKey(1, 1), GPU, amount, None),), whole=True)


def row(name, **said):
    """What one framework says."""
    return {"name": name, "before": None, "after": None, "live": None, "pool": False, "fault": None, **said}


def test_a_pool_that_stays_is_told_with_its_remedy():
    """JAX and TensorFlow give nothing back while their process lives."""
    said = say([row("JAX", pool=True, live=GIB)], held(60 * GIB), held(60 * GIB), 0.0)
    assert said == (
        "nothing to give back; JAX keeps its pool, of which variables hold 1.0 GiB: only ending the process gives it "
        "back"
    )


def test_without_the_devices_the_frameworks_own_count_is_told_as_such():
    """What was not seen on the devices is not said to be free."""
    said = say([row("CuPy", before=3 * GIB, after=GIB, live=GIB)], held(4 * GIB), None, 0.0)
    assert said.startswith("gave back 2.0 GiB by the count of its frameworks; the devices did not say")


def test_the_fault_of_a_framework_is_told():
    """One that fails is named, without what it said."""
    assert "PyTorch failed (RuntimeError)" in say([row("PyTorch", fault="RuntimeError")], held(GIB), held(GIB), 0.0)
