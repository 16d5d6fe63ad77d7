"""What is a Holder doing? Its owner's word, refined by what its processes are seen to do. Pure."""

from __future__ import annotations

from dataclasses import replace

from .model import Holder, OwnerKind, OwnerState, Snapshot
from .window import Window, Windows


def refine(holders: tuple[Holder, ...], windows: Windows, snapshot: Snapshot) -> tuple[Holder, ...]:
    """Each Holder with the state that its processes show, where that says more than its owner's."""
    return tuple(_refined(holder, windows.get(holder.owner.key), snapshot) for holder in holders)


def _refined(holder: Holder, window: Window | None, snapshot: Snapshot) -> Holder:
    is_terminal = holder.owner.key.kind is OwnerKind.TERMINAL
    blind = snapshot.missed("activity", *(("marks",) if is_terminal else ())) is not None
    holder = replace(holder, kernels_within=is_terminal and _has_kernels_within(holder, snapshot))
    return replace(holder, refined=_state(holder, window, blind))


def _has_kernels_within(holder: Holder, snapshot: Snapshot) -> bool:
    """Whether a process of the tree carries the mark of another one in it, which has started it as a kernel."""
    tree = {key.pid: key for key in holder.tree}
    for key in holder.tree:
        mark = snapshot.marks.get(key)
        starter = None if mark is None or mark.server is None else tree.get(mark.server)
        if starter is not None and starter != key and starter.start_ticks <= key.start_ticks:
            return True
    return False


def _state(holder: Holder, window: Window | None, blind: bool) -> OwnerState | None:  # noqa: FBT001
    said = holder.owner.state
    if holder.owner.parked is not None and said is OwnerState.IDLE:
        return OwnerState.PARKED
    if holder.kernels_within and said is OwnerState.IDLE:
        return OwnerState.UNKNOWN  # nobody but whoever has started them knows whether they run cells
    if said is OwnerState.BREAKPOINT and holder.owner.clients == 0:
        return OwnerState.EXECUTING  # nobody is there to go on: it is stuck like any other cell
    if said not in (OwnerState.IDLE, OwnerState.EXECUTING) or window is None:
        return None
    if holder.owner.key.kind is OwnerKind.TENSORBOARD:
        return None  # its visitors are its use, and loading its logs is not
    if holder.activity is not None and holder.activity.listens and window.is_visited:
        return OwnerState.SERVING
    if window.is_busy:
        return OwnerState.INPUT_BOUND
    if blind and said is OwnerState.IDLE:
        return OwnerState.UNKNOWN
    return None
