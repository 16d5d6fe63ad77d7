"""A command that is told on its standard input."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from asyncio.subprocess import PIPE, STDOUT
from typing import TYPE_CHECKING

from . import TIMEOUT, NotToldError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .message import Message

MOST_OUTPUT = 500  # characters of it that are shown
_ENDED_WITHIN = 1.0  # seconds after it was killed


class CommandTeller:
    """Runs `arguments` with the message as JSON on standard input. Exit status 0: it has told somebody.

    The command has a process group of its own, which is killed with all that is in it if it is not over in time.
    """

    name = "command"

    def __init__(self, arguments: Sequence[str], timeout: float = TIMEOUT) -> None:
        self._arguments = tuple(arguments)
        self._timeout = timeout
        self.place = os.path.basename(self._arguments[0])  # its arguments may hold secrets  # noqa: PTH119

    async def tell(self, message: Message) -> None:
        """Run the command once. Raises NotToldError."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._arguments, stdin=PIPE, stdout=PIPE, stderr=STDOUT, start_new_session=True
            )
        except (OSError, ValueError) as error:
            raise NotToldError(f"it cannot be started ({getattr(error, 'strerror', None) or error})") from None
        said: list[bytes] = []
        reading = asyncio.create_task(_read(process, said))
        try:
            await asyncio.wait_for(_over(process, json.dumps(message.whole).encode()), self._timeout)
        except asyncio.TimeoutError:
            if process.returncode is None:
                raise NotToldError(f"it was not over within {self._timeout:g} s, and was killed") from None
        finally:
            await _end(process)
            reading.cancel()
        if process.returncode:
            raise NotToldError(f"exit status {process.returncode}{_shown(said)}")


async def _over(process: asyncio.subprocess.Process, told: bytes) -> None:
    """Hand over what is told, and wait for the end. Whoever does not read it may still do their part."""
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            process.stdin.write(told)
            await process.stdin.drain()
        process.stdin.close()
    await process.wait()


async def _read(process: asyncio.subprocess.Process, said: list[bytes]) -> None:
    """Keep the beginning of what it prints, and throw away the rest, so that it never waits for a reader."""
    kept = 0
    while process.stdout is not None and (part := await process.stdout.read(2**16)):
        if kept < MOST_OUTPUT:
            said.append(part[: MOST_OUTPUT - kept])
            kept += len(said[-1])


def _shown(said: Sequence[bytes]) -> str:
    text = " ".join(b"".join(said).decode(errors="replace").split())
    printable = "".join(letter if letter.isprintable() else "?" for letter in text)
    return f": {printable}" if printable else ""


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the whole group, unless its leader has ended: then its number may be somebody else's by now."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(asyncio.TimeoutError):  # whoever has left the group may yet hold its output open
        await asyncio.wait_for(process.wait(), _ENDED_WITHIN)
