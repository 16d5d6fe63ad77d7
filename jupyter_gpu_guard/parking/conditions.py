"""Whether a kernel can be parked, as far as a look at it and its devices tells; each obstacle by its name. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_gpu_guard.core.model import Device, DeviceState, GpuClient, OwnerKind, OwnerState, is_known, total

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from jupyter_gpu_guard.core.model import Holder, ProcessKey
    from jupyter_gpu_guard.protocols import DevicesSeen

SPARE = 2**30  # bytes of host memory that stay free, at least; otherwise a tenth of what is parked
UNLISTED = 2**30  # bytes on a device that nobody is listed with: more than what a driver needs for itself


@dataclass(frozen=True)
class Load:
    """The one process that is to be parked, and what it holds: bytes by the UUID of the device."""

    process: ProcessKey
    memory: Mapping[str, float]

    @property
    def bytes(self) -> float:
        """All of it."""
        return sum(self.memory.values())

    @property
    def needed_on_host(self) -> float:
        """Bytes of host memory that must be free for it."""
        return self.bytes + max(SPARE, 0.1 * self.bytes)


def why_not_it(holder: Holder) -> str | None:
    """Why this holder is not to be parked, whatever the devices say; None: nothing speaks against it."""
    owner = holder.owner
    if owner.key.kind is not OwnerKind.KERNEL:
        return "only kernels can be parked"
    if owner.root is None:
        return "it runs elsewhere, or its process is not known"
    if owner.parked is not None:
        return "it is parked already"
    if holder.state is not OwnerState.IDLE:
        return f"only an idle kernel can be parked, and it is {holder.state.value}"
    if holder.estimated:
        return "it is only inferred, and not seen, that it is on a device"
    if holder.unknown is not None:
        return "not all that belongs to it could be seen"
    return None


def load_of(holder: Holder, tree: Collection[ProcessKey], seen: DevicesSeen) -> Load | str:
    """What is to be parked of `holder`, whose processes are `tree`; or why that cannot be done, in a sentence."""
    refusal = why_not_it(holder)
    if refusal is not None:
        return refusal
    if any(gap.source == "devices" for gap in seen.gaps):
        return "the devices could not be read"
    keys = {key.pid: key for key in tree}
    rows = [client for client in seen.clients if client.pid in keys]
    pids = {row.pid for row in rows}
    if len(pids) != 1:
        return f"{len(pids)} of its processes are on devices, and only exactly one can be parked"
    devices = {device.uuid: device for device in seen.devices}
    for row in rows:
        refusal = _why_not_there(row, devices.get(row.device), seen)
        if refusal is not None:
            return refusal
    memory = {row.device: row.memory for row in rows if is_known(row.memory)}
    return Load(keys[pids.pop()], memory)


def _why_not_there(row: GpuClient, device: Device | None, seen: DevicesSeen) -> str | None:
    if device is None or device.state is not DeviceState.OK:
        return "its device does not answer"
    if device.mig or device.part_of is not None:
        return "it is on a MIG instance, and the driver cannot park what is there"
    if "M" in row.type:
        return "it uses the multi-process service (MPS), and the driver cannot park such a process"
    if row.type != "C":
        return f"it uses its device for more than compute (type {row.type})"
    if not is_known(row.memory):
        return "it is not known how much it holds"
    return _managed(device, seen)


def _managed(device: Device, seen: DevicesSeen) -> str | None:
    """Managed memory is on no list, and cannot be parked. That it is his can be told if he is alone there."""
    rows = [client for client in seen.clients if client.device == device.uuid]
    listed = total(client.memory for client in rows)
    if len(rows) != 1 or not is_known(listed) or not is_known(device.memory_used):
        return None
    beyond = device.memory_used - listed
    if beyond <= UNLISTED:
        return None
    return f"{beyond / 2**30:.1f} GiB on its device are on no list: managed memory, it seems, which cannot be parked"
