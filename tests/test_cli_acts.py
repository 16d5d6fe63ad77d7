"""The commands that act through a running server: whom they mean, what they ask it, and what they say came of it."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from jupyter_gpu_guard.cli import doing, main
from jupyter_gpu_guard.cli.doing import act_on
from jupyter_gpu_guard.running import NoAnswerError, Server

TOKEN = "very-secret-token"
LEASE = {"until": "2099-05-04T12:00:00Z", "reason": "for the demo"}


def a_holder(owner: str, notebook: str | None = "work/train.ipynb", **changes: Any) -> dict[str, Any]:
    """A row of the report, as far as a command looks at it."""
    row = {"owner": owner, "kind": owner.partition(":")[0], "notebook": notebook, "name": "train.ipynb"}
    return {**row, "state": "idle", "memory_bytes": 6 * 2**30, "longest_keep_seconds": 3600, **changes}


def an_outcome(action: str, result: str = "done", detail: str = "as it should", **changes: Any) -> dict[str, Any]:
    """What came of an act."""
    return {"id": "new", "owner": "kernel:k1", "action": action, "result": result, "detail": detail, **changes}


@dataclass
class FakeGuardServer:
    """A real HTTP server that answers as the guard does. `reports` are given one after the other, the last for ever."""

    holders: list[dict[str, Any]] = field(default_factory=lambda: [a_holder("kernel:k1")])
    answer: tuple[int, Any] = (200, None)
    reports: list[Any] = field(default_factory=lambda: [[]])
    told: list[tuple[str, str, Any]] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://localhost:{self.port}/"

    def report(self) -> tuple[int, Any]:
        """The next report; a number is a status instead."""
        outcomes = self.reports.pop(0) if len(self.reports) > 1 else self.reports[0]
        if isinstance(outcomes, int):
            return outcomes, {"message": "busy"}
        return 200, {"holders": self.holders, "outcomes": outcomes}


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[FakeGuardServer], FakeGuardServer]]:
    """Starts servers that `jupyter server list` finds."""
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(runtime))
    monkeypatch.setattr(doing, "PAUSE", 0.01)
    started: list[tuple[ThreadingHTTPServer, threading.Thread]] = []

    def _serve(guard: FakeGuardServer) -> FakeGuardServer:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(*guard.report())

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                path = self.path.removeprefix("/gpu-guard/api/v1/owners/")
                guard.told.append((self.command, path, json.loads(body) if body else None))
                self._answer(*guard.answer)

            def do_DELETE(self) -> None:
                self.do_POST()

            def _answer(self, status: int, body: Any) -> None:
                if self.headers.get("Authorization") != f"token {TOKEN}":
                    status, body = 403, {"message": "'_xsrf' argument missing from POST"}
                content = b"" if status == 204 else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        started.append((server, thread))
        guard.port = server.server_port
        known = {"pid": os.getpid(), "port": guard.port, "hostname": "localhost", "url": guard.url, "token": TOKEN}
        (runtime / f"jpserver-{guard.port}.json").write_text(json.dumps({**known, "root_dir": str(tmp_path)}))
        return guard

    yield _serve
    for server, thread in started:
        server.shutdown()
        server.server_close()
        thread.join()


def call(*arguments: str, answering: str | None = None) -> Result:
    """Run `jupyter gpu-guard` with these arguments."""
    result = CliRunner().invoke(main, arguments, input=answering)
    assert TOKEN not in result.output
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


# ---- keep ----


@pytest.mark.parametrize("name", ["kernel:k1", "work/train.ipynb", "train.ipynb"])
def test_keep_promises_that_it_is_needed(serve, name: str) -> None:
    """By its key, its path or its name; for so long, for that reason; and it says until when."""
    server = serve(FakeGuardServer(answer=(200, LEASE)))
    result = call("keep", name, "1h", "30m", "--reason", "for the demo")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("work/train.ipynb (kernel:k1): kept until 2099-05-04 ")
    said = {"seconds": 5400, "reason": "for the demo", "beyond_limits": False}
    assert server.told == [("POST", "kernel:k1/keep", said)]


def test_keep_as_json_is_the_lease(serve) -> None:
    """With whom it is about."""
    server = serve(FakeGuardServer(answer=(200, LEASE)))
    result = call("keep", "train.ipynb", "2h", "--beyond-limits", "--json")
    whom = {"server": server.url, "owner": "kernel:k1", "name": "train.ipynb"}
    assert json.loads(result.stdout) == {**whom, "lease": LEASE}
    assert server.told[0][2]["beyond_limits"] is True


@pytest.mark.parametrize(
    ("answer", "lasting", "extra", "expected"),
    [
        ((400, "2 h is longer than the limit of 1 h"), "2h", (), "limit of 1 h; an administrator may go beyond"),
        ((400, "reason: missing: say what for"), "30m", (), "not kept: reason: missing: say what for\n"),
        ((403, "its rule does not let it be kept"), "30m", (), "be kept; an administrator may go beyond"),
        ((403, "beyond_limits: only an administrator"), "2h", ("--beyond-limits",), "only an administrator\n"),
        ((409, "it is being shut down already"), "30m", (), "not kept: it is being shut down already\n"),
        ((404, "no owner kernel:k1 on this server"), "30m", (), "no owner kernel:k1 on this server\n"),
        ((405, "Method Not Allowed"), "30m", (), "is too old for that: bring jupyter-gpu-guard up to date"),
        ((403, "'_xsrf' argument missing from POST"), "30m", (), "refuses the token that is known for it"),
    ],
)
def test_a_refusal_is_the_guards_own_sentence(
    serve, answer: tuple[int, str], lasting: str, extra: tuple[str, ...], expected: str
) -> None:
    """With what would help, where that is known; status 1, and nothing on stdout."""
    status, sentence = answer
    serve(FakeGuardServer(answer=(status, {"message": sentence})))
    result = call("keep", "train.ipynb", lasting, *extra)
    assert (result.exit_code, result.stdout) == (1, "")
    assert expected in result.stderr


@pytest.mark.parametrize("lasting", ["2", "soon", "0s"])
def test_a_time_that_is_none_is_refused_before_anybody_is_asked(serve, lasting: str) -> None:
    """With an example of a right one."""
    server = serve(FakeGuardServer())
    result = call("keep", "train.ipynb", lasting)
    assert result.exit_code == 1
    assert result.stderr.startswith("TIME: ")
    assert "write for example" in result.stderr
    assert server.told == []


def test_unkeep_takes_it_back(serve) -> None:
    """And says so; where nobody keeps it, that is a failure."""
    server = serve(FakeGuardServer(answer=(204, None)))
    assert call("unkeep", "train.ipynb").stdout == "work/train.ipynb (kernel:k1): not kept any more\n"
    assert json.loads(call("unkeep", "train.ipynb", "--json").stdout)["lease"] is None
    assert server.told == 2 * [("DELETE", "kernel:k1/keep", None)]
    server.answer = (404, {"message": "kernel:k1 is not kept by anybody"})
    result = call("unkeep", "train.ipynb")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "work/train.ipynb (kernel:k1): kernel:k1 is not kept by anybody\n"


# ---- whom ----


def test_of_several_none_is_guessed(serve) -> None:
    """They are listed with the names that tell them apart, and nothing is asked of the server."""
    rows = [a_holder("kernel:k1"), a_holder("kernel:k2", "other/train.ipynb"), a_holder("terminal:1", None, name="1")]
    server = serve(FakeGuardServer(holders=rows))
    result = call("release", "train.ipynb")
    assert result.exit_code == 1
    assert result.stderr == (
        "Several are called 'train.ipynb'; name one by its owner: kernel:k1 (work/train.ipynb), "
        "kernel:k2 (other/train.ipynb)\n"
    )
    assert server.told == []


def test_the_server_that_has_it_is_asked(serve) -> None:
    """Others are no hindrance, whether they answer or not."""
    serve(FakeGuardServer(holders=[]))
    serve(FakeGuardServer(reports=[503]))
    server = serve(FakeGuardServer(answer=(200, an_outcome("release"))))
    assert call("release", "kernel:k1").exit_code == 0
    assert [path for _, path, _ in server.told] == ["kernel:k1/release"]


def test_two_servers_with_the_same_owner_are_told_apart(serve) -> None:
    """By their addresses."""
    one, two = serve(FakeGuardServer()), serve(FakeGuardServer())
    result = call("release", "kernel:k1")
    assert result.stderr.startswith("Several servers have 'kernel:k1'; name one with --server: ")
    assert one.url in result.stderr
    assert two.url in result.stderr


@pytest.mark.parametrize("name", ["nope.ipynb", "kernel:nope"])
def test_who_is_not_there_is_answered_with_who_is(serve, name: str) -> None:
    """A slip of the pen ends nothing."""
    server = serve(FakeGuardServer())
    result = call("shutdown", "--yes", name)
    assert result.exit_code == 1
    assert result.stderr == f"Nothing called {name!r} holds a GPU or has a kernel here; there are work/train.ipynb.\n"
    assert server.told == []


def test_without_a_server_it_is_said(serve) -> None:
    """No server, or one that gives no report."""
    assert "No Jupyter server of yours is running here" in call("park", "train.ipynb").stderr
    serve(FakeGuardServer(reports=[503]))
    assert "answers with status 503 (busy)" in call("park", "train.ipynb").stderr


# ---- acts ----


@pytest.mark.parametrize(("action", "done"), [("release", "released"), ("park", "parked"), ("shutdown", "shut down")])
def test_what_was_done_is_said(serve, action: str, done: str) -> None:
    """In the guard's words; as JSON it is the outcome itself."""
    outcome = an_outcome(action)
    server = serve(FakeGuardServer(answer=(200, outcome)))
    sure = ("--yes",) if action == "shutdown" else ()
    result = call(action, "train.ipynb", *sure)
    assert (result.exit_code, result.stdout) == (0, f"work/train.ipynb (kernel:k1): {done}: as it should\n")
    assert server.told == [("POST", f"kernel:k1/{action}", {})]
    assert json.loads(call(action, "train.ipynb", "--json", *sure).stdout)["outcome"] == outcome


