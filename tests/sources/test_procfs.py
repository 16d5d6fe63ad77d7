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


def stat_line(pid: int, name: bytes, start_ticks: int) -> bytes:
    """A line as proc(5) describes it, with 52 fields."""
    before = b"%d (%s) S 7 8 9 0 -1 4194560" % (pid, name)
    between = b" ".join(b"%d" % number for number in range(12))
    return before + b" " + between + b" %d" % start_ticks + b" 18446744073709551615" * 30 + b"\n"


@given(st.binary(max_size=64).filter(lambda name: b"\0" not in name), st.integers(0, 2**63))
def test_a_process_may_call_itself_anything(name, start_ticks):
    """No name, with spaces, newlines, parentheses or whole stat lines in it, moves a field."""
    stat = parse_stat(stat_line(42, name, start_ticks))
    assert stat == (42, "S", 7, 8, 9, start_ticks)


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
    here = Path(__file__).parents[2]
    asked = subprocess.run([sys.executable, "-c", program], cwd=here, capture_output=True, text=True, check=True)
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
