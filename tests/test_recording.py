"""`record` and `replay`: against scripted servers, against a real one, and against what is checked in."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from core.build import snapshot
from core.films import still

from jupyter_gpu_guard.cli import main
from jupyter_gpu_guard.cli.recording import CannotRecordError, Recorder
from jupyter_gpu_guard.cli.replaying import replay
from jupyter_gpu_guard.core.budget import Budget, Measure, Per
from jupyter_gpu_guard.core.policy import Idle, Match, Policy, Rule
from jupyter_gpu_guard.core.rehearse import Carried, rehearse
from jupyter_gpu_guard.policyfile import load
from jupyter_gpu_guard.running import Server
from jupyter_gpu_guard.snapshots import VERSION, Header, to_json
from jupyter_gpu_guard.sources.replay import Recording, RecordingError

HERE = Path(__file__).parent
GOLDEN = HERE / "recordings"
HEADER = Header("0.1.0", "run-1", 5.0)


def told(look: int, *, run: str = "run-1", interval: float = 5.0, version: int = VERSION) -> dict[str, Any]:
    """What a server answers at its `look`."""
    header = json.loads(Header("0.1.0", run, interval).line())
    seen = json.loads(to_json(snapshot(now=look * interval))) if look else None
    return {**header, "version": version, "look": look, "snapshot": seen}


class FakeGuardServer:
    """A real HTTP server that gives one answer after the other; None is a failure of its own."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any] | None] = []
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                answer = outer.answers.pop(0) if outer.answers else None
                body = json.dumps(answer or {"message": "try again"}).encode()
                self.send_response(200 if answer else 500)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        port = self._server.server_port
        self.known = Server(f"http://127.0.0.1:{port}/", "127.0.0.1", port)

    def bury(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[FakeGuardServer]:
    """A server to record."""
    fake = FakeGuardServer()
    yield fake
    fake.bury()


def recorded(server: FakeGuardServer, file: Path, *answers: dict[str, Any] | None, **options: Any) -> Recorder:
    """Record until all answers are used up, with a clock that only sleeping moves."""
    server.answers = list(answers)
    passed = [0.0]

    def sleep(seconds: float) -> None:
        passed[0] += seconds
        if not server.answers:
            raise KeyboardInterrupt

    recorder = Recorder(server.known, file, monotonic=lambda: passed[0], sleep=sleep, **options)
    with pytest.raises(KeyboardInterrupt):
        recorder.record(None, lambda _: None)
    return recorder


def looks(file: Path) -> list[float]:
    """When the recorded Snapshots were taken."""
    return [seen.taken_at.monotonic for _, seen in Recording(file)]


# ---- record ----


def test_each_look_is_written_once(server: FakeGuardServer, tmp_path: Path) -> None:
    """One header, then a line for each; what was there before is skipped, and what is missed is counted."""
    file = tmp_path / "a.jsonl"
    recorder = recorded(server, file, told(0), told(1), told(1), told(2), told(5))
    assert len(file.read_text().splitlines()) == 4
    assert looks(file) == [5, 10, 25]
    assert (recorder.written, recorder.missed) == (3, 2)
    assert "3 snapshots" in recorder.summary()
    assert "2 looks" in recorder.summary()


def test_names_are_asked_for_only_if_wanted(server: FakeGuardServer, tmp_path: Path) -> None:
    """The server leaves them out otherwise; and nobody else can read the file."""
    recorded(server, tmp_path / "a.jsonl", told(1))
    recorded(server, tmp_path / "b.jsonl", told(1), names=True)
    assert [path.rpartition("?")[2] for path in server.asked] == ["names=0", "names=1"]
    assert (tmp_path / "a.jsonl").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("names", [True, False])
def test_names_go_only_into_a_file_that_nobody_else_can_read(
    server: FakeGuardServer, tmp_path: Path, *, names: bool
) -> None:
    """Also where a recording without names was shared with others before; without names, it stays so."""
    file = tmp_path / "a.jsonl"
    recorded(server, file, told(1))
    file.chmod(0o644)
    recorded(server, file, told(2), names=names)
    assert file.stat().st_mode & 0o777 == (0o600 if names else 0o644)
    assert looks(file) == [5, 10]


def test_a_file_that_is_no_recording_keeps_its_mode(server: FakeGuardServer, tmp_path: Path) -> None:
    """It is refused, and nothing about it is changed."""
    file = tmp_path / "a.txt"
    file.write_text("mine\n")
    file.chmod(0o644)
    server.answers = [told(1)]
    with pytest.raises(CannotRecordError, match="no recording"):
        Recorder(server.known, file, names=True).record(0, lambda _: None)
    assert file.stat().st_mode & 0o777 == 0o644


def test_a_server_that_starts_again_begins_a_new_part(server: FakeGuardServer, tmp_path: Path) -> None:
    """With a header of its own; and while it is away it is waited for."""
    file = tmp_path / "a.jsonl"
    recorder = recorded(server, file, told(1), None, None, told(1, run="run-2"), told(2, run="run-2"))
    assert [(header.run, seen.taken_at.monotonic) for header, seen in Recording(file)] == [
        ("run-1", 5),
        ("run-2", 5),
        ("run-2", 10),
    ]
    assert (recorder.written, recorder.missed) == (3, 0)


def test_a_longer_interval_is_in_the_header(server: FakeGuardServer, tmp_path: Path) -> None:
    """So that a replay does not take each pause for a gap."""
    file = tmp_path / "a.jsonl"
    recorded(server, file, told(1), told(7), interval=30.0)
    assert {header.interval_seconds for header, _ in Recording(file)} == {30}


def test_the_time_is_up(server: FakeGuardServer, tmp_path: Path) -> None:
    """After the duration it ends by itself."""
    passed = [0.0]
    server.answers = [told(look) for look in range(1, 20)]

    def sleep(seconds: float) -> None:
        passed[0] += seconds

    recorder = Recorder(server.known, tmp_path / "a.jsonl", monotonic=lambda: passed[0], sleep=sleep)
    recorder.record(10, lambda _: None)
    assert recorder.written == 5  # now, and each half interval


def test_a_recording_goes_on(server: FakeGuardServer, tmp_path: Path) -> None:
    """What is there stays, also after a line that was cut; --force replaces it."""
    file = tmp_path / "a.jsonl"
    recorded(server, file, told(1))
    file.write_text(file.read_text() + '{"taken_at": {"wa')
    recorded(server, file, told(2))
    recording = Recording(file)
    assert [seen.taken_at.monotonic for _, seen in recording] == [5, 10]
    assert len(recording.notes) == 1
    assert ":3: " in recording.notes[0]
    recorded(server, file, told(3), force=True)
    assert looks(file) == [15]


def test_another_file_is_never_touched(server: FakeGuardServer, tmp_path: Path) -> None:
    """What is no recording is refused, with the way out."""
    file = tmp_path / "thesis.txt"
    file.write_text("chapter one\n")
    server.answers = [told(1)]
    with pytest.raises(CannotRecordError, match="--force"):
        Recorder(server.known, file).record(None, lambda _: None)
    assert file.read_text() == "chapter one\n"


def test_without_an_answer_there_is_no_file(server: FakeGuardServer, tmp_path: Path) -> None:
    """A server that fails, one that is older, one that is newer, and a folder that is not there."""
    file = tmp_path / "a.jsonl"
    server.answers = [None, {"nothing": 1}]
    for word in ("500", "no snapshot"):
        with pytest.raises(CannotRecordError, match=word):
            Recorder(server.known, file).record(None, lambda _: None)
    assert not file.exists()
    server.answers = [told(1)]
    with pytest.raises(CannotRecordError, match="cannot be written"):
        Recorder(server.known, tmp_path / "nowhere" / "a.jsonl").record(None, lambda _: None)
    server.answers = [told(1, version=VERSION + 1)]
    with pytest.raises(CannotRecordError, match="version"):
        Recorder(server.known, file).record(None, lambda _: None)


def test_of_several_servers_one_must_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording is of one; the sentence names them."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    for port in (1, 2):
        told = {"pid": os.getpid(), "url": f"http://localhost:{port}/", "hostname": "localhost", "port": port}
        (tmp_path / f"jpserver-{port}.json").write_text(json.dumps(told))
    result = CliRunner().invoke(main, ["record", str(tmp_path / "a.jsonl")])
    assert result.exit_code == 1
    assert "http://localhost:1/, http://localhost:2/" in result.output
    assert not (tmp_path / "a.jsonl").exists()


@pytest.mark.parametrize(("option", "value"), [("--interval", "often"), ("--duration", "5"), ("--duration", "0")])
def test_a_time_that_is_none_is_refused(server: FakeGuardServer, tmp_path: Path, option: str, value: str) -> None:
    """With what would be right."""
    line = ["record", str(tmp_path / "a.jsonl"), "--server", server.known.url, option, value]
    result = CliRunner().invoke(main, line)
    assert result.exit_code == 1
    assert option in result.output
    assert "write for example" in result.output


# ---- reading ----


@pytest.mark.parametrize(
    ("text", "place", "remedy"),
    [
        ("", "", "record FILE"),
        ("a,b\n1,2\n", ":1:", "record FILE"),
        (f"{HEADER.line()}\n{{}}\n", ":2:", "record anew"),
        (f'{HEADER.line()}\n{{"taken\n{to_json(snapshot())}\n', ":2:", "delete it"),
        (HEADER.line().replace('"version": 1', '"version": 9'), ":1:", "use 0.1.0"),
    ],
)
def test_a_file_that_cannot_be_read_says_where_and_what_to_do(
    tmp_path: Path, text: str, place: str, remedy: str
) -> None:
    """File, line, fault, remedy; in the shell as one sentence and status 1."""
    file = tmp_path / "a.jsonl"
    file.write_text(text)
    with pytest.raises(RecordingError) as error:
        list(Recording(file))
    assert str(error.value).startswith(f"{file}{place}")
    assert remedy in str(error.value)
    result = CliRunner().invoke(main, ["replay", str(file)])
    assert (result.exit_code, result.output.strip()) == (1, str(error.value))


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    """And no traceback."""
    with pytest.raises(RecordingError, match="No such file"):
        list(Recording(tmp_path / "nowhere.jsonl"))


# ---- replay ----


def written(file: Path, *parts: tuple[Header, list[Any]]) -> Path:
    """A recording of these parts."""
    lines = [line for header, film in parts for line in (header.line(), *(to_json(seen) for seen in film))]
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


def test_a_replay_is_what_the_code_says_of_the_film_itself(tmp_path: Path) -> None:
    """On its way through a file nothing changes."""
    policy = load([GOLDEN / "quarter.policy.yaml"])
    film = still(120)
    file = written(tmp_path / "a.jsonl", (HEADER, film))
    carried, expected = Carried(), []
    for picture in film:
        scene = rehearse(picture, carried, policy, 10.0)
        carried = scene.carried
        expected += scene.acts
    assert len(expected) == 2
    assert replay(file, policy).acts == expected


def test_a_new_run_knows_nothing_of_the_one_before(tmp_path: Path) -> None:
    """As a server that starts again; a header in between that is of the same run changes nothing."""
    policy = load([GOLDEN / "quarter.policy.yaml"])
    film = still(50)
    again = Header("0.1.0", "run-2", 5.0)
    one = written(tmp_path / "one.jsonl", (HEADER, film[:25]), (HEADER, film[25:]))
    two = written(tmp_path / "two.jsonl", (HEADER, film[:25]), (again, film[25:]))
    assert len(replay(one, policy).acts) == 1
    assert replay(two, policy).acts == []


def test_what_was_used_is_known_to_the_next_run(tmp_path: Path) -> None:
    """As on a disk: a budget does not begin anew with a server."""
    budget = Budget("day", Measure.GIB_HOURS, 1e-9, timedelta(days=1), "used-up", Per.USER)
    used_up = Rule("used-up", Match(user="nobody"), Idle(lasting=timedelta(seconds=30)))
    policy = Policy(rules=(used_up, Rule("default")), budgets=(budget,))
    film = still(50)
    again = Header("0.1.0", "run-2", 5.0)
    two = written(tmp_path / "two.jsonl", (HEADER, film[:5]), (again, film[5:]))
    assert replay(two, policy).acts[0].verdict.rule == "used-up"
    assert replay(two, replace(policy, budgets=(replace(budget, limit=1e9),))).acts == []


def test_a_replay_may_be_that_of_a_user(tmp_path: Path) -> None:
    """A recording does not tell whose it is: rules about people hold for whom one names."""
    ruled = tmp_path / "p.yaml"
    ruled.write_text(
        "version: 1\nrules:\n"
        "  - {name: ada, match: {user: ada, group: students, server: big}, idle: {for: 1m}}\n"
        "  - {name: rest, match: {user: '*'}, idle: {for: 2m}}\n",
        encoding="utf-8",
    )
    file = written(tmp_path / "a.jsonl", (HEADER, still(60)))

    def rules(*words: str) -> set[str]:
        result = CliRunner().invoke(main, ["replay", str(file), "--policy", str(ruled), "--json", *words])
        assert result.exit_code == 0, result.output
        return {act["rule"] for act in json.loads(result.output)["acts"]}

    assert rules() == set()
    assert rules("--user", "bob") == {"rest"}
    assert rules("--user", "ada", "--group", "lab", "--group", "students", "--server", "big") == {"ada"}


def test_while_nobody_is_on_a_device_looks_are_further_apart(tmp_path: Path) -> None:
    """As in the guard, such a pause is no gap: what was idle before is idle since then."""
    early, late = still(60)[0], still(60)[20:]
    film = [replace(early, clients=()), *late]
    policy = load([GOLDEN / "quarter.policy.yaml"])
    resting = Header("0.1.0", "run-1", 5.0, 60.0)
    begun = [
        replay(written(tmp_path / f"{name}.jsonl", (header, film)), policy).acts[0].outcome.at
        for name, header in (("one", HEADER), ("two", resting))
    ]
    assert (begun[0] - begun[1]).total_seconds() == 100


def test_rules_that_match_notebooks_do_not_apply_without_names(tmp_path: Path) -> None:
    """That is said, so that nobody takes silence for an answer."""
    rules = tmp_path / "policy.yaml"
    rules.write_text("version: 1\nrules: [{name: x, match: {notebook: 'a/**'}, keep: true}]\n")
    file = written(tmp_path / "a.jsonl", (HEADER, still(3)))
    assert any("without names" in note for note in replay(file, load([rules])).notes)
    assert replay(file, Policy()).notes == []


def test_the_golden_recording_gives_the_golden_result() -> None:
    """What the code makes of a quarter of an hour; a change shows as a difference to look at (`make goldens`)."""
    policy = GOLDEN / "quarter.policy.yaml"
    line = ["replay", str(GOLDEN / "quarter.jsonl"), "--policy", str(policy), "--json"]
    result = CliRunner().invoke(main, line)
    assert result.exit_code == 0, result.output
    told = json.loads(result.output)
    assert told["policy"].pop("source").endswith("quarter.policy.yaml")
    assert told == json.loads((GOLDEN / "quarter.replay.json").read_text(encoding="utf-8"))
    assert {act["action"] for act in told["acts"]} == {"warn", "shutdown"}


def test_the_golden_recording_is_what_its_script_makes() -> None:
    """So that it can be changed by changing the script."""
    script = HERE.parent / "scripts" / "goldens.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_replay_in_words() -> None:
    """When, to whom, by which rule, why; and how often in all."""
    policy = GOLDEN / "quarter.policy.yaml"
    result = CliRunner().invoke(main, ["replay", str(GOLDEN / "quarter.jsonl"), "--policy", str(policy)])
    assert "would have shut down notebook-1 (kernel:a), which held 12.0 GiB" in result.output
    assert "Rule: default." in result.output
    assert "the limit is 3 min." in result.output
    assert "Shutdowns: 2." in result.output


# ---- a real server ----


class RealServer:
    """A Jupyter server with simulated GPUs, in a process of its own."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        names = ("HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")
        self.environment = {**os.environ, **{name: str(folder / name.lower()) for name in names}}
        root = folder / "root"
        for path in (root, *(folder / name.lower() for name in names)):
            path.mkdir()
        line = [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", "--ip=127.0.0.1"]
        line += [f"--port={self.port}", "--ServerApp.port_retries=0", "--IdentityProvider.token=t0ken"]
        line += [f"--ServerApp.root_dir={root}", "--ServerApp.jpserver_extensions=jupyter_gpu_guard=True"]
        line += ["--GpuGuard.devices=simulated", "--GpuGuard.sample_interval=0.5", "--GpuGuard.resting_interval=0"]
        self.log = (folder / "log").open("wb")
        self._process = subprocess.Popen(line, env=self.environment, stdout=self.log, stderr=self.log, cwd=root)

    def ask(self, path: str, body: Any = None, token: str = "t0ken") -> Any:
        """One request."""
        request = urllib.request.Request(self.url + path, json.dumps(body).encode() if body is not None else None)
        if token:
            request.add_header("Authorization", f"token {token}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def refuses(self, path: str, token: str = "t0ken") -> tuple[int, Any]:
        """The status of a request that is refused, and what is said."""
        with pytest.raises(urllib.error.HTTPError) as refused:
            self.ask(path, token=token)
        with refused.value as answer:
            return answer.code, json.load(answer)

    def until(self, look: Any) -> Any:
        """What `look` gives once it is something. A machine under load may take its time."""
        end = time.monotonic() + 90
        while True:
            try:
                found = look()
            except urllib.error.HTTPError as refused:
                refused.close()
                found = None
            except OSError:
                found = None
            if found:
                return found
            assert self._process.poll() is None, Path(self.log.name).read_text()
            assert time.monotonic() < end, Path(self.log.name).read_text()
            time.sleep(0.2)

    def bury(self) -> None:
        """End it, with its kernels."""
        self._process.terminate()
        self._process.wait(60)
        self.log.close()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """A real server with a notebook whose kernel runs."""
    real = RealServer(tmp_path_factory.mktemp("server"))
    try:
        real.until(lambda: real.ask("gpu-guard/api/v1/health")["ticks"] > 0)
        kernel = {"path": "private/thesis.ipynb", "name": "", "type": "notebook", "kernel": {"name": "python3"}}
        real.ask("api/sessions", kernel)
        real.until(lambda: real.ask("gpu-guard/api/v1/snapshot?names=1")["snapshot"].get("owners"))
        yield real
    finally:
        real.bury()


def test_the_last_snapshot_can_be_asked_for(running: RealServer) -> None:
    """With names if they are wanted, with words in their place otherwise, and always the same ones."""
    plain, named = (running.ask(f"gpu-guard/api/v1/snapshot{query}") for query in ("", "?names=1"))
    assert named["snapshot"]["owners"][0]["notebook"] == "private/thesis.ipynb"
    assert "thesis" not in json.dumps(plain)
    assert "private" not in json.dumps(plain)
    again = running.ask("gpu-guard/api/v1/snapshot?names=0")
    assert again["snapshot"]["owners"][0]["notebook"] == plain["snapshot"]["owners"][0]["notebook"]
    assert plain["look"] > 0
    assert plain["interval_seconds"] == 0.5
    pids = {row["key"]["pid"] for row in plain["snapshot"]["processes"]}
    assert plain["snapshot"]["owners"][0]["root"]["pid"] in pids


def test_the_snapshot_is_guarded_like_all_else(running: RealServer) -> None:
    """No token, no answer; and a query that means nothing is refused with a sentence."""
    assert running.refuses("gpu-guard/api/v1/snapshot", token="")[0] == 403
    status, said = running.refuses("gpu-guard/api/v1/snapshot?names=perhaps")
    assert status == 400
    assert "0 or 1" in said["message"]


def test_a_real_server_is_recorded_and_replayed(running: RealServer, tmp_path: Path) -> None:
    """By the commands that a person uses, ended with Ctrl-C; every look is there, and none of the names."""
    file = tmp_path / "day.jsonl"
    line = [sys.executable, "-m", "jupyter_gpu_guard", "record", str(file), "--server", str(running.port)]
    recorder = subprocess.Popen(line, env=running.environment, stdout=subprocess.PIPE, text=True)
    try:
        running.until(lambda: len(file.read_text().splitlines()) > 5)
        recorder.send_signal(signal.SIGINT)
        said, _ = recorder.communicate(timeout=60)
    finally:
        recorder.kill()
        recorder.wait()
    assert recorder.returncode == 0
    assert "snapshots written" in said
    assert "thesis" not in file.read_text()
    assert len(looks(file)) >= 5
    replayed = replay(file, Policy())
    assert replayed.simulated
    assert not replayed.names
    assert replayed.snapshots == len(looks(file))
