"""Devices that are not there: what processes declare through `jupyter_gpu_guard.kernel.simulated_gpu`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jupyter_gpu_guard.core.model import Device, Gap, GpuClient, Reading, Unknown, Why
from jupyter_gpu_guard.kernel.declaration import Declaration, DeclaredDevice, read_clients, read_devices
from jupyter_gpu_guard.protocols import DevicesSeen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

DEFAULT_DEVICES = tuple(
    DeclaredDevice(index, f"GPU-00000000-0000-0000-0000-{index:012d}", 80 * 2**30, "Simulated H100 80GB")
    for index in range(2)
)

_LAST_SECOND_US = 1_000_000  # what a device's own figures are averaged over


def prepare(folder: Path, devices: Iterable[DeclaredDevice] = DEFAULT_DEVICES) -> None:
    """Make `folder` describe simulated devices, unless it does already. Only its owner can write there."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    (folder / "clients").mkdir(exist_ok=True)
    if not read_devices(folder):
        lines = [f"{device.index} {device.uuid} {device.memory_total} {device.name}\n" for device in devices]
        draft = folder / "devices.draft"
        draft.write_text("".join(lines), encoding="utf-8")
        draft.replace(folder / "devices")


class SimulatedDevices:
    """The devices that `folder` describes, with the processes that declare there."""

    simulated = True

    def __init__(self, folder: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._monotonic = monotonic
        self._read_at: int | None = None

    def read(self) -> DevicesSeen:
        """Look at every device once."""
        declared = read_devices(self._folder)
        if not declared:
            why = f"{self._folder} describes no simulated devices: restart the server, which writes them anew"
            return DevicesSeen(gaps=(Gap("devices", why),))
        now = round(self._monotonic() * 1e6)
        processes = read_clients(self._folder)
        since, self._read_at = self._read_at, now
        return DevicesSeen(
            devices=tuple(_device(device, processes, now) for device in declared),
            clients=tuple(
                GpuClient(
                    device=device.uuid,
                    pid=pid if held.reported_pid is None else held.reported_pid,
                    memory=held.memory.get(device.index, 0),
                    compute=_mean(held, device.index, processes, since, now),
                )
                for device in declared
                for pid, held in processes.items()
                if device.index in held.devices
            ),
        )

    def close(self) -> None:
        """There is nothing to let go of."""


def _device(device: DeclaredDevice, processes: Mapping[int, Declaration], now: int) -> Device:
    used = sum(held.memory.get(device.index, 0) for held in processes.values())
    busy = min(100.0, _crowd(device.index, processes, now - _LAST_SECOND_US, now))
    return Device(
        uuid=device.uuid,
        index=device.index,
        name=device.name,
        memory_total=device.memory_total,
        memory_used=used,
        memory_reserved=device.memory_reserved,
        compute=busy,
        temperature=30 + busy * 0.4,
        power=60 + busy * 6,
    )


def _crowd(index: int, processes: Mapping[int, Declaration], begin: int, end: int) -> float:
    return sum(held.percent(index, begin, end) for held in processes.values())


def _mean(held: Declaration, index: int, processes: Mapping[int, Declaration], since: int | None, now: int) -> Reading:
    if since is None:
        return Unknown(Why.FIRST_READING)
    begin = min(since, now - 1)
    # Those who want more than the device share it in proportion.
    return held.percent(index, begin, now) * min(1.0, 100 / max(100.0, _crowd(index, processes, begin, now)))
