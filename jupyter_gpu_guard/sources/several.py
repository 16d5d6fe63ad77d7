"""Several sources of devices as one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from jupyter_gpu_guard.core.model import Gap
from jupyter_gpu_guard.protocols import Devices, DevicesSeen

from .drm import DrmDevices
from .nvml import NvmlDevices

_NVIDIA = (Path("/dev/nvidiactl"), Path("/dev/dxg"))


def nvidia_is_here() -> bool:
    """Whether a process here could use an NVIDIA device, also if its driver cannot be asked."""
    return any(file.exists() for file in _NVIDIA)


class SeveralDevices:
    """The devices of all sources. A source that fails is a gap; one that has nothing on this machine is silent.

    Each of `sources` comes with a question: whether its kind of device is here although it shows none. A source that
    has ever shown a device, or says so, is missed while it fails. If none has anything, the first one says why.
    """

    def __init__(self, *sources: tuple[Devices, Callable[[], bool]]) -> None:
        self._sources = sources
        self._known = [0] * len(sources)  # how many devices each has shown at most
        self.simulated = any(devices.simulated for devices, _ in sources)

    def read(self) -> DevicesSeen:
        """Look at every device once, source by source."""
        seen = [_read(devices) for devices, _ in self._sources]
        indices = [max((device.index + 1 for device in one.devices), default=0) for one in seen]
        self._known = [max(before, now) for before, now in zip(self._known, indices, strict=True)]
        counts = [known > 0 or is_here() for known, (_, is_here) in zip(self._known, self._sources, strict=True)]
        if not any(counts):
            return seen[0] if seen else DevicesSeen()
        joined = DevicesSeen()
        first = 0
        for one, known, is_missed in zip(seen, self._known, counts, strict=True):
            joined = DevicesSeen(
                (*joined.devices, *(replace(device, index=first + device.index) for device in one.devices)),
                (*joined.clients, *one.clients),
                (*joined.gaps, *(one.gaps if is_missed else ())),
            )
            first += known
        return joined

    def close(self) -> None:
        """Let go of all drivers."""
        for devices, _ in self._sources:
            devices.close()


def _read(devices: Devices) -> DevicesSeen:
    try:
        return devices.read()
    except Exception as error:  # noqa: BLE001  the other sources are read all the same
        return DevicesSeen(gaps=(Gap("devices", f"the devices could not be read: {error}"),))


def every_device(*, estimate_sole_owner: bool = False) -> SeveralDevices:
    """All real devices of this machine: NVIDIA's, AMD's and Intel's."""
    nvidia = NvmlDevices(estimate_sole_owner=estimate_sole_owner)
    return SeveralDevices((nvidia, nvidia_is_here), (DrmDevices(), lambda: False))
