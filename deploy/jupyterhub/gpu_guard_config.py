"""What a JupyterHub needs for the GPU guard.

Say load_subconfig("/etc/jupyterhub/gpu_guard_config.py") at the end of the Hub's configuration. The environment that
stands there is added to, not replaced.
"""

from __future__ import annotations

from typing import Any

c: Any = get_config()  # type: ignore[name-defined]  # noqa: F821  the loader of traitlets has put it there


def groups_of(spawner: Any) -> str:
    """The groups that the Hub knows its user to be in, separated by commas. The user has no say in it."""
    names = sorted(group.name for group in spawner.user.groups)
    # Taken apart again, a name with a comma would be two groups, and perhaps those of other people.
    odd = [name for name in names if "," in name or name != name.strip()]
    if odd:
        spawner.log.warning("GPU guard: groups with a comma or a blank at an end are not handed over: %s", odd)
    return ",".join(name for name in names if name not in odd)


# Asked anew at each start of a server. A group that somebody enters later counts from their next start on.
c.Spawner.environment.update({"JUPYTER_GPU_GUARD_GROUPS": groups_of})

# What is in the user's home neither switches the extension off nor adds options: see the README.
c.Spawner.disable_user_config = True

# The site's policy is in /etc/jupyter/gpu-guard/policy.d/, on the machine or in the image of the servers.
