"""A reverse proxy with TLS under a prefix, as a gateway has one. It notes every path it is asked for."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application
from tornado.websocket import WebSocketClientConnection, WebSocketHandler, websocket_connect

_OWN = {
    "connection",
    "content-length",
    "transfer-encoding",
    "content-encoding",
    "upgrade",
    "keep-alive",
    "date",
    "server",
}


class _Forward(WebSocketHandler):
    """Hands requests and websockets on to `target`, with the path as it came."""

    def initialize(self, target: str, asked: list[str]) -> None:
        """Called by tornado for each request."""
        self._target = target
        self._behind: WebSocketClientConnection | None = None
        asked.append(self.request.path)

    def check_origin(self, origin: str) -> bool:
        """The server behind decides."""
        return True

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        """What Jupyter's kernels speak, if asked for."""
        return subprotocols[0] if subprotocols else None

    def _passed_on(self) -> dict[str, str]:
        kept = {k: v for k, v in self.request.headers.get_all() if k.lower() not in _OWN and not k.startswith("Sec-")}
        return {**kept, "X-Forwarded-Proto": "https", "X-Forwarded-Host": self.request.host}

    async def get(self, *_: str) -> None:
        """A page, a file or a websocket."""
        if self.request.headers.get("Upgrade", "").lower() == "websocket":
            await super().get()
        else:
            await self._forward()

    async def _forward(self) -> None:
        request = HTTPRequest(
            self._target + self.request.uri,
            method=self.request.method,
            headers=self._passed_on(),
            body=self.request.body if self.request.method in ("POST", "PUT", "PATCH") else None,
            follow_redirects=False,
            decompress_response=True,
            request_timeout=60,
        )
        try:
            answer = await AsyncHTTPClient().fetch(request, raise_error=False)
        except (OSError, HTTPClientError):
            self.set_status(502)
            return
        self.set_status(answer.code, answer.reason)
        for name, value in answer.headers.get_all():
            if name.lower() not in _OWN:
                self.add_header(name, value)
        if answer.code not in (204, 304):
            self.write(answer.body or b"")

    post = put = patch = delete = head = options = _forward  # type: ignore[assignment]

    async def open(self, *_: str) -> None:
        """Open the other half too."""
        request = HTTPRequest("ws" + self._target.removeprefix("http") + self.request.uri, headers=self._passed_on())
        protocols = [self.selected_subprotocol] if self.selected_subprotocol else None
        self._behind = await websocket_connect(request, subprotocols=protocols, max_message_size=2**28)
        asyncio.ensure_future(self._pump(self._behind))  # noqa: RUF006  ends with the connection

    async def _pump(self, behind: WebSocketClientConnection) -> None:
        while (message := await behind.read_message()) is not None:
            await self.write_message(message, binary=isinstance(message, bytes))
        self.close()

    async def on_message(self, message: str | bytes) -> None:
        """From the browser to the server."""
        if self._behind is not None:
            await self._behind.write_message(message, binary=isinstance(message, bytes))

    def on_close(self) -> None:
        """Close the other half too."""
        if self._behind is not None:
            self._behind.close()


@contextmanager
def tls_proxy(folder: Path, target: str) -> Iterator[tuple[str, list[str]]]:
    """Its address, and the paths asked for so far. `target` is the server behind, without a path."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    asked: list[str] = []
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(target))
    ready, ports = threading.Event(), []
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        server = HTTPServer(Application([(".*", _Forward, {"target": origin, "asked": asked})]), ssl_options=context)
        sockets = bind_sockets(0, "127.0.0.1")
        server.add_sockets(sockets)
        ports.append(sockets[0].getsockname()[1])
        loops.append(asyncio.get_running_loop())
        stop = asyncio.Event()
        stops.append(stop)
        ready.set()
        await stop.wait()
        server.stop()
        await server.close_all_connections()

    stops: list[asyncio.Event] = []
    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield f"https://127.0.0.1:{ports[0]}/", asked
    finally:
        loops[0].call_soon_threadsafe(stops[0].set)
        thread.join(30)
