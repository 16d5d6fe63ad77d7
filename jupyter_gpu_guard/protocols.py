"""Every seam on one page. Each has a real implementation and a fake that passes the same tests.

`Devices` and `Processes` block and are called in a thread; `Owners` and `Enforcer` live on the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from .core.entry import Entry
from .core.model import Activity, Device, Gap, GpuClient, Holder, Instant, Mark, Owner, OwnerKey, Process, ProcessKey
from .core.policy import Action
from .core.usage import Usage
from .core.verdict import Lease, Outcome, Verdict


class Clock(Protocol):
    """What time it is."""

    def now(self) -> Instant:
        """The present moment on both clocks."""
        ...


@dataclass(frozen=True)
class DevicesSeen:
    """One reading of all devices. With a gap, `devices` and `clients` are what could still be read."""

    devices: tuple[Device, ...] = ()
    clients: tuple[GpuClient, ...] = ()
    gaps: tuple[Gap, ...] = ()


class Devices(Protocol):
    """The accelerators. No driver, no library, a lost device: a gap or an Unknown, never an exception."""

    simulated: bool

    def read(self) -> DevicesSeen:
        """Look at every device once. Blocks; never called twice at the same time."""
        ...

    def close(self) -> None:
        """Let go of the driver. Safe to call twice."""
        ...


class Processes(Protocol):
    """The process table of this pid namespace."""

    def read(self, closely: Collection[int] | None = None) -> Mapping[int, Process]:
        """All processes by pid. Blocks. A process that ends meanwhile is simply absent.

        `closely`: the pids whose rows must be of this moment; None: all. Another row may be as old as a minute, but is
        never that of another process, and no process is missing.
        """
        ...

    def identify(self, pid: int) -> Process | None:
        """One process, or None if there is none. Cheap: one small file."""
        ...


class Insight(Protocol):
    """What only a closer look at single processes tells. It costs more, so it is for those that matter."""

    def marks(self, keys: Collection[ProcessKey]) -> Mapping[ProcessKey, Mark]:
        """What each of `keys` has inherited in its environment. Blocks. Missing: it cannot be read, or is gone."""
        ...

    def activity(
        self, trees: Mapping[OwnerKey, Collection[ProcessKey]], own_ports: Mapping[OwnerKey, Collection[int]]
    ) -> Mapping[OwnerKey, Activity]:
        """What each tree does apart from GPUs. Blocks. `own_ports` do not count as listened on."""
        ...


class Owners(Protocol):
    """Kernels, terminals and TensorBoards of this server."""

    async def read(self, processes: Mapping[int, Process] | None = None) -> tuple[Owner, ...]:
        """All owners now. Looking never counts as activity. `processes`: the table of this moment; None: not known."""
        ...

    def look_again(self, key: OwnerKey) -> Owner | None:
        """One owner at this very moment, without waiting: the last check before an act. None: it is gone."""
        ...


def nobody_is_spared() -> bool:
    """The answer where nobody can step in."""
    return False


class Enforcer(Protocol):
    """The one door for effects. It acts on exactly what the verdict names and never decides."""

    async def enforce(self, verdict: Verdict, holder: Holder, spared: Callable[[], bool] = nobody_is_spared) -> Outcome:
        """Carry out `verdict` on `holder` and say what really happened. Never raises for a failed act.

        `spared` is asked once, in the last moment before something is lost; True withdraws the act.
        """
        ...

    def offers(self, holder: Holder) -> tuple[Action, ...]:
        """What a person may ask to be done to `holder`, as far as can be told without trying. Costs nothing."""
        ...

    def reaches(self, key: OwnerKey) -> bool:
        """Whether a warning about `key` would reach somebody now, or has done so since it was given."""
        ...

    def hurry(self) -> None:
        """The server is about to end: bring acts that are under way to their end without any grace."""
        ...


@dataclass(frozen=True)
class Grant:
    """One time that somebody was granted a lease: for which owner and notebook, and when."""

    owner: OwnerKey
    notebook: str | None
    at: datetime

    def counts_for(self, owner: OwnerKey, notebook: str | None) -> bool:
        """Whether it counts against the same owner, or another one of the same notebook."""
        return self.owner == owner or (notebook is not None and self.notebook == notebook)


class Leases(Protocol):
    """People's promises, on disk."""

    @property
    def problem(self) -> str | None:
        """What is wrong with the storage, in a sentence; None: nothing."""
        ...

    def active(self, now: datetime) -> Mapping[OwnerKey, Lease]:
        """The leases that hold at `now`."""
        ...

    def grants(self, since: datetime) -> tuple[Grant, ...]:
        """Those that were granted after `since`, of the last day at most, in the order of time."""
        ...

    def grant(self, lease: Lease, grant: Grant | None = None) -> None:
        """Remember `lease`, replacing an earlier one of the same owner, and that it was granted; then it is on disk."""
        ...

    def end(self, owner: OwnerKey) -> bool:
        """Forget the lease of `owner`. False: there was none."""
        ...


class UsageStore(Protocol):
    """What was used of budgets, by this server and by others. A fault is a `problem`, and never an exception."""

    @property
    def problem(self) -> str | None:
        """What is wrong with the storage, in a sentence; None: nothing."""
        ...

    def exchange(self, own: Usage, now: datetime) -> Usage:
        """Keep what this server has used since it started, and give what others and its predecessors have. Blocks."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class NoUsageStore:
    """`UsageStore` that keeps nothing and knows nobody."""

    problem: str | None = None

    def exchange(self, own: Usage, now: datetime) -> Usage:
        """Nothing but what this server counts itself."""
        del own, now
        return {}

    def close(self) -> None:
        """There is nothing to let go of."""


class Journal(Protocol):
    """What happened, in order and for good. A fault of the storage is a `problem`, and never an exception."""

    @property
    def problem(self) -> str | None:
        """What is wrong with the storage, in a sentence; None: nothing."""
        ...

    def record(self, entry: Entry) -> None:
        """Remember `entry`, after all that were recorded before. Returns at once."""
        ...

    async def written(self, within: float) -> bool:
        """Wait until all that was recorded so far is kept for good, at most so many seconds. Whether it is."""
        ...


class NoJournal:
    """`Journal` that keeps nothing."""

    problem: str | None = None

    def record(self, entry: Entry) -> None:
        """Forget it."""

    async def written(self, within: float) -> bool:
        """There is nothing to wait for."""
        del within
        return True


__all__ = [
    "Clock",
    "Devices",
    "DevicesSeen",
    "Enforcer",
    "Grant",
    "Insight",
    "Journal",
    "Leases",
    "NoJournal",
    "NoUsageStore",
    "Owners",
    "ProcessKey",
    "Processes",
    "UsageStore",
]
