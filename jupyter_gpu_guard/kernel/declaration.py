"""How a process declares simulated GPU use: one small file per process in one folder, read by whoever plays the driver.

The folder holds `devices`, one line `<index> <uuid> <bytes> <name>` each, and `clients/<pid>-<start ticks>`. A client
counts only while exactly that process lives, so a dying one vanishes by itself. Only the standard library is used.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FOR_EVER = -1

_RESERVED_SHARE = 160  # one part in so many is kept by the driver for itself


@dataclass(frozen=True)
class DeclaredDevice:
    """One simulated device. Memory in bytes."""

    index: int
    uuid: str
    memory_total: int
    name: str

    @property
    def memory_reserved(self) -> int:
        """What the driver keeps for itself."""
        return self.memory_total // _RESERVED_SHARE


@dataclass(frozen=True)
class Load:
    """Compute on one device from a time to a time, in microseconds of CLOCK_MONOTONIC; `until` FOR_EVER: no end."""

    device: int
    since: int
    until: int
    percent: float

    def __str__(self) -> str:
        return f"load {self.device} {self.since} {self.until} {self.percent:g}"

    def area(self, begin: int, end: int) -> float:
        """Percent times microseconds between two times."""
        last = end if self.until == FOR_EVER else min(end, self.until)
        return self.percent * max(0, last - max(begin, self.since))


@dataclass(frozen=True)
class Wave:
    """Compute that alternates for ever between a high and a low, each so many microseconds long."""

    device: int
    since: int
    high_percent: float
    high: int
    low_percent: float
    low: int

    def __str__(self) -> str:
        return f"wave {self.device} {self.since} {self.high_percent:g} {self.high} {self.low_percent:g} {self.low}"

    def _area_until(self, end: int) -> float:
        waves, rest = divmod(max(0, end - self.since), self.high + self.low)
        whole = self.high_percent * self.high + self.low_percent * self.low
        return waves * whole + self.high_percent * min(rest, self.high) + self.low_percent * max(0, rest - self.high)

    def area(self, begin: int, end: int) -> float:
        """Percent times microseconds between two times."""
        return self._area_until(end) - self._area_until(begin)


Work = Union[Load, Wave]


@dataclass(frozen=True)
class Declaration:
    """What one process says of itself. `kinds`: C compute, G graphics, M multi-process service, or C+G.

    `reported_pid` is what the driver shall say instead of the pid, as drivers do inside containers.
    """

    memory: Mapping[int, int] = field(default_factory=dict)
    work: tuple[Work, ...] = ()
    kinds: str = "C"
    reported_pid: int | None = None

    def __str__(self) -> str:
        lines = [f"type {self.kinds}"]
        lines += [] if self.reported_pid is None else [f"pid {self.reported_pid}"]
        lines += [f"mem {device} {amount}" for device, amount in sorted(self.memory.items())]
        return "\n".join([*lines, *map(str, self.work), ""])

    @classmethod
    def parse(cls, text: str) -> Declaration:
        """Read what `str` wrote, passing over lines that say nothing known. Half a line: ValueError or IndexError."""
        kinds, reported = "C", None
        memory: dict[int, int] = {}
        work: list[Work] = []
        for line in text.splitlines():
            word, *rest = line.split() or [""]
            if word == "type":
                kinds = rest[0]
            elif word == "pid":
                reported = int(rest[0])
            elif word == "mem":
                memory[int(rest[0])] = int(rest[1])
            elif word == "load":
                work.append(Load(int(rest[0]), int(rest[1]), int(rest[2]), float(rest[3])))
            elif word == "wave":
                high, low = (float(rest[2]), int(rest[3])), (float(rest[4]), int(rest[5]))
                work.append(Wave(int(rest[0]), int(rest[1]), *high, *low))
        return cls(memory, tuple(work), kinds, reported)

    @property
    def devices(self) -> frozenset[int]:
        """The indices of the devices it is on."""
        return frozenset(self.memory) | {part.device for part in self.work}

    def percent(self, device: int, begin: int, end: int) -> float:
        """Mean compute on `device` between two times, at most 100."""
        area = sum(part.area(begin, end) for part in self.work if part.device == device)
        return min(100.0, area / (end - begin))


def now_us() -> int:
    """The present on the clock of all declarations: CLOCK_MONOTONIC in microseconds."""
    return time.monotonic_ns() // 1000


def read_devices(folder: Path) -> tuple[DeclaredDevice, ...]:
    """The devices that `folder` describes, by index; none if it describes none."""
    devices: dict[int, DeclaredDevice] = {}
    with suppress(OSError):
        for line in (folder / "devices").read_text(encoding="utf-8").splitlines():
            parts = line.split(maxsplit=3)
            if len(parts) == 4 and parts[0].isdigit() and parts[2].isdigit():  # noqa: PLR2004
                devices[int(parts[0])] = DeclaredDevice(int(parts[0]), parts[1], int(parts[2]), parts[3])
    return tuple(devices[index] for index in sorted(devices))


def read_clients(folder: Path) -> dict[int, Declaration]:
    """What the processes that live now have declared, by pid."""
    clients: dict[int, Declaration] = {}
    for pid, start_ticks, path in _declared(folder):
        if living(pid) == start_ticks:
            with suppress(OSError, ValueError, IndexError):
                clients[pid] = Declaration.parse(path.read_text(encoding="utf-8"))
    return clients


def living(pid: int) -> int | None:
    """When the process started, in clock ticks since boot. None: it is gone, or a zombie that holds nothing."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *numbers = text.rpartition(")")[2].split()
    return None if state in "ZXx" else int(numbers[18])


def is_parked(folder: Path, pid: int) -> bool:
    """Whether its calls have to wait, since it is locked or checkpointed."""
    return (folder / "checkpoint" / f"{pid}-{living(pid)}").exists()


def write_client(folder: Path, pid: int, declaration: Declaration) -> None:
    """Say this for `pid`, replacing what it said before; an empty declaration takes it back.

    Raises ProcessLookupError if there is no such living process. Files of processes that ended are removed.
    """
    start_ticks = living(pid)
    if start_ticks is None:
        raise ProcessLookupError(f"there is no living process {pid} to declare for")
    clients = folder / "clients"
    clients.mkdir(exist_ok=True)
    for other, started, path in _declared(folder):
        if living(other) != started:
            path.unlink(missing_ok=True)
    final = clients / f"{pid}-{start_ticks}"
    if declaration == Declaration():
        final.unlink(missing_ok=True)
        return
    draft = folder / f"draft-{os.getpid()}"
    draft.write_text(str(declaration), encoding="utf-8")
    draft.replace(final)  # readers see the old or the new one, never half of it


def _declared(folder: Path) -> Iterator[tuple[int, int, Path]]:
    with suppress(OSError):
        for path in list((folder / "clients").iterdir()):
            pid, _, start_ticks = path.name.partition("-")
            if pid.isdigit() and start_ticks.isdigit():
                yield int(pid), int(start_ticks), path
