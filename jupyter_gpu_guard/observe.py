"""Asks all sources and puts their answers together in one Snapshot. A source that fails or is late becomes a Gap."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace

from .aside import Aside, LateError
from .core.attribute import Attribution
from .core.model import (
    Activity,
    Gap,
    Mark,
    Owner,
    OwnerKey,
    OwnerKind,
    Process,
    ProcessKey,
    Reading,
    Snapshot,
    Unknown,
    Why,
    is_known,
)
from .protocols import Clock, Devices, DevicesSeen, Insight, Owners, Processes

DEADLINE = 8.0  # seconds; the driver keeps its samples for about 10
ACTIVITY_EVERY = 25.0  # seconds; a closed connection can be seen for about 60, and the looks may be 30 apart

_NOBODY = Attribution()


class Observer:
    """Looks at devices, processes and owners, in this order: what protects is read last and so is newest.

    `activity_every`: seconds between two closer looks at what the owners' processes do. `of_owners`: which kinds of
    owners could not be listed in their last answer, while the others could.
    """

    def __init__(
        self,
        clock: Clock,
        devices: Devices,
        processes: Processes,
        owners: Owners,
        deadline: float = DEADLINE,
        *,
        insight: Insight | None = None,
        activity_every: float = ACTIVITY_EVERY,
        of_owners: Callable[[], tuple[Gap, ...]] = tuple,
    ) -> None:
        self._clock = clock
        self._devices = devices
        self._owners = owners
        self._deadline = deadline
        self._activity_every = activity_every
        self._of_owners = of_owners
        self._uses: frozenset[object] = frozenset()
        self._active: Mapping[OwnerKey, Activity] = {}
        self._active_at: float | None = None
        self._read_devices: Aside[DevicesSeen] = Aside("devices", devices.read, deadline)
        self._read_processes: Aside[Mapping[int, Process]] = Aside("processes", processes.read, deadline)
        self._marks: Aside[Mapping[ProcessKey, Mark]] | None = None
        self._activity: Aside[Mapping[OwnerKey, Activity]] | None = None
        if insight is not None:
            self._marks = Aside("marks", insight.marks, deadline)
            self._activity = Aside("activity", insight.activity, deadline)
        self._between: list[DevicesSeen] = []
        self._is_lost = False  # an extra look has failed, and with it what the driver tells only once

    async def observe(self, before: Attribution = _NOBODY) -> Snapshot:
        """One Snapshot. `before` is what the previous one led to. Never raises but for cancellation."""
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
        if self._is_lost and seen.devices:
            seen, self._is_lost = _without_compute(seen), False

        processes: Mapping[int, Process] = {}
        closely = {key.pid for key in before.lineage}  # of strangers nothing is wanted but who they are
        try:
            processes = await self._read_processes(closely)
        except Exception as error:  # noqa: BLE001
            gaps.append(Gap("processes", f"the process table could not be read: {error}"))

        owners: tuple[Owner, ...] = ()
        try:
            owners = await asyncio.wait_for(self._owners.read(processes), self._deadline)
            gaps += self._of_owners()
        except asyncio.TimeoutError:
            gaps.append(Gap("owners", f"the server's kernels gave no answer within {self._deadline:g} s"))
        except Exception as error:  # noqa: BLE001
            gaps.append(Gap("owners", f"the server's kernels could not be listed: {error}"))
        self._uses = _uses(owners)
        snapshot = Snapshot(
            taken_at=taken_at,
            devices=seen.devices,
            clients=seen.clients,
            processes=processes,
            owners=owners,
            gaps=(*seen.gaps, *gaps),
            simulated=self._devices.simulated,
        )
        return await self._with_insight(snapshot, before)

    async def look(self) -> DevicesSeen | None:
        """An extra look at the devices, to verify an act. None: they did not answer.

        What it sees of compute is kept for the next Snapshot, since the driver tells it only once. If it fails, the
        next one knows nothing of compute.
        """
        try:
            seen = await self._read_devices()
        except Exception:  # noqa: BLE001  the caller is told that nothing is known
            self._is_lost = True
            return None
        self._between.append(seen)
        return seen

    async def processes(self) -> Mapping[int, Process]:
        """An extra look at the process table."""
        return await self._read_processes()

    async def stirs(self) -> bool:
        """Whether a cell runs, or an owner is not what it was at the last Snapshot, or that cannot be told.

        Asks no device.
        """
        try:
            owners = await asyncio.wait_for(self._owners.read(), self._deadline)
        except Exception:  # noqa: BLE001
            return True
        return any(owner.state.is_running_a_cell for owner in owners) or _uses(owners) != self._uses

    async def _with_insight(self, snapshot: Snapshot, before: Attribution) -> Snapshot:
        """`snapshot` with a closer look at the processes that matter."""
        marks: Mapping[ProcessKey, Mark] = {}
        gaps = []
        keys = _of_nobody(snapshot, before)
        if keys:
            keys |= {owner.root for owner in snapshot.owners if owner.root is not None}
        keys |= _in_terminals(snapshot, before)
        if self._marks is not None and keys:
            try:
                marks = await self._marks(keys)
            except Exception as error:  # noqa: BLE001
                gaps.append(Gap("marks", f"the environment of processes could not be read: {error}"))
        now = snapshot.taken_at.monotonic
        trees, ports = _to_look_into(snapshot, before)
        due = self._active_at is None or now - self._active_at >= self._activity_every
        if not trees:
            self._active, self._active_at = {}, None
        elif self._activity is not None and (due or trees.keys() - self._active.keys()):
            try:
                self._active = await self._activity(trees, ports)
                self._active_at = now
            except Exception as error:  # noqa: BLE001
                self._active, self._active_at = {}, None
                gaps.append(Gap("activity", f"what processes do apart from GPUs could not be read: {error}"))
        return replace(snapshot, marks=marks, activity=self._active, gaps=(*snapshot.gaps, *gaps))


def _uses(owners: tuple[Owner, ...]) -> frozenset[object]:
    return frozenset((owner.key, owner.root, owner.state, owner.used_at) for owner in owners)


def _of_nobody(snapshot: Snapshot, before: Attribution) -> set[ProcessKey]:
    """The processes on a device that were not attributed before."""
    rows = (snapshot.processes.get(client.pid) for client in snapshot.clients)
    return {process.key for process in rows if process is not None and process.key not in before.lineage}


def _in_terminals(snapshot: Snapshot, before: Attribution) -> set[ProcessKey]:
    """What lives in terminals that held a device before, also what was started there since."""
    held = [h for h in before.holders if h.owner.key.kind is OwnerKind.TERMINAL and h.holdings]
    known = {process.key for process in snapshot.processes.values()} if held else set()
    found = {key for holder in held for key in holder.tree if key in known}
    if not found:
        return found
    children: dict[int, list[ProcessKey]] = defaultdict(list)
    for process in snapshot.processes.values():
        children[process.parent].append(process.key)
    queue = list(found)
    while queue:
        parent = queue.pop()
        for child in children[parent.pid]:
            if child not in found and child.start_ticks >= parent.start_ticks:
                found.add(child)
                queue.append(child)
    return found


def _to_look_into(
    snapshot: Snapshot, before: Attribution
) -> tuple[dict[OwnerKey, tuple[ProcessKey, ...]], dict[OwnerKey, frozenset[int]]]:
    """The trees of those that hold a GPU, and of all that are no kernels; with the ports that are Jupyter's."""
    ports = {owner.key: owner.own_ports for owner in snapshot.owners}
    # No source lists what was left behind, and Jupyter talks to none of it.
    ports |= {h.owner.key: h.owner.own_ports for h in before.holders if h.owner.key.kind is OwnerKind.LEFTOVERS}
    trees = {
        holder.owner.key: holder.tree
        for holder in before.holders
        if holder.owner.key in ports and (holder.holdings or holder.owner.key.kind is not OwnerKind.KERNEL)
    }
    return trees, {key: ports[key] for key in trees}


