"""Asks all sources and puts their answers together in one Snapshot. A source that fails or is late becomes a Gap."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from .aside import Aside, LateError
from .core.model import Gap, GpuClient, Owner, Process, Snapshot, is_known
from .protocols import Clock, Devices, DevicesSeen, Owners, Processes

DEADLINE = 8.0  # seconds; the driver keeps its samples for about 10


class Observer:
    """Looks at devices, processes and owners, in this order: what protects is read last and so is newest."""

    def __init__(
        self, clock: Clock, devices: Devices, processes: Processes, owners: Owners, deadline: float = DEADLINE
    ) -> None:
        self._clock = clock
        self._devices = devices
        self._owners = owners
        self._deadline = deadline
        self._read_devices: Aside[DevicesSeen] = Aside("devices", devices.read, deadline)
        self._read_processes: Aside[Mapping[int, Process]] = Aside("processes", processes.read, deadline)
        self._between: list[DevicesSeen] = []

    async def observe(self) -> Snapshot:
        """One Snapshot. Never raises but for cancellation."""
        gaps: list[Gap] = []
        seen = DevicesSeen()
        try:
            seen = await self._read_devices()
        except LateError as error:
            gaps.append(Gap("devices", f"the driver gave {error}; nothing is judged until it answers"))
        except Exception as error:  # noqa: BLE001  one source's fault is a gap, nothing more
            gaps.append(Gap("devices", f"the devices could not be read: {error}"))
        taken_at = self._clock.now()
        for earlier in self._between:
            seen = _with_peaks_of(earlier, seen)
        self._between.clear()

        processes: Mapping[int, Process] = {}
        try:
            processes = await self._read_processes()
        except Exception as error:  # noqa: BLE001
            gaps.append(Gap("processes", f"the process table could not be read: {error}"))

        owners: tuple[Owner, ...] = ()
        try:
            owners = await asyncio.wait_for(self._owners.read(), self._deadline)
        except asyncio.TimeoutError:
            gaps.append(Gap("owners", f"the server's kernels gave no answer within {self._deadline:g} s"))
        except Exception as error:  # noqa: BLE001
            gaps.append(Gap("owners", f"the server's kernels could not be listed: {error}"))
        return Snapshot(
            taken_at=taken_at,
            devices=seen.devices,
            clients=seen.clients,
            processes=processes,
            owners=owners,
            gaps=(*seen.gaps, *gaps),
            simulated=self._devices.simulated,
        )

    async def look(self) -> DevicesSeen | None:
        """An extra look at the devices, to verify an act. None: they did not answer.

        What it sees of compute is kept for the next Snapshot, since the driver tells it only once.
        """
        try:
            seen = await self._read_devices()
        except Exception:  # noqa: BLE001  the caller is told that nothing is known
            return None
        self._between.append(seen)
        return seen

    async def processes(self) -> Mapping[int, Process]:
        """An extra look at the process table."""
        return await self._read_processes()


def _with_peaks_of(earlier: DevicesSeen, later: DevicesSeen) -> DevicesSeen:
    """`later`, with the compute that `earlier` has seen since the reading before: the higher, and Unknown beats all."""
    before = {(client.device, client.pid): client.compute for client in earlier.clients}

    def peak(client: GpuClient) -> GpuClient:
        seen = before.get((client.device, client.pid))
        if seen is None or not is_known(client.compute):
            return client
        return replace(client, compute=max(seen, client.compute) if is_known(seen) else seen)

    return replace(later, clients=tuple(peak(client) for client in later.clients))
