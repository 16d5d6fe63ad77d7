"""Whose is a process that slipped away before it was seen? Told by what it has inherited in its environment. Pure.

A process that forks twice and starts a session of its own has no parent and no session leader that lead to a kernel.
It still carries the marks that the server gave to the kernel. They name the server and the notebook: enough to tell
whose it is, or that it was left behind by a server that has ended since.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from hashlib import sha256

from .model import Mark, Owner, OwnerKey, OwnerKind, OwnerState, Process, ProcessKey, Snapshot


class Marked:
    """The marks of one Snapshot beside those of its kernels' roots.

    Only kernels are given marks. A TensorBoard or terminal may have inherited those of a kernel, as any process may.
    """

    def __init__(self, snapshot: Snapshot, owners: Mapping[OwnerKey, Owner]) -> None:
        self._marks = snapshot.marks
        self._processes = snapshot.processes
        self._by_mark: dict[Mark, list[Owner]] = defaultdict(list)
        self._by_session: dict[str, list[Owner]] = defaultdict(list)
        for owner in owners.values():
            if owner.key.kind is not OwnerKind.KERNEL or owner.root is None:
                continue
            mark = snapshot.marks.get(owner.root)
            if mark is not None and mark.session is not None:
                self._by_mark[mark].append(owner)
                self._by_session[mark.session].append(owner)

    def owner_of(self, process: Process) -> tuple[Owner, ProcessKey] | None:
        """The owner whose marks `process` carries, and the root under which it was started. None: nobody's here.

        What was started before the owner's present root, or under a server that has ended, comes under its own key as
        the root: it was left behind. A mark of another living server, or one that fits several owners, says nothing.
        """
        mark = self._marks.get(process.key)
        if mark is None or mark.session is None or mark.server is None:
            return None
        if self._lives(mark.server, process):
            owner = _only(self._by_mark.get(mark))
            if owner is None or owner.root is None:
                return None
            is_older = process.key.start_ticks < owner.root.start_ticks
            return owner, process.key if is_older else owner.root
        return _only(self._by_session.get(mark.session)) or _ended(mark.session), process.key

    def _lives(self, server: int, process: Process) -> bool:
        """Whether the server that `process` was started under still runs: not if its pid has come to a later one."""
        found = self._processes.get(server)
        return found is not None and not found.is_over and found.key.start_ticks <= process.key.start_ticks


def _only(owners: list[Owner] | None) -> Owner | None:
    return owners[0] if owners is not None and len(owners) == 1 else None


def _ended(session: str) -> Owner:
    """A kernel of a server that has ended, of which only the notebook is known."""
    ident = f"ended-{sha256(session.encode()).hexdigest()[:12]}"
    return Owner(OwnerKey(OwnerKind.KERNEL, ident), session.rpartition("/")[2], root=None, state=OwnerState.DEAD)
