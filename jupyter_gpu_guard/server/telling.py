"""The hooks that configuration asks for. What is wrong with them is said in words, and the others work."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from jupyter_gpu_guard.core.policy import Site
from jupyter_gpu_guard.effects.tellers import Teller
from jupyter_gpu_guard.effects.tellers.command import CommandTeller
from jupyter_gpu_guard.effects.tellers.mail import Letterbox, MailTeller, usual_sender
from jupyter_gpu_guard.effects.tellers.webhook import WebhookTeller

PORTS = {"starttls": 587, "ssl": 465, "none": 25}


class Wishes(Protocol):
    """The options of `GpuGuard` that are about hooks."""

    notify_command: list[str]
    notify_webhook: str
    notify_webhook_file: str
    notify_email_to: str
    notify_email_from: str
    notify_smtp: str
    notify_smtp_security: str
    notify_smtp_login_file: str


class _UnusableError(ValueError):
    """An option that cannot be used; the text names it, and what would be right, and holds no secret."""


def tellers_of(wishes: Wishes, site: Site) -> tuple[list[Teller], list[str]]:
    """The tellers that `wishes` ask for, and what is wrong with those that cannot be."""
    tellers: list[Teller] = []
    faults: list[str] = []
    for make in (_command, _webhook, _mail):
        try:
            teller = make(wishes, site)
        except _UnusableError as fault:
            faults.append(f"Nobody can be told this way: c.GpuGuard.{fault}.")
        else:
            tellers += [] if teller is None else [teller]
    return tellers, faults


def _command(wishes: Wishes, site: Site) -> Teller | None:
    del site
    arguments = list(wishes.notify_command)
    if not arguments:
        return None
    if any(letter.isspace() for letter in arguments[0]):  # a whole line, and perhaps a secret in it
        raise _UnusableError('notify_command is a list of words, each by itself: ["tell-me", "--quietly"]')
    if shutil.which(arguments[0]) is None:
        raise _UnusableError(f"notify_command names no command that is here{_shown(arguments[0])}")
    return CommandTeller(arguments)


def _webhook(wishes: Wishes, site: Site) -> Teller | None:
    del site
    option = "notify_webhook_file" if wishes.notify_webhook_file else "notify_webhook"
    url = wishes.notify_webhook
    if wishes.notify_webhook_file:
        url = _secret(option, wishes.notify_webhook_file)
    if not url and option == "notify_webhook":
        return None
    try:
        return WebhookTeller(url.strip())
    except ValueError:  # its words may hold the address
        raise _UnusableError(
            f"{option} gives no address that begins with https:// and names a host; http:// is for this machine alone"
        ) from None


def _mail(wishes: Wishes, site: Site) -> Teller | None:
    if not wishes.notify_email_to and not wishes.notify_smtp:
        return None
    if not wishes.notify_email_to or not wishes.notify_smtp:
        missing = "notify_smtp" if wishes.notify_email_to else "notify_email_to"
        raise _UnusableError(f"{missing} is not given, and an e-mail needs both an address and a server")
    security = wishes.notify_smtp_security
    host, port = _server(wishes.notify_smtp.strip(), security)
    user, password = "", ""
    if wishes.notify_smtp_login_file:
        if security == "none":
            raise _UnusableError("notify_smtp_login_file would be sent for all to read; use starttls or ssl")
        user, _, password = _secret("notify_smtp_login_file", wishes.notify_smtp_login_file).partition("\n")
    to = wishes.notify_email_to
    if "{user}" in to:
        if site.user is None:
            raise _UnusableError("notify_email_to wants the name of the user, who has none")
        to = to.replace("{user}", site.user)
    try:
        box = Letterbox(host, port, security, user.strip(), password.strip())
        return MailTeller(box, to, wishes.notify_email_from or usual_sender())
    except ValueError as fault:
        raise _UnusableError(f"notify_email_to or notify_email_from cannot be used: {fault}") from None


def _server(text: str, security: str) -> tuple[str, int]:
    """Host and port. What was written is never repeated: people write a password into it."""
    if "@" in text:
        raise _UnusableError(
            "notify_smtp holds an @; write mail.example.org:587, and the user and the password into a file that "
            "notify_smtp_login_file names"
        )
    if "://" in text:
        raise _UnusableError(
            "notify_smtp begins like the address of a page; write mail.example.org:587, and how the connection is "
            "encrypted in notify_smtp_security"
        )
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname or "", parts.port or PORTS[security]
    except ValueError:
        host, port = "", 0
    if not host or parts.path or parts.query or parts.fragment:
        raise _UnusableError("notify_smtp names no server; write mail.example.org:587")
    return host, port


def _shown(word: str) -> str:
    """The name of a command, unless it looks like something else."""
    return f": {word!r}" if re.fullmatch(r"[\w./~+-]{1,100}", word) else ""


def _secret(option: str, path: str) -> str:
    """What stands in a file, of which nothing is shown but that it cannot be read."""
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise _UnusableError(f"{option} cannot be read ({why})") from None
    if not text:
        raise _UnusableError(f"{option} names a file that is empty")
    return text


def is_hub(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether JupyterHub has started this server: then whoever configures it is seldom whom it belongs to."""
    return "JUPYTERHUB_USER" in environment


def link_to(server: Any, environment: Mapping[str, str] = os.environ) -> str:
    """The address of `server` for people, without a token or a password; empty: it is not known."""
    url = environment.get("JUPYTERHUB_PUBLIC_URL") or server.custom_display_url
    if not url:
        url = "" if is_hub(environment) else server.public_url
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        return ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
