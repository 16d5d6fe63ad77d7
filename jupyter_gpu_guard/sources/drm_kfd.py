"""Who computes through AMD's compute driver (/dev/kfd), as ROCm does: its work is in no counter of the graphics driver.

It names processes by their pids in the initial namespace, and says of each how many compute units it occupies at this
moment: a look, and not a mean.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from jupyter_gpu_guard.core.model import Reading, Unknown, Why, is_known, total

from .drm_cards import Card, number


@dataclass(frozen=True)
class ComputeUse:
    """What one process has on one device through the compute driver: bytes, and percent of the compute units.

    `queued`: it has a queue there. Without one it computes nothing, and that is no matter of the moment.
    """

    memory: Reading
    occupied: Reading
    queued: bool


@dataclass(frozen=True)
class _Part:
    """The compute driver's own number for a device, or for a partition of it."""

    gpu: int
    units: int


class ComputeDriver:
    """Reads /sys/class/kfd. `namespaced`: its pids are not those of this namespace, so it says nothing of use here."""

    def __init__(self, root: Path = Path("/sys"), *, namespaced: bool) -> None:
        self._root = root / "class/kfd/kfd"
        self.namespaced = namespaced

    def read(self, cards: Iterable[Card]) -> Mapping[str, Mapping[int, ComputeUse]]:
        """What each process of the compute driver has on each of `cards`, by UUID and pid; also if it is nothing."""
        if self.namespaced:
            return {}
        parts = self._parts({card.device.uuid: card for card in cards if not card.sleeps})
        found: dict[str, dict[int, ComputeUse]] = {uuid: {} for uuid in parts}
        for name in _names(self._root / "proc") if parts else ():
            if not name.isdecimal():
                continue
            place = self._root / "proc" / name
            queues = [number(queue / "gpuid") for queue in place.glob("queues/*")]
            for uuid, of_device in parts.items():
                found[uuid][int(name)] = _together([_use(place, part, queues) for part in of_device], of_device)
        return found

    def _parts(self, cards: Mapping[str, Card]) -> Mapping[str, list[_Part]]:
        """The compute driver's numbers for each device."""
        parts = defaultdict(list)
        for name in _names(self._root / "topology/nodes"):
            node = self._root / "topology/nodes" / name
            gpu = number(node / "gpu_id")
            if not is_known(gpu) or gpu == 0:  # a processor has a node too
                continue
            facts = _facts(node / "properties")
            for uuid, card in cards.items():
                if _is_of(card, facts):
                    units = facts.get("simd_count", 0) // max(1, facts.get("simd_per_cu", 1))
                    parts[uuid].append(_Part(int(gpu), units))
                    break
        return parts


def _use(place: Path, part: _Part, queues: list[Reading]) -> ComputeUse:
    memory = number(place / f"vram_{part.gpu}")
    if not is_known(memory) and memory.why is Why.NOT_SUPPORTED:
        memory = 0  # it has never opened this device
    if all(is_known(gpu) and gpu != part.gpu for gpu in queues):
        return ComputeUse(memory, 0, queued=False)
    occupied = number(place / f"stats_{part.gpu}/cu_occupancy")
    if is_known(occupied) and part.units == 0:
        occupied = Unknown(Why.NOT_SUPPORTED, "the driver does not say how many compute units there are")
    elif is_known(occupied):
        occupied = min(100.0, 100 * occupied / part.units)
    return ComputeUse(memory, occupied, queued=True)


def _together(uses: list[ComputeUse], parts: list[_Part]) -> ComputeUse:
    """What one process has on a whole device: memory in all, and the units of its parts by their number."""
    if len(uses) == 1:
        return uses[0]
    weighed: list[Reading] = []
    for use, part in zip(uses, parts, strict=True):
        weighed.append(use.occupied * part.units if is_known(use.occupied) else use.occupied)
    occupied = total(weighed)
    if is_known(occupied):
        occupied /= max(1, sum(part.units for part in parts))
    return ComputeUse(total(use.memory for use in uses), occupied, any(use.queued for use in uses))


def _is_of(card: Card, facts: Mapping[str, int]) -> bool:
    if f"renderD{facts.get('drm_render_minor', -1)}" in card.nodes:
        return True
    # A partition has a device file of its own, but the place of the whole.
    place = facts.get("location_id", -1)
    bus = f"{facts.get('domain', 0):04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}."
    return place >= 0 and card.pdev.startswith(bus)


def _facts(file: Path) -> Mapping[str, int]:
    try:
        rows = [line.split() for line in file.read_text(encoding="ascii").splitlines()]
    except (OSError, ValueError):
        return {}
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdecimal()}


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208
    except OSError:
        return []
