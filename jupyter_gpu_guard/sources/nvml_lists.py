"""The driver's process lists in their three forms, as plain rows.

`pynvml` has no function for the first form, and makes of every row of the others an object that is slow to make and to
ask: with two thousand clients that is most of what a reading costs.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any, NamedTuple

_SUCCESS, _INSUFFICIENT_SIZE = 0, 7
_NOT_AVAILABLE = 2**64 - 1
_NO_INSTANCE = 0xFFFFFFFF
_FIRST = struct.Struct("@IQ")
_NEWER = struct.Struct("@IQII")

# How this project calls the lists, with their symbols and the layout of a row. Unversioned symbols are the first form.
LISTS = {
    f"nvmlDeviceGet{kind}RunningProcesses_v{form}": (
        f"nvmlDeviceGet{kind}RunningProcesses" + (f"_v{form}" if form > 1 else ""),
        _NEWER if form > 1 else _FIRST,
    )
    for kind in ("Compute", "Graphics", "MPSCompute")
    for form in (1, 2, 3)
}


class Row(NamedTuple):
    """One context. `memory` in bytes; None: the driver has no figure."""

    pid: int
    memory: int | None
    instance: int = _NO_INSTANCE
    part: int = _NO_INSTANCE


def read_list(nvml: Any, name: str, handle: Any) -> list[Row]:
    """The rows that the driver gives for `name`. Raises NVMLError as the functions of `pynvml` do."""
    symbol, layout = LISTS[name]
    function = nvml._nvmlGetFunctionPointer(symbol)  # noqa: SLF001 - the only way to these symbols
    count = ctypes.c_uint(0)
    code = function(handle, ctypes.byref(count), None)
    if code == _INSUFFICIENT_SIZE:
        room = count.value = count.value * 2 + 5  # the list may grow until the second call
        rows = ctypes.create_string_buffer(room * layout.size)
        code = function(handle, ctypes.byref(count), rows)
        if code == _SUCCESS and count.value > room:
            raise ValueError(f"the driver has put {count.value} rows where {room} have room")
        if code == _SUCCESS:
            filled = memoryview(rows)[: count.value * layout.size]
            return [
                Row(pid, None if memory == _NOT_AVAILABLE else memory, *context)
                for pid, memory, *context in layout.iter_unpack(filled)
            ]
    if code != _SUCCESS:
        raise nvml.NVMLError(code)
    return []
