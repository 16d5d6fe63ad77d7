"""What the driver's process numbers mean in a container: real pid namespaces, and a driver of each generation."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from container_room import (
    BUSY,
    FIRST,
    GIB,
    HIDDEN_TEXT,
    container,
    driver,
    gaps,
    hold,
    inner,
    neighbour,
    next_reading,
    on,
    open_nvml,
    settled,
    start,
    why,
)

from jupyter_gpu_guard.core.model import Why
from jupyter_gpu_guard.sources.device_files import DeviceFiles
from jupyter_gpu_guard.sources.nvml_pids import HIDDEN, NOT_YET, PidMeaning
from tests.driver.container import command_with_shared_pids

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.driver import GpuProgram, StandIn
    from tests.driver.apart import NvmlApart
    from tests.driver.container import Container

__all__ = ["container", "driver", "open_nvml", "start"]  # fixtures

GENERATIONS = ("535.104", "535.113", "565", "570")


# ---- each generation ----


@pytest.mark.slow
def test_in_a_container_each_generation_is_right_or_unknown(
    driver: StandIn, container: Container, start: Callable[..., GpuProgram], open_nvml: Callable[..., NvmlApart]
) -> None:
    """A neighbour on the same device, one that computes and one that does not: never a wrong name, never a wrong 0."""
    working = inner(start(container.enter(), hold(4, BUSY)))
    idle = inner(start(container.enter(), hold(2)))
    neighbour(driver, start().pid, 8)

    driver.fault("global generation 535.104")
    nvml = open_nvml(container.enter())
    nvml.read()
    seen = next_reading(nvml)
    assert HIDDEN_TEXT in gaps(seen)
    assert seen.clients == ()
    assert seen.devices[0].memory_used == 14 * GIB

    driver.fault("global generation 535.113")
    seen = settled(nvml, lambda seen: gaps(seen) == "" and bool(seen.clients))
    assert on(seen, FIRST).keys() == {working, idle}
    assert {why(client.memory) for client in seen.clients} == {Why.PIDS_HIDDEN}
    seen = settled(nvml, lambda seen: why(on(seen, FIRST)[idle].compute) is Why.PIDS_HIDDEN)
    assert why(on(seen, FIRST)[working].compute) is Why.PIDS_HIDDEN

    driver.fault("global generation 565")
    seen = next_reading(nvml)
    assert {pid: client.memory for pid, client in on(seen, FIRST).items()} == {working: 4 * GIB, idle: 2 * GIB}
    seen = settled(nvml, lambda seen: why(on(seen, FIRST)[idle].compute) is Why.PIDS_HIDDEN)
    assert why(on(seen, FIRST)[working].compute) is Why.PIDS_HIDDEN

    driver.fault("global generation 570")
    seen = settled(nvml, lambda seen: on(seen, FIRST)[working].compute == BUSY)
    assert {pid: client.memory for pid, client in on(seen, FIRST).items()} == {working: 4 * GIB, idle: 2 * GIB}
    assert on(seen, FIRST)[idle].compute == 0
    assert gaps(seen) == ""


@pytest.mark.slow
def test_with_the_hosts_pids_every_generation_is_right(
    driver: StandIn, start: Callable[..., GpuProgram], open_nvml: Callable[..., NvmlApart]
) -> None:
    """In the host's own namespace, and in a container that shares it, the numbers are what they seem."""
    program = start(code=hold(4, BUSY))
    for prefix in ((), command_with_shared_pids()):
        nvml = open_nvml(prefix)
        for generation in GENERATIONS:
            driver.fault(f"global generation {generation}")
            seen = settled(nvml, lambda seen: on(seen, FIRST)[program.pid].compute == BUSY)
            assert on(seen, FIRST)[program.pid].memory == 4 * GIB
            assert seen.gaps == ()


# ---- numbers that are the same by chance ----


def same_number(outside: GpuProgram, inside: GpuProgram) -> None:
    """Goes on only if this machine let the pid inside be chosen."""
    if inner(inside) != outside.pid:
        pytest.skip("the next pid of a namespace cannot be chosen here")


def test_a_number_of_the_host_that_also_exists_here_names_nobody(
    driver: StandIn, container: Container, start: Callable[..., GpuProgram], open_nvml: Callable[..., NvmlApart]
) -> None:
    """The neighbour's number is that of a program here, which is on another device: the list of that one tells."""
    beside = start()
    neighbour(driver, beside.pid, 8)
    same_number(beside, start(container.enter(next_pid=beside.pid), hold(2, device=1)))
    driver.fault("global generation 535.104")
    nvml = open_nvml(container.enter())
    for seen in [nvml.read(), *(next_reading(nvml) for _ in range(4))]:
        assert seen.clients == ()
    assert HIDDEN_TEXT in gaps(seen)


def test_a_neighbours_samples_under_a_number_of_ours_only_protect(
    driver: StandIn, container: Container, start: Callable[..., GpuProgram], open_nvml: Callable[..., NvmlApart]
) -> None:
    """Newer drivers leave the neighbour's number as it is: its work is then shown as ours, which ends nothing."""
    beside = start()
    neighbour(driver, beside.pid, 8, BUSY)
    same_number(beside, start(container.enter(next_pid=beside.pid), hold(2)))
    other = inner(start(container.enter(), hold(1)))
    driver.fault("global generation 570")
    nvml = open_nvml(container.enter())
    nvml.read()
    seen = settled(nvml, lambda seen: on(seen, FIRST)[beside.pid].compute == BUSY)
    assert on(seen, FIRST)[beside.pid].memory == 2 * GIB
    assert on(seen, FIRST).keys() == {beside.pid, other}


