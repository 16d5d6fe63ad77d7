"""The command line against real servers: what it shows, what it says when it cannot, and that it shows no token."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from jupyter_gpu_guard import running
from jupyter_gpu_guard.cli import demonstration, main
from jupyter_gpu_guard.cli.demonstration import command, copy_notebooks
from jupyter_gpu_guard.core.policy import Mode
from jupyter_gpu_guard.policyfile import load
from jupyter_gpu_guard.running import NoAnswerError, Server, choose
from jupyter_gpu_guard.server import wire

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=timezone.utc)
TOKEN = "very-secret-token"


def a_report(**changes: Any) -> dict[str, Any]:
    """A report as a server sends it: one device, a notebook that is warned, one that is unknown, and a stranger."""
    holding = {"holdings": [], "leftovers": [], "protections": [], "lease": None, "kernelspec": "python3"}
    ours = {"longest_keep_seconds": 3600, "started_at": NOON, "kind": "kernel", "state": "idle", **holding}
    report = wire.WireReport(
        taken_at=NOON,
        interval_seconds=5,
        mode="enforce",
        simulated=True,
        policy=wire.WirePolicy(hash="abc", source="site.yaml", fault=None),
        gaps=[wire.WireGap(source="terminals", why="They did not answer in time.", since=NOON)],
        devices=[
            wire.WireDevice(
                uuid="GPU-0",
                index=0,
                name="Simulated H100 80GB",
                memory_total_bytes=80 * 2**30,
                memory_used_bytes=10 * 2**30,
                memory_unattributed_bytes=0,
                compute_percent=None,
                compute_percent_unknown="not-supported",
                temperature_celsius=30,
                power_watts=60,
                mig=False,
                state="ok",
            )
        ],
        holders=[
            wire.WireHolder(
                owner="kernel:k1",
                name="train.ipynb",
                notebook="work/train.ipynb",
                memory_bytes=6 * 2**30,
                compute_percent=0,
                idle_seconds=1500,
                verdict=wire.WireVerdict(
                    action="keep",
                    next_action="shutdown",
                    stage=1,
                    rule="default",
                    deadline=NOON + timedelta(minutes=12),
                    reasons=[],
                ),
                **ours,
            ),
            wire.WireHolder(
                owner="kernel:k2",
                name="evil",
                notebook="evil\x1b[31m[bold].ipynb",
                memory_bytes=None,
                memory_bytes_unknown="pids-hidden",
                compute_percent=None,
                compute_percent_unknown="pids-hidden",
                idle_seconds=None,
                verdict=wire.WireVerdict(
                    action="keep", next_action=None, stage=None, rule="default", deadline=None, reasons=[]
                ),
                **ours,
            ),
        ],
        strangers=[wire.WireStrangers(device="GPU-0", memory_bytes=4 * 2**30, processes=2)],
        notices=[],
        outcomes=[
            wire.WireOutcome(
                id="1",
                owner="kernel:k0",
                name="old.ipynb",
                notebook="old.ipynb",
                action="shutdown",
                rule="default",
                result="done",
                at=NOON,
                by=None,
                detail="freed 3.0 GiB on GPU 0 in 2.0 s",
                freed_bytes=3 * 2**30,
                took_seconds=2,
                survivors=[],
                reasons=[],
            )
        ],
    ).model_dump(mode="json")
    return {**report, **changes}


@dataclass
class GuardServer:
    """A real HTTP server in place of a Jupyter server; `answers` gives status and body by the path's last part."""

    port: int
    base: str = "/"
    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where it is, as the CLI shows it."""
        return f"http://localhost:{self.port}{self.base}"


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., GuardServer]]:
    """Starts servers that `jupyter server list` finds; they want the token."""
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(runtime))
    for name in ("JUPYTERHUB_API_TOKEN", "JUPYTERHUB_SERVICE_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # a proxy must see neither the token nor the report
    started: list[tuple[ThreadingHTTPServer, threading.Thread]] = []

    def _serve(*, base: str = "/", token: str | None = TOKEN, listed: bool = True, **answers: tuple[int, Any]):
        guard = GuardServer(0, base, {"report": (200, a_report()), **answers})

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                guard.asked.append((self.path, self.headers.get("Authorization")))
                name = self.path.removeprefix(f"{base}gpu-guard/api/v1/").replace(":", "_").replace("/", "_")
                status, body = guard.answers.get(name, (404, "<html>404</html>"))
                if self.headers.get("Authorization") != f"token {TOKEN}":
                    status, body = 403, {"message": "Forbidden"}
                content = (body if isinstance(body, str) else json.dumps(body)).encode()
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", f"http://localhost:{guard.port}/elsewhere")
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
        if listed:
            list_server(runtime, guard.port, url=guard.url, base_url=base, token=token or "", root_dir=str(tmp_path))
        return guard

    yield _serve
    for server, thread in started:
        server.shutdown()
        server.server_close()
        thread.join()


def list_server(runtime: Path, port: int, **facts: Any) -> None:
    """Write the file that a running server writes."""
    known = {"pid": os.getpid(), "port": port, "hostname": "localhost", "sock": "", "password": False, **facts}
    (runtime / f"jpserver-{port}.json").write_text(json.dumps(known))


def call(*arguments: str) -> Result:
    """Run `jupyter gpu-guard` with these arguments. The token appears nowhere."""
    result = CliRunner().invoke(main, arguments)
    assert TOKEN not in result.output
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


# ---- status ----


def test_status_shows_what_the_report_says(serve) -> None:
    """The device, the notebook with its memory and what comes when, the stranger, the gap and what was done."""
    server = serve()
    result = call("status")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0].startswith(f"{server.url}  mode enforce, simulated devices, seen at ")
    assert "Not measured: terminals. They did not answer in time." in lines
    train = next(line for line in lines if line.startswith("work/train.ipynb"))
    assert train.split() == [
        "work/train.ipynb",
        "kernel:k1",
        "idle",
        "6.0",
        "GiB",
        "0",
        "%",
        "25",
        "min",
        "shutdown",
        "in",
        "12",
        "min",
    ]
    device = next(line for line in lines if line.startswith("0: Simulated H100"))
    assert "10.0 GiB" in device
    assert "– not supported" in device
    assert "4.0 GiB in 2" in device
    assert any(line.endswith("old.ipynb: shutdown, freed 3.0 GiB on GPU 0 in 2.0 s") for line in lines)
    assert server.asked == [("/gpu-guard/api/v1/report", f"token {TOKEN}")]


def a_holder(key: str, **changes: Any) -> dict[str, Any]:
    """A holder as a server sends it: the warned notebook of `a_report`, with these differences."""
    kind = key.partition(":")[0]
    return {**a_report()["holders"][0], "owner": key, "kind": kind, **changes}


def a_process(pid: int, gib: float | None) -> dict[str, Any]:
    """A process on the one device."""
    amount = None if gib is None else gib * 2**30
    row = wire.WireProcess(pid=pid, started_at=NOON, device="GPU-0", memory_bytes=amount, compute_percent=0)
    return row.model_dump(mode="json")


def line_of(output: str, beginning: str) -> list[str]:
    """The words of the line that begins like this, by columns."""
    line = next(line for line in output.splitlines() if line.startswith(beginning))
    return [column.strip() for column in line.split("  ") if column.strip()]


def test_tensorboards_have_a_table_of_their_own(serve) -> None:
    """Logs, port, starter, who looks, and what comes; under its own name, not that of the notebook that started it."""
    board = {
        "log_dir": "/runs/a",
        "port": 6006,
        "started_by": "kernel:k1",
        "started_by_name": "train.ipynb",
        "watchers": 0,
        "unwatched_seconds": 300,
        "duplicate": True,
        "inside": False,
    }
    watched = {**board, "watchers": 1, "duplicate": False, "port": None, "started_by_name": None}
    unseen = {**board, "watchers": None, "unwatched_seconds": None}
    calm = {"action": "keep", "next_action": None, "stage": None, "rule": "default", "deadline": None, "reasons": []}
    holders = [
        a_holder("tensorboard:1", name="TensorBoard a", memory_bytes=0, board=board),
        a_holder("tensorboard:2", name="TensorBoard b", memory_bytes=0, board=watched, verdict=calm),
        a_holder("tensorboard:3", name="TensorBoard c", memory_bytes=0, board=unseen, verdict=calm),
    ]
    serve(report=(200, a_report(holders=holders)))
    output = call("status").output
    assert "\nTensorBoards\n" in output
    assert "\nNotebooks\n" not in output
    assert line_of(output, "TensorBoard a") == [
        "TensorBoard a",
        "tensorboard:1",
        "/runs/a (shown by another one too)",
        "6006",
        "train.ipynb",
        "not for 5 min",
        "0 B",
        "shutdown in 12 min",
    ]
    assert line_of(output, "TensorBoard b") == ["TensorBoard b", "tensorboard:2", "/runs/a", "now", "0 B"]
    assert line_of(output, "TensorBoard c")[-2:] == ["–", "0 B"]


def test_terminals_have_a_table_of_their_own(serve) -> None:
    """With how many processes would end with it; a dash where that is not known."""
    holders = [
        a_holder("terminal:1", name="Terminal 1", notebook=None, tree_size=3),
        a_holder("terminal:2", name="Terminal 2", notebook=None, tree_size=None),
    ]
    serve(report=(200, a_report(holders=holders)))
    output = call("status").output
    assert "\nTerminals\n" in output
    first = ["Terminal 1", "terminal:1", "3", "6.0 GiB", "0 %", "shutdown in 12 min"]
    assert line_of(output, "Terminal 1") == first
    assert line_of(output, "Terminal 2")[2] == "–"


def test_what_an_earlier_run_has_left_behind_is_told(serve) -> None:
    """How many processes, their sum and their pids, and that the kernel died; an unknown part makes no sum."""
    left = [a_process(12, 1), a_process(9, 3)]
    holders = [
        a_holder("kernel:k1", leftovers=left, died=True),
        a_holder("kernel:k2", notebook="other.ipynb", leftovers=[a_process(7, None)]),
    ]
    serve(report=(200, a_report(holders=holders)))
    output = call("status").output
    assert "work/train.ipynb: The kernel died; processes that it left behind (2) hold 4.0 GiB. Pid 9, 12." in output
    assert "other.ipynb: An earlier run ended; processes that it left behind (1) hold –. Pid 7." in output


def test_what_was_left_behind_has_a_table_of_its_own(serve) -> None:
    """By the name by which it can be kept and asked for; where there is nothing, there is no heading."""
    serve(report=(200, a_report(holders=[a_holder("kernel:k1")])))
    assert "Left behind" not in call("status").output
    left = a_holder("leftovers:k1", kind="leftovers", state="dead", tree_size=5)
    serve(report=(200, a_report(holders=[a_holder("kernel:k1", notebook="b.ipynb"), left])))
    output = call("status").output
    assert "\nLeft behind\n" in output
    assert line_of(output, "train.ipynb")[1:3] == ["leftovers:k1", "5"]


def test_estimates_are_marked(serve) -> None:
    """Each figure of such a holder, with what the mark means; nothing is marked otherwise."""
    serve(report=(200, a_report(holders=[a_holder("kernel:k1", estimated=True), a_holder("kernel:k2", notebook="b")])))
    output = call("status").output
    assert line_of(output, "work/train.ipynb")[3:5] == ["≈ 6.0 GiB", "≈ 0 %"]
    assert "≈ That it is on this GPU is an estimate" in output
    assert "≈" not in " ".join(line_of(output, "b "))


def test_mig_instances_stand_under_their_gpu(serve) -> None:
    """Numbered within it; a device that sleeps says so; memory that nobody is listed for has a column."""
    gpu = a_report()["devices"][0]
    asleep = {
        **gpu,
        "uuid": "GPU-1",
        "index": 1,
        "state": "suspended",
        "memory_used_bytes": None,
        "memory_used_bytes_unknown": "suspended",
    }
    part = {**gpu, "uuid": "MIG-1", "mig": True, "part_of": "GPU-0", "memory_unattributed_bytes": 3 * 2**30}
    alone = {**part, "uuid": "MIG-2", "index": 2, "part_of": "GPU-gone"}
    serve(report=(200, a_report(devices=[gpu, asleep, part, alone])))
    output = call("status").output
    labels = [line.split(":")[0] for line in output.splitlines() if "Simulated H100" in line]
    assert labels == ["0", "0 MIG 0", "1", "2"]
    assert "(suspended)" in line_of(output, "1: ")[0]
    assert line_of(output, "1: ")[1] == "– suspended"
    assert line_of(output, "0 MIG 0: ")[3] == "3.0 GiB"


def test_a_report_of_an_older_server_is_shown(serve) -> None:
    """Without the fields that came later."""
    report = a_report()
    for row in (*report["holders"], *report["devices"]):
        for name in ("estimated", "failed", "died", "tree_size", "board", "part_of"):
            row.pop(name, None)
    serve(report=(200, report))
    result = call("status")
    assert result.exit_code == 0
    assert "work/train.ipynb" in result.output


def test_unknown_is_shown_as_a_dash_with_its_reason(serve) -> None:
    """Never as 0."""
    serve()
    evil = next(line for line in call("status").output.splitlines() if line.startswith("evil"))
    assert evil.count("– pids hidden") == 2
    assert "0 B" not in evil


def test_a_notebook_name_does_not_steer_the_terminal(serve) -> None:
    """Control characters are replaced, and what looks like markup is shown as it is."""
    serve()
    output = call("status").output
    assert "\x1b" not in output
    assert "evil\N{REPLACEMENT CHARACTER}[31m[bold].ipynb" in output


@pytest.mark.parametrize(
    ("verdict", "lease", "mode", "expected"),
    [
        ({"action": "shutdown", "deadline": "2026-05-04T11:59:00Z"}, None, "enforce", "shutdown now"),
        (
            {"action": "keep", "next_action": "shutdown", "deadline": "2026-05-04T12:01:30Z"},
            None,
            "observe",
            "(rehearsed)",
        ),
        ({"action": "keep", "next_action": "warn", "deadline": None}, None, "enforce", "25 min"),
        ({"action": "warn", "deadline": "2026-05-04T12:30:00Z"}, None, "enforce", "warn now"),
        (
            {"action": "shutdown", "deadline": None},
            {"until": "2026-05-04T13:00:00Z", "reason": ""},
            "enforce",
            "kept until",
        ),
    ],
)
def test_what_comes_is_said_in_few_words(serve, verdict: dict, lease: dict | None, mode: str, expected: str) -> None:
    """Due now, due later, rehearsed only, nothing yet, or kept by its owner."""
    report = a_report(mode=mode)
    report["holders"] = [{**report["holders"][0], "lease": lease}]
    report["holders"][0]["verdict"].update(verdict)
    serve(report=(200, report))
    line = next(line for line in call("status").output.splitlines() if line.startswith("work/train.ipynb"))
    assert expected in line.split("6.0 GiB")[1]
    if lease:
        assert "shutdown" not in line


def test_a_fault_of_the_policy_is_shown(serve) -> None:
    """Each of its lines."""
    policy = {"hash": "", "source": "built-in defaults", "fault": "a.yaml:1:2: wrong; right\nand 3 more"}
    serve(report=(200, a_report(policy=policy)))
    output = call("status").output
    assert "The policy was not taken:\n  a.yaml:1:2: wrong; right\n  and 3 more" in output


def test_before_the_first_look_nothing_is_claimed(serve) -> None:
    """A server that has just started says so, and not that nothing holds a GPU."""
    serve(report=(200, a_report(taken_at=None, holders=[], devices=[], gaps=[], outcomes=[])))
    output = call("status").output
    assert "nothing seen yet" in output
    assert "holds a GPU" not in output


def test_nothing_held_is_said(serve) -> None:
    """An empty list is a sentence."""
    serve(report=(200, a_report(holders=[])))
    assert "No notebook, terminal or TensorBoard of this server holds a GPU." in call("status").output


def test_json_is_the_report_word_for_word(serve) -> None:
    """Also fields that this version does not know."""
    report = a_report(a_new_field={"x": [1, None]})
    server = serve(report=(200, report))
    result = call("status", "--json")
    assert json.loads(result.stdout) == {"servers": [{"url": server.url, "report": report}]}
    assert result.exit_code == 0


def test_no_server_is_one_sentence(serve) -> None:
    """And status 1; JSON is an empty list, with the sentence beside it."""
    result = call("status")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "No Jupyter server of yours is running here: start one, or name one with --server URL.\n"
    result = call("status", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (1, {"servers": []})


def test_each_of_several_servers_is_asked(serve) -> None:
    """One that does not answer does not hide the other, and is named with a remedy."""
    good, bad = serve(), serve(report=(404, "<html>"))
    result = call("status")
    assert result.exit_code == 0
    assert good.url in result.stdout
    assert f"{bad.url} runs without the GPU guard: install jupyter-gpu-guard beside that server" in result.stderr
    answers = json.loads(call("status", "--json").stdout)["servers"]
    assert {answer["url"]: answer["report"] is not None for answer in answers} == {good.url: True, bad.url: False}
    assert "without the GPU guard" in next(answer["error"] for answer in answers if answer["report"] is None)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((404, "<html>404</html>"), "runs without the GPU guard"),
        ((404, {"message": "Not Found"}), "runs without the GPU guard"),
        ((403, {"message": "Forbidden"}), "refuses the token that is known for it (status 403): restart it"),
        ((302, ""), "refuses the token that is known for it (status 302)"),
        ((200, "<html>"), "answers something that is not JSON"),
        ((200, {"hello": 1}), "answers no report that this version can read"),
        ((200, []), "answers no report that this version can read"),
        ((500, {"message": "boom"}), "answers with status 500 (boom): see its log."),
        ((503, "busy"), "answers with status 503: see its log."),
        ((200, "[" * 100_000), "answers something that is not JSON"),
    ],
)
def test_a_server_that_gives_no_report_is_named_with_a_remedy(serve, answer: tuple[int, Any], expected: str) -> None:
    """One sentence on stderr, status 1, no traceback; and a redirect is not followed with the token."""
    server = serve(report=answer)
    result = call("status")
    assert result.exit_code == 1
    assert result.stderr.startswith(server.url)
    assert expected in result.stderr
    assert len(server.asked) == 1


def test_a_server_without_a_known_token_is_named_with_a_remedy(serve) -> None:
    """A server with a password only: no token is in its file."""
    serve(token=None)
    result = call("status")
    assert result.exit_code == 1
    assert (
        "wants a token, and none is known for it (status 403): give its URL with ?token=... in --server"
        in result.stderr
    )


def test_a_server_that_is_gone_is_named(serve, tmp_path: Path) -> None:
    """Its file is still there, and nothing listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    list_server(tmp_path / "runtime", port, url=f"http://localhost:{port}/", token=TOKEN)
    result = call("status")
    assert result.exit_code == 1
    assert f"http://localhost:{port}/ cannot be reached (Connection refused): is it still running" in result.stderr


