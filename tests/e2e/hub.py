"""A real JupyterHub with its proxy, over the driver's stand-in; each user's server has a uid of its own where it can.

Only root can start processes of others. Those have no account on this machine: Linux asks for no more than a number.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from typing_extensions import Self

from tests.driver import StandIn

from .lab import Served, ask, until

ROOT = Path(__file__).parents[2]
SNIPPET = ROOT / "deploy/jupyterhub/gpu_guard_config.py"
PASSWORD = "let-the-tests-in"
TOKEN = "the-tests-administer-this-hub"
FIRST_UID = 61_000
PREFIX = Path(sys.prefix)

CONFIG = """\
import os

from jupyterhub.spawner import SimpleLocalProcessSpawner

SETTINGS = {settings!r}


class OwnUidSpawner(SimpleLocalProcessSpawner):
    def make_preexec_fn(self, name):
        before = super().make_preexec_fn(name)
        uid = SETTINGS["uids"].get(name)

        def preexec():
            if uid is not None:
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
            before()

        return preexec


c = get_config()
c.JupyterHub.spawner_class = OwnUidSpawner
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = SETTINGS["password"]
c.Authenticator.allow_all = True
c.JupyterHub.bind_url = SETTINGS["bind_url"]
c.JupyterHub.hub_port = SETTINGS["hub_port"]
c.ConfigurableHTTPProxy.command = SETTINGS["proxy"]
c.ConfigurableHTTPProxy.api_url = SETTINGS["proxy_api"]
c.JupyterHub.load_groups = {{group: {{"users": users}} for group, users in SETTINGS["groups"].items()}}
c.JupyterHub.services = [{{"name": "tests", "api_token": SETTINGS["token"]}}]
c.JupyterHub.load_roles = [
    {{"name": "tests", "services": ["tests"], "scopes": ["admin:users", "admin:servers", "tokens", "list:users"]}}
]
c.Spawner.cmd = SETTINGS["cmd"]
c.Spawner.args = SETTINGS["args"]
c.Spawner.environment = SETTINGS["environment"]
c.SimpleLocalProcessSpawner.home_dir_template = SETTINGS["homes"] + "/{{username}}"
c.JupyterHub.last_activity_interval = 1
c.JupyterHub.tornado_settings = {{"slow_spawn_timeout": 0}}
c.Spawner.start_timeout = 120
c.Spawner.http_timeout = 120
load_subconfig(SETTINGS["snippet"])
"""


@cache
def proxy() -> list[str] | None:
    """The command of configurable-http-proxy: the one in the environment, or any other. None: there is none."""
    for place in (PREFIX / "hub/node_modules/.bin/configurable-http-proxy", shutil.which("configurable-http-proxy")):
        if place is not None and Path(place).exists():
            return [str(place)]
    return None


@cache
def others_python() -> tuple[str, str] | None:
    """A Python of this version that people other than us can run, and the path on which it finds what we have.

    None: there is none, or we may not start processes of others.
    """
    if os.getuid() != 0:
        return None
    path = os.pathsep.join([str(ROOT), *(entry for entry in sys.path if entry.endswith("-packages"))])
    for python in (sys.executable, "/usr/bin/python3.{1}".format(*sys.version_info)):
        try:
            found = subprocess.run(
                [
                    python,
                    "-c",
                    "import zmq, jupyterhub, jupyterlab, jupyter_gpu_guard, sys; print(sys.version_info[1])",
                ],
                **_others(FIRST_UID),
                env={"PATH": os.environ["PATH"], "PYTHONPATH": path, "HOME": "/nonexistent"},
                cwd="/",
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
            )
        except (OSError, subprocess.SubprocessError):
            continue
        if found.stdout.strip() == str(sys.version_info[1]):
            return python, path
    return None


def _others(uid: int) -> dict[str, Any]:
    return {"user": uid, "group": uid, "extra_groups": []}


def _escaped(user: str) -> str:
    """A user's name in an address, as the Hub writes it."""
    return quote(user, safe="@~")


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


