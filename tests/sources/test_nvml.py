"""NVML: what becomes of each way in which a driver can fail or mislead. The real `pynvml` talks to a driver in C."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from jupyter_gpu_guard.core.model import DeviceState, Gap, Unknown, Why, is_known
from jupyter_gpu_guard.kernel.simulated_gpu import Declaration, declare_for, now_us
from jupyter_gpu_guard.protocols import DevicesSeen
from jupyter_gpu_guard.sources.nvml import NvmlDevices
from tests.driver import ONLY_V2, GpuProgram, StandIn, until
from tests.driver.scene import BUSY, FIRST, GIB, SECOND, busy, client, next_reading, settled, why

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.driver.apart import NvmlApart


# ---- absence is idle only if the driver says so ----


def test_idle_is_zero_and_busy_is_not(nvml: NvmlApart, idle: int, busy_one: int) -> None:
    """The two readings that all the rest is about."""
    nvml.read()
    assert settled(nvml, busy_one, lambda compute: compute == BUSY)
    assert client(next_reading(nvml), idle).compute == 0


def test_an_empty_success_is_idle_too(nvml: NvmlApart, driver: StandIn, idle: int) -> None:
    """Some drivers say SUCCESS with no rows where others say NOT_FOUND; `pynvml` makes an error with code 0 of it."""
    driver.fault("all empty_is_success")
    nvml.read()
    assert client(next_reading(nvml), idle).compute == 0


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("UNKNOWN", Why.DRIVER_ERROR),
        ("NOT_SUPPORTED", Why.DRIVER_ERROR),  # after it has answered before, this is no fact about the device
        ("NO_PERMISSION", Why.NO_PERMISSION),
        ("TIMEOUT", Why.NOT_READ),
        ("MEMORY", Why.DRIVER_ERROR),
    ],
)
def test_a_failed_call_is_unknown_and_never_zero(
    nvml: NvmlApart, driver: StandIn, idle: int, busy_one: int, error: str, expected: Why
) -> None:
    """Compute is unknown with the reason, memory still known, and the other device as before."""
    nvml.read()
    next_reading(nvml)
    driver.fault(f"0 error {error} nvmlDeviceGetProcessUtilization")
    seen = next_reading(nvml)
    assert why(client(seen, idle).compute) is expected
    assert client(seen, idle).memory == 2 * GIB
    assert is_known(client(seen, busy_one).compute)
    assert seen.gaps == ()
    assert seen.devices[0].state is (DeviceState.FAILING if expected is Why.DRIVER_ERROR else DeviceState.OK)
    assert seen.devices[1].state is DeviceState.OK


def test_work_on_engines_that_only_the_newer_call_reports_is_compute(
    nvml: NvmlApart, driver: StandIn, idle: int
) -> None:
    """Somebody who only decodes pictures is not idle; and if that call fails, nobody knows."""
    driver.fault("0 jpeg_percent 35")
    nvml.read()
    assert client(next_reading(nvml), idle).compute == 35
    for error in ("UNKNOWN", "NOT_SUPPORTED"):
        driver.fault(f"0 error {error} nvmlDeviceGetProcessesUtilizationInfo")
        assert why(client(next_reading(nvml), idle).compute) is Why.DRIVER_ERROR


def test_who_is_born_while_the_driver_is_asked_makes_nobody_unknown(
    nvml: NvmlApart, driver: StandIn, busy_one: int
) -> None:
    """When there are more rows than there were a moment before, they are asked for once more."""
    driver.fault("all born")
    nvml.read()
    assert settled(nvml, busy_one, lambda compute: compute == BUSY)


def test_a_driver_that_never_had_the_newer_call_does_without(nvml: NvmlApart, driver: StandIn, idle: int) -> None:
    """There are no such engines then; one that answers "not supported" later has stopped to answer."""
    driver.fault("0 error NOT_SUPPORTED nvmlDeviceGetProcessesUtilizationInfo")
    nvml.read()
    assert client(next_reading(nvml), idle).compute == 0


def test_a_window_that_was_missed_is_a_gap(nvml: NvmlApart, busy_one: int) -> None:
    """The driver keeps ten seconds: after eleven nobody knows what happened before; then all is well again."""
    nvml.read()
    settled(nvml, busy_one, lambda compute: compute == BUSY)
    nvml.ahead += 11
    assert why(client(nvml.read(), busy_one).compute) is Why.NOT_READ
    assert settled(nvml, busy_one, is_known).compute in {0, BUSY}


def test_a_clock_that_is_set_back_does_not_make_the_busy_idle(nvml: NvmlApart, driver: StandIn, busy_one: int) -> None:
    """The driver's stamps are then older than the newest one seen: asked for newer ones it would find none for long."""
    nvml.read()
    settled(nvml, busy_one, lambda compute: compute == BUSY)
    driver.fault("global clock_offset_us -3600000000")
    nvml.wall_ahead = -3600
    assert why(client(next_reading(nvml), busy_one).compute) is Why.NOT_READ
    assert settled(nvml, busy_one, lambda compute: compute == BUSY)


