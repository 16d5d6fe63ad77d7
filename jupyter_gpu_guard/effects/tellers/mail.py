"""An e-mail through an SMTP server."""

from __future__ import annotations

import smtplib
import socket
import ssl
from dataclasses import dataclass, field
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from typing import TYPE_CHECKING

from jupyter_gpu_guard.aside import Aside, LateError

from . import TIMEOUT, NotToldError

if TYPE_CHECKING:
    from .message import Message


@dataclass(frozen=True)
class Letterbox:
    """An SMTP server. `security`: `starttls`, `ssl` or `none`. The login goes over an encrypted connection only."""

    host: str
    port: int
    security: str = "starttls"
    user: str = ""
    password: str = field(default="", repr=False)


class MailTeller:
    """Sends a letter to the address `to`, from `sender`. It has told somebody once the server has taken the letter.

    Raises ValueError for an address that is none.
    """

    name = "e-mail"

    def __init__(self, box: Letterbox, to: str, sender: str, timeout: float = TIMEOUT) -> None:
        self._box = box
        self._to = _address(to)
        self._sender = _address(sender)
        self._timeout = timeout
        self._post: Aside[None] = Aside("mail", self._send, timeout)
        self.place = box.host

    async def tell(self, message: Message) -> None:
        """Send it once, in a thread. Raises NotToldError."""
        letter = EmailMessage()
        letter["Subject"] = f"GPU Guard: {message.title}"
        letter["From"], letter["To"] = self._sender, self._to
        letter["Date"], letter["Auto-Submitted"] = formatdate(localtime=False), "auto-generated"
        letter["Message-ID"] = make_msgid(domain=self._sender.domain)
        letter.set_content(message.text + "\n")
        try:
            await self._post(letter)
        except LateError:
            raise NotToldError(f"no answer within {self._timeout:g} s") from None
        except smtplib.SMTPResponseException as refusal:
            raise NotToldError(f"{type(refusal).__name__}, the server answers {refusal.smtp_code}") from None
        except Exception as error:  # noqa: BLE001 - whatever it is; its words may hold an address or a login
            why = getattr(error, "strerror", None)
            raise NotToldError(f"{type(error).__name__}{f', {why}' if why else ''}") from None

    def _send(self, letter: EmailMessage) -> None:
        box, context = self._box, ssl.create_default_context()
        server: smtplib.SMTP
        if box.security == "ssl":
            server = smtplib.SMTP_SSL(box.host, box.port, timeout=self._timeout, context=context)
        else:
            server = smtplib.SMTP(box.host, box.port, timeout=self._timeout)
        with server:
            if box.security == "starttls":
                server.starttls(context=context)
            if box.user:
                server.login(box.user, box.password)
            server.send_message(letter)


def _address(text: str) -> Address:
    """What `text` means. Its words may hold a secret in the wrong place, and are not repeated."""
    if any(letter in text for letter in ",;<> ") or not text.isprintable():
        raise ValueError("it is not one e-mail address")
    try:
        address = Address(addr_spec=text)
    except Exception as error:  # noqa: BLE001 - its parser raises many kinds
        raise ValueError(f"it is not an e-mail address ({type(error).__name__})") from None
    if not address.username or not address.domain:
        raise ValueError("it is not an e-mail address: it lacks a name or a domain")
    return address


def usual_sender() -> str:
    """`gpu-guard@` this machine."""
    name = socket.gethostname()
    return f"gpu-guard@{name if name.isascii() and name else 'localhost'}"
