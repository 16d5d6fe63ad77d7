"""The devices of AMD's and Intel's kernel drivers, through what the kernel says of open device files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jupyter_gpu_guard.core.model import Gap, GpuClient, ProcessKey, Reading, Unknown, Why, highest, is_known
from jupyter_gpu_guard.protocols import DevicesSeen

from .drm_cards import PCI_NAMES, Card, DrmCards, by_node
from .drm_fdinfo import Engine, Usage, busiest, worked
from .drm_holders import DrmHolders
from .drm_kfd import ComputeDriver, ComputeUse
from .pid_namespace import is_namespaced

_Place = tuple[str, ProcessKey]  # a device's UUID, and who is on it


@dataclass
class _Present:
    """What one process has on one device at one reading."""

    at: float
    computes: bool
    clients: dict[int | None, Usage] = field(default_factory=dict)

    @property
    def memory(self) -> Reading:
        """Bytes; a client that this kernel does not number has been told once for each descriptor."""
        amount: float = 0
        for usage in self.clients.values():
            if not is_known(usage.memory):
                return usage.memory
            amount += usage.memory
        return amount

    @property
    def engines(self) -> Mapping[int | None, Mapping[str, Engine]]:
        """The counters of each client."""
        return {client: usage.engines for client, usage in self.clients.items()}


class DrmDevices:
    """Every AMD and Intel device, with the processes of this user on it. Nothing stays open between two readings.

    `namespaced` says whether this process lives in a pid namespace of its own, as in a container; None: look.
    """

    simulated = False

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        proc: Path = Path("/proc"),
        sys: Path = Path("/sys"),
        uid: int | None = None,
        namespaced: bool | None = None,
        pci_names: Sequence[Path] = PCI_NAMES,
    ) -> None:
        self._cards = DrmCards(sys, pci_names)
        self._holders = DrmHolders(monotonic, proc, uid)
        self._compute_driver = ComputeDriver(sys, namespaced=is_namespaced() if namespaced is None else namespaced)
        self._before: Mapping[_Place, _Present] = {}

    def read(self) -> DevicesSeen:
        """Look at every device once. Blocks for some milliseconds."""
        try:
            cards = self._cards.read()
            if not cards:
                self._before = {}
                return DevicesSeen(gaps=(Gap("devices", "There is no AMD or Intel GPU here."),))
            present = self._present(cards)
            through_compute = self._compute_driver.read(cards)
        except OSError as error:
            self._before = {}
            why = f"AMD's and Intel's GPUs cannot be read ({error.strerror}): see the system log."
            return DevicesSeen(gaps=(Gap("devices", why),))
        before, self._before = self._before, present
        clients: list[GpuClient] = []
        for card in cards:
            if not card.sleeps:
                uuid = card.device.uuid
                here, earlier = (_pids_on(uuid, present, alike) for alike in (present, before))
                clients += self._on(card, here, earlier, through_compute.get(uuid, {}))
        in_use = {client.device for client in clients}
        shown = [card for card in cards if not card.is_integrated or card.device.uuid in in_use]
        return DevicesSeen(tuple(card.device for card in shown), tuple(clients))

    def close(self) -> None:
        """There is nothing to let go of."""

    def _present(self, cards: Iterable[Card]) -> dict[_Place, _Present]:
        """Who is on which device. What several processes share is with the one that has lived longest."""
        present: dict[_Place, _Present] = {}
        taken: set[tuple[str, int]] = set()
        for opened in sorted(self._holders.read(by_node(cards)), key=lambda opened: opened.key.start_ticks):
            own: set[tuple[str, int]] = set()
            for uuid, usage in opened.usages:
                if usage.client is not None:
                    if (uuid, usage.client) in taken:
                        continue
                    own.add((uuid, usage.client))
                here = present.setdefault((uuid, opened.key), _Present(opened.at, opened.computes))
                here.clients[usage.client] = usage
            taken |= own
        return present

    def _on(
        self, card: Card, here: Mapping[int, _Present], before: Mapping[int, _Present], uses: Mapping[int, ComputeUse]
    ) -> Iterator[GpuClient]:
        """The processes on `card`; `here` through the graphics driver, `uses` through the compute driver."""
        graphics = {pid: _compute(seen, before.get(pid)) for pid, seen in here.items()}
        occupied = {pid: self._occupied(here.get(pid), uses.get(pid)) for pid in here.keys() | uses.keys()}
        works_for_somebody = any(is_known(share) and share > 0 for share in (*graphics.values(), *occupied.values()))
        explained = card.device.compute == 0 or works_for_somebody
        for pid in sorted(occupied):
            seen, use, share = here.get(pid), uses.get(pid), occupied[pid]
            if seen is None and use is not None and use.memory == 0 and share == 0:
                continue  # it knows the device, and has nothing there
            if use is not None and use.queued and share == 0 and not explained:
                # A look at one moment is no proof by itself, and drivers have said 0 of busy processes.
                share = Unknown(Why.NOT_AVAILABLE, "the device works, and the driver does not say for whom")
            memory = highest([*([seen.memory] if seen else []), *([use.memory] if use else [])])
            if is_known(memory) and is_known(card.device.memory_total) and memory > card.device.memory_total:
                memory = Unknown(Why.IMPLAUSIBLE, "the driver gives a process more memory than the device has")
            yield GpuClient(
                device=card.device.uuid,
                pid=pid,
                memory=memory,
                compute=highest([graphics.get(pid, 0), share]),
                type="+".join([*(["C"] if use else []), *(["G"] if seen else [])]),
            )

    def _occupied(self, seen: _Present | None, use: ComputeUse | None) -> Reading:
        """Percent of the compute units that the compute driver gives a process at this moment."""
        if use is not None:
            return use.occupied
        if seen is None or not seen.computes:
            return 0
        if self._compute_driver.namespaced:
            return Unknown(Why.PIDS_HIDDEN, "AMD's compute driver names processes by the numbers of the host")
        return Unknown(Why.NOT_SUPPORTED, "AMD's compute driver does not say what this process does")


def _pids_on(uuid: str, present: Mapping[_Place, _Present], alike: Mapping[_Place, _Present]) -> dict[int, _Present]:
    """Those of `alike` on one device by pid, as far as the very same process is `present`."""
    return {key.pid: seen for (device, key), seen in alike.items() if device == uuid and (device, key) in present}


def _compute(now: _Present, before: _Present | None) -> Reading:
    """Percent of the busiest engine since the last reading."""
    if None in now.clients:
        return Unknown(Why.NOT_SUPPORTED, "this kernel does not tell clients apart: Linux 6.0 or later does")
    if any(not usage.engines and usage.driver != "amdgpu" for usage in now.clients.values()):
        return Unknown(Why.NOT_SUPPORTED, "the driver does not measure compute by process")
    if before is None:
        return Unknown(Why.FIRST_READING)
    if before.clients.keys() - now.clients.keys():
        return Unknown(Why.NOT_AVAILABLE, "a part of what it had open was closed, with its counters")
    seconds = now.at - before.at
    if seconds <= 0:
        return Unknown(Why.NOT_AVAILABLE, "no time has passed since the last reading")
    earlier = before.engines
    return busiest(worked(earlier.get(client, {}), engines, seconds) for client, engines in now.engines.items())
