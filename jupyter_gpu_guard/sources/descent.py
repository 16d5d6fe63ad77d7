"""Which processes come from this server, and from which of its kernels and terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jupyter_gpu_guard.core.model import OwnerKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_gpu_guard.core.model import Process, ProcessKey


class Place(NamedTuple):
    """Where a process of this server was started: in the tree of `owner`, or (None) by the server apart from these."""

    owner: OwnerKey | None


class Descent:
    """Remembers who comes from the server with pid `server`. What did so once does so for good.

    A process that has left its parents is known by having been seen before, or by the leader of its session. A server
    that `adopts` orphans, as the first process of a container does, is also the parent of what others have started: its
    child is its own only in its own session, or by the mark of this server. `mark_of` gives the pid of the server that
    a process is marked with.
    """

    def __init__(
        self, server: int, mark_of: Callable[[int], int | None] = lambda _: None, *, adopts: bool = True
    ) -> None:
        self._server = server
        self._mark_of = mark_of
        self._adopts = adopts
        self._ours: Mapping[ProcessKey, Place] = {}
        self._strange: Mapping[int, int] = {}
        self._roots: Mapping[ProcessKey, OwnerKey] = {}

    def places(
        self, processes: Mapping[int, Process], roots: Mapping[ProcessKey, OwnerKey]
    ) -> Mapping[ProcessKey, Place]:
        """All living processes that come from the server, without itself. `roots`: those of kernels and terminals."""
        known = self._strange if roots == self._roots else {}
        search = _Search(processes, roots, self._ours, self._server, self._mark_of, adopts=self._adopts)
        ours: dict[ProcessKey, Place] = {}
        strange: dict[int, int] = {}
        for pid, process in processes.items():
            ticks = process.key.start_ticks
            place = search.place_of(process) if known.get(pid) != ticks else None
            if place is None:
                strange[pid] = ticks
            elif not process.is_over and pid != self._server:
                ours[process.key] = place
        self._ours, self._strange, self._roots = ours, strange, dict(roots)
        return ours


class _Search:
    """One look through one table."""

    def __init__(
        self,
        processes: Mapping[int, Process],
        roots: Mapping[ProcessKey, OwnerKey],
        before: Mapping[ProcessKey, Place],
        server: int,
        mark_of: Callable[[int], int | None],
        /,
        *,
        adopts: bool,
    ) -> None:
        self._processes = processes
        self._roots = roots
        self._before = before
        self._server = server
        self._mark_of = mark_of
        self._adopts = adopts
        self._found: dict[int, Place | None] = {}

    def place_of(self, process: Process) -> Place | None:
        """Where `process` comes from. None: not from this server."""
        path: list[Process] = []
        place: Place | None = None
        current: Process | None = process
        while current is not None:
            pid = current.key.pid
            if pid in self._found:
                place = self._found[pid]
                break
            self._found[pid] = None  # so that no loop in a torn table is walked twice
            path.append(current)
            if current.key in self._roots or pid == self._server:
                break
            parent = self._processes.get(current.parent)
            # A parent that is younger than its child is another process with a reused pid.
            current = parent if parent is not None and parent.key.start_ticks <= current.key.start_ticks else None
        for each in reversed(path):
            place = self._found[each.key.pid] = self._here(each, place)
        return place

    def _here(self, process: Process, above: Place | None) -> Place | None:
        """Where `process` comes from, given where its parent does."""
        if (owner := self._roots.get(process.key)) is not None:
            return Place(owner)
        if process.key.pid == self._server:
            return Place(None)
        if above is not None and above.owner is not None:
            return above
        # Its parents do not lead to a kernel or terminal, or not any more.
        before = self._before.get(process.key)
        if before is not None and before.owner is not None:
            return before
        if above is not None and process.parent == self._server and not self._is_started(process):
            above = None
        return self._by_session(process) or before or above

    def _is_started(self, process: Process) -> bool:
        """Whether the server has started `process`, its child, and not only adopted it."""
        if not self._adopts:
            return True
        server = self._processes.get(self._server)
        # Session 0 has its leader outside this container, as many others may have it too.
        if server is not None and process.session == server.session != 0:
            return True
        return self._mark_of(process.key.pid) == self._server

    def _by_session(self, process: Process) -> Place | None:
        leader = self._processes.get(process.session)
        if leader is None or leader is process or leader.key.start_ticks > process.key.start_ticks:
            return None
        return self.place_of(leader)
