"""From what a person calls it to the guard's explanation of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jupyter_gpu_guard.core.model import OwnerKey
from jupyter_gpu_guard.running import NoAnswerError, NotFoundError, Server, ask

from .finding import called, nothing_called


def explanations(wanted: str, servers: Sequence[Server]) -> list[dict[str, Any]]:
    """What the guards say about `wanted`: an owner, a notebook, or the name of a terminal or TensorBoard.

    Raises NotFoundError or, if no server answers, NoAnswerError.
    """
    try:
        key = OwnerKey.parse(wanted)
    except ValueError:
        key = None
    found: list[dict[str, Any]] = []
    silent: list[NoAnswerError] = []
    unknown: list[str] = []
    for server in servers:
        try:
            owners = [str(key)] if key else _owners(wanted, server, unknown)
            found += [ask(server, f"explain/{owner}") for owner in owners]
        except NotFoundError as error:
            unknown.append(str(error))
        except NoAnswerError as error:
            silent.append(error)
    if found:
        return found
    if silent:
        raise NoAnswerError("\n".join(map(str, silent)))
    raise NotFoundError("\n".join(unknown) if key else nothing_called(wanted, unknown))


def _owners(wanted: str, server: Server, others: list[str]) -> list[str]:
    """The owners that are called so; the names of all others are added to `others`."""
    report = ask(server, "report")
    return [holder["owner"] for holder in called(wanted, report["holders"], server.root, others)]
