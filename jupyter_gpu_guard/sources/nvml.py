"""The devices of an NVIDIA driver, through `pynvml`."""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jupyter_gpu_guard.core.model import Device, DeviceState, Gap, GpuClient, Reading, Unknown, Why, is_known
from jupyter_gpu_guard.protocols import DevicesSeen

from .nvml_library import NvmlLibrary, TroubleError
from .nvml_pids import PidMeaning
from .nvml_processes import Listed, ProcessLists
from .nvml_samples import Computed, SampleCursor, busiest
from .pid_namespace import is_namespaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FIRST_LOOK_AGAIN = 60.0
LONGEST_LOOK_AGAIN = 600.0

_SAMPLES = "nvmlDeviceGetProcessUtilization"
_MORE_SAMPLES = "nvmlDeviceGetProcessesUtilizationInfo"  # further engines, and not in every driver
# What no device can have: a driver that says more says nothing.
_MOST_BYTES = 2**50
_MOST_PERCENT = 100
_HOTTEST = 250  # degrees Celsius
_MOST_WATTS = 100_000
_WITH_RESERVED = 0x02000028  # the version of the structure that tells reserved memory from used memory


@dataclass
class _Card:
    """One device, and what is remembered of it between readings. `handle` Unknown: the driver does not give it out."""

    uuid: str
    index: int
    name: str = "GPU"
    handle: Any = None
    mig: bool = False
    cursors: defaultdict[str, SampleCursor] = field(default_factory=lambda: defaultdict(SampleCursor))
    pids: tuple[int, ...] = ()  # who was on it when that was last known