def test_two_readings_in_a_row_say_the_same(nvml: NvmlApart, busy_one: int) -> None:
    """Between two samples of the driver there is nothing new, which does not mean idle."""
    nvml.read()
    settled(nvml, busy_one, lambda compute: compute == BUSY)
    assert [client(nvml.read(), busy_one).compute for _ in range(3)] == [BUSY] * 3


# ---- rows that are not what they seem ----


def test_ghosts_change_nothing(nvml: NvmlApart, driver: StandIn, idle: int, busy_one: int) -> None:
    """Rows without a pid, of processes that are not listed, and older than asked for: the idle one stays at 0."""
    driver.fault("all ghost_samples")
    nvml.read()

    def look() -> bool:  # until there were new samples, and so new ghosts
        seen = next_reading(nvml)
        assert {client.pid for client in seen.clients} == {idle, busy_one}
        assert client(seen, idle).compute == 0
        return client(seen, busy_one).compute == BUSY

    until(look)


@pytest.mark.parametrize("fault", ["over_100", "zero_stamps"])
def test_an_implausible_sample_is_unknown(nvml: NvmlApart, driver: StandIn, busy_one: int, fault: str) -> None:
    """More than the whole device, or at no time: that is neither busy nor idle."""
    driver.fault(f"1 {fault}")
    nvml.read()
    assert settled(nvml, busy_one, lambda compute: why(compute) is Why.IMPLAUSIBLE)
    assert is_known(client(next_reading(nvml), busy_one).memory)


def test_a_list_that_contradicts_itself_is_not_used(nvml: NvmlApart, driver: StandIn, idle: int, busy_one: int) -> None:
    """No row of it counts; who was there before stays, with nothing known; and a gap says that some may be missing."""
    nvml.read()
    driver.fault("0 bad_list")
    seen = next_reading(nvml)
    (gap,) = seen.gaps
    assert gap.source == "device 0"
    assert gap.why.startswith("Simulated H100 80GB: the driver's list of processes is not used")
    assert "update the NVIDIA driver" in gap.why
    assert {client.pid for client in seen.clients} == {idle, busy_one}
    assert (why(client(seen, idle).memory), why(client(seen, idle).compute)) == (Why.IMPLAUSIBLE, Why.IMPLAUSIBLE)
    assert seen.devices[0].state is DeviceState.FAILING
    assert seen.devices[0].memory_used == 2 * GIB
    assert client(seen, busy_one).memory == 4 * GIB
    driver.fault()
    assert client(next_reading(nvml), idle).memory == 2 * GIB


