"""Under a real JupyterHub: two users of two groups, each under the rule for their group and seeing only their own."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import websocket
from playwright.sync_api import Page, expect

from jupyter_gpu_guard.server.handlers import ROUTES
from tests.driver import StandIn

from .browser import Notebook, browsing, open_panel, picture
from .hub import PASSWORD, Hub, UserServer, others_python, proxy
from .lab import EMPTY_NOTEBOOK, GPU, start_ticks, until

pytest.importorskip("jupyterhub")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(proxy() is None, reason="JupyterHub's proxy, configurable-http-proxy, is not installed"),
]

STUDENT, MEMBER = "anna", "ben@lab"  # one whose name is written otherwise in some addresses
SECRET = "hunter2-is-my-token"
API = "gpu-guard/api/v1"
LOOKS = 20

POLICY = """\
version: 1
mode: enforce
defaults:
  idle: {compute_below: 5%, memory_above: 512MiB, for: 8h}
  notice: 6s
  undelivered: 6s
  ladder: [{do: warn}, {do: shutdown, after: 6s}]
rules:
  - {name: shown, match: {notebook: "shown/**"}, keep: true}
  - name: unhurried
    match: {notebook: "mine/**"}
    idle: {for: 8s}
    notice: 90s
    undelivered: 90s
    ladder: [{do: warn}, {do: shutdown, after: 90s}]
  - {name: students, match: {group: students}, idle: {for: 6s}}
  - {name: staff, match: {group: staff}, idle: {for: 24s}}
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that every user of this machine may look into; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory(prefix="gpu-guard-hub-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def hub(folder: Path) -> Iterator[Hub]:
    """A Hub with two users; one has files in her home that would switch the guard off."""
    hub = Hub(
        folder,
        users={STUDENT: ("students", "first-year"), MEMBER: ("staff",)},
        policy=POLICY,
        driver=StandIn(folder / "driver"),
    )
    own = hub.home(STUDENT) / ".jupyter"
    off = "c.ServerApp.jpserver_extensions = {'jupyter_gpu_guard': False}\nc.GpuGuard.devices = 'simulated'\n"
    (own / "jupyter_server_config.py").write_text(off, encoding="utf-8")
    with hub:
        yield hub


@pytest.fixture(scope="module")
def servers(hub: Hub) -> dict[str, UserServer]:
    """The servers of both, after their first look."""
    servers = dict(zip((STUDENT, MEMBER), hub.start(STUDENT, MEMBER), strict=True))
    for server in servers.values():
        server.wait_for_first_look()
    return servers


class Listener:
    """Everything that comes over a server's websocket for events."""

    def __init__(self, server: UserServer) -> None:
        address = f"{server.url.replace('http', 'ws', 1)}api/events/subscribe"
        self._socket = websocket.create_connection(
            address, timeout=1, header={"Authorization": f"token {server.token}"}
        )
        self.frames: list[str] = []
        self._open = True
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        while self._open:
            try:
                self.frames.append(str(self._socket.recv()))
            except websocket.WebSocketTimeoutException:
                continue

    def close(self) -> None:
        """Listen no more."""
        self._open = False
        self._thread.join()
        self._socket.close()


@dataclass(frozen=True)
class Scene:
    """What became of two idle kernels, and all that the second user's server said meanwhile, by where it said it."""

    outcomes: dict[str, Any]
    outlived: bool
    strangers: list[Any]
    heard: dict[str, str]


def _answers(server: UserServer, owner: str) -> dict[str, str]:
    """Every answer to a GET of the guard, and what else a server says of itself."""
    plain = [route.rpartition("/v1/")[2] for route, _ in ROUTES]
    paths = [f"{API}/{path}" for path in plain if "(" not in path]
    paths += [f"{API}/explain/{owner}", f"{API}/snapshot?names=1", "metrics", "api/status", "api/kernels"]
    return {path: json.dumps(server.request("GET", path)) for path in [*paths, "api/sessions", "api/terminals"]}


@pytest.fixture(scope="module")
def scene(hub: Hub, servers: dict[str, UserServer]) -> Scene:
    """Both hold memory without compute until it is taken; the student has something to hide."""
    student, member = servers[STUDENT], servers[MEMBER]
    listener = Listener(member)
    try:
        theirs = member.start_kernel("work/model.ipynb")
        theirs.run(GPU + "gpu.hold('2 GiB')")
        theirs.close()
        hidden = student.start_kernel("salary.ipynb")
        hold = f"import time; {GPU.strip()}; gpu.hold(3 << 30); time.sleep(999)"
        hidden.run(f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {hold!r}, {SECRET!r}])")
        hidden.close()
        row = until(lambda: (h := student.holder(hidden.id)) and h["memory_bytes"] and h, "the student's row")
        child = row["holdings"][0]["processes"][0]["pid"]
        assert SECRET in Path(f"/proc/{child}/cmdline").read_text(encoding="utf-8")  # it is there to be found
        strangers = until(lambda: member.report()["strangers"], "the student's memory in the other report")
        heard = {f"before: {path}": text for path, text in _answers(member, f"kernel:{theirs.id}").items()}
        outcomes = {"students": until(lambda: _lost(student, hidden.id), "the student's loss", 120)}
        outlived = start_ticks(theirs.pid) is not None
        outcomes["staff"] = until(lambda: _lost(member, theirs.id), "the other's loss", 120)
        heard |= {f"after: {path}": text for path, text in _answers(member, f"kernel:{theirs.id}").items()}
        until(lambda: any(theirs.id in frame for frame in listener.frames), "the event of it")
    finally:
        listener.close()
    heard |= {f"event {number}": frame for number, frame in enumerate(listener.frames)}
    return Scene(outcomes, outlived, strangers, heard)


