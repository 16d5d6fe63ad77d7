"""Hears what passes between a page and its kernel through the server's websocket, and leaves it as it is.

A question for a line of text goes to one client alone, and not on the channel on which a kernel broadcasts. So the
server's connection class is extended, whichever it is: it does all that it did before, and then tells what it saw.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from jupyter_client.session import DELIM

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterator

_V1 = "v1.kernel.websocket.jupyter.org"
_SENT = ("execute_request", "input_reply")  # by clients
_ANSWERED = {"stdin": "input_request", "shell": "execute_reply"}  # by kernels
_HEADER_WITHIN = 8192  # bytes from the beginning of a message: its header comes first


class Passing(NamedTuple):
    """A message that has passed through the server.

    `kind` is execute_request, input_reply, input_request or execute_reply; `request` the execute request that it is or
    belongs to, where that is told. `in_turn`: it waits for its turn on the main shell.
    """

    kernel_id: str
    kind: str
    request: str | None = None
    in_turn: bool = False


def listening(
    connection: type[Any],
    hear: Callable[[Passing], None],
    log: logging.Logger | logging.LoggerAdapter[logging.Logger],
) -> type[Any]:
    """A subclass of `connection`, the server's websocket connection class, that tells `hear` what has passed.

    Whatever goes wrong in listening goes to the log and never harms the connection.
    """

    class Listening(connection):  # type: ignore[misc]
        """The server's own connection to a kernel, overheard."""

        def handle_incoming_message(self, *args: Any, **kwargs: Any) -> Any:
            """Pass on a message from the page."""
            result = super().handle_incoming_message(*args, **kwargs)
            _tell(self, _from_page, args)
            return result

        def handle_outgoing_message(self, *args: Any, **kwargs: Any) -> Any:
            """Pass on a message from the kernel."""
            result = super().handle_outgoing_message(*args, **kwargs)
            _tell(self, _from_kernel, args)
            return result

    def _tell(self: Any, read: Callable[..., Passing | None], args: tuple[Any, ...]) -> None:
        try:
            if (passing := read(self, *args)) is not None:
                hear(passing)
        except Exception as fault:  # noqa: BLE001 - the connection may be anyone's, and comes first
            log.debug("A message that passed could not be read: %r", fault)

    Listening.__name__ = Listening.__qualname__ = connection.__name__
    return Listening


def _from_page(connection: Any, message: str | bytes, *_: Any) -> Passing | None:
    read = _read_v1 if getattr(connection, "subprotocol", None) == _V1 else _read_text
    channel, header = read(message)
    kind = header.get("msg_type")
    if kind not in _SENT:
        return None
    in_turn = channel == "shell" and header.get("subshell_id") is None
    return Passing(connection.kernel_id, kind, header["msg_id"] if kind == "execute_request" else None, in_turn)


def _read_text(message: str | bytes) -> tuple[str, dict[str, Any]]:
    """The channel and the header of a message in the older protocol. Binary ones are of other kinds."""
    if not isinstance(message, str) or not any(kind in message for kind in _SENT):
        return "", {}
    whole = json.loads(message)
    return whole.get("channel") or "shell", whole["header"]


def _read_v1(message: str | bytes) -> tuple[str, dict[str, Any]]:
    """The channel and the header of a message in the newer protocol: parts, after a list of where each begins."""
    if not isinstance(message, bytes) or not any(kind.encode() in message[:_HEADER_WITHIN] for kind in _SENT):
        return "", {}
    begin, middle, end = (int.from_bytes(message[place : place + 8], "little") for place in (8, 16, 24))
    return message[begin:middle].decode(), json.loads(message[middle:end])


def _from_kernel(connection: Any, stream: Any, parts: list[bytes], *_: Any) -> Passing | None:
    channel = stream if isinstance(stream, str) else getattr(stream, "channel", None)
    return _read(connection.kernel_id, connection.session.unpack, str(channel), parts)


def _read(kernel_id: str, unpack: Callable[[bytes], Any], channel: str, parts: list[bytes]) -> Passing | None:
    kind = _ANSWERED.get(channel)
    if kind is None:
        return None
    start = parts.index(DELIM) + 1
    if kind.encode() not in parts[start + 1] or unpack(parts[start + 1])["msg_type"] != kind:
        return None
    return Passing(kernel_id, kind, unpack(parts[start + 2]).get("msg_id"))


class KeptMessages:
    """What a kernel has said while no page was connected: its server keeps it for the next one.

    Read only; a server that keeps nothing, or elsewhere, has nothing to tell.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._kept: list[tuple[str, list[bytes]]] | None = None
        self._read = 0

    def unread(self) -> Iterator[Passing]:
        """What has been kept since the last time, and counts."""
        kernel_id = self._kernel.kernel_id
        buffer = getattr(self._kernel.parent, "_kernel_buffers", {}).get(kernel_id) or {}
        kept = buffer.get("buffer")
        if kept is not self._kept:
            self._kept, self._read = kept, 0
        begin, self._read = self._read, len(kept or ())
        for channel, parts in (kept or ())[begin:]:
            if (passing := _read(kernel_id, self._kernel.session.unpack, channel, parts)) is not None:
                yield passing
