"""Snapshots as lines of JSON, to be kept, passed on and replayed.

A recording is one or more parts. Each part begins with a header line; every other line is one Snapshot. Without names
it tells nothing of what people call their work: see `without_names`.
"""

from __future__ import annotations

import json
import re
import secrets
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from hashlib import blake2b
from typing import Any, TypeVar, cast

from .core.model import (
    Activity,
    Device,
    Gap,
    GpuClient,
    Instant,
    Mark,
    Owner,
    OwnerKey,
    OwnerKind,
    Process,
    ProcessKey,
    Snapshot,
    Unknown,
)

FORMAT = "jupyter-gpu-guard snapshots"
VERSION = 1

_PID = re.compile(r"\d+-\d+\Z")  # a TensorBoard that is a process has its pid and start time for an id

Token = Callable[[str, str], str]


class LineError(ValueError):
    """A line that is not what it should be; the text says what is wrong with it and what would help."""


@dataclass(frozen=True)
class Header:
    """What holds for all Snapshots that follow, up to the next header.

    `run` is a number of its own for each time that a server runs: monotonic times are only comparable within one.
    `policy` is the digest of the policy in force there. `interval_seconds` lie between two looks, or
    `resting_seconds` while nobody is on any device.
    """

    recorded_with: str
    run: str
    interval_seconds: float
    resting_seconds: float = 0.0
    policy: str = ""
    names: bool = False

    def line(self) -> str:
        """As one line of JSON, without its end."""
        return json.dumps({"format": FORMAT, "version": VERSION, **asdict(self)})


def parse_header(line: str) -> Header | None:
    """The header that `line` is; None if it is none. Raises LineError for a header that this version cannot follow."""
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return header_of(told) if isinstance(told, dict) and told.get("format") == FORMAT else None


def header_of(told: Mapping[str, Any]) -> Header:
    """The header in what was `told`, which may hold more. Raises LineError."""
    if told.get("version") != VERSION:
        made_by = told.get("recorded_with")
        raise LineError(
            f"this is version {told.get('version')!r}, and {VERSION} is read here: use {made_by} of this tool"
        )
    try:
        return cast("Header", _adapter(Header).validate_python(dict(told)))
    except ValueError:
        raise LineError("the header cannot be read: record anew") from None


@dataclass(frozen=True)
class _Active:
    io: tuple[tuple[ProcessKey, float], ...]
    listens: tuple[int, ...] = ()
    visitors: int | None = 0


@dataclass(frozen=True)
class _Line:
    """A Snapshot with lists in place of mappings, since JSON knows only texts as keys."""

    taken_at: Instant
    devices: tuple[Device, ...] = ()
    clients: tuple[GpuClient, ...] = ()
    processes: tuple[Process, ...] = ()
    owners: tuple[Owner, ...] = ()
    gaps: tuple[Gap, ...] = ()
    simulated: bool = False
    marks: tuple[tuple[ProcessKey, Mark], ...] = ()
    activity: tuple[tuple[OwnerKey, _Active], ...] = ()


@cache
def _adapter(kind: type) -> Any:
    from pydantic import TypeAdapter  # noqa: PLC0415  slow to import, and only a few need it

    return TypeAdapter(kind)


def to_json(snapshot: Snapshot) -> str:
    """`snapshot` as one line of JSON, without its end. `from_json` gives back an equal one."""
    line = _Line(
        taken_at=snapshot.taken_at,
        devices=snapshot.devices,
        clients=snapshot.clients,
        processes=tuple(snapshot.processes.values()),
        owners=snapshot.owners,
        gaps=snapshot.gaps,
        simulated=snapshot.simulated,
        marks=tuple(snapshot.marks.items()),
        activity=tuple(
            (key, _Active(tuple(seen.io.items()), tuple(sorted(seen.listens)), seen.visitors))
            for key, seen in snapshot.activity.items()
        ),
    )
    return cast("bytes", _adapter(_Line).dump_json(line, exclude_defaults=True)).decode()


