"""The audit on disk: nothing is lost, nobody waits for it, and a crash costs at most the line being written."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from fake_clock import NOON

from jupyter_gpu_guard.core.entry import Entry, Kind
from jupyter_gpu_guard.core.model import OwnerKey, OwnerKind, ProcessKey
from jupyter_gpu_guard.core.policy import Action, Mode
from jupyter_gpu_guard.core.verdict import Code, Outcome, Reason, Result, Verdict
from jupyter_gpu_guard.history import audit as module
from jupyter_gpu_guard.history.audit import FileAudit, ends, read

KEY = OwnerKey(OwnerKind.KERNEL, "k")
REASONS = (Reason(Code.IDLE_TOO_LONG, {"idle_seconds": 7200.5, "memory_bytes": 2**33}),)
LONG_AGO = NOON - timedelta(days=1000)


def note(seconds: float = 0, *, kind: Kind = Kind.SPARED, days: float = 0, **more: object) -> Entry:
    """An entry so long after noon."""
    entry = Entry(kind, NOON + timedelta(days=days, seconds=seconds), Mode.ENFORCE, "abc", KEY, "a.ipynb", "w/a.ipynb")
    return replace(entry, **more)


def begun(act: str = "act-1") -> Entry:
    """A shutdown that is about to begin."""
    verdict = Verdict(KEY, ProcessKey(100, 7), Action.SHUTDOWN, "students", REASONS)
    return note(kind=Kind.BEGUN, act=act, verdict=verdict)


def settled(audit: FileAudit) -> FileAudit:
    """With all on disk."""
    assert asyncio.run(audit.written(60))
    return audit


def full_disk(*_: object) -> int:
    """A disk without room."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_only_the_owner_reads_it(tmp_path: Path) -> None:
    """Folder and files are closed to everybody else."""
    audit = FileAudit(tmp_path / "state" / "audit")
    audit.record(note())
    settled(audit)
    modes = {path.stat().st_mode & 0o777 for path in audit.folder.iterdir()}
    assert modes == {0o600}
    assert audit.folder.stat().st_mode & 0o777 == 0o700


def test_a_line_that_was_cut_off_costs_that_line_alone(tmp_path: Path) -> None:
    """What is damaged is counted and passed over; what stands before and after it is read."""
    audit = FileAudit(tmp_path)
    audit.record(note(1))
    settled(audit)
    (path,) = tmp_path.glob("*.jsonl")
    with path.open("ab") as file:
        file.write(b'{"version":1,"kind":"spar\n[]\n{"version":99,"kind":"spared"}\n\xff\xfe\n')
    audit.record(note(2))
    found = settled(audit).read(LONG_AGO)
    assert found.entries == (note(1), note(2))
    assert found.unreadable == 4


def test_a_full_disk_is_a_sentence_and_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is full that is said, and nobody waits; with room again all is written once, and nothing is wrong."""
    audit = FileAudit(tmp_path, retry=0.05)
    audit.record(note(1))
    settled(audit)
    with monkeypatch.context() as patch:
        patch.setattr(module.os, "write", full_disk)
        audit.record(note(2))
        assert asyncio.run(audit.written(60)) is False
        assert audit.problem is not None
        assert "No space left on device" in audit.problem
        audit.record(note(3))
    assert _in_the_end(audit)
    assert audit.problem is None
    assert audit.read(LONG_AGO).entries == (note(1), note(2), note(3))


def _in_the_end(audit: FileAudit) -> bool:
    end = time.monotonic() + 60
    while not asyncio.run(audit.written(1)):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_half_a_line_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that becomes full within a line leaves none of it in the file."""
    audit = FileAudit(tmp_path, retry=0.05)
    audit.record(note(1))
    settled(audit)
    (path,) = tmp_path.glob("*.jsonl")
    before = path.read_bytes()
    really, calls = os.write, []

    def half(descriptor: int, text: memoryview) -> int:
        calls.append(1)
        if len(calls) % 2:
            return really(descriptor, text[:20])
        return full_disk()

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "write", half)
        audit.record(note(2))
        assert asyncio.run(audit.written(60)) is False
        audit.close(60)
    assert path.read_bytes() == before
    assert len(calls) >= 2


def test_a_home_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    """Where the folder cannot be made, recording goes on without a fault of its own."""
    (tmp_path / "file").write_text("")
    audit = FileAudit(tmp_path / "file" / "audit")
    audit.record(note())
    assert asyncio.run(audit.written(60)) is False
    assert "cannot be written" in (audit.problem or "")


