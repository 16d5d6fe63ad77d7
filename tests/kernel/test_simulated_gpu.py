"""The module that a person without a GPU uses in a notebook: what it declares, and what it refuses in which words."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpu_guard.kernel import simulated_gpu as gpu
from jupyter_gpu_guard.kernel.declaration import read_clients, read_devices
from jupyter_gpu_guard.kernel.simulated_gpu import FOR_EVER, Declaration, Load, Wave, now_us
from jupyter_gpu_guard.sources.simulated import prepare
from tests.driver import GpuProgram, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GIB = 2**30
ME = os.getpid()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A simulated machine, which this very process may use."""
    prepare(tmp_path / "gpu")
    monkeypatch.setenv(gpu.VARIABLE, str(tmp_path / "gpu"))
    yield tmp_path / "gpu"
    gpu.release()


def test_there_is_none_unless_the_server_offers_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the variable, or with a folder that describes nothing, it says what to do."""
    monkeypatch.delenv(gpu.VARIABLE, raising=False)
    assert not gpu.available()
    with pytest.raises(gpu.NotSimulatedError, match="jupyter gpu-guard demo"):
        gpu.hold("1 GiB")
    monkeypatch.setenv(gpu.VARIABLE, str(tmp_path))
    assert not gpu.available()
    with pytest.raises(gpu.NotSimulatedError, match="describes no devices"):
        gpu.compute()


def test_hold_declares_and_a_later_call_replaces(folder: Path) -> None:
    """A cell that is run twice does not hold twice as much."""
    assert gpu.available()
    gpu.hold("6 GiB")
    gpu.hold("6 GiB")
    gpu.hold(3 * GIB, device=1)
    assert read_clients(folder)[ME].memory == {0: 6 * GIB, 1: 3 * GIB}


def test_more_than_is_free_is_refused_and_changes_nothing(folder: Path) -> None:
    """What the driver keeps and what other processes hold is not free; what is held already is."""
    other = GpuProgram(folder)
    try:
        assert other.run("gpu.hold('70 GiB')") == "done"
        gpu.hold("5 GiB")
        with pytest.raises(
            gpu.OutOfMemoryError,
            match=r"out of memory\. Tried to hold 10\.00 GiB\. GPU 0 .*80\.00 GiB of which 9\.50 GiB is free",
        ):
            gpu.hold("10 GiB")
        assert read_clients(folder)[ME].memory == {0: 5 * GIB}
        gpu.hold("9.5 GiB")
        assert other.run("gpu.hold('71 GiB')").startswith("OutOfMemoryError Simulated GPU out of memory.")
    finally:
        other.bury()
    gpu.hold("79.5 GiB")


def test_compute_and_wave_replace_each_other_on_one_device(folder: Path) -> None:
    """The latest word on a device counts, the others stand; who holds nothing there gets a small context."""
    gpu.compute(percent=90, seconds=20)
    gpu.compute(percent=50, seconds=None, device=1)
    gpu.wave(high=80, high_seconds=10, low=5, low_seconds=20)
    mine = read_clients(folder)[ME]
    steady, wave = sorted(mine.work, key=lambda work: -work.device)
    assert isinstance(steady, Load)
    assert (steady.device, steady.until, steady.percent) == (1, FOR_EVER, 50)
    assert wave == Wave(0, wave.since, 80, 10_000_000, 5, 20_000_000)
    assert mine.memory == {0: gpu.CONTEXT_BYTES, 1: gpu.CONTEXT_BYTES}


def test_compute_ends_by_itself(folder: Path) -> None:
    """`seconds` is how long; afterwards nothing is computed, and the memory is still held."""
    gpu.hold("1 GiB")
    gpu.compute(percent=90, seconds=20)
    mine = read_clients(folder)[ME]
    (work,) = mine.work
    assert mine.percent(0, work.since, work.since + 20_000_000) == 90
    assert mine.percent(0, work.since, work.since + 40_000_000) == 45
    assert mine.percent(0, work.since + 20_000_000, work.since + 40_000_000) == 0


def test_stop_keeps_the_memory_and_release_gives_it_back(folder: Path) -> None:
    """`stop` ends compute alone, `release` everything."""
    gpu.hold("1 GiB")
    gpu.compute()
    gpu.stop()
    assert read_clients(folder)[ME] == Declaration({0: GIB})
    gpu.release()
    assert ME not in read_clients(folder)


def test_an_interrupted_wait_computes_no_more(folder: Path) -> None:
    """Interrupting the cell ends what the cell computes."""
    code = (
        "from jupyter_gpu_guard.kernel import simulated_gpu as gpu\n"
        "try:\n"
        "    gpu.compute(seconds=60, wait=True)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
        "    input()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cell:
        until(lambda: cell.pid in read_clients(folder))
        cell.send_signal(2)
        assert cell.stdout is not None
        assert cell.stdout.readline() == b"interrupted\n"
        assert read_clients(folder)[cell.pid].work == ()
        cell.kill()


def test_a_short_wait_returns_when_the_work_is_over(folder: Path) -> None:
    """After `wait=True` the work lies in the past."""
    gpu.compute(seconds=0.01, wait=True)
    (work,) = read_clients(folder)[ME].work
    assert isinstance(work, Load)
    assert work.until <= now_us()


def test_a_process_that_ends_in_order_leaves_no_file(folder: Path) -> None:
    """And files that killed processes left are cleared away by the next one."""
    killed = GpuProgram(folder)
    killed.run("gpu.hold('1 GiB')")
    killed.bury()
    assert len(list((folder / "clients").iterdir())) == 1
    code = "from jupyter_gpu_guard.kernel import simulated_gpu as gpu; gpu.hold('1 GiB')"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert list((folder / "clients").iterdir()) == []


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gpu.hold("6 gigs"), "'6 gigs' is no amount of memory; write for example '6 GiB'"),
        (lambda: gpu.hold(-1), "below 0; use release"),
        (lambda: gpu.hold("1 GiB", device=7), "no simulated device 7; there are 0, 1"),
        (lambda: gpu.compute(percent=101), "101 is no share of a device"),
        (lambda: gpu.compute(seconds=0), "must be above 0, or None"),
        (lambda: gpu.compute(seconds=None, wait=True), "needs a number of seconds"),
        (lambda: gpu.wave(50, 0, 0, 1), "must be above 0"),
        (lambda: gpu.wave(50, 1, -1, 1), "-1 is no share"),
    ],
)
def test_nonsense_is_refused_with_what_would_be_right(folder: Path, call: object, words: str) -> None:
    """Every refusal is a ValueError in words, and nothing is declared."""
    assert callable(call)
    with pytest.raises(ValueError, match=words):
        call()
    assert ME not in read_clients(folder)


@pytest.mark.parametrize(
    ("text", "amount"), [("6 GiB", 6 * GIB), ("512MiB", 2**29), ("1.5 gib", 3 * 2**29), ("6GB", 6 * 10**9), ("7", 7)]
)
def test_amounts_are_read_as_people_write_them(text: str, amount: int) -> None:
    """Binary and decimal units, any case, with or without a blank."""
    assert gpu.parse_amount(text) == amount


def test_only_the_living_can_be_declared_for(folder: Path) -> None:
    """A tool that names a process which is gone is told so."""
    program = GpuProgram(folder)
    gpu.declare_for(program.pid, Declaration({0: GIB}, kinds="G", reported_pid=77))
    assert read_clients(folder)[program.pid] == Declaration({0: GIB}, kinds="G", reported_pid=77)
    program.bury()
    with pytest.raises(ProcessLookupError, match=str(program.pid)):
        gpu.declare_for(program.pid, Declaration({0: GIB}))


def test_half_a_file_counts_for_nobody(folder: Path) -> None:
    """A declaration that cannot be read makes no client and no exception."""
    gpu.hold("1 GiB")
    (path,) = (folder / "clients").iterdir()
    path.write_text("mem 0", encoding="utf-8")
    assert read_clients(folder) == {}


def test_devices_are_what_the_folder_describes(tmp_path: Path) -> None:
    """Lines that make no sense are passed over; the order is by index."""
    (tmp_path / "devices").write_text("1 GPU-b 200 Second card\nnonsense\n0 GPU-a 100 First\n", encoding="utf-8")
    assert [(d.index, d.uuid, d.memory_total, d.name) for d in read_devices(tmp_path)] == [
        (0, "GPU-a", 100, "First"),
        (1, "GPU-b", 200, "Second card"),
    ]


MICROSECONDS = st.integers(0, 10**12)
PERCENT = st.integers(0, 100)
WORK = st.builds(Load, st.integers(0, 3), MICROSECONDS, MICROSECONDS | st.just(FOR_EVER), PERCENT) | st.builds(
    Wave, st.integers(0, 3), MICROSECONDS, PERCENT, st.integers(1, 10**9), PERCENT, st.integers(1, 10**9)
)
DECLARATION = st.builds(
    Declaration,
    st.dictionaries(st.integers(0, 3), st.integers(0, 2**40)),
    st.lists(WORK, max_size=4).map(tuple),
    st.sampled_from(["C", "G", "M", "C+G"]),
    st.none() | st.integers(1, 2**22),
)


@given(DECLARATION)
def test_what_is_written_is_read(declaration: Declaration) -> None:
    """The text says all of a declaration."""
    assert Declaration.parse(str(declaration)) == declaration


@given(DECLARATION, MICROSECONDS, st.integers(1, 10**10), st.integers(1, 10**10))
def test_compute_adds_up_over_time(declaration: Declaration, begin: int, first: int, second: int) -> None:
    """The mean over a span is the mean of its parts, weighted by their length, and lies within the device."""
    one_device = Declaration(work=declaration.work[:1])
    for device in one_device.devices:
        whole = one_device.percent(device, begin, begin + first + second)
        parts = first * one_device.percent(device, begin, begin + first)
        parts += second * one_device.percent(device, begin + first, begin + first + second)
        assert whole == pytest.approx(parts / (first + second), abs=1e-3)
        assert 0 <= whole <= 100
