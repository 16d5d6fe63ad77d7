"""The nouns of the guard: frozen values, no behaviour that touches the world.

Units: memory in bytes, compute in percent (0 to 100), temperature in degrees Celsius, power in watts, monotonic time
in seconds. A quantity that could not be read is `Unknown(why)`: never 0, never `None`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from functools import cached_property
from typing import Union

from typing_extensions import TypeIs


class Why(str, Enum):
    """Why a quantity is not known. The values are stable: they travel in the report and are translated by the faces."""

    NOT_SUPPORTED = "not-supported"  # the device or driver does not offer it
    NO_PERMISSION = "no-permission"  # the driver refuses this user
    FIRST_READING = "first-reading"  # a rate needs two readings; this is the first one
    NOT_READ = "not-read"  # its source did not answer in time, or failed
    NOT_AVAILABLE = "not-available"  # the driver says that it has no value
    IMPLAUSIBLE = "implausible"  # the driver's answer contradicts itself
    DEVICE_LOST = "device-lost"  # the device fell off the bus or needs a reset
    DRIVER_ERROR = "driver-error"  # any other refusal of the driver
    PIDS_HIDDEN = "pids-hidden"  # the driver names processes of another pid namespace
    NOT_LOCAL = "not-local"  # the owner runs on another machine
    SHARED = "shared"  # measured for several together, and not divisible
    SUSPENDED = "suspended"  # the device sleeps, and reading it would wake it up


@dataclass(frozen=True)
class Unknown:
    """A quantity that could not be read, and why. `detail` is for people and never a secret."""

    why: Why
    detail: str = ""


Reading = Union[float, Unknown]


def is_known(reading: Reading) -> TypeIs[float]:
    """Whether `reading` is a number."""
    return not isinstance(reading, Unknown)


def total(readings: Iterable[Reading]) -> Reading:
    """The sum, or the first Unknown among them: a sum with a part missing is not known. Empty: 0."""
    amount: float = 0
    for reading in readings:
        if not is_known(reading):
            return reading
        amount += reading
    return amount


def highest(readings: Iterable[Reading]) -> Reading:
    """The largest, or the first Unknown among them. Empty: 0."""
    largest: float = 0
    for reading in readings:
        if not is_known(reading):
            return reading
        largest = max(largest, reading)
    return largest


@dataclass(frozen=True)
class Instant:
    """One moment on both clocks: `wall` (aware, UTC) is shown and compared with leases, `monotonic` measures spans."""

    wall: datetime
    monotonic: float


@dataclass(frozen=True, order=True)
class ProcessKey:
    """The identity of a process: its pid and its start time in clock ticks since boot (field 22 of /proc/PID/stat)."""

    pid: int
    start_ticks: int


@dataclass(frozen=True)
class Process:
    """One row of the process table. `state` is the letter of /proc/PID/stat (R, S, D, Z, ...).

    `cpu` is the CPU time in seconds that it has used so far, with that of the children it has waited for.
    """

    key: ProcessKey
    parent: int
    group: int
    session: int
    state: str
    started_at: datetime
    cpu: float = 0.0

    @property
    def is_over(self) -> bool:
        """A zombie or dead process: it holds no memory and waits only to be reaped."""
        return self.state in "ZXx"


class DeviceState(str, Enum):
    """How a device answers."""

    OK = "ok"
    LOST = "lost"  # fell off the bus, or needs a reset
    FAILING = "failing"  # answers some or all questions with an error
    SUSPENDED = "suspended"  # sleeps, with nobody on it; it is not read, since that would wake it up


class Evidence(str, Enum):
    """What a figure of one process or holding rests on. Anything but PROCESS is named wherever the figure is shown."""

    PROCESS = "process"  # the driver's figure for this very process
    SOLE_OWNER = "sole-owner"  # that of the whole device or MIG instance, of which this owner is the only user
    ESTIMATE = "estimate"  # who is on the device is inferred: the driver names processes that cannot be seen here


@dataclass(frozen=True)
class Device:
    """A GPU or a MIG instance, named by UUID. `index` is for display only and may change between two boots.

    `memory_used` is without `memory_reserved`, which the driver keeps for itself; an old driver that does not tell them
    apart counts both as used. `compute` is what the driver says of the moment. `overall` is the mean compute of the
    whole device since the previous reading, or a bound above it: it may stand in for processes that are not measured if
    one owner alone is on the device. `part_of` is the UUID of the GPU that a MIG instance is cut from.
    """

    uuid: str
    index: int
    name: str
    memory_total: Reading
    memory_used: Reading
    memory_reserved: Reading = 0
    compute: Reading = Unknown(Why.NOT_SUPPORTED)
    temperature: Reading = Unknown(Why.NOT_SUPPORTED)
    power: Reading = Unknown(Why.NOT_SUPPORTED)
    mig: bool = False
    state: DeviceState = DeviceState.OK
    overall: Reading = Unknown(Why.NOT_SUPPORTED)
    part_of: str | None = None

    @property
    def profile(self) -> str | None:
        """Of a MIG instance its profile, such as `1g.10gb`, with which its name ends; None: not known, or none."""
        before, _, profile = self.name.rpartition(" MIG ")
        return profile if self.mig and before else None


@dataclass(frozen=True)
class GpuClient:
    """A process as the driver lists it on one device: a bare pid, not yet an identity.

    `compute` is the mean over the time since the previous successful reading of the same device. `type`: C compute, G
    graphics, M multi-process service, joined by `+`.
    """

    device: str
    pid: int
    memory: Reading
    compute: Reading
    type: str = "C"
    evidence: Evidence = Evidence.PROCESS


@dataclass(frozen=True)
class GpuProcess:
    """An identified process on one device."""

    key: ProcessKey
    device: str
    memory: Reading
    compute: Reading
    started_at: datetime
    type: str = "C"
    evidence: Evidence = Evidence.PROCESS


class OwnerKind(str, Enum):
    """What may own GPU processes."""

    KERNEL = "kernel"
    TERMINAL = "terminal"
    TENSORBOARD = "tensorboard"
    LEFTOVERS = "leftovers"  # processes of an earlier run of a kernel; the id is that of the kernel


@dataclass(frozen=True, order=True)
class OwnerKey:
    """Names an owner; its text form `kernel:<id>` is used in URLs, events and logs."""

    kind: OwnerKind
    id: str

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.id}"

    @classmethod
    def parse(cls, text: str) -> OwnerKey:
        """The inverse of `str`. Raises ValueError with a sentence for people."""
        kind, colon, ident = text.partition(":")
        if not colon or not ident or kind not in {k.value for k in OwnerKind}:
            kinds = ", ".join(f"{k.value}:<id>" for k in OwnerKind)
            raise ValueError(f"{text!r} does not name an owner; expected one of {kinds}")
        return cls(OwnerKind(kind), ident)


class OwnerState(str, Enum):
    """What an owner is doing, as far as can be told. Advisory: it may protect, it never proves idleness.

    A source says all but SERVING and INPUT_BOUND, which are read off the processes (`core.states`).
    """

    IDLE = "idle"
    EXECUTING = "executing"
    WAITING = "waiting-for-input"  # a cell asks the person for a line of text
    BREAKPOINT = "at-breakpoint"  # a cell is halted in the debugger
    SERVING = "serving"  # its processes listen on a port, and somebody came to it lately
    INPUT_BOUND = "input-bound"  # its processes use the CPU, disk or network while no GPU computes
    STARTING = "starting"
    PARKED = "parked"  # what it had on devices is in the host's memory
    DEAD = "dead"
    UNKNOWN = "unknown"

    @property
    def is_running_a_cell(self) -> bool:
        """Whether a cell has begun and not ended."""
        return self in (OwnerState.EXECUTING, OwnerState.WAITING, OwnerState.BREAKPOINT)


@dataclass(frozen=True)
class Board:
    """What is particular about a TensorBoard.

    `log_dir` as it was given to it; `started_by` the owner in whose tree it was started.
    `inside`: it runs within the server's own process and has no process of its own. `duplicate`: another one shows the
    same log directory.
    """

    log_dir: str
    port: int | None = None
    started_by: OwnerKey | None = None
    inside: bool = False
    duplicate: bool = False


@dataclass(frozen=True)
class Waiting:
    """That a parked kernel is to be resumed as soon as there is room: since when (aware), and where.

    `device` is for display, as `held_by` is: who holds it, in words. `needed` and `free` are bytes there.
    """

    since: datetime
    device: str
    needed: float
    free: Reading
    held_by: str


@dataclass(frozen=True)
class Parked:
    """That what a kernel had on devices is in the host's memory: since when (aware), and how many bytes."""

    since: datetime
    memory: float
    waiting: Waiting | None = None