def test_what_a_dead_disk_cannot_take_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is not filled for ever: beyond the backlog entries are lost, and that is said."""
    monkeypatch.setattr(module, "BACKLOG", 3)
    (tmp_path / "file").write_text("")
    audit = FileAudit(tmp_path / "file" / "audit")
    for number in range(5):
        audit.record(note(number))
    assert "2 entries" in (audit.problem or "")


def test_each_day_has_its_file_and_old_days_go_as_a_whole(tmp_path: Path) -> None:
    """With three days to keep, whatever is younger is all there, and the rest is gone."""
    audit = FileAudit(tmp_path, days=3)
    (tmp_path / "2000-01-01.notes.txt").write_text("not ours")
    for number in range(10):
        audit.record(note(days=number, detail="first"))
        audit.record(note(3600, days=number, detail="second"))
        settled(audit)
    kept = audit.read(LONG_AGO).entries
    assert kept == tuple(note(s, days=n, detail=d) for n in range(6, 10) for s, d in ((0, "first"), (3600, "second")))
    assert (tmp_path / "2000-01-01.notes.txt").exists()


def test_an_old_file_that_cannot_be_removed_costs_nothing(tmp_path: Path) -> None:
    """What is new is written, once; the old one stays."""
    (tmp_path / "2000-01-01.x-1.jsonl").mkdir()
    audit = FileAudit(tmp_path, days=3)
    audit.record(note())
    assert settled(audit).problem is None
    assert audit.read(NOON).entries == (note(),)


def test_an_entry_that_has_no_words_is_counted_and_holds_up_nobody(tmp_path: Path) -> None:
    """Whatever is wrong with it, the others are written."""
    audit = FileAudit(tmp_path)
    audit.record(note(1, detail=object()))
    audit.record(note(2))
    assert settled(audit).read(LONG_AGO).entries == (note(2),)
    assert "1 entry" in (audit.problem or "")


@pytest.mark.parametrize("days", [0, -1, 10**9])
def test_no_days_mean_for_ever(tmp_path: Path, days: int) -> None:
    """0 or less never removes anything, nor does more than there can be."""
    audit = FileAudit(tmp_path, days=days)
    audit.record(note())
    audit.record(note(days=5000))
    assert len(settled(audit).read(LONG_AGO).entries) == 2


def test_reading_begins_where_it_is_asked_to(tmp_path: Path) -> None:
    """An entry of that very moment is among them, one of before is not."""
    audit = FileAudit(tmp_path)
    for number in (1, 2, 3):
        audit.record(note(number))
    assert settled(audit).read(NOON + timedelta(seconds=2)).entries == (note(2), note(3))


WRITER = """
import asyncio, sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from jupyter_gpu_guard.core.entry import Entry, Kind
from jupyter_gpu_guard.core.policy import Mode
from jupyter_gpu_guard.history.audit import FileAudit
audit = FileAudit(Path(sys.argv[1]))
noon = datetime(2030, 5, 1, 12, tzinfo=timezone.utc)
for number in range(200):
    audit.record(Entry(Kind.SPARED, noon + timedelta(seconds=number), Mode.ENFORCE, sys.argv[2], detail="x" * 3000))
assert asyncio.run(audit.written(60))
audit.close()
"""


def test_several_servers_share_a_folder(tmp_path: Path) -> None:
    """Two that write at once lose nothing, and each keeps its own order."""
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), name]) for name in ("one", "two")]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    found = read(tmp_path, LONG_AGO)
    assert found.unreadable == 0
    for name in ("one", "two"):
        seconds = [(entry.at - NOON).total_seconds() for entry in found.entries if entry.policy == name]
        assert seconds == list(range(200))


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from test_audit import begun
from jupyter_gpu_guard.history.audit import FileAudit
audit = FileAudit(Path(sys.argv[1]))
audit.record(begun())
assert asyncio.run(audit.written(60))
print("begun", flush=True)
signal.pause()
"""


