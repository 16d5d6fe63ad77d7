"""Blocking calls, off the event loop: one at a time, each with a deadline, in threads that never hold up the exit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class LateError(Exception):
    """The call did not return in time. It is still running, and no second one is started before it has returned."""


class Aside(Generic[T]):
    """Runs `call` in a thread, never twice at once, and waits for at most `deadline` seconds.

    The threads are daemons: a driver that hangs for ever must not keep the server from exiting.
    """

    def __init__(self, name: str, call: Callable[..., T], deadline: float) -> None:
        self._name = name
        self._call = call
        self._deadline = deadline
        self._turn = asyncio.Lock()
        self._running: asyncio.Future[T] | None = None

    async def __call__(self, *arguments: object) -> T:
        """The result of a fresh call with `arguments`. Raises LateError, or whatever the call raised."""
        async with self._turn:
            if self._running is not None:
                # An answer to an earlier question is not an answer to this one, so its result is dropped.
                await self._wait(self._running)
            self._running = self._start(arguments)
            await self._wait(self._running)
            result, self._running = self._running.result(), None
            return result

    async def _wait(self, future: asyncio.Future[T]) -> None:
        done, _ = await asyncio.wait({future}, timeout=self._deadline)
        if not done:
            raise LateError(f"no answer within {self._deadline:g} s")

    def _start(self, arguments: tuple[object, ...]) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        future.add_done_callback(lambda f: f.cancelled() or f.exception())

        def deliver(set_outcome: Callable[..., None], outcome: object) -> None:
            if not future.done():
                set_outcome(outcome)

        def run() -> None:
            try:
                outcome: object = self._call(*arguments)
                deed: Callable[..., None] = future.set_result
            except Exception as error:  # noqa: BLE001  handed on to whoever waits
                outcome, deed = error, future.set_exception
            try:
                loop.call_soon_threadsafe(deliver, deed, outcome)
            except RuntimeError:
                return  # the loop has been closed meanwhile: nobody waits any more

        threading.Thread(target=run, name=f"gpu-guard {self._name}", daemon=True).start()
        return future
