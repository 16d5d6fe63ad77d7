"""A GPU for people without one: say what this process holds and computes, and everybody sees it.

    from jupyter_gpu_guard.kernel import simulated_gpu as gpu

    gpu.hold("6 GiB")
    gpu.compute(percent=90, seconds=20)

Nothing is computed and no memory is used: a small file is written that the simulated driver reads. It counts only while
this very process lives, so an ended kernel gives its memory back by itself, as on a real device. A forked child holds
nothing until it says so under its own pid. Only the standard library is used, so that every kernel can import it.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from .declaration import (
    FOR_EVER,
    Declaration,
    DeclaredDevice,
    Load,
    Wave,
    is_parked,
    now_us,
    read_clients,
    read_devices,
    write_client,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .declaration import Work

VARIABLE = "JUPYTER_GPU_GUARD_SIMULATED_DIR"
CONTEXT_BYTES = 200 * 2**20
_PARKED_PAUSE = 0.05  # seconds

_UNITS = {"": 1, "b": 1}
_UNITS.update({f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", start=1)})
_UNITS.update({f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgt", start=1)})
_AMOUNT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


class NotSimulatedError(RuntimeError):
    """There is no simulated GPU here; the message says how to get one."""


class OutOfMemoryError(RuntimeError):
    """The device has not so much memory free."""


# ---- for the person at the notebook ----


def available() -> bool:
    """Whether there is a simulated GPU here."""
    folder = os.environ.get(VARIABLE)
    return folder is not None and bool(read_devices(Path(folder)))


def hold(amount: float | str, device: int = 0) -> None:
    """Hold `amount` of memory on `device`: bytes, or text such as "6 GiB". A later call replaces an earlier one.

    Raises OutOfMemoryError if so much is not free.
    """
    wanted = parse_amount(amount)
    with _locked(_folder()) as folder:
        _check_fits(folder, device, wanted)
        _declare_own(folder, replace(_own, memory={**_own.memory, device: wanted}))


def compute(percent: float = 90, seconds: float | None = 20, device: int = 0, *, wait: bool = False) -> None:
    """Compute on `device` from now on for `seconds` (None: until `stop()`). With `wait`, return when it is over.

    It replaces earlier work on this device. Who holds nothing there gets a context of 200 MiB, as on a real device.
    """
    _check_percent(percent)
    if seconds is not None and seconds <= 0:
        raise ValueError(f"seconds is {seconds}; it must be above 0, or None for as long as you do not call stop()")
    if wait and seconds is None:
        raise ValueError("wait=True needs a number of seconds")
    now = now_us()
    until = FOR_EVER if seconds is None else now + round(seconds * 1e6)
    _work(Load(device, now, until, percent))
    if wait and seconds is not None:
        try:
            time.sleep(seconds)
        except BaseException:
            stop()  # an interrupted cell computes no more
            raise


def wave(high: float, high_seconds: float, low: float, low_seconds: float, device: int = 0) -> None:
    """Compute in waves: `high` percent for `high_seconds`, then `low` percent for `low_seconds`, until `stop()`."""
    _check_percent(high)
    _check_percent(low)
    if high_seconds <= 0 or low_seconds <= 0:
        raise ValueError("high_seconds and low_seconds must be above 0")
    _work(Wave(device, now_us(), high, round(high_seconds * 1e6), low, round(low_seconds * 1e6)))


def stop() -> None:
    """Compute no more, on any device. The memory stays held."""
    with _locked(_folder()) as folder:
        _declare_own(folder, replace(_own, work=()))


def release() -> None:
    """Give all memory back and compute no more."""
    with _locked(_folder()) as folder:
        _declare_own(folder, Declaration())


# ---- for tools ----


def declare_for(pid: int, declaration: Declaration, folder: Path | None = None) -> None:
    """Declare for another living process, replacing what it has declared. ProcessLookupError if there is none."""
    with _locked(folder or _folder()) as where:
        write_client(where, pid, declaration)


def parse_amount(amount: float | str) -> int:
    """Bytes, from a number of bytes or from text such as "6 GiB" or "512MiB"."""
    if isinstance(amount, (int, float)):
        size: float = amount
    else:
        match = _AMOUNT.fullmatch(amount)
        if match is None or match[2].lower() not in _UNITS:
            raise ValueError(f"{amount!r} is no amount of memory; write for example '6 GiB' or '512 MiB'")
        size = float(match[1]) * _UNITS[match[2].lower()]
    if size < 0:
        raise ValueError(f"{amount!r} is below 0; use release() to give memory back")
    return round(size)


# ---- inside ----

_own = Declaration()


def _forget() -> None:
    global _own  # noqa: PLW0603 - what this process declares is a fact about the process
    _own = Declaration()


def _leave() -> None:
    if _own != Declaration():
        with suppress(Exception):
            release()


os.register_at_fork(after_in_child=_forget)
atexit.register(_leave)


def _folder() -> Path:
    folder = os.environ.get(VARIABLE)
    if not folder:
        raise NotSimulatedError(
            f"There is no simulated GPU here: {VARIABLE} is not set. Start Jupyter with `jupyter gpu-guard demo`, or "
            'set c.GpuGuard.devices = "simulated" and start the kernel anew.'
        )
    if not read_devices(Path(folder)):
        raise NotSimulatedError(f"There is no simulated GPU here: {folder} describes no devices. Is the server gone?")
    return Path(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[Path]:
    """Only one process at a time looks for free memory and takes it. While this one is parked, it waits."""
    while True:
        with (folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not is_parked(folder, os.getpid()):
                yield folder
                return
        time.sleep(_PARKED_PAUSE)


def _device(folder: Path, index: int) -> DeclaredDevice:
    devices = read_devices(folder)
    for device in devices:
        if device.index == index:
            return device
    known = ", ".join(str(device.index) for device in devices)
    raise ValueError(f"there is no simulated device {index}; there are {known}")


def _check_fits(folder: Path, index: int, wanted: int) -> None:
    device = _device(folder, index)
    clients = read_clients(folder)
    others = sum(held.memory.get(index, 0) for pid, held in clients.items() if pid != os.getpid())
    free = max(0, device.memory_total - device.memory_reserved - others)
    if wanted > free:
        raise OutOfMemoryError(
            f"Simulated GPU out of memory. Tried to hold {wanted / 2**30:.2f} GiB. GPU {index} ({device.name}) has a "
            f"total capacity of {device.memory_total / 2**30:.2f} GiB of which {free / 2**30:.2f} GiB is free."
        )


def _check_percent(percent: float) -> None:
    if not 0 <= percent <= 100:  # noqa: PLR2004
        raise ValueError(f"{percent} is no share of a device; write a number from 0 to 100")


def _work(work: Work) -> None:
    with _locked(_folder()) as folder:
        if work.device not in _own.memory:
            _check_fits(folder, work.device, CONTEXT_BYTES)
        memory = {work.device: CONTEXT_BYTES, **_own.memory}
        others = tuple(part for part in _own.work if part.device != work.device)
        _declare_own(folder, replace(_own, memory=memory, work=(*others, work)))


def _declare_own(folder: Path, declaration: Declaration) -> None:
    global _own  # noqa: PLW0603
    write_client(folder, os.getpid(), declaration)
    _own = declaration
