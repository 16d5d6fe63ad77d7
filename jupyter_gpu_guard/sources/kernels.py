"""The kernels of this server as Owners."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from jupyter_gpu_guard.core.model import Owner, OwnerKey, OwnerKind, OwnerState
from jupyter_gpu_guard.sources.kernel_watch import KernelWatch, Sight

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpu_guard.core.model import Process
    from jupyter_gpu_guard.protocols import Clock, Processes
    from jupyter_gpu_guard.sources.websocket_ear import Passing

KERNEL_ACTIONS = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"

_SESSIONS_WITHIN = 5.0  # seconds; a session manager may ask another machine


class _Title(NamedTuple):
    name: str
    notebook: str | None


class KernelOwners:
    """`Owners` from a server's kernel and session managers. Lives on the event loop.

    It listens to each kernel's iopub channel as the server does, sends nothing, and leaves every last activity alone.
    With an `event_logger` it begins to listen when a kernel starts; otherwise at the next reading. Messages of the
    session `own` are the guard's, and what they cause is no use.
    """

    def __init__(
        self,
        kernel_manager: Any,
        session_manager: Any,
        processes: Processes,
        clock: Clock,
        *,
        event_logger: Any = None,
        own: str | None = None,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger] | None = None,
    ) -> None:
        self._kernels = kernel_manager
        self._sessions = session_manager
        self._processes = processes
        self._clock = clock
        self._events = event_logger
        self._own = own
        self._log = log or logging.getLogger(__name__)
        self._watches: dict[str, KernelWatch] = {}
        self._titles: Mapping[str, _Title] = {}
        if event_logger is not None:
            event_logger.add_listener(schema_id=KERNEL_ACTIONS, listener=self._on_kernel_action)

    async def read(self, processes: Mapping[int, Process] | None = None) -> tuple[Owner, ...]:  # noqa: ARG002
        """All kernels now. One that raises is listed with state UNKNOWN and without a process; the rest go on."""
        await self._read_titles()
        ids = list(self._kernels.list_kernel_ids())
        for gone in self._watches.keys() - set(ids):
            self._watches.pop(gone).close()
        return tuple(self._owner(kernel_id) for kernel_id in ids)

    def look_again(self, key: OwnerKey) -> Owner | None:
        """One kernel at this very moment, with every message that has arrived. None: the server has no such kernel."""
        if key.kind is not OwnerKind.KERNEL or key.id not in self._kernels:
            return None
        return self._owner(key.id, at_once=True)

    @property
    def problems(self) -> tuple[str, ...]:
        """What the server tells about its kernels and cannot be true, in sentences."""
        frozen = [(name, watch.kernel) for name, watch in self._watches.items() if watch.is_contradicted]
        names = [self._title_of(kernel_id, kernel.kernel_name).name for kernel_id, kernel in frozen]
        return tuple(
            f"the server's last activity of {name} stands still although cells run in it; whatever ends idle kernels "
            "by that time errs"
            for name in names
        )

    def overhear(self, passing: Passing) -> None:
        """Take note of what has passed between a page and a kernel; see `websocket_ear.listening`."""
        if (watch := self._watches.get(passing.kernel_id)) is not None:
            watch.overhear(passing)

    def close(self) -> None:
        """Stop listening to everything. Safe to call twice."""
        events, self._events = self._events, None
        if events is not None:
            try:
                events.remove_listener(schema_id=KERNEL_ACTIONS, listener=self._on_kernel_action)
            except KeyError:
                self._log.debug("No kernel action was ever published")
        while self._watches:
            self._watches.popitem()[1].close()

    def _owner(self, kernel_id: str, *, at_once: bool = False) -> Owner:
        kernelspec = None
        try:
            kernel = self._kernels.get_kernel(kernel_id)
            kernelspec = str(kernel.kernel_name)
            sight = self._watch(kernel_id, kernel).look(at_once=at_once)
        except Exception as fault:  # noqa: BLE001 - a kernel manager may be anyone's, and harms only its own kernel
            self._log.debug("Kernel %s cannot be looked at: %r", kernel_id, fault)
            sight = Sight(OwnerState.UNKNOWN)
        title = self._title_of(kernel_id, kernelspec)
        return Owner(
            key=OwnerKey(OwnerKind.KERNEL, kernel_id),
            name=title.name,
            root=sight.root,
            state=sight.state,
            notebook=title.notebook,
            kernelspec=kernelspec,
            started_at=sight.started_at,
            used_at=sight.used_at,
            own_ports=sight.own_ports,
            clients=self._clients(kernel_id),
            failed=sight.failed,
            died=sight.died,
        )

    def _clients(self, kernel_id: str) -> int:
        """How many pages are connected, by the server's own count."""
        try:
            return int(self._kernels.kernel_model(kernel_id)["connections"])
        except Exception:  # noqa: BLE001 - not every kernel manager counts, and then nobody is known to be there
            return 0

    def _title_of(self, kernel_id: str, kernelspec: str | None) -> _Title:
        return self._titles.get(kernel_id) or _Title(kernelspec or kernel_id, None)

    def _watch(self, kernel_id: str, kernel: Any) -> KernelWatch:
        watch = self._watches.get(kernel_id)
        if watch is None or watch.kernel is not kernel:
            if watch is not None:
                watch.close()
            identify = self._processes.identify
            watch = self._watches[kernel_id] = KernelWatch(kernel, identify, self._clock, self._log, self._own)
        return watch

    async def _read_titles(self) -> None:
        """Learn which notebook each kernel belongs to; if that fails, what was known stays."""
        try:
            rows = await asyncio.wait_for(self._sessions.list_sessions(), _SESSIONS_WITHIN)
            titles: dict[str, _Title] = {}
            # The rows come oldest first. Several notebooks may share a kernel; it is called by the first of them.
            for row in sorted(rows, key=lambda row: row.get("type") != "notebook"):
                kernel_id = (row.get("kernel") or {}).get("id")
                if kernel_id is not None:
                    titles.setdefault(kernel_id, _title(row, kernel_id))
        except Exception as fault:  # noqa: BLE001 - a session manager may be anyone's
            self._log.debug("The sessions cannot be listed: %r", fault)
        else:
            self._titles = titles

    async def _on_kernel_action(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:  # noqa: ARG002
        kernel_id = data.get("kernel_id")
        if self._events is None or kernel_id is None:
            return
        if kernel_id in self._kernels:
            watch = self._watches.get(kernel_id)
            if data.get("action") == "restart" and watch is not None:
                watch.restarted()
            elif data.get("action") == "interrupt" and data.get("status") == "success" and watch is not None:
                watch.interrupted()
            self._owner(kernel_id)  # looking is what attaches
        elif (watch := self._watches.pop(kernel_id, None)) is not None:
            watch.close()


def _title(row: Mapping[str, Any], kernel_id: str) -> _Title:
    path, name = str(row.get("path") or ""), str(row.get("name") or "")
    notebook = path if path and row.get("type") == "notebook" else None
    return _Title(name or path.rpartition("/")[2] or kernel_id, notebook)