@pytest.mark.parametrize("kind", ["Compute", "Graphics", "MPSCompute"])
def test_a_list_that_fails_makes_those_unknown_who_were_in_it(
    nvml: NvmlApart, driver: StandIn, idle: int, kind: str
) -> None:
    """Any of the three lists may hold the one who computes. Who is on other devices alone is not concerned."""
    nvml.read()
    driver.fault(f"0 error UNKNOWN nvmlDeviceGet{kind}RunningProcesses_v?")
    seen = next_reading(nvml)
    assert [gap.source for gap in seen.gaps] == ["device 0"]
    assert "nvidia-smi" in seen.gaps[0].why
    assert why(client(seen, idle).compute) is Why.DRIVER_ERROR
    assert [device.state for device in seen.devices] == [DeviceState.FAILING, DeviceState.OK]


def test_a_list_that_fails_while_memory_comes_or_goes_may_hide_anybody(
    nvml: NvmlApart, driver: StandIn, idle: int, programs: list[GpuProgram]
) -> None:
    """Somebody may have come, or gone and another come: then nobody is known not to be there."""
    nvml.read()
    driver.fault("0 error NO_PERMISSION nvmlDeviceGetComputeRunningProcesses*")
    assert [gap.source for gap in next_reading(nvml).gaps] == ["device 0"]
    programs[1].run("gpu.hold('1 GiB')")
    assert [gap.source for gap in next_reading(nvml).gaps] == ["devices"]


@pytest.mark.parametrize(("error", "source"), [("NO_PERMISSION", "device 0"), ("UNKNOWN", "devices")])
def test_a_device_that_answers_nothing_at_all(
    nvml: NvmlApart, driver: StandIn, idle: int, error: str, source: str
) -> None:
    """One that this user may not ask for anything is none on which a process of this user can be."""
    nvml.read()
    driver.fault(f"0 error {error} *")
    assert [gap.source for gap in next_reading(nvml).gaps] == [source]


def test_a_device_without_graphics_or_shared_processes_is_fine(nvml: NvmlApart, driver: StandIn, idle: int) -> None:
    """Not supported there means that there are none, unless such a list was there before."""
    driver.fault(*(f"0 error NOT_SUPPORTED nvmlDeviceGet{kind}RunningProcesses*" for kind in ("Graphics", "MPS*")))
    seen = nvml.read()
    assert (seen.gaps, client(seen, idle).memory) == ((), 2 * GIB)
    driver.fault("1 error NOT_SUPPORTED nvmlDeviceGetGraphicsRunningProcesses*")
    (gap,) = next_reading(nvml).gaps
    assert "a question that it has answered before" in gap.why


def test_a_device_without_a_list_of_processes_is_not_judged(nvml: NvmlApart, driver: StandIn, idle: int) -> None:
    """Somebody may compute there; its memory is shown."""
    driver.fault("0 error NOT_SUPPORTED nvmlDeviceGetComputeRunningProcesses*")
    seen = nvml.read()
    (gap,) = seen.gaps
    assert (gap.source, seen.devices[0].memory_used) == ("devices", 2 * GIB)
    assert "nothing can be judged" in gap.why


def test_one_process_in_two_lists_has_its_memory_once(nvml: NvmlApart, driver: StandIn, idle: int) -> None:
    """A context for compute and graphics is listed twice."""
    declare_for(idle, Declaration({0: 3 * GIB}, kinds="C+G"), driver.folder)
    assert client(nvml.read(), idle).memory == 3 * GIB


def test_graphics_alone_is_a_client(nvml: NvmlApart, driver: StandIn, idle: int) -> None:
    """It holds memory like any other."""
    declare_for(idle, Declaration({0: GIB}, kinds="G"), driver.folder)
    assert client(nvml.read(), idle).memory == GIB


@pytest.mark.parametrize("kinds", ["M", "M+C"])
def test_the_multi_process_service_is_not_measured(nvml: NvmlApart, driver: StandIn, idle: int, kinds: str) -> None:
    """No driver promises samples for its clients: their absence proves nothing, a sample that is there counts."""
    declare_for(idle, Declaration({0: GIB}, kinds=kinds), driver.folder)
    nvml.read()
    assert why(client(next_reading(nvml), idle).compute) is Why.NOT_SUPPORTED
    declare_for(idle, Declaration({0: GIB}, (busy(0),), kinds=kinds), driver.folder)
    assert settled(nvml, idle, is_known).compute == pytest.approx(BUSY)


