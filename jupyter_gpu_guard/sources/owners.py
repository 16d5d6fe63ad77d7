"""Kernels, terminals and TensorBoards as one. A source that fails harms itself alone."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from jupyter_gpu_guard.core.model import Gap, OwnerKind, OwnerState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from jupyter_gpu_guard.core.model import Owner, OwnerKey, Process, ProcessKey
    from jupyter_gpu_guard.protocols import Owners


class Boards(Protocol):
    """`Owners` that want to know who may have started them."""

    async def read(
        self, processes: Mapping[int, Process] | None = None, starters: Sequence[Owner] = ()
    ) -> tuple[Owner, ...]:
        """All of them now, given the server's kernels and terminals."""
        ...

    def look_again(self, key: OwnerKey) -> Owner | None:
        """One of them at this very moment. None: it is gone."""
        ...


class JoinedOwners:
    """`Owners` from three sources. While one of them fails, its owners are as they were known last, with state UNKNOWN.

    So their processes do not become strangers, and nothing is ended on what is not known.
    """

    def __init__(
        self,
        kernels: Owners,
        terminals: Owners,
        boards: Boards,
        *,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger] | None = None,
    ) -> None:
        self._kernels = kernels
        self._terminals = terminals
        self._boards = boards
        self._log = log or logging.getLogger(__name__)
        self._last: dict[str, tuple[Owner, ...]] = {}
        self._gaps: dict[str, Gap] = {}

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The sources that failed at the last reading."""
        return tuple(self._gaps.values())

    @property
    def roots(self) -> frozenset[ProcessKey]:
        """The first process of each owner, as of the last reading."""
        return frozenset(owner.root for owners in self._last.values() for owner in owners if owner.root is not None)

    async def read(self, processes: Mapping[int, Process] | None = None) -> tuple[Owner, ...]:
        """All owners now. Raises for nothing but cancellation."""
        kernels = await self._ask("kernels", self._kernels.read(processes), processes)
        terminals = await self._ask("terminals", self._terminals.read(processes), processes)
        starters = (*kernels, *terminals)
        return (*starters, *await self._ask("tensorboards", self._boards.read(processes, starters), processes))

    def look_again(self, key: OwnerKey) -> Owner | None:
        """One owner at this very moment. None: it is gone. Raises what its source raises."""
        if key.kind is OwnerKind.KERNEL:
            return self._kernels.look_again(key)
        if key.kind is OwnerKind.TERMINAL:
            return self._terminals.look_again(key)
        if key.kind is OwnerKind.LEFTOVERS:
            return None  # nobody lists them
        return self._boards.look_again(key)

    async def _ask(
        self, name: str, answer: Awaitable[tuple[Owner, ...]], processes: Mapping[int, Process] | None
    ) -> tuple[Owner, ...]:
        try:
            owners = await answer
        except Exception as fault:  # noqa: BLE001 - a manager may be anyone's
            if name not in self._gaps:
                self._log.warning("GPU guard: the %s could not be listed", name, exc_info=fault)
            self._gaps[name] = Gap(name, f"the server's {name} could not be listed: {fault}")
            known = [owner for owner in self._last.get(name, ()) if _may_live(owner, processes)]
            owners = tuple(replace(owner, state=OwnerState.UNKNOWN) for owner in known)
        else:
            if self._gaps.pop(name, None) is not None:
                self._log.info("GPU guard: the %s can be listed again", name)
        self._last[name] = owners
        return owners


def _may_live(owner: Owner, processes: Mapping[int, Process] | None) -> bool:
    """Whether nothing speaks against it: its process is not seen to be gone."""
    if not processes or owner.root is None:
        return True
    process = processes.get(owner.root.pid)
    return process is not None and process.key == owner.root and not process.is_over
