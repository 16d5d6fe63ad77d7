"""From what a person calls it to the one owner that is meant, and the server that has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jupyter_gpu_guard.core.model import OwnerKey
from jupyter_gpu_guard.running import NoAnswerError, NotFoundError, Server, ask


class Found(NamedTuple):
    """A row of a server's report, and that server."""

    server: Server
    holder: dict[str, Any]

    @property
    def owner(self) -> str:
        """Its key."""
        return str(self.holder["owner"])


class AmbiguousError(Exception):
    """Several are called so; the text says how each can be named."""


def the_one(wanted: str, servers: Sequence[Server]) -> Found:
    """The one owner that `wanted` names: by its key, its notebook, or its name. Nothing is guessed.

    Raises AmbiguousError, NotFoundError or, if no server that answers has it, NoAnswerError.
    """
    found: list[Found] = []
    others: list[str] = []
    silent: list[NoAnswerError | NotFoundError] = []
    for server in servers:
        try:
            report = ask(server, "report")
            fitting = list(called(wanted, report["holders"], server.root, others))
        except (NoAnswerError, NotFoundError) as error:
            silent.append(error)
        except (KeyError, TypeError):
            silent.append(NoAnswerError(f"{server.url} answers no report that this version can read."))
        else:
            found += [Found(server, holder) for holder in fitting]
    if len(found) == 1:
        return found[0]
    if found:
        raise AmbiguousError(_choose(wanted, found))
    if silent:
        raise NoAnswerError("\n".join(map(str, silent)))
    raise NotFoundError(nothing_called(wanted, others))


def called(
    wanted: str, holders: Iterable[dict[str, Any]], root: Path | None, others: list[str]
) -> Iterable[dict[str, Any]]:
    """The holders that are called so; the names of all others are added to `others`."""
    key = _key(wanted)
    for holder in holders:
        # A TensorBoard may be told by the notebook that started it, but is not that notebook.
        path = holder["notebook"] if holder["kind"] == "kernel" else None
        if key is not None:
            is_it = holder["owner"] == key
        else:
            is_it = _is_same(wanted, path, root) if path is not None else wanted == holder["name"]
        if is_it:
            yield holder
        else:
            others.append(path or holder["owner"])


def nothing_called(wanted: str, others: Iterable[str]) -> str:
    """That there is nothing of that name, and what there is."""
    names = sorted(set(others))
    there = f"there are {', '.join(names)}" if names else "there are none"
    return f"Nothing called {wanted!r} holds a GPU or has a kernel here; {there}."


def _key(wanted: str) -> str | None:
    try:
        return str(OwnerKey.parse(wanted))
    except ValueError:
        return None


def _is_same(wanted: str, path: str, root: Path | None) -> bool:
    """Whether `wanted` is the notebook at `path`: its path in the server, its name alone, or a path in this folder."""
    if wanted == path or ("/" not in wanted and wanted == path.rpartition("/")[2]):
        return True
    return root is not None and Path(wanted).resolve() == (root / path).resolve()


def _choose(wanted: str, found: Sequence[Found]) -> str:
    owners = [each.owner for each in found]
    if len(set(owners)) < len(owners):
        urls = ", ".join(each.server.url for each in found)
        return f"Several servers have {wanted!r}; name one with --server: {urls}"
    names = ", ".join(f"{each.owner} ({each.holder['notebook'] or each.holder['name']})" for each in found)
    return f"Several are called {wanted!r}; name one by its owner: {names}"
