"""A real pid namespace with a /proc of its own, as a container has one, around real processes and the stand-in driver.

The driver works for all containers of a machine, so the stand-in finds the host's processes as well: inside, the /proc
of the host is mounted at the folder `host-proc` of the stand-in (generations.h).
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import Self

from jupyter_gpu_guard.kernel.simulated_gpu import declare_for

if TYPE_CHECKING:
    from jupyter_gpu_guard.kernel.declaration import Declaration
    from tests.driver import StandIn

_UNSHARE = ("unshare", "--user", "--map-root-user", "--mount", "--fork", "--kill-child")
_OWN_PROC = 'mount --rbind /proc "$0" && mount -t proc proc /proc && exec "$@"'


def command_inside(driver: StandIn) -> tuple[str, ...]:
    """Put before a command, it makes a container whose first process, pid 1, is that command."""
    host = driver.folder / "host-proc"
    host.mkdir(exist_ok=True)
    return (*_UNSHARE, "--pid", "sh", "-c", _OWN_PROC, str(host))


def command_with_shared_pids() -> tuple[str, ...]:
    """Put before a command, it makes a container that shares the pids of the host."""
    return (*_UNSHARE, "sh", "-c", 'exec "$@"', "sh")


def declare_elsewhere(driver: StandIn, pid: int, declaration: Declaration) -> None:
    """Declare for a process of the host, in a folder of its own: inside, it would be cleaned away as one that ended."""
    folder = driver.folder / "elsewhere"
    folder.mkdir(exist_ok=True)
    declare_for(pid, declaration, folder)


def can_be_made(driver: StandIn) -> bool:
    """Whether this machine allows it."""
    return subprocess.run([*command_inside(driver), "true"], check=False, capture_output=True).returncode == 0


def pids(host: int) -> tuple[int, ...]:
    """What the process is called in the namespaces around it, from the host's inwards."""
    lines = Path(f"/proc/{host}/status").read_text(encoding="ascii").splitlines()
    return next(tuple(map(int, line.split()[1:])) for line in lines if line.startswith("NSpid:"))


def innermost(host: int) -> int:
    """The last of a chain of processes of which each has started the next."""
    while children := Path(f"/proc/{host}/task/{host}/children").read_text(encoding="ascii").split():
        (host,) = map(int, children)
    return host


class Container:
    """A container that one can enter, ended with all that is in it."""

    def __init__(self, driver: StandIn) -> None:
        self._command = [*command_inside(driver), "sh", "-c", "echo up; exec sleep infinity"]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "up\n"
        self._first = innermost(self._process.pid)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def enter(self, next_pid: int | None = None) -> tuple[str, ...]:
        """Put before a command, it runs that inside; as process `next_pid`, if that is wanted and free."""
        inside = ("nsenter", f"--target={self._first}", "--user", "--mount", "--pid", "--preserve-credentials")
        if next_pid is None:
            return inside
        as_pid = f'echo {next_pid - 1} > /proc/sys/kernel/ns_last_pid; "$@"; :'
        return (*inside, "sh", "-c", as_pid, "sh")
