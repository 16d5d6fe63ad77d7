"""Whose process is it? Snapshot in, Holders and Strangers out. Pure.

A process belongs to the nearest owner among its ancestors. What was attributed once is remembered by ProcessKey (the
lineage), so that a worker whose parents have ended, or that moved to a session of its own, stays where it belongs. Who
slipped away before it was seen is known by what it has inherited in its environment (`core.marks`). Everything else on
a device is a stranger.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from .left_behind import left_behind
from .marks import Marked
from .model import (
    Device,
    DeviceState,
    GpuClient,
    GpuProcess,
    Holder,
    Holding,
    Owner,
    OwnerKey,
    OwnerState,
    Process,
    ProcessKey,
    Snapshot,
    Strangers,
    Unknown,
    Why,
    is_known,
    total,
)


@dataclass(frozen=True)
class Kin:
    """What is remembered of one process: its owner as last seen, its root, the devices it was last on."""

    owner: Owner
    root: ProcessKey
    devices: frozenset[str] = frozenset()


Lineage = Mapping[ProcessKey, Kin]


@dataclass(frozen=True)
class Attribution:
    """Every owner as a Holder (also those that hold nothing), the strangers by device, the lineage for next time."""

    holders: tuple[Holder, ...] = ()
    strangers: tuple[Strangers, ...] = ()
    lineage: Lineage = field(default_factory=dict)


def attribute(snapshot: Snapshot, lineage: Lineage) -> Attribution:
    """Sort all that is on the devices under its owners.

    A source that did not answer makes the holders it could have changed Unknown; it makes nobody a stranger or idle.
    """
    owners = _owners(snapshot, lineage)
    kin = dict(lineage) if snapshot.missed("processes") else _kin(snapshot, owners, lineage)
    identified = _identify(snapshot)
    blind = _blind(snapshot)

    rows: list[GpuProcess] = []
    strange: dict[str, list[GpuClient]] = defaultdict(list)
    for client, process in identified:
        if process is not None and process.key in kin:
            rows.append(_row(client, process))
        elif not snapshot.missed("owners"):  # otherwise nobody knows who else is ours
            strange[client.device].append(client)
    rows += _on_lost_devices(snapshot, kin, {(row.key, row.device) for row in rows})

    charged: dict[OwnerKey, list[GpuProcess]] = defaultdict(list)
    leftovers: dict[OwnerKey, list[GpuProcess]] = defaultdict(list)
    for row in rows:
        who = kin[row.key]
        # An owner that is gone, but has left something behind, is shown as it was last known.
        owner = owners.setdefault(who.owner.key, who.owner)
        (charged if owner.root == who.root else leftovers)[owner.key].append(row)

    trees: dict[OwnerKey, list[ProcessKey]] = defaultdict(list)
    earlier: dict[OwnerKey, list[ProcessKey]] = defaultdict(list)
    for process_key, who in kin.items():
        charging = owners.get(who.owner.key)
        if charging is not None:
            (trees if charging.root == who.root else earlier)[charging.key].append(process_key)

    # What a kernel has left behind is judged by itself, and shown with the kernel besides.
    apart = {of: left for of, rows in leftovers.items() if (left := left_behind(owners[of], rows)) is not None}
    for of, left in apart.items():
        owners[left.key] = left
        charged[left.key], trees[left.key] = leftovers[of], earlier[of]

    alone = _alone(snapshot, charged, {of: rows for of, rows in leftovers.items() if of not in apart}, strange)
    holders = tuple(
        Holder(
            owner=owner,
            holdings=_holdings(charged[key], alone),
            tree=tuple(sorted(trees[key])),
            leftovers=tuple(sorted(leftovers[key], key=lambda row: (row.device, row.key))),
            unknown=blind or _elsewhere(owner),
            cpu={each: snapshot.processes[each.pid].cpu for each in trees[key] if each.pid in snapshot.processes},
            activity=snapshot.activity.get(key),
        )
        for key, owner in sorted(owners.items())
    )
    strangers = tuple(
        Strangers(device, len(clients), total(client.memory for client in clients))
        for device, clients in sorted(strange.items())
    )
    return Attribution(holders, strangers, _remember(kin, holders, snapshot))


def _owners(snapshot: Snapshot, lineage: Lineage) -> dict[OwnerKey, Owner]:
    if not snapshot.missed("owners"):
        return {owner.key: owner for owner in snapshot.owners}
    remembered = {kin.root: kin.owner for kin in lineage.values() if kin.owner.root == kin.root}
    return {owner.key: replace(owner, state=OwnerState.UNKNOWN) for owner in remembered.values()}


def _row(client: GpuClient, process: Process) -> GpuProcess:
    return GpuProcess(
        key=process.key,
        device=client.device,
        memory=client.memory,
        compute=client.compute,
        started_at=process.started_at,
        type=client.type,
        evidence=client.evidence,
    )


def _elsewhere(owner: Owner) -> Unknown | None:
    """What an owner without a process of its own here holds is not known, unless it has ended."""
    return None if owner.root or owner.state is OwnerState.DEAD else Unknown(Why.NOT_LOCAL)


def _kin(snapshot: Snapshot, owners: Mapping[OwnerKey, Owner], lineage: Lineage) -> dict[ProcessKey, Kin]:
    """The owner of every living process that has one.

    Most processes of a machine are nobody's here, and thousands of them are looked at each time: so what costs is done
    only for those who may be somebody's.
    """
    processes = snapshot.processes
    family = _Family(snapshot, owners, lineage)
    found: dict[int, Kin | None] = {}  # by pid: within one table it names one process
    for process in processes.values():
        path: list[Process] = []
        kin: Kin | None = None
        current: Process | None = process
        while current is not None:
            pid = current.key.pid
            if pid in found:
                kin = found[pid]
                break
            found[pid] = None  # so that no loop in a torn table is walked twice
            path.append(current)
            parent = processes.get(current.parent)
            # A parent that is younger than its child is another process with a reused pid.
            is_younger = parent is not None and parent.key.start_ticks > current.key.start_ticks
            current = None if is_younger else parent
        for descendant in reversed(path):
            kin = found[descendant.key.pid] = family.kin_of(descendant, kin)
    return {
        process.key: Kin(kin.owner, kin.root, _devices_of(lineage, process.key))
        for process in processes.values()
        if (kin := found[process.key.pid]) is not None and not process.is_over
    }


class _Family:
    """Who a process belongs to, once that is known of its parent."""

    def __init__(self, snapshot: Snapshot, owners: Mapping[OwnerKey, Owner], lineage: Lineage) -> None:
        self._processes = snapshot.processes
        self._owners = owners
        self._marked = Marked(snapshot, owners)
        self._roots = {owner.root: owner for owner in owners.values() if owner.root is not None}
        self._lineage = lineage
        # Whose pid is not among these shows nothing by itself.
        self._telling = {key.pid for key in (*self._roots, *lineage)}
        self._is_marked = {key.pid for key in snapshot.marks}

    def kin_of(self, process: Process, parent: Kin | None) -> Kin | None:
        """The owner of `process`, given that of its `parent`."""
        pid = process.key.pid
        shown = self._shown_by(process) if pid in self._telling else None
        if shown is not None and not self._has_moved(shown, parent):
            return shown
        if parent is not None:
            return parent
        # A kernel leads a session of its own: whoever is in it came from there, even if the parents between have ended.
        leader = self._processes.get(process.session) if process.session in self._telling else None
        if leader is not None and leader.key.start_ticks <= process.key.start_ticks:
            led = self._shown_by(leader)
            if led is not None:
                return led
        found = self._marked.owner_of(process) if pid in self._is_marked else None
        return None if found is None else Kin(*found)

    def _shown_by(self, process: Process) -> Kin | None:
        """The owner that this very process shows, apart from its ancestors."""
        if (owner := self._roots.get(process.key)) is not None:
            return Kin(owner, process.key)
        if (remembered := self._lineage.get(process.key)) is None:
            return None
        owner = self._owners.get(remembered.owner.key)
        if owner is None:
            owner = replace(remembered.owner, root=None, state=OwnerState.DEAD)
        return Kin(owner, remembered.root)

    def _has_moved(self, remembered: Kin, parent: Kin | None) -> bool:
        """Whether a process remembered under one root has a nearer one by now.

        So it is when a TensorBoard is found in the tree of a kernel: what was only a process of the kernel takes its
        descendants with it. Any other change of parents, as when an orphan is adopted, changes nothing.
        """
        if parent is None or (before := self._lineage.get(parent.root)) is None:
            return False
        return before.root == remembered.root != parent.root


def _identify(snapshot: Snapshot) -> list[tuple[GpuClient, Process | None]]:
    """Join the driver's bare pids with the process table; a zombie holds nothing and is left out."""
    if snapshot.missed("processes"):
        return []
    rows = []
    for client in snapshot.clients:
        process = snapshot.processes.get(client.pid)
        if process is None or not process.is_over:
            rows.append((client, process))
    return sorted(rows, key=lambda row: (row[0].device, row[0].pid))


