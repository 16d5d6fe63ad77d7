"""What tests of the NVIDIA driver have in common: amounts, work, and how to find one client in a reading."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpu_guard.core.model import GpuClient, Reading, Why, is_known
from jupyter_gpu_guard.kernel.simulated_gpu import FOR_EVER, Load, now_us
from jupyter_gpu_guard.protocols import DevicesSeen
from jupyter_gpu_guard.sources.simulated import DEFAULT_DEVICES
from tests.driver import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.driver.apart import NvmlApart

FIRST, SECOND = (device.uuid for device in DEFAULT_DEVICES)
GIB = 2**30
BUSY = 70


def busy(device: int) -> Load:
    """Work that began long ago."""
    return Load(device, now_us() - 30_000_000, FOR_EVER, BUSY)


def client(seen: DevicesSeen, pid: int) -> GpuClient:
    """The one client with this pid."""
    (found,) = [client for client in seen.clients if client.pid == pid]
    return found


def why(reading: Reading) -> Why | None:
    """Why it is not known; None: it is."""
    return None if is_known(reading) else reading.why


def settled(nvml: NvmlApart, pid: int, right: Callable[[Reading], bool]) -> GpuClient:
    """Read on, five seconds by its clock each time, until the compute of `pid` is right."""
    seen: list[DevicesSeen] = []

    def look() -> bool:
        nvml.ahead += 5
        seen.append(nvml.read())
        return right(client(seen[-1], pid).compute)

    until(look)
    return client(seen[-1], pid)


def next_reading(nvml: NvmlApart) -> DevicesSeen:
    """A reading five seconds later."""
    nvml.ahead += 5
    return nvml.read()
