"""What the helper says: values, shared by both sides."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

NEEDED_VERSION = 12080  # CUDA 12.8, which came with driver 570


class State(str, Enum):
    """What the driver says of a process. UNKNOWN: it was not asked, or does not say."""

    RUNNING = "running"
    LOCKED = "locked"  # its calls wait; what it has is still on the device
    CHECKPOINTED = "checkpointed"  # what it had is in its host memory; its calls wait
    FAILED = "failed"  # the driver has given it up: only ending it helps
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Answer:
    """The state afterwards, and what went wrong at which `step` (None: nothing). `seconds` is how long it took."""

    state: State
    step: str | None
    fault: str | None
    seconds: float
