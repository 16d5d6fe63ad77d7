"""Policy files that change while a server runs: cheap looks, and a reading of all of them once they have settled."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jupyter_gpu_guard.core.policy import Policy

from . import Governing, Person, PolicyError, discover, govern

_Seen = tuple[tuple[str, Any], ...]


class PolicyFiles:
    """The files of the site's folders and those that are `named`; without any, `otherwise` makes the policy.

    It blocks; one thread at a time. `config_path` and `who` as in `discover` and `govern`.
    """

    def __init__(
        self,
        named: Sequence[Path],
        otherwise: Callable[[], Policy],
        *,
        config_path: Sequence[str] | None = None,
        who: Person | None = None,
    ) -> None:
        self._named = tuple(named)
        self._otherwise = otherwise
        self._config_path = config_path
        self._who = who
        self._read_as: _Seen | None = None  # how the files were when they were read
        self._seen_as: _Seen | None = None  # how they were at the last look

    def read(self) -> Governing:
        """What the files say now, all of them together. Raises PolicyError."""
        self._read_as = self._seen_as = self._look()
        found = discover(self._config_path)
        if not found and not self._named:
            return Governing(self._otherwise(), by_site=False)
        return govern(found, self._named, self._who)

    def reread(self) -> Governing | PolicyError | None:
        """What they say once they have changed, and then stayed the same from one call to the next; None: no news."""
        seen, before, self._seen_as = self._look(), self._seen_as, None
        self._seen_as = seen
        if seen == self._read_as or seen != before:
            return None
        try:
            news: Governing | PolicyError = self.read()
        except PolicyError as error:
            news = error
        # Written to while it was read: it is read again once it has settled.
        return news if self._look() == self._read_as == seen else None

    def _look(self) -> _Seen:
        """How the files are, and how they may be reached, without opening any."""
        return tuple((str(path), _state(path)) for path in (*discover(self._config_path), *self._named))


def _state(path: Path) -> Any:
    try:
        file, folder = path.stat(), path.parent.stat()
    except (OSError, ValueError) as error:
        return str(error)
    identity = (file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns)
    return (*identity, folder.st_mode, folder.st_uid, folder.st_gid, os.path.realpath(path))
