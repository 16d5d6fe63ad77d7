"""Why something was ended, and why not: the entries of the audit, from servers or from folders, as one table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from jupyter_gpu_guard.running import NoAnswerError, NotFoundError, Server, ask

from .tables import plain

Row = Mapping[str, Any]

_SIMPLE = {
    "started": "server started",
    "stopped": "server stopped",
    "hinted": "told",
    "lifted": "warning lifted",
    "unkept": "kept no more",
    "spared": "not ended",
}


def from_servers(servers: Iterable[Server], since: str, owner: str | None) -> dict[str, Any]:
    """What the guards of `servers` have written down, each entry once; `errors` are sentences."""
    answers, errors = [], []
    for server in servers:
        try:
            answers.append(ask(server, "audit", since=since, **({} if owner is None else {"owner": owner})))
        except (NoAnswerError, NotFoundError) as error:
            errors.append(str(error))
    return _together(answers, errors)


def from_folders(folders: Iterable[Path], since: datetime, owner: str | None) -> dict[str, Any]:
    """What stands in `folders`, each entry once; `errors` are sentences. No server is asked."""
    from jupyter_gpu_guard.history.audit import read  # noqa: PLC0415
    from jupyter_gpu_guard.server.audit import audit  # noqa: PLC0415

    answers, errors = [], []
    for folder in folders:
        try:
            answers.append(audit(read(folder, since), since, owner).model_dump(mode="json"))
        except OSError as error:
            errors.append(f"{folder} cannot be read ({error.strerror or error}).")
    return _together(answers, errors)


def own_folder() -> Path:
    """Where the servers of this user write, unless they are told otherwise."""
    from jupyter_core.paths import jupyter_data_dir  # noqa: PLC0415

    return Path(jupyter_data_dir(), "gpu-guard", "audit")


def _together(answers: Sequence[Row], errors: list[str]) -> dict[str, Any]:
    """One answer of several: servers that share a folder give the same entries."""
    entries = {json.dumps(entry, sort_keys=True): entry for answer in answers for entry in answer["entries"]}
    return {
        "entries": sorted(entries.values(), key=lambda entry: datetime.fromisoformat(_zoned(entry["at"]))),
        "left_out": max((answer["left_out"] for answer in answers), default=0),
        "unreadable": max((answer["unreadable"] for answer in answers), default=0),
        "errors": errors,
    }


def audit_view(answer: Row) -> RenderableType:
    """The entries as a table. An act that has an outcome is one row."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("when", "who", "what", "rule", "why"):
        table.add_column(column, overflow="fold")
    ended = {entry["act"] for entry in answer["entries"] if entry["kind"] == "outcome"}
    for entry in answer["entries"]:
        if entry["kind"] != "begun" or entry["act"] not in ended:
            why = " ".join(reason["text"] for reason in entry["reasons"])
            table.add_row(*map(plain, (_moment(entry["at"]), _who(entry), _what(entry), entry["rule"] or "", why)))
    return table


def _who(entry: Row) -> str:
    return str(entry["notebook"] or entry["name"] or entry["owner"] or "")


def _what(entry: Row) -> str:
    kind, by = entry["kind"], f" by {entry['by']}" if entry["by"] else ""
    if kind == "outcome":
        return f"{entry['action']}{by}: {entry['result']} ({entry['detail']})"
    if kind == "warned":
        count = entry["clients"] or 0
        pages = {0: "nobody", 1: "1 page"}.get(count, f"{count} pages")
        return f"warned: not before {_moment(entry['deadline'])}; {pages} connected"
    if kind == "begun":
        return f"{entry['action']} begun{by}"
    if kind == "kept":
        because = f": {entry['kept_because']}" if entry["kept_because"] else ""
        return f"kept until {_moment(entry['kept_until'])}{by}{because}{_beyond(entry)}"
    if kind == "policy":
        return f"policy {entry['policy']}, mode {entry['mode']}{', ' if entry['detail'] else ''}{entry['detail']}"
    if kind == "policy-waits":
        return entry["detail"] or "a new policy waits for an administrator"
    return f"{_SIMPLE.get(kind, kind)}{by}"


def _beyond(entry: Row) -> str:
    return f" ({entry['detail']})" if entry["detail"] else ""


def _moment(text: str | None) -> str:
    """A moment by the clock of this machine."""
    return "–" if text is None else f"{datetime.fromisoformat(_zoned(text)).astimezone():%Y-%m-%d %H:%M:%S}"


def _zoned(text: str) -> str:
    return text.replace("Z", "+00:00")  # Python 3.10 does not know the letter
