"""The last hour, minute by minute."""

from __future__ import annotations

from jupyter_gpu_guard.core.minutes import LONGEST, Minute, Minutes, lengthen, readings
from jupyter_gpu_guard.core.model import (
    Device,
    Holder,
    Owner,
    OwnerKey,
    OwnerKind,
    OwnerState,
    Reading,
    Unknown,
    Why,
)

UNKNOWN = Unknown(Why.NOT_READ)


def film(*read: tuple[float, Reading, Reading]) -> tuple[Minute, ...]:
    """What is kept of readings of one device at these times."""
    kept: dict[str, Minutes] = {}
    for at, compute, memory in read:
        kept = dict(lengthen(kept, {"GPU-a": (compute, memory)}, at))
    return kept["GPU-a"].all


def test_a_minute_has_the_mean_compute_and_the_last_memory() -> None:
    """Within a minute compute is a mean, and memory what it was at last; the newest minute is there at once."""
    assert film((0, 10, 5), (30, 20, 7), (60, 90, 9)) == (Minute(15, 7), Minute(90, 9))


def test_what_is_not_known_is_not_zero() -> None:
    """An Unknown reading adds nothing, and a minute without any known one is empty."""
    assert film((0, 10, 5), (30, UNKNOWN, UNKNOWN), (60, UNKNOWN, UNKNOWN)) == (Minute(10, 5), Minute(None, None))


def test_minutes_without_a_look_are_empty() -> None:
    """A gap stays a gap."""
    assert film((0, 10, 5), (200, 20, 6)) == (Minute(10, 5), Minute(), Minute(), Minute(20, 6))


def test_an_hour_is_kept_at_most() -> None:
    """The oldest minute goes; after an hour without a look it begins anew."""
    minutes = film(*((60.0 * n, n, n) for n in range(100)))
    assert [minute.compute for minute in minutes] == list(range(40, 100))
    assert len(minutes) == LONGEST
    assert film((0, 10, 5), (3600, 20, 6)) == (Minute(20, 6),)
    assert film((600, 10, 5), (0, 20, 6)) == (Minute(20, 6),)


def test_who_is_not_seen_is_forgotten_unless_not_all_could_be_seen() -> None:
    """A gap of a source must not end the hour of everybody; and what is gone must not stay for ever."""
    before = lengthen({}, {"a": (1.0, 1.0), "b": (2.0, 2.0)}, 0)
    assert set(lengthen(before, {"a": (1.0, 1.0)}, 5)) == {"a"}
    assert set(lengthen(before, {"a": (1.0, 1.0)}, 5, forget=False)) == {"a", "b"}
    assert set(lengthen(before, {"a": (1.0, 1.0)}, 3600, forget=False)) == {"a"}


def test_owners_and_devices_are_read_by_their_names() -> None:
    """An owner by its key, a device by its UUID."""
    owner = Owner(OwnerKey(OwnerKind.KERNEL, "k"), "k", None, OwnerState.IDLE)
    device = Device("GPU-a", 0, "H100", 80.0, 20.0, compute=35.0)
    assert readings([Holder(owner)], [device]) == {"kernel:k": (0, 0), "GPU-a": (35.0, 20.0)}
