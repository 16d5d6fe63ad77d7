"""What a policy would have come to: who was warned and ended, what that gave back, and who would have missed it. Pure.

A holder that would have been ended counts as ended from then on. What is seen of it afterwards tells what the end would
have given back (it held a GPU and did not compute) and what it would have cost (it computed again). Times are seconds,
and GPU-seconds are seconds times the devices it was on. A time that was not seen, or of which a reading is not known,
counts nowhere.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from datetime import datetime

from .model import OwnerKey, Reading, Unknown, is_known


@dataclass
class Hold:
    """Time on devices: in all, and of that the part without compute."""

    gpu_seconds: float = 0.0
    idle_gpu_seconds: float = 0.0
    byte_seconds: float = 0.0
    idle_byte_seconds: float = 0.0

    def add(self, seconds: float, devices: int, memory: Reading, compute: Reading, compute_below: float) -> None:
        """Enter a reading that stands for the `seconds` before it."""
        if not devices or isinstance(compute, Unknown):
            return
        share = seconds * devices
        amount = 0.0 if isinstance(memory, Unknown) else seconds * memory
        self.gpu_seconds += share
        self.byte_seconds += amount
        if compute < compute_below:
            self.idle_gpu_seconds += share
            self.idle_byte_seconds += amount

    def include(self, other: Hold) -> None:
        """Add what `other` has counted."""
        for each in fields(Hold):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    @property
    def computing_gpu_seconds(self) -> float:
        """The part with compute."""
        return self.gpu_seconds - self.idle_gpu_seconds


@dataclass
class Ended:
    """One holder that would have been ended at `at`, after `idle_seconds`, and what was seen of it `after` that.

    `back_after` (seconds) is when it computed again; None: it was not seen to.
    """

    owner: OwnerKey
    name: str
    rule: str
    at: datetime
    monotonic: float
    idle_seconds: float | None
    after: Hold = field(default_factory=Hold)
    back_after: float | None = None

    def see(
        self, now: float, seconds: float, devices: int, memory: Reading, compute: Reading, compute_below: float
    ) -> None:
        """Enter a reading at monotonic time `now` that stands for the `seconds` before it."""
        self.after.add(seconds, devices, memory, compute, compute_below)
        if self.back_after is None and devices and is_known(compute) and compute >= compute_below:
            self.back_after = now - self.monotonic


@dataclass
class Tally:
    """The sum over all that was replayed under one policy.

    `warned` and `ended` count holders; a kernel that was restarted is another one. `held` is the time that was seen of
    all, also after an end.
    """

    readings: int = 0
    holders: int = 0
    warned: int = 0
    rules: Counter[str] = field(default_factory=Counter)
    held: Hold = field(default_factory=Hold)
    ended: list[Ended] = field(default_factory=list)

    def include(self, other: Tally) -> None:
        """Add what `other` has counted."""
        self.readings += other.readings
        self.holders += other.holders
        self.warned += other.warned
        self.rules.update(other.rules)
        self.held.include(other.held)
        self.ended += other.ended

    @property
    def after(self) -> Hold:
        """What was seen of all that would have been ended, from then on."""
        total = Hold()
        for each in self.ended:
            total.include(each.after)
        return total

    def regretted(self, within: float) -> list[Ended]:
        """Those that computed again within so many seconds after they would have been ended."""
        return [each for each in self.ended if each.back_after is not None and each.back_after <= within]
