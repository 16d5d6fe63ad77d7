"""A real Jupyter server with this extension, inside the test's own event loop; pages talk to it by websocket."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from jupyter_client.session import Session
from jupyter_server.serverapp import ServerApp
from jupyter_server.services.kernels.connection.base import deserialize_msg_from_ws_v1, serialize_msg_to_ws_v1
from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.websocket import websocket_connect
from traitlets.config import Config

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

V1 = "v1.kernel.websocket.jupyter.org"
TOKEN = "let-the-tests-in"


class InnerServer(ServerApp):
    """A server that leaves the signals to the test, and loads no extension but those it is told to."""

    def find_server_extensions(self) -> None:
        """Look for none."""

    def init_signal(self) -> None:
        """Leave them alone."""


class Page:
    """One websocket to one kernel, as a notebook in a browser has it."""

    def __init__(self, socket: Any, session: Session, protocol: str | None) -> None:
        self._socket = socket
        self._session = session
        self._protocol = protocol

    def send(self, channel: str, kind: str, content: dict[str, Any], **header: str) -> str:
        """Send one message. Gives its id."""
        message = self._session.msg(kind, content, header={**self._session.msg_header(kind), **header})
        if self._protocol == V1:
            parts = [self._session.pack(message[part]) for part in ("header", "parent_header", "metadata", "content")]
            self._write(serialize_msg_to_ws_v1(parts, channel), binary=True)
        else:
            self._write(json.dumps({**message, "channel": channel}, default=str), binary=False)
        return str(message["header"]["msg_id"])

    def run(self, code: str, **header: str) -> str:
        """Run a cell, as a person does. Gives the id of the request."""
        content = {"code": code, "silent": False, "allow_stdin": True, "stop_on_error": True}
        return self.send(
            "shell", "execute_request", {"store_history": True, "user_expressions": {}, **content}, **header
        )

    async def receive(self, kind: str, request: str | None = None) -> dict[str, Any]:
        """Wait for a message of this kind, and throw away what comes before it."""
        while True:
            raw = await asyncio.wait_for(self._socket.read_message(), 60)
            assert raw is not None, "the server has closed the websocket"
            header, parent, content = self._parts(raw)
            if header["msg_type"] == kind and request in (None, parent.get("msg_id")):
                return content

    async def end_of(self, request: str) -> None:
        """Wait until the kernel is idle again after this request."""
        while (await self.receive("status", request))["execution_state"] != "idle":
            pass

    def close(self) -> None:
        """Close the page."""
        self._socket.close()

    def _write(self, message: str | bytes, *, binary: bool) -> None:
        self._sending = self._socket.write_message(message, binary=binary)

    def _parts(self, raw: str | bytes) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        if self._protocol == V1:
            _, parts = deserialize_msg_from_ws_v1(raw)
            return tuple(json.loads(parts[place]) for place in (0, 1, 3))
        whole = json.loads(raw)
        return whole["header"], whole["parent_header"], whole["content"]


class ServerRoom:
    """The server, and what a browser asks of it. `url` has no slash at its end."""

    def __init__(self, app: InnerServer, url: str) -> None:
        self.app = app
        self.url = url
        self.guard = app.web_app.settings["jupyter_gpu_guard"]
        self.owners = self.guard._built[0]
        self._pages: list[Page] = []

    async def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Use the REST API. Gives the answer."""
        request = HTTPRequest(
            f"{self.url}/{path}",
            method=method,
            headers={"Authorization": f"token {TOKEN}"},
            body=None if method in ("GET", "DELETE") else json.dumps(body or {}),
            request_timeout=120,
        )
        answer = await AsyncHTTPClient().fetch(request)
        return json.loads(answer.body) if answer.body else None

    async def notebook(self, name: str) -> str:
        """Open a notebook. Gives the id of its kernel."""
        body = {"path": name, "name": name, "type": "notebook", "kernel": {"name": "python3"}}
        return (await self.ask("POST", "api/sessions", body))["kernel"]["id"]

    async def page(
        self, kernel_id: str, protocol: str | None = V1, session: str = "page", *, ready: bool = True
    ) -> Page:
        """Connect as a page does; `ready`: and wait until the kernel answers."""
        url = f"{self.url.replace('http', 'ws', 1)}/api/kernels/{kernel_id}/channels?token={TOKEN}&session_id={session}"
        socket = await websocket_connect(url, subprotocols=[protocol] if protocol else None)
        page = Page(socket, Session(key=b"", session=session), protocol)
        self._pages.append(page)
        if ready:
            await page.receive("kernel_info_reply", page.send("shell", "kernel_info_request", {}))
        return page

    async def close(self) -> None:
        """End the server with its kernels."""
        for page in self._pages:
            page.close()
        await asyncio.sleep(0.05)
        await self.app._cleanup()
        self.app.kernel_manager.context.destroy(linger=0)


@asynccontextmanager
async def server_room(root: Path) -> AsyncIterator[ServerRoom]:
    """A server whose user sees `root`; it is gone at the end."""
    config = {
        "ServerApp": {
            "allow_root": True,
            "jpserver_extensions": {"jupyter_gpu_guard": True},
            "open_browser": False,
            "root_dir": str(root),
        },
        "IdentityProvider": {"token": TOKEN},
        "GpuGuard": {"devices": "simulated", "state_directory": str(root / ".gpu-guard")},
    }
    app = InnerServer(config=Config(config))
    app.initialize([], new_httpserver=False)
    door = HTTPServer(app.web_app)
    sockets = bind_sockets(0, "127.0.0.1")
    door.add_sockets(sockets)
    room = ServerRoom(app, f"http://127.0.0.1:{sockets[0].getsockname()[1]}")
    try:
        yield room
    finally:
        door.stop()
        await room.close()
