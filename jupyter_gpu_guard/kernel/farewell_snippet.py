"""What was registered for the end of this kernel. Sent as text: without the package, nothing can be."""

from __future__ import annotations

import sys
from typing import Any


def farewell(until: float) -> dict[str, Any] | None:
    """Call it. What came of it; None: nothing is registered. `time.monotonic` tells whether it is `until`."""
    module = sys.modules.get("jupyter_gpu_guard.kernel.farewell")
    if module is None or not module.is_registered():
        return None
    return dict(module.say_farewell(until))


def is_awaited(until: float) -> bool:
    """Whether anything is registered. Calls nothing, and so asks nothing of a GPU."""
    del until
    module = sys.modules.get("jupyter_gpu_guard.kernel.farewell")
    return module is not None and bool(module.is_registered())
