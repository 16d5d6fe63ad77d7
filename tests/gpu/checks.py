"""The checks: each says in one word or number what the driver does, and in a sentence what was seen."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

import pynvml

from jupyter_gpu_guard.core.model import Unknown, is_known
from jupyter_gpu_guard.sources.nvml import NvmlDevices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .workers import Worker

MIB, GIB = 2**20, 2**30
NOBODY = 65534
NOT_FOUND = 6
RING_AT_MOST = 25.0  # seconds for which we wait until the ring has forgotten
_GPM_BUSY = 2  # NVML_GPM_METRIC_SM_UTIL


@dataclass(frozen=True)
class Seen:
    """What one check found. `what` is compared between drivers: a number with a tolerance of a third, or a word."""

    what: float | str
    detail: str = ""

    def differs_from(self, other: Seen) -> bool:
        """Whether two drivers do not do the same."""
        if isinstance(self.what, str) or isinstance(other.what, str):
            return self.what != other.what
        return abs(self.what - other.what) > max(self.what, other.what) / 3


@dataclass
class Scene:
    """One device and one worker on it.

    `start` starts another worker, `start_as_nobody` one of another user, `start_torch` one that uses PyTorch.
    """

    uuid: str
    start: Callable[[], Worker]
    start_as_nobody: Callable[[], Worker] | None
    worker: Worker
    start_torch: Callable[[], Worker] | None = None
    handle: Any = None
    notes: list[str] = field(default_factory=list)

    def open(self) -> None:
        """Connect this process with the driver."""
        pynvml.nvmlInit()
        self.handle = pynvml.nvmlDeviceGetHandleByUUID(self.uuid)


def rows(scene: Scene, since: int) -> tuple[str, list[Any]]:
    """The driver's samples newer than `since`, and how the call ended: a word for empty, or "rows"."""
    try:
        found = list(pynvml.nvmlDeviceGetProcessUtilization(scene.handle, since))
    except pynvml.NVMLError as error:
        return "SUCCESS without rows" if error.value == 0 else type(error).__name__, []
    return "rows" if found else "an empty list", found


def newest(scene: Scene) -> int:
    """The newest stamp that the driver has; 0: none."""
    return max((row.timeStamp for row in rows(scene, 0)[1]), default=0)


def listed(scene: Scene) -> dict[int, int | None]:
    """Memory by pid, as the driver lists it for computing processes."""
    return {row.pid: row.usedGpuMemory for row in pynvml.nvmlDeviceGetComputeRunningProcesses_v3(scene.handle)}


def used(scene: Scene) -> int:
    """Bytes that are used of the device."""
    return int(pynvml.nvmlDeviceGetMemoryInfo(scene.handle).used)