def test_a_neighbour_that_computes_makes_absence_unknown(
    driver: StandIn, container: Container, start: Callable[..., GpuProgram], open_nvml: Callable[..., NvmlApart]
) -> None:
    """Its samples cannot be told from those that an older driver would give of our own processes."""
    neighbour(driver, start().pid, 8, BUSY)
    idle = inner(start(container.enter(), hold(2)))
    driver.fault("global generation 570")
    nvml = open_nvml(container.enter())
    nvml.read()
    settled(nvml, lambda seen: why(on(seen, FIRST)[idle].compute) is Why.PIDS_HIDDEN)


# ---- from reading to reading ----


@pytest.fixture
def meaning(tmp_path: Path) -> PidMeaning:
    """As in a container, for processes of here; the driver's device files lie in a folder of their own."""
    (tmp_path / "nvidiactl").touch()
    return PidMeaning(namespaced=True, files=DeviceFiles(devices=tmp_path))


def test_two_readings_prove_and_one_does_not_disprove(meaning: PidMeaning, start: Callable[..., GpuProgram]) -> None:
    """A process that ends between the driver's answer and our look is left out, and the others keep their names."""
    one, ending = start(), start()
    assert meaning.named("a", [one.pid, ending.pid]) == NOT_YET
    assert meaning.named("a", [one.pid, ending.pid]) == {one.pid, ending.pid}
    ending.bury()
    assert meaning.named("a", [one.pid, ending.pid]) == {one.pid}
    assert meaning.named("a", [one.pid]) == {one.pid}


def test_a_process_at_its_end_keeps_its_name(meaning: PidMeaning, start: Callable[..., GpuProgram]) -> None:
    """Its files are closed while the driver still frees its memory."""
    ending = start()
    meaning.named("a", [ending.pid])
    meaning.named("a", [ending.pid])
    ending.kill()
    for _ in range(3):
        assert meaning.named("a", [ending.pid]) == {ending.pid}


def test_who_has_no_device_open_disproves(meaning: PidMeaning, start: Callable[..., GpuProgram]) -> None:
    """A process with that number exists, and yet it cannot be the one that is meant: then no other number counts."""
    one, bystander = start(), os.getppid()
    meaning.named("a", [one.pid])
    assert meaning.named("a", [one.pid]) == {one.pid}
    meaning.named("a", [one.pid, bystander])
    assert meaning.named("a", [one.pid, bystander]) == HIDDEN
    assert meaning.named("b", [one.pid]) == HIDDEN
    meaning.named("a", [one.pid])
    assert meaning.named("a", [one.pid]) == {one.pid}


def test_what_was_disproved_must_be_proven_anew(meaning: PidMeaning, start: Callable[..., GpuProgram]) -> None:
    """Once the numbers were not those of here, one more doubt is enough to name nobody."""
    one, bystander, another = start(), os.getppid(), os.getpid()
    meaning.named("a", [one.pid])
    assert meaning.named("a", [one.pid]) == {one.pid}
    meaning.named("a", [one.pid, bystander])
    assert meaning.named("a", [one.pid, bystander]) == HIDDEN
    assert meaning.named("a", [one.pid, another]) == HIDDEN
    assert meaning.named("a", [one.pid]) == {one.pid}
    assert meaning.named("a", [one.pid, another]) == {one.pid}


def test_an_empty_list_decides_nothing(meaning: PidMeaning, start: Callable[..., GpuProgram]) -> None:
    """A list without anybody is right whatever the numbers mean."""
    assert meaning.named("a", []) == frozenset()
    assert meaning.named("a", []) == frozenset()
    assert meaning.named("a", [start().pid]) == NOT_YET


def test_numbers_that_change_with_every_reading_are_not_believed(meaning: PidMeaning) -> None:
    """Short programs of the host: no number is there twice, and none is of here."""
    gone = [4_100_000, 4_100_001, 4_100_002]
    assert [meaning.named("a", [pid]) for pid in gone] == [NOT_YET, HIDDEN, HIDDEN]


def test_this_very_process_only_asks(meaning: PidMeaning, tmp_path: Path) -> None:
    """Whoever talks to the driver has its file open, the guard too; that is no proof that it computes."""
    with (tmp_path / "nvidiactl").open():
        meaning.named("a", [os.getpid()])
        assert meaning.named("a", [os.getpid()]) == HIDDEN


def test_on_a_host_only_the_living_are_named(start: Callable[..., GpuProgram]) -> None:
    """Whoever has just ended is left out silently; what a process has open does not matter."""
    meaning, ending, bystander = PidMeaning(namespaced=False), start(), os.getppid()
    assert meaning.named("a", [ending.pid, bystander]) == {ending.pid, bystander}
    ending.bury()
    assert meaning.named("a", [ending.pid, bystander]) == {bystander}
