"""What the kernel's graphics drivers say of one open device file: /proc/PID/fdinfo/FD of AMD's and Intel's drivers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from jupyter_gpu_guard.core.model import Reading, Unknown, Why, is_known

_NUMBER = re.compile(r"([0-9]{1,20})(?:\s+(\w+))?\s*")  # a number of 64 bits
_BYTES = {"B": 1, "KiB": 2**10, "kB": 2**10, "MiB": 2**20, "GiB": 2**30}
_TOO_MUCH = 2**60
_OWN_MEMORY = re.compile(r"(?:vram|local|lmem)[0-9]*")
_LENT_MEMORY = re.compile(r"(?:system|smem|gtt)[0-9]*")
_SPEAKS_OF_MEMORY = ("drm-resident-", "drm-memory-", "drm-total-")  # the best first
_CYCLES_IN_ALL = "drm-total-cycles-"


@dataclass(frozen=True)
class Engine:
    """How long one engine has worked for one client so far.

    `busy` is in nanoseconds; with a `clock` it is in cycles, and so is the clock, which runs all the time. `capacity`
    engines of this kind stand behind one name.
    """

    busy: int
    clock: int | None = None
    capacity: int = 1


@dataclass(frozen=True)
class Usage:
    """One client of a driver: what was opened once, however many files and processes share it.

    `pdev` is the PCI address of the device, empty if it is not said. `client` None: this kernel does not number its
    clients. `engines` empty: none has worked yet, or the driver does not say.
    """

    driver: str
    pdev: str
    client: int | None
    memory: Reading
    engines: Mapping[str, Engine] = field(default_factory=dict)


def parse_fdinfo(text: str) -> Usage | None:
    """What `text` says, or None if it is not about a graphics device. Lines that make no sense are left out."""
    said = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.startswith("drm-"):
            said[key] = value.strip()
    if "drm-driver" not in said:
        return None
    return Usage(
        driver=said["drm-driver"],
        pdev=said.get("drm-pdev", "").lower(),
        client=_count(said.get("drm-client-id")),
        memory=_memory(said),
        engines=_engines(said),
    )


def worked(before: Mapping[str, Engine], after: Mapping[str, Engine], seconds: float) -> Mapping[str, Reading]:
    """The share of the time (0 to 1) that each engine worked for one client within the last `seconds`.

    What was not told `before` was 0, unless it is counted by a clock whose start is not known.
    """
    return {name: _share(before.get(name), after.get(name), seconds) for name in {*before, *after}}


def busiest(clients: Iterable[Mapping[str, Reading]]) -> Reading:
    """Percent of the busiest engine, all clients of a process together; Unknown if it is not known of one of them."""
    together: dict[str, float] = {}
    for shares in clients:
        for name, share in shares.items():
            if not is_known(share):
                return share
            together[name] = together.get(name, 0.0) + share
    return min(100.0, 100 * max(together.values(), default=0.0))


def _share(before: Engine | None, after: Engine | None, seconds: float) -> Reading:
    if after is None or (before is not None and after.busy < before.busy):
        return Unknown(Why.IMPLAUSIBLE, "a counter of the driver ran backwards")
    if after.clock is None:
        elapsed = seconds * 1e9
    elif before is None or before.clock is None:
        return Unknown(Why.FIRST_READING)
    else:
        elapsed = after.clock - before.clock
    if elapsed <= 0:
        return Unknown(Why.NOT_AVAILABLE, "no time has passed since the last reading")
    return (after.busy - (before.busy if before else 0)) / elapsed / after.capacity


def _engines(said: Mapping[str, str]) -> Mapping[str, Engine]:
    capacity = {
        key.removeprefix("drm-engine-capacity-"): _count(value) or 1
        for key, value in said.items()
        if key.startswith("drm-engine-capacity-")
    }
    found = {}
    for key, value in said.items():
        busy = _count(value)
        if busy is None or key.startswith("drm-engine-capacity-"):
            continue
        if key.startswith("drm-engine-"):
            name = key.removeprefix("drm-engine-")
            found[name] = Engine(busy, None, capacity.get(name, 1))
        elif key.startswith("drm-cycles-"):
            name = key.removeprefix("drm-cycles-")
            clock = _count(said.get(_CYCLES_IN_ALL + name))
            if clock is not None:
                found.setdefault(name, Engine(busy, clock, capacity.get(name, 1)))
    return found


def _memory(said: Mapping[str, str]) -> Reading:
    """Bytes of the device's own memory, or of the machine's where the device has none."""
    for kind in (_OWN_MEMORY, _LENT_MEMORY):
        for prefix in _SPEAKS_OF_MEMORY:
            amounts = [
                _bytes(value)
                for key, value in said.items()
                if key.startswith(prefix) and kind.fullmatch(key.removeprefix(prefix))
            ]
            if not amounts:
                continue
            known = [amount for amount in amounts if amount is not None]
            if len(known) < len(amounts):
                return Unknown(Why.IMPLAUSIBLE, "the driver gives an amount of memory that cannot be read")
            return float(sum(known))
    return Unknown(Why.NOT_SUPPORTED, "the driver does not say how much memory a process holds")


def _count(value: str | None) -> int | None:
    found = _NUMBER.fullmatch(value or "")
    return int(found[1]) if found else None


def _bytes(value: str) -> int | None:
    found = _NUMBER.fullmatch(value)
    unit = _BYTES.get(found[2] or "B") if found else None
    amount = int(found[1]) * unit if found and unit else None
    return amount if amount is not None and amount < _TOO_MUCH else None