def until(look: Callable[[], bool], seconds: float, pause: float = 0.05) -> float | None:
    """Seconds until `look` was true; None: it never was."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        if look():
            return time.monotonic() - began
        time.sleep(pause)
    return None


# ---- who, and how much ----


def memory_of_a_process(scene: Scene) -> Seen:
    """A process is listed under its pid here, with what it holds and a context of its own."""
    scene.worker.hold(0)
    context = listed(scene).get(scene.worker.pid)
    scene.worker.hold(1 * GIB)
    memory = listed(scene).get(scene.worker.pid)
    if context is None or memory is None:
        return Seen("no figure", f"listed are {sorted(listed(scene))}, the worker is {scene.worker.pid}")
    return Seen("exact" if memory - context == GIB else "not exact", f"{memory - context} bytes more for 1 GiB")


def context_alone(scene: Scene) -> Seen:
    """A context without any memory of its own is listed."""
    scene.worker.hold(0)
    context = listed(scene).get(scene.worker.pid)
    return Seen("listed" if context is not None else "not listed", f"{(context or 0) / MIB:.0f} MiB")


def whoever_asks(scene: Scene) -> Seen:
    """Whoever only asks the driver is on no list."""
    return Seen("listed" if os.getpid() in listed(scene) else "not listed")


def foreign_process(scene: Scene) -> Seen:
    """Processes of other users are listed with their memory."""
    if scene.start_as_nobody is None:
        return Seen("not checked", "it takes root to start a process of another user")
    worker = scene.start_as_nobody()
    try:
        worker.hold(GIB)
        memory = listed(scene).get(worker.pid, -1)
        return Seen("not listed" if memory == -1 else "without a figure" if memory is None else "listed", f"{memory}")
    finally:
        worker.bury()


# ---- the ring of samples ----


def ring_length(scene: Scene) -> Seen:
    """For how many seconds the driver keeps the samples of a process."""
    scene.worker.work(1, 0)
    if until(lambda: any(row.pid == scene.worker.pid for row in rows(scene, 0)[1]), 15) is None:
        scene.worker.rest()
        return Seen("no samples", "a process that computes all the time is in no sample")
    scene.worker.rest()
    lasted = until(lambda: all(row.pid != scene.worker.pid for row in rows(scene, 0)[1]), RING_AT_MOST)
    return Seen("longer" if lasted is None else lasted, f"gone after {lasted and round(lasted, 1)} s")


def clock_of_stamps(scene: Scene) -> Seen:
    """From when the stamps of samples are counted."""
    scene.worker.work(1, 0)
    until(lambda: newest(scene) > 0, 15)
    stamp = newest(scene) / 1e6
    scene.worker.rest()
    clocks = {"1970": time.time(), "boot": time.clock_gettime(time.CLOCK_BOOTTIME), "monotonic": time.monotonic()}
    since, now = min(clocks.items(), key=lambda clock: abs(clock[1] - stamp))
    return Seen(since if abs(now - stamp) < RING_AT_MOST else "another", f"the newest is {now - stamp:.2f} s old")


def averaging(scene: Scene) -> Seen:
    """What a process that computes half of the time has after five seconds: percent."""
    scene.worker.work(0.5, 0.5)
    time.sleep(3)
    since = newest(scene)
    time.sleep(5)
    found = [row.smUtil for row in rows(scene, since)[1] if row.pid == scene.worker.pid]
    scene.worker.rest()
    return Seen(float(max(found)) if found else "no row", f"{len(found)} rows: {found}")


def one_row_for_each(scene: Scene) -> Seen:
    """How many rows a process has in one answer over five seconds."""
    scene.worker.work(1, 0)
    time.sleep(2)
    since = newest(scene)
    time.sleep(5)
    word, found = rows(scene, since)
    scene.worker.rest()
    mine = [row for row in found if row.pid == scene.worker.pid]
    old = [row for row in found if row.timeStamp <= since]
    strange = [row.pid for row in found if row.pid not in listed(scene)]
    return Seen(float(len(mine)), f"{word}; {len(old)} rows not newer than asked for; pids in no list: {strange}")


def little_work(scene: Scene) -> Seen:
    """Whether 50 ms of work in every 5 s are seen."""
    scene.worker.work(0.05, 4.95)
    time.sleep(1)
    since, seen = newest(scene), 0
    for _ in range(4):
        time.sleep(5)
        found = rows(scene, since)[1]
        seen += any(row.pid == scene.worker.pid and row.smUtil > 0 for row in found)
        since = max([since, *(row.timeStamp for row in found)])
    scene.worker.rest()
    return Seen("always" if seen == 4 else "never" if seen == 0 else "sometimes", f"in {seen} of 4 answers")


def empty_answer(scene: Scene) -> Seen:
    """What the driver answers when nobody has computed since."""
    scene.worker.work(1, 0)
    time.sleep(2)
    scene.worker.rest()
    time.sleep(1)
    since = newest(scene)
    time.sleep(3)
    first = rows(scene, since)
    until(lambda: not rows(scene, 0)[1], RING_AT_MOST)
    return Seen(first[0], f"with {len(first[1])} rows; when the ring has forgotten all: {rows(scene, since)[0]}")


def device_samples_when_idle(scene: Scene) -> Seen:
    """What the samples of the whole device are when nobody computes."""
    scene.worker.rest()
    time.sleep(2)
    try:
        _, found = pynvml.nvmlDeviceGetSamples(scene.handle, pynvml.NVML_GPU_UTILIZATION_SAMPLES, 0)
    except pynvml.NVMLError as error:
        return Seen(type(error).__name__)
    spread = (max(row.timeStamp for row in found) - min(row.timeStamp for row in found)) / 1e6 if found else 0
    return Seen("rows" if found else "an empty list", f"{len(found)} rows over {spread:.1f} s")


# ---- rights ----


class RefusedError(RuntimeError):
    """The driver, or the system, has refused somebody."""


def as_nobody(scene: Scene, ask: Callable[[Any], Any]) -> Any:
    """What `ask` finds with a device's handle as an ordinary user, in a process of its own. Before `Scene.open`.

    Who is no root, or asks the stand-in, asks as themselves. Raises RefusedError.
    """
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        found = {}
        try:
            os.close(out)
            if scene.start_as_nobody is not None:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            pynvml.nvmlInit()
            found["answer"] = ask(pynvml.nvmlDeviceGetHandleByUUID(scene.uuid))
        except Exception as error:  # noqa: BLE001 - whatever happens is the finding
            found["error"] = type(error).__name__
        os.write(into, json.dumps(found).encode())
        os._exit(0)
    os.close(into)
    with os.fdopen(out, "rb") as said:
        found = json.loads(said.read() or b"{}")
    os.waitpid(child, 0)
    if "answer" not in found:
        raise RefusedError(found.get("error", "the process that asked has ended"))
    return found["answer"]


def samples_for_nobody(scene: Scene) -> Seen:
    """An ordinary user reads the samples of other users' processes."""
    scene.worker.work(1, 0)
    time.sleep(3)
    try:
        pids = as_nobody(scene, lambda handle: [row.pid for row in pynvml.nvmlDeviceGetProcessUtilization(handle, 0)])
    except RefusedError as refusal:
        return Seen(str(refusal))
    finally:
        scene.worker.rest()
    return Seen("yes" if scene.worker.pid in pids else "no", f"{pids}")


