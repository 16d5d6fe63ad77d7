"""What an earlier run of a kernel has left behind, as an owner of its own: warned about, and ended by rule. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from .model import GpuProcess, Owner, OwnerKey, OwnerKind, OwnerState


def left_behind(kernel: Owner, rows: Iterable[GpuProcess]) -> Owner | None:
    """The owner of `rows`, the GPU processes of earlier runs of `kernel`. Its root is the oldest of them.

    None: it is no kernel, or one that lives and whose process is not known at the moment. Then nobody can tell what
    belongs to an earlier run.
    """
    oldest = min(rows, key=lambda row: (row.key.start_ticks, row.key.pid), default=None)
    is_between = kernel.root is None and kernel.state is not OwnerState.DEAD
    if oldest is None or kernel.key.kind is not OwnerKind.KERNEL or is_between:
        return None
    return replace(
        kernel,
        key=OwnerKey(OwnerKind.LEFTOVERS, kernel.key.id),
        root=oldest.key,
        state=OwnerState.DEAD,
        started_at=oldest.started_at,
        used_at=None,
        own_ports=frozenset(),
        clients=0,
        failed=False,
        died=False,
        parked=None,
    )
