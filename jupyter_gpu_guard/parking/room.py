"""Whether there is room on the devices for what is to come back, and who has it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_gpu_guard.core.model import Reading, Unknown, Why, is_known, total

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jupyter_gpu_guard.core.model import Device, GpuClient, Holder


@dataclass(frozen=True)
class Lack:
    """A device that has not room for `needed` bytes; `free` is what it has."""

    device: str
    name: str
    needed: float
    free: Reading


def free_bytes(device: Device) -> Reading:
    """What nobody uses of it."""
    for reading in (device.memory_total, device.memory_used, device.memory_reserved):
        if not is_known(reading):
            return reading
    whole, used, reserved = device.memory_total, device.memory_used, device.memory_reserved
    assert is_known(whole)  # noqa: S101  all are
    assert is_known(used)  # noqa: S101
    assert is_known(reserved)  # noqa: S101
    return max(0.0, whole - used - reserved)


def lack(
    needs: Mapping[str, float], devices: Iterable[Device], promised: Mapping[str, float] | None = None
) -> Lack | None:
    """The first device that has not room for its part of `needs`, less what is `promised` to others; None: all have.

    A device that is not there, or does not say what is free, has no room.
    """
    by_uuid = {device.uuid: device for device in devices}
    for uuid, needed in sorted(needs.items()):
        device = by_uuid.get(uuid)
        if device is None:
            return Lack(uuid, "its device", needed, Unknown(Why.NOT_READ, "the device does not answer"))
        free = free_bytes(device)
        if not is_known(free):
            return Lack(uuid, f"GPU {device.index}", needed, free)
        free = max(0.0, free - (promised or {}).get(uuid, 0.0))
        if free < needed:
            return Lack(uuid, f"GPU {device.index}", needed, free)
    return None


def held_by(device: str, clients: Iterable[GpuClient], holders: Iterable[Holder]) -> str:
    """Who of `clients` holds it, in words: own notebooks by name, the largest first; of others how much.

    Empty: nobody is known to.
    """
    names = {key.pid: holder.owner.notebook or holder.owner.name for holder in holders for key in holder.tree}
    held: dict[str | None, list[Reading]] = {}
    for client in clients:
        if client.device == device:
            held.setdefault(names.get(client.pid), []).append(client.memory)
    sums = {name: total(amounts) for name, amounts in held.items()}
    order = sorted(sums, key=lambda name: (name is None, -_known(sums[name]), name or ""))
    return ", ".join(f"{name or 'others'} {_amount(sums[name])}" for name in order)


def _known(memory: Reading) -> float:
    return memory if is_known(memory) else 0.0


def _amount(memory: Reading) -> str:
    return f"{memory / 2**30:.1f} GiB" if is_known(memory) else "(not known how much)"
