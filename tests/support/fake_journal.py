"""A journal in memory."""

from __future__ import annotations

from jupyter_gpu_guard.core.entry import Entry, Kind


class FakeJournal:
    """`Journal` whose entries a test reads. `problem` is whatever the test says."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.problem: str | None = None

    def record(self, entry: Entry) -> None:
        """Keep it."""
        self.entries.append(entry)

    async def written(self, within: float) -> bool:
        """All is kept at once."""
        return True

    def of(self, *kinds: Kind) -> list[Entry]:
        """Those of these kinds."""
        return [entry for entry in self.entries if entry.kind in kinds]
