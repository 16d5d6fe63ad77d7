"""The checks of parking: what the guard's own helper does to a real process, or to one of the stand-in."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from jupyter_gpu_guard.parking.answer import State
from jupyter_gpu_guard.parking.asking import ask_helper, why_not_installed
from jupyter_gpu_guard.parking.target import lives
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses

from .checks import GIB, Scene, Seen, listed, until, used

if TYPE_CHECKING:
    from jupyter_gpu_guard.core.model import ProcessKey

    from .workers import Worker

AMOUNT = 4 * GIB


def park_and_resume(scene: Scene) -> Seen:
    """A process that is parked gives its memory back, and has all of it again once it is resumed."""
    return _parked_and_resumed(scene, scene.start())


def park_and_resume_torch(scene: Scene) -> Seen:
    """So does one that uses PyTorch."""
    if scene.start_torch is None:
        return Seen("not checked", "PyTorch is not installed here")
    return _parked_and_resumed(scene, scene.start_torch())


def parked_and_ended(scene: Scene) -> Seen:
    """A parked process can be ended, and the driver does not stumble over that."""
    worker = scene.start()
    try:
        refusal = _park(worker)
        if refusal is not None:
            return refusal
        key = _key(worker)
        worker.kill()
        ended = until(lambda: not lives(key), 30)
        return Seen("it lives on" if ended is None else "ended", f"after {ended} s; listed are {sorted(listed(scene))}")
    finally:
        worker.bury()


def _parked_and_resumed(scene: Scene, worker: Worker) -> Seen:
    try:
        worker.hold(AMOUNT)
        worker.mark()
        wanted, held, before = worker.checksum(), listed(scene).get(worker.pid), used(scene)
        began = time.monotonic()
        refusal = _park(worker)
        if refusal is not None:
            return refusal
        parking = time.monotonic() - began
        unlisted = until(lambda: not listed(scene).get(worker.pid), 10)
        freed = before - used(scene)
        began = time.monotonic()
        answer = asyncio.run(ask_helper("resume", _key(worker)))
        resuming = time.monotonic() - began
        if answer.state is not State.RUNNING:
            return Seen(f"not resumed: {answer.state.value}", str(answer.fault))
        found = worker.checksum()
        said = f"{freed / GIB:.2f} GiB were freed in {parking:.1f} s, back after {resuming:.1f} s"
        if unlisted is None:
            return Seen("still listed", f"{said}; held were {held}")
        if freed < AMOUNT:
            return Seen("not freed", said)
        return Seen("the same" if found == wanted else "something else", said)
    finally:
        worker.bury()


def _park(worker: Worker) -> Seen | None:
    """Park it; or why it is not."""
    missing = why_not_installed()
    if missing is not None:
        return Seen("not checked", missing)
    answer = asyncio.run(ask_helper("park", _key(worker)))
    return None if answer.state is State.CHECKPOINTED else Seen(f"not parked: {answer.state.value}", str(answer.fault))


def _key(worker: Worker) -> ProcessKey:
    process = ProcfsProcesses().identify(worker.pid)
    assert process is not None
    return process.key


PARKING = (park_and_resume, park_and_resume_torch, parked_and_ended)