def test_memory_that_the_driver_does_not_know_is_unknown(nvml: NvmlApart, driver: StandIn, idle: int) -> None:
    """As under WSL."""
    driver.fault("0 memory_not_available")
    assert why(client(nvml.read(), idle).memory) is Why.NOT_AVAILABLE


def test_a_device_that_hides_its_processes_still_shows_its_memory(nvml: NvmlApart, driver: StandIn, idle: int) -> None:
    """What is used and belongs to nobody can then be shown as such."""
    driver.fault("0 hide_procs")
    seen = nvml.read()
    assert idle not in {client.pid for client in seen.clients}
    assert seen.devices[0].memory_used == 2 * GIB


# ---- containers ----


def test_in_a_container_memory_zero_is_unknown(open_nvml: Callable[..., NvmlApart], driver: StandIn, idle: int) -> None:
    """Some drivers look it up under the wrong pid; on a host 0 is 0."""
    driver.fault("0 zero_memory")
    assert client(open_nvml(namespaced=False).read(), idle).memory == 0
    nvml = open_nvml(namespaced=True)
    nvml.read()
    assert why(client(nvml.read(), idle).memory) is Why.PIDS_HIDDEN


def test_in_a_container_samples_of_unlisted_processes_make_absence_unknown(
    open_nvml: Callable[..., NvmlApart], driver: StandIn, idle: int
) -> None:
    """Some drivers list this container's pids and measure the host's: whose work it is cannot be told."""
    driver.fault("0 ghost_samples")
    nvml = open_nvml(namespaced=True)
    nvml.read()
    assert settled(nvml, idle, lambda compute: why(compute) is Why.PIDS_HIDDEN)
    driver.fault()
    assert client(next_reading(nvml), idle).compute == 0


def test_in_a_container_the_last_samples_of_a_process_that_ended_are_no_riddle(
    open_nvml: Callable[..., NvmlApart], driver: StandIn, programs: list[GpuProgram], idle: int
) -> None:
    """The ring keeps them for a while; whoever was listed a moment ago is known."""
    ending = programs[1]
    declare_for(ending.pid, Declaration({0: GIB}, (busy(0),)), driver.folder)
    nvml = open_nvml(namespaced=True)
    nvml.read()
    settled(nvml, ending.pid, lambda compute: compute == BUSY)
    driver.fault(f"0 ghost_samples {ending.pid}")
    ending.bury()
    a_moment_later = now_us() + 300_000
    until(lambda: now_us() > a_moment_later)  # the driver has taken a new sample
    seen = next_reading(nvml)
    assert ending.pid not in {client.pid for client in seen.clients}
    assert client(seen, idle).compute == 0


def test_in_a_container_pids_of_the_host_are_nobody(
    open_nvml: Callable[..., NvmlApart], driver: StandIn, idle: int
) -> None:
    """A list that keeps naming processes which do not exist here is the host's: none of its pids means what it says."""
    declare_for(idle, Declaration({0: GIB}, reported_pid=4_000_000), driver.folder)
    nvml = open_nvml(namespaced=True)
    assert "next reading" in nvml.read().gaps[0].why  # it might have ended just now
    seen = next_reading(nvml)
    gap = seen.gaps[0]
    assert gap.source == "devices"
    assert "cannot see its own GPU processes" in gap.why
    assert all(client.device == SECOND or not is_known(client.memory) for client in seen.clients)


# ---- MIG, old drivers ----


def test_with_mig_compute_is_not_measured(nvml: NvmlApart, driver: StandIn, idle: int, busy_one: int) -> None:
    """Of no process, and not of the device either; memory and processes are still there."""
    driver.fault("0 mig none")
    nvml.read()
    seen = next_reading(nvml)
    assert [device.mig for device in seen.devices] == [True, False]
    assert (why(seen.devices[0].compute), why(seen.devices[0].overall)) == (Why.NOT_SUPPORTED, Why.NOT_SUPPORTED)
    assert why(client(seen, idle).compute) is Why.NOT_SUPPORTED
    assert client(seen, idle).memory == 2 * GIB
    assert is_known(client(seen, busy_one).compute)


