"""Asks the helper, and ends it if it does not answer."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Literal

from .answer import Answer, State

if TYPE_CHECKING:
    from jupyter_gpu_guard.core.model import ProcessKey

Do = Literal["look", "park", "resume", "free"]

LOOK_WITHIN = 20.0  # seconds, most of which it takes to load the driver
LOCK_WITHIN = 10.0  # seconds for the driver to end what the process has begun
ACT_WITHIN = 300.0  # seconds; tens of GiB take tens of seconds
_SPARE = 5.0  # seconds that the system has to end a helper that is late
_MODULE = "jupyter_gpu_guard.parking.operate"
_NOT_PASSED_ON = {"CUDA_VISIBLE_DEVICES"}  # what the server may use is not what the kernel does
INSTALL = "it needs the package cuda-bindings: pip install 'jupyter-gpu-guard[park]'"


def why_not_installed() -> str | None:
    """How to install what parking needs, in a sentence; None: it is there."""
    try:
        major, minor = (int(part) for part in version("cuda-bindings").split(".")[:2])
    except (PackageNotFoundError, ValueError):
        return INSTALL
    return None if (major, minor) >= (12, 8) else f"{INSTALL} (12.8 or later)"


async def ask_helper(do: Do, key: ProcessKey, within: float | None = None) -> Answer:
    """Have the helper `do` this to the process `key`, in at most `within` seconds. A failure of any kind is an Answer.

    Cancelled, it takes the helper with it.
    """
    limit = within if within is not None else LOOK_WITHIN if do in ("look", "free") else ACT_WITHIN
    request = {"do": do, "pid": key.pid, "start_ticks": key.start_ticks, "lock_seconds": LOCK_WITHIN, "within": limit}
    try:
        helper = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            _MODULE,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # an interrupt at the server's terminal is none of its business
            cwd="/",  # Python looks for modules where it is started, and that is full of people's files
            env={name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON},
        )
    except OSError as fault:
        return _unanswered(do, f"the helper could not be started ({fault.strerror or fault})")
    try:
        said, _ = await asyncio.wait_for(helper.communicate(json.dumps(request).encode()), limit + _SPARE)
    except asyncio.TimeoutError:
        return _unanswered(do, f"the driver has not answered within {limit:g} s")
    finally:
        if helper.returncode is None:
            with suppress(ProcessLookupError):
                helper.kill()
            await helper.wait()
    return _read(do, said, helper.returncode)


def _read(do: Do, said: bytes, code: int | None) -> Answer:
    try:
        found = json.loads(said)
        return Answer(State(found["state"]), found["step"], found["fault"], float(found["seconds"]))
    except (ValueError, KeyError, TypeError):
        return _unanswered(do, f"the helper has ended without an answer (status {code})")


def _unanswered(do: Do, why: str) -> Answer:
    return Answer(State.UNKNOWN, do, why, 0.0)
