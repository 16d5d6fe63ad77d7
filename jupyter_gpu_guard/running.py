"""The Jupyter servers that run here, and how to ask their guards. Tokens are sent, never shown."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlencode, urlsplit, urlunsplit

TIMEOUT_SECONDS = 10.0
LARGEST_ANSWER = 64 * 2**20

_EVERYWHERE = {"", "*", "0.0.0.0", "::"}  # noqa: S104 - what a server says when it listens on all addresses
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


@dataclass(frozen=True)
class Server:
    """One Jupyter server. `url` ends in a slash and holds no token; `root` is the folder that its paths start at."""

    url: str
    host: str
    port: int | None
    token: str = field(default="", repr=False)
    socket_path: str = ""
    root: Path | None = None


class NotFoundError(Exception):
    """The guard of that server knows nothing by that name; the text is its own sentence."""


class NoAnswerError(Exception):
    """A server did not give what was asked for. The text names the remedy, and never holds a token."""


class RefusedError(NoAnswerError):
    """The guard of that server does not do what it was told to; the text is its own sentence."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status


def running_servers(environment: Mapping[str, str] = os.environ) -> list[Server]:
    """The servers of this user, those that `jupyter server list` lists, by URL. Nothing is deleted."""
    from jupyter_core.paths import jupyter_runtime_dir  # noqa: PLC0415 - not needed for --help

    # jupyter_server has a function for this, but importing it takes seconds.
    found = (_read_known(path) for path in Path(jupyter_runtime_dir()).glob("jpserver-*.json"))
    servers = [_known(info, environment) for info in found if info is not None and _is_alive(info.get("pid"))]
    return sorted(servers, key=lambda server: server.url)


def _read_known(path: Path) -> dict[str, Any] | None:
    """What a server says of itself; None: it is just being written, or not ours."""
    try:
        info = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return info if isinstance(info, dict) else None


def _is_alive(pid: object) -> bool:
    if not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def _known(info: Mapping[str, Any], environment: Mapping[str, str]) -> Server:
    url = urlsplit(str(info.get("url", "")))
    listens_on = str(info.get("hostname", ""))
    return Server(
        url=_without_secrets(url),
        host="localhost" if listens_on in _EVERYWHERE else listens_on,
        port=_port(url),
        token=str(info.get("token") or "") or _hub_token(url.path, environment),
        socket_path=unquote(url.hostname or "") if url.scheme == "http+unix" else "",
        root=Path(info["root_dir"]) if info.get("root_dir") else None,
    )


def _hub_token(base_url: str, environment: Mapping[str, str]) -> str:
    """The token of a hub's single-user server, inside that very server."""
    is_this_one = environment.get("JUPYTERHUB_SERVICE_PREFIX") == base_url
    return environment.get("JUPYTERHUB_API_TOKEN", "") if is_this_one else ""


def choose(servers: Sequence[Server], wanted: str | None) -> list[Server]:
    """Those that `wanted` names by port or URL; None: all. A URL that is not among them may carry its own `?token=`."""
    if wanted is None:
        return list(servers)
    if wanted.isascii() and wanted.isdigit():
        found = [server for server in servers if server.port == int(wanted)]
        if not found:
            raise NoAnswerError(f"No server of yours listens on port {wanted}. See `jupyter server list`.")
        return found
    url = urlsplit(wanted)
    if url.scheme not in {"http", "https"} or not url.hostname or _port(url) is None:
        raise NoAnswerError(f"{_without_secrets(url)!r} is neither a port nor a URL such as http://localhost:8888/.")
    given = parse_qs(url.query).get("token", [""])[0]
    known = [server for server in servers if _is_within(url, urlsplit(server.url))]
    if known:
        return [replace(server, token=given or server.token) for server in known]
    base = url._replace(path=url.path.removesuffix("/").removesuffix("/lab").removesuffix("/tree"))
    return [Server(_without_secrets(base), url.hostname, _port(url), given)]


def _is_within(page: SplitResult, server: SplitResult) -> bool:
    """Whether `page` is a page of `server`: people paste what their browser or the server's log shows."""
    places = [("localhost" if url.hostname in _LOOPBACK else url.hostname, _port(url)) for url in (page, server)]
    return places[0] == places[1] and f"{page.path.rstrip('/')}/".startswith(server.path)


def _port(url: SplitResult) -> int | None:
    try:
        port = url.port
    except ValueError:
        return None
    return port or {"http": 80, "https": 443}.get(url.scheme)


def _without_secrets(url: SplitResult) -> str:
    """The URL without user, password, query and fragment, ending in a slash."""
    place = url.netloc.rpartition("@")[2]
    return urlunsplit((url.scheme, place, url.path.rstrip("/") + "/", "", ""))


def ask(server: Server, path: str, **query: str) -> Any:
    """The JSON that GET `path` of the guard's API answers, with `query`; no redirect is followed.

    Raises NotFoundError or NoAnswerError.
    """
    return _exchange(server, "GET", path + (f"?{urlencode(query)}" if query else ""))