def test_a_server_that_hangs_is_not_waited_for(serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the connection and never answers."""
    monkeypatch.setattr(running, "TIMEOUT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        list_server(tmp_path / "runtime", port, url=f"http://localhost:{port}/", token=TOKEN)
        result = call("status")
    assert result.exit_code == 1
    assert "did not answer within 0.1 s" in result.stderr


def test_a_hub_server_is_asked_with_the_hubs_token(serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside a single-user server its own hub token opens it; another server does not get that token."""
    mine, other = serve(base="/user/ann/", token=None), serve(token=None)
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", TOKEN)
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/ann/")
    result = call("status")
    assert result.exit_code == 0
    assert mine.asked == [("/user/ann/gpu-guard/api/v1/report", f"token {TOKEN}")]
    assert other.asked == [("/gpu-guard/api/v1/report", None)]


def test_one_server_can_be_named_by_port_or_url(serve) -> None:
    """A port, its URL, a page of it under another name of this machine, or a URL with the token from its log."""
    one, two = serve(), serve()
    hidden = serve(listed=False)
    for name, server in (
        (str(one.port), one),
        (two.url, two),
        (f"http://127.0.0.1:{two.port}/lab/tree/a.ipynb", two),
        (f"http://127.0.0.1:{hidden.port}/lab?token={TOKEN}", hidden),
    ):
        before = len(server.asked)
        assert call("status", "--server", name).exit_code == 0
        assert len(server.asked) == before + 1
    assert (len(one.asked), len(two.asked)) == (1, 2)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("1", "No server of yours listens on port 1. See `jupyter server list`."),
        ("ftp://x", "'ftp://x/' is neither a port nor a URL such as http://localhost:8888/."),
        ("nonsense", "'nonsense/' is neither a port nor a URL"),
        ("http://localhost:99999/", "is neither a port nor a URL"),
        (f"htp://user:{TOKEN}@x/?token={TOKEN}", "'htp://x/' is neither a port nor a URL"),
    ],
)
def test_a_server_that_is_none_is_refused(serve, name: str, expected: str) -> None:
    """A sentence and status 1; a secret in it is not repeated."""
    result = call("status", "--server", name)
    assert result.exit_code == 1
    assert expected in result.stderr


