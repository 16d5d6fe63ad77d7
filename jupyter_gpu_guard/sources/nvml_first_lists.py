"""The first form of the driver's process lists, for which `pynvml` has no function: a pid and its memory, no more."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

_SUCCESS, _INSUFFICIENT_SIZE = 0, 7
_NOT_AVAILABLE = 2**64 - 1
_NO_INSTANCE = 0xFFFFFFFF

# How this project calls the first forms, and their symbols. In `pynvml` the unversioned names mean the newest form.
FIRST_LISTS = {
    f"nvmlDeviceGet{kind}RunningProcesses_v1": f"nvmlDeviceGet{kind}RunningProcesses"
    for kind in ("Compute", "Graphics", "MPSCompute")
}


class _Record(ctypes.Structure):
    _fields_ = (("pid", ctypes.c_uint), ("usedGpuMemory", ctypes.c_ulonglong))


@dataclass(frozen=True)
class FirstRow:
    """A row with the names that the newer forms use. `usedGpuMemory` in bytes; None: the driver has no figure."""

    pid: int
    usedGpuMemory: int | None  # noqa: N815 - NVIDIA's name
    gpuInstanceId: int = _NO_INSTANCE  # noqa: N815
    computeInstanceId: int = _NO_INSTANCE  # noqa: N815


def first_list(nvml: Any, name: str, handle: Any) -> list[FirstRow]:
    """The rows that the driver's first form of `name` gives. Raises NVMLError as the functions of `pynvml` do."""
    function = nvml._nvmlGetFunctionPointer(FIRST_LISTS[name])  # noqa: SLF001 - the only way to this symbol
    count = ctypes.c_uint(0)
    code = function(handle, ctypes.byref(count), None)
    if code == _INSUFFICIENT_SIZE:
        count.value = count.value * 2 + 5  # the list may grow until the second call
        records = (_Record * count.value)()
        code = function(handle, ctypes.byref(count), records)
        if code == _SUCCESS:
            rows = ((record.pid, record.usedGpuMemory) for record in records[: count.value])
            return [FirstRow(pid, None if memory == _NOT_AVAILABLE else memory) for pid, memory in rows]
    if code != _SUCCESS:
        raise nvml.NVMLError(code)
    return []
