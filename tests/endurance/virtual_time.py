"""An event loop in which time passes only when nobody has anything to do, and threads are no threads.

So hours of histories take seconds, and the same seed is the same history.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

from jupyter_gpu_guard.aside import Aside
from jupyter_gpu_guard.core.model import Instant

T = TypeVar("T")
NOON = datetime(2030, 5, 1, 12, 0, tzinfo=timezone.utc)


class StuckError(RuntimeError):
    """Everybody waits for something that will never come."""


class _Leap(selectors.SelectSelector):
    """Instead of waiting, time goes by at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Nothing is ever ready by itself."""
        if timeout is None:
            raise StuckError
        self.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on a clock of its own."""

    def __init__(self) -> None:
        self.leap = _Leap()
        super().__init__(self.leap)

    def time(self) -> float:
        """Seconds on that clock."""
        return self.leap.now


class VirtualClock:
    """`Clock` of such a loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now(self) -> Instant:
        """The moment it shows."""
        passed = self._loop.time()
        return Instant(NOON + timedelta(seconds=passed), passed)


def in_virtual_time(whole: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """What `whole` returns, run in a loop of its own."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(whole(loop))
    finally:
        loop.close()


@contextmanager
def without_threads(lateness: Callable[[str], float]) -> Iterator[None]:
    """What would run in threads runs at once; its answer comes after `lateness` seconds, asked by the source's name."""

    async def to_thread(call: Callable[..., T], /, *arguments: Any, **named: Any) -> T:
        result = call(*arguments, **named)
        await asyncio.sleep(0)
        return result

    def start(self: Aside[Any], arguments: tuple[object, ...]) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        future.add_done_callback(lambda f: f.cancelled() or f.exception())
        outcome: Any
        try:
            outcome, deed = self._call(*arguments), future.set_result
        except Exception as error:  # noqa: BLE001  handed on to whoever waits
            outcome, deed = error, future.set_exception
        loop.call_later(lateness(self._name), lambda: future.done() or deed(outcome))
        return future

    real = asyncio.to_thread, Aside._start
    asyncio.to_thread, Aside._start = to_thread, start  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        asyncio.to_thread, Aside._start = real  # type: ignore[method-assign]
