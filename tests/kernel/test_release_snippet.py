"""What is asked of each framework, and of none that was not used. The frameworks and the driver are stand-ins."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gpu_guard.kernel import release_snippet

# A driver with three devices, of which the process has a context on the last one.
DRIVER = """
int cuDeviceGetCount(int *count) { *count = 3; return 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { *active = device == 2; return 0; }
"""

BEGIN = """
import ctypes, json, sys, types
from contextlib import contextmanager

source, driver = sys.argv[1:]
if driver:
    ctypes.CDLL(driver)
asked = []

@contextmanager
def on(number):
    asked.append(f"on {number}")
    yield

def module(name, **names):
    made = sys.modules[name] = types.ModuleType(name)
    made.__dict__.update(names)
    return made
"""

END = """
names = {"__name__": "sent"}
exec(open(source).read(), names)
before = set(sys.modules)
told = names["release"](float("inf"))
print(json.dumps([told, asked, sorted(set(sys.modules) - before)]))
"""

CUPY = """
class Pool:
    total = {2: 5000}
    def total_bytes(self): return self.total[2]
    def used_bytes(self): return 1000
    def free_all_blocks(self): asked.append("free"); self.total[2] = 2000
class Pinned:
    def n_free_blocks(self): return 1
    def free_all_blocks(self): asked.append("free pinned")
module("cupy", get_default_memory_pool=Pool, get_default_pinned_memory_pool=Pinned,
       cuda=types.SimpleNamespace(Device=on))
"""

NUMBA = """
class Gpu:
    def __init__(self, number): self.number, self.primary_context = number, "a context" if number == 2 else None
    def __enter__(self): asked.append(f"on {self.number}")
    def __exit__(self, *what): asked.append("off")
deallocations = types.SimpleNamespace(clear=lambda: asked.append("clear"))
module("numba.cuda", gpus=[Gpu(0), Gpu(1), Gpu(2)], current_context=lambda: types.SimpleNamespace(
    memory_manager=types.SimpleNamespace(deallocations=deallocations)))
module("numba.cuda.cudadrv.driver", driver=types.SimpleNamespace(initialization_error=None))
"""

JAX = """
device = types.SimpleNamespace(platform="gpu", memory_stats=lambda: {"bytes_in_use": 3000})
module("jax", local_devices=lambda: asked.append("devices") or [device])
module("jax._src.xla_bridge", backends_are_initialized=lambda: USED)
"""

TENSORFLOW = """
config = types.SimpleNamespace(
    list_logical_devices=lambda kind: asked.append("devices") or [types.SimpleNamespace(name="/device:GPU:0")],
    experimental=types.SimpleNamespace(get_memory_info=lambda name: {"current": 4000} if name == "GPU:0" else {}))
module("tensorflow", config=config)
module("tensorflow.python.eager.context", context_safe=lambda: types.SimpleNamespace(_initialized=USED))
"""

BROKEN = """
class Cuda:
    def is_initialized(self): raise RuntimeError("the secret")
module("torch", cuda=Cuda())
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """The stand-in of the driver's library."""
    folder = tmp_path_factory.mktemp("driver")
    (folder / "cuda.c").write_text(DRIVER)
    made = folder / "libcuda.so.1"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", made, folder / "cuda.c"], check=True, timeout=60
    )
    return str(made)


def ask(frameworks, driver=""):
    """What the text says, what it has asked, and the modules that it has brought, in a process of its own."""
    script = BEGIN + frameworks + END
    command = [sys.executable, "-I", "-c", script, release_snippet.__file__, driver]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


def row(name, **said):
    """One framework's row."""
    return {"name": name, "before": None, "after": None, "live": None, "pool": False, "fault": None, **said}


def test_cupy_is_asked_on_the_devices_that_are_in_use_alone(driver):
    """Each device has a pool of its own, and to go to another one would take memory there."""
    told, asked, brought = ask(CUPY, driver)
    assert told == [row("CuPy", before=5000, after=2000, live=1000)]
    assert asked == ["free pinned", "on 2", "free"]
    assert brought == []


def test_numba_does_what_it_has_put_off_on_its_own_devices(driver):
    """And leaves the device as the current one that was it before."""
    told, asked, _ = ask(NUMBA, driver)
    assert told == [row("Numba")]
    assert asked == ["on 2", "clear", "off"]


@pytest.mark.parametrize("frameworks", [CUPY, NUMBA])
def test_without_a_driver_in_use_no_device_is_touched(frameworks):
    """A framework that was imported and never used has nothing on any device."""
    told, asked, _ = ask(frameworks)
    assert told == []
    assert "on 2" not in asked


@pytest.mark.parametrize(
    ("frameworks", "name", "live"), [(JAX, "JAX", 3000), (TENSORFLOW, "TensorFlow", 4000)], ids=["jax", "tensorflow"]
)
def test_a_pool_that_stays_is_said_to(frameworks, name, live):
    """These give nothing back while the process lives, and nothing is asked of them but how much is used."""
    told, _, _ = ask("USED = True\n" + frameworks)
    assert told == [row(name, live=live, pool=True)]
    assert ask("USED = False\n" + frameworks)[:2] == [[], []]


def test_the_fault_of_one_is_its_own():
    """The next one is asked all the same, and the text of the error stays in the kernel."""
    told, _, _ = ask("USED = True\n" + BROKEN + JAX)
    assert told == [row("PyTorch", fault="RuntimeError"), row("JAX", live=3000, pool=True)]


def test_when_the_time_is_over_nothing_more_is_asked():
    """So that a person does not wait for it."""
    script = BEGIN + "USED = True\n" + JAX + END.replace('float("inf")', "0.0")
    command = [sys.executable, "-I", "-c", script, release_snippet.__file__, ""]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout)[:2] == [[], []]


def test_what_is_collected_is_kept_if_the_person_wants_that():
    """With `gc.DEBUG_SAVEALL`, collecting would hold everything for ever."""
    script = BEGIN + "import gc; gc.set_debug(gc.DEBUG_SAVEALL)\n" + END + "print(len(gc.garbage))"
    command = [sys.executable, "-I", "-c", script, release_snippet.__file__, ""]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[1] == "0"


def test_the_texts_stand_for_themselves():
    """What is sent to kernels imports nothing but what each of them has."""
    folder = Path(release_snippet.__file__).parent
    for name in ("release_snippet", "variables", "farewell_snippet"):
        tree = ast.parse((folder / f"{name}.py").read_text())
        imported = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0
                imported.add(node.module)
        assert imported <= {"__future__", "collections.abc", "contextlib", "ctypes", "gc", "sys", "time", "typing"}, (
            name
        )
