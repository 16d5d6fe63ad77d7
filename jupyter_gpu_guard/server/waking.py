"""Resumes parked kernels when they are used: the oldest request first, as soon as there is room."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import TYPE_CHECKING

from jupyter_gpu_guard.core.model import OwnerKey, OwnerKind
from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.parking.registry import Phase
from jupyter_gpu_guard.parking.room import held_by, lack
from jupyter_gpu_guard.published import NoSuchOwnerError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_gpu_guard.core.model import GpuClient, Owner
    from jupyter_gpu_guard.guard import Guard
    from jupyter_gpu_guard.parking.registry import Entry, Registry
    from jupyter_gpu_guard.parking.waiting_line import WaitingLine
    from jupyter_gpu_guard.protocols import Clock
    from jupyter_gpu_guard.sources.websocket_ear import Passing

BY_USE = "a cell that was run"


class Waker:
    """Watches for use of what is parked, and has the guard resume it. It does nothing until it `serves` a guard.

    The calls of a cell to its GPU wait meanwhile by themselves.
    """

    def __init__(
        self,
        registry: Registry,
        line: WaitingLine,
        clock: Clock,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger],
    ) -> None:
        self._registry = registry
        self._line = line
        self._clock = clock
        self._log = log
        self._guard: Guard | None = None

    def serves(self, guard: Guard) -> None:
        """Have `guard` act from now on."""
        self._guard = guard

    def heard(self, passing: Passing) -> None:
        """A page has sent something to a kernel: a cell, say. Then the kernel is resumed at once."""
        if passing.kind != "execute_request":
            return
        key = OwnerKey(OwnerKind.KERNEL, passing.kernel_id)
        if any(entry.owner == key for entry in self._registry.entries):
            self._line.ask(key, self._clock.now().wall)
            asyncio.get_running_loop().call_soon(self._next)

    async def seen(self, owners: tuple[Owner, ...]) -> None:
        """At each look: whoever runs a cell is to be resumed, also one that nobody was heard to send.

        For whoever was brought back by somebody else meanwhile, the clocks begin anew.
        """
        before = self._registry.entries
        if not before:
            return
        await asyncio.to_thread(self._registry.refresh)
        present = {owner.key: owner for owner in owners}
        now = self._clock.now()
        for entry in before:
            owner = present.get(entry.owner)
            is_back = (
                owner is not None and owner.root == entry.root and self._registry.of(entry.owner, entry.root) is None
            )
            if is_back and entry.phase is not Phase.BEGUN:  # by the command line, say
                self._line.resumed(entry.owner, now.monotonic)
        for key in self._line.order(float("inf")):
            owner = present.get(key)
            if owner is None or self._registry.of(key, owner.root) is None:
                self._line.leave(key)
        for entry in self._registry.entries:
            owner = present.get(entry.owner)
            if owner is not None and owner.root == entry.root and owner.state.is_running_a_cell:
                self._line.want(entry.owner, now.wall)
        self._next()

    def who_holds(self, device: str, clients: Iterable[GpuClient]) -> str:
        """Who of `clients` is on a device, in words: own notebooks by name, of others only how much."""
        return "" if self._guard is None else held_by(device, clients, self._guard.published.attribution.holders)

    def _next(self) -> None:
        """Resume those for whom there is room. Nobody passes an older request on the same device."""
        if self._guard is None:
            return
        snapshot = self._guard.published.snapshot
        devices, clients = (snapshot.devices, snapshot.clients) if snapshot is not None else ((), ())
        promised: dict[str, float] = defaultdict(float)
        by_owner = {entry.owner: entry for entry in self._registry.entries}
        for key in self._line.order(self._clock.now().monotonic):
            entry = by_owner.get(key)
            if entry is None:
                continue
            missing = lack(entry.memory, devices, promised)
            is_first = not any(device in promised for device in entry.memory)
            for device, amount in entry.memory.items():
                promised[device] += amount
            if missing is None or (is_first and self._line.waiting(key) is None):
                # At first also without room: then its outcome tells people what it waits for.
                self._line.lacks(key, None, "")
                self._resume(entry)
            else:
                self._line.lacks(key, missing, self.who_holds(missing.device, clients))

    def _resume(self, entry: Entry) -> None:
        assert self._guard is not None  # noqa: S101  asked before
        try:
            self._guard.act(Action.RESUME, entry.owner, BY_USE)
        except NoSuchOwnerError:
            self._log.debug("GPU guard: %s is parked, and not seen yet", entry.owner)
