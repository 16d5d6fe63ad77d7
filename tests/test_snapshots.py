"""Snapshots as lines of JSON: nothing is lost on the way, nothing that matters is left out, no name gets through."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import datetime, timezone

import pytest
from core.build import client, key, owner, process, snapshot
from core.films import Look, Moment, film
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gpu_guard.core.attribute import attribute
from jupyter_gpu_guard.core.model import (
    Activity,
    Board,
    Device,
    DeviceState,
    Evidence,
    Gap,
    GpuClient,
    Instant,
    Mark,
    Owner,
    OwnerKey,
    OwnerKind,
    OwnerState,
    Process,
    ProcessKey,
    Snapshot,
    Unknown,
    Why,
)
from jupyter_gpu_guard.snapshots import (
    Header,
    LineError,
    Pseudonyms,
    _Line,
    from_json,
    only_what_matters,
    parse_header,
    to_json,
    without_names,
)

# Lone surrogates are no text: a path that cannot be decoded is shown with replacements long before it comes here.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = st.floats(0, 1e15, allow_nan=False, allow_infinity=False)
unknowns = st.builds(Unknown, st.sampled_from(Why), texts)
readings = numbers | unknowns
times = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(timezone.utc))  # noqa: DTZ001
pids = st.integers(1, 2**22)
process_keys = st.builds(ProcessKey, pids, st.integers(0, 2**63))
owner_keys = st.builds(OwnerKey, st.sampled_from(OwnerKind), texts)
ports = st.frozensets(st.integers(1, 65535), max_size=3)
processes = st.builds(Process, process_keys, pids, pids, pids, st.sampled_from("RSDZ"), times, cpu=numbers)
boards = st.builds(
    Board, texts, st.none() | st.integers(1, 65535), st.none() | owner_keys, st.booleans(), st.booleans()
)
snapshots = st.builds(
    Snapshot,
    taken_at=st.builds(Instant, times, numbers),
    devices=st.lists(
        st.builds(
            Device,
            uuid=texts,
            index=st.integers(0, 64),
            name=texts,
            memory_total=readings,
            memory_used=readings,
            memory_reserved=readings,
            compute=readings,
            temperature=readings,
            power=readings,
            mig=st.booleans(),
            state=st.sampled_from(DeviceState),
            overall=readings,
            part_of=st.none() | texts,
        ),
        max_size=2,
    ).map(tuple),
    clients=st.lists(
        st.builds(GpuClient, texts, pids, readings, readings, texts, st.sampled_from(Evidence)), max_size=3
    ).map(tuple),
    processes=st.lists(processes, max_size=3).map(lambda rows: {row.key.pid: row for row in rows}),
    owners=st.lists(
        st.builds(
            Owner,
            key=owner_keys,
            name=texts,
            root=st.none() | process_keys,
            state=st.sampled_from(OwnerState),
            notebook=st.none() | texts,
            kernelspec=st.none() | texts,
            started_at=st.none() | times,
            used_at=st.none() | numbers,
            own_ports=ports,
            failed=st.booleans(),
            died=st.booleans(),
            board=st.none() | boards,
        ),
        max_size=2,
    ).map(tuple),
    gaps=st.lists(st.builds(Gap, texts, texts), max_size=2).map(tuple),
    simulated=st.booleans(),
    marks=st.dictionaries(process_keys, st.builds(Mark, st.none() | pids, st.none() | texts), max_size=2),
    activity=st.dictionaries(
        owner_keys,
        st.builds(Activity, st.dictionaries(process_keys, numbers, max_size=2), ports, st.integers(0, 9)),
        max_size=2,
    ),
)
steady = settings(derandomize=True, deadline=None, database=None, max_examples=150)


@steady
@given(snapshots)
def test_a_snapshot_comes_back_as_it_was(seen: Snapshot) -> None:
    """Each number to its last digit, each Unknown with its reason and detail, on one line."""
    line = to_json(seen)
    assert "\n" not in line
    assert from_json(line) == seen


def test_every_field_of_a_snapshot_is_on_its_line() -> None:
    """One that is added to Snapshot must be added here."""
    assert [field.name for field in fields(_Line)] == [field.name for field in fields(Snapshot)]


def test_a_number_never_becomes_unknown_nor_the_other_way_round() -> None:
    """Zero, a whole number and what is not known stay apart."""
    seen = snapshot(clients=[client(7, 0, 0.0), client(8, Unknown(Why.NOT_READ), 5)])
    told = json.loads(to_json(seen))["clients"]
    assert [row["memory"] for row in told] == [0, {"why": "not-read"}]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("", "snapshot"),
        ("[]", "snapshot"),
        ('{"taken_at": {"wall": "2026-01-01T00:00:00Z"', "snapshot"),
        ("{}", "taken_at"),
        ('{"taken_at": {"wall": "2026-01-01T00:00:00Z", "monotonic": null}}', "monotonic"),
        ('{"taken_at": {"wall": "2026-01-01T00:00:00Z", "monotonic": 1}, "clients": [{"device": "x"}]}', "clients"),
    ],
)
def test_a_line_that_is_none_says_what_is_wrong(line: str, word: str) -> None:
    """A sentence that names the place, and no traceback of a library."""
    with pytest.raises(LineError, match=word):
        from_json(line)


def test_a_header_comes_back_as_it_was() -> None:
    """And no other line is one."""
    header = Header("1.2", "a1", 5.0, 30.0, "digest", names=True)
    assert parse_header(header.line()) == header
    assert parse_header(to_json(snapshot())) is None
    assert parse_header("{") is None
    assert parse_header("[]") is None


@pytest.mark.parametrize(
    ("change", "word"), [({"version": 2}, "version 2"), ({"interval_seconds": "often"}, "record anew")]
)
def test_a_header_that_cannot_be_followed_is_refused(change: dict[str, object], word: str) -> None:
    """A later version may mean something else by the same words."""
    told = {**json.loads(Header("1.2", "a1", 5.0).line()), **change}
    with pytest.raises(LineError, match=word):
        parse_header(json.dumps(told))


def test_names_are_replaced_by_words_that_say_nothing() -> None:
    """Notebooks, sessions, log directories, names and sentences; what is the same stays the same."""
    secret = "/home/anna/secret.ipynb"
    board = Board(secret, 6006, OwnerKey(OwnerKind.KERNEL, "a"))
    seen = replace(
        snapshot(
            process(100),
            owners=[
                replace(owner("a", 100, notebook=secret), name=secret),
                replace(owner("b", 101, notebook=secret), name=secret, board=board),
                replace(owner("c", 102), notebook=None, name=secret),
            ],
            clients=[client(100, Unknown(Why.DRIVER_ERROR, secret))],
            devices=[Device("gpu-0", 0, "GPU", 1.0, Unknown(Why.NOT_READ, secret))],
        ),
        gaps=(Gap("devices", f"cannot read {secret}"),),
        marks={key(100): Mark(10, secret)},
    )
    token = Pseudonyms()
    told = without_names(seen, token)
    assert "secret" not in to_json(told)
    assert "anna" not in to_json(told)
    one, other, third = told.owners
    assert one.notebook == other.notebook == one.name == token("notebook", secret)
    assert third.notebook is None
    assert third.name.startswith("kernel-")
    assert (one.kernelspec, one.root, one.key) == (seen.owners[0].kernelspec, seen.owners[0].root, seen.owners[0].key)
    assert [gap.source for gap in told.gaps] == ["devices"]
    assert told.clients[0].memory == Unknown(Why.DRIVER_ERROR)
    assert without_names(seen, token) == told


def test_what_people_call_terminals_is_replaced_wherever_it_stands() -> None:
    """A terminal, and a TensorBoard within the server: as an owner, for its activity, and as who started something."""
    terminal = OwnerKey(OwnerKind.TERMINAL, "merger-with-acme")
    inside = OwnerKey(OwnerKind.TENSORBOARD, "inside-acme")
    outside, kernel = OwnerKey(OwnerKind.TENSORBOARD, "17-4711"), OwnerKey(OwnerKind.KERNEL, "a")
    seen = replace(
        snapshot(
            owners=[
                replace(owner("a", 100), key=terminal, notebook=None),
                replace(owner("a", 100), key=inside, board=Board("runs", inside=True)),
                replace(owner("a", 100), key=outside, board=Board("runs", started_by=terminal)),
                replace(owner("a", 100), board=Board("runs", started_by=kernel)),
            ]
        ),
        activity={terminal: Activity(), inside: Activity(visitors=1), outside: Activity(), kernel: Activity()},
    )
    told = without_names(seen, Pseudonyms())
    assert "acme" not in to_json(told)
    one, two, *others = (each.key for each in told.owners)
    assert (one.kind, two.kind) == (terminal.kind, inside.kind)
    assert one != two
    assert others == [outside, kernel]
    assert [each.board.started_by for each in told.owners if each.board is not None] == [None, one, kernel]
    assert told.activity.keys() == {one, two, outside, kernel}
    assert told.activity[two].visitors == 1


def test_words_of_another_run_say_nothing_about_this_one() -> None:
    """Nobody can look for a notebook whose name they guess."""
    assert Pseudonyms()("notebook", "a.ipynb") != Pseudonyms()("notebook", "a.ipynb")
    one = Pseudonyms()
    assert one("notebook", "a.ipynb") != one("notebook", "b.ipynb")
    assert one("notebook", "a.ipynb") != one("log", "a.ipynb")


LOOKS = st.builds(Look, life=st.integers(0, 2), children=st.integers(0, 3))


@steady
@given(st.lists(st.fixed_dictionaries({}, optional={"a": LOOKS, "b": LOOKS}), min_size=1, max_size=6))
def test_what_is_left_out_changes_nothing(pictures: list[dict[str, Look]]) -> None:
    """Whose is what comes out the same, with bystanders and without them, from picture to picture."""
    full, less = {}, {}
    for picture in film([Moment(kernels) for kernels in pictures]):
        crowd = {pid: process(pid) for pid in range(300_000, 300_050)}
        seen = replace(picture, processes={**crowd, **picture.processes})
        reduced = only_what_matters(seen, full)
        assert crowd.keys().isdisjoint(reduced.processes)
        one, other = attribute(seen, full), attribute(reduced, less)
        assert (one.holders, one.strangers) == (other.holders, other.strangers)
        full, less = one.lineage, other.lineage


def test_ancestors_and_those_who_moved_away_stay() -> None:
    """The parents of a stranger, a worker in the kernel's session, and the server that a mark names."""
    seen = snapshot(
        process(100),
        process(101, 1, session=100),
        process(50, 40),
        process(40, 30),
        process(30, 1),
        process(60, 1),
        process(70, 1),
        process(71, 70),
        owners=[owner("a", 100)],
        clients=[client(50)],
    )
    seen = replace(seen, marks={key(50): Mark(60, "x")})
    assert set(only_what_matters(seen).processes) == {1, 100, 101, 50, 40, 30, 60}
    assert {70, 71} <= set(only_what_matters(seen, [key(70)]).processes)