def list_for_nobody(scene: Scene) -> Seen:
    """An ordinary user reads the list with the memory of other users' processes."""
    scene.worker.hold(GIB)

    def ask(handle: Any) -> list[list[int | None]]:
        return [[row.pid, row.usedGpuMemory] for row in pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)]

    try:
        memory = {pid: amount for pid, amount in as_nobody(scene, ask)}  # noqa: C416 - pairs came as lists
    except RefusedError as refusal:
        return Seen(str(refusal))
    known = memory.get(scene.worker.pid)
    return Seen("yes" if known else "without a figure" if scene.worker.pid in memory else "no", f"{memory}")


def counters_for_nobody(scene: Scene) -> Seen:
    """An ordinary user reads the hardware's counters (GPM)."""
    try:
        return Seen(*as_nobody(scene, _read_counters))
    except RefusedError as refusal:
        return Seen(str(refusal))


def counters(scene: Scene) -> Seen:
    """Whether the hardware's counters (GPM) can be read."""
    try:
        return Seen(*_read_counters(scene.handle))
    except pynvml.NVMLError as error:
        return Seen(type(error).__name__)


def _read_counters(handle: Any) -> tuple[str, str]:
    try:
        if not pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            return "not supported", ""
        samples = [pynvml.nvmlGpmSampleAlloc() for _ in range(2)]
        for sample in samples:
            pynvml.nvmlGpmSampleGet(handle, sample)
            time.sleep(0.3)
        wanted = pynvml.c_nvmlGpmMetricsGet_t()
        wanted.version, wanted.numMetrics = pynvml.NVML_GPM_METRICS_GET_VERSION, 1
        wanted.sample1, wanted.sample2 = samples
        wanted.metrics[0].metricId = _GPM_BUSY
        pynvml.nvmlGpmMetricsGet(wanted)
        return "read", f"{wanted.metrics[0].value:.1f} % with status {wanted.metrics[0].nvmlReturn}"
    except pynvml.NVMLError as error:
        return type(error).__name__, ""


def accounting(scene: Scene) -> Seen:
    """Whether an administrator has switched accounting on."""
    try:
        mode = pynvml.nvmlDeviceGetAccountingMode(scene.handle)
    except pynvml.NVMLError as error:
        return Seen(type(error).__name__)
    if not mode:
        return Seen("off")
    try:
        stats = pynvml.nvmlDeviceGetAccountingStats_v2(scene.handle, scene.worker.pid)
    except pynvml.NVMLError as error:
        return Seen("on", f"the second form: {type(error).__name__}")
    return Seen("on", f"{stats.sampleCount} samples with a sum of {stats.sumGpuUtil}")


