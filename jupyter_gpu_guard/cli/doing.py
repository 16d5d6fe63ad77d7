"""Have a running server's guard act on one owner, and wait for what comes of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from jupyter_gpu_guard.running import NoAnswerError, NotFoundError, Server, ask, tell

ANSWERED_WITHIN = 30.0  # seconds; the guard says after 10 that it takes longer
SILENT_FOR = 60.0  # seconds for which a server may say nothing while an act is under way
PAUSE = 1.0  # seconds between two looks


def act_on(
    server: Server,
    owner: str,
    action: str,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """The outcome of `action`, `release` for example, as the report has it. One that takes long is followed there.

    Raises NotFoundError or NoAnswerError.
    """
    known = {row["id"] for row in _outcomes(server, owner, action)}
    answer: dict[str, Any] = tell(server, f"owners/{owner}/{action}", {}, ANSWERED_WITHIN)
    if "result" in answer:
        return answer
    heard = clock()
    while True:
        sleep(PAUSE)
        try:
            new = [row for row in _outcomes(server, owner, action) if row["id"] not in known]
        except (NoAnswerError, NotFoundError) as error:
            if clock() - heard >= SILENT_FOR:
                raise NoAnswerError(f"It was under way when the server fell silent. {error}") from None
            continue
        if new:
            return new[-1]
        heard = clock()


def _outcomes(server: Server, owner: str, action: str) -> list[dict[str, Any]]:
    """What was done so to it lately, the newest last."""
    rows = ask(server, "report")["outcomes"]
    return [row for row in rows if row["owner"] == owner and row["action"] == action]
