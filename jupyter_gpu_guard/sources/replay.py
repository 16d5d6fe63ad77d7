"""Recordings: files of Snapshots, as `jupyter gpu-guard record` writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from jupyter_gpu_guard.core.model import Snapshot
from jupyter_gpu_guard.snapshots import Header, LineError, from_json, parse_header


class RecordingError(Exception):
    """A file that is no recording, or cannot be read; the text begins with the place and ends with a remedy."""


class Recording:
    """One file, read line by line. `notes` tell what was left out, once it has been read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bytes_read = 0
        self.notes: list[str] = []

    def __iter__(self) -> Iterator[tuple[Header, Snapshot]]:
        """Each Snapshot with the header that holds for it. Raises RecordingError."""
        self.notes.clear()
        self.bytes_read = 0
        try:
            with self.path.open("rb") as file:
                yield from self._read(enumerate(file, start=1))
        except OSError as error:
            raise RecordingError(f"{self.path}: {error.strerror}; give the path of a recording") from None

    def _read(self, lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[Header, Snapshot]]:
        header: Header | None = None
        cut: int | None = None  # the line before, if it is no JSON: only what comes next tells whether that is a fault
        for number, raw in lines:
            self.bytes_read += len(raw)
            line = raw.decode(errors="replace").strip()
            if not line:
                continue
            told = self._header(number, line)
            if told is not None:
                self._forgive(cut)
                header, cut = told, None
                continue
            if header is None:
                raise RecordingError(
                    f"{self.path}:{number}: this is no recording; make one with `jupyter gpu-guard record FILE`"
                )
            if cut is not None:
                raise RecordingError(f"{self.path}:{cut}: this line is broken; delete it, or record anew")
            try:
                snapshot = from_json(line)
            except LineError as error:
                if _is_json(line):
                    raise RecordingError(f"{self.path}:{number}: {error}; delete the line, or record anew") from None
                cut = number
                continue
            yield header, snapshot
        self._forgive(cut)
        if header is None:
            raise RecordingError(f"{self.path}: it is empty; make a recording with `jupyter gpu-guard record FILE`")

    def _header(self, number: int, line: str) -> Header | None:
        try:
            return parse_header(line)
        except LineError as error:
            raise RecordingError(f"{self.path}:{number}: {error}") from None

    def _forgive(self, cut: int | None) -> None:
        if cut is not None:
            self.notes.append(f"{self.path}:{cut}: the line is cut off in the middle and left out.")


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