@pytest.mark.parametrize(
    ("result", "status"), [("unsuited", 1), ("failed", 1), ("withdrawn", 1), ("unknown", 1), ("already-gone", 0)]
)
def test_what_was_not_done_is_told_apart(serve, result: str, status: int) -> None:
    """Status 1, unless it is as wanted all the same."""
    serve(FakeGuardServer(answer=(200, an_outcome("shutdown", result, "for this reason"))))
    said = call("shutdown", "train.ipynb", "--yes")
    assert said.exit_code == status
    sentence = f"not shut down ({result.replace('-', ' ')}): for this reason\n"
    assert (said.stderr if status else said.stdout).endswith(sentence)


def test_something_else_under_way_is_said(serve) -> None:
    """The guard's sentence says what to do."""
    serve(FakeGuardServer(answer=(409, {"message": "something else is done to it (park); ask again"})))
    result = call("release", "train.ipynb")
    assert (result.exit_code, "something else is done to it (park)" in result.stderr) == (1, True)


# ---- shutdown asks ----


@pytest.mark.parametrize(("answer", "told"), [("y\n", 1), ("n\n", 0), ("", 0)])
def test_shutdown_asks_first(serve, answer: str, told: int) -> None:
    """It says what will be lost. Without a Yes nothing is done; where nobody can answer, `--yes` is named."""
    server = serve(FakeGuardServer(answer=(200, an_outcome("shutdown"))))
    result = call("shutdown", "train.ipynb", answering=answer)
    assert "work/train.ipynb (kernel:k1): idle, GPU memory 6.0 GiB" in result.stderr
    assert len(server.told) == told
    assert result.exit_code == 1 - told
    assert ("Nothing was done" in result.stderr) is not bool(told)
    assert ("--yes" in result.stderr) is (not answer)