def test_a_server_on_a_unix_socket_is_asked_there(tmp_path: Path, serve) -> None:
    """Such a server has no port; its file names the socket."""
    path = f"{os.path.relpath(tmp_path)}/s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        body = json.dumps(a_report()).encode()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

        thread = threading.Thread(target=answer)
        thread.start()
        quoted = path.replace("/", "%2F")
        list_server(tmp_path / "runtime", 0, url=f"http+unix://{quoted}/", sock=path, token=TOKEN)
        result = call("status")
        thread.join()
    assert result.exit_code == 0
    assert "work/train.ipynb" in result.output


def test_the_same_servers_are_found_as_by_jupyter_itself(serve, tmp_path: Path) -> None:
    """Also beside files that are half written, of servers that have ended, or of something else."""
    from jupyter_server.serverapp import list_running_servers

    serve()
    serve(base="/other/")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    runtime = tmp_path / "runtime"
    list_server(runtime, 1, url="http://localhost:1/", pid=ended.pid)
    list_server(runtime, 2, url="http://localhost:2/", pid=None)
    (runtime / "jpserver-3.json").write_text('{"pid": ')
    (runtime / "kernel-4.json").write_text("{}")
    found = {server.url for server in running.running_servers()}
    (runtime / "jpserver-2.json").unlink()  # Jupyter's own function stumbles over it
    assert found == {info["url"] for info in list_running_servers()}
    assert len(found) == 2