class NvmlDevices:
    """Every device of the driver, read over one connection that is opened at the first reading.

    `namespaced` says whether this process lives in a pid namespace of its own, as in a container; None: look.
    """

    simulated = False

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        *,
        platform: str = sys.platform,
        namespaced: bool | None = None,
    ) -> None:
        self._monotonic = monotonic
        self._wall = wall
        self._platform = platform
        self._library = NvmlLibrary(monotonic)
        meaning = PidMeaning(namespaced=is_namespaced() if namespaced is None else namespaced)
        self._lists = ProcessLists(self._library, meaning)
        self._cards: list[_Card] = []
        self._nameless: tuple[Gap, ...] = ()
        self._is_incomplete = False
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
                self._library.close()
            finally:
                self._reading.release()

    def _read_all(self) -> DevicesSeen:
        now = self._monotonic()
        if self._look_again_at is not None and now >= self._look_again_at:
            self._library.close()  # a device that was reset comes back only to a new connection
        if self._library.open():
            self._enumerate()
        devices: list[Device] = []
        clients: list[GpuClient] = []
        gaps = list(self._nameless)
        for card in self._cards:
            device, on_it, gap = self._read_card(card)
            devices.append(device)
            clients.extend(on_it)
            gaps.extend([gap] if gap else [])
        self._plan_to_look_again(
            now, self._is_incomplete or any(device.state is DeviceState.LOST for device in devices)
        )
        return DevicesSeen(tuple(devices), tuple(clients), tuple(gaps))

    def _plan_to_look_again(self, now: float, wanted: bool) -> None:  # noqa: FBT001
        if not wanted:
            self._look_again_at, self._pause = None, FIRST_LOOK_AGAIN
        elif self._look_again_at is None or now >= self._look_again_at:
            self._look_again_at = now + self._pause
            self._pause = min(LONGEST_LOOK_AGAIN, self._pause * 2)

    def _enumerate(self) -> None:
        """Find the devices, with what does not change while the connection is open."""
        count = self._library.ask("nvmlDeviceGetCount")
        if isinstance(count, Unknown):
            raise TroubleError(f"The NVIDIA driver does not say which devices there are ({count.detail}).")
        by_uuid = {card.uuid: card for card in self._cards}
        by_index = {card.index: card for card in self._cards}
        found: dict[int, _Card] = {}
        refused: dict[int, Unknown] = {}
        for index in range(count):
            handle = self._library.ask("nvmlDeviceGetHandleByIndex", index)
            uuid = handle if isinstance(handle, Unknown) else self._library.ask("nvmlDeviceGetUUID", handle)
            if isinstance(uuid, Unknown):
                refused[index] = uuid
                continue
            card = by_uuid.get(uuid) or _Card(uuid, index)
            name, mig = (
                self._library.ask("nvmlDeviceGetName", handle),
                self._library.ask("nvmlDeviceGetMigMode", handle),
            )
            card.index, card.handle = index, handle
            card.name = card.name if isinstance(name, Unknown) else name
            card.mig = not isinstance(mig, Unknown) and bool(mig[0])
            found[index] = card
        nameless = []
        for index, why in refused.items():
            known = by_index.get(index)
            if known is not None and known not in found.values():
                known.handle = why
                found[index] = known
            else:
                nameless.append(_nameless(index, why))
        self._cards = [found[index] for index in sorted(found)]
        self._nameless = tuple(nameless)
        # A device that is kept from this user stays so: no new connection would change it.
        self._is_incomplete = any(why.why is not Why.NO_PERMISSION for why in refused.values())

    def _read_card(self, card: _Card) -> tuple[Device, tuple[GpuClient, ...], Gap | None]:
        if isinstance(card.handle, Unknown):
            return self._silent(card, card.handle)
        memory_total, used, reserved = self._memory(card)
        listed = self._lists.read(card.handle, card.uuid, memory_total)
        computed = self._computed(card)
        answers = (used, listed, computed.absent)
        if any(isinstance(answer, Unknown) and answer.why is Why.DEVICE_LOST for answer in answers):
            return self._silent(card, Unknown(Why.DEVICE_LOST))
        failing = any(isinstance(answer, Unknown) and answer.why is Why.DRIVER_ERROR for answer in answers)
        device = Device(
            uuid=card.uuid,
            index=card.index,
            name=card.name,
            memory_total=memory_total,
            memory_used=used,
            memory_reserved=reserved,
            compute=self._utilization(card),
            temperature=self._temperature(card),
            power=_scaled(self._library.ask("nvmlDeviceGetPowerUsage", card.handle), 1000, _MOST_WATTS),
            mig=card.mig,
            state=DeviceState.FAILING if failing or _is_refusal(listed) else DeviceState.OK,
        )
        if isinstance(listed, Unknown):
            return device, _remembered(card, listed), Gap("devices", f"{card.name}: {_who_is_unknown(listed)}")
        clients = tuple(self._clients(card, listed, computed))
        card.pids = tuple(listed.memory)
        return device, clients, None

    def _silent(self, card: _Card, why: Unknown) -> tuple[Device, tuple[GpuClient, ...], Gap | None]:
        """A device of which nothing can be read. Who was on it stays there, with nothing known."""
        lost = why.why is Why.DEVICE_LOST
        device = Device(
            uuid=card.uuid,
            index=card.index,
            name=card.name,
            memory_total=why,
            memory_used=why,
            memory_reserved=why,
            compute=why,
            temperature=why,
            power=why,
            mig=card.mig,
            state=DeviceState.LOST if lost else DeviceState.FAILING,
        )
        # Nobody computes on a lost device, so it makes nothing unknown elsewhere; any other silence may hide work.
        gap = None if lost else Gap("devices", f"{card.name}: {_who_is_unknown(why)}")
        return device, _remembered(card, why), gap

    def _memory(self, card: _Card) -> tuple[Reading, Reading, Reading]:
        """Bytes in all, used, and kept by the driver."""
        memory = self._library.ask("nvmlDeviceGetMemoryInfo", card.handle, _WITH_RESERVED, form="reserved")
        if isinstance(memory, Unknown) and memory.why is Why.NOT_SUPPORTED:
            memory = self._library.ask("nvmlDeviceGetMemoryInfo", card.handle)
        if isinstance(memory, Unknown):
            return memory, memory, memory
        reserved = getattr(memory, "reserved", 0)
        wrong = None
        if not 0 < memory.total <= _MOST_BYTES:
            wrong = Unknown(Why.IMPLAUSIBLE, f"the driver says that the device has {memory.total} bytes")
        elif memory.used > memory.total or reserved > memory.total:
            wrong = Unknown(Why.IMPLAUSIBLE, "the driver says that more is used than there is")
        return (wrong, wrong, wrong) if wrong else (memory.total, memory.used, reserved)

    def _computed(self, card: _Card) -> Computed:
        if card.mig:
            return Computed(absent=Unknown(Why.NOT_SUPPORTED, "the driver does not measure compute with MIG"))
        monotonic, wall = self._monotonic(), self._wall()

        def read(name: str) -> Computed:
            cursor = card.cursors[name]
            return cursor.read(lambda seen: self._library.ask_rows(name, card.handle, seen), monotonic, wall)

        main, more = read(_SAMPLES), read(_MORE_SAMPLES)
        offered = is_known(more.absent) or more.absent.why is not Why.NOT_SUPPORTED
        return busiest((main, more)) if offered else main

    def _clients(self, card: _Card, listed: Listed, computed: Computed) -> Iterator[GpuClient]:
        # A driver may list pids of this container and measure those of the host: then absence proves nothing. Newer
        # drivers still measure the neighbours of a container by the host's pids; when such a one is by chance a pid
        # that is listed here, the neighbour's work counts as ours too, which cannot be told and can only protect.
        elsewhere = self._lists.namespaced and bool(computed.named.keys() - listed.memory.keys() - set(card.pids))
        for pid, memory in listed.memory.items():
            compute = computed.of(pid)
            if pid not in computed.named and is_known(compute):
                if elsewhere:
                    compute = Unknown(Why.PIDS_HIDDEN, "the driver measures processes that it does not list here")
                elif pid in listed.shared:
                    compute = Unknown(Why.NOT_SUPPORTED, "the driver does not measure the multi-process service")
            yield GpuClient(card.uuid, pid, memory, compute, listed.types[pid])

    def _utilization(self, card: _Card) -> Reading:
        rates = self._library.ask("nvmlDeviceGetUtilizationRates", card.handle)
        return rates if isinstance(rates, Unknown) else _scaled(rates.gpu, 1, _MOST_PERCENT)

    def _temperature(self, card: _Card) -> Reading:
        # The older call is in every driver but will leave `pynvml`; the newer one is the other way round.
        sensor = 0  # the die
        old = "nvmlDeviceGetTemperature"
        name = old if self._library.offers(old) else f"{old}V"
        return _scaled(self._library.ask(name, card.handle, sensor), 1, _HOTTEST)


