"""Whose server it is: by JupyterHub, by its spawner, by the system."""

from __future__ import annotations

import grp
import os
import pwd

from jupyter_gpu_guard.core.policy import Site
from jupyter_gpu_guard.site import site_of, this_site

NOBODY_HAS = 2**31 - 7


def test_jupyterhub_says_the_user_and_the_server() -> None:
    """And what its spawner hands over are groups, however it spaces them."""
    hub = {
        "JUPYTERHUB_USER": "ada",
        "JUPYTERHUB_SERVER_NAME": "big-card",
        "JUPYTER_GPU_GUARD_GROUPS": " students, gpu-lab,,students",
    }
    assert site_of(hub, NOBODY_HAS, ()) == Site("ada", frozenset({"students", "gpu-lab"}), "big-card")


def test_without_a_hub_it_is_the_user_of_the_process() -> None:
    """With the groups of the system; the default server of a hub has no name."""
    me, mine = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(os.getegid()).gr_name
    assert site_of({"JUPYTERHUB_SERVER_NAME": ""}, os.geteuid(), [os.getegid()]) == Site(me, frozenset({mine}), None)
    assert mine in this_site().groups


def test_the_groups_of_the_spawner_and_of_the_system_come_together() -> None:
    """Neither hides the other."""
    group = grp.getgrgid(os.getegid()).gr_name
    assert site_of({"JUPYTER_GPU_GUARD_GROUPS": "students"}, 0, [os.getegid()]).groups == {"students", group}


def test_numbers_without_a_name_are_left_out() -> None:
    """A container may run as a user and a group that nobody has given a name."""
    assert site_of({}, NOBODY_HAS, [NOBODY_HAS]) == Site()