def from_json(text: str) -> Snapshot:
    """The Snapshot in one line of JSON. Raises LineError."""
    from pydantic import ValidationError  # noqa: PLC0415

    try:
        line: _Line = _adapter(_Line).validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise LineError(f"this is not a snapshot ({f'{where}: ' if where else ''}{first['msg']})") from None
    return Snapshot(
        taken_at=line.taken_at,
        devices=line.devices,
        clients=line.clients,
        processes={process.key.pid: process for process in line.processes},
        owners=line.owners,
        gaps=line.gaps,
        simulated=line.simulated,
        marks=dict(line.marks),
        activity={key: Activity(dict(seen.io), frozenset(seen.listens), seen.visitors) for key, seen in line.activity},
    )


def only_what_matters(snapshot: Snapshot, also: Collection[ProcessKey] = ()) -> Snapshot:
    """`snapshot` without the processes that change nothing in whose is what.

    Those on a device, the owners' roots and whoever is in `also` stay, with all that descend from an owner and all
    ancestors.
    """
    table = snapshot.processes
    families: dict[int, list[int]] = defaultdict(list)  # who came from whom, as its child or as one of its session
    for pid, process in table.items():
        families[process.parent].append(pid)
        families[process.session].append(pid)
    ours = [*(owner.root for owner in snapshot.owners if owner.root), *also, *snapshot.marks]
    ours += [key for seen in snapshot.activity.values() for key in seen.io]
    wanted = _reachable({key.pid for key in ours}, lambda pid: families.get(pid, ()))
    wanted |= {client.pid for client in snapshot.clients}
    wanted |= {mark.server for mark in snapshot.marks.values() if mark.server is not None}
    wanted = _reachable(wanted, lambda pid: (table[pid].parent, table[pid].session) if pid in table else ())
    return replace(snapshot, processes={pid: process for pid, process in table.items() if pid in wanted})


def _reachable(begin: set[int], following: Callable[[int], Iterable[int]]) -> set[int]:
    found, open_ends = set(begin), list(begin)
    while open_ends:
        for pid in following(open_ends.pop()):
            if pid not in found:
                found.add(pid)
                open_ends.append(pid)
    return found


class Pseudonyms:
    """Opaque words in place of names: the same for the same name while this object lives, and never again after.

    `run` is a word for this object itself.
    """

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self.run = secrets.token_hex(6)

    def __call__(self, kind: str, name: str) -> str:
        """`notebook-5f3a9c12e0`: what kind of name it is, and which."""
        return (
            f"{kind}-{blake2b(f'{kind}/{name}'.encode(errors='replace'), key=self._secret, digest_size=5).hexdigest()}"
        )


def without_names(snapshot: Snapshot, token: Token) -> Snapshot:
    """`snapshot` with opaque words for notebooks, sessions and log directories, and no sentence that may hold a path.

    So have terminals and what runs within the server, as people name them. Kernelspecs, devices, pids and times stay.
    """

    def key_of(told: OwnerKey) -> OwnerKey:
        is_named = told.kind is OwnerKind.TERMINAL or (told.kind is OwnerKind.TENSORBOARD and not _PID.match(told.id))
        return OwnerKey(told.kind, token(told.kind.value, told.id)) if is_named else told

    def owner(told: Owner) -> Owner:
        kind = told.key.kind.value
        notebook = None if told.notebook is None else token("notebook", told.notebook)
        board = told.board and replace(
            told.board,
            log_dir=token("log", told.board.log_dir),
            started_by=told.board.started_by and key_of(told.board.started_by),
        )
        name = notebook or token(kind, told.name)
        return replace(told, key=key_of(told.key), name=name, notebook=notebook, board=board)

    return replace(
        snapshot,
        devices=tuple(_without_details(device) for device in snapshot.devices),
        clients=tuple(_without_details(client) for client in snapshot.clients),
        owners=tuple(owner(told) for told in snapshot.owners),
        gaps=tuple(Gap(gap.source, "") for gap in snapshot.gaps),
        marks={
            key: replace(mark, session=None if mark.session is None else token("session", mark.session))
            for key, mark in snapshot.marks.items()
        },
        activity={key_of(key): seen for key, seen in snapshot.activity.items()},
    )


_Row = TypeVar("_Row", Device, GpuClient)


def _without_details(row: _Row) -> _Row:
    """`row` with Unknowns that say why, and no more: their details come from drivers."""
    changed: dict[str, Any] = {
        field.name: Unknown(value.why)
        for field in fields(row)
        if isinstance(value := getattr(row, field.name), Unknown) and value.detail
    }
    return replace(row, **changed)
