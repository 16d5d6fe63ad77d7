"""The process table: parsed purely from texts, and compared with psutil on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpu_guard.core.model import ProcessKey
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses, parse_boot_time, parse_stat

TREE = Path(__file__).parent / "proc"
TICK = os.sysconf("SC_CLK_TCK")


REPOSITORY = Path(__file__).parents[2]


def stat_line(pid: int, name: bytes, start_ticks: int) -> bytes:
    """A line as proc(5) describes it, with 52 fields."""
    before = b"%d (%s) S 7 8 9 0 -1 4194560" % (pid, name)
    between = b" ".join(b"%d" % number for number in range(12))
    return before + b" " + between + b" %d" % start_ticks + b" 18446744073709551615" * 30 + b"\n"


@given(st.binary(max_size=64).filter(lambda name: b"\0" not in name), st.integers(0, 2**63))
def test_a_process_may_call_itself_anything(name, start_ticks):
    """No name, with spaces, newlines, parentheses or whole stat lines in it, moves a field."""
    stat = parse_stat(stat_line(42, name, start_ticks))
    assert stat == (42, "S", 7, 8, 9, start_ticks, 4 + 5 + 6 + 7)


@given(st.binary(max_size=80))
def test_no_text_is_half_an_identity(text):
    """A text that is not a whole stat line is refused with ValueError and nothing else."""
    with pytest.raises(ValueError):  # noqa: PT011 - any sentence will do
        parse_stat(text)


def test_a_stat_line_cut_before_its_start_time_is_refused():
    """Without field 22 there is no identity."""
    whole = stat_line(42, b"python", 123456)
    cut = whole[: whole.index(b" 123456")]
    with pytest.raises(ValueError, match="stat"):
        parse_stat(cut)


def test_the_boot_time_must_be_said():
    """A /proc/stat without btime is refused; 1970 would be a lie."""
    assert parse_boot_time(b"cpu 1 2\nbtime 1700000000\n") == 1_700_000_000
    with pytest.raises(ValueError, match="btime"):
        parse_boot_time(b"cpu 1 2\n")


def test_the_whole_table_of_a_small_tree():
    """Every process with pid, parent, group, session, state and start; torn and foreign entries are left out."""
    table = ProcfsProcesses(TREE).read()
    assert sorted(table) == [1, 42, 43]
    hostile = table[42]
    assert hostile.key == ProcessKey(42, 250)
    assert (hostile.parent, hostile.group, hostile.session, hostile.state) == (1, 42, 42, "D")
    assert hostile.started_at == datetime.fromtimestamp(1_700_000_000, timezone.utc) + timedelta(seconds=250 / TICK)
    assert table[43].is_over
    assert not hostile.is_over


def test_one_process_is_the_same_as_in_the_table():
    """Looking for one and reading all agree."""
    processes = ProcfsProcesses(TREE)
    assert processes.identify(42) == processes.read()[42]
    assert processes.identify(44) is None
    assert processes.identify(45) is None


def test_a_process_that_changes_between_two_readings_shows_the_change(tmp_path):
    """What is kept from the last reading never hides a new state or another process with the same pid."""
    (tmp_path / "stat").write_bytes(b"btime 1700000000\n")
    (tmp_path / "42").mkdir()
    entry = tmp_path / "42" / "stat"
    processes = ProcfsProcesses(tmp_path)
    entry.write_bytes(stat_line(42, b"first", 100))
    assert processes.read()[42].key == ProcessKey(42, 100)
    assert processes.read()[42].key == ProcessKey(42, 100)
    entry.write_bytes(stat_line(42, b"second", 900))
    assert processes.read()[42].key == ProcessKey(42, 900)
    entry.unlink()
    assert processes.read() == {}


@pytest.fixture
def tree(tmp_path):
    """A proc file system with the sleeping processes 42 and 43."""
    (tmp_path / "stat").write_bytes(b"btime 1700000000\n")
    for pid in (42, 43):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_bytes(stat_line(pid, b"sleep", 100))
    return tmp_path


def states(processes, closely=None):
    """The state of each process, by pid."""
    return {pid: process.state for pid, process in processes.read(closely).items()}


def fall_asleep(tree):
    """Every process goes from state S to D."""
    for stat in tree.glob("*/stat"):
        stat.write_bytes(stat.read_bytes().replace(b") S ", b") D "))


def test_only_those_that_matter_are_read_at_once(tree):
    """A row that was asked for is of this moment; another one is kept, and nobody is missing."""
    processes = ProcfsProcesses(tree)
    assert states(processes, ()) == {42: "S", 43: "S"}
    fall_asleep(tree)
    assert states(processes, {43, 44}) == {42: "S", 43: "D"}
    assert states(processes, None) == {42: "D", 43: "D"}


def test_no_row_is_older_than_a_minute(tree):
    """Whatever the rate of readings, each row is read again within the minute, and not all of them at once."""
    now = 1000.0
    processes = ProcfsProcesses(tree, lambda: now)
    states(processes, ())
    fall_asleep(tree)
    now += 30
    assert states(processes, ()) == {42: "S", 43: "S"}
    seen = []
    while now < 1060:
        now += 0.5
        seen.append("".join(states(processes, ()).values()))
    assert seen[-1] == "DD"
    assert len(set(seen)) == 3


def test_a_new_process_and_one_that_is_gone_are_noticed_at_once(tree):
    """Nobody asks for a process that has just been born, and it is there all the same."""
    processes = ProcfsProcesses(tree)
    states(processes, ())
    (tree / "44").mkdir()
    (tree / "44" / "stat").write_bytes(stat_line(44, b"new", 900))
    (tree / "42" / "stat").unlink()
    (tree / "42").rmdir()
    assert states(processes, ()) == {43: "S", 44: "S"}


def test_another_directory_is_another_process(tree):
    """The same pid in a directory with another inode number is read again, though nobody asks."""
    processes = ProcfsProcesses(tree)
    assert processes.read(())[42].key == ProcessKey(42, 100)
    (tree / "42").rename(tree / "earlier")
    (tree / "42").mkdir()
    (tree / "42" / "stat").write_bytes(stat_line(42, b"reused", 900))
    assert processes.read(())[42].key == ProcessKey(42, 900)


def test_the_row_of_a_process_that_is_over_is_never_kept(tree):
    """Its pid may go to another process while its entry still stands."""
    (tree / "42" / "stat").write_bytes(stat_line(42, b"over", 100).replace(b") S ", b") Z "))
    processes = ProcfsProcesses(tree)
    assert processes.read(())[42].is_over
    (tree / "42" / "stat").write_bytes(stat_line(42, b"reused", 900))
    assert processes.read(())[42].key == ProcessKey(42, 900)


REUSED = """
import os, signal, sys, time
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses

