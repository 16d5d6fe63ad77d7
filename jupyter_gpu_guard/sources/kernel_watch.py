"""One kernel as its server knows it: its process, and what it is doing."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from subprocess import Popen  # only to recognize one: nothing is started here
from typing import TYPE_CHECKING, Any

from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from jupyter_gpu_guard.core.model import OwnerState, ProcessKey
from jupyter_gpu_guard.sources.executions import Executions
from jupyter_gpu_guard.sources.iopub_ear import IopubEar
from jupyter_gpu_guard.sources.last_activity import LastActivity
from jupyter_gpu_guard.sources.websocket_ear import KeptMessages

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from jupyter_gpu_guard.core.model import Process
    from jupyter_gpu_guard.protocols import Clock
    from jupyter_gpu_guard.sources.websocket_ear import Passing

_STARTING = {None, "starting", "restarting", "autorestarting"}


@dataclass(frozen=True)
class Sight:
    """What one look at a kernel says. `root` None: it runs elsewhere, or which process it is cannot be told."""

    state: OwnerState
    root: ProcessKey | None = None
    started_at: datetime | None = None
    used_at: float | None = None
    own_ports: frozenset[int] = frozenset()
    failed: bool = False
    died: bool = False


class KernelWatch:
    """Follows one kernel manager (`kernel`) through its restarts until `close`. Asks the kernel itself nothing.

    What is caused by messages of the session `own` is no use: those are the guard's.
    """

    def __init__(
        self,
        kernel: Any,
        identify: Callable[[int], Process | None],
        clock: Clock,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger],
        own: str | None = None,
    ) -> None:
        self.kernel = kernel
        self._own = own
        self._identify = identify
        self._clock = clock
        self._log = log
        self._executions = Executions(in_turn=_works_in_turn(kernel))
        self._ear: IopubEar | None = None
        self._channel: object = None
        self._popen: Any = None
        self._root: ProcessKey | None = None
        self._started_at: datetime | None = None
        self._lost = False  # its pid belongs to somebody else now: never to be believed again
        self._died = False
        self._restarts_itself = False
        self._last_activity = LastActivity()
        self._kept = KeptMessages(kernel)
        self.is_contradicted = False  # the server says that nobody used it, and somebody did

    def look(self, *, at_once: bool = False) -> Sight:
        """The kernel now.

        `at_once`: with every message that has arrived, also those the event loop has not handled; and what was sent to
        it and has not begun counts as if it had.
        """
        self._listen()
        if at_once and self._ear is not None:
            self._ear.catch_up()
        self._executions.settle(self._clock.now().monotonic)
        if not at_once:
            self._read_kept_messages()
            self._attend_restarts()
            self.is_contradicted = self._last_activity.stands_still(self._told_activity())
        local = self._is_local()
        if local and not self._follow_process():
            self._executions.forget(self._clock.now().monotonic)
            return self._sight(OwnerState.DEAD, self._root)
        state = self._state()
        if at_once and state is OwnerState.IDLE and self._executions.is_awaited(self._clock.now().monotonic):
            state = OwnerState.EXECUTING
        return self._sight(state, self._root if local else None)

    def restarted(self) -> None:
        """The kernel was restarted: what ran before runs no more. A local process shows that by itself."""
        if not self._is_local():
            self._executions.forget(self._clock.now().monotonic)
            self._begin_anew()

    def interrupted(self) -> None:
        """Somebody has interrupted the kernel, so somebody is there."""
        self._executions.attended(self._clock.now().monotonic)

    def overhear(self, passing: Passing) -> None:
        """Take note of what has passed between a page and this kernel."""
        now = self._clock.now().monotonic
        if passing.kind == "input_reply":
            self._executions.answered(now)
        elif passing.request is None:
            return
        elif passing.kind == "input_request":
            self._executions.asks(passing.request)
        elif passing.kind == "execute_reply":
            self._executions.replied(passing.request, now)
        elif passing.in_turn:
            self._executions.sent(passing.request, now)

    def close(self) -> None:
        """Stop listening. Safe to call twice."""
        with suppress(Exception):  # a kernel manager may be anyone's, and this one is done with
            self.kernel.remove_restart_callback(self._ended_by_itself, "restart")
        self._close_ear()

    def _close_ear(self) -> None:
        ear, self._ear = self._ear, None
        if ear is not None:
            ear.close()

    def _sight(self, state: OwnerState, root: ProcessKey | None) -> Sight:
        executions = self._executions
        ports = getattr(self.kernel, "ports", ()) if getattr(self.kernel, "transport", None) == "tcp" else ()
        return Sight(
            state=state,
            root=root,
            started_at=self._started_at if root else None,
            used_at=executions.used_at,
            own_ports=executions.debugger_ports.union(port for port in ports if port),
            failed=executions.failed,
            died=self._died,
        )

    def _read_kept_messages(self) -> None:
        """Learn what the kernel has asked since the last page has left."""
        try:
            for passing in self._kept.unread():
                self.overhear(passing)
        except Exception as fault:  # noqa: BLE001 - they are the server's own, and may be kept in another way
            self._log.debug("The messages kept for the next page could not be read: %r", fault)

    def _is_local(self) -> bool:
        """Whether it is a process of this machine. Of any other its number means nothing here."""
        provisioner = self.kernel.provisioner
        if not isinstance(provisioner, LocalProvisioner):
            return False
        return provisioner.process is None or isinstance(provisioner.process, Popen)

    def _attend_restarts(self) -> None:
        """Ask to be told when the kernel is restarted since it has ended by itself. What tells it may come late."""
        if (add := getattr(self.kernel, "add_restart_callback", None)) is not None:
            self.kernel.remove_restart_callback(self._ended_by_itself, "restart")
            add(self._ended_by_itself, "restart")

    def _ended_by_itself(self) -> None:
        self._died = self._restarts_itself = True

    def _begin_anew(self) -> None:
        """There is a new process. If it was not for the end of the one before, somebody has asked for it."""
        self._died, self._restarts_itself = self._restarts_itself, False

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
        self._close_ear()
        self._channel = channel
        if channel is not None:
            self._ear = IopubEar(kernel, self._hear, self._log)

    def _hear(self, message: Mapping[str, Any]) -> None:
        if self._own is not None and message["parent_header"].get("session") == self._own:
            return
        popen = getattr(self.kernel.provisioner, "process", None)
        executions = self._executions
        begun, ended = executions.begun, executions.ended
        executions.hear(message, popen, self._clock.now().monotonic)
        if executions.begun > begun:
            self._last_activity.begun(self._told_activity())
        if executions.ended > ended:
            self._last_activity.ended()

    def _told_activity(self) -> object:
        return getattr(self.kernel, "last_activity", None)

    def _follow_process(self) -> bool:
        """Whether the local process lives. Fixes its identity when it is first seen, and never believes a pid alone."""
        provisioner = self.kernel.provisioner
        popen = provisioner.process
        if popen is None:  # ended, or between two lives, or not yet begun
            return self._popen is None
        if popen is not self._popen:
            self._popen, self._root, self._started_at, self._lost = popen, None, None, False
            self._executions.forget(self._clock.now().monotonic, besides=popen)
            self._begin_anew()
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
        if (state := self._executions.state) is not None:
            return state
        told = getattr(self.kernel, "execution_state", "never told")
        if told == "busy":
            return OwnerState.EXECUTING
        if told in _STARTING:
            return OwnerState.STARTING
        if told == "dead":
            return OwnerState.DEAD
        if told == "idle" and self._ear is not None and not self._ear.deaf:
            return OwnerState.IDLE
        return OwnerState.UNKNOWN


def _works_in_turn(kernel: Any) -> bool:
    """Whether it is an IPython kernel, which begins no cell on its main shell before the one before has ended."""
    try:
        spec = getattr(kernel, "kernel_spec", None)
    except KeyError:  # it has been removed since
        return False
    return any("ipykernel" in word for word in getattr(spec, "argv", ()))
