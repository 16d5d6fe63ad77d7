"""The last hour of each owner and device, minute by minute: for people to look at. Nothing is judged by it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .model import Device, Holder, Reading, is_known

MINUTE = 60.0
LONGEST = 60  # minutes


@dataclass(frozen=True)
class Minute:
    """What was read within one minute: the mean compute in percent and the last memory in bytes; None: not known."""

    compute: float | None = None
    memory: float | None = None


@dataclass(frozen=True)
class Minutes:
    """An hour at most. `over` are the minutes that are over, the oldest first; `number` is that of the newest.

    `work` is the sum of the `count` readings of compute in the newest minute, and `memory` the last one there.
    """

    number: int
    over: tuple[Minute, ...] = ()
    work: float = 0.0
    count: int = 0
    memory: float | None = None

    @property
    def newest(self) -> Minute:
        """The minute that is not over yet."""
        return Minute(self.work / self.count if self.count else None, self.memory)

    @property
    def all(self) -> tuple[Minute, ...]:
        """Every minute, the newest last."""
        return (*self.over, self.newest)


def lengthen(
    before: Mapping[str, Minutes], read: Mapping[str, tuple[Reading, Reading]], now: float, *, forget: bool = True
) -> Mapping[str, Minutes]:
    """Add one reading of compute and memory of each at the monotonic time `now`.

    A minute in which nothing was read stays empty. Whoever was not read is forgotten, unless `forget` is False.
    """
    number = int(now // MINUTE)
    after = {} if forget else {name: minutes for name, minutes in before.items() if number - minutes.number < LONGEST}
    for name, (compute, memory) in read.items():
        after[name] = _with(_come_to(before.get(name), number), compute, memory)
    return after


def readings(holders: Iterable[Holder], devices: Iterable[Device]) -> Mapping[str, tuple[Reading, Reading]]:
    """What is read of each: an owner by its key, a device by its UUID."""
    return {
        **{str(holder.owner.key): (holder.compute, holder.memory) for holder in holders},
        **{device.uuid: (device.compute, device.memory_used) for device in devices},
    }


def _come_to(minutes: Minutes | None, number: int) -> Minutes:
    """The same, with minute `number` as its newest."""
    if minutes is None or number < minutes.number or number - minutes.number >= LONGEST:
        return Minutes(number)
    if number == minutes.number:
        return minutes
    empty = (Minute(),) * (number - minutes.number - 1)
    return Minutes(number, (*minutes.all, *empty)[-(LONGEST - 1) :])


def _with(minutes: Minutes, compute: Reading, memory: Reading) -> Minutes:
    known = is_known(compute)
    return Minutes(
        minutes.number,
        minutes.over,
        minutes.work + (compute if is_known(compute) else 0.0),
        minutes.count + known,
        memory if is_known(memory) else minutes.memory,
    )
