"""Servers on loopback that note what they are told: HTTP and SMTP, real ones."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator


class Mailroom:
    """A tiny SMTP server. `letters` are what it took: sender, recipients and text of each."""

    def __init__(self, refuse: str = "", *, silent: bool = False, auth: bool = False) -> None:
        self.letters: list[tuple[str, list[str], str]] = []
        self.logins: list[str] = []
        self.port = 0
        self._refuse = refuse
        self._silent = silent
        self._auth = auth

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:  # noqa: C901 - a protocol
        """Talk to one client until it leaves."""
        try:
            if self._silent:
                await reader.read()
                return
            writer.write(b"220 here\r\n")
            sender, recipients = "", []
            while line := (await reader.readline()).decode():
                word = line[:4].upper().strip()
                if self._refuse and word == self._refuse:
                    writer.write(b"550 no\r\n")
                elif word == "EHLO":
                    writer.write(b"250-here\r\n250 AUTH PLAIN\r\n" if self._auth else b"250 here\r\n")
                elif word == "AUTH":
                    self.logins.append(base64.b64decode(line.split()[2]).decode())
                    writer.write(b"235 welcome\r\n")
                elif word == "DATA":
                    writer.write(b"354 go on\r\n")
                    text = b""
                    while (part := await reader.readline()) != b".\r\n":
                        text += part
                    self.letters.append((sender, recipients, text.decode()))
                    sender, recipients = "", []
                    writer.write(b"250 taken\r\n")
                elif word == "QUIT":
                    writer.write(b"221 bye\r\n")
                    return
                else:
                    address = line.partition("<")[2].partition(">")[0]
                    if word == "MAIL":
                        sender = address
                    elif word == "RCPT":
                        recipients.append(address)
                    writer.write(b"250 fine\r\n")
        finally:
            writer.close()


@asynccontextmanager
async def mailroom(encrypted: ssl.SSLContext | None = None, **how: Any) -> AsyncIterator[Mailroom]:
    """A running Mailroom; `encrypted` from the first byte on."""
    room = Mailroom(**how)
    server = await asyncio.start_server(room.serve, "127.0.0.1", 0, ssl=encrypted)
    room.port = server.sockets[0].getsockname()[1]
    try:
        yield room
    finally:
        server.close()


class Hookroom:
    """A web server. `posts` are the JSON bodies it was sent at `/secret`; `answers` the statuses it gives, in turn."""

    def __init__(self, answers: tuple[int, ...]) -> None:
        self.answers = list(answers)
        self.posts: list[dict[str, Any]] = []
        self.elsewhere: list[str] = []
        self.url = ""


@asynccontextmanager
async def hookroom(
    *answers: int, silent: bool = False, encrypted: ssl.SSLContext | None = None
) -> AsyncIterator[Hookroom]:
    """A running Hookroom; `silent`: it takes what comes and says nothing. After the last of `answers` it is 200."""
    room = Hookroom(answers)
    over = asyncio.Event()

    class Secret(RequestHandler):
        async def post(self) -> None:
            room.posts.append(json.loads(self.request.body))
            if silent:
                await over.wait()
            self.set_status(room.answers.pop(0) if room.answers else 200)
            if 300 <= self.get_status() < 400:
                self.set_header("Location", "/elsewhere")

    class Elsewhere(RequestHandler):
        def prepare(self) -> None:
            room.elsewhere.append(self.request.method or "")

    routes = [("/secret", Secret), ("/elsewhere", Elsewhere)]
    door = HTTPServer(Application(routes, log_function=lambda _: None), ssl_options=encrypted)
    sockets = bind_sockets(0, "127.0.0.1")
    door.add_sockets(sockets)
    room.url = f"{'http' if encrypted is None else 'https'}://127.0.0.1:{sockets[0].getsockname()[1]}/secret"
    try:
        yield room
    finally:
        over.set()
        door.stop()
        await door.close_all_connections()
