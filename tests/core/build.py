"""Small builders for the values of the pure core."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

from hypothesis import settings

from jupyter_gpu_guard.core.judge import Bench, judge
from jupyter_gpu_guard.core.ledger import Case, Ledger, wait_before_loss
from jupyter_gpu_guard.core.model import (
    Device,
    DeviceState,
    Gap,
    GpuClient,
    GpuProcess,
    Holder,
    Holding,
    Instant,
    Owner,
    OwnerKey,
    OwnerKind,
    OwnerState,
    Process,
    ProcessKey,
    Reading,
    Snapshot,
    Unknown,
    Why,
)
from jupyter_gpu_guard.core.policy import Action, Belts, Idle, Match, Mode, Policy, Rule, Stage
from jupyter_gpu_guard.core.verdict import Code, Lease, Notice, Outcome, Result, Verdict
from jupyter_gpu_guard.core.window import Peak, Window, Windows
from jupyter_gpu_guard.quantities import parse_duration, parse_size

# Whoever runs these tests thousands of times, as mutation testing does, asks for a part of the examples only.
SHARE_OF_EXAMPLES = float(os.environ.get("SHARE_OF_EXAMPLES", "1"))


def steadily(examples: int) -> settings:
    """The same so many examples at each run: a failure in CI is a failure here."""
    count = max(1, round(examples * SHARE_OF_EXAMPLES))
    return settings(derandomize=True, deadline=None, database=None, max_examples=count)


steady = steadily(40)

GIB = float(2**30)
NOON = datetime(2030, 5, 1, 12, 0, tzinfo=timezone.utc)
SERVER = 10  # the pid that kernels are children of
GONE = Unknown(Why.NOT_READ)


def seconds(text: str) -> float:
    """`41m` in seconds."""
    return parse_duration(text).total_seconds()


def at(monotonic: float, *, wall_ahead: float = 0.0) -> Instant:
    """The moment `monotonic` seconds after noon, by a wall clock that is `wall_ahead` seconds wrong."""
    return Instant(NOON + timedelta(seconds=monotonic + wall_ahead), monotonic)


# --- what is seen ---------------------------------------------------------------------------------------------------


def process(
    pid: int, parent: int = 1, *, start: int | None = None, session: int | None = None, state: str = "S"
) -> Process:
    """A row of the process table. By default it starts at ten ticks for each pid, and leads a session of its own."""
    ticks = pid * 10 if start is None else start
    leads = pid if session is None else session
    return Process(ProcessKey(pid, ticks), parent, leads, leads, state, NOON + timedelta(seconds=ticks / 100))


def table(*processes: Process) -> dict[int, Process]:
    """A process table with init and the server in it."""
    return {row.key.pid: row for row in (process(1, 0), process(SERVER, 1), *processes)}


def key(pid: int, start: int | None = None) -> ProcessKey:
    """The identity that `process(pid, start=start)` has."""
    return process(pid, start=start).key


def owner(
    name: str = "a",
    root: ProcessKey | int | None = 100,
    *,
    kind: OwnerKind = OwnerKind.KERNEL,
    state: OwnerState = OwnerState.IDLE,
    notebook: str | None = None,
    kernelspec: str | None = "python3",
    used_at: float | None = None,
) -> Owner:
    """A kernel, or another `kind` of owner, whose process is `root`."""
    return Owner(
        key=OwnerKey(kind, name),
        name=f"{name}.ipynb",
        root=key(root) if isinstance(root, int) else root,
        state=state,
        notebook=f"{name}.ipynb" if notebook is None else notebook,
        kernelspec=kernelspec,
        used_at=used_at,
    )


def device(uuid: str = "gpu-0", *, name: str = "NVIDIA H200", state: DeviceState = DeviceState.OK) -> Device:
    """A device of 80 GiB."""
    return Device(uuid, 0, name, 80 * GIB, 0.0, state=state)


def client(pid: int, memory: Reading = 6 * GIB, compute: Reading = 0.0, on: str = "gpu-0") -> GpuClient:
    """A bare pid on a device."""
    return GpuClient(on, pid, memory, compute)


def snapshot(
    *processes: Process,
    owners: Iterable[Owner] = (),
    clients: Iterable[GpuClient] = (),
    devices: Iterable[Device] | None = None,
    missed: Iterable[str] = (),
    now: float = 0.0,
) -> Snapshot:
    """All that is seen at `now`. Sources in `missed` did not answer: the devices in part, the others not at all."""
    missed = tuple(missed)
    return Snapshot(
        taken_at=at(now),
        devices=(device("gpu-0"), device("gpu-1")) if devices is None else tuple(devices),
        clients=tuple(clients),
        processes={} if "processes" in missed else table(*processes),
        owners=() if "owners" in missed else tuple(owners),
        gaps=tuple(Gap(source, f"{source} did not answer") for source in missed),
    )


def holder(
    memory: Reading | str = "12GiB",
    compute: Reading | tuple[Reading, ...] = 0.0,
    *,
    of: Owner | None = None,
    tree: tuple[ProcessKey, ...] = (),
) -> Holder:
    """A Holder with all its `memory` on the first device, and one `compute` for each device that it is on."""
    held = of or owner()
    root = held.root or key(100)
    amount = parse_size(memory) if isinstance(memory, str) else memory
    shares = compute if isinstance(compute, tuple) else (compute,)
    holdings = tuple(
        Holding(f"gpu-{n}", (GpuProcess(root, f"gpu-{n}", amount if n == 0 else 0.0, share, NOON),))
        for n, share in enumerate(shares)
    )
    return Holder(held, holdings, tree or (root,))


def window(
    idle: str, *, now: float, seen: str | None = None, busy: float = 100.0, root: ProcessKey | None = None
) -> Window:
    """A Window at `now` that began `seen` ago and has been without compute for `idle`."""
    began = now - seconds(seen or idle)
    last = now - seconds(idle)
    return Window(
        root=root or key(100), began=began, at=now, compute=0.0, peaks=(Peak(busy, last),) if last > began else ()
    )


# --- what is ruled --------------------------------------------------------------------------------------------------


def rule(
    name: str = "default",
    *,
    lasting: str | None = "2h",
    notice: str = "15m",
    ladder: tuple[Stage, ...] | None = None,
    match: Match | None = None,
    compute_below: float = 5.0,
    memory_above: str = "512MiB",
    keep: bool = False,
    undelivered: str | None = "12h",
) -> Rule:
    """A Rule that warns when `lasting` is reached and shuts down one notice later, unless `ladder` says otherwise."""
    return Rule(
        name=name,
        match=match or Match(),
        idle=Idle(compute_below, parse_size(memory_above), None if lasting is None else parse_duration(lasting)),
        notice=parse_duration(notice),
        ladder=ladder or rungs("warn", ("shutdown", notice)),
        keep=keep,
        undelivered=None if undelivered is None else parse_duration(undelivered),
    )


def rungs(*steps: str | tuple[str, str]) -> tuple[Stage, ...]:
    """A ladder from `"warn"` or `("shutdown", "15m")`."""
    pairs = ((step, "0") if isinstance(step, str) else step for step in steps)
    return tuple(Stage(Action(do), parse_duration(after)) for do, after in pairs)


def policy(*rules: Rule, belts: Belts | None = None, mode: Mode = Mode.ENFORCE) -> Policy:
    """A Policy of these rules; the last must match everything. Without belts that a test does not ask for."""
    return Policy(mode=mode, rules=rules or (rule(),), belts=belts or Belts(1000, 1000))


def lease(until: float, of: str = "a") -> Lease:
    """A promise to keep kernel `of` until `until` seconds after noon."""
    return Lease(OwnerKey(OwnerKind.KERNEL, of), NOON + timedelta(seconds=until), "long run", "ada")


def verdict_on(
    held: Holder,
    idle: str = "3h",
    *,
    by: Policy | Rule | None = None,
    case: Case | None = None,
    leased: Lease | None = None,
    now: float = 100_000.0,
    windows: Windows | None = None,
    reached: bool = False,
) -> Verdict:
    """What judge says at `now` about a Holder that was seen idle for `idle`. `reached`: a page is open by now."""
    ruled = policy(by) if isinstance(by, Rule) else by or policy()
    who = held.owner.key
    bench = Bench(
        policy=ruled,
        windows={who: window(idle, now=now, root=held.owner.root)} if windows is None else windows,
        leases={} if leased is None else {who: leased},
        ledger=Ledger() if case is None else Ledger({who: case}),
        devices={f"gpu-{n}": device(f"gpu-{n}") for n in range(4)},
        now=at(now),
        reached=frozenset({who}) if reached else frozenset(),
    )
    (verdict,) = judge((held,), bench)
    return verdict


def codes(verdict: Verdict) -> list[Code]:
    """The codes of its Reasons."""
    return [reason.code for reason in verdict.reasons]


def outcome(verdict: Verdict, result: Result, now: Instant, *, undelivered: bool = False) -> Outcome:
    """What a door answers."""
    return Outcome(
        verdict.owner,
        verdict.root,
        verdict.action,
        verdict.rule,
        result,
        now.wall,
        result.value,
        undelivered=undelivered,
    )


def notice_of(verdict: Verdict, now: Instant, *, undelivered: bool = False) -> Notice:
    """What a person is told with a warning, as the guard words it."""
    deadline = None
    wait = wait_before_loss(verdict, undelivered=undelivered)
    if verdict.deadline is not None and wait is not None:
        deadline = now.wall + timedelta(seconds=max(verdict.deadline - now.monotonic, wait))
    return Notice(
        owner=verdict.owner,
        name=str(verdict.owner),
        notebook=None,
        rule=verdict.rule,
        next_action=verdict.next_action if deadline is not None else None,
        given_at=now.wall,
        deadline=deadline,
        memory_bytes=0.0,
        reasons=verdict.reasons,
    )