def born():
    with open("/proc/sys/kernel/ns_last_pid", "w") as last:
        last.write("299")
    pid = os.fork()
    if pid == 0:
        signal.pause()
    return pid

def end(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    if sys.argv[1] == "seen as a zombie":
        assert processes.read({pid})[pid].is_over
    os.waitpid(pid, 0)

processes = ProcfsProcesses()
bystander = os.fork()
if bystander == 0:
    signal.pause()
first = born()
before = processes.read(())
earlier = before[first].key
assert processes.read(())[first] is before[first]
end(first)
while time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK") < earlier.start_ticks + 3:
    pass  # a process born in the same clock tick would have the same key
second = born()
after = processes.read(())
print(first == second, after[second].key != earlier, after[second].key == processes.identify(second).key)
print(after[bystander] is before[bystander])
for pid in (second, bystander):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
"""


@pytest.mark.parametrize("between", ["not seen", "seen as a zombie"])
def test_a_pid_that_the_kernel_gives_to_another_process_is_another_process(between):
    """In a real pid namespace, with a reused pid between two readings that nobody asked to be close ones."""
    apart = ["unshare", "-Urpf", "--mount-proc", "--kill-child"]
    tried = subprocess.run([*apart, "test", "-w", "/proc/sys/kernel/ns_last_pid"], capture_output=True, check=False)
    if tried.returncode != 0:
        pytest.skip("this machine does not let this user have a pid namespace and choose its next pid")
    program = [*apart, sys.executable, "-c", REUSED, between]
    asked = subprocess.run(program, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert asked.stdout.split() == ["True"] * 4, asked.stderr


def test_no_proc_file_system_is_an_error_and_not_an_empty_table(tmp_path):
    """An empty table would make every process a dead one."""
    processes = ProcfsProcesses(tmp_path / "absent")
    with pytest.raises(FileNotFoundError):
        processes.read()


def test_too_many_open_files_is_an_error_and_not_an_absent_process():
    """When this process cannot open another file, nobody else is dead."""
    program = """
import os, resource
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses
processes = ProcfsProcesses()
processes.identify(1)
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, 64))
for ask in (processes.read, lambda: processes.identify(1)):
    try:
        ask()
    except OSError as fault:
        print(fault.errno)
"""
    asked = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert asked.stdout.split() == ["24", "24"]


def test_psutil_sees_the_same_processes():
    """Parent, session, group, state and start time agree with psutil for every process that lives through both."""
    processes = ProcfsProcesses()
    table = processes.read()
    letters = {psutil.STATUS_ZOMBIE: "Z", psutil.STATUS_DEAD: "X"}
    compared = 0
    for pid, process in table.items():
        try:
            theirs = psutil.Process(pid)
            parent, start, status = theirs.ppid(), theirs.create_time(), theirs.status()
            group, session = os.getpgid(pid), os.getsid(pid)
        except (psutil.NoSuchProcess, ProcessLookupError):
            continue
        again = processes.identify(pid)
        if again is None or again.key != process.key or again.state != process.state:
            continue
        compared += 1
        assert again.parent == parent
        assert (again.group, again.session) == (group, session)
        assert abs(again.started_at.timestamp() - start) < 1.5  # psutil reads the boot time to the second as well
        assert again.is_over == (status in letters)
    assert os.getpid() in table
    assert compared > 1
