"""Which cells of one kernel are running: heard on its iopub channel, without asking the kernel anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import zmq
from jupyter_client.session import DELIM, Session

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping, Sequence


_CATCH_UP = 1000  # messages: a kernel that has sent more than these is surely not idle


class Executions:
    """The execute requests that one kernel is working on, and when the last one that a person sent has ended.

    `incarnation` stands for the process that answered; what ran in an earlier one is not running any more.
    """

    def __init__(self) -> None:
        self.used_at: float | None = None  # monotonic, in seconds
        self._running: dict[str, object] = {}
        self._shown: set[str] = set()

    def __bool__(self) -> bool:
        """Whether anything is running."""
        return bool(self._running)

    def hear(self, message: Mapping[str, Any], incarnation: object, now: float) -> None:
        """Take note of one message. Only answers to execute requests count, and of these only begin and end."""
        kind, parent = message["header"]["msg_type"], message["parent_header"]
        state = message["content"].get("execution_state") if kind == "status" else None
        if state == "starting" and not parent:
            self.forget(now)
        if parent.get("msg_type") != "execute_request":
            return
        request = parent["msg_id"]
        if kind == "execute_input":  # broadcast for everything but silent requests: those come from extensions
            self._running[request] = incarnation
            self._shown.add(request)
        elif state == "busy":
            self._running[request] = incarnation
        elif state == "idle":
            # An end whose begin was not heard: we came late, so a person may have sent it.
            if self._running.pop(request, None) is None or request in self._shown:
                self.used_at = now
            self._shown.discard(request)

    def forget(self, now: float, besides: object = None) -> None:
        """Drop what runs no more since its process has ended; `besides` is the process that lives."""
        gone = {request for request, where in self._running.items() if besides is None or where is not besides}
        if gone & self._shown:
            self.used_at = now
        self._shown -= gone
        for request in gone:
            del self._running[request]


class IopubEar:
    """One more listener on the iopub channel of a kernel. Hands each message that may count to `hear`.

    `deaf` is True while nothing can be said: the last message could not be read.
    """

    def __init__(
        self,
        kernel: Any,
        hear: Callable[[Mapping[str, Any]], None],
        log: logging.Logger | logging.LoggerAdapter[logging.Logger],
    ) -> None:
        self.deaf = False
        self._hear = hear
        self._log = log
        # A Session remembers the signatures it has seen, so each listener needs its own.
        theirs = kernel.session
        self._session = Session(config=theirs.config, key=theirs.key, signature_scheme=theirs.signature_scheme)
        self._stream = kernel.connect_iopub()
        self._stream.on_recv(self._on_message)

    def catch_up(self) -> None:
        """Hear at once what has arrived and not been handled yet."""
        if not self._stream.closed():
            self._stream.flush(zmq.POLLIN, limit=_CATCH_UP)

    def close(self) -> None:
        """Stop listening. Safe to call twice."""
        if not self._stream.closed():
            self._stream.on_recv(None)
            self._stream.close()

    def _on_message(self, parts: Sequence[bytes]) -> None:
        try:
            start = parts.index(DELIM) + 1
            header = parts[start + 1]
            # A kernel that prints sends thousands of messages a second; only these two kinds are worth unpacking.
            if b"status" not in header and b"execute_input" not in header:
                return
            message = self._session.deserialize(list(parts[start:]))
        except Exception as fault:  # noqa: BLE001 - the kernel may send anything at all
            self.deaf = True
            self._log.debug("A message on iopub could not be read: %s", fault)
            return
        self.deaf = False
        self._hear(message)
