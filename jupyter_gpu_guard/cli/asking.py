"""What commands share that ask running servers: their options, whom they ask, and how they end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from jupyter_gpu_guard.running import Server

server_option = click.option("--server", metavar="URL|PORT", help="Ask only this server, by its port or URL.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")


def servers_to_ask(wanted: str | None, *, as_json: bool) -> list[Server]:
    """The servers to ask; none: one sentence, and the end."""
    from jupyter_gpu_guard.running import NoAnswerError, choose, running_servers  # noqa: PLC0415

    try:
        servers = choose(running_servers(), wanted)
    except NoAnswerError as error:
        give_up(str(error))
    if not servers:
        if as_json:
            print_json({"servers": []})
        give_up("No Jupyter server of yours is running here: start one, or name one with --server URL.")
    return servers


def seconds_of(option: str, text: str | None) -> float | None:
    """The duration that was given. A mistake: one sentence, and the end."""
    from jupyter_gpu_guard.quantities import QuantityError, parse_duration  # noqa: PLC0415

    if text is None:
        return None
    try:
        seconds = parse_duration(text).total_seconds()
    except QuantityError as error:
        give_up(f"{option}: {error}")
    if seconds <= 0:
        give_up(f"{option}: {text!r} is no time; write for example 30s")
    return seconds


def give_up(sentence: str) -> NoReturn:
    """One sentence on stderr, and status 1."""
    click.echo(sentence, err=True)
    sys.exit(1)


def print_json(value: Any) -> None:
    """For programs: any terminal can show it."""
    import json  # noqa: PLC0415

    click.echo(json.dumps(value, indent=2, ensure_ascii=True))