def test_servers_that_listen_everywhere_are_asked_on_this_machine() -> None:
    """An address such as 0.0.0.0 is none that one can call."""
    facts = {"url": "http://some-host:8888/", "hostname": "0.0.0.0", "port": 8888, "token": TOKEN, "root_dir": "/x"}
    server = running._known(facts, {})
    assert (server.host, server.port, server.root) == ("localhost", 8888, Path("/x"))
    assert TOKEN not in repr(server)


def test_a_page_is_not_taken_for_another_servers() -> None:
    """The base URL has to fit, not only the port."""
    known = [Server("http://localhost:8000/user/ann/", "localhost", 8000, TOKEN)]
    (chosen,) = choose(known, "http://localhost:8000/user/anna/lab")
    assert (chosen.url, chosen.token) == ("http://localhost:8000/user/anna/", "")
    with pytest.raises(NoAnswerError):
        choose(known, "8001")


# ---- explain ----

EXPLANATION = {"holder": a_report()["holders"][0], "lines": ["Rule: default.", "Holds 6.0 GiB \x1b[0m for 25 min."]}


@pytest.mark.parametrize("name", ["kernel:k1", "work/train.ipynb", "train.ipynb"])
def test_explain_finds_an_owner_or_a_notebook(serve, name: str) -> None:
    """By its key, its path or its name; the lines are the guard's own."""
    serve(explain_kernel_k1=(200, EXPLANATION))
    result = call("explain", name)
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "work/train.ipynb (kernel:k1)",
        "  Rule: default.",
        "  Holds 6.0 GiB \N{REPLACEMENT CHARACTER}[0m for 25 min.",
    ]
    assert json.loads(call("explain", name, "--json").stdout) == {"explanations": [EXPLANATION]}