def test_a_driver_with_only_the_older_calls_is_read_in_full(
    open_nvml: Callable[..., NvmlApart], driver: StandIn, idle: int, busy_one: int
) -> None:
    """`pynvml` does not fall back by itself. Without the newer memory call, used includes what the driver keeps."""
    nvml = open_nvml(StandIn(driver.folder, switches=ONLY_V2).environment())
    seen = nvml.read()
    assert seen.gaps == ()
    assert client(seen, idle).memory == 2 * GIB
    assert (seen.devices[0].memory_used, seen.devices[0].memory_reserved) == (2 * GIB + GIB // 2, 0)
    assert settled(nvml, busy_one, lambda compute: compute == BUSY)
    assert client(next_reading(nvml), idle).compute == 0


def test_a_pynvml_without_the_older_temperature_call_uses_the_newer(open_nvml: Callable[..., NvmlApart]) -> None:
    """It is announced to go."""
    nvml = open_nvml(prelude="import pynvml; del pynvml.nvmlDeviceGetTemperature")
    assert nvml.read().devices[0].temperature == 30


# ---- one device is lost, the others are not ----


def test_a_lost_device_harms_only_itself(nvml: NvmlApart, driver: StandIn, idle: int, busy_one: int) -> None:
    """It and those on it are shown with nothing known; the other device is read as before, and there is no gap."""
    nvml.read()
    settled(nvml, busy_one, lambda compute: compute == BUSY)
    driver.fault("0 lost")
    seen = next_reading(nvml)
    assert [device.state for device in seen.devices] == [DeviceState.LOST, DeviceState.OK]
    lost = seen.devices[0]
    assert (lost.uuid, lost.name) == (FIRST, "Simulated H100 80GB")
    for reading in (lost.memory_total, lost.memory_used, lost.compute, lost.temperature, lost.power):
        assert why(reading) is Why.DEVICE_LOST
    assert (why(client(seen, idle).memory), why(client(seen, idle).compute)) == (Why.DEVICE_LOST, Why.DEVICE_LOST)
    assert client(seen, busy_one).memory == 4 * GIB
    assert is_known(client(seen, busy_one).compute)
    assert seen.gaps == ()


def test_a_lost_device_that_comes_back_is_found(nvml: NvmlApart, driver: StandIn, idle: int, busy_one: int) -> None:
    """The driver is opened anew now and then, without a gap for the device that is well."""
    nvml.read()
    driver.fault("0 lost")
    driver.count_calls()
    computes = []
    for _ in range(30):
        seen = next_reading(nvml)
        computes.append(client(seen, busy_one).compute)
        assert [device.state for device in seen.devices] == [DeviceState.LOST, DeviceState.OK]
        assert [device.uuid for device in seen.devices] == [FIRST, SECOND]
    assert all(is_known(compute) for compute in computes)
    assert driver.calls()["nvmlInitWithFlags"] == 1  # 150 s: after 60 s; then after 120 s more
    driver.fault()
    nvml.ahead += 300
    nvml.read()
    assert next_reading(nvml).devices[0].state is DeviceState.OK
    assert client(next_reading(nvml), idle).memory == 2 * GIB


def test_a_device_lost_from_the_start_is_told_and_makes_nothing_else_unknown(
    nvml: NvmlApart, driver: StandIn, busy_one: int
) -> None:
    """It never told its UUID, so there is no row for it; the gap is its own."""
    driver.fault("0 lost")
    seen = nvml.read()
    assert [device.uuid for device in seen.devices] == [SECOND]
    assert [gap.source for gap in seen.gaps] == ["device 0"]
    assert "GPU 0 does not answer (GPU is lost)" in seen.gaps[0].why
    assert client(seen, busy_one).memory == 4 * GIB


def test_a_device_that_never_answered_for_other_reasons_makes_owners_unknown(
    nvml: NvmlApart, driver: StandIn, busy_one: int
) -> None:
    """Somebody may compute there unseen."""
    driver.fault("0 error UNKNOWN nvmlDeviceGetUUID")
    assert [gap.source for gap in nvml.read().gaps] == ["devices"]


@pytest.mark.parametrize(
    ("function", "field"),
    [
        ("nvmlDeviceGetTemperature", "temperature"),
        ("nvmlDeviceGetPowerUsage", "power"),
        ("nvmlDeviceGetUtilizationRates", "compute"),
        ("nvmlDeviceGetMemoryInfo*", "memory_used"),
    ],
)
def test_a_figure_that_fails_is_unknown_alone(
    nvml: NvmlApart, driver: StandIn, idle: int, function: str, field: str
) -> None:
    """Each question stands for itself."""
    driver.fault(f"0 error UNKNOWN {function}")
    seen = nvml.read()
    assert why(getattr(seen.devices[0], field)) is Why.DRIVER_ERROR
    others = {"temperature", "power", "compute", "memory_used"} - {field}
    assert all(is_known(getattr(seen.devices[0], other)) for other in others)
    assert client(seen, idle).memory == 2 * GIB
    assert seen.gaps == ()


# ---- no driver at all ----


def gap_of(seen: DevicesSeen) -> Gap:
    """The one gap of a reading that saw nothing else."""
    assert (seen.devices, seen.clients) == ((), ())
    (gap,) = seen.gaps
    assert gap.source == "devices"
    return gap


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("DRIVER_NOT_LOADED", "The NVIDIA driver is not loaded"),
        ("LIB_RM_VERSION_MISMATCH", "different versions, as after an update: reboot"),
        ("NO_PERMISSION", "let the user read and write /dev/nvidiactl"),
        ("GPU_NOT_FOUND", "finds no GPU"),
        ("UNKNOWN", r"does not answer (Unknown Error): see `nvidia-smi`"),
    ],
)
def test_a_driver_that_does_not_start_is_one_sentence(
    nvml: NvmlApart, driver: StandIn, idle: int, error: str, words: str
) -> None:
    """It is tried again more and more slowly, answers from memory in between, and recovers by itself."""
    driver.count_calls()
    driver.fault(f"global init_error {error}")
    assert words in gap_of(nvml.read()).why
    for _ in range(5):
        assert words in gap_of(nvml.read()).why
    assert driver.calls()["nvmlInitWithFlags"] == 1
    for passed, tries in [(5, 2), (5, 2), (5, 3), (15, 3), (5, 4)]:
        nvml.ahead += passed + 0.1
        gap_of(nvml.read())
        assert driver.calls()["nvmlInitWithFlags"] == tries
    driver.fault()
    nvml.ahead += 300
    assert client(nvml.read(), idle).memory == 2 * GIB


