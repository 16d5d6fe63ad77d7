"""A clock that a test moves."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from jupyter_gpu_guard.core.model import Instant

NOON = datetime(2030, 5, 1, 12, 0, tzinfo=timezone.utc)


class FakeClock:
    """`Clock` that stands still until it is told to `advance`. Starts at noon, and at 1000 seconds."""

    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> Instant:
        """The moment it shows."""
        return Instant(NOON + timedelta(seconds=self.passed), 1000.0 + self.passed)

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        self.passed += seconds

    async def sleep(self, seconds: float) -> None:
        """Return at once, with the time gone by."""
        self.advance(seconds)
