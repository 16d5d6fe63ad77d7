"""What the cells of one kernel are doing, told by the messages that pass by: nothing is asked of the kernel itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from jupyter_gpu_guard.core.model import OwnerState

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

REPLIED_FOR = 30.0  # seconds; a kernel that has replied to a request says "idle" right afterwards
SENT_FOR = 600.0  # seconds; a request that an idle kernel has not begun by then was lost on its way

_REMEMBERED = 4096  # requests; so many cells may be queued
_STOPPED_NO_MORE = {"continued", "terminated", "exited"}


@dataclass
class _Cell:
    """One execute request that has begun. `where` stands for the process that works on it."""

    where: object
    in_turn: bool
    shown: bool = False
    replied_at: float | None = None


class Executions:
    """The execute requests that one kernel is working on, and when the last one that a person sent has ended.

    `incarnation` stands for the process that answered; what ran in an earlier one is not running any more. `in_turn`:
    this kernel works on the requests of its shell channel one after the other. `now` is monotonic, in seconds.
    """

    def __init__(self, *, in_turn: bool = False) -> None:
        self.used_at: float | None = None
        self.failed = False  # the last cell that a person sent ended in an error, or is about to
        self.debugger_ports: frozenset[int] = frozenset()
        self.begun = self.ended = 0  # cells that a person sent
        self._in_turn = in_turn
        self._running: dict[str, _Cell] = {}
        self._in_debugger = False
        self._heard_from: object = None
        # Told by the client's side, where it can be overheard: another socket, so it may come too early or too late.
        self._sent: dict[str, float] = {}
        self._asking: dict[str, None] = {}

    @property
    def state(self) -> OwnerState | None:
        """EXECUTING, WAITING or BREAKPOINT; None: no cell is running."""
        if self._in_debugger:
            return OwnerState.BREAKPOINT
        if not self._running:
            return None
        return OwnerState.WAITING if self._running.keys() <= self._asking.keys() else OwnerState.EXECUTING

    def is_awaited(self, now: float) -> bool:
        """Whether a client has sent a request that the kernel has not begun: it will, if it has the time."""
        return any(now - sent_at < SENT_FOR for sent_at in self._sent.values())

    def hear(self, message: Mapping[str, Any], incarnation: object, now: float) -> None:
        """Take note of one message from the iopub channel. What is no answer to an execute request is no use."""
        kind, parent, content = message["header"]["msg_type"], message["parent_header"], message["content"]
        self._heard_from = incarnation
        if kind == "debug_event":
            self._hear_debugger(content)
            return
        state = content.get("execution_state") if kind == "status" else None
        if state == "starting" and not parent:
            self.forget(now)
        if parent.get("msg_type") != "execute_request":
            return
        request = parent["msg_id"]
        if kind == "execute_input":  # broadcast for everything but silent requests: those come from extensions
            cell = self._begin(request, incarnation)
            if not cell.shown:
                cell.shown, self.failed = True, False
                self.begun += 1
        elif kind == "error":
            self.failed = self.failed or (request in self._running and self._running[request].shown)
        elif state == "busy":
            self._begin(request, incarnation)
        elif state == "idle":
            self._hear_the_end(request, now)

    def sent(self, request: str, now: float) -> None:
        """A client sends an execute request over the main shell channel, where it has to wait for its turn."""
        _remember(self._sent, request, now)

    def asks(self, request: str) -> None:
        """The cell of `request` asks the person for a line of text."""
        _remember(self._asking, request, None)

    def answered(self, now: float) -> None:
        """A person has given a line of text. Whatever was waiting goes on."""
        self._asking.clear()
        self.attended(now)

    def attended(self, now: float) -> None:
        """A person has shown to be there."""
        self.used_at = now

    def replied(self, request: str, now: float) -> None:
        """The kernel has told the client that `request` is done."""
        if request in self._sent:
            self._sent[request] = min(self._sent[request], now + REPLIED_FOR - SENT_FOR)
        cell = self._running.get(request)
        if cell is not None and cell.replied_at is None:
            cell.replied_at = now

    def settle(self, now: float) -> None:
        """Drop the cells that have surely ended, although the word for it was lost on its way."""
        for request, cell in list(self._running.items()):
            if cell.replied_at is not None and now - cell.replied_at >= REPLIED_FOR:
                self._end([request], cell.replied_at)

    def forget(self, now: float, besides: object = None) -> None:
        """Drop what runs no more since its process has ended; `besides` is the process that lives."""
        gone = [request for request, cell in self._running.items() if besides is None or cell.where is not besides]
        self._end(gone, now)
        if besides is None or self._heard_from is not besides:
            self.failed = self._in_debugger = False
            self.debugger_ports = frozenset()

    def _begin(self, request: str, incarnation: object) -> _Cell:
        cell = self._running.get(request)
        if cell is None:
            if not self._running:
                self._in_debugger = False  # in a kernel that stands still, nothing begins
            cell = self._running[request] = _Cell(incarnation, self._in_turn and request in self._sent)
        self._sent.pop(request, None)
        return cell

    def _hear_the_end(self, request: str, now: float) -> None:
        cell = self._running.get(request)
        if cell is None:  # its begin was not heard: we came late, so a person may have sent it
            self._asking.pop(request, None)
            self._sent.pop(request, None)
            self.used_at = now
            return
        over = [request]
        if cell.in_turn:  # then all before it had their turn, and the word for their end was lost
            for earlier, other in self._running.items():
                if earlier == request:
                    break
                if other.in_turn and other.where is cell.where:
                    over.append(earlier)
        self._end(over, now)

    def _end(self, requests: list[str], now: float) -> None:
        for request in requests:
            self._asking.pop(request, None)
            if self._running.pop(request).shown:
                self.used_at = now if self.used_at is None else max(now, self.used_at)
                self.ended += 1
        if requests and not self._running:
            self._in_debugger = False

    def _hear_debugger(self, event: Mapping[str, Any]) -> None:
        what = event.get("event")
        if what == "stopped":
            self._in_debugger = True
        elif what in _STOPPED_NO_MORE:
            self._in_debugger = False
        elif what == "debugpySockets":
            sockets = event["body"]["sockets"]
            self.debugger_ports = frozenset(int(socket["port"]) for socket in sockets)


def _remember(requests: dict[str, T], request: str, note: T) -> None:
    """Add `request` as the newest, and forget the oldest where they are too many."""
    requests.pop(request, None)
    requests[request] = note
    if len(requests) > _REMEMBERED:
        del requests[next(iter(requests))]
