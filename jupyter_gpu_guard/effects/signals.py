"""The only place that sends a signal: to one process whose identity is certain, never to a pid or a group."""

from __future__ import annotations

import errno
import os
import signal as posix
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpu_guard.core.model import Process, ProcessKey


class Sent(str, Enum):
    """What became of a signal."""

    SENT = "sent"
    GONE = "gone"  # there is no such process, or it is over
    NOT_THE_SAME = "not-the-same"  # another process has its pid now
    NO_PERMISSION = "no-permission"
    NOT_SUPPORTED = "not-supported"  # a kernel without pidfds, or one that forbids them
    REFUSED = "refused"  # pid 1 and below, or this server


def send(key: ProcessKey, signum: posix.Signals, identify: Callable[[int], Process | None]) -> Sent:
    """Send `signum` to exactly the process `key`, and say what became of it. Never raises for a refusal.

    A pidfd pins the process first; then its start time is read again. What is signalled is what was compared.
    """
    if key.pid <= 1 or key.pid == os.getpid():
        return Sent.REFUSED
    try:
        pinned = os.pidfd_open(key.pid)
    except OSError as fault:
        return _meaning(fault)
    try:
        process = identify(key.pid)
        if process is None:
            return Sent.GONE
        if process.key != key:
            return Sent.NOT_THE_SAME
        if process.is_over:
            return Sent.GONE
        posix.pidfd_send_signal(pinned, signum)
    except OSError as fault:
        return _meaning(fault)
    finally:
        os.close(pinned)
    return Sent.SENT


def _meaning(fault: OSError) -> Sent:
    if fault.errno == errno.ESRCH:
        return Sent.GONE
    if fault.errno in {errno.EPERM, errno.EACCES}:
        return Sent.NO_PERMISSION
    return Sent.NOT_SUPPORTED
