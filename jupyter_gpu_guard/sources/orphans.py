"""Whether this process becomes the parent of processes whose own parents have ended."""

from __future__ import annotations

import ctypes
import os

_PR_GET_CHILD_SUBREAPER = 37  # linux/prctl.h


def adopts_orphans() -> bool:
    """Whether it is the first process of its pid namespace, or has asked for orphans (prctl(2)).

    Where that cannot be asked, it is taken to be so: then its children need another sign to count as its own.
    """
    if os.getpid() == 1:
        return True
    asks = ctypes.c_int(1)
    try:
        failed = ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(asks), 0, 0, 0)
    except (OSError, AttributeError):
        return True
    return bool(failed) or asks.value != 0