def test_explain_tells_a_tensorboard_from_the_notebook_that_started_it(serve) -> None:
    """Both have the notebook's path; each is found by what it is called."""
    board = a_holder("tensorboard:1", name="TensorBoard a")
    report = a_report(holders=[a_report()["holders"][0], board])
    said = {"holder": board, "lines": ["Rule: default."]}
    serve(report=(200, report), explain_kernel_k1=(200, EXPLANATION), explain_tensorboard_1=(200, said))
    assert call("explain", "train.ipynb").output.startswith("work/train.ipynb (kernel:k1)\n")
    assert "tensorboard" not in call("explain", "train.ipynb").output
    assert call("explain", "TensorBoard a").output == "TensorBoard a (tensorboard:1)\n  Rule: default.\n"


def test_explain_finds_a_notebook_by_its_path_from_here(serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder below the server's root the shell's own path works."""
    serve(explain_kernel_k1=(200, EXPLANATION))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert call("explain", "./train.ipynb").exit_code == 0
    assert call("explain", "./other.ipynb").exit_code == 1


def test_explain_names_what_there_is(serve) -> None:
    """An unknown notebook is answered with the known ones, an unknown owner with the guard's own sentence."""
    serve(explain_kernel_x=(404, {"message": "No kernel x here."}))
    result = call("explain", "nope.ipynb")
    assert result.exit_code == 1
    assert "Nothing called 'nope.ipynb' holds a GPU or has a kernel here; there are " in result.stderr
    assert "work/train.ipynb" in result.stderr
    result = call("explain", "kernel:x")
    assert (result.exit_code, result.stderr) == (1, "No kernel x here.\n")


def test_explain_asks_every_server_until_one_knows(serve) -> None:
    """A server without the guard, or that does not know the owner, is no hindrance."""
    serve(report=(404, ""))
    serve(explain_kernel_k1=(404, {"message": "No kernel k1 here."}))
    serve(explain_kernel_k1=(200, EXPLANATION))
    assert call("explain", "kernel:k1").exit_code == 0


def test_explain_without_an_answer_says_why(serve) -> None:
    """No server could be asked."""
    server = serve(report=(404, ""))
    result = call("explain", "train.ipynb")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"{server.url} runs without the GPU guard")
    assert call("explain", "--server", "1", "x").exit_code == 1


