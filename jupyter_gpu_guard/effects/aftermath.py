"""What was seen after a shutdown, in words and in facts. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpu_guard.core.model import is_known
from jupyter_gpu_guard.core.verdict import Result, Survivor
from jupyter_gpu_guard.effects.held import Held, freed, freed_on, say_devices
from jupyter_gpu_guard.effects.outcomes import say_bytes
from jupyter_gpu_guard.effects.signals import Sent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpu_guard.core.model import Owner, Process, ProcessKey

_REFUSALS: Mapping[Sent | None, str] = {
    Sent.NO_PERMISSION: "there is no permission to signal it",
    Sent.NOT_SUPPORTED: "this system has no safe way to signal it",
    Sent.REFUSED: "it is never signalled",
}


def survivors_of(after: Held | None) -> tuple[Survivor, ...]:
    """The processes that still hold a device."""
    if after is None:
        return ()
    return tuple(
        Survivor(grip.key, grip.device, grip.process.state if grip.process is not None else "X") for grip in after.grips
    )


def say(
    result: Result,
    before: Held | None,
    after: Held | None,
    living: list[ProcessKey],
    took: float,
    sent: Mapping[ProcessKey, Sent],
) -> str:
    """What was seen in the driver, in a sentence. `sent` is what became of the last signal to each."""
    by_itself = "it had ended by itself"
    ended = f"ended in {took:.1f} s" if result is Result.DONE else by_itself
    gone = freed(before, after)
    where = say_devices(freed_on(before, after), before.labels) if before is not None else None
    on = f" on {where}" if where else ""
    if gone and result is Result.DONE:
        ended = f"freed {say_bytes(gone)}{on} in {took:.1f} s"
    elif gone:
        ended = f"{by_itself}; {say_bytes(gone)} are free again{on}"
    if after is None:
        return f"{ended}; could not verify that its GPU memory is free: the devices did not answer"
    if after.grips:
        amount = say_bytes(after.memory) if is_known(after.memory) else "GPU memory"
        who = {f"pid {s.key.pid} ({_state(s.state, sent.get(s.key))})" for s in survivors_of(after)}
        return f"{ended if gone else ended.partition(' in ')[0]}, but {amount} still held by {', '.join(sorted(who))}"
    if not after.whole:
        return f"{ended}; could not verify that its GPU memory is free: not every device answered"
    if not gone:
        had = before is None or before.grips
        ended += "; the driver lists none of its processes any more" if had else "; it held no GPU memory"
    if living:
        count = f"{len(living)} processes" if len(living) > 1 else "1 process"
        ended += f"; {count} that it had started, without GPU memory, left alone"
    return ended


def say_it_lives(pid: int, process: Process | None, sent: Sent | None) -> str:
    """Why an owner's first process is still there, in a sentence."""
    who = f"its process, pid {pid},"
    if sent in _REFUSALS:
        return f"{who} cannot be ended: {_REFUSALS[sent]}"
    if process is not None and process.state == "D":
        return f"{who} does not end: it waits in a driver or for a disk (state D), and ends once that is over"
    return f"{who} does not end"


def _state(letter: str, sent: Sent | None) -> str:
    return f"state {letter}, {_REFUSALS[sent]}" if sent in _REFUSALS else f"state {letter}"


def say_elsewhere(result: Result, owner: Owner, took: float) -> str:
    """The same for an owner whose processes are not known here."""
    ended = f"ended in {took:.1f} s" if result is Result.DONE else "it had ended by itself"
    inside = owner.board is not None and owner.board.inside
    where = "ran within the server's own process" if inside else "did not run here"
    return f"{ended}; it {where}, so nothing could be verified"
