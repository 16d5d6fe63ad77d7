"""A whole guard over one kernel: real devices, processes, observer and leases; a fake owner and a fake enforcer."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from jupyter_gpu_guard.core.model import Owner, OwnerKey, OwnerKind, OwnerState, Process, ProcessKey
from jupyter_gpu_guard.core.policy import Action, Idle, Mode, Policy, Rule, Stage
from jupyter_gpu_guard.core.verdict import Outcome, Result
from jupyter_gpu_guard.guard import Guard
from jupyter_gpu_guard.leases import FileLeases
from jupyter_gpu_guard.observe import Observer
from jupyter_gpu_guard.protocols import nobody_is_spared

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from jupyter_gpu_guard.core.model import Holder
    from jupyter_gpu_guard.core.verdict import Verdict
    from jupyter_gpu_guard.protocols import Clock, Devices, Insight, Owners, Processes

KERNEL = OwnerKey(OwnerKind.KERNEL, "k")
_SHORT = timedelta(minutes=1)
HASTY = Policy(
    mode=Mode.ENFORCE,
    rules=(
        Rule(
            "default",
            idle=Idle(lasting=_SHORT),
            notice=_SHORT,
            ladder=(Stage(Action.WARN), Stage(Action.SHUTDOWN, _SHORT)),
        ),
    ),
)


class FakeOwners:
    """`Owners` with one idle kernel. `fault` is raised instead of an answer."""

    def __init__(self, root: ProcessKey) -> None:
        self._owner = Owner(KERNEL, "a.ipynb", root, OwnerState.IDLE, "a.ipynb")
        self.fault: Exception | None = None

    async def read(self, processes: Mapping[int, Process] | None = None) -> tuple[Owner, ...]:
        """The kernel."""
        if self.fault is not None:
            raise self.fault
        return (self._owner,)

    def look_again(self, key: OwnerKey) -> Owner | None:
        """The kernel."""
        return self._owner if key == KERNEL else None


class FakeEnforcer:
    """`Enforcer` that says that everything was done, and does nothing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.done: list[Action] = []

    async def enforce(self, verdict: Verdict, holder: Holder, spared: Callable[[], bool] = nobody_is_spared) -> Outcome:
        """Done."""
        self.done.append(verdict.action)
        result = Result.WITHDRAWN if verdict.action.loses_work and spared() else Result.DONE
        return Outcome(
            verdict.owner,
            verdict.root,
            verdict.action,
            verdict.rule,
            result,
            self._clock.now().wall,
            "",
            verdict.reasons,
        )

    def offers(self, holder: Holder) -> tuple[Action, ...]:
        """Nothing."""
        return ()

    def reaches(self, key: OwnerKey) -> bool:
        """Everybody is always told."""
        return True

    def hurry(self) -> None:
        """There is nothing under way."""


def guard_over(
    devices: Devices,
    processes: Processes,
    owners: Owners,
    enforcer: FakeEnforcer,
    clock: Clock,
    folder: Path,
    *,
    policy: Policy = HASTY,
    deadline: float = 8.0,
    insight: Insight | None = None,
) -> Guard:
    """A guard that has not ticked yet. Its leases are in `folder`."""
    return Guard(
        observer=Observer(clock, devices, processes, owners, deadline, insight=insight),
        enforcer=enforcer,
        rehearsal=enforcer,
        leases=FileLeases(folder / "leases.json"),
        clock=clock,
        policy=policy,
        log=logging.getLogger("jupyter_gpu_guard.test"),
    )
