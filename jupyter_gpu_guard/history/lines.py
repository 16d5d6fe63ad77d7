"""Entries as lines of JSON. What this version cannot read of a line is left out, not guessed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from jupyter_gpu_guard.core.entry import Entry, Grounds

from .plain import from_plain, to_plain

VERSION = 1
LONGEST = 2**20  # bytes of one line; more is damage


def to_line(entry: Entry) -> bytes:
    """`entry` as one line, with its end. `from_line` gives back an equal one."""
    text = json.dumps({"version": VERSION, **to_plain(entry)}, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="replace") + b"\n"


def from_line(line: bytes) -> Entry | None:
    """The Entry in `line`; None if it is none. Grounds in the words of another version are left out."""
    told = parse(line)
    return None if told is None else entry_of(told)


def parse(line: bytes) -> dict[str, Any] | None:
    """What `line` says, not yet looked at closely; None if it is damaged or of another version."""
    if len(line) > LONGEST:
        return None
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) and told.get("version") == VERSION else None


def entry_of(told: dict[str, Any]) -> Entry | None:
    """The Entry that was `told`; None if it is none."""
    try:
        entry = from_plain(Entry, {**told, "grounds": None})
    except ValueError:
        return None
    return replace(entry, grounds=_grounds_of(told.get("grounds"))) if entry.at.tzinfo is not None else None


def _grounds_of(told: Any) -> Grounds | None:
    try:
        return None if told is None else from_plain(Grounds, told)
    except ValueError:
        return None