def _blind(snapshot: Snapshot) -> Unknown | None:
    """Whether a source that names processes was silent: then no holder's holdings are known in full."""
    gap = snapshot.missed("devices", "processes", "owners", "leases")
    return None if gap is None else Unknown(Why.NOT_READ, gap.source)


def _on_lost_devices(
    snapshot: Snapshot, kin: Lineage, listed: AbstractSet[tuple[ProcessKey, str]]
) -> Iterator[GpuProcess]:
    """Those last seen on a device that is lost: what they hold there is not known, and not nothing."""
    lost = {device.uuid for device in snapshot.devices if device.state is DeviceState.LOST}
    if not lost or snapshot.missed("processes"):
        return
    gone = Unknown(Why.DEVICE_LOST)
    for key, who in kin.items():
        for device in who.devices & lost:
            if (key, device) not in listed:
                yield GpuProcess(key, device, gone, gone, snapshot.processes[key.pid].started_at)


def _alone(
    snapshot: Snapshot,
    charged: Mapping[OwnerKey, list[GpuProcess]],
    leftovers: Mapping[OwnerKey, list[GpuProcess]],
    strange: Mapping[str, list[GpuClient]],
) -> Mapping[str, Device]:
    """The devices that measure only as a whole, and on which one owner is alone: there the whole is its own.

    `leftovers` are those that are charged to nobody.
    """
    users: dict[str, set[OwnerKey | None]] = defaultdict(set)
    for key, rows in charged.items():
        for row in rows:
            users[row.device].add(key)
    for row in (row for rows in leftovers.values() for row in rows):
        users[row.device].add(None)
    return {
        device.uuid: device
        for device in snapshot.devices
        if is_known(device.overall)
        and device.state is DeviceState.OK
        and len(users[device.uuid]) == 1
        and None not in users[device.uuid]
        and not strange.get(device.uuid)
    }