def test_an_act_that_was_cut_off_is_closed_as_unknown(tmp_path: Path) -> None:
    """While its server lives it is left alone; once that was killed the next one says that nobody knows, once."""
    here = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")]
    server = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path), *here], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "begun\n"
        later = NOON + timedelta(hours=1)
        following = FileAudit(tmp_path)
        following.close_open_acts(later)
        assert settled(following).read(LONG_AGO).entries == (begun(),)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    following.close_open_acts(later)
    settled(following)
    FileAudit(tmp_path).close_open_acts(later + timedelta(hours=1))
    first, closing = following.read(LONG_AGO).entries
    assert first == begun()
    assert (closing.kind, closing.at, closing.act) == (Kind.OUTCOME, later, "act-1")
    assert closing.outcome is not None
    assert (closing.outcome.result, closing.outcome.rule) == (Result.UNKNOWN, "students")
    assert closing.outcome.reasons == REASONS
    assert closing.verdict is not None
    assert closing.verdict.root == ProcessKey(100, 7)


def test_an_act_with_an_outcome_is_not_closed_again(tmp_path: Path) -> None:
    """Also if the outcome stands in the file of the next day."""
    first = FileAudit(tmp_path)
    first.record(begun())
    first.record(note(kind=Kind.OUTCOME, days=1, act="act-1"))
    settled(first).close()
    following = FileAudit(tmp_path)
    following.close_open_acts(NOON + timedelta(days=2))
    assert len(settled(following).read(LONG_AGO).entries) == 2


def test_what_a_later_server_shows_again(tmp_path: Path) -> None:
    """Of each notebook the last act by which something was lost, or may have been, on the server of this folder."""
    audit = FileAudit(tmp_path, server="/home/anna")

    def record(days: float, notebook: str, result: Result = Result.DONE, **more: object) -> None:
        at = NOON + timedelta(days=days)
        owner = OwnerKey(OwnerKind.KERNEL, f"{notebook}-{days}")
        outcome = Outcome(owner, None, Action.SHUTDOWN, "students", result, at, "freed 2.0 GiB", notebook=notebook)
        audit.record(note(kind=Kind.OUTCOME, days=days, outcome=replace(outcome, **more)))

    record(1, "a.ipynb")
    record(2, "b.ipynb", Result.FAILED)
    record(3, "a.ipynb")
    record(4, "a.ipynb", Result.WITHDRAWN)
    record(4, "a.ipynb", owner=OwnerKey(OwnerKind.LEFTOVERS, "k"))
    record(5, "c.ipynb", action=Action.RELEASE)
    record(9, "d.ipynb")
    entries = settled(audit).read(NOON + timedelta(days=1)).entries
    found = ends(entries, NOON + timedelta(days=8), "/home/anna")
    assert [(each.notebook, (each.at - NOON).days, each.owner.kind.value) for each in found] == [
        ("b.ipynb", 2, "kernel"),
        ("a.ipynb", 3, "kernel"),
        ("a.ipynb", 4, "leftovers"),
    ]
    assert found[1].detail == "freed 2.0 GiB"
    assert ends(entries, NOON + timedelta(days=8), "/home/ben") == ()


def test_a_server_that_ends_writes_what_waits(tmp_path: Path) -> None:
    """Nothing that was recorded before is lost, and no sign of life stays."""
    audit = FileAudit(tmp_path)
    for number in range(50):
        audit.record(note(number))
    audit.close(60)
    assert len(read(tmp_path, LONG_AGO).entries) == 50
    assert list(tmp_path.glob("*.running")) == []


def test_each_line_is_json_with_every_number_of_the_verdict(tmp_path: Path) -> None:
    """It can be read without this program, and by people."""
    audit = FileAudit(tmp_path)
    audit.record(begun())
    settled(audit)
    (path,) = tmp_path.glob("*.jsonl")
    (told,) = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    assert told["verdict"]["root"] == {"pid": 100, "start_ticks": 7}
    assert told["verdict"]["reasons"][0]["facts"] == {"idle_seconds": 7200.5, "memory_bytes": 2**33}
    assert told["kind"] == "begun"


def test_a_disk_that_hangs_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever records goes on, and whoever waits is told in the end that it is not written; later it is."""
    audit = FileAudit(tmp_path)
    answers = threading.Event()
    really = os.fsync
    with monkeypatch.context() as patch:
        patch.setattr(module.os, "fsync", lambda descriptor: (answers.wait(60), really(descriptor)))
        for number in range(20):
            audit.record(note(number))
        assert asyncio.run(audit.written(0.1)) is False
        answers.set()
        assert _in_the_end(audit)
    assert len(audit.read(LONG_AGO).entries) == 20