def test_the_question_is_not_in_the_json(serve) -> None:
    """It is on stderr."""
    serve(FakeGuardServer(answer=(200, an_outcome("shutdown"))))
    assert json.loads(call("shutdown", "train.ipynb", "--json", answering="y\n").stdout)["outcome"]["result"] == "done"


def test_an_unknown_amount_is_not_called_nothing(serve) -> None:
    """It is a dash with its reason."""
    holder = a_holder("kernel:k1", memory_bytes=None, memory_bytes_unknown="pids-hidden")
    serve(FakeGuardServer(holders=[holder]))
    assert "GPU memory – pids hidden" in call("shutdown", "train.ipynb", answering="n\n").stderr


# ---- what takes long ----

UNDER_WAY = (202, {"message": "under way"})


def test_what_takes_long_is_followed_in_the_report(serve) -> None:
    """Until the outcome of this very act is there: not an older one, nor another's; silence in between is endured."""
    old = an_outcome("park", "failed", "of yesterday", id="old")
    others = [old, an_outcome("release"), an_outcome("park", owner="kernel:k2")]
    reports = [[], [old], [old], 503, others, [*others, an_outcome("park", detail="at last")]]
    server = serve(FakeGuardServer(answer=UNDER_WAY, reports=reports))
    result = call("park", "train.ipynb")
    assert (result.exit_code, result.stdout) == (0, "work/train.ipynb (kernel:k1): parked: at last\n")
    assert len(server.told) == 1
    assert len(server.reports) == 1


def test_a_server_that_falls_silent_meanwhile_is_not_waited_for_for_ever(serve) -> None:
    """A minute, and it is said that it was under way."""
    guard = serve(FakeGuardServer(answer=UNDER_WAY, reports=[[], 503]))
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += max(seconds, 1.0)

    with pytest.raises(NoAnswerError, match=r"It was under way when the server fell silent\. .* status 503"):
        act_on(
            Server(guard.url, "localhost", guard.port, TOKEN), "kernel:k1", "park", clock=lambda: now[0], sleep=sleep
        )
    assert doing.SILENT_FOR <= now[0] < 2 * doing.SILENT_FOR
