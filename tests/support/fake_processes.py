"""A process table that a test writes itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from jupyter_gpu_guard.core.model import Process


class FakeProcesses:
    """`Processes` from a dictionary. Start and end processes by changing `table`."""

    def __init__(self, *processes: Process) -> None:
        self.table = {process.key.pid: process for process in processes}

    def read(self, closely: Collection[int] | None = None) -> Mapping[int, Process]:
        """All that is in the table now."""
        return dict(self.table)

    async def scan(self) -> Mapping[int, Process]:
        """The same, as the guard hands it to an effect."""
        return self.read()

    def identify(self, pid: int) -> Process | None:
        """One row of it."""
        return self.table.get(pid)
