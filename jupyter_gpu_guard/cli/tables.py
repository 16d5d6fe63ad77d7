"""Reports and policies as tables for a terminal. Nothing here decides, and what is not known is shown as a dash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from jupyter_gpu_guard.core.explain import memory, percent, sentence, span
from jupyter_gpu_guard.core.verdict import Code, Reason

UNWATCHED_WIDTH = 240  # columns when no person is looking: wide enough that no path is broken

Row = Mapping[str, Any]


def console(*, stderr: bool = False) -> Console:
    """A console that reads no markup in what others have named."""
    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    return made if made.is_terminal else Console(stderr=stderr, width=UNWATCHED_WIDTH, markup=False, emoji=False)


def plain(text: object) -> str:
    """`text` without control characters: a notebook's name must not steer a terminal."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in str(text))


def reading(row: Row, name: str) -> str:
    """The amount under `name` in words, marked where it is an estimate, or a dash with its reason."""
    value = row[name]
    if value is None:
        why = str(row.get(f"{name}_unknown") or "").replace("-", " ")
        return f"– {plain(why)}".rstrip()
    text = memory(value) if name.endswith("_bytes") else percent(value)
    return f"≈ {text}" if row.get("estimated") else text


def table_of(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """A table without lines, which folds what is too long."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def report_view(url: str, report: Row) -> RenderableType:
    """One server's report."""
    parts: list[RenderableType] = [_headline(url, report)]
    parts += [Text(f"Not measured: {plain(gap['source'])}. {plain(gap['why'])}", "yellow") for gap in report["gaps"]]
    if fault := report["policy"]["fault"]:
        parts += [Text("The policy was not taken:", "red"), *(Text(f"  {plain(line)}") for line in fault.splitlines())]
    if waits := report["policy"].get("pending"):
        parts += [Text(line, "yellow") for line in pending_lines(url, waits)]
    sections = (
        ("Devices", _devices(report)),
        ("Notebooks", _notebooks(report)),
        ("TensorBoards", _boards(report)),
        ("Terminals", _by_processes("terminal", report)),
        ("Left behind", _by_processes("leftovers", report)),
    )
    for title, table in sections:
        if table.row_count:
            parts += [Text(""), Text(title, "bold underline"), table]
    if remarks := list(_remarks(report)):
        parts += [Text(""), *(Text(plain(line)) for line in remarks)]
    if not report["holders"] and report["taken_at"] is not None:
        parts += [Text(""), Text("No notebook, terminal or TensorBoard of this server holds a GPU.")]
    if report["outcomes"]:
        parts += [Text(""), Text("Done lately", "bold underline")]
        parts += [_outcome(done) for done in report["outcomes"]]
    return Group(*parts, Text(""))


def pending_lines(url: str, waits: Row) -> list[str]:
    """A policy that waits for a person, and whom it would end."""
    touched = waits["touched"]
    which = f"{plain(url)}: policy {plain(waits['hash'])} from {plain(waits['source'])} waits to be accepted."
    return [
        f"{which} It would newly end {len(touched)} of {waits['holders']} that hold GPU memory:",
        *(f"  {plain(each['name'] or each['owner'])} ({plain(each['owner'])})" for each in touched),
    ]


def _headline(url: str, report: Row) -> Text:
    facts = [f"mode {plain(report['mode'])}"]
    facts += ["simulated devices"] if report["simulated"] else []
    taken_at = report["taken_at"]
    facts.append(f"seen at {_clock(taken_at)}" if taken_at else "nothing seen yet")
    facts.append(f"policy {plain(report['policy']['source'])}")
    return Text(plain(url), "bold cyan").append(f"  {', '.join(facts)}", "not bold default")


def _outcome(done: Row) -> Text:
    name, result = name_of(done), "" if done["result"] == "done" else f" {done['result']}"
    return Text(plain(f"{_clock(done['at'])}  {name}: {done['action']}{result}, {done['detail']}"))


def name_of(row: Row) -> str:
    """What people call it: a kernel by its notebook, everything else by its own name."""
    is_kernel = str(row["owner"]).startswith("kernel:")
    return str((row["notebook"] if is_kernel else None) or row["name"])


def _devices(report: Row) -> Table:
    right = ("Used", "Of", "Not listed", "Compute", "Others hold")
    table = table_of("Device", *right, right=right)
    others = {row["device"]: row for row in report["strangers"]}
    for device, label in _labelled(report["devices"]):
        state = "" if device["state"] == "ok" else f" ({plain(device['state'])})"
        stranger = others.get(device["uuid"])
        table.add_row(
            f"{label}: {plain(device['name'])}{state}",
            reading(device, "memory_used_bytes"),
            reading(device, "memory_total_bytes"),
            reading(device, "memory_unattributed_bytes"),
            reading(device, "compute_percent"),
            f"{reading(stranger, 'memory_bytes')} in {stranger['processes']}" if stranger else "",
        )
    return table


def _labelled(devices: Sequence[Row]) -> Iterator[tuple[Row, str]]:
    """The devices by index, each MIG instance after its GPU, and what to call them: `0`, `0 MIG 1`."""
    known = {device["uuid"] for device in devices}
    for device in devices:
        if device.get("part_of") in known:
            continue
        yield device, str(device["index"])
        parts = [part for part in devices if part.get("part_of") == device["uuid"]]
        for place, part in enumerate(sorted(parts, key=lambda part: int(part["index"]))):
            yield part, f"{device['index']} MIG {place}"


def _of_kind(kind: str, report: Row) -> Iterator[Row]:
    return (holder for holder in report["holders"] if holder["kind"] == kind)


def _notebooks(report: Row) -> Table:
    table = table_of(
        "Name", "Owner", "State", "Memory", "Compute", "Idle for", "What comes", right=("Memory", "Compute")
    )
    for holder in _of_kind("kernel", report):
        idle = holder["idle_seconds"]
        table.add_row(
            plain(name_of(holder)),
            plain(holder["owner"]),
            plain(holder["state"]),
            reading(holder, "memory_bytes"),
            reading(holder, "compute_percent"),
            span(idle) if idle else "",
            _prospect(holder, report),
        )
    return table


def _boards(report: Row) -> Table:
    table = table_of(
        "Name", "Owner", "Logs", "Port", "Started by", "Looked at", "Memory", "What comes", right=("Memory",)
    )
    for holder in _of_kind("tensorboard", report):
        board = holder.get("board") or {}
        again = " (shown by another one too)" if board.get("duplicate") else ""
        port = board.get("port")
        table.add_row(
            plain(name_of(holder)),
            plain(holder["owner"]),
            plain(board.get("log_dir") or "") + again,
            "" if port is None else str(port),
            plain(board.get("started_by_name") or ""),
            _looked_at(board),
            reading(holder, "memory_bytes"),
            _prospect(holder, report),
        )
    return table


def _looked_at(board: Row) -> str:
    """Whether anybody looks at a TensorBoard, or for how long nobody was seen to; a dash for what is not known."""
    watchers, unwatched = board.get("watchers"), board.get("unwatched_seconds")
    if watchers:
        return "now"
    if unwatched is not None:
        return f"not for {span(unwatched)}"
    return "–" if watchers is None else "not now"


def _by_processes(kind: str, report: Row) -> Table:
    table = table_of("Name", "Owner", "Processes", "Memory", "Compute", "What comes", right=("Memory", "Compute"))
    for holder in _of_kind(kind, report):
        size = holder.get("tree_size")
        table.add_row(
            plain(name_of(holder)),
            plain(holder["owner"]),
            "–" if size is None else str(size),
            reading(holder, "memory_bytes"),
            reading(holder, "compute_percent"),
            _prospect(holder, report),
        )
    return table


def _remarks(report: Row) -> Iterator[str]:
    """What no table has room for: what is left behind by whom, and what the mark of an estimate means."""
    for holder in report["holders"]:
        left = holder["leftovers"]
        if not left:
            continue
        pids = sorted({row["pid"] for row in left})
        amounts = [row["memory_bytes"] for row in left]
        facts = {
            "processes": len(pids),
            "memory_bytes": None if None in amounts else sum(amounts),
            "died": int(holder.get("died") or False),
        }
        numbers = ", ".join(map(str, pids))
        yield f"{name_of(holder)}: {sentence(Reason(Code.LEFT_BEHIND, facts))} Pid {numbers}."
    if any(holder.get("estimated") for holder in report["holders"]):
        yield f"≈ {sentence(Reason(Code.ESTIMATED))}"


def _prospect(holder: Row, report: Row) -> str:
    """What will happen to a holder, and when at the earliest."""
    verdict, lease = holder["verdict"], holder["lease"]
    rehearsed = " (rehearsed)" if report["mode"] == "observe" else ""
    if lease:
        return f"kept until {_time(lease['until']).astimezone():%Y-%m-%d %H:%M}"
    if verdict["action"] != "keep":
        return f"{plain(verdict['action'])} now{rehearsed}"
    if verdict["next_action"] is None or verdict["deadline"] is None:
        return ""
    wait = (_time(verdict["deadline"]) - _time(report["taken_at"])).total_seconds()
    return f"{plain(verdict['next_action'])} in {span(max(0, wait))}{rehearsed}"


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _clock(text: str) -> str:
    """Hours, minutes and seconds on the clock of whoever is reading."""
    return f"{_time(text).astimezone():%H:%M:%S}"