def test_after_good_readings_the_next_trouble_is_tried_again_soon(nvml: NvmlApart, driver: StandIn, idle: int) -> None:
    """Old troubles do not make a new one last longer."""
    driver.fault("global init_error UNKNOWN")
    for _ in range(5):
        nvml.ahead += 300
        gap_of(nvml.read())
    driver.fault()
    nvml.ahead += 300
    nvml.read()
    driver.fault("all error UNINITIALIZED")
    gap_of(next_reading(nvml))
    driver.fault()
    nvml.ahead += 0.1
    assert client(next_reading(nvml), idle).memory == 2 * GIB


@pytest.mark.parametrize("error", ["UNINITIALIZED", "LIB_RM_VERSION_MISMATCH", "DRIVER_NOT_LOADED"])
def test_a_driver_that_goes_away_comes_back(nvml: NvmlApart, driver: StandIn, busy_one: int, error: str) -> None:
    """Whether another extension closed it or an administrator replaced it: a gap, then readings again."""
    nvml.read()
    settled(nvml, busy_one, lambda compute: compute == BUSY)
    driver.fault(f"1 error {error} nvmlDeviceGetMemoryInfo*")
    assert len(gap_of(next_reading(nvml)).why) > 40
    driver.fault()
    nvml.ahead += 1
    assert next_reading(nvml).gaps == ()
    assert settled(nvml, busy_one, lambda compute: compute == BUSY)


