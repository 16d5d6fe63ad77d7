"""The graphics devices of AMD's and Intel's kernel drivers, as /sys shows them."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from jupyter_gpu_guard.core.model import Device, DeviceState, Reading, Unknown, Why, is_known
from jupyter_gpu_guard.core.model import total as sum_of

DRIVERS = ("amdgpu", "i915", "xe")
PCI_NAMES = (Path("/usr/share/misc/pci.ids"), Path("/usr/share/hwdata/pci.ids"))

_CARD = re.compile(r"card[0-9]+")
_MOST = float(2**63)
_LONGEST = 64  # characters of a number with its white space
_VENDORS = {"1002": "AMD", "8086": "Intel"}
_TEMPERATURES = ("temp1_input", "temp2_input")  # Intel's first is not the chip's
_POWERS = ("power1_average", "power1_input")
_INTEGRATED = "0000:00:02.0"  # where Intel's processors have theirs; it has no memory of its own


@dataclass(frozen=True)
class Card:
    """One device. `nodes` are the names of its files in /dev/dri, `pdev` is its PCI address."""

    device: Device
    driver: str
    pdev: str
    nodes: frozenset[str]

    @property
    def sleeps(self) -> bool:
        """Whether it may not be read."""
        return self.device.state is DeviceState.SUSPENDED

    @property
    def is_integrated(self) -> bool:
        """Whether it is a part of the processor and worth a word only if somebody uses it."""
        return self.driver != "amdgpu" and self.pdev == _INTEGRATED


class DrmCards:
    """Reads them anew at each call; only their names are remembered. Blocks for about 20 small files each."""

    def __init__(self, root: Path = Path("/sys"), pci_names: Sequence[Path] = PCI_NAMES) -> None:
        self._root = root
        self._pci_names = tuple(pci_names)
        self._names: dict[tuple[str, str], str] = {}

    def read(self) -> tuple[Card, ...]:
        """All cards, by number. Raises OSError if it cannot be told which there are; none is no error."""
        folder = self._root / "class/drm"
        try:
            names = [name for name in os.listdir(folder) if _CARD.fullmatch(name)]  # noqa: PTH208
        except FileNotFoundError:
            return ()
        cards: list[Card] = []
        taken: set[str] = set()
        for name in sorted(names, key=lambda name: int(name.removeprefix("card"))):
            card = self._card(folder / name, len(cards), taken)
            if card is not None:
                taken.add(card.device.uuid)
                cards.append(card)
        return tuple(cards)

    def _card(self, card: Path, index: int, taken: set[str]) -> Card | None:
        place = card / "device"
        said = dict(line.partition("=")[::2] for line in _text(place / "uevent").lower().splitlines())
        driver, pdev = said.get("driver", ""), said.get("pci_slot_name", "")
        if driver not in DRIVERS or not pdev:
            return None
        asleep = _text(place / "power/runtime_status").strip() == "suspended"
        # Both are kept by the kernel since the device was found: reading them does not wake it up.
        number = _text(place / "unique_id").strip().lower()
        uuid = f"AMD-{number}" if number else f"DRM-{pdev}"
        sensed = _ASLEEP if asleep else _sense(place, driver)
        device = Device(
            uuid=f"DRM-{pdev}" if uuid in taken else uuid,
            index=index,
            name=self._name(place, said.get("pci_id", ""), driver),
            memory_total=sensed.memory_total,
            memory_used=sensed.memory_used,
            compute=sensed.compute,
            temperature=sensed.temperature,
            power=sensed.power,
            state=DeviceState.SUSPENDED if asleep else _state(sensed),
        )
        return Card(device, driver, pdev, frozenset([card.name, *_nodes(place / "drm")]))

    def _name(self, place: Path, pci_id: str, driver: str) -> str:
        vendor, _, model = pci_id.partition(":")
        if (vendor, model) not in self._names:
            maker = _VENDORS.get(vendor, "")
            found = _text(place / "product_name").strip() or _pci_name(self._pci_names, vendor, model)
            name = found or f"GPU {pci_id or driver}"
            self._names[vendor, model] = name if maker.lower() in name.lower() else f"{maker} {name}"
        return self._names[vendor, model]


class _Sensed(NamedTuple):
    memory_total: Reading
    memory_used: Reading
    compute: Reading
    temperature: Reading
    power: Reading


_ASLEEP = _Sensed(*[Unknown(Why.SUSPENDED)] * 5)


def _sense(place: Path, driver: str) -> _Sensed:
    sensors = sorted(place.glob("hwmon/hwmon*"))
    total: Reading
    used: Reading = Unknown(Why.NOT_SUPPORTED, "the driver does not say how much is used in all")
    compute: Reading = Unknown(Why.NOT_SUPPORTED)
    if driver == "amdgpu":
        total, used = number(place / "mem_info_vram_total"), number(place / "mem_info_vram_used")
        if is_known(total) and is_known(used) and used > total:
            total = used = Unknown(Why.IMPLAUSIBLE, "the driver says that more is used than there is")
        compute = number(place / "gpu_busy_percent", most=100)
    else:
        tiles = [number(tile) for tile in sorted(place.glob("tile*/physical_vram_size_bytes"))]
        total = sum_of(tiles) if tiles else Unknown(Why.NOT_SUPPORTED)
    return _Sensed(
        memory_total=total,
        memory_used=used,
        compute=compute,
        temperature=_first([sensor / name for sensor in sensors for name in _TEMPERATURES], 1000, least=-_MOST),
        power=_first([sensor / name for sensor in sensors for name in _POWERS], 1_000_000),
    )


def _state(sensed: _Sensed) -> DeviceState:
    why = {reading.why for reading in sensed if not is_known(reading)}
    if Why.DEVICE_LOST in why:
        return DeviceState.LOST
    return DeviceState.FAILING if Why.DRIVER_ERROR in why else DeviceState.OK


def _first(paths: Iterable[Path], per_unit: int, least: float = 0) -> Reading:
    """The first that is offered, in whole units."""
    reading: Reading = Unknown(Why.NOT_SUPPORTED)
    for path in paths:
        reading = number(path, least)
        if is_known(reading):
            return reading / per_unit
        if reading.why is not Why.NOT_SUPPORTED:
            return reading
    return reading


def number(path: Path, least: float = 0, most: float = _MOST) -> Reading:
    """The whole number in a small file of the kernel, or why there is none within these bounds."""
    try:
        with path.open(encoding="ascii") as file:
            value = int(file.read(_LONGEST).split()[0])
        return (
            float(value)
            if least <= value <= most
            else Unknown(Why.IMPLAUSIBLE, "the driver gives a number that cannot be")
        )
    except (FileNotFoundError, NotADirectoryError):
        return Unknown(Why.NOT_SUPPORTED)
    except PermissionError:
        return Unknown(Why.NO_PERMISSION)
    except (ValueError, IndexError):
        return Unknown(Why.IMPLAUSIBLE, "the driver gives no number")
    except OSError as error:
        if error.errno in (errno.ENODEV, errno.ENXIO):
            return Unknown(Why.DEVICE_LOST)
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
            return Unknown(Why.NOT_SUPPORTED)
        return Unknown(Why.DRIVER_ERROR, error.strerror or "")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _nodes(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names are all that is wanted
    except OSError:
        return []


def _pci_name(files: Sequence[Path], vendor: str, model: str) -> str:
    """The model's name in the list of PCI devices that comes with the system; empty if it is not there."""
    for file in files:
        inside = False
        for line in _text(file).splitlines():
            if line[:1] not in ("\t", "#", ""):
                if inside:
                    break
                inside = line.lower().startswith(f"{vendor} ")
            elif inside and line.lower().startswith(f"\t{model} "):
                return line[len(model) + 1 :].strip()
    return ""


def by_node(cards: Iterable[Card]) -> Mapping[str, Card]:
    """The cards by the names of their files in /dev/dri."""
    return {node: card for card in cards for node in card.nodes}
