"""TensorBoards beside kernels, on one real server: a program of that name does what can be seen of a real one."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from board_stub import install

from tests.driver import StandIn

from .lab import GPU, QUICK_POLICY, Kernel, Lab, quoted, start_ticks, until

POLICY = (
    QUICK_POLICY
    + """\
rules:
  - name: boards
    match: {owner: tensorboard}
    idle: {for: 6s}
    notice: 6s
    undelivered: 6s
    ladder: [{do: warn}, {do: shutdown, after: 6s}]
"""
)


class Boards:
    """The TensorBoards of a lab."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.program = install(lab.folder / "bin")

    def start(self, kernel: Kernel, *words: str, detached: bool = False) -> int:
        """Have a cell of `kernel` start one, and wait until it listens. Gives its pid."""
        command = [str(self.program), *words]
        code = f"import subprocess\np = subprocess.Popen({command!r}, stdout=subprocess.PIPE, text=True"
        code += f", start_new_session={detached})\np.stdout.readline()\nprint(p.pid)"
        return int(kernel.run(code))

    def rows(self) -> dict[int, Any]:
        """What the report says of each, by pid."""
        rows = [row for row in self.lab.report()["holders"] if row["kind"] == "tensorboard"]
        return {int(row["owner"].partition(":")[2].partition("-")[0]): row for row in rows}

    def row(self, pid: int) -> Any:
        """What the report says of one, once it does."""
        return until(lambda: self.rows().get(pid), "the TensorBoard's row")

    def about(self, what: str, pid: int) -> Any | None:
        """The last of the `notices` or `outcomes` for one."""
        found = [each for each in self.lab.report()[what] if each["owner"].startswith(f"tensorboard:{pid}-")]
        return found[-1] if found else None

    def stop(self, pid: int) -> Any:
        """Press its button. Gives the outcome."""
        owner = quoted(self.row(pid)["owner"])
        status, outcome = self.lab.request("POST", f"gpu-guard/api/v1/owners/{owner}/shutdown", {})
        assert status == 200, outcome
        return outcome


def info_of(pid: int, temporary: str | None = None) -> Path:
    """The file by which it says where it is."""
    return Path(temporary or tempfile.gettempdir(), ".tensorboard-info", f"pid-{pid}.info")


@pytest.fixture
def policy() -> str:
    """The policy in force."""
    return POLICY


@pytest.fixture
def lab(tmp_path: Path, driver: StandIn, monkeypatch: pytest.MonkeyPatch, policy: str) -> Iterator[Lab]:
    """A server with a rule of its own for TensorBoards, and with its own temporary folder."""
    temporary = tmp_path / "t"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with Lab(tmp_path / "lab", driver=driver, policy=policy, options=("--GpuGuard.resting_interval=0",)) as running:
        yield running
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.fixture
def boards(lab: Lab) -> Iterator[Boards]:
    """None at first; none afterwards."""
    boards = Boards(lab)
    yield boards
    for pid in boards.rows():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_memory_of_a_tensorboard_is_its_own(lab: Lab, boards: Boards) -> None:
    """On its own row, under its own rule: warned and ended, while the kernel that started it trains on."""
    kernel = lab.start_kernel("train.ipynb")
    pid = boards.start(kernel, "--logdir", "runs", "--hold", "11 GiB")
    kernel.run(GPU + "gpu.hold('2 GiB'); gpu.wave(95, 3, 0, 1)")
    row = boards.row(pid)
    assert (row["name"], row["notebook"]) == ("TensorBoard runs", "train.ipynb")
    until(lambda: boards.row(pid)["memory_bytes"] == 11 * 2**30, "its memory")
    until(lambda: (h := lab.holder(kernel.id)) and h["memory_bytes"] == 2 * 2**30, "the kernel's memory, without it")
    assert boards.row(pid)["verdict"]["rule"] == "boards"
    until(lambda: boards.about("notices", pid), "the warning")
    outcome = until(lambda: boards.about("outcomes", pid), "the end")
    assert (outcome["result"], outcome["freed_bytes"]) == ("done", 11 * 2**30)
    assert start_ticks(pid) is None
    assert lab.outcome(kernel.id) is None
    assert lab.notice(kernel.id) is None
    assert kernel.run("print(1 + 1)") == "2"


def test_a_tensorboard_survives_its_kernel_and_is_still_listed(lab: Lab, boards: Boards) -> None:
    """Attributed to the notebook, also after a restart; the guard's end of that kernel leaves it alone, too."""
    kernel = lab.start_kernel("a.ipynb")
    pid = boards.start(kernel, "--logdir", "runs", "--hold", "256 MiB", detached=True)
    before = boards.row(pid)
    assert before["board"]["started_by"] == f"kernel:{kernel.id}"
    assert lab.request("POST", f"api/kernels/{kernel.id}/restart")[0] == 200
    until(lambda: start_ticks(kernel.pid) is None, "the first process to have ended")
    ticks = lab.health()["ticks"]
    until(lambda: lab.health()["ticks"] > ticks + 2, "two more looks")
    after = boards.row(pid)
    for name in ("owner", "notebook", "started_at"):
        assert after[name] == before[name], name
    for name in ("log_dir", "started_by"):
        assert after["board"][name] == before["board"][name], name
    status, outcome = lab.request("POST", f"gpu-guard/api/v1/owners/{quoted('kernel:' + kernel.id)}/shutdown", {})
    assert (status, outcome["result"]) == (200, "done")
    ticks = lab.health()["ticks"]
    until(lambda: lab.health()["ticks"] > ticks + 2, "two more looks")
    orphan = boards.row(pid)
    assert (orphan["owner"], orphan["notebook"]) == (before["owner"], "a.ipynb")
    assert start_ticks(pid) is not None