def _holdings(rows: list[GpuProcess], alone: Mapping[str, Device]) -> tuple[Holding, ...]:
    by_device: dict[str, list[GpuProcess]] = defaultdict(list)
    for row in rows:
        by_device[row.device].append(row)
    return tuple(
        Holding(device, tuple(sorted(processes, key=lambda row: row.key)), _stand_in(processes, alone.get(device)))
        for device, processes in sorted(by_device.items())
    )


def _stand_in(processes: list[GpuProcess], device: Device | None) -> float | None:
    """The device's figure, if some of its processes are not measured at all: anything else unknown stays unknown."""
    unknown = [process.compute for process in processes if not is_known(process.compute)]
    if device is None or not unknown or any(why.why is not Why.NOT_SUPPORTED for why in unknown):
        return None
    return device.overall if is_known(device.overall) else None


def _devices_of(lineage: Lineage, key: ProcessKey) -> frozenset[str]:
    kin = lineage.get(key)
    return kin.devices if kin else frozenset()


def _remember(kin: Lineage, holders: tuple[Holder, ...], snapshot: Snapshot) -> Lineage:
    """Note for each process which devices it is on; a device that did not answer keeps what was known."""
    if snapshot.missed("devices", "processes"):
        return kin
    on: dict[ProcessKey, set[str]] = defaultdict(set)
    for holder in holders:
        for row in (*holder.leftovers, *(row for holding in holder.holdings for row in holding.processes)):
            on[row.key].add(row.device)
    nowhere = frozenset[str]()
    return {key: Kin(who.owner, who.root, frozenset(on[key]) if key in on else nowhere) for key, who in kin.items()}
