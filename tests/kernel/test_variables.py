"""What holds memory, by variable, in a real kernel; the framework is a stand-in with PyTorch's interface."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jupyter_client.manager import start_new_kernel
from kernel_room import isolate

from jupyter_gpu_guard.kernel.simulated_gpu import VARIABLE
from jupyter_gpu_guard.sources.simulated import prepare

FRAMEWORKS = Path(__file__).parents[1] / "support" / "frameworks"
MIB = 2**20


class Notebook:
    """A kernel, cell by cell."""

    def __init__(self, client):
        self._client = client

    def run(self, code, *, fails=False):
        """Run a cell, and give what it printed."""
        printed = []

        def collect(message):
            if message["msg_type"] == "stream":
                printed.append(message["content"]["text"])

        reply = self._client.execute_interactive(code, timeout=60, output_hook=collect)
        assert (reply["content"]["status"] == "error") is fails, reply["content"]
        return "".join(printed).strip()

    def rows(self):
        """What its variables hold, by name."""
        told = json.loads(
            self.run(
                "import json\nfrom jupyter_gpu_guard.kernel import variables as v\nprint(json.dumps(v.variables()))"
            )
        )
        assert not told["cut"]
        return {row["name"]: (row["arrays"], row["bytes"] / MIB) for row in told["rows"]}


@pytest.fixture
def notebook(monkeypatch, tmp_path):
    """A kernel with a simulated GPU and the stand-in frameworks."""
    isolate(monkeypatch, tmp_path / "home")
    prepare(tmp_path / "gpus")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "gpus"))
    monkeypatch.setenv("PYTHONPATH", str(FRAMEWORKS))
    manager, client = start_new_kernel(kernel_name="python3", startup_timeout=120)
    try:
        yield Notebook(client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_arrays_are_found_by_name_and_shared_storage_counts_once(notebook):
    """Variables, containers, models, `Out` and gradients; a view adds nothing, what is on the CPU neither."""
    notebook.run(
        "import torch\n"
        "M = 2**20\n"
        "weights = torch.zeros(100 * M)\n"
        "window = weights.view()\n"
        "host = torch.zeros(100 * M, 'cpu')\n"
        "batches = {'train': [torch.zeros(10 * M), (torch.zeros(20 * M),)]}\n"
        "class Model: pass\n"
        "model = Model(); model.layers = {'first': Model()}; model.layers['first'].weight = torch.zeros(7 * M)\n"
        "class Slotted: __slots__ = ('x',)\n"
        "slotted = Slotted(); slotted.x = torch.zeros(3 * M)\n"
        "model.layers['first'].weight.grad = torch.zeros(7 * M)\n"
        "batches['itself'] = batches\n"
        "shell = get_ipython()"
    )
    notebook.run("torch.zeros(5 * M)")
    assert notebook.rows() == {
        "weights": (1, 100),
        "batches": (2, 30),
        "model": (2, 14),
        "slotted": (1, 3),
        "Out[2]": (1, 5),
    }


def test_what_only_the_last_error_holds_is_told_apart(notebook):
    """The frames of the saved error, of its cause too; what a variable holds as well is the variable's."""
    notebook.run("import torch\nM = 2**20\nkept = torch.zeros(50 * M)")
    notebook.run(
        "def inner(x):\n"
        "    hidden = torch.zeros(8 * M)\n"
        "    raise KeyError\n"
        "def train(x):\n"
        "    lost = torch.zeros(9 * M)\n"
        "    try:\n"
        "        inner(x)\n"
        "    except KeyError as error:\n"
        "        raise ValueError from error\n"
        "train(kept)",
        fails=True,
    )
    assert notebook.rows() == {
        "kept": (1, 50),
        "last error, in train: lost": (1, 9),
        "last error, in inner: hidden": (1, 8),
    }


def test_forgetting_the_last_error_lets_go_of_all_it_holds(notebook):
    """Afterwards nothing refers to what was in its frames, and the next error is kept as usual."""
    notebook.run(
        "import torch, weakref\n"
        "def train():\n"
        "    global ref\n"
        "    lost = torch.zeros(2**20)\n"
        "    ref = weakref.ref(lost)\n"
        "    raise ValueError"
    )
    notebook.run("train()", fails=True)
    assert notebook.run("print(ref() is not None)") == "True"
    notebook.run("%load_ext jupyter_gpu_guard")
    said = notebook.run("%gpu_guard release errors")
    assert notebook.run("import gc; gc.collect(); print(ref())") == "None", said
    notebook.run("1 / 0", fails=True)
    assert notebook.run("import sys; print(sys.last_type.__name__)") == "ZeroDivisionError"


def test_a_class_that_fails_when_looked_at_is_passed_over(notebook):
    """Anybody's object may be among the variables: neither an error nor a hang comes of it."""
    notebook.run(
        "import torch\n"
        "class Awkward:\n"
        "    @property\n"
        "    def __class__(self): raise RuntimeError\n"
        "    def __getattr__(self, name): raise RuntimeError(name)\n"
        "    def __eq__(self, other): raise RuntimeError\n"
        "    __hash__ = None\n"
        "awkward = [Awkward(), torch.zeros(2**20)]\n"
        "endless = []\n"
        "for _ in range(1000): endless = [endless]\n"
    )
    assert notebook.rows() == {"awkward": (1, 1)}


def test_the_magic_shows_a_table_and_what_it_can_do(notebook):
    """`variables`, `help`, and clear words for what there is not."""
    notebook.run("%load_ext jupyter_gpu_guard\nimport torch\nweights = torch.zeros(3 * 2**30)")
    table = notebook.run("%gpu_guard variables").splitlines()
    assert table[1].split() == ["weights", "PyTorch", "cuda:0", "1", "3.0", "GiB"]
    assert table[-1].startswith("in all 3.0 GiB")
    assert "keep 2h" in notebook.run("%gpu_guard help")
    assert "nothing of that name" in notebook.run("%gpu_guard explode")
    assert "has no unit" in notebook.run("%gpu_guard keep 2")
    assert "No Jupyter server of yours runs here" in notebook.run("%gpu_guard")
    notebook.run("del weights")
    assert "PyTorch: gave back 3.0 GiB" in notebook.run("%gpu_guard release")


def test_without_any_framework_nothing_is_found_and_nothing_imported(notebook):
    """The magics bring no framework into a kernel."""
    notebook.run("%load_ext jupyter_gpu_guard")
    assert "No variable" in notebook.run("%gpu_guard variables")
    assert "nothing to give back" in notebook.run("%gpu_guard release")
    assert notebook.run("import sys; print('torch' in sys.modules)") == "False"
