"""What is used of budgets while a server runs: counted at each look, and shared with other servers now and then."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

from .aside import Aside
from .core.budget import Account, Amount
from .core.model import Holder, Instant, Snapshot
from .core.policy import Around, Policy, Site
from .core.usage import Meter, Usage, spending
from .protocols import Clock, UsageStore

EVERY = 60.0  # seconds between two exchanges with the storage
WITHIN = 10.0  # seconds; a slower storage is not waited for
AT_THE_END = 2.0  # seconds


class Accounts:
    """Counts what is used, and knows what others have. A storage that fails or hangs holds up nothing."""

    def __init__(self, store: UsageStore, clock: Clock, site: Site) -> None:
        self._store = store
        self._clock = clock
        self._site = site
        self._exchange = Aside("usage", store.exchange, WITHIN)
        self._meter = Meter()
        self._others: Usage = {}
        self._task: asyncio.Task[None] | None = None
        self._due = float("-inf")
        self._late: str | None = None

    @property
    def problem(self) -> str | None:
        """What is wrong with the storage, in a sentence."""
        return self._late or self._store.problem

    def look(
        self, holders: tuple[Holder, ...], snapshot: Snapshot, policy: Policy, longest_span: float
    ) -> Mapping[Account, Amount]:
        """Count what was used since the look before, and say what was used in all. Returns at once."""
        now = snapshot.taken_at
        around = Around({device.uuid: device for device in snapshot.devices}, now.wall, self._site)
        self._meter = self._meter.look(holders, policy, around, now, longest_span)
        if not policy.budgets:
            return {}
        if not snapshot.gaps:
            self._meter = self._meter.without_those_gone((h.owner.key for h in holders), policy.budgets)
        if now.monotonic >= self._due and (self._task is None or self._task.done()):
            self._due = now.monotonic + EVERY
            self._task = asyncio.get_running_loop().create_task(self._share(now))
        return spending((self._meter.usage, self._others), policy.budgets, now.wall)

    async def shared(self) -> None:
        """Wait until the exchange that is under way is over."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def close(self) -> None:
        """Save what was used, if there was anything to count. Waits for the disk, but not long."""
        if self._task is None:
            return
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._at_the_end(), AT_THE_END)

    async def _at_the_end(self) -> None:
        await self.shared()
        await self._share(self._clock.now())
        await asyncio.to_thread(self._store.close)

    async def _share(self, now: Instant) -> None:
        try:
            self._others = await self._exchange(self._meter.usage, now.wall)
            self._late = None
        except Exception as error:  # noqa: BLE001  what others have used is as last known
            self._late = f"What was used of budgets cannot be exchanged with other servers: {error}."
