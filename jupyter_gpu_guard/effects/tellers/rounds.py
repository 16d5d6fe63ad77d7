"""All tellers together: each is asked in the background, tried again, and its result logged once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from . import NotToldError

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime

    from jupyter_gpu_guard.core.model import Holder
    from jupyter_gpu_guard.core.verdict import Outcome, Verdict
    from jupyter_gpu_guard.protocols import Clock

    from . import Teller
    from .message import Message, Writer

PAUSES = (2.0, 8.0)  # seconds before the second and the third try
AT_ONCE = 2  # messages by one teller
CLOSED_WITHIN = 2.0  # seconds


class Rounds:
    """`Hooks` that hand each message to all `tellers`. Never waits, never raises, and lets go at the end.

    `problems` says which of them does not work, and those of `faults` that stay.
    """

    def __init__(
        self,
        tellers: Sequence[Teller],
        writer: Writer,
        clock: Clock,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger],
        *,
        faults: Sequence[str] = (),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._tellers = tuple(tellers)
        self._writer = writer
        self._clock = clock
        self._log = log
        self._faults = tuple(faults)
        self._sleep = sleep
        self._failing: dict[str, str] = {}
        self._turns = {teller.name: asyncio.Semaphore(AT_ONCE) for teller in self._tellers}
        self._under_way: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def problems(self) -> tuple[str, ...]:
        """What does not work, in sentences without secrets."""
        return (*self._faults, *self._failing.values())

    def warned(
        self, verdict: Verdict, holder: Holder, deadline: datetime | None, delivered: Callable[[str], None]
    ) -> None:
        """Tell of a warning in the background."""
        self._begin(lambda: self._writer.warning(verdict, holder, self._clock.now().wall, deadline), delivered)

    def ended(self, outcome: Outcome) -> None:
        """Tell what a rule has done, in the background."""
        self._begin(lambda: self._writer.outcome(outcome), lambda _: None)

    async def close(self) -> None:
        """Let go of whatever is under way: nobody waits for a hook when the server ends."""
        self._closed = True
        under_way = tuple(self._under_way)
        for task in under_way:
            task.cancel()
        if under_way:
            await asyncio.wait(under_way, timeout=CLOSED_WITHIN)

    def _begin(self, write: Callable[[], Message], delivered: Callable[[str], None]) -> None:
        if self._closed or not self._tellers:
            return
        try:
            message = write()
        except Exception:  # noqa: BLE001 - a sentence that cannot be made must not undo what it is about
            self._log.warning("GPU guard: what hooks should tell cannot be put into words", exc_info=True)
            return
        for teller in self._tellers:
            task = asyncio.get_running_loop().create_task(self._tell(teller, message, delivered))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _tell(self, teller: Teller, message: Message, delivered: Callable[[str], None]) -> None:
        about = f"{message.facts['about']} about {message.facts['owner']}"
        why = ""
        for pause in (0.0, *PAUSES):
            if pause:
                await self._sleep(pause)
            try:
                async with self._turns[teller.name]:
                    await teller.tell(message)
            except NotToldError as refusal:
                why = str(refusal)
                continue
            except Exception as fault:  # noqa: BLE001 - one faulty hook affects itself alone
                self._log.debug("GPU guard: the %s hook failed", teller.name, exc_info=fault)
                why = type(fault).__name__
                continue
            self._failing.pop(teller.name, None)
            self._log.info("GPU guard: told by %s (%s): %s", teller.name, teller.place, about)
            delivered(teller.name)
            return
        self._failing[teller.name] = f"Nobody can be told by {teller.name} ({teller.place}): {why}."
        self._log.warning("GPU guard: not told by %s (%s): %s; %s", teller.name, teller.place, about, why)
