"""What belongs to an owner, and what that holds on the devices: pure, from a process table and a reading."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jupyter_gpu_guard.core.model import DeviceState, ProcessKey, Reading, Unknown, Why, highest, is_known, total

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from jupyter_gpu_guard.core.model import Device, GpuClient, Process
    from jupyter_gpu_guard.protocols import DevicesSeen


def with_descendants(
    tree: Iterable[ProcessKey], processes: Mapping[int, Process], apart: Collection[ProcessKey] = ()
) -> frozenset[ProcessKey]:
    """`tree` and what its living members have started: their children, and all in a session that one of them leads.

    A process that is older than its parent or its session's leader has got there by a reused pid, and is left out. So
    is what belongs to another owner: the processes `apart`, with what they have started.
    """
    below: dict[ProcessKey, list[ProcessKey]] = defaultdict(list)
    led: dict[ProcessKey, list[ProcessKey]] = defaultdict(list)
    for process in processes.values():
        for above, reach in ((process.parent, below), (process.session, led)):
            ancestor = processes.get(above)
            if ancestor is not None and ancestor.key.start_ticks <= process.key.start_ticks:
                reach[ancestor.key].append(process.key)
    own = frozenset(tree)
    others = frozenset(apart) - own
    # Parents count before sessions: what a TensorBoard has started in the session of a terminal is the TensorBoard's.
    own = _reached(own, others, below)
    others = _reached(others, own, below)
    return _reached(own, others, below, led)


def _reached(
    start: frozenset[ProcessKey], barred: frozenset[ProcessKey], *ways: Mapping[ProcessKey, list[ProcessKey]]
) -> frozenset[ProcessKey]:
    """`start`, and all that can be reached from there without passing one of `barred`."""
    found = set(start)
    open_ends = list(found)
    while open_ends:
        end = open_ends.pop()
        for key in (key for way in ways for key in way.get(end, ())):
            if key not in found and key not in barred:
                found.add(key)
                open_ends.append(key)
    return frozenset(found)


@dataclass(frozen=True)
class Grip:
    """One process of an owner that the driver lists on a device, and what it holds and computes there.

    `process` None: it is listed, and yet there is no such process any more.
    """

    key: ProcessKey
    device: str
    memory: Reading
    process: Process | None
    compute: Reading = 0.0

    @property
    def can_be_ended(self) -> bool:
        """Whether there is something that a signal could reach."""
        return self.process is not None and not self.process.is_over


@dataclass(frozen=True)
class Held:
    """All grips of an owner at one moment. `whole`: every device has answered, so what is not listed is not held.

    `unlisted` is set when a device did not say who is on it: then nobody knows what the owner computes. `labels` are
    what people call the devices that were seen.
    """

    grips: tuple[Grip, ...]
    whole: bool
    unlisted: Unknown | None = None
    labels: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def memory(self) -> Reading:
        """Bytes over all devices."""
        return total(grip.memory for grip in self.grips)

    @property
    def compute(self) -> Reading:
        """Percent, of the busiest of its processes; at most, where only the whole device is measured."""
        return self.unlisted or highest(grip.compute for grip in self.grips)

    @property
    def devices(self) -> frozenset[str]:
        """Where there is a grip."""
        return frozenset(grip.device for grip in self.grips)


def what_is_held(
    tree: Iterable[ProcessKey],
    seen: DevicesSeen,
    identify: Callable[[int], Process | None],
    devices: frozenset[str] = frozenset(),
) -> Held:
    """What the processes of `tree` hold. `devices` are those that must have answered for the picture to be whole.

    A device that nobody here can use is missed by nobody: its gap has its own name, and not that of all devices.
    """
    overall = {device.uuid: device.overall for device in seen.devices}
    known: dict[int, ProcessKey] = {}
    for key in sorted(tree):
        known[key.pid] = key  # of two with the same pid, the younger: the elder is no more
    grips = []
    for client in seen.clients:
        if client.pid in known:
            process = identify(client.pid)
            if process is None or process.key == known[client.pid]:
                compute = _at_most(client, overall)
                grips.append(Grip(known[client.pid], client.device, client.memory, process, compute))
    gap = next((gap for gap in seen.gaps if gap.source == "devices"), None)
    answering = {device.uuid for device in seen.devices if device.state is DeviceState.OK}
    unlisted = None if gap is None and devices <= overall.keys() else Unknown(Why.NOT_READ, gap.why if gap else "")
    whole = gap is None and devices <= answering
    return Held(tuple(grips), whole=whole, unlisted=unlisted, labels=labels_of(seen.devices))


def _at_most(client: GpuClient, overall: Mapping[str, Reading]) -> Reading:
    """What it computes, or what its whole device does where no process is measured by itself."""
    whole = overall.get(client.device, client.compute)
    not_measured = isinstance(client.compute, Unknown) and client.compute.why is Why.NOT_SUPPORTED
    return whole if not_measured and is_known(whole) else client.compute


def freed(before: Held | None, after: Held | None) -> float | None:
    """Bytes that were held before and are not any more; None if either is not known."""
    if before is None or after is None or not (before.whole and after.whole):
        return None
    was, still = before.memory, after.memory
    if not is_known(was) or not is_known(still):
        return None
    return max(0.0, was - still)


def freed_on(before: Held | None, after: Held | None) -> frozenset[str]:
    """The devices on which less is held than before; empty, if that is not known."""
    if before is None or after is None or not freed(before, after):
        return frozenset()
    return frozenset(device for device in before.devices if _on(before, device) > _on(after, device))


def _on(held: Held, device: str) -> float:
    memory = total(grip.memory for grip in held.grips if grip.device == device)
    return memory if is_known(memory) else 0.0


def labels_of(devices: Iterable[Device]) -> Mapping[str, str]:
    """What people call each of `devices`, by its UUID: `GPU 0`, and `GPU 0 MIG 1` for the second part of it.

    A part whose GPU is not among them has none.
    """
    seen = sorted(devices, key=lambda device: device.index)
    whole = {device.uuid: device for device in seen if not device.mig}
    labels = {uuid: f"GPU {device.index}" for uuid, device in whole.items()}
    for uuid in whole:
        parts = [device for device in seen if device.mig and device.part_of == uuid]
        labels.update({part.uuid: f"{labels[uuid]} MIG {place}" for place, part in enumerate(parts)})
    return labels


def say_devices(devices: Iterable[str], labels: Mapping[str, str]) -> str | None:
    """`GPU 0, GPU 1 and GPU 2`; None, if there is none, or one of them has no label."""
    names = {device: labels.get(device) for device in devices}
    if not names or None in names.values():
        return None
    # Numbers in their order, and not as texts: 2 comes before 10.
    *first, last = sorted(filter(None, names.values()), key=lambda name: [int(n) for n in name.split() if n.isdigit()])
    return f"{', '.join(first)} and {last}" if first else last