def test_a_list_with_a_stop_button(lab: Lab, boards: Boards) -> None:
    """Log directory and port on each row, the second one for a directory marked; stop removes row, process and file."""
    kernel = lab.start_kernel("a.ipynb")
    one = boards.start(kernel, "--logdir", "runs")
    two = boards.start(kernel, "--logdir", "runs", "--stubborn")
    other = boards.start(kernel, "--logdir", "other")
    until(lambda: len(boards.rows()) == 3, "three rows")
    shown = {pid: (row["board"]["log_dir"], row["board"]["duplicate"]) for pid, row in boards.rows().items()}
    assert shown == {one: ("runs", False), two: ("runs", True), other: ("other", False)}
    for pid in (one, two, other):
        port = until(lambda pid=pid: boards.row(pid)["board"]["port"], "its port")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as answer:
            assert answer.status == 200
        assert info_of(pid).exists()
    for pid in (other, two):  # the second has to be killed, and leaves its file behind
        assert boards.stop(pid)["result"] == "done"
        assert start_ticks(pid) is None
        assert not info_of(pid).exists()
    until(lambda: list(boards.rows()) == [one], "one row")
    assert info_of(one).exists()


def test_a_shared_folder_that_belongs_to_somebody_else(lab: Lab, boards: Boards) -> None:
    """TensorBoards are found all the same; the folder and what others have in it stay as they are."""
    folder = Path(tempfile.gettempdir(), ".tensorboard-info")
    folder.mkdir(mode=0o700)
    foreign = folder / "pid-1.info"
    foreign.write_text('{"pid": 1, "port": 6006, "logdir": "theirs", "start_time": 1}')
    foreign.chmod(0o600)
    if os.geteuid() == 0:
        for path in (foreign, folder):
            os.chown(path, 65534, 65534)
    before = [(path.stat().st_mode, path.stat().st_uid) for path in (folder, foreign)]
    kernel = lab.start_kernel("a.ipynb")
    pid = boards.start(kernel, "--logdir", "runs", "--no-info")
    assert boards.row(pid)["board"]["port"] > 0
    assert list(boards.rows()) == [pid]
    assert [(path.stat().st_mode, path.stat().st_uid) for path in (folder, foreign)] == before
    assert "Traceback" not in lab.log.read_text()


def test_a_real_tensorboard_started_by_the_magic(lab: Lab, boards: Boards) -> None:
    """The program itself, as people start it: found with its port, its data server within its row; stopped, gone."""
    kernel = lab.start_kernel("a.ipynb")
    program = Path(sys.executable).with_name("tensorboard")
    kernel.run(f"%env TENSORBOARD_BINARY={program}\n%load_ext tensorboard\n%tensorboard --logdir runs --port 0")
    (pid,) = until(lambda: list(boards.rows()), "the TensorBoard's row")
    row = boards.row(pid)
    assert (row["name"], row["notebook"], row["board"]["log_dir"]) == ("TensorBoard runs", "a.ipynb", "runs")
    port = until(lambda: boards.row(pid)["board"]["port"], "its port")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
        assert answer.status == 200
    assert list(boards.rows()) == [pid]
    assert info_of(pid).exists()
    (helper,) = (int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    assert boards.stop(pid)["result"] == "done"
    assert [start_ticks(each) for each in (pid, helper)] == [None, None]
    assert not info_of(pid).exists()
    until(lambda: not boards.rows(), "the row to go")
    assert kernel.run("print(1 + 1)") == "2"


UNWATCHED = (
    QUICK_POLICY
    + """\
rules:
  - name: boards
    match: {owner: tensorboard}
    idle: {for: 8s, unwatched_for: 40s}
    notice: 6s
    undelivered: 6s
    ladder: [{do: warn}, {do: shutdown, after: 6s}]
"""
)


@pytest.mark.parametrize("policy", [UNWATCHED])
def test_a_tensorboard_that_nobody_looks_at_is_ended_and_one_that_is_watched_is_kept(lab: Lab, boards: Boards) -> None:
    """Without any GPU memory: a request now and then keeps it, otherwise it is warned and then ended."""
    kernel = lab.start_kernel("a.ipynb")
    kernel.run(GPU + "gpu.hold('64 MiB')")  # so that the guard does not rest
    forgotten = boards.start(kernel, "--logdir", "forgotten")
    watched = boards.start(kernel, "--logdir", "watched")
    port = until(lambda: boards.row(watched)["board"]["port"], "its port")

    def visited() -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as answer:
            assert answer.status == 200

    def warned() -> Any:
        visited()
        return boards.about("notices", forgotten)

    def ended() -> Any:
        visited()
        return boards.about("outcomes", forgotten)

    notice = until(warned, "the warning", 180)
    assert "unwatched" in [reason["code"] for reason in notice["reasons"]]
    outcome = until(ended, "the end", 180)
    assert outcome["result"] == "done"
    assert outcome["detail"].endswith("; it held no GPU memory")
    assert start_ticks(forgotten) is None
    assert boards.about("notices", watched) is None
    assert boards.about("outcomes", watched) is None
    assert boards.row(watched)["board"]["watchers"] > 0
    assert boards.row(watched)["verdict"]["reasons"][0]["code"] == "watched"
