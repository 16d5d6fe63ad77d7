"""Whose word a policy file is: the site's, that of the person whom it governs, or anybody's.

It depends on who could change the file, or any folder or link that leads to it. Asked of the open file itself, so that
what was checked is what was read.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

_MOST_LINKS = 40  # as many as Linux follows


class Standing(IntEnum):
    """Who could change a file; of several, the largest counts."""

    SITE = 0  # others than the person whom it governs: an administrator
    OWN = 1  # the person whom it governs
    ANYBODY = 2  # every user of this machine


@dataclass(frozen=True)
class Person:
    """Whom a policy governs: whoever runs the server. `is_this_process`: it can be tried out what they may write."""

    uid: int
    groups: frozenset[int]
    is_this_process: bool = False

    @classmethod
    def running_this(cls) -> Person:
        """Who runs this process."""
        return cls(os.geteuid(), frozenset({os.getegid(), *os.getgroups()}), is_this_process=True)

    @property
    def is_root(self) -> bool:
        """They may change everything, so nothing is kept from them."""
        return self.uid == 0


def standing(path: Path, opened: os.stat_result, who: Person) -> Standing:
    """Who could change the file at `path`, which was `opened`. Raises OSError if its folders cannot be looked at."""
    worst = _of(opened, who, path)
    *before, last = _steps(path)
    if not os.path.samestat(last[1], opened):
        raise OSError(errno.ESTALE, "it was replaced while it was read", str(path))
    return max([worst, *(_of(status, who, place) for place, status in before)])


def standing_of_way(path: Path, who: Person) -> Standing:
    """Who could change what is called `path`, as far as it can be followed; it need not be there."""
    worst = Standing.SITE
    try:
        for place, status in _steps(path):
            worst = max(worst, _of(status, who, place))
    except (OSError, ValueError):
        pass
    return worst


def _steps(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Every folder and link on the way to `path`, and what is there at last, as the system walks."""
    here = Path("/")
    yield here, here.stat()
    ahead = list(reversed(path.absolute().parts[1:]))
    links = _MOST_LINKS
    while ahead:
        part = ahead.pop()
        if part == "..":
            here = here.parent
            continue
        step = here / part
        status = step.lstat()
        yield step, status
        if not stat.S_ISLNK(status.st_mode):
            here = step
            continue
        links -= 1
        if links < 0:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = step.readlink()
        here = Path("/") if target.is_absolute() else here
        ahead.extend(reversed(target.parts[1:] if target.is_absolute() else target.parts))


def _of(status: os.stat_result, who: Person, place: Path) -> Standing:
    """Who could change what has this `status`: the file, or what a folder holds; of a link, what it points to."""
    mode = status.st_mode
    if stat.S_ISLNK(mode):  # its mode says nothing, and who may replace it is a matter of its folder
        return Standing.OWN if status.st_uid == who.uid and not who.is_root else Standing.SITE
    only_owners = stat.S_ISDIR(mode) and mode & stat.S_ISVTX  # as in /tmp: others' files there are safe
    if mode & stat.S_IWOTH and not only_owners:
        return Standing.ANYBODY
    if who.is_root:
        return Standing.SITE
    if status.st_uid == who.uid:  # also without the right to write: an owner can take it
        return Standing.OWN
    if only_owners:
        return Standing.SITE
    if mode & stat.S_IWGRP and status.st_gid in who.groups:
        return Standing.OWN
    # Access lists grant what the mode does not say.
    may = who.is_this_process and os.access(place, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
    return Standing.OWN if may else Standing.SITE