# ---- policy check ----


def test_policy_check_shows_the_rules(tmp_path: Path) -> None:
    """Every rule in its order, with thresholds, ladder and the catch-all; status 0."""
    path = tmp_path / "site.yaml"
    path.write_text(
        "version: 1\nmode: enforce\nrules:\n"
        "  - {name: lectures, match: {notebook: 'lectures/**', owner: kernel}, keep: true}\n"
        "  - {name: quick, match: {device: '*H200*'}, idle: {for: 30m}, keep: {longest: 2h}}\n"
        "  - {name: patient, match: {state: executing}, idle: {for: never}}\n"
    )
    result = call("policy", "check", str(path))
    assert result.exit_code == 0
    lines = [line.rstrip() for line in result.output.splitlines()]
    assert lines[0] == f"{path}: fine"
    assert lines[1].startswith("Mode enforce, at most 5 shutdowns at once and 20 in an hour. Policy ")
    assert [line.split()[0] for line in lines[-4:]] == ["lectures", "quick", "patient", "default"]
    assert "owner kernel, notebook lectures/**" in lines[-4]
    assert "never: left alone" in lines[-4]
    quick = "device *H200* compute < 5%, memory ≥ 512MiB, for 30m warn at once, shutdown after 15m 15m 2h"
    assert lines[-3].split()[1:] == quick.split()
    assert lines[-2].split() == ["patient", "state", "executing", "never"]
    assert "everything" in lines[-1]


