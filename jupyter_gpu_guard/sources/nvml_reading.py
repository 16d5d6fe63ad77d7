"""One reading of one device: its figures, who is on it, and how much each of them computes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jupyter_gpu_guard.core.model import Device, DeviceState, Gap, GpuClient, Reading, Unknown, Why, is_known, total

from .nvml_figures import Figures
from .nvml_processes import Listed
from .nvml_samples import Computed, busiest
from .nvml_words import ESTIMATED, is_unusable, who_is_unknown
from .sole_owner import can_be_estimated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .nvml_cards import Card
    from .nvml_library import NvmlLibrary
    from .nvml_processes import ProcessLists
    from .sole_owner import SoleOwner

    Seen = tuple[Device, tuple[GpuClient, ...], Gap | None]

_SAMPLES = "nvmlDeviceGetProcessUtilization"
_MORE_SAMPLES = "nvmlDeviceGetProcessesUtilizationInfo"  # further engines, and not in every driver
_ON_ITS_GPU = Unknown(Why.NOT_SUPPORTED, "it is measured for the whole GPU")
_DIVIDED = Unknown(Why.NOT_SUPPORTED, "the driver does not measure compute with MIG")
_LEAST_CONTEXT = 64 * 2**20  # bytes; a context on a device has never taken less
# Kinds of nvmlDeviceGetSamples: the compute engine, and the memory, without which no other engine works either.
_DEVICE_SAMPLES = (1, 2)


class CardReader:
    """Reads devices one by one. `sysfs` is where the kernel tells whether a device sleeps.

    `sole`, if given, estimates who is on a device whose processes are hidden.
    """

    def __init__(
        self,
        library: NvmlLibrary,
        lists: ProcessLists,
        monotonic: Callable[[], float],
        wall: Callable[[], float],
        sysfs: Path,
        sole: SoleOwner | None,
    ) -> None:
        self._library = library
        self._lists = lists
        self._monotonic = monotonic
        self._wall = wall
        self._sysfs = sysfs
        self._sole = sole
        self._figures = Figures(library)

    def sleeps(self, card: Card) -> bool:
        """Whether the device is asleep with nobody on it, so that any question would wake it up."""
        if card.pids != () or card.bus_id is None or card.divided:
            return False
        status = self._sysfs / "bus/pci/devices" / card.bus_id / "power/runtime_status"
        try:
            return status.read_text(encoding="ascii").strip() == "suspended"
        except (OSError, ValueError):
            return False

    def read(self, card: Card, *, has_instances: bool) -> Seen:
        """One device now. With `has_instances` nobody is listed on it: they are on its instances."""
        if isinstance(card.handle, Unknown):
            return _silent(card, card.handle)
        if self.sleeps(card):
            return _blank(card, Unknown(Why.SUSPENDED), DeviceState.SUSPENDED), (), None
        memory = self._figures.memory(card.handle)
        listed = Listed() if has_instances else self._listed(card, memory)
        measured = not card.divided and card.parent is None
        computed = self._computed(card) if measured else Computed(absent=_DIVIDED)
        answers = (memory[1], listed, computed.absent)
        if any(isinstance(answer, Unknown) and answer.why is Why.DEVICE_LOST for answer in answers):
            return _silent(card, Unknown(Why.DEVICE_LOST))
        failing = any(isinstance(answer, Unknown) and answer.why is Why.DRIVER_ERROR for answer in answers)
        device = self._device(card, memory, failing=failing or _is_refusal(listed))
        if isinstance(listed, Unknown):
            if (guess := self._guess(card, device, listed)) is not None:
                return guess
            source = f"device {card.index}" if _nobody_else_is_on_it(card, memory[1], listed) else "devices"
            return device, _remembered(card, listed), Gap(source, f"{card.name}: {who_is_unknown(listed)}")
        clients = tuple(self._clients(card, listed, computed))
        card.pids, card.used = tuple(listed.memory), memory[1]
        if (filled := self._guess_the_rest(card, device, clients)) is not None:
            return device, (filled,), None
        overall = self._overall(card, clients)
        shown = overall if card.parent is not None else device.compute
        return replace(device, overall=overall, compute=shown), clients, None

    def _device(self, card: Card, memory: tuple[Reading, Reading, Reading], *, failing: bool) -> Device:
        whole = card.parent is None
        return replace(
            _blank(card, _ON_ITS_GPU, DeviceState.FAILING if failing else DeviceState.OK),
            memory_total=memory[0],
            memory_used=memory[1],
            memory_reserved=memory[2],
            compute=self._figures.utilization(card.handle) if whole else _DIVIDED,
            temperature=self._figures.temperature(card.handle) if whole else _ON_ITS_GPU,
            power=self._figures.power(card.handle) if whole else _ON_ITS_GPU,
        )

    def _listed(self, card: Card, memory: tuple[Reading, Reading, Reading]) -> Listed | Unknown:
        listed = self._lists.read(card.handle, card.uuid, memory[0])
        if isinstance(listed, Unknown) or not _is_too_much(listed, memory):
            return listed
        # Somebody may have taken much between the two questions.
        if not _is_too_much(listed, self._figures.memory(card.handle)):
            return listed
        return Unknown(Why.IMPLAUSIBLE, "its processes hold more than is used: driver and library disagree")

    def _computed(self, card: Card) -> Computed:
        """What the driver's samples say. Unknown for all: they cannot be read."""
        monotonic, wall = self._monotonic(), self._wall()

        def read(name: str) -> Computed:
            cursor = card.cursors[name]
            return cursor.read(lambda seen: self._library.ask_rows(name, card.handle, seen), monotonic, wall)

        main, more = read(_SAMPLES), read(_MORE_SAMPLES)
        offered = is_known(more.absent) or more.absent.why is not Why.NOT_SUPPORTED
        return busiest((main, more)) if offered else main

    def _clients(self, card: Card, listed: Listed, computed: Computed) -> Iterator[GpuClient]:
        # A driver may list pids of this container and measure those of the host: then absence proves nothing. Newer
        # drivers still measure the neighbours of a container by the host's pids; when such a one is by chance a pid
        # that is listed here, the neighbour's work counts as ours too, which cannot be told and can only protect.
        elsewhere = self._lists.namespaced and bool(computed.named.keys() - listed.memory.keys() - set(card.on_it))
        accounting = card.accounting
        if accounting is not None:
            ask = lambda pid: self._library.ask("nvmlDeviceGetAccountingStats_v2", card.handle, pid)  # noqa: E731
            if accounting.read(ask, listed.memory) is not None:
                accounting = card.accounting = None
        for pid, memory in listed.memory.items():
            compute = computed.of(pid) if accounting is None else accounting.of(pid, computed)
            if pid not in computed.named and compute == 0:
                if elsewhere:
                    compute = Unknown(Why.PIDS_HIDDEN, "the driver measures processes that it does not list here")
                elif pid in listed.shared:
                    compute = Unknown(Why.NOT_SUPPORTED, "the driver does not measure the multi-process service")
            yield GpuClient(card.uuid, pid, memory, compute, listed.types[pid])

    def _overall(self, card: Card, clients: tuple[GpuClient, ...]) -> Reading:
        """How busy the whole device was; asked only where it can stand in for somebody who is not measured."""
        if not any(isinstance(one.compute, Unknown) and one.compute.why is Why.NOT_SUPPORTED for one in clients):
            card.peaks.clear()
            if card.meter is not None:
                card.meter.close()
            return Unknown(Why.NOT_SUPPORTED, "nobody needs it")
        return self._whole(card)

    def _guess(self, card: Card, device: Device, listed: Unknown) -> Seen | None:
        """Who is on a device that lists nobody by a number of here, if an estimate is wanted and can be made."""
        if self._sole is None or listed.why is not Why.PIDS_HIDDEN:
            return None
        client = self._sole.of_hidden(device, self._whole(card), self._lists.listed())
        if client is None:
            return None
        return device, (client,), Gap(f"device {card.index}", f"{card.name}: {ESTIMATED}")

    def _guess_the_rest(self, card: Card, device: Device, clients: tuple[GpuClient, ...]) -> GpuClient | None:
        """The only one that is listed, with what the driver hides of it estimated, if that is wanted and can be."""
        if self._sole is None or len(clients) != 1 or not can_be_estimated(clients[0]):
            return None
        return self._sole.of_listed(device, self._whole(card), clients[0])

    def _whole(self, card: Card) -> Reading:
        """How busy the whole device was since this was asked last, at most."""
        if card.meter is not None and card.parent is not None:
            return card.meter.read(card.handle, card.parent.handle)
        if card.divided:
            return _DIVIDED
        monotonic, wall = self._monotonic(), self._wall()
        highest = 0.0
        for kind in _DEVICE_SAMPLES:

            def ask(seen: int, kind: int = kind) -> Any:
                return self._library.ask("nvmlDeviceGetSamples", card.handle, kind, seen, form=str(kind))

            peak = card.peaks[str(kind)].read(ask, monotonic, wall)
            if not is_known(peak):
                return peak
            highest = max(highest, peak)
        return highest


