"""What is a Holder doing? Its owner's word, refined by what its processes are seen to do. Pure."""

from __future__ import annotations

from dataclasses import replace

from .model import Holder, OwnerKind, OwnerState, Snapshot
from .window import Window, Windows


def refine(holders: tuple[Holder, ...], windows: Windows, snapshot: Snapshot) -> tuple[Holder, ...]:
    """Each Holder with the state that its processes show, where that says more than its owner's."""
    blind = snapshot.missed("activity") is not None
    return tuple(replace(holder, refined=_state(holder, windows.get(holder.owner.key), blind)) for holder in holders)


def _state(holder: Holder, window: Window | None, blind: bool) -> OwnerState | None:  # noqa: FBT001
    said = holder.owner.state
    if holder.owner.parked is not None and said is OwnerState.IDLE:
        return OwnerState.PARKED
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
