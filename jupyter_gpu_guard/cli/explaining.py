"""From what a person calls it to the guard's explanation of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jupyter_gpu_guard.core.model import OwnerKey
from jupyter_gpu_guard.running import NoAnswerError, NotFoundError, Server, ask


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
    if key:
        raise NotFoundError("\n".join(unknown))
    there = f"there are {', '.join(sorted(set(unknown)))}" if unknown else "there are none"
    raise NotFoundError(f"Nothing called {wanted!r} holds a GPU or has a kernel here; {there}.")


def _owners(wanted: str, server: Server, others: list[str]) -> list[str]:
    """The owners that are called so; the names of all others are added to `others`."""
    report = ask(server, "report")
    owners = []
    for holder in report["holders"]:
        # A TensorBoard may be told by the notebook that started it, but is not that notebook.
        path = holder["notebook"] if holder["kind"] == "kernel" else None
        if _is_same(wanted, path, server.root) if path is not None else wanted == holder["name"]:
            owners.append(holder["owner"])
        else:
            others.append(path or holder["owner"])
    return owners


def _is_same(wanted: str, path: str, root: Path | None) -> bool:
    """Whether `wanted` is the notebook at `path`: its path in the server, its name alone, or a path in this folder."""
    if wanted == path or ("/" not in wanted and wanted == path.rpartition("/")[2]):
        return True
    return root is not None and Path(wanted).resolve() == (root / path).resolve()
