"""Use on disk: it survives restarts, several servers add up, and what cannot be believed does not count."""

from __future__ import annotations

import json
import os
import pwd
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from jupyter_gpu_guard import usage
from jupyter_gpu_guard.core.budget import Account, Measure
from jupyter_gpu_guard.core.policy import Site
from jupyter_gpu_guard.core.usage import HOUR, LONGEST_WINDOW, Hours
from jupyter_gpu_guard.server.said import of_problem
from jupyter_gpu_guard.usage import LARGEST_FILE, FileUsage

NOW = datetime(2030, 5, 1, 12, 30, tzinfo=timezone.utc)
HOUR_NOW = int(NOW.timestamp() // HOUR)
ADA, BOB = Site("ada"), Site("bob")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="files of other users are needed")


def account(whose: str = "user", budget: str = "week") -> Account:
    """An account of a budget."""
    return Account(budget, Measure.GPU_HOURS, whose)


def used(amount: float, *whose: str) -> dict[Account, Hours]:
    """So much in this hour."""
    return {account(each): Hours({HOUR_NOW: amount}) for each in whose or ("user",)}


def test_what_was_used_survives_a_restart(tmp_path: Path) -> None:
    """The next server goes on with the file of the one before, and adds to it."""
    first = FileUsage(tmp_path / "usage", ADA)
    assert first.exchange(used(2.0), NOW) == {}
    first.close()
    second = FileUsage(tmp_path / "usage", ADA)
    assert second.exchange({}, NOW) == used(2.0)
    assert second.exchange(used(0.5), NOW) == used(2.0)
    second.close()
    assert FileUsage(tmp_path / "usage", ADA).exchange({}, NOW) == used(2.5)
    assert len(list((tmp_path / "usage").glob("*.json"))) == 1
    assert (tmp_path / "usage").stat().st_mode & 0o777 == 0o700


def test_two_servers_of_a_user_add_up(tmp_path: Path) -> None:
    """Each has a file of its own while both run, and neither counts itself twice."""
    one, two = FileUsage(tmp_path, ADA), FileUsage(tmp_path, ADA)
    one.exchange(used(1.0), NOW)
    assert two.exchange(used(4.0), NOW) == used(1.0)
    assert one.exchange(used(1.5), NOW) == used(4.0)
    assert one.problem is two.problem is None


def test_of_other_users_only_what_counts_for_several_counts(tmp_path: Path) -> None:
    """What counts for the user alone is theirs."""
    FileUsage(tmp_path, BOB).exchange(used(1.0, "user", "site", "group:lab"), NOW)
    assert FileUsage(tmp_path, ADA).exchange({}, NOW) == used(1.0, "site", "group:lab")


def test_a_single_kernel_leaves_nothing(tmp_path: Path) -> None:
    """Its account ends with it, and its name is nobody's business."""
    FileUsage(tmp_path, ADA).exchange(used(1.0, "kernel:abc", "terminal:1"), NOW)
    assert list(tmp_path.glob("*.json")) == []