def tell(server: Server, path: str, said: Mapping[str, Any], within: float | None = None) -> Any:
    """The JSON that POST `path` of the guard's API answers to `said`. Raises NotFoundError or NoAnswerError.

    Of an act it is the outcome, or only a `message` while that is under way. `within` is in seconds; None: as long as
    any question may take.
    """
    return _exchange(server, "POST", path, json.dumps(said).encode(), within)


def take_back(server: Server, path: str) -> None:
    """DELETE `path` of the guard's API. Raises NotFoundError or NoAnswerError."""
    _exchange(server, "DELETE", path)


def _exchange(server: Server, method: str, path: str, content: bytes | None = None, within: float | None = None) -> Any:
    within = TIMEOUT_SECONDS if within is None else within
    path, question, query = path.partition("?")
    target = quote(urlsplit(server.url).path + "gpu-guard/api/v1/" + path, safe="/:%") + question + query
    headers = {"Accept": "application/json"}
    if content is not None:
        headers["Content-Type"] = "application/json"
    if server.token:
        headers["Authorization"] = f"token {server.token}"
    deadline = time.monotonic() + within
    connection = _connection(server, within)
    try:
        connection.request(method, target, content, headers)
        with connection.getresponse() as response:
            body = _read(response, deadline)
    except TimeoutError:
        raise NoAnswerError(f"{server.url} did not answer within {within:g} s: it may be busy; try again.") from None
    except ssl.SSLCertVerificationError:
        remedy = "point SSL_CERT_FILE to it"
        raise NoAnswerError(f"{server.url} shows a certificate that is not known here: {remedy}.") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        remedy = "is it still running, and is the address right? See `jupyter server list`"
        raise NoAnswerError(f"{server.url} cannot be reached ({why}): {remedy}.") from None
    finally:
        connection.close()
    if response.status == http.HTTPStatus.NO_CONTENT:
        return None
    if method != "GET":
        _must_not_be_refused(server, response.status, body)
    return _understood(server, response.status, body)


class _SocketConnection(http.client.HTTPConnection):
    """HTTP over the Unix socket of a server that listens on no port."""

    def __init__(self, path: str, within: float) -> None:
        super().__init__("localhost", timeout=within)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _connection(server: Server, within: float) -> http.client.HTTPConnection:
    if server.socket_path:
        return _SocketConnection(server.socket_path, within)
    if not server.url.startswith("https:"):
        return http.client.HTTPConnection(server.host, server.port, timeout=within)
    context = ssl.create_default_context()
    if server.host in _LOOPBACK:
        # What does not leave this machine needs no certificate, and those of servers here are mostly self-signed.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(server.host, server.port, timeout=within, context=context)


def _read(response: http.client.HTTPResponse, deadline: float) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := response.read1(2**16):
        parts.append(part)
        size += len(part)
        if size > LARGEST_ANSWER:
            raise ValueError("too large")
        if time.monotonic() > deadline:
            raise TimeoutError
    return b"".join(parts)


def _must_not_be_refused(server: Server, status: int, body: bytes) -> None:
    """Raises RefusedError if this is the guard's own No to what it was told to do."""
    if status == http.HTTPStatus.METHOD_NOT_ALLOWED:
        remedy = "bring jupyter-gpu-guard up to date beside that server, and restart it"
        raise NoAnswerError(f"The GPU guard of {server.url} is too old for that: {remedy}.")
    answer = _parsed(body)
    said = answer.get("message") if isinstance(answer, dict) else None
    # A token that is refused reads like a form of a page that was sent from elsewhere.
    if status in {400, 403, 409} and said and said != "Forbidden" and "_xsrf" not in said:
        raise RefusedError(str(said), status)


def _parsed(body: bytes) -> Any:
    """The JSON in `body`, or None."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _understood(server: Server, status: int, body: bytes) -> Any:
    answer = _parsed(body)
    if status in {http.HTTPStatus.OK, http.HTTPStatus.ACCEPTED} and answer is not None:
        return answer
    said = answer.get("message") if isinstance(answer, dict) else None
    if status == http.HTTPStatus.OK:
        raise NoAnswerError(f"{server.url} answers something that is not JSON: is that a Jupyter server?")
    if status in {401, 403} or 300 <= status < 400:  # noqa: PLR2004 - redirects lead to a login page
        if server.token:
            remedy = "restart it, or copy its URL with the token from its log into --server"
            raise NoAnswerError(f"{server.url} refuses the token that is known for it (status {status}): {remedy}.")
        remedy = "give its URL with ?token=... in --server; a server with only a password has no token"
        raise NoAnswerError(f"{server.url} wants a token, and none is known for it (status {status}): {remedy}.")
    if status == http.HTTPStatus.NOT_FOUND:
        if said and said != "Not Found":
            raise NotFoundError(said)
        remedy = "install jupyter-gpu-guard beside that server, ask `jupyter gpu-guard doctor` there, and restart it"
        raise NoAnswerError(f"{server.url} runs without the GPU guard: {remedy}.")
    raise NoAnswerError(f"{server.url} answers with status {status}{f' ({said})' if said else ''}: see its log.")
