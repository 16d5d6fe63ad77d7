"""Owners, with what is known about those that are parked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jupyter_gpu_guard.core.model import Parked
from jupyter_gpu_guard.parking.registry import Phase

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from jupyter_gpu_guard.core.model import Owner, OwnerKey, Process
    from jupyter_gpu_guard.parking.registry import Registry
    from jupyter_gpu_guard.parking.waiting_line import WaitingLine
    from jupyter_gpu_guard.protocols import Owners


class ParkedOwners:
    """`Owners` that says of each whether it is parked. `seen` is told what was read, before it is passed on.

    To come back is a use: the clocks of whoever was resumed begin anew.
    """

    def __init__(
        self,
        owners: Owners,
        registry: Registry,
        line: WaitingLine,
        seen: Callable[[tuple[Owner, ...]], Awaitable[None]],
    ) -> None:
        self._owners = owners
        self._registry = registry
        self._line = line
        self._seen = seen

    async def read(self, processes: Mapping[int, Process] | None = None) -> tuple[Owner, ...]:
        """All owners now."""
        owners = await self._owners.read(processes)
        await self._seen(owners)
        return tuple(map(self._marked, owners))

    def look_again(self, key: OwnerKey) -> Owner | None:
        """One owner at this very moment. None: it is gone."""
        owner = self._owners.look_again(key)
        return None if owner is None else self._marked(owner)

    def _marked(self, owner: Owner) -> Owner:
        resumed_at = self._line.resumed_at(owner.key)
        if resumed_at is not None and (owner.used_at is None or owner.used_at < resumed_at):
            owner = replace(owner, used_at=resumed_at)
        entry = self._registry.of(owner.key, owner.root)
        if entry is None or entry.phase is Phase.BEGUN:
            return owner
        return replace(owner, parked=Parked(entry.since, entry.bytes, self._line.waiting(owner.key)))
