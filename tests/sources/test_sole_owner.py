"""The estimate of who is on a device, where a container cannot see its own GPU processes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

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

from jupyter_gpu_guard.core.model import Evidence, Why
from jupyter_gpu_guard.sources.device_files import DeviceFiles, Use
from jupyter_gpu_guard.sources.sole_owner import Candidate, SoleOwner
from tests.driver import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpu_guard.protocols import DevicesSeen
    from tests.driver import GpuProgram, StandIn
    from tests.driver.apart import NvmlApart
    from tests.driver.container import Container

__all__ = ["container", "driver", "open_nvml", "start"]  # fixtures


def in_time(nvml: NvmlApart, right: Callable[[DevicesSeen], bool]) -> DevicesSeen:
    """Read on in real time until it is right: the driver's samples of a whole device must have no holes."""
    seen: list[DevicesSeen] = []

    def look() -> bool:
        seen.append(nvml.read())
        return right(seen[-1])

    until(look, 60)
    return seen[-1]


def is_busy(seen: DevicesSeen, pid: int) -> bool:
    """Whether it is there and known to compute as much as it does."""
    client = on(seen, FIRST).get(pid)
    return client is not None and client.compute == BUSY


def test_a_program_that_is_alone_is_estimated(
    driver: StandIn, container: Container, start: Callable[..., GpuProgram], open_nvml: Callable[..., NvmlApart]
) -> None:
    """The device's memory and its peak are taken for those of the only CUDA program here, and marked so."""
    alone = inner(start(container.enter(), hold(4, BUSY)))
    driver.fault("global generation 535.104")
    nvml = open_nvml(container.enter(), estimate_sole_owner=True)
    assert nvml.read().clients == ()
    seen = next_reading(nvml)
    assert on(seen, FIRST).keys() == {alone}
    assert (on(seen, FIRST)[alone].memory, on(seen, FIRST)[alone].evidence) == (4 * GIB, Evidence.ESTIMATE)
    assert why(on(seen, FIRST)[alone].compute) is Why.FIRST_READING
    (gap,) = seen.gaps
    assert gap.source == "device 0"
    assert "estimate" in gap.why
    in_time(nvml, lambda seen: is_busy(seen, alone))


def test_without_the_option_nothing_is_estimated(
    driver: StandIn, container: Container, start: Callable[..., GpuProgram], open_nvml: Callable[..., NvmlApart]
) -> None:
    """It is for an administrator to say that containers do not share devices."""
    start(container.enter(), hold(4))
    driver.fault("global generation 535.104")
    nvml = open_nvml(container.enter())
    nvml.read()
    seen = next_reading(nvml)
    assert seen.clients == ()
    assert HIDDEN_TEXT in gaps(seen)


def test_with_two_programs_nothing_is_estimated(
    driver: StandIn, container: Container, start: Callable[..., GpuProgram], open_nvml: Callable[..., NvmlApart]
) -> None:
    """Either may be meant, also one that holds nothing yet; once one has ended it is clear again."""
    first = inner(start(container.enter(), hold(4)))
    second = start(container.enter())
    driver.fault("global generation 535.104")
    nvml = open_nvml(container.enter(), estimate_sole_owner=True)
    nvml.read()
    seen = next_reading(nvml)
    assert seen.clients == ()
    assert HIDDEN_TEXT in gaps(seen)
    assert second.run("import os; os._exit(0)") == ""
    settled(nvml, lambda seen: on(seen, FIRST).keys() == {first})


def test_a_forked_worker_does_not_make_two(
    driver: StandIn, container: Container, start: Callable[..., GpuProgram], open_nvml: Callable[..., NvmlApart]
) -> None:
    """It has inherited what shows CUDA; the topmost of the tree stands for it."""
    top = start(container.enter(), hold(4))
    parent = inner(top)
    assert top.run("import os, time; os.fork() or (os.close(1), time.sleep(600))") == "done"
    driver.fault("global generation 535.104")
    nvml = open_nvml(container.enter(), estimate_sole_owner=True)
    nvml.read()
    assert on(next_reading(nvml), FIRST).keys() == {parent}


def test_a_neighbour_on_the_device_forbids_an_estimate(
    driver: StandIn, container: Container, start: Callable[..., GpuProgram], open_nvml: Callable[..., NvmlApart]
) -> None:
    """The driver lists more processes than could be ours: its memory must not be laid at our door."""
    start(container.enter(), hold(4))
    neighbour(driver, start().pid, 8)
    driver.fault("global generation 535.104")
    nvml = open_nvml(container.enter(), estimate_sole_owner=True)
    nvml.read()
    seen = next_reading(nvml)
    assert seen.clients == ()
    assert HIDDEN_TEXT in gaps(seen)


def test_what_is_hidden_of_a_listed_program_is_put_in(
    driver: StandIn, container: Container, start: Callable[..., GpuProgram], open_nvml: Callable[..., NvmlApart]
) -> None:
    """Some drivers give the right number and no memory, or measure by other numbers; with newer ones all is known."""
    alone = inner(start(container.enter(), hold(4, BUSY)))
    nvml = open_nvml(container.enter(), estimate_sole_owner=True)
    nvml.read()
    for generation in ("535.113", "565"):
        driver.fault(f"global generation {generation}")
        seen = in_time(nvml, lambda seen: is_busy(seen, alone))
        client = on(seen, FIRST)[alone]
        assert (client.memory, client.evidence) == (4 * GIB, Evidence.ESTIMATE)
        assert gaps(seen) == ""
    driver.fault("global generation 570")
    seen = in_time(nvml, lambda seen: is_busy(seen, alone) and on(seen, FIRST)[alone].evidence is Evidence.PROCESS)
    assert on(seen, FIRST)[alone].memory == 4 * GIB


class FakeFiles(DeviceFiles):
    """Says of each process what it is told to."""

    def __init__(self, uses: dict[int, Use]) -> None:
        self._uses = uses

    def use(self, pid: int) -> Use:
        """NONE for those of whom nothing was said."""
        return self._uses.get(pid, Use.NONE)


def test_who_cannot_be_looked_into_might_be_the_one(start: Callable[..., GpuProgram]) -> None:
    """Then nobody is alone; but whoever has started this server, as the first process of a container, is not meant."""
    one, other = start().pid, start().pid
    seen = {one: Use.CUDA, os.getppid(): Use.UNREADABLE}
    assert SoleOwner(FakeFiles(seen)).candidate() == Candidate(one, frozenset({one}))
    assert SoleOwner(FakeFiles({**seen, other: Use.UNREADABLE})).candidate() is None


def test_who_only_asks_the_driver_does_not_count(start: Callable[..., GpuProgram]) -> None:
    """A monitor has device files open, and no CUDA."""
    one, monitor = start().pid, start().pid
    assert SoleOwner(FakeFiles({one: Use.CUDA, monitor: Use.OPEN})).candidate() == Candidate(one, frozenset({one}))
    assert SoleOwner(FakeFiles({monitor: Use.OPEN})).candidate() is None
