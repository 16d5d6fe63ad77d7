"""The real clock."""

from __future__ import annotations

import time
from datetime import datetime, timezone

from .core.model import Instant


class SystemClock:
    """Wall time in UTC, and the monotonic clock of this machine, which does not run while it is suspended."""

    def now(self) -> Instant:
        """The present moment."""
        return Instant(datetime.now(timezone.utc), time.monotonic())