def test_no_library(open_nvml: Callable[..., NvmlApart], driver: StandIn) -> None:
    """A machine without a driver: a normal state."""
    environment = {**driver.environment(), "LD_LIBRARY_PATH": ""}
    nvml = open_nvml(environment)
    assert "libnvidia-ml.so.1 is not found" in gap_of(nvml.read()).why
    assert gap_of(nvml.read()) == gap_of(next_reading(nvml))


def test_no_package(open_nvml: Callable[..., NvmlApart]) -> None:
    """nvidia-ml-py was uninstalled."""
    nvml = open_nvml(prelude="import sys; sys.modules['pynvml'] = None")
    assert gap_of(nvml.read()).why == "The Python package nvidia-ml-py is missing: pip install nvidia-ml-py"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("class NVMLError(Exception): pass\ndef nvmlInit(): pass\n", "is not the one of nvidia-ml-py"),
        ("from pynvml.nvml import *\n", "cannot be imported"),
        ("raise FutureWarning('deprecated')\n", "cannot be imported (deprecated)"),
    ],
)
def test_another_module_of_the_same_name(
    open_nvml: Callable[..., NvmlApart], driver: StandIn, tmp_path: Path, content: str, words: str
) -> None:
    """An old package shadows NVIDIA's module: the sentence says how to get rid of it, and where it lies if it can."""
    package = tmp_path / "shadow" / "pynvml"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(content, encoding="utf-8")
    path = os.pathsep.join([str(package.parent), os.environ.get("PYTHONPATH", "")])
    gap = gap_of(open_nvml({**driver.environment(), "PYTHONPATH": path}).read())
    assert words in gap.why
    assert "pip uninstall -y pynvml" in gap.why
    assert ("cannot" in words) or str(package) in gap.why


def test_other_systems_are_told_that_nothing_is_measured() -> None:
    """It loads everywhere and measures on Linux."""
    devices = NvmlDevices(platform="darwin")
    assert gap_of(devices.read()).why == "jupyter-gpu-guard measures on Linux only."
    devices.close()


# ---- one connection ----


def test_one_connection_serves_all_readings(nvml: NvmlApart, driver: StandIn) -> None:
    """What cannot change is asked once."""
    driver.count_calls()
    for _ in range(20):
        next_reading(nvml)
    calls = driver.calls()
    for function in ("nvmlInitWithFlags", "nvmlDeviceGetCount_v2"):
        assert calls[function] == 1
    for function in ("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetName"):
        assert calls[function] == 2
    assert calls["nvmlShutdown"] == 0
    assert calls["nvmlDeviceGetComputeRunningProcesses_v3"] == 40


def test_closing_lets_go_of_the_driver(nvml: NvmlApart, driver: StandIn) -> None:
    """Once, however often it is closed; a reading after that opens nothing."""
    driver.count_calls()
    nvml.read()
    nvml.close()
    nvml.close()
    assert "stopping" in gap_of(nvml.read()).why
    assert driver.calls()["nvmlShutdown"] == driver.calls()["nvmlInitWithFlags"] == 1


def test_an_unknown_always_has_a_reason(nvml: NvmlApart, driver: StandIn, idle: int) -> None:
    """Whatever call fails in whatever way, a reading is a number or an Unknown, and nothing is raised."""
    nvml.read()
    for error in ("UNKNOWN", "INSUFFICIENT_SIZE", "INVALID_ARGUMENT", "ARGUMENT_VERSION_MISMATCH", "NOT_FOUND"):
        driver.fault(f"0 error {error} nvmlDeviceGet*")
        seen = next_reading(nvml)
        compute = client(seen, idle).compute
        assert isinstance(compute, Unknown), error
        assert client(seen, idle).memory != 0