@dataclass(frozen=True)
class Owner:
    """A kernel, terminal or TensorBoard of this server.

    `root` is the process it started with (None: it runs elsewhere, or is not yet seen). A restart gives a new root.
    `used_at` is the monotonic time of the last sign of use by a person: the end of the last cell they ran, or a line of
    input. `own_ports` are TCP ports by which Jupyter itself talks to it. `clients` is how many pages are connected.
    `failed`: its last cell ended in an error. `died`: the process before the present one ended by itself, and nobody
    had asked for a restart.
    """

    key: OwnerKey
    name: str
    root: ProcessKey | None
    state: OwnerState
    notebook: str | None = None
    kernelspec: str | None = None
    started_at: datetime | None = None
    used_at: float | None = None
    own_ports: frozenset[int] = frozenset()
    clients: int = 0
    failed: bool = False
    died: bool = False
    board: Board | None = None
    parked: Parked | None = None


@dataclass(frozen=True)
class Mark:
    """What a process has inherited in its environment: which server started its kernel, and for which session.

    `server` is the server's pid (`JPY_PARENT_PID`), `session` the path of the notebook when the kernel was started
    (`JPY_SESSION_NAME`, absolute). Inherited by every descendant, also by one whose parents have all ended.
    """

    server: int | None
    session: str | None


