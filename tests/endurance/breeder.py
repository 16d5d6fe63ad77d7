"""Gives birth to GPU clients and kills them, as fast as it is told. Run as a program.

    python -m tests.endurance.breeder CLIENT_MIB SECONDS

It may hold something itself: that is declared for it by others. It writes the number of births after each one.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import deque
from contextlib import suppress

from jupyter_gpu_guard.kernel.simulated_gpu import FOR_EVER, Declaration, Load, declare_for, now_us

ALIVE = 3  # clients at a time
OWN_LIFE = 10  # seconds after which a client ends by itself, should its parent be gone
BUSY = 5  # percent


def give_birth(memory: int) -> int:
    """The pid of a new client that holds so many bytes and computes a little."""
    child = os.fork()
    if child == 0:
        os.close(sys.stdout.fileno())  # whoever counts births waits for the parent's end and not for ours
        signal.alarm(OWN_LIFE)
        while True:
            signal.pause()
    load = Load(0, now_us() - 1_000_000, FOR_EVER, BUSY)
    with suppress(ProcessLookupError):
        declare_for(child, Declaration({0: memory}, (load,)))
    return child


def breed(memory: int, pause: float) -> None:
    """One birth and one death in every `pause` seconds, until this process is ended."""
    alive: deque[int] = deque()
    for births in range(1, sys.maxsize):
        alive.append(give_birth(memory))
        if len(alive) > ALIVE:
            eldest = alive.popleft()
            os.kill(eldest, signal.SIGKILL)
            os.waitpid(eldest, 0)
        print(births, flush=True)
        time.sleep(pause)


if __name__ == "__main__":
    breed(int(sys.argv[1]) * 2**20, float(sys.argv[2]))
