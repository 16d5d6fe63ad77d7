"""What holds for every `Journal`, the fake one and the files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from fake_clock import NOON
from fake_journal import FakeJournal

from jupyter_gpu_guard.core.entry import Entry, Kind
from jupyter_gpu_guard.core.policy import Mode
from jupyter_gpu_guard.history.audit import FileAudit
from jupyter_gpu_guard.protocols import Journal

Room = tuple[Journal, Callable[[], list[Entry]]]


@pytest.fixture(params=["fake", "files"])
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Room]:
    """A journal, and how to read what it keeps."""
    if request.param == "fake":
        fake = FakeJournal()
        yield fake, lambda: fake.entries
        return
    audit = FileAudit(tmp_path / "audit")
    yield audit, lambda: list(audit.read(NOON).entries)
    audit.close()


def note(number: int) -> Entry:
    """An entry by its number."""
    return Entry(Kind.SPARED, NOON + timedelta(seconds=number), Mode.ENFORCE, "abc", detail=str(number))


def test_what_is_recorded_is_kept_in_order(room: Room) -> None:
    """Each entry once, as it was, in the order in which they came."""
    journal, kept = room
    for number in range(250):
        journal.record(note(number))
    assert asyncio.run(journal.written(60))
    assert kept() == [note(number) for number in range(250)]


def test_nothing_to_wait_for_is_no_wait(room: Room) -> None:
    """With nothing recorded all is written, and nothing is wrong."""
    journal, kept = room
    assert asyncio.run(journal.written(0))
    assert journal.problem is None
    assert kept() == []