@dataclass(frozen=True)
class Activity:
    """What the processes of one owner do apart from GPUs.

    `io` is by process the bytes read and written so far; who cannot be looked into is missing. `listens` are TCP ports
    on which they listen, apart from the owner's own; `visitors` counts connections to these from outside the tree that
    are open or were closed within about a minute. None: not all of them can be seen.
    """

    io: Mapping[ProcessKey, float] = field(default_factory=dict)
    listens: frozenset[int] = frozenset()
    visitors: int | None = 0


@dataclass(frozen=True)
class Gap:
    """A source that did not answer: which one, and why, in a sentence with the remedy where there is one."""

    source: str
    why: str


@dataclass(frozen=True)
class Snapshot:
    """All that was seen at one instant. A source named in `gaps` did not answer in full: not the same as nothing.

    `marks` are read for processes on a device whose owner is not known otherwise, with the owners' roots, and for those
    in terminals that hold a device. `activity` is read less often than the rest and stays until it is read again.
    """

    taken_at: Instant
    devices: tuple[Device, ...] = ()
    clients: tuple[GpuClient, ...] = ()
    processes: Mapping[int, Process] = field(default_factory=dict)
    owners: tuple[Owner, ...] = ()
    gaps: tuple[Gap, ...] = ()
    simulated: bool = False
    marks: Mapping[ProcessKey, Mark] = field(default_factory=dict)
    activity: Mapping[OwnerKey, Activity] = field(default_factory=dict)

    def missed(self, *sources: str) -> Gap | None:
        """The first gap among `sources`, if any of them did not answer."""
        return next((gap for gap in self.gaps if gap.source in sources), None)


@dataclass(frozen=True)
class Holding:
    """What one owner has on one device: this is shown.

    `overall` is the device's own figure where it stands in for processes that are not measured one by one.
    """

    device: str
    processes: tuple[GpuProcess, ...]
    overall: float | None = None

    @cached_property
    def memory(self) -> Reading:
        """Bytes reserved by its processes on this device."""
        return total(process.memory for process in self.processes)

    @cached_property
    def compute(self) -> Reading:
        """Percent of the device, at most 100."""
        if self.overall is not None:
            return min(self.overall, 100.0)
        share = total(process.compute for process in self.processes)
        return min(share, 100.0) if is_known(share) else share

    @cached_property
    def evidence(self) -> Evidence:
        """The weakest that its figures rest on."""
        if any(process.evidence is Evidence.ESTIMATE for process in self.processes):
            return Evidence.ESTIMATE
        return Evidence.PROCESS if self.overall is None else Evidence.SOLE_OWNER


@dataclass(frozen=True)
class Holder:
    """One owner with all its holdings: this is judged.

    `tree` is every living process known to belong to it, GPU or not. `leftovers` are GPU processes of an earlier root
    (before a restart): shown with it, not charged to it. Those of a kernel are a Holder of their own besides. `unknown`
    is set when a source that could have named further processes did not answer. `cpu` is the CPU time of each process
    of the tree so far, in seconds. `refined` is the state after the processes were looked at, where that tells more
    than the owner's own. `kernels_within`: kernels of another server, or of another program, run in this terminal.
    """

    owner: Owner
    holdings: tuple[Holding, ...] = ()
    tree: tuple[ProcessKey, ...] = ()
    leftovers: tuple[GpuProcess, ...] = ()
    unknown: Unknown | None = None
    cpu: Mapping[ProcessKey, float] = field(default_factory=dict)
    activity: Activity | None = None
    refined: OwnerState | None = None
    kernels_within: bool = False

    @property
    def state(self) -> OwnerState:
        """What it is doing."""
        return self.refined or self.owner.state

    @property
    def estimated(self) -> bool:
        """Whether it is inferred, and not seen, that it is on a device."""
        return any(holding.evidence is Evidence.ESTIMATE for holding in self.holdings)

    @cached_property
    def memory(self) -> Reading:
        """Bytes over all devices."""
        return self.unknown or total(holding.memory for holding in self.holdings)

    @cached_property
    def compute(self) -> Reading:
        """The busiest device, in percent: compute on any device spares the whole holder."""
        return self.unknown or highest(holding.compute for holding in self.holdings)


@dataclass(frozen=True)
class Strangers:
    """All other processes on one device, as one anonymous line: never touched, whatever the policy says."""

    device: str
    processes: int
    memory: Reading
