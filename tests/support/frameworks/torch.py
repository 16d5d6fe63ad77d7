"""As much of PyTorch's interface as the guard uses, over a simulated GPU: a caching allocator, tensors, storages."""

from __future__ import annotations

import sys
import types
import weakref
from contextlib import contextmanager

from jupyter_gpu_guard.kernel import simulated_gpu

CONTEXT = 2**28

_state = {"initialized": False, "reserved": 0, "allocated": 0, "next": 4096}


class device:  # noqa: N801 - as it is called there
    """Where a tensor is."""

    def __init__(self, name):
        self.type, _, number = name.partition(":")
        self.index = int(number or 0)

    def __str__(self):
        return self.type if self.type == "cpu" else f"{self.type}:{self.index}"


class _Storage:
    def __init__(self, size, where):
        self.size = size
        self.pointer = _state["next"]
        _state["next"] += size
        if where.type == "cuda":
            _state["initialized"] = True
            _state["allocated"] += size
            _state["reserved"] = max(_state["reserved"], _state["allocated"])
            _declare()
            weakref.finalize(self, _freed, size)

    def data_ptr(self):
        return self.pointer

    def nbytes(self):
        return self.size


class Tensor:
    """An array of bytes on a device; a view shares its storage."""

    is_leaf = True

    def __init__(self, storage, where):
        self._storage = storage
        self.device = where
        self.grad = None

    def untyped_storage(self):
        """What it is a window on."""
        return self._storage

    def view(self):
        """Another window on the same storage."""
        return Tensor(self._storage, self.device)


def zeros(size, device_name="cuda:0"):
    """A tensor of so many bytes."""
    where = device(device_name)
    return Tensor(_Storage(size, where), where)


def _freed(size):
    _state["allocated"] -= size


def _declare():
    simulated_gpu.hold(_state["reserved"] + CONTEXT)


def _empty_cache():
    _state["reserved"] = _state["allocated"]
    _declare()


@contextmanager
def _on(number):
    yield number


cuda = types.ModuleType("torch.cuda")
cuda.is_initialized = lambda: _state["initialized"]
cuda.device_count = lambda: 1
cuda.memory_reserved = lambda number: _state["reserved"]
cuda.memory_allocated = lambda number: _state["allocated"]
cuda.device = _on
cuda.ipc_collect = lambda: None
cuda.empty_cache = _empty_cache
sys.modules["torch.cuda"] = cuda
