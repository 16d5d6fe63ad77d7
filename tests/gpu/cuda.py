"""A process that holds memory and computes on a real GPU, through the driver's own library and nothing else.

Run as a program it obeys one command a line, and answers each with "done" or what went wrong:

    hold BYTES          hold so much, and no longer what was held before
    work BUSY IDLE      compute for so many seconds, then rest for so many, again and again
    rest                compute no more
    mark                write something of its own into what is held
    checksum            say what stands there: "done" and a number
"""

from __future__ import annotations

import ctypes
import random
import select
import sys
import time
import zlib
from typing import Any, Protocol

_MEGA_CYCLES = 4  # of one kernel: a few milliseconds
_PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 cycles)
{
    .reg .pred %p<2>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [cycles];
    mov.u64 %rd2, %clock64;
AGAIN:
    mov.u64 %rd3, %clock64;
    sub.s64 %rd4, %rd3, %rd2;
    setp.lt.u64 %p1, %rd4, %rd1;
    @%p1 bra AGAIN;
    ret;
}
\0"""


_PIECE = 64 * 2**20  # bytes, of which each is marked at its beginning
_MARK = 2**20


class CudaError(RuntimeError):
    """The driver has refused a call."""


class Obeys(Protocol):
    """What a worker can be told to do."""

    def hold(self, amount: int) -> None:
        """Hold so many bytes."""

    def spin(self) -> None:
        """Compute for a few milliseconds."""

    def mark(self) -> None:
        """Write something of its own into what is held."""

    def checksum(self) -> int:
        """A number that stands for what is held."""


class Gpu:
    """The primary context of one device. `spin` computes for a few milliseconds."""

    def __init__(self, index: int) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(device), index)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        self._held: ctypes.c_uint64 | None = None
        self._amount = 0
        self._kernel = self._load()
        self._scratch: ctypes.c_uint64 | None = None

    def hold(self, amount: int) -> None:
        """Hold so many bytes, all of them written to."""
        if self._held is not None:
            self._call("cuMemFree_v2", self._held)
            self._held = None
        if amount > 0:
            self._held, self._amount = self._allocate(amount), amount
            self._call("cuMemsetD8_v2", self._held, ctypes.c_ubyte(1), ctypes.c_size_t(amount))
            self._call("cuCtxSynchronize")

    def mark(self) -> None:
        """Write random bytes to the beginning of each piece of what is held."""
        for begin in self._pieces():
            size = min(_MARK, self._amount - begin)
            self._call("cuMemcpyHtoD_v2", self._place(begin), random.randbytes(size), ctypes.c_size_t(size))

    def checksum(self) -> int:
        """A checksum of all that is held."""
        found, piece = 0, ctypes.create_string_buffer(_PIECE)
        for begin in self._pieces():
            size = min(_PIECE, self._amount - begin)
            self._call("cuMemcpyDtoH_v2", piece, self._place(begin), ctypes.c_size_t(size))
            found = zlib.crc32(memoryview(piece)[:size], found)
        return found

    def _pieces(self) -> range:
        return range(0, self._amount if self._held is not None else 0, _PIECE)

    def _place(self, begin: int) -> ctypes.c_uint64:
        assert self._held is not None
        return ctypes.c_uint64(self._held.value + begin)

    def spin(self) -> None:
        """Compute for a few milliseconds."""
        if self._kernel is not None:
            cycles = ctypes.c_uint64(_MEGA_CYCLES * 1_000_000)
            arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(cycles), ctypes.c_void_p))
            self._call("cuLaunchKernel", self._kernel, 1, 1, 1, 1, 1, 1, 0, None, arguments, None)
        else:  # without a compiler for the kernel: write memory, which computes as well
            size = 256 * 2**20
            self._scratch = self._scratch or self._allocate(size)
            self._call("cuMemsetD32_v2", self._scratch, ctypes.c_uint(7), ctypes.c_size_t(size // 4))
        self._call("cuCtxSynchronize")

    def _load(self) -> Any:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        try:
            self._call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(_PTX))
            self._call("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(b"spin"))
        except CudaError:
            return None
        return function

    def _allocate(self, amount: int) -> ctypes.c_uint64:
        pointer = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(amount))
        return pointer

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._cuda, name)(*arguments)
        if code != 0:
            raise CudaError(f"{name} says {code}")


def serve(gpu: Obeys) -> None:
    """Obey until there is nothing more to read."""
    busy = idle = 0.0
    while True:
        if busy > 0:
            end = time.monotonic() + busy
            while time.monotonic() < end and not _is_asked(0):
                gpu.spin()
        if not _is_asked(idle if busy > 0 else None):
            continue
        word, *rest = sys.stdin.readline().split() or ["end"]
        if word == "work":
            busy, idle = float(rest[0]), float(rest[1])
        elif word == "rest":
            busy = 0.0
        elif word not in {"hold", "mark", "checksum"}:
            return
        try:
            print("done", _obeyed(gpu, word, rest), flush=True)
        except CudaError as error:
            print(error, flush=True)


def _obeyed(gpu: Obeys, word: str, rest: list[str]) -> object:
    if word == "hold":
        gpu.hold(int(rest[0]))
    elif word == "mark":
        gpu.mark()
    elif word == "checksum":
        return gpu.checksum()
    return ""


def _is_asked(within: float | None) -> bool:
    return bool(select.select([sys.stdin], [], [], within)[0])


if __name__ == "__main__":
    try:
        its = Gpu(int(sys.argv[1]))
    except (CudaError, OSError) as refusal:
        print(refusal, flush=True)
    else:
        print("done", flush=True)
        serve(its)
