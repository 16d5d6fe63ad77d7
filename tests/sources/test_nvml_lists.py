"""The driver's process lists: all their forms and layouts, three lists in one, and what is asked only once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_gpu_guard.core.model import DeviceState, Why
from jupyter_gpu_guard.kernel.simulated_gpu import Declaration, declare_for
from tests.driver import ONLY_V1, GpuProgram, StandIn
from tests.driver.scene import BUSY, FIRST, GIB, busy, client, next_reading, settled, why

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.driver.apart import NvmlApart

LISTS = [f"nvmlDeviceGet{kind}RunningProcesses" for kind in ("Compute", "Graphics", "MPSCompute")]


@pytest.fixture
def three(driver: StandIn) -> Iterator[list[int]]:
    """The pids of three idle processes with 4 GiB each on the first device."""
    programs = [GpuProgram(driver.folder) for _ in range(3)]
    for program in programs:
        declare_for(program.pid, Declaration({0: 4 * GIB}), driver.folder)
    yield [program.pid for program in programs]
    for program in programs:
        program.bury()


# ---- forms and layouts ----


def test_a_driver_with_the_first_lists_alone_is_read_in_full(
    open_nvml: Callable[..., NvmlApart], driver: StandIn, idle: int, busy_one: int
) -> None:
    """They know neither instances nor the multi-process service's newer names; a pid and its memory are enough."""
    declare_for(idle, Declaration({0: 2 * GIB}, kinds="C+G"), driver.folder)
    nvml = open_nvml(StandIn(driver.folder, switches=ONLY_V1).environment())
    seen = nvml.read()
    assert seen.gaps == ()
    assert (client(seen, idle).memory, client(seen, idle).type) == (2 * GIB, "C+G")
    assert settled(nvml, busy_one, lambda compute: compute == BUSY)


def test_the_first_lists_know_when_there_is_no_figure(
    open_nvml: Callable[..., NvmlApart], driver: StandIn, idle: int
) -> None:
    """As the newer ones do."""
    driver.fault("0 memory_not_available")
    nvml = open_nvml(StandIn(driver.folder, switches=ONLY_V1).environment())
    assert why(client(nvml.read(), idle).memory) is Why.NOT_AVAILABLE


@pytest.mark.parametrize("size", [32, 40])
def test_longer_records_than_the_bindings_know_are_not_used(
    nvml: NvmlApart, driver: StandIn, three: list[int], size: int
) -> None:
    """From the second row on, pids and memory are shuffled: no row is believed, and people are told what to update."""
    nvml.read()
    driver.fault(f"0 long_rows {size}")
    for _ in range(3):
        seen = next_reading(nvml)
        assert sorted(client.pid for client in seen.clients) == sorted(three)
        assert all((why(row.memory), why(row.compute)) == (Why.IMPLAUSIBLE, Why.IMPLAUSIBLE) for row in seen.clients)
        (gap,) = seen.gaps
        assert gap.source == "device 0"
        assert "driver and library disagree" in gap.why
        assert "update the NVIDIA driver and nvidia-ml-py" in gap.why
        assert seen.devices[0].state is DeviceState.FAILING
    driver.fault()
    assert [client(next_reading(nvml), pid).memory for pid in three] == [4 * GIB] * 3


@pytest.mark.parametrize("size", [32, 40])
def test_nobody_is_named_after_longer_records_from_the_start(
    nvml: NvmlApart, driver: StandIn, three: list[int], size: int
) -> None:
    """Nothing is known of before that could be shown instead."""
    driver.fault(f"0 long_rows {size}")
    assert nvml.read().clients == ()
    assert next_reading(nvml).clients == ()


# ---- three lists, one row ----


@pytest.mark.parametrize("kinds", ["C", "G", "M", "C+G", "C+M", "G+M", "C+G+M"])
def test_the_type_names_every_list_that_has_it(nvml: NvmlApart, driver: StandIn, idle: int, kinds: str) -> None:
    """One row, with the memory once."""
    declare_for(idle, Declaration({0: 3 * GIB}, kinds=kinds), driver.folder)
    row = client(nvml.read(), idle)
    assert (row.type, row.memory) == (kinds, 3 * GIB)


