"""Whether a page of this server is open that would show a warning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tornado.websocket import WebSocketHandler

if TYPE_CHECKING:
    from jupyter_gpu_guard.protocols import Clock

ASKED_WITHIN = 65.0  # seconds: a page whose sidebar is closed asks every 30, and one of its questions may be late


class Pages:
    """The pages of JupyterLab and Notebook that are open: those that listen to the server's events, or ask for reports.

    A websocket to a kernel alone is no page: other clients have those, and show no warning. Nothing tells a page that
    somebody looks at from one in a tab behind.
    """

    def __init__(self, event_logger: Any, schema: str, clock: Clock) -> None:
        self._events = event_logger
        self._schema = schema
        self._clock = clock
        self._asked_at: float | None = None

    def asked(self) -> None:
        """A page has asked for the report."""
        self._asked_at = self._clock.now().monotonic

    def is_open(self) -> bool:
        """Whether there is one. What cannot be told is no page."""
        asked_at = self._asked_at
        if asked_at is not None and self._clock.now().monotonic - asked_at <= ASKED_WITHIN:
            return True
        # The event logger has no way to ask who listens. A page does so by the handler of its websocket.
        listeners = getattr(self._events, "_modified_listeners", {}).get(self._schema, ())
        return any(_is_connected(getattr(listener, "__self__", None)) for listener in tuple(listeners))


def _is_connected(listener: object) -> bool:
    return isinstance(listener, WebSocketHandler) and listener.ws_connection is not None