def _blank(card: Card, why: Unknown, state: DeviceState) -> Device:
    return Device(
        uuid=card.uuid,
        index=card.index,
        name=card.name,
        memory_total=why,
        memory_used=why,
        memory_reserved=why,
        compute=why,
        temperature=why,
        power=why,
        overall=why,
        mig=card.divided or card.parent is not None,
        state=state,
        part_of=None if card.parent is None else card.parent.uuid,
    )


def _silent(card: Card, why: Unknown) -> Seen:
    """A device of which nothing can be read. Who was on it stays there, with nothing known."""
    lost = why.why is Why.DEVICE_LOST
    # Nobody computes on a lost device, so it makes nothing unknown elsewhere; any other silence may hide work.
    gap = None if lost else Gap(f"device {card.index}" if is_unusable(why) else "devices", who_is_unknown(why))
    gap = gap and replace(gap, why=f"{card.name}: {gap.why}")
    return _blank(card, why, DeviceState.LOST if lost else DeviceState.FAILING), _remembered(card, why), gap


def _nobody_else_is_on_it(card: Card, used: Reading, listed: Unknown) -> bool:
    """Whether a list that fails can hide no more than what those do who were in the last one.

    Whoever comes new takes memory for its context, so while what is used has not changed, nobody has. A device that
    this user may not even ask for its memory is one on which nothing of this user can be.
    """
    if listed.why in {Why.PIDS_HIDDEN, Why.FIRST_READING}:
        return False
    if not is_known(used):
        return is_unusable(listed) and is_unusable(used)
    return card.used is not None and is_known(card.used) and abs(used - card.used) < _LEAST_CONTEXT


def _remembered(card: Card, why: Unknown) -> tuple[GpuClient, ...]:
    return tuple(GpuClient(card.uuid, pid, why, why) for pid in card.on_it)


def _is_too_much(listed: Listed, memory: tuple[Reading, Reading, Reading]) -> bool:
    """Whether the processes hold more than can be.

    Memory that they share may count once for each of them, so as much as a whole device is granted on top of what is
    used: a list that is shifted by a few bytes is far beyond even that.
    """
    held = total(one for one in listed.memory.values() if is_known(one))
    most = total(memory[:2])
    return is_known(held) and is_known(most) and held > most


def _is_refusal(listed: Listed | Unknown) -> bool:
    """Whether the driver did not give its list; that its numbers mean nothing here is no fault of the device."""
    return isinstance(listed, Unknown) and listed.why not in {Why.PIDS_HIDDEN, Why.FIRST_READING}
