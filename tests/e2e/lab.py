"""A real Jupyter server in a process of its own, with its own home, over the driver's stand-in."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from jupyter_client import BlockingKernelClient
from typing_extensions import Self

from tests.driver import StandIn

TOKEN = "let-the-tests-in"
PATIENCE = 60.0  # seconds; only ever reached when something is broken

T = TypeVar("T")

QUICK_POLICY = """\
version: 1
mode: enforce
defaults:
  idle: {compute_below: 5%, memory_above: 512MiB, for: 8s}
  notice: 12s
  undelivered: 12s
  keep: {longest: 8h}
  ladder: [{do: warn}, {do: shutdown, after: 12s}]
"""


def until(look: Callable[[], T | None], what: str, patience: float = PATIENCE) -> T:
    """What `look` returns once it is true. Fails when it has not become so for `patience` seconds."""
    end = time.monotonic() + patience
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"waited {patience:g} s in vain for {what}; last seen: {found!r}")
        time.sleep(0.2)


def ask(method: str, url: str, token: str, body: Any = None) -> tuple[int, Any]:
    """Status and JSON, or text, of one request with a token."""
    request = urllib.request.Request(
        url,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"token {token}", "Content-Type": "application/json"},
    )
    try:
        answer: Any = urllib.request.urlopen(request, timeout=30)
    except urllib.error.HTTPError as refusal:
        answer = refusal
    with answer:
        text = answer.read()
        is_json = answer.headers.get_content_type() == "application/json"
        return answer.status, json.loads(text) if text and is_json else text.decode() or None


class Served:
    """A server that answers: its address, a token for it, the folders that its user and its kernels' files are in."""

    url: str
    token: str
    root: Path
    runtime: Path

    # ---- REST ----

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON of one request with the token."""
        return ask(method, self.url + path, self.token, body)

    def get(self, path: str) -> Any:
        """The JSON of a GET that must succeed."""
        status, body = self.request("GET", path)
        assert status == 200, (status, body)
        return body

    def report(self) -> Any:
        """The guard's report."""
        return self.get("gpu-guard/api/v1/report")

    def health(self) -> Any:
        """The guard's health."""
        return self.get("gpu-guard/api/v1/health")

    def holder(self, kernel_id: str) -> Any | None:
        """The holder of one kernel, if the report has it."""
        return next((h for h in self.report()["holders"] if h["owner"] == f"kernel:{kernel_id}"), None)

    def outcome(self, kernel_id: str) -> Any | None:
        """The last outcome for one kernel."""
        found = [o for o in self.report()["outcomes"] if o["owner"] == f"kernel:{kernel_id}"]
        return found[-1] if found else None

    def notice(self, kernel_id: str) -> Any | None:
        """The standing warning for one kernel."""
        return next((n for n in self.report()["notices"] if n["owner"] == f"kernel:{kernel_id}"), None)

    # ---- kernels ----

    def start_kernel(self, notebook: str, kernelspec: str = "python3") -> Kernel:
        """A kernel with a session for `notebook`, as an open tab makes one, but without a client."""
        path = self.root / notebook
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(json.dumps(EMPTY_NOTEBOOK), encoding="utf-8")
        body = {"path": notebook, "name": notebook, "type": "notebook", "kernel": {"name": kernelspec}}
        status, session = self.request("POST", "api/sessions", body)
        assert status == 201, (status, session)
        return Kernel(self, session["kernel"]["id"])

    def kernel_ids(self) -> list[str]:
        """The ids of all kernels of the server."""
        return [kernel["id"] for kernel in self.get("api/kernels")]


