"""Whether this process lives in a pid namespace of its own, as in a container."""

from __future__ import annotations

from pathlib import Path

_INITIAL = "pid:[4026531836]"


def is_namespaced() -> bool:
    """Whether pids here are not those of the host. Not readable: yes, which is the more careful guess."""
    try:
        return str(Path("/proc/self/ns/pid").readlink()) != _INITIAL
    except OSError:
        return True