def _scaled(answer: Any, per_unit: int, most: float) -> Reading:
    if isinstance(answer, Unknown):
        return answer
    value = float(answer / per_unit)
    return value if abs(value) <= most else Unknown(Why.IMPLAUSIBLE, f"the driver says {value:g}")


def _remembered(card: _Card, why: Unknown) -> tuple[GpuClient, ...]:
    return tuple(GpuClient(card.uuid, pid, why, why) for pid in card.pids)


def _is_refusal(listed: Listed | Unknown) -> bool:
    """Whether the driver did not give its list; that its numbers mean nothing here is no fault of the device."""
    return isinstance(listed, Unknown) and listed.why not in {Why.PIDS_HIDDEN, Why.FIRST_READING}


def _who_is_unknown(why: Unknown) -> str:
    """Say why it is not known who uses a device, and what would help."""
    if why.why is Why.FIRST_READING:
        return f"the next reading tells which processes use it: {why.detail}."
    if why.why is Why.PIDS_HIDDEN:
        return (
            "this container cannot see its own GPU processes, because the driver names them by the host's numbers: "
            "update the driver to 570 or later, or start the container in the host's pid namespace."
        )
    if why.why is Why.IMPLAUSIBLE:
        return f"the driver's list of processes is not used: {why.detail}; update the NVIDIA driver and nvidia-ml-py."
    if why.why is Why.NO_PERMISSION:
        return "this user may not see which processes use it: an administrator can allow it."
    if why.why is Why.NOT_SUPPORTED:
        return "this driver does not say which processes use it, so nothing can be judged."
    return f"the driver does not say which processes use it ({why.detail}): see `nvidia-smi` and the system log."


def _nameless(index: int, why: Unknown) -> Gap:
    """A device that has never told its UUID. What nobody here can use makes nothing unknown elsewhere."""
    unusable = why.why in {Why.DEVICE_LOST, Why.NO_PERMISSION}
    said = f"GPU {index} does not answer ({why.detail}): see `nvidia-smi` and the system log."
    return Gap(f"device {index}" if unusable else "devices", said)
