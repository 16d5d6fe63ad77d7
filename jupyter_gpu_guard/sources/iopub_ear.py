"""Hears what one kernel broadcasts, as the server does: one more subscriber, that sends nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import zmq
from jupyter_client.session import DELIM, Session

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping, Sequence


_CATCH_UP = 1000  # messages: a kernel that has sent more than these is surely not idle
_WORTH_UNPACKING = (b"status", b"execute_input", b"debug_event", b'"error"')


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
            # A kernel that prints sends thousands of messages a second; only few kinds are worth unpacking.
            if not any(kind in header for kind in _WORTH_UNPACKING):
                return
            self._hear(self._session.deserialize(list(parts[start:])))
        except Exception as fault:  # noqa: BLE001 - the kernel may send anything at all
            self.deaf = True
            self._log.debug("A message on iopub could not be read: %s", fault)
        else:
            self.deaf = False
