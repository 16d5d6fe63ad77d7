"""Leases on disk: they hold to their last second, survive a restart, and outlive other servers and faults."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpu_guard import leases as module
from jupyter_gpu_guard.core.model import OwnerKey, OwnerKind
from jupyter_gpu_guard.core.verdict import Lease
from jupyter_gpu_guard.leases import FileLeases, LeaseNotSavedError
from jupyter_gpu_guard.protocols import Grant

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=timezone.utc)


def kernel(name: str) -> OwnerKey:
    """A kernel's key."""
    return OwnerKey(OwnerKind.KERNEL, name)


def lease(name: str = "a", *, hours: float = 1, reason: str = "long read", by: str = "ann") -> Lease:
    """A lease until so many hours after noon."""
    return Lease(kernel(name), NOON + timedelta(hours=hours), reason, by)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the leases are kept; its folder does not exist yet."""
    return tmp_path / "gpu-guard" / "leases.json"


def test_a_lease_holds_to_its_last_second(path: Path) -> None:
    """It holds at `until` itself and no microsecond longer."""
    leases = FileLeases(path)
    leases.grant(lease())
    until = lease().until
    assert leases.active(until) == {kernel("a"): lease()}
    assert leases.active(until + timedelta(microseconds=1)) == {}


def test_leases_survive_a_restart(path: Path) -> None:
    """A new server reads what an earlier one wrote, word for word."""
    FileLeases(path).grant(lease(reason='quote " and \n and ü'))
    assert FileLeases(path).active(NOON) == {kernel("a"): lease(reason='quote " and \n and ü')}


def test_a_later_lease_replaces_the_earlier_one(path: Path) -> None:
    """One owner has one lease: the last one, also if it is shorter."""
    leases = FileLeases(path)
    leases.grant(lease(hours=5))
    leases.grant(lease(hours=1, reason="less"))
    assert leases.active(NOON) == {kernel("a"): lease(hours=1, reason="less")}


def test_ending_a_lease(path: Path) -> None:
    """True once, then False; other leases stay; the file forgets it too."""
    leases = FileLeases(path)
    assert leases.end(kernel("a")) is False
    leases.grant(lease("a"))
    leases.grant(lease("b"))
    assert leases.end(kernel("a")) is True
    assert leases.end(kernel("a")) is False
    assert set(FileLeases(path).active(NOON)) == {kernel("b")}


def test_expired_leases_leave_the_file(path: Path) -> None:
    """What has run out is dropped at the next write, and is never active."""
    leases = FileLeases(path)
    leases.grant(lease("old", hours=1))
    leases.active(NOON + timedelta(hours=2))
    leases.grant(lease("new", hours=3))
    assert [row["owner"] for row in json.loads(path.read_text())["leases"]] == ["kernel:new"]


def test_only_the_user_can_read_them(path: Path) -> None:
    """The folder is 0700 and every file in it 0600: reasons are private. No temporary file stays behind."""
    FileLeases(path).grant(lease())
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {
        "leases.json": 0o600,
        "leases.json.lock": 0o600,
    }


def test_two_servers_share_the_file(path: Path) -> None:
    """Each sees what the other granted and ended, and neither overwrites the other's."""
    one, two = FileLeases(path), FileLeases(path)
    one.active(NOON)
    one.grant(lease("a"))
    two.grant(lease("b"))
    assert set(one.active(NOON)) == set(two.active(NOON)) == {kernel("a"), kernel("b")}
    assert two.end(kernel("a")) is True
    assert set(one.active(NOON)) == {kernel("b")}