def test_desktops_and_renderers_are_clients_by_the_same_rules(
    nvml: NvmlApart, driver: StandIn, three: list[int]
) -> None:
    """A desktop, a notebook that renders, and one that renders and computes: each once, with its own memory."""
    desktop, renderer, both = three
    declare_for(desktop, Declaration({0: GIB // 4}, kinds="G"), driver.folder)
    declare_for(renderer, Declaration({0: GIB}, kinds="G"), driver.folder)
    declare_for(both, Declaration({0: 2 * GIB}, (busy(0),), kinds="C+G"), driver.folder)
    nvml.read()
    settled(nvml, both, lambda compute: compute == BUSY)
    seen = next_reading(nvml)
    assert len(seen.clients) == 3
    assert [(client(seen, pid).memory, client(seen, pid).type) for pid in three] == [
        (GIB // 4, "G"),
        (GIB, "G"),
        (2 * GIB, "C+G"),
    ]
    assert client(seen, desktop).compute == 0


def test_the_server_of_the_multi_process_service_keeps_its_own_memory(
    nvml: NvmlApart, driver: StandIn, three: list[int]
) -> None:
    """What it is listed with is not divided among its clients; they are listed with their own, and not measured."""
    server, one, other = three
    declare_for(server, Declaration({0: 30 * GIB}), driver.folder)
    declare_for(one, Declaration({0: 2 * GIB}, kinds="M"), driver.folder)
    declare_for(other, Declaration({0: 3 * GIB}, kinds="M"), driver.folder)
    nvml.read()
    seen = next_reading(nvml)
    rows = {row.pid: (row.type, row.memory) for row in seen.clients}
    assert rows == {server: ("C", 30 * GIB), one: ("M", 2 * GIB), other: ("M", 3 * GIB)}
    assert client(seen, server).compute == 0
    assert why(client(seen, one).compute) is Why.NOT_SUPPORTED


# ---- what cannot be true ----


HONEST = "Row({pid}, 2147483648)"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (f"{HONEST}, Row(0, 0)", "names a process 0"),
        (f"{HONEST}, Row(4294967295, 0)", "names a process 4294967295"),
        (f"{HONEST}, Row(7, 94592359759119)", "more memory than the device has"),
        (f"{HONEST}, Row(7, 10, 0, 4096)", "an instance that cannot be"),
        (f"{HONEST}, Row({{pid}}, 4096)", "two amounts of memory"),
        ("*(Row(pid, 60 * 2**30) for pid in ({pid}, 1))", "hold more than is used"),
    ],
)
def test_one_row_that_cannot_be_spoils_the_list(
    open_nvml: Callable[..., NvmlApart], idle: int, rows: str, words: str
) -> None:
    """Whichever row it is: where one is wrong, the others are not where they were looked for either."""
    prelude = (
        "import jupyter_gpu_guard.sources.nvml_library as library\n"
        "from jupyter_gpu_guard.sources.nvml_lists import Row\n"
        "right, wrong = library.read_list, 'nvmlDeviceGetComputeRunningProcesses_v3'\n"
        "library.read_list = lambda nvml, name, handle: "
        f"[{rows.format(pid=idle)}] if name == wrong else right(nvml, name, handle)\n"
    )
    seen = open_nvml(prelude=prelude).read()
    assert [row for row in seen.clients if row.device == FIRST] == []
    assert all(words in gap.why for gap in seen.gaps)
    assert seen.gaps[0].source == "devices"
    assert "driver and library disagree" in seen.gaps[0].why


def test_memory_that_is_shared_may_be_listed_for_each(nvml: NvmlApart, driver: StandIn, three: list[int]) -> None:
    """Three workers that map one allocation are listed with it three times: a sum above what is used is no lie yet."""
    for pid in three:
        declare_for(pid, Declaration({0: 30 * GIB}), driver.folder)
    seen = nvml.read()
    assert seen.devices[0].memory_used == 80 * GIB - GIB // 2  # the driver has no more than that to give
    assert [client(seen, pid).memory for pid in three] == [30 * GIB] * 3


# ---- asked once ----


def test_what_a_device_does_not_offer_is_asked_once(nvml: NvmlApart, driver: StandIn, idle: int, busy_one: int) -> None:
    """A reading of twenty costs no call that was answered with "not supported"; a new connection asks again."""
    absent = ["nvmlDeviceGetProcessesUtilizationInfo", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetMigMode"]
    absent += [f"{name}_v3" for name in LISTS]
    absent += ["nvmlDeviceGetMemoryInfo_v2"]
    driver.fault(*(f"all error NOT_SUPPORTED {name}" for name in absent))
    driver.count_calls()
    for _ in range(20):
        seen = next_reading(nvml)
    assert client(seen, idle).memory == 2 * GIB
    assert why(seen.devices[0].power) is Why.NOT_SUPPORTED
    calls = driver.calls()
    assert {name: calls[name] for name in absent} == dict.fromkeys(absent, 2)  # once for each of the two devices
    driver.fault("all error UNINITIALIZED")
    next_reading(nvml)
    driver.fault()
    nvml.ahead += 10
    assert next_reading(nvml).devices[0].power == pytest.approx(60)


def test_a_reading_costs_few_calls(nvml: NvmlApart, driver: StandIn, idle: int, busy_one: int) -> None:
    """Per device: three lists, memory, two rings, and three figures for the eye."""
    for _ in range(3):
        next_reading(nvml)
    driver.count_calls()
    next_reading(nvml)
    calls = driver.calls()
    assert {name for name, count in calls.items() if count != 2} <= {
        *(f"{name}_v3" for name in LISTS),  # the bindings ask for the size first
        "nvmlDeviceGetProcessUtilization",
        "nvmlDeviceGetProcessesUtilizationInfo",
    }
    assert sum(calls.values()) <= 2 * (3 * 2 + 1 + 2 * 2 + 3)
