"""`jupyter gpu-guard parked` and `resume`: they work without a server too, from what was written down."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_gpu_guard.core.model import Device, GpuClient, ProcessKey
    from jupyter_gpu_guard.parking.registry import Entry, Registry
    from jupyter_gpu_guard.running import Server

_folder_option = click.option(
    "--folder", type=click.Path(path_type=Path), help="The state directory to read; default: that of your servers."
)


@click.command()
@_folder_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of sentences.")
def parked(folder: Path | None, *, as_json: bool) -> None:
    """List the kernels whose GPU memory is parked in the host's memory, and what the driver says of them."""
    from jupyter_gpu_guard.core.explain import memory  # noqa: PLC0415
    from jupyter_gpu_guard.parking.asking import ask_helper  # noqa: PLC0415

    from .tables import plain  # noqa: PLC0415

    rows: list[dict[str, Any]] = []
    for entry in _registry(folder).entries:
        answer = asyncio.run(ask_helper("look", entry.process))
        rows.append(
            {
                "owner": str(entry.owner),
                "name": entry.name,
                "pid": entry.process.pid,
                "since": entry.since.isoformat(),
                "memory_bytes": entry.bytes,
                "state": answer.state.value,
                "problem": answer.fault,
            }
        )
    if as_json:
        click.echo(json.dumps({"parked": rows}, indent=2))
        return
    for row in rows:
        since = row["since"][:16].replace("T", " ")
        why = f" ({row['problem']})" if row["problem"] else ""
        held = f"{memory(row['memory_bytes'])} since {since} UTC"
        click.echo(plain(f"{row['name']} ({row['owner']}), pid {row['pid']}: {held}, {row['state']}{why}"))
    if not rows:
        click.echo("Nothing is parked.")


@click.command()
@click.argument("wanted", metavar="[OWNER|NOTEBOOK]", required=False)
@click.option("--pid", type=int, help="The process with this pid, also if nothing is written down about it.")
@_folder_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of sentences.")
def resume(wanted: str | None, pid: int | None, folder: Path | None, *, as_json: bool) -> None:
    """Give parked kernels their GPU memory back: one, or all.

    A running server that knows the kernel is asked; if there is no room on the GPU, it has it wait. Without a server
    it is done at once, or it is said what is missing.
    """
    from .tables import plain  # noqa: PLC0415

    registry = _registry(folder)
    if pid is not None:
        entries = [entry for entry in registry.entries if pid in (entry.process.pid, entry.root.pid)]
        if not entries and not as_json:
            _end(*_by_pid(pid))
    else:
        entries = [entry for entry in registry.entries if wanted in (None, str(entry.owner), entry.name)]
    if not entries and not (as_json and wanted is None):
        _end("Nothing is parked." if wanted is None else f"{wanted} is not parked.", wanted is None)
    rows: list[dict[str, Any]] = []
    for entry in entries:
        said, done = _resume(entry, registry)
        rows.append({"owner": str(entry.owner), "name": entry.name, "resumed": done, "detail": said})
        if not as_json:
            click.echo(plain(f"{entry.name}: {said}"), err=not done)
    if pid is not None and not entries:
        said, done = _by_pid(pid)
        rows.append({"owner": None, "name": f"pid {pid}", "resumed": done, "detail": said})
    if as_json:
        click.echo(json.dumps({"resumed": rows}, indent=2))
    sys.exit(0 if all(row["resumed"] for row in rows) else 1)


def _end(sentence: str, good: object) -> None:
    click.echo(sentence, err=not good)
    sys.exit(0 if good else 1)


def _registry(folder: Path | None) -> Registry:
    from jupyter_core.paths import jupyter_data_dir  # noqa: PLC0415

    from jupyter_gpu_guard.parking.registry import Registry  # noqa: PLC0415

    registry = Registry((folder or Path(jupyter_data_dir(), "gpu-guard")) / "parked.json")
    registry.refresh()
    if registry.problem is not None:
        click.echo(registry.problem, err=True)
    return registry


def _by_pid(pid: int) -> tuple[str, bool]:
    from jupyter_gpu_guard.sources.procfs import ProcfsProcesses  # noqa: PLC0415

    process = ProcfsProcesses().identify(pid)
    return (f"There is no process {pid}.", False) if process is None else _have_it_done(process.key)


def _resume(entry: Entry, registry: Registry) -> tuple[str, bool]:
    """What came of it, and whether that is well."""
    from jupyter_gpu_guard.running import NoAnswerError, NotFoundError  # noqa: PLC0415

    from .doing import act_on  # noqa: PLC0415

    server = _server_of(entry)
    if server is not None:
        try:
            outcome = act_on(server, str(entry.owner), "resume")
        except (NoAnswerError, NotFoundError) as error:
            return str(error), False
        return str(outcome["detail"]), outcome["result"] == "done"
    missing = _missing(entry)
    if missing is not None:
        return missing, False
    said, done = _have_it_done(entry.process)
    if done:
        try:
            registry.remove(entry.process)
        except OSError as fault:
            return f"{said} It could not be taken off the list ({fault.strerror or fault}).", True
    return said, done


def _server_of(entry: Entry) -> Server | None:
    """The running server whose kernel it is. One that does not answer is not taken for it."""
    from jupyter_gpu_guard.running import NoAnswerError, NotFoundError, ask, running_servers  # noqa: PLC0415

    for server in running_servers():
        try:
            report = ask(server, "report")
        except (NoAnswerError, NotFoundError):
            continue
        if any(holder["owner"] == str(entry.owner) for holder in report["holders"]):
            return server
    return None


def _missing(entry: Entry) -> str | None:
    """Why there is no room for it; None: there is."""
    from jupyter_gpu_guard.core.explain import memory  # noqa: PLC0415
    from jupyter_gpu_guard.core.model import is_known  # noqa: PLC0415
    from jupyter_gpu_guard.parking.room import held_by, lack  # noqa: PLC0415

    devices, clients = _seen()
    there = {client.device for client in clients if client.pid == entry.process.pid}
    needs = {device: amount for device, amount in entry.memory.items() if device not in there}
    missing = lack(needs, devices)
    if missing is None:
        return None
    if not is_known(missing.free):
        return f"it needs {memory(missing.needed)} on {missing.name}, and it is not known how much is free there"
    who = held_by(missing.device, clients, ())
    return (
        f"there is no room: it needs {memory(missing.needed)} on {missing.name}, free there: {memory(missing.free)}"
        f"{' (' + who + ')' if who else ''}"
    )


def _seen() -> tuple[Sequence[Device], Sequence[GpuClient]]:
    from jupyter_gpu_guard.sources.nvml import NvmlDevices  # noqa: PLC0415

    nvml = NvmlDevices()
    try:
        seen = nvml.read()
    finally:
        nvml.close()
    return seen.devices, seen.clients


def _have_it_done(process: ProcessKey) -> tuple[str, bool]:
    from jupyter_gpu_guard.parking.answer import State  # noqa: PLC0415
    from jupyter_gpu_guard.parking.asking import ask_helper, why_not_installed  # noqa: PLC0415

    why = why_not_installed()
    if why is not None:
        return why, False
    answer = asyncio.run(ask_helper("resume", process))
    if answer.state is State.RUNNING and answer.fault is None:
        return f"resumed after {answer.seconds:.1f} s.", True
    return f"{answer.fault}; the driver says that it is {answer.state.value}", False
