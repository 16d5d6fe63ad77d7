"""A parked kernel without a driver: who is asked to act answers as a test says, and the devices show it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fake_clock import NOON, FakeClock
from fake_devices import GIB, GPU, FakeDevices
from fake_processes import FakeProcesses
from shutdown_scene import LOG, verdict_on

from jupyter_gpu_guard.core.model import (
    GpuProcess,
    Holder,
    Holding,
    Owner,
    OwnerKey,
    OwnerKind,
    OwnerState,
    Process,
    ProcessKey,
    Reading,
)
from jupyter_gpu_guard.effects.park import Means, Park
from jupyter_gpu_guard.effects.resume import Resume
from jupyter_gpu_guard.parking.answer import Answer, State
from jupyter_gpu_guard.parking.registry import Registry
from jupyter_gpu_guard.parking.waiting_line import WaitingLine
from jupyter_gpu_guard.protocols import nobody_is_spared

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_gpu_guard.core.policy import Action
    from jupyter_gpu_guard.core.verdict import Outcome

KEY = ProcessKey(100, 7)
OWNER = Owner(OwnerKey(OwnerKind.KERNEL, "k"), "train.ipynb", KEY, OwnerState.IDLE, used_at=500.0)
HOLDER = Holder(OWNER, (Holding(GPU, (GpuProcess(KEY, GPU, 6 * GIB, 0.0, NOON),)),), (KEY,))


class FakeHelper:
    """Answers each request as it is told by `says`, otherwise as a driver that does what it is asked."""

    def __init__(self, devices: Devices) -> None:
        self.says: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.state = State.RUNNING
        self.meanwhile: Callable[[str], None] = lambda do: None
        self._devices = devices

    def refuse(self, do: str, state: State, fault: str | None = "the driver refuses") -> None:
        """Answer like this."""
        self.says[do] = Answer(state, do, fault, 0.0)

    async def ask(self, do: str, key: ProcessKey) -> Answer:
        """One request."""
        self.asked.append(do)
        self.meanwhile(do)
        if do in self.says:
            self.state = self.says[do].state
            return self.says[do]
        if do == "park":
            self.state = State.CHECKPOINTED
            self._devices.drop(key)
        elif do == "resume":
            self.state = State.RUNNING
            self._devices.hold(key, 6 * GIB)
        return Answer(self.state, None, None, 1.5)


class Devices(FakeDevices):
    """Those on which one can cease to hold."""

    def drop(self, key: ProcessKey) -> None:
        """It holds nothing any more."""
        self._held.pop(key, None)


class ParkingRoom:
    """One idle kernel that holds 6 GiB, and all that parks and resumes it."""

    def __init__(self, folder: Path, refusal: str | None = None, free: Reading = 64 * GIB) -> None:
        self.world = FakeProcesses(Process(KEY, 1, KEY.pid, KEY.pid, "S", NOON))
        self.devices = Devices(self.world.identify)
        self.devices.hold(KEY, 6 * GIB)
        self.owner: Owner | None = OWNER
        self.clock = FakeClock()
        self.registry = Registry(folder / "parked.json", self._lives)
        self.line = WaitingLine()
        self.helper = FakeHelper(self.devices)
        means = Means(
            registry=self.registry,
            owners=self,
            look=self.devices.look,
            processes=self.world.scan,
            identify=self.world.identify,
            clock=self.clock,
            log=LOG,
            ask=self.helper.ask,
            free_host_memory=lambda pid: free,
            sleep=self.clock.sleep,
        )
        self.park = Park(means, refusal)
        self.resume = Resume(means, self.line, lambda device, clients: "others 79.0 GiB")

    def _lives(self, key: ProcessKey) -> bool:
        process = self.world.identify(key.pid)
        return process is not None and process.key == key

    def look_again(self, key: OwnerKey) -> Owner | None:
        """The kernel at this very moment."""
        return self.owner if key == OWNER.key else None

    async def read(self, processes: object = None) -> tuple[Owner, ...]:
        """The kernel."""
        return () if self.owner is None else (self.owner,)

    async def act(
        self,
        action: Action,
        holder: Holder = HOLDER,
        *,
        asked: bool = False,
        spared: Callable[[], bool] = nobody_is_spared,
    ) -> Outcome:
        """Park or resume."""
        remedy = self.park if action.value == "park" else self.resume
        verdict = replace(verdict_on(holder, asked=asked, action=action), compute_below=5.0)
        return await remedy.carry_out(verdict, holder, spared)
