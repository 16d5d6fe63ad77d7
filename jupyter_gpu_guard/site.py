"""Whose server this is, for rules about users, groups and servers. Facts of the moment at which the server starts."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Iterable, Iterator, Mapping

from jupyter_gpu_guard.core.policy import Site

GROUPS = "JUPYTER_GPU_GUARD_GROUPS"


def site_of(environment: Mapping[str, str], uid: int, gids: Iterable[int]) -> Site:
    """Whose server it is that runs with this environment, user and groups. What has no name is left out.

    JupyterHub says the user and the server. Its spawner may add groups; they can be trusted as far as the spawner
    alone sets them. The groups of the system are added to them.
    """
    handed = (group.strip() for group in environment.get(GROUPS, "").split(","))
    return Site(
        user=environment.get("JUPYTERHUB_USER") or _user(uid),
        groups=frozenset(group for group in (*handed, *_names(gids)) if group),
        server=environment.get("JUPYTERHUB_SERVER_NAME") or None,
    )


def this_site() -> Site:
    """Whose server this very process is."""
    return site_of(os.environ, os.geteuid(), {os.getegid(), *os.getgroups()})


def _user(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # a container may run under a number alone
        return None


def _names(gids: Iterable[int]) -> Iterator[str]:
    for gid in gids:
        try:
            yield grp.getgrgid(gid).gr_name
        except KeyError:
            continue