def test_many_processes_writing_at_once_lose_nothing(path: Path) -> None:
    """Four processes grant ten leases each at the same time: forty are on disk."""
    code = """
import sys
from datetime import datetime, timezone
from pathlib import Path
from jupyter_gpu_guard.core.model import OwnerKey, OwnerKind
from jupyter_gpu_guard.core.verdict import Lease
from jupyter_gpu_guard.leases import FileLeases
until = datetime(2026, 5, 4, 13, tzinfo=timezone.utc)
for n in range(10):
    FileLeases(Path(sys.argv[1])).grant(Lease(OwnerKey(OwnerKind.KERNEL, f"{sys.argv[2]}-{n}"), until, "", "ann"))
"""
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path), str(n)]) for n in range(4)]
    assert [writer.wait(timeout=60) for writer in writers] == [0] * 4
    assert len(FileLeases(path).active(NOON)) == 40


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b"[]",
        b'{"version": 1}',
        b'{"version": 1, "leases": {}}',
        b"[" * 100_000,
        b"0" * (2**20 + 1),
    ],
    ids=["empty", "cut off", "binary", "list", "no leases", "wrong shape", "too deep", "too large"],
)
def test_a_damaged_file_is_kept_aside_and_told(path: Path, content: bytes) -> None:
    """Nothing raises; the bytes are kept for people; the sentence names both files; new leases work."""
    path.parent.mkdir()
    path.write_bytes(content)
    leases = FileLeases(path)
    assert leases.active(NOON) == {}
    assert path.with_name("leases.json.broken-1").read_bytes() == content
    assert leases.problem is not None
    assert str(path) in leases.problem
    assert "leases.json.broken-1" in leases.problem
    leases.grant(lease())
    assert set(FileLeases(path).active(NOON)) == {kernel("a")}


def test_the_readable_entries_of_a_damaged_file_still_hold(path: Path) -> None:
    """A promise is not lost because its neighbour is unreadable."""
    FileLeases(path).grant(lease("good"))
    whole = json.loads(path.read_text())
    good = whole["leases"][0]
    bad = [
        {**good, "until": "soon"},
        {**good, "owner": "nobody"},
        {**good, "until": "2026-05-04T13:00:00"},
        {**good, "reason": 5},
        {"owner": "kernel:x"},
        "text",
        {**good, "until": 5},
    ]
    path.write_text(json.dumps({**whole, "leases": [*bad, good]}))
    assert FileLeases(path).active(NOON) == {kernel("good"): lease("good")}
    assert FileLeases(path).active(NOON) == {kernel("good"): lease("good")}
    assert path.with_name("leases.json.broken-1").exists()


def test_a_file_damaged_while_running_ends_no_promise(path: Path) -> None:
    """What this server knew before goes on to hold, and each damaged file is kept under its own number."""
    leases = FileLeases(path)
    leases.grant(lease())
    for number in (1, 2):
        path.write_text("oops")
        assert leases.active(NOON) == {kernel("a"): lease()}
        assert path.with_name(f"leases.json.broken-{number}").read_text() == "oops"
    assert FileLeases(path).active(NOON) == {kernel("a"): lease()}


def test_a_file_of_a_newer_version_is_read_as_far_as_it_goes(path: Path) -> None:
    """Its leases hold, and the file itself is kept."""
    FileLeases(path).grant(lease())
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    leases = FileLeases(path)
    assert set(leases.active(NOON)) == {kernel("a")}
    assert "another version" in (leases.problem or "")
    assert '"version": 2' in path.with_name("leases.json.broken-1").read_text()


def test_a_lease_that_cannot_be_written_still_holds(tmp_path: Path) -> None:
    """No folder to write to: the person is told, this server keeps its promise, and a later write includes it."""
    folder = tmp_path / "gpu-guard"
    folder.write_text("a file in the way")
    leases = FileLeases(folder / "leases.json")
    with pytest.raises(LeaseNotSavedError, match="cannot be saved"):
        leases.grant(lease("a"))
    assert set(leases.active(NOON)) == {kernel("a")}
    assert leases.problem is not None
    folder.unlink()
    leases.grant(lease("b"))
    assert leases.problem is None
    assert set(FileLeases(folder / "leases.json").active(NOON)) == {kernel("a"), kernel("b")}


def test_an_unwritten_lease_can_be_ended(tmp_path: Path) -> None:
    """Ending needs no disk for what was never on it."""
    folder = tmp_path / "gpu-guard"
    folder.write_text("a file in the way")
    leases = FileLeases(folder / "leases.json")
    with pytest.raises(LeaseNotSavedError):
        leases.grant(lease())
    assert leases.end(kernel("a")) is True
    assert leases.active(NOON) == {}