def _lost(server: UserServer, kernel_id: str) -> Any | None:
    outcome = server.outcome(kernel_id)
    return outcome if outcome and outcome["action"] == "shutdown" else None


@pytest.mark.parametrize(("group", "limit"), [("students", 6), ("staff", 24)])
def test_each_kernel_is_ended_by_the_rule_for_its_users_group(scene: Scene, group: str, limit: int) -> None:
    """The Hub's groups reach the server; the first rule for one of them decides, with its own limit."""
    outcome = scene.outcomes[group]
    assert (outcome["result"], outcome["rule"]) == ("done", group)
    reason = outcome["reasons"][0]
    assert reason["facts"]["for_seconds"] == limit
    assert reason["facts"]["idle_seconds"] >= limit + 6


def test_the_group_with_the_longer_limit_keeps_its_kernel_longer(scene: Scene) -> None:
    """When the student's kernel was gone, the other one, idle for longer, was still alive."""
    assert scene.outlived


def test_nothing_of_another_user_is_told(scene: Scene) -> None:
    """Neither the name of a notebook nor a command line of one user is in any answer, metric or event of another."""
    assert [line["memory_bytes"] for line in scene.strangers] == [3 * 2**30]  # one anonymous line
    answered = [text for place, text in scene.heard.items() if text.startswith("[200")]
    assert len(answered) >= 16, sorted(scene.heard)
    assert any("model.ipynb" in text for place, text in scene.heard.items() if place.startswith("event"))
    for place, text in scene.heard.items():
        for word in ("salary", SECRET, STUDENT):
            assert word not in text, (place, word)


def test_another_users_server_does_not_answer(hub: Hub, servers: dict[str, UserServer]) -> None:
    """With the token of one user, the guard of another is not to be had."""
    theirs = UserServer(hub, STUDENT, servers[MEMBER].token)
    for path in ("report", "health", "snapshot?names=1"):
        assert theirs.request("GET", f"{API}/{path}")[0] == 403


def test_files_in_the_home_change_nothing(hub: Hub, servers: dict[str, UserServer]) -> None:
    """Where the Hub disables configuration by users, one who switches the extension off has it all the same."""
    report = servers[STUDENT].report()
    assert report["mode"] == "enforce"
    assert report["policy"]["source"] == str(hub.policy)
    assert report["simulated"] is False


@pytest.mark.skipif(others_python() is None, reason="only root can start the processes of others")
def test_each_users_kernels_run_as_that_user(hub: Hub, servers: dict[str, UserServer]) -> None:
    """What the guard of one user sees of another's processes is what Linux lets them see: they have different uids."""
    kernels = [server.start_kernel("shown/uid.ipynb") for server in servers.values()]
    uids = [Path(f"/proc/{kernel.pid}").stat().st_uid for kernel in kernels]
    for kernel in kernels:
        kernel.close()
    assert uids == list(hub.uids.values())


def test_ending_a_kernel_is_no_activity_of_its_server(hub: Hub, servers: dict[str, UserServer]) -> None:
    """What a culler of servers reads from the Hub stays where it was when the guard warns and ends a kernel."""
    server = servers[MEMBER]
    kernel = server.start_kernel("work/forgotten.ipynb")
    kernel.run(GPU + "gpu.hold('2 GiB')")
    kernel.close()
    # The proxy counts what passes through it: from now on nothing of this server is asked through it.
    activity = _settled(hub)
    assert start_ticks(kernel.pid) is not None
    until(lambda: start_ticks(kernel.pid) is None, "the kernel to be ended", 120)
    assert _settled(hub) == activity
    assert _lost(server, kernel.id)["rule"] == "staff"
    until(lambda: hub.last_activity(MEMBER) > activity, "this very request to count, so that the Hub does look")


