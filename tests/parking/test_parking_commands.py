"""`jupyter gpu-guard parked` and `resume` without a server: what is written down is enough."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from jupyter_gpu_guard.core.model import OwnerKey, OwnerKind
from jupyter_gpu_guard.parking.asking import ask_helper
from jupyter_gpu_guard.parking.registry import Entry, Phase, Registry
from tests.driver import GpuProgram
from tests.driver.scene import FIRST

GIB = 2**30


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """What a server that is gone has left behind."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    return Registry(tmp_path / "data" / "gpu-guard" / "parked.json")


@pytest.fixture
def entry(program, registry):
    """A process that is parked, and written down."""
    made = Entry(
        owner=OwnerKey(OwnerKind.KERNEL, "abc"),
        name="train.ipynb",
        root=program.key,
        process=program.key,
        since=datetime(2030, 5, 1, 12, tzinfo=timezone.utc),
        memory={FIRST: float(GIB)},
        phase=Phase.PARKED,
    )
    registry.put(made)
    assert asyncio.run(ask_helper("park", program.key)).fault is None
    return made


def run(*words):
    """One command's exit status and text."""
    command = [sys.executable, "-m", "jupyter_gpu_guard", *words]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return result.returncode, result.stdout


def test_parked_is_listed(entry, program):
    """With what the driver says of it."""
    line = f"train.ipynb (kernel:abc), pid {program.pid}: 1.0 GiB since 2030-05-01 12:00 UTC, checkpointed\n"
    assert run("parked") == (0, line)
    (row,) = json.loads(run("parked", "--json")[1])["parked"]
    assert (row["owner"], row["memory_bytes"], row["state"]) == ("kernel:abc", GIB, "checkpointed")


@pytest.mark.parametrize("words", [(), ("kernel:abc",), ("train.ipynb",)])
def test_it_is_resumed(entry, program, registry, words):
    """It has its memory back, and is written down no more."""
    code, text = run("resume", *words)
    assert (code, text.startswith("train.ipynb: resumed after")) == (0, True), text
    assert program.held == GIB
    registry.refresh()
    assert registry.entries == ()
    assert run("resume") == (0, "Nothing is parked.\n")


def test_what_came_of_it_as_json(entry, program, registry):
    """A row for each, with or without a name; none is no failure."""
    code, text = run("resume", "--json")
    (row,) = json.loads(text)["resumed"]
    assert (code, row["owner"], row["name"], row["resumed"]) == (0, "kernel:abc", "train.ipynb", True)
    assert run("resume", "--json") == (0, '{\n  "resumed": []\n}\n')
    code, text = run("resume", "--pid", "4194301", "--json")
    none = {"owner": None, "name": "pid 4194301", "resumed": False, "detail": "There is no process 4194301."}
    assert (code, json.loads(text)) == (1, {"resumed": [none]})


def test_it_is_resumed_by_its_pid_alone(entry, program, registry):
    """Also when what was written down is lost."""
    registry.path.unlink()
    code, text = run("resume", "--pid", str(program.pid))
    assert code == 0, text
    assert program.held == GIB
    assert run("resume", "--pid", "4194301") == (1, "There is no process 4194301.\n")


def test_where_the_device_does_not_answer_nothing_is_tried(entry, driver, registry):
    """What is not known is no room."""
    driver.fault("all lost 1")
    code, text = run("resume")
    assert code == 1
    assert "it is not known how much is free" in text
    registry.refresh()
    assert registry.entries == (entry,)


def test_without_room_it_stays_parked(entry, program, driver, registry):
    """It is said how much is missing, and nothing is tried."""
    other = GpuProgram(driver.folder)
    try:
        assert other.run("gpu.hold('79 GiB')") == "done"
        code, text = run("resume")
        assert code == 1
        assert "there is no room: it needs 1.0 GiB on GPU 0, free there: 512.0 MiB (others 79.0 GiB)" in text
    finally:
        other.bury()
    assert program.held == 0
    registry.refresh()
    assert registry.entries == (entry,)


def test_a_failure_of_the_driver_is_told(entry, driver, registry):
    """It stays written down."""
    driver.fault("global cuda_error 999 cuCheckpointProcessRestore")
    code, text = run("resume", "kernel:abc")
    assert code == 1
    assert "the driver refuses the step restore" in text
    assert "it is checkpointed" in text
    registry.refresh()
    assert registry.entries == (entry,)


def test_who_is_not_parked_is_not_found(registry):
    """A slip of the pen is told."""
    assert run("parked") == (0, "Nothing is parked.\n")
    assert run("resume", "kernel:abd") == (1, "kernel:abd is not parked.\n")


BEFORE = {"id": "1", "owner": "kernel:abc", "action": "resume", "result": "failed", "detail": "of yesterday"}
AFTER = {"id": "2", "owner": "kernel:abc", "action": "resume", "result": "done", "detail": "back after 40.0 s"}


class FakeGuardServer(BaseHTTPRequestHandler):
    """A server that has the kernel, and needs longer to resume it than anybody waits for an answer."""

    begun = False

    def do_GET(self):
        """Its report; once it has begun, the next one has the outcome."""
        done = [BEFORE, AFTER] if type(self).begun else [BEFORE]
        self._answer(200, {"holders": [{"owner": "kernel:abc"}], "outcomes": done})

    def do_POST(self):
        """It has begun."""
        type(self).begun = True
        self._answer(202, {"message": "under way; the outcome will be in the report"})

    def _answer(self, status, body):
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """Say nothing."""


def test_what_takes_its_time_on_a_server_is_waited_for(entry, registry, tmp_path):
    """Its outcome is said, and not an older one; the server does it, and nobody else."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeGuardServer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        port = server.server_port
        known = {"pid": os.getpid(), "port": port, "hostname": "localhost", "url": f"http://localhost:{port}/"}
        (tmp_path / "runtime").mkdir(exist_ok=True)
        (tmp_path / "runtime" / "jpserver-1.json").write_text(json.dumps(known))
        assert run("resume") == (0, "train.ipynb: back after 40.0 s\n")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    registry.refresh()
    assert registry.entries == (entry,)