class Lab(Served):
    """One running server. `root` is the folder that its user sees. `prefix` is a command that runs a command."""

    base_url = "/"

    def __init__(
        self,
        folder: Path,
        *,
        policy: str | None = QUICK_POLICY,
        driver: StandIn | None = None,
        options: tuple[str, ...] = (),
        interval: float = 1.0,
        grace: float = 3,
        python: str = sys.executable,
        prefix: tuple[str, ...] = (),
    ) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.runtime = folder / "runtime"
        self.token = TOKEN
        self.log = folder / "server.log"
        self._driver = driver
        self._python = python
        self._prefix = prefix
        self._options = [*options, f"--GpuGuard.grace_time={grace}"]
        self._options.append(f"--GpuGuard.sample_interval={interval}")
        for name in ("root", "home", "config", "runtime", "data", "settings"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        if policy is not None:
            (folder / "policy.yaml").write_text(policy, encoding="utf-8")
            self._options.append(f"--GpuGuard.policy_paths={folder / 'policy.yaml'}")
        notifications = folder / "settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
        notifications.parent.mkdir(parents=True, exist_ok=True)
        notifications.write_text('{"fetchNews": "false", "checkForUpdates": false}', encoding="utf-8")

    def environment(self) -> dict[str, str]:
        """The environment of the server, and of a shell of its user."""
        base = self._driver.environment() if self._driver is not None else dict(os.environ)
        return {
            **base,
            "HOME": str(self.folder / "home"),
            "JUPYTER_CONFIG_DIR": str(self.folder / "config"),
            "JUPYTER_RUNTIME_DIR": str(self.folder / "runtime"),
            "JUPYTER_DATA_DIR": str(self.folder / "data"),
            "JUPYTERLAB_SETTINGS_DIR": str(self.folder / "settings"),
            "JUPYTER_PREFER_ENV_PATH": "1",
            "IPYTHONDIR": str(self.folder / "home/ipython"),
        }

    def __enter__(self) -> Self:
        self.start(self._is_up)
        return self

    def start(self, is_up: Callable[[], bool]) -> None:
        """Start the server and wait until it is up."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}{self.base_url}"
        command = [*self._prefix, self._python, "-m", "jupyter", "lab", "--no-browser", "--allow-root"]
        command += ["--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"]
        command += [f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={self.root}"]
        command += [f"--ServerApp.base_url={self.base_url}"]
        command += ["--LabApp.expose_app_in_browser=True"]
        command += ["--JupyterNotebookApp.expose_app_in_browser=True", *self._options]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=self.environment(), stdout=log, stderr=subprocess.STDOUT, cwd=self.root
            )
        try:
            until(lambda: self._answers(is_up), "the server to answer", 90)
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The server's pid, as it is called from outside."""
        if not self._prefix:
            return self._process.pid
        before = self._process.pid  # the command of the prefix has one child
        return int(Path(f"/proc/{before}/task/{before}/children").read_text(encoding="ascii"))

    def stop(self) -> int:
        """End the server politely, and its kernels with it. Its exit status; negative: it had to be killed."""
        if self._process.poll() is None:
            os.kill(self.pid, signal.SIGTERM)
        try:
            return self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _is_up(self) -> bool:
        return bool(self.health()["ticks"] > 0)

    def _answers(self, is_up: Callable[[], bool]) -> bool:
        if self._process.poll() is not None:
            raise AssertionError(f"the server ended:\n{self.log.read_text()}")
        try:
            return is_up()
        except (OSError, AssertionError):  # not yet, or not yet the extension
            return False


class Kernel:
    """One kernel, driven over its own channels like by a client that has no tab open."""

    def __init__(self, lab: Served, kernel_id: str) -> None:
        self.id = kernel_id
        self._lab = lab
        self.client = BlockingKernelClient()
        self.client.load_connection_file(str(lab.runtime / f"kernel-{kernel_id}.json"))
        self.client.start_channels()
        until(self._is_ready, "the kernel to answer")
        self.pid = int(self.run("import os; print(os.getpid())"))

    def _is_ready(self) -> bool:
        try:
            self.client.wait_for_ready(timeout=PATIENCE)
        except RuntimeError:  # on a busy machine a heartbeat may come too late
            return False
        return True

    def run(self, code: str) -> str:
        """Execute `code`, wait for its end, and return what it printed."""
        printed: list[str] = []

        def collect(message: dict[str, Any]) -> None:
            if message["msg_type"] == "stream":
                printed.append(message["content"]["text"])

        reply = self.client.execute_interactive(code, timeout=PATIENCE, output_hook=collect)
        assert reply["content"]["status"] == "ok", reply["content"]
        return "".join(printed).strip()

    def begin(self, code: str) -> None:
        """Execute `code` and do not wait."""
        self.client.execute(code)

    def close(self) -> None:
        """Let go of the channels; the kernel lives on."""
        self.client.stop_channels()


GPU = "from jupyter_gpu_guard.kernel import simulated_gpu as gpu\n"

EMPTY_NOTEBOOK = {
    "cells": [
        {"cell_type": "code", "execution_count": None, "id": "first", "metadata": {}, "outputs": [], "source": ""}
    ],
    "metadata": {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    },
    "nbformat": 4,
    "nbformat_minor": 5,
}


def start_ticks(pid: int) -> int | None:
    """Field 22 of the process's stat, or None if there is no such process or it is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def quoted(owner: str) -> str:
    """An owner as part of a URL."""
    return urllib.parse.quote(owner, safe="")
