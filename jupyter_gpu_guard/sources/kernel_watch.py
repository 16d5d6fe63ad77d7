"""One kernel as its server knows it: its process, and what it is doing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from jupyter_gpu_guard.core.model import OwnerState, ProcessKey
from jupyter_gpu_guard.sources.executions import Executions, IopubEar

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from jupyter_gpu_guard.core.model import Process
    from jupyter_gpu_guard.protocols import Clock

_STARTING = {None, "starting", "restarting", "autorestarting"}


@dataclass(frozen=True)
class Sight:
    """What one look at a kernel says. `root` None: it runs elsewhere, or which process it is cannot be told."""

    state: OwnerState
    root: ProcessKey | None = None
    started_at: datetime | None = None
    used_at: float | None = None


class KernelWatch:
    """Follows one kernel manager (`kernel`) through its restarts until `close`. Asks the kernel itself nothing."""

    def __init__(
        self,
        kernel: Any,
        identify: Callable[[int], Process | None],
        clock: Clock,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger],
    ) -> None:
        self.kernel = kernel
        self._identify = identify
        self._clock = clock
        self._log = log
        self._executions = Executions()
        self._ear: IopubEar | None = None
        self._channel: object = None
        self._popen: Any = None
        self._root: ProcessKey | None = None
        self._started_at: datetime | None = None
        self._lost = False  # its pid belongs to somebody else now: never to be believed again

    def look(self, *, at_once: bool = False) -> Sight:
        """The kernel now. `at_once`: with every message that has arrived, also those the event loop has not handled."""
        self._listen()
        if at_once and self._ear is not None:
            self._ear.catch_up()
        local = isinstance(self.kernel.provisioner, LocalProvisioner)
        if local and not self._follow_process():
            self._executions.forget(self._clock.now().monotonic)
            return Sight(OwnerState.DEAD, self._root, self._started_at, self._executions.used_at)
        root = self._root if local else None
        return Sight(self._state(), root, self._started_at if root else None, self._executions.used_at)

    def restarted(self) -> None:
        """The kernel was restarted: what ran before runs no more. A local process shows that by itself."""
        if not isinstance(self.kernel.provisioner, LocalProvisioner):
            self._executions.forget(self._clock.now().monotonic)

    def close(self) -> None:
        """Stop listening. Safe to call twice."""
        ear, self._ear = self._ear, None
        if ear is not None:
            ear.close()

    def _listen(self) -> None:
        """Listen where the kernel talks. Most restarts keep the channel, and then the connection heals by itself."""
        kernel = self.kernel
        # Behind a gateway there is no provisioner, and no channel that could be reached from here.
        channel = (
            (kernel.transport, kernel.ip, kernel.iopub_port, kernel.session.key)
            if kernel.provisioner is not None and kernel.iopub_port
            else None
        )
        if channel == self._channel and (channel is None or self._ear is not None):
            return
        self.close()
        self._channel = channel
        if channel is not None:
            self._ear = IopubEar(kernel, self._hear, self._log)

    def _hear(self, message: Mapping[str, Any]) -> None:
        popen = getattr(self.kernel.provisioner, "process", None)
        self._executions.hear(message, popen, self._clock.now().monotonic)

    def _follow_process(self) -> bool:
        """Whether the local process lives. Fixes its identity when it is first seen, and never believes a pid alone."""
        provisioner = self.kernel.provisioner
        popen = provisioner.process
        if popen is None:  # ended, or between two lives, or not yet begun
            return self._popen is None
        if popen is not self._popen:
            self._popen, self._root, self._started_at, self._lost = popen, None, None, False
            self._executions.forget(self._clock.now().monotonic, besides=popen)
        if popen.returncode is not None:
            return False
        process = self._identify(popen.pid)
        if process is None:
            return self._root is None  # never seen: hidden from us, which is no proof of an end
        if popen.pid != provisioner.pid:
            return True  # not what it seems: nothing to identify
        if self._root is None and not self._lost:
            # Until its own parent has waited for it, a pid cannot be given to another process: this is the kernel.
            self._root, self._started_at = process.key, process.started_at
        elif process.key != self._root:
            self._root, self._started_at, self._lost = None, None, True
            return True
        return not process.is_over

    def _state(self) -> OwnerState:
        told = getattr(self.kernel, "execution_state", "never told")
        if self._executions or told == "busy":
            return OwnerState.EXECUTING
        if told in _STARTING:
            return OwnerState.STARTING
        if told == "dead":
            return OwnerState.DEAD
        if told == "idle" and self._ear is not None and not self._ear.deaf:
            return OwnerState.IDLE
        return OwnerState.UNKNOWN
