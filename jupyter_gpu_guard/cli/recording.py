"""`record`: what the guard of a server sees, look by look, into a file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from jupyter_gpu_guard.running import NoAnswerError, NotFoundError, Server, ask
from jupyter_gpu_guard.snapshots import Header, LineError, header_of, parse_header

SHORTEST_PAUSE = 0.2


class CannotRecordError(Exception):
    """Nothing can be recorded; the text says why and what would help."""


@dataclass
class Recorder:
    """Writes to `file` what `server` sees. `interval` (seconds) None: as often as the server looks."""

    server: Server
    file: Path
    interval: float | None = None
    names: bool = False
    force: bool = False
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    written: int = 0
    missed: int = 0
    silent_for: int = 0
    _header: Header | None = None
    _seen: tuple[str, int] | None = None

    def record(self, duration: float | None, progress: Callable[[Recorder], object]) -> None:
        """Until `duration` (seconds; None: for ever) is over or Ctrl-C comes. Raises CannotRecordError.

        A server that falls silent later on is waited for. `progress` is called after each question.
        """
        end = None if duration is None else self.monotonic() + duration
        answer: dict[str, Any] | None = self._ask()
        with self._open() as file:
            while True:
                if answer is not None:
                    self._write(file, answer)
                progress(self)
                pause = self._pause()
                if end is not None and self.monotonic() + pause > end:
                    return
                self.sleep(pause)
                try:
                    answer = self._ask()
                    self.silent_for = 0
                except CannotRecordError:
                    answer = None
                    self.silent_for += 1

    def summary(self) -> str:
        """What came of it, in a sentence or two."""
        text = f"{self.written} {'snapshot' if self.written == 1 else 'snapshots'} written to {self.file}."
        if self.missed:
            text += f" {self.missed} looks of the server in between are missing, and what was computed in them."
        return text

    def _ask(self) -> dict[str, Any]:
        try:
            answer = ask(self.server, "snapshot", names=str(int(self.names)))
        except NotFoundError:
            raise CannotRecordError(
                f"{self.server.url} runs an older jupyter-gpu-guard: update it there, and restart it"
            ) from None
        except NoAnswerError as error:
            raise CannotRecordError(str(error)) from None
        if not isinstance(answer, dict) or "snapshot" not in answer:
            raise CannotRecordError(f"{self.server.url} answers no snapshot that this version can read.")
        return answer

    def _pause(self) -> float:
        if self.interval is not None:
            return max(SHORTEST_PAUSE, self.interval)
        # Twice as often as the server looks, so that no look is missed.
        return max(SHORTEST_PAUSE, self._header.interval_seconds / 2 if self._header else 1.0)

    def _open(self) -> BinaryIO:
        """The file, at its end. If it is new, or with names, only its owner can read it. Raises CannotRecordError."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (os.O_TRUNC if self.force else 0)
        try:
            file = os.fdopen(os.open(self.file, flags, 0o600), "r+b")
        except OSError as error:
            raise CannotRecordError(f"{self.file} cannot be written ({error.strerror}): give another file") from None
        try:
            if first := file.readline():
                self._is_recording(first)
            if self.names:
                self._for_its_owner_only(file)
            if first:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.write(b"\n")  # what was written last is cut off; reading it makes a note of that
        except BaseException:
            file.close()
            raise
        return file

    def _for_its_owner_only(self, file: BinaryIO) -> None:
        try:
            os.fchmod(file.fileno(), 0o600)
        except OSError as error:
            remedy = "give another file"
            raise CannotRecordError(f"{self.file} cannot be kept from others ({error.strerror}): {remedy}") from None

    def _is_recording(self, first: bytes) -> None:
        try:
            header = parse_header(first.decode(errors="replace"))
        except LineError as error:
            raise CannotRecordError(f"{self.file}: {error}, or give another file") from None
        if header is None:
            remedy = "give another file, or replace it with --force"
            raise CannotRecordError(f"{self.file} is there already and no recording: {remedy}")

    def _write(self, file: BinaryIO, answer: dict[str, Any]) -> None:
        try:
            header = header_of(answer)
        except LineError as error:
            raise CannotRecordError(f"{self.server.url}: {error}") from None
        header = replace(header, interval_seconds=max(header.interval_seconds, self.interval or 0.0))
        lines = [] if header == self._header else [header.line()]
        self._header = header
        look = (header.run, int(answer.get("look", 0)))
        if answer["snapshot"] is not None and look != self._seen:
            if self._seen is not None and self._seen[0] == look[0]:
                self.missed += max(0, look[1] - self._seen[1] - 1)
            self._seen = look
            self.written += 1
            lines.append(json.dumps(answer["snapshot"], separators=(",", ":")))
        try:
            file.write("".join(f"{line}\n" for line in lines).encode())
            file.flush()
        except OSError as error:
            raise CannotRecordError(f"{self.file} cannot be written any more ({error.strerror})") from None
