"""What is parked, on disk: it survives the server, and harms nobody when it is damaged."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from jupyter_gpu_guard.core.model import OwnerKey, OwnerKind, ProcessKey
from jupyter_gpu_guard.parking.registry import Entry, Phase, Registry
from jupyter_gpu_guard.parking.target import lives
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses

ENTRY = Entry(
    owner=OwnerKey(OwnerKind.KERNEL, "k"),
    name="train.ipynb",
    root=ProcessKey(4194301, 7),
    process=ProcessKey(4194302, 8),
    since=datetime(2030, 5, 1, 12, tzinfo=timezone.utc),
    memory={"GPU-1": 6.0 * 2**30},
    phase=Phase.PARKED,
)


@pytest.fixture
def path(tmp_path):
    """Where it is."""
    return tmp_path / "state" / "parked.json"


def registry(path, gone=()):
    """One whose processes all live, but for those that are `gone`."""
    return Registry(path, lambda key: key not in gone)


def test_another_server_finds_what_was_put(path):
    """All of it, for that very process of the owner alone."""
    registry(path).put(ENTRY)
    found = registry(path)
    found.refresh()
    assert found.entries == (ENTRY,)
    assert found.of(ENTRY.owner, ENTRY.root) == ENTRY
    assert found.of(ENTRY.owner, ProcessKey(4194301, 9)) is None
    assert found.problem is None


def test_two_servers_do_not_overwrite_each_other(path):
    """Each change is made to what is on disk."""
    one, other = registry(path), registry(path)
    second = replace(ENTRY, owner=OwnerKey(OwnerKind.KERNEL, "l"), process=ProcessKey(4194303, 9))
    one.put(ENTRY)
    other.put(second)
    one.put(replace(ENTRY, phase=Phase.UNCLEAR))
    assert {entry.phase for entry in one.entries} == {Phase.PARKED, Phase.UNCLEAR}
    other.remove(ENTRY.process)
    one.refresh()
    assert one.entries == (second,)


def test_who_has_ended_is_dropped(path):
    """It is not listed, and the next change takes it off the disk."""
    registry(path).put(ENTRY)
    later = registry(path, gone={ENTRY.process})
    later.refresh()
    assert later.entries == ()
    later.put(replace(ENTRY, process=ProcessKey(4194303, 9)))
    assert len(json.loads(path.read_text())["parked"]) == 1


@pytest.mark.parametrize(
    "damage",
    [
        "not JSON",
        "[]",
        '{"version": 1}',
        '{"version": 1, "parked": [{"owner": 3}]}',
        '{"version": 1, "parked": [{"owner": "kernel:k", "name": "n", "root": [1], "process": [1, 2], "since": "x"}]}',
    ],
)
def test_a_damaged_file_is_kept_and_said(path, damage):
    """What was known stays known, and is on disk again; the damaged file is kept under another name."""
    found = registry(path)
    found.put(ENTRY)
    path.write_text(damage)
    found.refresh()
    assert found.entries == (ENTRY,)
    assert "damaged" in found.problem
    assert (path.parent / "parked.json.broken").read_text() == damage
    again = registry(path)
    again.refresh()
    assert again.entries == (ENTRY,)


def test_what_can_be_read_of_a_damaged_file_counts(path):
    """One entry that makes no sense does not hide the others."""
    registry(path).put(ENTRY)
    whole = json.loads(path.read_text())
    path.write_text(json.dumps({**whole, "parked": [*whole["parked"], {"owner": "nobody"}]}))
    found = registry(path)
    found.refresh()
    assert found.entries == (ENTRY,)


def test_a_file_that_cannot_be_written_remembers_nothing(path, monkeypatch):
    """Whoever wants to park is told, and does not."""

    def refuse(*_args):
        raise OSError(28, "No space left on device")

    found = registry(path)
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space left"):
        found.put(ENTRY)
    assert found.entries == ()
    assert list(path.parent.glob("*.new")) == []


def test_what_cannot_be_taken_off_the_disk_is_forgotten_here(path, monkeypatch):
    """It is not resumed again and again."""

    def refuse(*_args):
        raise OSError(28, "No space left on device")

    found = registry(path)
    found.put(ENTRY)
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space left"):
        found.remove(ENTRY.process)
    found.refresh()
    assert found.entries == ()
    monkeypatch.undo()
    found.put(replace(ENTRY, process=ProcessKey(4194303, 9)))
    assert [row["process"][0] for row in json.loads(path.read_text())["parked"]] == [4194303]
    found.put(ENTRY)
    assert ENTRY in found.entries


def test_only_the_very_process_lives():
    """The pid with another start time is another process."""
    own = ProcfsProcesses().identify(os.getpid()).key
    assert lives(own)
    assert not lives(replace(own, start_ticks=own.start_ticks + 1))
    assert not lives(ProcessKey(4194301, 7))
