"""Gives back what frameworks keep on devices for later. No variable changes, and nothing is imported or initialised.

This text is also sent to kernels whose environment lacks the package, so it stands for itself and binds nothing
elsewhere.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_SAVE_ALL = 32  # gc.DEBUG_SAVEALL: whatever is collected is kept instead
_ONLY_IF_LOADED = 4  # RTLD_NOLOAD


def release(until: float = float("inf")) -> list[dict[str, Any]]:
    """Have each framework that is loaded give back what it has cached, one after the other while there is time.

    For each: its `name`; `before` and `after`, bytes that it has reserved by its own count; `live`, bytes in arrays
    that still exist (None: it does not say); `pool`: it gives nothing back while its process lives; `fault`, the kind
    of error if it failed. `time.monotonic` tells whether it is `until`.
    """
    _collect()
    steps: tuple[tuple[str, str, Callable[[Any], dict[str, Any] | None]], ...] = (
        ("torch", "PyTorch", _torch),
        ("cupy", "CuPy", _cupy),
        ("numba.cuda.cudadrv.driver", "Numba", _numba),
        ("jax", "JAX", _jax),
        ("tensorflow", "TensorFlow", _tensorflow),
    )
    told = []
    for module, name, give_back in steps:
        loaded = sys.modules.get(module)
        if loaded is None or time.monotonic() > until:
            continue
        try:
            said = give_back(loaded)
        except Exception as fault:  # noqa: BLE001 - one framework's fault is its own
            said = {"fault": type(fault).__name__}
        if said is not None:
            row = {"name": name, "before": None, "after": None, "live": None, "pool": False, "fault": None}
            told.append({**row, **said})
    return told


def _collect() -> None:
    """Free what nothing can reach any more, such as a model that refers to itself."""
    is_new = "gc" not in sys.modules
    import gc  # noqa: PLC0415

    if not gc.get_debug() & _SAVE_ALL:
        gc.collect()
    if is_new:
        del sys.modules["gc"]


def _torch(torch: Any) -> dict[str, Any] | None:
    """PyTorch gives back the blocks that no tensor is in."""
    total: dict[str, Any] = {"before": 0, "after": 0, "live": 0}
    is_used = False
    for kind in ("cuda", "xpu"):
        devices = getattr(torch, kind, None)
        if devices is None or not devices.is_initialized():
            continue
        is_used = True
        on = [number for number in range(devices.device_count()) if devices.memory_reserved(number) > 0]
        before = sum(devices.memory_reserved(number) for number in on)
        total["before"] += before
        total["live"] += sum(devices.memory_allocated(number) for number in on)
        if on:
            # Where it is not used yet, even emptying its cache would take memory.
            with devices.device(on[0]):
                if hasattr(devices, "ipc_collect"):
                    devices.ipc_collect()
                devices.empty_cache()
        total["after"] += sum(devices.memory_reserved(number) for number in on)
    return total if is_used else None


def _cupy(cupy: Any) -> dict[str, Any] | None:
    """CuPy gives back the free blocks of its pools; each device has a pool of its own."""
    pinned = cupy.get_default_pinned_memory_pool()
    if pinned.n_free_blocks():
        pinned.free_all_blocks()
    on = _devices_in_use()
    if not on:
        return None
    pool = cupy.get_default_memory_pool()
    total = {"before": 0, "after": 0, "live": 0}
    for number in on:
        with cupy.cuda.Device(number):
            total["before"] += pool.total_bytes()
            pool.free_all_blocks()
            total["after"] += pool.total_bytes()
            total["live"] += pool.used_bytes()
    return total if total["before"] else None


def _numba(driver: Any) -> dict[str, Any] | None:
    """Numba frees late: what it has put off is done now."""
    cuda = sys.modules.get("numba.cuda")
    on = _devices_in_use()
    if cuda is None or not on or driver.driver.initialization_error is not None:
        return None
    mine = [number for number in on if cuda.gpus[number].primary_context is not None]  # it has others' contexts too
    for number in mine:
        with cuda.gpus[number]:
            cuda.current_context().memory_manager.deallocations.clear()
    return {} if mine else None


def _jax(jax: Any) -> dict[str, Any] | None:
    """JAX keeps its pool for as long as its process lives; only arrays that are gone make room, within it."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is None or not bridge.backends_are_initialized():
        return None
    known = [device.memory_stats() for device in jax.local_devices() if device.platform != "cpu"]
    if not known:
        return None
    live = sum(stats["bytes_in_use"] for stats in known if stats and "bytes_in_use" in stats)
    return {"live": live, "pool": True}


def _tensorflow(tensorflow: Any) -> dict[str, Any] | None:
    """TensorFlow keeps its pool for as long as its process lives."""
    context = sys.modules.get("tensorflow.python.eager.context")
    now = context.context_safe() if context is not None else None
    if now is None or not now._initialized:  # noqa: SLF001 - asking in another way would initialise it
        return None
    devices = tensorflow.config.list_logical_devices("GPU")
    if not devices:
        return None
    names = [device.name.rpartition("device:")[2] for device in devices]
    live = sum(tensorflow.config.experimental.get_memory_info(name)["current"] for name in names)
    return {"live": live, "pool": True}


def _devices_in_use() -> list[int]:
    """The CUDA devices on which this process has a context. Looking makes none, nor does it load the driver."""
    import ctypes  # noqa: PLC0415 - every kernel has it, since its connection is made with it

    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=_ONLY_IF_LOADED)
    except OSError:
        return []
    count = ctypes.c_int(0)
    if driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return []
    on = []
    for number in range(count.value):
        flags, active = ctypes.c_uint(0), ctypes.c_int(0)
        answer = driver.cuDevicePrimaryCtxGetState(number, ctypes.byref(flags), ctypes.byref(active))
        if answer == 0 and active.value:
            on.append(number)
    return on