def test_policy_check_names_every_problem(tmp_path: Path) -> None:
    """All of them on stderr, nothing else, status 1."""
    path = tmp_path / "site.yaml"
    path.write_text("version: 1\nmode: on\ndefaults: {notice: 5}\n")
    result = call("policy", "check", str(path), str(tmp_path / "none.yaml"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert [line.split(": ")[0] for line in result.stderr.splitlines()] == [
        f"{path}:2:7",
        f"{path}:3:20",
        str(tmp_path / "none.yaml"),
    ]


def test_policy_check_without_a_file_reads_those_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None at all: the built-in defaults are shown. One in the configuration path: that, if not all may change it."""
    monkeypatch.setattr("jupyter_core.paths.SYSTEM_CONFIG_PATH", [str(tmp_path)])
    assert "There are no policy files; these are the built-in defaults." in call("policy", "check").output
    folder = tmp_path / "gpu-guard" / "policy.d"
    folder.mkdir(parents=True)
    (folder / "a.yaml").write_text("version: 1\nmode: enforce\n")
    assert f"{folder / 'a.yaml'}: fine\nMode enforce" in call("policy", "check").output
    (folder / "a.yaml").chmod(0o666)
    refused = call("policy", "check")
    assert (refused.exit_code, "everybody on this machine may change it" in refused.output) == (1, True)


# ---- demo ----


def test_the_demo_policy_is_fast_and_with_real_devices_only_observes() -> None:
    """Seconds instead of hours, and every span of the Keep menu; the second file changes nothing but the mode."""
    folder = demonstration._HERE
    fast = load([folder / "policy.yaml"])
    rule = fast.rules[-1]
    assert fast.mode is Mode.ENFORCE
    assert (rule.idle.lasting, rule.notice) == (timedelta(seconds=20), timedelta(seconds=30))
    assert rule.keep_limits.longest == timedelta(hours=8)
    careful = load([folder / "policy.yaml", folder / "observe.yaml"])
    assert (careful.mode, careful.rules) == (Mode.OBSERVE, fast.rules)


def test_the_demo_starts_jupyterlab_on_simulated_or_real_devices(tmp_path: Path) -> None:
    """The options name the devices, the folder, the policies and the notebook to open."""
    policies = [tmp_path / "a b.yaml", tmp_path / "c.yaml"]
    line = command(tmp_path, policies, port=9, browser=False, simulated=True)
    assert line[:3] == [sys.executable, "-m", "jupyterlab"]
    assert "--GpuGuard.devices=simulated" in line
    assert [option for option in line if "policy_paths" in option] == [
        f"--GpuGuard.policy_paths={policies[0]}",
        f"--GpuGuard.policy_paths={policies[1]}",
    ]
    assert f"--ServerApp.root_dir={tmp_path}" in line
    assert "--LabApp.default_url=/lab/tree/gpu-guard-demo.ipynb" in line
    assert line[-1] == "--no-browser"
    line = command(tmp_path, policies, port=9, browser=True, simulated=False)
    assert "--GpuGuard.devices=auto" in line
    assert "--no-browser" not in line
    assert not any("simulated" in option for option in line)


def test_demo_notebooks_are_copied_and_never_overwritten(tmp_path: Path) -> None:
    """What a person has changed stays."""
    folder = tmp_path / "new" / "demo"
    copy_notebooks(folder)
    assert {path.name for path in folder.iterdir()} == set(demonstration.NOTEBOOKS)
    changed = folder / demonstration.NOTEBOOKS[0]
    changed.write_text("mine")
    copy_notebooks(folder)
    assert changed.read_text() == "mine"


def test_the_demo_says_where_it_cannot_write(tmp_path: Path) -> None:
    """A file in the way of the folder is a sentence, and nothing is started."""
    (tmp_path / "file").write_text("")
    result = call("demo", "--no-browser", "--dir", str(tmp_path / "file" / "demo"))
    assert result.exit_code == 1
    assert "cannot be put in" in result.stderr
    assert "give --dir another folder" in result.stderr


@pytest.mark.parametrize("name", demonstration.NOTEBOOKS)
def test_demo_notebooks_are_clean_and_say_simulated(name: str) -> None:
    """Valid nbformat, no outputs, no counts, and the word is there."""
    nbformat = pytest.importorskip("nbformat")
    path = demonstration._HERE / name
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert "simulated" in path.read_text()
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


# The cells end by themselves when there is neither a simulated nor a real GPU; with a simulated one they hold it.
RUN_CELLS = """
import json, sys
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] == "code":
        exec("".join(cell["source"]).replace("seconds=20, wait=True", "seconds=0.01, wait=True"), globals())
if len(sys.argv) > 2:
    from pathlib import Path
    from jupyter_gpu_guard.kernel.declaration import read_clients
    (held,) = read_clients(Path(sys.argv[2])).values()
    print("HELD", held.memory[0])
"""


@pytest.mark.parametrize(("name", "gib"), list(zip(demonstration.NOTEBOOKS, (6, 4), strict=True)))
def test_the_cells_run_on_simulated_devices(tmp_path: Path, name: str, gib: int) -> None:
    """Each notebook holds what it says it holds, and says that it is simulated."""
    from jupyter_gpu_guard.sources.simulated import prepare

    prepare(tmp_path)
    done = run_cells(name, tmp_path)
    assert f"HELD {gib * 2**30}" in done.stdout
    assert f"{gib} GiB of a simulated GPU" in done.stdout


@pytest.mark.parametrize("name", demonstration.NOTEBOOKS)
def test_the_cells_without_any_gpu_say_what_to_do(name: str) -> None:
    """No simulated device and no PyTorch: a sentence, no traceback."""
    assert "Start `jupyter gpu-guard demo`, or install PyTorch" in run_cells(name, None).stdout


def run_cells(name: str, simulated: Path | None) -> subprocess.CompletedProcess[str]:
    """Run the code cells in a process of their own, where PyTorch is not to be had."""
    environment = {key: value for key, value in os.environ.items() if key != "JUPYTER_GPU_GUARD_SIMULATED_DIR"}
    arguments = [str(demonstration._HERE / name)]
    if simulated:
        environment["JUPYTER_GPU_GUARD_SIMULATED_DIR"] = str(simulated)
        arguments.append(str(simulated))
    no_torch = "import sys; sys.modules['torch'] = None\n"
    return subprocess.run(
        [sys.executable, "-c", no_torch + RUN_CELLS, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.slow
def test_the_demo_is_a_real_server_under_the_demo_policy(tmp_path: Path) -> None:
    """JupyterLab comes up with the guard, takes the policy files, and `status` finds it."""
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    for name in ("CONFIG", "DATA", "RUNTIME"):
        (tmp_path / name.lower()).mkdir()
        environment[f"JUPYTER_{name}_DIR"] = str(tmp_path / name.lower())
    enabled = {"ServerApp": {"jpserver_extensions": {"jupyter_gpu_guard": True}}}
    (tmp_path / "config" / "jupyter_server_config.json").write_text(json.dumps(enabled))
    guard = [sys.executable, "-m", "jupyter_gpu_guard"]
    demo = [*guard, "demo", "--no-browser", "--port", "0", "--dir", str(tmp_path / "demo"), "--", "--allow-root"]
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(demo, env=environment, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 90
        report: dict[str, Any] = {}
        while not report.get("taken_at"):
            assert server.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.3)
            done = subprocess.run([*guard, "status", "--json"], env=environment, capture_output=True, check=False)
            report = next((found["report"] or {} for found in json.loads(done.stdout)["servers"]), {})
        assert report["policy"]["fault"] is None
        assert report["policy"]["source"].endswith(".yaml")
        assert report["interval_seconds"] == 1
        assert report["mode"] == ("enforce" if report["simulated"] else "observe")
        assert {path.name for path in (tmp_path / "demo").glob("*.ipynb")} == set(demonstration.NOTEBOOKS)
    finally:
        server.terminate()
        server.wait(timeout=30)


# ---- the whole ----


def test_help_is_quick_because_nothing_heavy_is_imported() -> None:
    """Neither Jupyter Server, rich, YAML nor pydantic is loaded to print help; both entry points give the same."""
    code = (
        "import sys, runpy; sys.argv = ['x', '--help']\n"
        "try: runpy.run_module('jupyter_gpu_guard', run_name='__main__')\n"
        "except SystemExit as end: assert end.code == 0\n"
        "heavy = {'jupyter_server', 'rich', 'yaml', 'pydantic', 'tornado', 'pynvml'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in ("status", "explain", "policy", "doctor", "demo"):
        assert f"\n  {name} " in done.stdout


def test_a_terminal_without_unicode_gets_question_marks(serve) -> None:
    """Not a traceback."""
    serve()
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "jupyter_gpu_guard", "status"], env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert b"? pids hidden" in done.stdout