def test_a_lock_held_by_another_server_is_not_waited_for_long(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease holds in memory and the sentence says what is in the way."""
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(module, "LOCK_SECONDS", 0.05)
    path.parent.mkdir()
    leases = FileLeases(path)
    with path.with_name("leases.json.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(LeaseNotSavedError, match="another server holds its lock"):
            leases.grant(lease())
    assert set(leases.active(NOON)) == {kernel("a")}


def test_a_folder_in_place_of_the_file_is_not_overwritten(path: Path) -> None:
    """Not even root can read it: the leases known in memory hold, and nothing raises while looking."""
    path.mkdir(parents=True)
    leases = FileLeases(path)
    assert leases.active(NOON) == {}
    assert "cannot be read" in (leases.problem or "")
    with pytest.raises(LeaseNotSavedError):
        leases.grant(lease())
    assert path.is_dir()
    assert set(leases.active(NOON)) == {kernel("a")}


OWNERS = st.builds(OwnerKey, st.sampled_from(OwnerKind), st.text(min_size=1))
UNTIL = st.datetimes(timezones=st.just(timezone.utc))


@given(st.builds(Lease, OWNERS, UNTIL, st.text(), st.text()))
def test_every_lease_is_read_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, any_lease: Lease) -> None:
    """Any reason, name, owner and time survives the file."""
    path = tmp_path_factory.mktemp("leases") / "leases.json"
    FileLeases(path).grant(any_lease)
    assert FileLeases(path).active(any_lease.until) == {any_lease.owner: any_lease}


def granted(hours: float, name: str = "a", notebook: str | None = "a.ipynb") -> Grant:
    """A grant so many hours after noon."""
    return Grant(kernel(name), notebook, NOON + timedelta(hours=hours))


def test_grants_are_remembered_for_a_day_by_all_servers(path: Path) -> None:
    """They survive a restart, the end of their lease, and other servers; after a day they leave the file."""
    one, other = FileLeases(path), FileLeases(path)
    one.active(NOON)
    one.grant(lease("a"), granted(0))
    other.grant(lease("b"), granted(1, "b", None))
    one.end(kernel("a"))
    for leases in (one, other, FileLeases(path)):
        assert leases.grants(NOON - timedelta(hours=1)) == (granted(0), granted(1, "b", None))
        assert leases.grants(NOON) == (granted(1, "b", None),)
    later = FileLeases(path)
    later.active(NOON + timedelta(hours=24, minutes=30))
    later.grant(lease("c", hours=30), granted(24.5, "c"))
    assert later.grants(NOON - timedelta(days=9)) == (granted(1, "b", None), granted(24.5, "c"))
    assert len(json.loads(path.read_text())["grants"]) == 2


def test_a_grant_that_could_not_be_saved_counts(tmp_path: Path) -> None:
    """A full disk lets nobody keep more often than they may."""
    (tmp_path / "file").write_text("")
    leases = FileLeases(tmp_path / "file" / "leases.json")
    with pytest.raises(LeaseNotSavedError):
        leases.grant(lease(), granted(0))
    assert leases.grants(NOON - timedelta(days=1)) == (granted(0),)


def test_a_file_of_before_has_no_grants(path: Path) -> None:
    """Leases that an earlier version wrote are read, and nothing is wrong with them."""
    FileLeases(path).grant(lease())
    told = json.loads(path.read_text())
    del told["grants"]
    path.write_text(json.dumps(told))
    leases = FileLeases(path)
    assert leases.active(NOON) == {kernel("a"): lease()}
    assert (leases.grants(NOON), leases.problem) == ((), None)


@pytest.mark.parametrize("grants", ["7", '[{"owner": "kernel:a"}]', '[{"owner":"kernel:a","notebook":3,"at":"x"}]'])
def test_damaged_grants_end_no_lease(path: Path, grants: str) -> None:
    """What cannot be read of them is said; the leases hold."""
    FileLeases(path).grant(lease())
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "grants": json.loads(grants)}))
    leases = FileLeases(path)
    assert leases.active(NOON) == {kernel("a"): lease()}
    assert leases.grants(NOON) == ()
    assert "damaged" in (leases.problem or "")
