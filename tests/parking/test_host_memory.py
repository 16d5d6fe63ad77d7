"""How much memory of the host is free for one process, with its control groups."""

from __future__ import annotations

import os

import pytest

from jupyter_gpu_guard.core.model import is_known
from jupyter_gpu_guard.parking.host_memory import free_host_memory

GIB = 2**30


class FakeHost:
    """The files that tell it. Amounts in GiB."""

    def __init__(self, root):
        self.proc, self.groups = root / "proc", root / "groups"
        self.say("proc/meminfo", f"MemTotal: {64 * 2**20} kB\nMemAvailable: {32 * 2**20} kB\n", root)
        self._root = root

    def say(self, path, text, root=None):
        """Have a file say this."""
        file = (root or self._root) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def group(self, folder, limit, used, cached=0, *, names=("memory.max", "memory.current", "inactive_file")):
        """A control group; limit None: none."""
        limit = "max" if limit is None else str(int(limit * GIB))
        self.say(f"groups/{folder}/{names[0]}", f"{limit}\n")
        self.say(f"groups/{folder}/{names[1]}", f"{int(used * GIB)}\n")
        self.say(f"groups/{folder}/memory.stat", f"anon 1\n{names[2]} {int(cached * GIB)}\n")

    def free(self):
        """What is free for process 7."""
        return free_host_memory(7, self.proc, self.groups) / GIB


V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


@pytest.fixture
def host(tmp_path):
    """A host with 32 GiB available."""
    return FakeHost(tmp_path)


def test_without_limits_it_is_what_the_system_says(host):
    """No group says less."""
    assert host.free() == 32
    host.say("proc/7/cgroup", "0::/user\n")
    host.group("user", None, 4)
    assert host.free() == 32


def test_the_narrowest_group_counts(host):
    """A limit further out holds for all within."""
    host.say("proc/7/cgroup", "0::/pod/container\n")
    host.group("pod", 16, 10)
    host.group("pod/container", 12, 4)
    assert host.free() == 6


def test_what_is_cached_can_be_dropped(host):
    """A group that is full of file pages is not full."""
    host.say("proc/7/cgroup", "0::/\n")
    host.group(".", 8, 8, cached=5)
    assert host.free() == 5


def test_in_a_container_the_root_is_the_own_group(host):
    """The path is that of the host, and is not to be seen."""
    host.say("proc/7/cgroup", "0::/kubepods/pod1/abc\n")
    host.group(".", 8, 6)
    assert host.free() == 2


def test_the_older_hierarchy(host):
    """Its names are others, and without a limit it says a huge number."""
    host.say("proc/7/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n")
    host.group("memory/docker/abc", 8, 7, cached=1, names=V1)
    host.group("memory", 2**33, 7, names=V1)
    assert host.free() == 2


def test_more_than_the_limit_is_no_negative_amount(host):
    """Nothing is free then."""
    host.say("proc/7/cgroup", "0::/\n")
    host.group(".", 4, 5)
    assert host.free() == 0


def test_what_cannot_be_read_is_not_known(tmp_path):
    """It is no 0, and no infinity."""
    assert not is_known(free_host_memory(7, tmp_path, tmp_path))


def test_this_very_process():
    """Some memory is free here, and not more than there can be."""
    free = free_host_memory(os.getpid())
    assert is_known(free)
    assert 0 < free < 2**60