def test_what_no_window_reaches_is_dropped(tmp_path: Path) -> None:
    """So that no file grows for ever."""
    store = FileUsage(tmp_path, ADA)
    old = Hours({HOUR_NOW - int(LONGEST_WINDOW.total_seconds() // HOUR) - 1: 1.0, HOUR_NOW: 2.0})
    store.exchange({account(): old}, NOW)
    assert FileUsage(tmp_path, ADA).exchange({}, NOW) == used(2.0)


def test_nothing_is_written_while_nothing_changes(tmp_path: Path) -> None:
    """Nor before anything was used."""
    store = FileUsage(tmp_path, ADA)
    store.exchange({}, NOW)
    assert list(tmp_path.glob("*.json")) == []
    store.exchange(used(1.0), NOW)
    (path,) = tmp_path.glob("*.json")
    stamp = path.stat()
    store.exchange(used(1.0), NOW + timedelta(minutes=1))
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (stamp.st_ino, stamp.st_mtime_ns)


def planted(folder: Path, text: str | bytes, *, uid: int | None = None, name: str = "00000000-7") -> Path:
    """A file that claims to be the word of a user."""
    path = folder / f"{os.geteuid() if uid is None else uid}-{name}.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(0o644)
    return path


def told(**changes: object) -> str:
    """A file that is right, but for these changes."""
    row = {"budget": "week", "measure": "gpu_hours", "whose": "site", "used": {str(HOUR_NOW): 1.0}, "unknown": {}}
    whole = {"version": 1, "uid": os.geteuid(), "user": "bob", "accounts": [row]}
    row.update({key: value for key, value in changes.items() if key in row})
    whole.update({key: value for key, value in changes.items() if key in whole})
    return json.dumps(whole)


def test_the_planted_file_would_be_believed(tmp_path: Path) -> None:
    """Else the refusals below would show nothing."""
    planted(tmp_path, told())
    store = FileUsage(tmp_path, ADA)
    assert store.exchange({}, NOW) == used(1.0, "site")
    assert store.problem is None


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "null",
        "[" * 100_000,
        told(version=2),
        told(uid=12345),
        told(user=7),
        told(accounts=[7]),
        told(measure="apples"),
        told(budget=7),
        told(whose="kernel:abc"),
        told(used={"x": 1.0}),
        told(used={str(HOUR_NOW): -1}),
        told(used={str(HOUR_NOW): 1e9}),
        told(used={str(HOUR_NOW): True}),
        told(used={str(HOUR_NOW): None}),
        told(used={str(HOUR_NOW): float("inf")}),
        told(used={str(HOUR_NOW): float("nan")}),
        told(used=[1.0]),
        b"\xff\xfe",
        " " * (LARGEST_FILE + 1),
    ],
)
def test_a_damaged_file_is_named_and_does_not_count(tmp_path: Path, text: str | bytes) -> None:
    """Nothing in it does; the others do, and ours is written."""
    path = planted(tmp_path, text)
    store = FileUsage(tmp_path, ADA)
    FileUsage(tmp_path, BOB).exchange(used(3.0, "site"), NOW)
    assert store.exchange(used(1.0), NOW) == used(3.0, "site")
    assert str(path) in (store.problem or "")
    path.unlink()
    store.exchange(used(1.0), NOW)
    assert store.problem is None


def test_a_damaged_file_of_ones_own_is_left_for_people(tmp_path: Path) -> None:
    """A server does not go on with it: it takes another one."""
    first = FileUsage(tmp_path, ADA)
    first.exchange(used(2.0), NOW)
    first.close()
    (path,) = tmp_path.glob("*.json")
    path.write_text("{", encoding="utf-8")
    second = FileUsage(tmp_path, ADA)
    assert second.exchange(used(1.0), NOW) == {}
    assert path.read_text(encoding="utf-8") == "{"
    assert len(list(tmp_path.glob("*.json"))) == 2
    assert str(path) in (second.problem or "")


def test_what_others_may_change_is_not_believed(tmp_path: Path) -> None:
    """It is nobody's word."""
    planted(tmp_path, told()).chmod(0o666)
    store = FileUsage(tmp_path, ADA)
    assert store.exchange({}, NOW) == {}
    assert "others than its owner may change it" in (store.problem or "")


@needs_root
def test_a_file_of_another_user_than_it_names_is_not_believed(tmp_path: Path) -> None:
    """Nobody can put words into somebody else's mouth."""
    os.chown(planted(tmp_path, told()), 12345, 12345)
    store = FileUsage(tmp_path, ADA)
    assert store.exchange({}, NOW) == {}
    assert "belongs to user 12345" in (store.problem or "")


@needs_root
def test_a_user_of_the_system_is_believed_under_their_own_number_alone(tmp_path: Path) -> None:
    """What an account writes about another one that the system knows counts for nobody."""
    daemon = pwd.getpwnam("daemon")
    planted(tmp_path, told(user="daemon"))
    store = FileUsage(tmp_path, ADA)
    assert store.exchange({}, NOW) == {}
    assert f"is about user {daemon.pw_uid}." in (store.problem or "")
    theirs = planted(tmp_path, told(user="daemon", uid=daemon.pw_uid), uid=daemon.pw_uid)
    os.chown(theirs, daemon.pw_uid, daemon.pw_gid)
    assert store.exchange({}, NOW) == used(1.0, "site")


def test_what_our_own_server_has_written_counts_whatever_the_system_calls_it(tmp_path: Path) -> None:
    """A hub may call somebody as the system calls another account."""
    other = next(each.pw_name for each in pwd.getpwall() if each.pw_uid != os.geteuid())
    first = FileUsage(tmp_path, Site(other))
    first.exchange(used(2.0), NOW)
    first.close()
    second = FileUsage(tmp_path, Site(other))
    assert second.exchange({}, NOW) == used(2.0)
    assert second.problem is None


@needs_root
def test_files_of_somebody_else_push_none_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever floods the folder crowds out their own files alone; health names three, and a count."""
    monkeypatch.setattr(usage, "MOST_FILES", 4)
    FileUsage(tmp_path, BOB).exchange(used(1.0, "site"), NOW)
    for number in range(10):
        for uid in (0, 12345):  # the first of them would be the word of root, and belong to another user
            path = planted(tmp_path, "x", uid=uid, name=f"00000000-a{number}")
            os.chown(path, 12345, 12345)
    store = FileUsage(tmp_path, ADA)
    assert store.exchange({}, NOW) == used(1.0, "site")
    problem = store.problem or ""
    assert f"Of 10 files in {tmp_path} of user 12345 only the first 4 count" in problem
    assert problem.count("does not count") == 4
    assert f"Each of 11 more in {tmp_path} does not count" in problem
    assert all(said.code for said in of_problem(problem))


def test_of_one_owner_our_own_come_first_and_nobody_has_many_before_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where all servers run under one number."""
    first = FileUsage(tmp_path, ADA)
    first.exchange(used(2.0), NOW)
    first.close()
    FileUsage(tmp_path, BOB).exchange(used(1.0, "site"), NOW)
    for number in range(10):
        planted(tmp_path, told(used={str(HOUR_NOW): 100.0}), name=f"00000000-a{number}")
    monkeypatch.setattr(usage, "MOST_FILES", 3)
    seen = FileUsage(tmp_path, ADA).exchange({}, NOW)
    assert seen == {**used(2.0), **used(101.0, "site")}


def test_one_owner_has_so_many_bytes_read_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few the files are."""
    for number in range(3):
        planted(tmp_path, told(), name=f"00000000-{number}")
    monkeypatch.setattr(usage, "MOST_BYTES", 2 * len(told()))
    store = FileUsage(tmp_path, ADA)
    assert store.exchange({}, NOW) == used(2.0, "site")
    assert "Of 3 files" in (store.problem or "")


def test_links_pipes_and_other_names_are_not_followed(tmp_path: Path) -> None:
    """A pipe holds nobody up, a link leads nowhere, and what is called otherwise is no concern of ours."""
    uid = os.geteuid()
    secret = tmp_path / "secret.json"
    secret.write_text(told(), encoding="utf-8")
    folder = tmp_path / "usage"
    folder.mkdir()
    (folder / f"{uid}-00000000-1.json").symlink_to(secret)
    os.mkfifo(folder / f"{uid}-00000000-2.json", 0o600)
    (folder / "readme.json").write_text(told(), encoding="utf-8")
    store = FileUsage(folder, ADA)
    assert store.exchange({}, NOW) == {}
    assert (store.problem or "").count("does not count") == 2


def test_a_folder_that_is_shared_is_for_an_administrator_to_make(tmp_path: Path) -> None:
    """Whoever came first would own it. Until then a user counts alone, and is told the remedy."""
    store = FileUsage(tmp_path / "none", ADA, create=False)
    assert store.exchange(used(1.0), NOW) == {}
    assert "install -d -m 1777" in (store.problem or "")
    assert not (tmp_path / "none").exists()
    (tmp_path / "none").mkdir()
    assert store.exchange(used(1.0), NOW) == {}
    assert store.problem is None


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """What was used counts on, until the server ends."""
    (tmp_path / "usage").write_text("a file", encoding="utf-8")
    store = FileUsage(tmp_path / "usage", ADA)
    assert store.exchange(used(1.0), NOW) == {}
    assert str(tmp_path / "usage") in (store.problem or "")


@needs_root
def test_a_lock_of_somebody_else_is_passed_over(tmp_path: Path) -> None:
    """Nobody can keep a user from their own account by taking its name first."""
    first = FileUsage(tmp_path, ADA)
    first.exchange(used(1.0), NOW)
    first.close()
    (lock,) = tmp_path.glob(".*.lock")
    os.chown(lock, 12345, 12345)
    second = FileUsage(tmp_path, ADA)
    assert second.exchange({}, NOW) == used(1.0)
    assert second.problem is None