class Hub:
    """One running Hub. `users`: the groups of each user. `folder` must be open to all; `policy` is written into it."""

    def __init__(
        self,
        folder: Path,
        *,
        users: Mapping[str, tuple[str, ...]],
        policy: str,
        driver: StandIn,
        options: tuple[str, ...] = (),
    ) -> None:
        self.folder = folder
        self.log = folder / "hub.log"
        self._driver = driver
        self._users = dict(users)
        self._options = options
        self.policy = folder / "site.yaml"
        self.policy.write_text(policy, encoding="utf-8")
        self._open_driver()
        reachable = others_python()
        self.uids = {} if reachable is None else {name: FIRST_UID + n for n, name in enumerate(self._users)}
        self._python, self._path = reachable or (sys.executable, "")
        for name in self._users:
            self._make_home(name)

    def _open_driver(self) -> None:
        """Everybody may say what they hold."""
        (self._driver.folder / "lock").touch()
        (self._driver.folder / "lock").chmod(0o666)
        for place in (self._driver.folder, self._driver.folder / "clients"):
            place.chmod(0o1777)

    def home(self, user: str) -> Path:
        """The home of a user."""
        return self.folder / "homes" / user

    def _make_home(self, user: str) -> None:
        settings = self.home(user) / ".jupyter/lab/user-settings/@jupyterlab/apputils-extension"
        settings.mkdir(parents=True)
        (settings / "notification.jupyterlab-settings").write_text(
            '{"fetchNews": "false", "checkForUpdates": false}', encoding="utf-8"
        )
        self.give(self.home(user), user)
        self.home(user).chmod(0o700)

    def give(self, place: Path, user: str) -> None:
        """Make a file, or a folder with all that is in it, a user's own."""
        for each in [place, *place.rglob("*")] if user in self.uids else []:
            os.chown(each, self.uids[user], self.uids[user])

    def _settings(self) -> dict[str, Any]:
        own, hub, behind = _free_ports(3)
        self.url = f"http://127.0.0.1:{own}/"
        groups: dict[str, list[str]] = {}
        for user, names in self._users.items():
            for name in names:
                groups.setdefault(name, []).append(user)
        wanted = ("LD_LIBRARY_PATH", "JUPYTER_GPU_GUARD_SIMULATED_DIR")
        environment = {name: self._driver.environment()[name] for name in wanted}
        environment["JUPYTERHUB_ACTIVITY_INTERVAL"] = "1"
        if self._python != sys.executable:  # what is beside our own interpreter it cannot find by itself
            environment["PYTHONPATH"] = self._path
            environment["JUPYTER_PATH"] = str(PREFIX / "share/jupyter")
            environment["JUPYTER_CONFIG_PATH"] = str(PREFIX / "etc/jupyter")
            environment["JUPYTERLAB_DIR"] = str(PREFIX / "share/jupyter/lab")
        return {
            "bind_url": self.url,
            "hub_port": hub,
            "proxy": proxy(),
            "proxy_api": f"http://127.0.0.1:{behind}",
            "groups": groups,
            "token": TOKEN,
            "password": PASSWORD,
            "uids": self.uids,
            "homes": str(self.folder / "homes"),
            "cmd": [self._python, "-m", "jupyterhub.singleuser"],
            "args": [
                f"--GpuGuard.policy_paths={self.policy}",
                "--GpuGuard.sample_interval=1",
                "--GpuGuard.grace_time=3",
                "--LabApp.expose_app_in_browser=True",
                "--allow-root",
                *self._options,
            ],
            "environment": environment,
            "snippet": str(SNIPPET),
        }

    def __enter__(self) -> Self:
        config = self.folder / "jupyterhub_config.py"
        config.write_text(CONFIG.format(settings=self._settings()), encoding="utf-8")
        own = self.folder / "hub"
        own.mkdir(mode=0o700)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "jupyterhub", "-f", str(config)],
                cwd=own,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "HOME": str(own), "PATH": f"{PREFIX / 'bin'}{os.pathsep}{os.environ['PATH']}"},
            )
        try:
            until(self._is_up, "the hub to answer", 120)
            for user in self._users:
                status, body = self.api("POST", f"users/{_escaped(user)}")
                assert status in (201, 409), (status, body)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for user in self._users:
            self.api("DELETE", f"users/{_escaped(user)}/server")
        self.stop()

    def stop(self) -> None:
        """End the hub, its proxy and all servers."""
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _is_up(self) -> bool:
        if self._process.poll() is not None:
            raise AssertionError(f"the hub ended:\n{self.log.read_text()}")
        try:
            return self.api("GET", "users")[0] == 200
        except OSError:
            return False

    def api(self, method: str, path: str, body: Any = None, token: str = TOKEN) -> tuple[int, Any]:
        """Status and JSON of one request to the Hub."""
        return ask(method, f"{self.url}hub/api/{path}", token, body)

    def start(self, *users: str) -> list[UserServer]:
        """Start the servers of users, all at once. Each is asked with a token of its very user."""
        for user in users:
            status, body = self.api("POST", f"users/{_escaped(user)}/server")
            assert status in (201, 202), (status, body)
        return [self._started(user) for user in users]

    def _started(self, user: str) -> UserServer:
        until(lambda: self._server(user).get("ready"), f"{user}'s server", 150)
        status, token = self.api("POST", f"users/{_escaped(user)}/tokens", {"note": "tests"})
        assert status == 201, (status, token)
        return UserServer(self, user, token["token"])

    def _server(self, user: str) -> dict[str, Any]:
        """The Hub's word on a user's server; empty: it has none."""
        servers: dict[str, dict[str, Any]] = self.api("GET", f"users/{_escaped(user)}")[1]["servers"]
        return servers.get("", {})

    def end(self, user: str) -> None:
        """End a user's server."""
        status, body = self.api("DELETE", f"users/{_escaped(user)}/server")
        assert status in (202, 204), (status, body)
        until(lambda: not self._server(user), f"the end of {user}'s server")

    def last_activity(self, user: str) -> str:
        """What a culler of servers reads of this user's server."""
        return str(self._server(user)["last_activity"])


class UserServer(Served):
    """One user's server behind the Hub's proxy."""

    def __init__(self, hub: Hub, user: str, token: str) -> None:
        self.user = user
        self.token = token
        self.url = f"{hub.url}user/{_escaped(user)}/"
        self.root = hub.home(user)
        self.runtime = self.root / ".local/share/jupyter/runtime"

    def wait_for_first_look(self) -> None:
        """Until the guard has looked once."""
        until(lambda: self.request("GET", "gpu-guard/api/v1/health")[0] == 200, "the extension")
        until(lambda: self.health()["ticks"] > 0, "the first look")