# ---- time ----


def release_after_kill(scene: Scene) -> Seen:
    """How long after SIGKILL the memory of a large process is free."""
    worker = scene.start()
    try:
        free = int(pynvml.nvmlDeviceGetMemoryInfo(scene.handle).free)
        before = used(scene)
        worker.hold(free * 3 // 4)
        worker.kill()
        unlisted = until(lambda: worker.pid not in listed(scene), 60, 0.02)
        freed = until(lambda: used(scene) <= before + GIB, 60, 0.02)
    finally:
        worker.bury()
    if unlisted is None or freed is None:
        return Seen("not within a minute")
    return Seen("within 2 s" if unlisted + freed < 2 else "later", f"{unlisted:.2f} s, {free * 3 // 4 / GIB:.0f} GiB")


def time_of_a_call(scene: Scene) -> Seen:
    """How long the driver takes to answer."""
    calls: dict[str, Callable[[], object]] = {
        "list": lambda: listed(scene),
        "samples": lambda: rows(scene, 0),
        "memory": lambda: used(scene),
        "utilisation": lambda: pynvml.nvmlDeviceGetUtilizationRates(scene.handle),
        "power": lambda: pynvml.nvmlDeviceGetPowerUsage(scene.handle),
    }
    said, slowest = [], 0.0
    for name, call in calls.items():
        took = []
        for _ in range(20):
            began = time.perf_counter()
            call()
            took.append(1000 * (time.perf_counter() - began))
        slowest = max(slowest, *took)
        said.append(f"{name} {median(took):.2f} ms (at most {max(took):.1f})")
    return Seen("below 1 s" if slowest < 1000 else "above 1 s", ", ".join(said))


# ---- the whole ----


def our_reading(scene: Scene) -> Seen:
    """What `NvmlDevices` makes of it: idle is 0, busy is not, and the memory is right."""
    devices, found = NvmlDevices(), []
    try:
        scene.worker.hold(GIB)
        for is_busy in (False, True, False):
            if is_busy:
                scene.worker.work(1, 0)
            else:
                scene.worker.rest()
            time.sleep(1.5)
            devices.read()
            time.sleep(5)
            found.append(_own_row(devices, scene))
    finally:
        devices.close()
    said = " | ".join(f"{memory} bytes, {compute} %" for memory, compute in found)
    if any(isinstance(reading, Unknown) for row in found for reading in row):
        return Seen("not known", said)
    (first, before), (_, during), (_, after) = found
    right = is_known(first) and first >= GIB and before == 0 and is_known(during) and during > 50 and after == 0
    return Seen("right" if right else "wrong", said)


def _own_row(devices: NvmlDevices, scene: Scene) -> tuple[Any, Any]:
    seen = devices.read()
    for client in seen.clients:
        if client.pid == scene.worker.pid and client.device == scene.uuid:
            return client.memory, client.compute
    return Unknown("nobody", str(seen.gaps)), Unknown("nobody", str(seen.gaps))  # type: ignore[arg-type]


BEFORE_OPENING = (samples_for_nobody, list_for_nobody, counters_for_nobody)
AFTERWARDS = (
    memory_of_a_process,
    context_alone,
    whoever_asks,
    foreign_process,
    clock_of_stamps,
    averaging,
    one_row_for_each,
    little_work,
    empty_answer,
    ring_length,
    device_samples_when_idle,
    counters,
    accounting,
    release_after_kill,
    time_of_a_call,
    our_reading,
)


def run(scene: Scene, more: tuple[Callable[[Scene], Seen], ...] = ()) -> Iterator[tuple[str, Seen]]:
    """All checks, and `more`, one after the other. One that fails is a finding, too."""
    for number, check in enumerate((*BEFORE_OPENING, *AFTERWARDS, *more)):
        if number == len(BEFORE_OPENING):
            scene.open()
        try:
            seen = check(scene)
        except Exception as error:  # noqa: BLE001 - the others are still worth knowing
            seen = Seen("could not be checked", f"{type(error).__name__}: {error}")
        yield check.__name__, seen
