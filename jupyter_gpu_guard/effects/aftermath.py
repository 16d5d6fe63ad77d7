"""What was seen after a shutdown, in words and in facts. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpu_guard.core.model import is_known
from jupyter_gpu_guard.core.verdict import Result, Survivor
from jupyter_gpu_guard.effects.held import Held, freed
from jupyter_gpu_guard.effects.outcomes import say_bytes

if TYPE_CHECKING:
    from jupyter_gpu_guard.core.model import Owner, ProcessKey


def survivors_of(after: Held | None) -> tuple[Survivor, ...]:
    """The processes that still hold a device."""
    if after is None:
        return ()
    return tuple(
        Survivor(grip.key, grip.device, grip.process.state if grip.process is not None else "X") for grip in after.grips
    )


def say(result: Result, before: Held | None, after: Held | None, living: list[ProcessKey], took: float) -> str:
    """What was seen in the driver, in a sentence."""
    by_itself = "it had ended by itself"
    ended = f"ended in {took:.1f} s" if result is Result.DONE else by_itself
    gone = freed(before, after)
    if gone and result is Result.DONE:
        ended = f"freed {say_bytes(gone)} in {took:.1f} s"
    elif gone:
        ended = f"{by_itself}; {say_bytes(gone)} are free again"
    if after is None:
        return f"{ended}; could not verify that its GPU memory is free: the devices did not answer"
    if after.grips:
        amount = say_bytes(after.memory) if is_known(after.memory) else "GPU memory"
        who = {f"pid {survivor.key.pid} (state {survivor.state})" for survivor in survivors_of(after)}
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


def say_elsewhere(result: Result, owner: Owner, took: float) -> str:
    """The same for an owner whose processes are not known here."""
    ended = f"ended in {took:.1f} s" if result is Result.DONE else "it had ended by itself"
    inside = owner.board is not None and owner.board.inside
    where = "ran within the server's own process" if inside else "did not run here"
    return f"{ended}; it {where}, so nothing could be verified"
