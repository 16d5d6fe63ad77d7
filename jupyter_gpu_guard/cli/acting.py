"""`jupyter gpu-guard keep`, `unkeep`, `release`, `park` and `shutdown`: the buttons of the sidebar in a shell."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from .asking import give_up, json_option, print_json, seconds_of, server_option, servers_to_ask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .finding import Found

_DONE = {"release": "released", "park": "parked", "shutdown": "shut down"}
_FINE = {"done", "already-gone"}
_wanted = click.argument("wanted", metavar="OWNER|NOTEBOOK")


@click.command()
@_wanted
@click.argument("lasting", metavar="TIME", nargs=-1, required=True)
@click.option("--reason", default="", metavar="TEXT", help="What it is needed for.")
@click.option("--beyond-limits", is_flag=True, help="Longer or more often than its rule allows: for an administrator.")
@server_option
@json_option
def keep(
    wanted: str, lasting: Sequence[str], reason: str, server: str | None, *, beyond_limits: bool, as_json: bool
) -> None:
    """Keep a notebook or owner for TIME from now, such as 2h: nothing is done to it until then."""
    from jupyter_gpu_guard.quantities import say_duration  # noqa: PLC0415
    from jupyter_gpu_guard.running import NoAnswerError, NotFoundError, RefusedError, tell  # noqa: PLC0415

    seconds = seconds_of("TIME", " ".join(lasting)) or 0.0
    found = _find(wanted, server)
    said = {"seconds": seconds, "reason": reason, "beyond_limits": beyond_limits}
    try:
        lease = tell(found.server, f"owners/{found.owner}/keep", said)
    except RefusedError as refusal:
        longest = found.holder.get("longest_keep_seconds")
        is_too_long = longest is not None and seconds > longest
        is_a_limit = not beyond_limits and (refusal.status == 403 or is_too_long)  # noqa: PLR2004
        remedy = "; an administrator may go beyond that with --beyond-limits" if is_a_limit else ""
        give_up(_of(found, f"not kept: {refusal}{remedy}"))
    except (NoAnswerError, NotFoundError) as error:
        give_up(str(error))
    if as_json:
        print_json({**_who(found), "lease": lease})
        return
    until = datetime.fromisoformat(lease["until"].replace("Z", "+00:00")).astimezone()
    span = datetime.now(until.tzinfo)
    click.echo(_of(found, f"kept until {until:%Y-%m-%d %H:%M %Z}, for {say_duration(until - span)}"))


@click.command()
@_wanted
@server_option
@json_option
def unkeep(wanted: str, server: str | None, *, as_json: bool) -> None:
    """Take back that a notebook or owner is kept: its rule applies again."""
    from jupyter_gpu_guard.running import NoAnswerError, NotFoundError, take_back  # noqa: PLC0415

    found = _find(wanted, server)
    try:
        take_back(found.server, f"owners/{found.owner}/keep")
    except (NoAnswerError, NotFoundError) as error:
        give_up(_of(found, error))
    if as_json:
        print_json({**_who(found), "lease": None})
    else:
        click.echo(_of(found, "not kept any more"))


@click.command()
@_wanted
@server_option
@json_option
def release(wanted: str, server: str | None, *, as_json: bool) -> None:
    """Have an idle Python kernel give back what its frameworks only cache on GPUs. Its variables stay."""
    _act("release", _find(wanted, server), as_json=as_json)


@click.command()
@_wanted
@server_option
@json_option
def park(wanted: str, server: str | None, *, as_json: bool) -> None:
    """Move what an idle kernel holds on GPUs to the host's memory; it lives on. `resume` brings it back."""
    _act("park", _find(wanted, server), as_json=as_json)


@click.command()
@_wanted
@click.option("--yes", is_flag=True, help="Ask no question.")
@server_option
@json_option
def shutdown(wanted: str, server: str | None, *, yes: bool, as_json: bool) -> None:
    """Shut a kernel, terminal or TensorBoard down, or end what was left behind: what is only in its memory is lost."""
    found = _find(wanted, server)
    if not yes:
        click.echo(_of(found, _what_it_holds(found)), err=True)
        try:
            sure = click.confirm("Shut it down?", err=True)
        except click.Abort:
            give_up("\nNothing was done. Where nobody can answer, give --yes.")
        if not sure:
            give_up("Nothing was done.")
    _act("shutdown", found, as_json=as_json)


def _act(action: str, found: Found, *, as_json: bool) -> None:
    """Do it, say what came of it, and end: status 0 if it is as wanted."""
    from jupyter_gpu_guard.running import NoAnswerError, NotFoundError  # noqa: PLC0415

    from .doing import act_on  # noqa: PLC0415

    try:
        outcome = act_on(found.server, found.owner, action)
    except (NoAnswerError, NotFoundError) as error:
        give_up(_of(found, error))
    except KeyboardInterrupt:
        give_up("\nIt may go on; `jupyter gpu-guard status` will say what came of it.")
    fine = outcome["result"] in _FINE
    if as_json:
        print_json({**_who(found), "outcome": outcome})
    else:
        done = outcome["result"] == "done"
        how = _DONE[action] if done else f"not {_DONE[action]} ({outcome['result'].replace('-', ' ')})"
        click.echo(_of(found, f"{how}: {outcome['detail']}"), err=not fine)
    sys.exit(0 if fine else 1)


def _find(wanted: str, server: str | None) -> Found:
    """The one that is meant, or one sentence and the end."""
    from jupyter_gpu_guard.running import NoAnswerError, NotFoundError  # noqa: PLC0415

    from .finding import AmbiguousError, the_one  # noqa: PLC0415
    from .tables import plain  # noqa: PLC0415

    try:
        return the_one(wanted, servers_to_ask(server, as_json=False))
    except (AmbiguousError, NoAnswerError, NotFoundError) as error:
        give_up("\n".join(map(plain, str(error).splitlines())))


def _what_it_holds(found: Found) -> str:
    from .tables import plain, reading  # noqa: PLC0415

    holder = found.holder
    return (
        f"{plain(holder['state'])}, GPU memory {reading(holder, 'memory_bytes')}; what is only in memory will be lost"
    )


def _of(found: Found, sentence: object) -> str:
    from .tables import name_of, plain  # noqa: PLC0415

    return f"{plain(name_of(found.holder))} ({plain(found.owner)}): {plain(sentence)}"


def _who(found: Found) -> dict[str, Any]:
    return {"server": found.server.url, "owner": found.owner, "name": found.holder["name"]}
