"""`%gpu_guard`: what this kernel holds and what will happen to it, and what its person can do about that."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_gpu_guard.kernel.release_snippet import release
from jupyter_gpu_guard.kernel.variables import forget_the_last_error, variables

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jupyter_gpu_guard.running import Server

USAGE = """\
%gpu_guard                   what this kernel holds, and what will happen when
%gpu_guard keep 2h REASON    leave it alone for so long
%gpu_guard release           give back what the frameworks keep for later
%gpu_guard release errors    and what only the saved last error holds
%gpu_guard variables         which variables hold the memory"""

_SHOWN = 30  # rows of variables


class _UsageError(Exception):
    """What was asked cannot be done. The text is for the person."""


def register(shell: Any) -> None:
    """Bring `%gpu_guard` to an IPython shell."""
    shell.register_magic_function(gpu_guard, "line", "gpu_guard")


def gpu_guard(line: str) -> None:
    """Show what this kernel holds of GPUs, or do what is asked; `%gpu_guard help` lists what there is."""
    from jupyter_gpu_guard.running import NoAnswerError, NotFoundError  # noqa: PLC0415 - it takes a while

    word, _, rest = line.strip().partition(" ")
    acts: dict[str, Callable[[str], str]] = {
        "": _status,
        "status": _status,
        "keep": _keep,
        "release": _release,
        "variables": _variables,
        "help": lambda _: USAGE,
    }
    try:
        said = acts.get(word, _nothing_such)(rest.strip())
    except (_UsageError, NoAnswerError, NotFoundError) as error:
        said = str(error)
    print(said)  # noqa: T201 - that is what a magic is for


def _nothing_such(_: str) -> str:
    return f"There is nothing of that name. There are:\n{USAGE}"


def _status(_: str) -> str:
    from jupyter_gpu_guard.running import ask  # noqa: PLC0415

    owner = _owner()
    told = _first(lambda server: ask(server, f"explain/{owner}"))
    return "\n".join(told["lines"])


def _keep(rest: str) -> str:
    from jupyter_gpu_guard.quantities import QuantityError, parse_duration  # noqa: PLC0415
    from jupyter_gpu_guard.running import tell  # noqa: PLC0415

    span, reason = _span_and_reason(rest)
    try:
        lasting = parse_duration(span)
    except QuantityError as error:
        raise _UsageError(f"{error}\nWrite for example: %gpu_guard keep 2h waiting for the data") from None
    owner = _owner()
    said = {"seconds": lasting.total_seconds(), "reason": reason}
    lease = _first(lambda server: tell(server, f"owners/{owner}/keep", said))
    until = str(lease["until"])[:16].replace("T", " ")
    return f"Kept until {until} UTC{f', for: {reason}' if reason else ''}."


def _span_and_reason(text: str) -> tuple[str, str]:
    """`1h 30m waiting` as `1h 30m` and `waiting`."""
    found = re.match(r"\s*((?:[0-9.]+\s*[A-Za-z]+\s*(?=[0-9\s]|$))*[0-9.]+\s*[A-Za-z]+)(?:\s+(.*))?$", text)
    return (found[1].strip(), (found[2] or "").strip()) if found else (text.strip(), "")


def _release(rest: str) -> str:
    if rest not in ("", "errors"):
        raise _UsageError(f"%gpu_guard release {rest} means nothing; `errors` is all that may follow.")
    if rest == "errors":
        forget_the_last_error()
    told = release()
    lines = [_released(row) for row in told]
    if not told:
        lines = ["No framework with a device in use is loaded in this kernel, so there is nothing to give back."]
    held = sum(row["bytes"] for row in variables()["rows"] if row["by_error"])
    if held:
        lines.append(
            f"The saved last error holds {_size(held)}: %gpu_guard release errors lets go of it (then %debug cannot "
            "look into it any more)."
        )
    return "\n".join(lines)


def _released(row: dict[str, Any]) -> str:
    name, live = row["name"], row["live"]
    if row["fault"] is not None:
        return f"{name}: failed ({row['fault']})."
    if row["pool"]:
        return f"{name}: keeps its pool for as long as this kernel lives; variables hold {_size(live or 0)} of it."
    if row["before"] is None:
        return f"{name}: done; it does not say how much that was."
    return f"{name}: gave back {_size(row['before'] - row['after'])}; variables hold {_size(live or 0)}."


def _variables(rest: str) -> str:
    if rest:
        raise _UsageError(f"%gpu_guard variables {rest} means nothing; nothing may follow.")
    told = variables()
    rows: Sequence[dict[str, Any]] = told["rows"]
    if not rows:
        return "No variable of this kernel holds an array on a device."
    shown = [
        (row["name"], row["framework"], row["device"], str(row["arrays"]), _size(row["bytes"])) for row in rows[:_SHOWN]
    ]
    table = [("variable", "framework", "device", "arrays", "memory"), *shown]
    widths = [max(len(row[column]) for row in table) for column in range(5)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    if len(rows) > _SHOWN:
        lines.append(f"and {len(rows) - _SHOWN} more")
    lines.append(f"in all {_size(sum(row['bytes'] for row in rows))}; storage that several share is counted once")
    if told["cut"]:
        lines.append("There was more to look at; this is not everything.")
    return "\n".join(lines)


def _owner() -> str:
    """What this kernel is called by its server."""
    from ipykernel.connect import get_connection_file  # noqa: PLC0415

    try:
        name = Path(get_connection_file()).stem
    except RuntimeError:
        raise _UsageError("This is no kernel of a Jupyter server.") from None
    return "kernel:" + name.removeprefix("kernel-")


def _first(ask: Callable[[Server], Any]) -> Any:
    """The server that knows this kernel, and its answer. Raises NoAnswerError or NotFoundError."""
    from jupyter_gpu_guard.running import NoAnswerError, NotFoundError, running_servers  # noqa: PLC0415

    servers = running_servers()
    if not servers:
        raise NoAnswerError("No Jupyter server of yours runs here: a kernel on another machine cannot ask its guard.")
    silent: list[NoAnswerError] = []
    unknown: list[NotFoundError] = []
    for server in servers:
        try:
            return ask(server)
        except NotFoundError as error:
            unknown.append(error)
        except NoAnswerError as error:
            silent.append(error)
    raise silent[0] if silent else unknown[0]


def _size(amount: float) -> str:
    return f"{amount / 2**30:.1f} GiB" if amount >= 2**30 else f"{amount / 2**20:.0f} MiB"
