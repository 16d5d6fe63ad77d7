"""Other ways than a page to tell people: a command, a webhook, an e-mail. One module each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from .message import Message

TIMEOUT = 10.0  # seconds for one try


class NotToldError(Exception):
    """One try did not work. The text says why, and holds no secret: it goes to the log and to health."""


class Teller(Protocol):
    """One way to tell people. `name` goes to the report; `place` says where it leads, without secrets."""

    name: str
    place: str

    async def tell(self, message: Message) -> None:
        """Hand on `message` once. Blocks nothing, and is over within `TIMEOUT`. Raises NotToldError."""
        ...
