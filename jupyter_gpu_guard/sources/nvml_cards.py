"""Which devices there are: the GPUs of the driver, and the instances that some of them are divided into."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jupyter_gpu_guard.core.model import Gap, Reading, Unknown, Why

from .nvml_accounting import Accounting
from .nvml_library import NvmlLibrary, TroubleError
from .nvml_overall import DevicePeak
from .nvml_samples import SampleCursor
from .nvml_words import instances_unknown, nameless

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .nvml_gpm import InstanceMeter

SELDOM_SECONDS = 60.0

_ENABLED = 1
_MOST_INSTANCES = 256  # more than any GPU has
_REOPENED = Unknown(Why.NOT_READ, "the driver was opened again")


@dataclass
class Card:
    """One device, and what is remembered of it between readings. `handle` Unknown: the driver does not give it out.

    `divided`: it is a GPU in MIG mode. `parent` is the GPU that an instance is cut from, and `meter` measures it.
    `pids`: who was on it when that was last known, and `used` the bytes that were used then; None: never known.
    `bus_id` names it in sysfs.
    """

    uuid: str
    index: int
    name: str = "GPU"
    handle: Any = None
    divided: bool = False
    parent: Card | None = None
    meter: InstanceMeter | None = None
    bus_id: str | None = None
    cursors: defaultdict[str, SampleCursor] = field(default_factory=lambda: defaultdict(SampleCursor))
    peaks: defaultdict[str, DevicePeak] = field(default_factory=lambda: defaultdict(DevicePeak))
    accounting: Accounting | None = None
    pids: tuple[int, ...] | None = None
    used: Reading | None = None

    @property
    def on_it(self) -> tuple[int, ...]:
        """Who was on it when that was last known."""
        return self.pids or ()


class Cards:
    """All devices by UUID. What rarely changes is looked at about once a minute."""

    def __init__(
        self,
        library: NvmlLibrary,
        monotonic: Callable[[], float],
        meter: Callable[[], InstanceMeter],
        *,
        accounts: bool,
    ) -> None:
        self._library = library
        self._monotonic = monotonic
        self._meter = meter
        self._accounts = accounts
        self._cards: list[Card] = []
        self._instances: dict[str, list[Card]] = {}
        self._looked_at = float("-inf")
        self._nameless: tuple[Gap, ...] = ()
        self._of_instances: dict[str, Gap] = {}
        self.is_incomplete = False

    def __iter__(self) -> Iterator[Card]:
        for card in self._cards:
            yield card
            yield from self._instances.get(card.uuid, ())

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The devices that do not even tell their names."""
        return (*self._nameless, *self._of_instances.values())

    def has_instances(self, card: Card) -> bool:
        """Whether the processes on `card` are found on its instances."""
        return bool(self._instances.get(card.uuid))

    def look_soon(self) -> None:
        """Something may have changed: look at everything before the next reading."""
        self._looked_at = float("-inf")

    def close(self) -> None:
        """Give back what belongs to the driver."""
        for card in self:
            if card.meter is not None:
                card.meter.close()

    def enumerate(self) -> None:
        """Find the devices, with what does not change while the connection is open."""
        by_uuid = {card.uuid: card for card in self._cards}
        by_index = {card.index: card for card in self._cards}
        found: dict[int, Card] = {}
        refused: dict[int, Unknown] = {}
        for index, handle, uuid in self._handles():
            if isinstance(uuid, Unknown):
                refused[index] = uuid
                continue
            card = found[index] = by_uuid.get(uuid) or Card(uuid, index)
            name = self._library.ask("nvmlDeviceGetName", handle)
            bus = self._library.ask("nvmlDeviceGetPciInfo", handle)
            card.index, card.handle = index, handle
            card.name = card.name if isinstance(name, Unknown) else name
            card.bus_id = None if isinstance(bus, Unknown) else _in_sysfs(bus)
        unnamed = []
        for index, why in refused.items():
            known = by_index.get(index)
            if known is not None and known not in found.values():
                known.handle = why
                found[index] = known
            else:
                unnamed.append(nameless(index, why))
        self._cards = [found[index] for index in sorted(found)]
        self._nameless = tuple(unnamed)
        # A device that is kept from this user stays so: no new connection would change it.
        self.is_incomplete = any(why.why is not Why.NO_PERMISSION for why in refused.values())
        for card in self._cards:
            for one in self._instances.get(card.uuid, ()):  # their handles were of the connection before
                one.handle = card.handle if isinstance(card.handle, Unknown) else _REOPENED
        self.look_soon()

    def _handles(self) -> Iterator[tuple[int, Any, Any]]:
        """Index, handle and UUID of all devices. The UUID is Unknown if the driver refuses either."""
        count = self._library.ask("nvmlDeviceGetCount")
        if isinstance(count, Unknown):
            raise TroubleError(f"The NVIDIA driver does not say which devices there are ({count.detail}).")
        for index in range(count):
            handle = self._library.ask("nvmlDeviceGetHandleByIndex", index)
            yield (
                index,
                handle,
                handle if isinstance(handle, Unknown) else self._library.ask("nvmlDeviceGetUUID", handle),
            )

    def look(self, *, skipping: Callable[[Card], bool]) -> None:
        """About once a minute, look at what rarely changes; not at devices that `skipping` names."""
        now = self._monotonic()
        if now - self._looked_at < SELDOM_SECONDS:
            return
        self._looked_at = now
        for card in self._cards:
            if not isinstance(card.handle, Unknown) and not skipping(card):
                self._look_at(card)

    def _look_at(self, card: Card) -> None:
        mode = self._library.ask("nvmlDeviceGetMigMode", card.handle)
        if isinstance(mode, Unknown):
            divided = card.divided and mode.why is not Why.NOT_SUPPORTED
        else:
            divided = mode[0] == _ENABLED
        if divided != card.divided:
            self._library.forget(card.handle)
            card.divided, card.accounting = divided, None
            card.cursors.clear()
            card.peaks.clear()
        before = self._instances.pop(card.uuid, [])
        self._of_instances.pop(card.uuid, None)
        if divided:
            self._instances[card.uuid] = self._find_instances(card, before)
        for gone in before:
            if gone not in self._instances.get(card.uuid, ()) and gone.meter is not None:
                gone.meter.close()
        if self._accounts and not divided:
            on = self._library.ask("nvmlDeviceGetAccountingMode", card.handle) == _ENABLED
            card.accounting = (card.accounting or Accounting()) if on else None

    def _find_instances(self, card: Card, before: list[Card]) -> list[Card]:
        """The instances of a divided GPU; those of before if the driver does not tell."""
        by_uuid = {one.uuid: one for one in before}
        found: list[Card] = []
        most = self._library.ask("nvmlDeviceGetMaxMigDeviceCount", card.handle)
        if not isinstance(most, Unknown) and most > _MOST_INSTANCES:
            most = Unknown(Why.IMPLAUSIBLE, f"it says that there may be {most}")
        for number in range(0 if isinstance(most, Unknown) else most):
            handle = self._library.ask("nvmlDeviceGetMigDeviceHandleByIndex", card.handle, number, form=str(number))
            if isinstance(handle, Unknown) and handle.why in {Why.NOT_AVAILABLE, Why.NO_PERMISSION}:
                continue  # no instance has this number, or none that this user can use
            uuid = handle if isinstance(handle, Unknown) else self._library.ask("nvmlDeviceGetUUID", handle)
            if isinstance(uuid, Unknown):
                most = uuid
                break
            one = by_uuid.get(uuid)
            if one is None:
                self._library.forget(handle)  # the driver uses its handles again
                name = self._library.ask("nvmlDeviceGetName", handle)
                shown = f"{card.name} MIG" if isinstance(name, Unknown) else name
                one = Card(uuid, card.index, shown, parent=card, meter=self._meter())
            one.index, one.handle = card.index, handle
            found.append(one)
        if not isinstance(most, Unknown):
            return found
        if most.why is not Why.DEVICE_LOST:
            self._of_instances[card.uuid] = Gap("devices", f"{card.name}: {instances_unknown(most)}")
            self.look_soon()
        return [*found, *(one for one in before if one not in found)]


def _in_sysfs(bus: Any) -> str | None:
    """The name of a PCI device in sysfs, whose domain has four digits where the driver's has eight."""
    try:
        domain, colon, rest = bus.busId.lower().partition(":")
        return f"{int(domain, 16):04x}:{rest}" if colon else None
    except ValueError:  # no text, or no number
        return None
