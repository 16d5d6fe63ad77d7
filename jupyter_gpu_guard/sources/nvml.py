"""The devices of an NVIDIA driver, through `pynvml`."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_gpu_guard.core.model import Device, DeviceState, Gap, GpuClient
from jupyter_gpu_guard.protocols import DevicesSeen

from .nvml_cards import Cards
from .nvml_gpm import InstanceMeter
from .nvml_library import NvmlLibrary, TroubleError
from .nvml_pids import PidMeaning
from .nvml_processes import ProcessLists
from .nvml_reading import CardReader
from .pid_namespace import is_namespaced
from .sole_owner import SoleOwner

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_LOOK_AGAIN = 60.0
LONGEST_LOOK_AGAIN = 600.0


class NvmlDevices:
    """Every device of the driver, read over one connection that is opened at the first reading.

    `namespaced` says whether this process lives in a pid namespace of its own, as in a container; None: look. Where the
    driver does not name the processes of this container, `estimate_sole_owner` allows to infer who is on a device.
    """

    simulated = False

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        *,
        platform: str = sys.platform,
        namespaced: bool | None = None,
        sysfs: str | Path = "/sys",
        estimate_sole_owner: bool = False,
    ) -> None:
        self._monotonic = monotonic
        self._platform = platform
        self._library = NvmlLibrary(monotonic)
        meaning = PidMeaning(namespaced=is_namespaced() if namespaced is None else namespaced)
        lists = ProcessLists(self._library, meaning)
        sole = SoleOwner() if estimate_sole_owner and meaning.namespaced else None
        self._reader = CardReader(self._library, lists, monotonic, wall, Path(sysfs), sole)
        self._cards = Cards(
            self._library,
            monotonic,
            lambda: InstanceMeter(self._library, monotonic),
            accounts=not meaning.namespaced,  # it goes by pids, and in a container the driver may mean the host's
        )
        self._look_again_at: float | None = None
        self._pause = FIRST_LOOK_AGAIN
        self._reading = threading.Lock()
        self._closed = threading.Event()

    def read(self) -> DevicesSeen:
        """Look at every device once. Blocks for as long as the driver does."""
        if self._platform != "linux":
            return DevicesSeen(gaps=(Gap("devices", "jupyter-gpu-guard measures on Linux only."),))
        if self._closed.is_set():
            return DevicesSeen(gaps=(Gap("devices", "The guard is stopping."),))
        with self._reading:
            try:
                seen = self._read_all()
                self._library.is_well()
            except TroubleError as trouble:
                self._cards.close()
                self._library.give_up(trouble)
                seen = DevicesSeen(gaps=(Gap("devices", str(trouble)),))
        if self._closed.is_set():
            self.close()
        return seen

    def close(self) -> None:
        """Let go of the driver; a reading that hangs in it lets go when it returns."""
        self._closed.set()
        if self._reading.acquire(blocking=False):
            try:
                self._let_go()
            finally:
                self._reading.release()

    def _let_go(self) -> None:
        self._cards.close()
        self._library.close()

    def _read_all(self) -> DevicesSeen:
        now = self._monotonic()
        if self._look_again_at is not None and now >= self._look_again_at:
            self._let_go()  # a device that was reset comes back only to a new connection
        if self._library.open():
            self._cards.enumerate()
        self._cards.look(skipping=self._reader.sleeps)
        devices: list[Device] = []
        clients: list[GpuClient] = []
        gaps = list(self._cards.gaps)
        for card in self._cards:
            device, on_it, gap = self._reader.read(card, has_instances=self._cards.has_instances(card))
            devices.append(device)
            clients.extend(on_it)
            gaps.extend([gap] if gap else [])
            if card.parent is not None and device.state is DeviceState.FAILING:
                self._cards.look_soon()  # the instance may be gone
        self._plan_to_look_again(
            now, self._cards.is_incomplete or any(device.state is DeviceState.LOST for device in devices)
        )
        return DevicesSeen(tuple(devices), tuple(clients), tuple(gaps))

    def _plan_to_look_again(self, now: float, wanted: bool) -> None:  # noqa: FBT001
        if not wanted:
            self._look_again_at, self._pause = None, FIRST_LOOK_AGAIN
        elif self._look_again_at is None or now >= self._look_again_at:
            self._look_again_at = now + self._pause
            self._pause = min(LONGEST_LOOK_AGAIN, self._pause * 2)