def _with_peaks_of(earlier: DevicesSeen, later: DevicesSeen) -> DevicesSeen:
    """`later`, with the compute that `earlier` has seen since the reading before: the higher, and Unknown beats all."""
    before = {(client.device, client.pid): client.compute for client in earlier.clients}
    whole = {device.uuid: device.overall for device in earlier.devices}
    return replace(
        later,
        clients=tuple(
            replace(client, compute=_peak(before.get((client.device, client.pid)), client.compute))
            for client in later.clients
        ),
        devices=tuple(
            replace(device, overall=_peak(whole.get(device.uuid), device.overall)) for device in later.devices
        ),
    )


def _without_compute(seen: DevicesSeen) -> DevicesSeen:
    """`seen`, if it does not tell of all the time since the Snapshot before."""
    lost = Unknown(Why.NOT_READ, "a part of what the driver had to tell came too late")
    return replace(
        seen,
        clients=tuple(replace(client, compute=_peak(lost, client.compute)) for client in seen.clients),
        devices=tuple(replace(device, overall=_peak(lost, device.overall)) for device in seen.devices),
    )


def _peak(earlier: Reading | None, later: Reading) -> Reading:
    """The higher of two. Nothing was said earlier where nobody was there, or nobody needed to know."""
    if earlier is None or not is_known(later):
        return later
    if not is_known(earlier):
        return later if earlier.why is Why.NOT_SUPPORTED else earlier
    return max(earlier, later)
