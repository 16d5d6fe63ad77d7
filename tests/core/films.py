"""Films: what a few kernels show from moment to moment, as Snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from jupyter_gpu_guard.core.model import OwnerState, Reading, Snapshot, is_known

from .build import GIB, SERVER, at, client, owner, process, snapshot

STRANGER = 9


@dataclass(frozen=True)
class Look:
    """One kernel at one moment: its memory, its compute on each device.

    `used`: the last cell ends just now. `life` counts its restarts, `children` the processes it has beside its worker.
    """

    memory: Reading = 12 * GIB
    compute: tuple[Reading, ...] = (0.0,)
    state: OwnerState = OwnerState.IDLE
    used: bool = False
    life: int = 0
    children: int = 0

    @property
    def is_known(self) -> bool:
        """Whether every reading of it is a number."""
        return is_known(self.memory) and all(is_known(share) for share in self.compute)

    @property
    def busiest(self) -> float:
        """The highest compute on any device that is known."""
        return max((share for share in self.compute if is_known(share)), default=0.0)


@dataclass(frozen=True)
class Moment:
    """What there is to see `after` so many seconds; the sources in `missed` do not answer."""

    kernels: Mapping[str, Look]
    after: float = 5.0
    missed: tuple[str, ...] = ()
    wall_ahead: float = 0.0


def root_of(name: str, life: int = 0) -> int:
    """The pid of the root of kernel `name` in its `life`."""
    return 1000 * (1 + ord(name) - ord("a")) + 100 * life


def film(moments: Iterable[Moment], *, begin_at: float = 1000.0) -> list[Snapshot]:
    """The Snapshots of `moments`. Each kernel has a worker on the devices; a busy stranger is beside them."""
    pictures, used = [], dict[str, float]()
    now = begin_at
    for moment in moments:
        now += moment.after
        owners, rows, clients = [], [process(STRANGER)], [client(STRANGER, 3 * GIB, 50.0)]
        for name, look in moment.kernels.items():
            if look.used:
                used[name] = now
            pid = root_of(name, look.life)
            root, worker = process(pid, SERVER), process(pid + 1, pid, session=pid)
            rows += [root, worker, *(process(pid + 2 + n, pid, session=pid) for n in range(look.children))]
            owners.append(owner(name, root.key, state=look.state, used_at=used.get(name)))
            clients += [
                client(worker.key.pid, look.memory if n == 0 else 0.0, share, f"gpu-{n}")
                for n, share in enumerate(look.compute)
            ]
        seen = snapshot(*rows, owners=owners, clients=clients, missed=moment.missed)
        pictures.append(replace(seen, taken_at=at(now, wall_ahead=moment.wall_ahead)))
    return pictures


def still(count: int, **kernels: Look) -> list[Snapshot]:
    """`count` pictures, five seconds apart, of kernels that do not change; by default one idle kernel `a`."""
    return film([Moment(kernels or {"a": Look()})] * count)
