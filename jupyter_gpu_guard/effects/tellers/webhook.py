"""A webhook: the message as JSON, with a text as Slack and Mattermost show it."""

from __future__ import annotations

import json
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.simple_httpclient import HTTPStreamClosedError, HTTPTimeoutError

from . import TIMEOUT, NotToldError

if TYPE_CHECKING:
    from .message import Message

_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class WebhookTeller:
    """Posts to `url`, which is a secret and is never shown. A status of 200 to 299: it has told somebody.

    It begins with https://, or with http:// where it leads to this machine alone: nobody else is to read it. No
    redirect is followed: the address leads where it says, or nowhere.
    """

    name = "webhook"

    def __init__(self, url: str, timeout: float = TIMEOUT) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
            raise ValueError("it must begin with https://, and name a host")
        if parts.scheme == "http" and not _is_this_machine(parts.hostname):
            raise ValueError("http:// is for this machine alone: it must begin with https://")
        self._url = url
        self._timeout = timeout
        self.place = parts.hostname

    async def tell(self, message: Message) -> None:
        """Post once. Raises NotToldError."""
        client = AsyncHTTPClient(force_instance=True, defaults={"user_agent": "jupyter-gpu-guard"})
        try:
            await client.fetch(self._request(json.dumps({**message.whole, "text": _marked_up(message)})))
        except HTTPTimeoutError:
            raise NotToldError(f"no answer within {self._timeout:g} s") from None
        except HTTPStreamClosedError:
            raise NotToldError("the connection was closed before an answer came") from None
        except HTTPClientError as refusal:
            raise NotToldError(f"it answers with status {refusal.code}") from None
        except Exception as error:  # noqa: BLE001 - whatever it is, its words may hold the address
            raise NotToldError(
                f"{type(error).__name__}, {getattr(error, 'strerror', None) or 'no more is known'}"
            ) from None
        finally:
            client.close()

    def _request(self, body: str) -> HTTPRequest:
        return HTTPRequest(
            self._url,
            method="POST",
            headers={"Content-Type": "application/json"},
            body=body,
            connect_timeout=self._timeout,
            request_timeout=self._timeout,
            follow_redirects=False,
            streaming_callback=_ignored,
        )


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _ignored(part: bytes) -> None:
    """Nobody wants to know more of the answer than its status."""
    del part


def _marked_up(message: Message) -> str:
    """The text, where a name can neither call people nor lead anywhere: names are set as code."""
    called = message.called.replace("`", "'")
    return message.text.replace(message.called, f"`{called}`", 1).translate(_ESCAPED)
