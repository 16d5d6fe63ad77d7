"""How much memory of the host one process may still take: what is free, within the limits of its control groups."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from jupyter_gpu_guard.core.model import Reading, Unknown, Why

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROC = Path("/proc")
_GROUPS = Path("/sys/fs/cgroup")


def free_host_memory(pid: int, proc: Path = _PROC, groups: Path = _GROUPS) -> Reading:
    """Bytes. Blocks shortly. What is cached and could be dropped counts as free."""
    available = _available(proc)
    if available is None:
        return Unknown(Why.NOT_READ, "the system does not say how much memory is available")
    return max(0.0, min([available, *_left_in_groups(pid, proc, groups)]))


def _available(proc: Path) -> float | None:
    for line in _lines(proc / "meminfo"):
        name, _, amount = line.partition(":")
        if name == "MemAvailable":
            return float(amount.split()[0]) * 1024
    return None


def _left_in_groups(pid: int, proc: Path, groups: Path) -> Iterator[float]:
    """What each group that the process is in leaves, from its own up to the outermost that can be seen."""
    for line in _lines(proc / str(pid) / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, limit, usage, cached = groups, "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            root, limit, usage, cached = (
                groups / "memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_inactive_file",
            )
        else:
            continue
        # In a container the path may be that of the host, which is not to be seen: the root is its own group then.
        inner = PurePosixPath(path.lstrip("/"))
        for part in (inner, *inner.parents):
            folder = root / part
            most, used = _number(folder / limit), _number(folder / usage)
            if most is not None and used is not None:
                yield most - used + _cached(folder / "memory.stat", cached)


def _cached(path: Path, name: str) -> float:
    rows = (line.split() for line in _lines(path))
    return next((float(row[1]) for row in rows if len(row) == 2 and row[0] == name), 0.0)  # noqa: PLR2004


def _number(path: Path) -> float | None:
    """None: there is no such file, or it says `max`."""
    lines = _lines(path)
    return float(lines[0]) if lines and lines[0].strip().isdigit() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