def _settled(hub: Hub) -> str:
    """The last activity once it has not moved for several of the Hub's looks, which are a second apart."""
    seen: list[str] = []

    def look() -> bool:
        seen.append(hub.last_activity(MEMBER))
        return len(seen) > LOOKS and len(set(seen[-LOOKS:])) == 1

    until(look, "the last activity to stand still")
    return seen[-1]


@pytest.mark.browser
def test_the_sidebar_works_behind_the_hubs_prefix(hub: Hub, servers: dict[str, UserServer]) -> None:
    """A person logs in at the Hub; rows, events and buttons work, and nothing is asked outside of their own prefix."""
    server = servers[MEMBER]
    for path in ("shown/figures.ipynb", "mine/train.ipynb"):
        place = server.root / path
        place.parent.mkdir(exist_ok=True)
        place.write_text(json.dumps(EMPTY_NOTEBOOK), encoding="utf-8")
        hub.give(place, MEMBER)
    with browsing() as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("websocket", lambda socket: asked.append(socket.url.replace("ws", "http", 1)))
        _log_in(page, hub, server)
        Notebook(page, "shown/figures.ipynb").run(GPU + "gpu.hold('5 GiB')\ngpu.wave(80, 2, 10, 2)")
        mine = Notebook(page, "mine/train.ipynb")
        mine.run(GPU + "gpu.hold('2 GiB')")
        open_panel(page)
        panel = page.get_by_test_id("gpu-guard-panel")
        expect(panel.get_by_role("listitem", name="shown/figures.ipynb")).to_contain_text("5.0 GiB")
        page.get_by_role("alert").filter(has_text="train.ipynb").get_by_role("button", name="Keep 1 h").click()
        expect(panel.get_by_role("button", name="Stop keeping train.ipynb")).to_be_visible()
        picture(page, "hub")
        kernel = mine.kernel_id()
        assert kernel is not None
        assert server.holder(kernel)["lease"] is not None
    assert f"{server.url}api/events/subscribe" in asked
    assert f"{server.url}{API}/report" in {url.partition("?")[0] for url in asked}
    own = (server.url, f"{hub.url}hub/")
    assert [url for url in asked if url.startswith(hub.url) and not url.startswith(own)] == []


def _log_in(page: Page, hub: Hub, server: UserServer) -> None:
    page.goto(f"{hub.url}hub/login?next=/user/{MEMBER}/lab")
    page.fill("#username_input", MEMBER)
    page.fill("#password_input", PASSWORD)
    page.click("#login_submit")
    page.wait_for_url(f"{server.url}lab**")


def test_a_misspelt_key_is_named_at_the_start_and_nothing_is_ended(hub: Hub, servers: dict[str, UserServer]) -> None:
    """A wrong key: a new server says file, line and key, and only observes; a running one goes on with what it had."""
    hub.end(STUDENT)
    wrong = POLICY.replace("match: {group: students}, idle:", "match: {group: students}, idel:")
    line = next(number for number, text in enumerate(wrong.splitlines(), start=1) if "idel" in text)
    try:
        hub.policy.write_text(wrong, encoding="utf-8")
        (server,) = hub.start(STUDENT)
        server.wait_for_first_look()
        fault = server.report()["policy"]["fault"]
        assert f"{hub.policy}:{line}:" in fault
        assert "'idel'" in fault
        assert fault in "\n".join(server.health()["problems"])
        assert f"{hub.policy}:{line}:" in hub.log.read_text(encoding="utf-8")
        kernel = server.start_kernel("work/idle.ipynb")
        kernel.run(GPU + "gpu.hold('2 GiB')")
        kernel.close()
        row = until(lambda: (h := server.holder(kernel.id)) and (h["idle_seconds"] or 0) > 20 and h, "20 s of idleness")
        assert row["verdict"]["action"] == "keep"
        assert server.report()["mode"] == "observe"
        assert server.outcome(kernel.id) is None
        assert start_ticks(kernel.pid) is not None
        member = servers[MEMBER]
        until(lambda: member.report()["policy"]["fault"] == fault, "the fault in the server that ran before")
        assert member.report()["mode"] == "enforce"
    finally:
        hub.policy.write_text(POLICY, encoding="utf-8")
    until(lambda: server.report()["mode"] == "enforce", "the mended file to be taken")
