"""Each obstacle to parking is named; nothing is parked on what is not known."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from jupyter_gpu_guard.core.model import (
    Device,
    DeviceState,
    Gap,
    GpuClient,
    GpuProcess,
    Holder,
    Holding,
    Owner,
    OwnerKey,
    OwnerKind,
    OwnerState,
    Parked,
    ProcessKey,
    Unknown,
    Why,
)
from jupyter_gpu_guard.effects.park import Park
from jupyter_gpu_guard.parking.conditions import Load, load_of
from jupyter_gpu_guard.protocols import DevicesSeen

GIB = 2.0**30
NOON = datetime(2030, 5, 1, 12, tzinfo=timezone.utc)
ROOT, CHILD = ProcessKey(100, 7), ProcessKey(101, 8)
ROW = GpuClient("gpu-0", ROOT.pid, 6 * GIB, 0.0)
DEVICE = Device("gpu-0", 0, "NVIDIA H200", 80 * GIB, 6.4 * GIB)
SEEN = DevicesSeen((DEVICE,), (ROW,))
OWNER = Owner(OwnerKey(OwnerKind.KERNEL, "k"), "a.ipynb", ROOT, OwnerState.IDLE)
HOLDER = Holder(OWNER, (Holding("gpu-0", (GpuProcess(ROOT, "gpu-0", 6 * GIB, 0.0, NOON),)),), (ROOT, CHILD))


def test_one_idle_process_that_computes_only_can_be_parked():
    """With what it holds on each device, and room for a tenth more on the host, 1 GiB at least."""
    load = load_of(HOLDER, (ROOT, CHILD), SEEN)
    assert load == Load(ROOT, {"gpu-0": 6 * GIB})
    assert load.needed_on_host == 7 * GIB
    assert Load(ROOT, {"gpu-0": 40 * GIB, "gpu-1": 10 * GIB}).needed_on_host == 55 * GIB
    second = replace(DEVICE, uuid="gpu-1", memory_used=2 * GIB)
    both = DevicesSeen((DEVICE, second), (ROW, replace(ROW, device="gpu-1", memory=2 * GIB)))
    assert load_of(HOLDER, (ROOT,), both) == Load(ROOT, {"gpu-0": 6 * GIB, "gpu-1": 2 * GIB})


def about(**what):
    """The holder with another owner."""
    return replace(HOLDER, owner=replace(OWNER, **what))


@pytest.mark.parametrize(
    ("holder", "why"),
    [
        (about(key=OwnerKey(OwnerKind.TERMINAL, "1")), "only kernels"),
        (about(root=None), "runs elsewhere"),
        (about(parked=Parked(NOON, GIB)), "parked already"),
        (about(state=OwnerState.EXECUTING), "it is executing"),
        (about(state=OwnerState.UNKNOWN), "it is unknown"),
        (replace(HOLDER, refined=OwnerState.SERVING), "it is serving"),
        (replace(HOLDER, unknown=Unknown(Why.NOT_READ)), "not all that belongs to it"),
    ],
)
def test_holders_that_cannot_be_parked(holder, why):
    """They are not offered it either."""
    refusal = load_of(holder, (ROOT,), SEEN)
    assert isinstance(refusal, str)
    assert why in refusal
    assert not Park(None).suits(holder)


def test_it_is_offered_where_nothing_speaks_against_it():
    """Unless it is switched off, or several of its processes are on devices."""
    assert Park(None).suits(HOLDER)
    assert not Park(None, "it is switched off").suits(HOLDER)
    (holding,) = HOLDER.holdings
    (row,) = holding.processes
    two = replace(HOLDER, holdings=(replace(holding, processes=(row, replace(row, key=CHILD))),))
    assert not Park(None).suits(two)
    assert not Park(None).suits(replace(HOLDER, holdings=()))


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (replace(SEEN, gaps=(Gap("devices", "no answer"),)), "could not be read"),
        (replace(SEEN, clients=()), "0 of its processes"),
        (replace(SEEN, clients=(ROW, replace(ROW, pid=CHILD.pid))), "2 of its processes"),
        (replace(SEEN, devices=()), "does not answer"),
        (replace(SEEN, devices=(replace(DEVICE, state=DeviceState.LOST),)), "does not answer"),
        (replace(SEEN, devices=(replace(DEVICE, mig=True),)), "MIG"),
        (replace(SEEN, devices=(replace(DEVICE, part_of="gpu-9"),)), "MIG"),
        (replace(SEEN, clients=(replace(ROW, type="M+C"),)), "MPS"),
        (replace(SEEN, clients=(replace(ROW, type="C+G"),)), "type C+G"),
        (replace(SEEN, clients=(replace(ROW, memory=Unknown(Why.NOT_AVAILABLE)),)), "not known how much"),
        (replace(SEEN, devices=(replace(DEVICE, memory_used=60 * GIB),)), "54.0 GiB on its device are on no list"),
    ],
)
def test_devices_that_speak_against_it(seen, why):
    """The sentence says what does."""
    refusal = load_of(HOLDER, (ROOT, CHILD), seen)
    assert isinstance(refusal, str)
    assert why in refusal


def test_memory_on_no_list_may_be_somebody_elses():
    """Where others are on the device too, nobody is suspected of managed memory."""
    other = replace(ROW, pid=4711)
    seen = DevicesSeen((replace(DEVICE, memory_used=60 * GIB),), (ROW, other))
    assert load_of(HOLDER, (ROOT,), seen) == Load(ROOT, {"gpu-0": 6 * GIB})
