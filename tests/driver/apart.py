"""`NvmlDevices` in a process of its own, so that it finds the stand-in library as it would find NVIDIA's.

Run as a program this is the other side: one reading for each line of input.
"""

from __future__ import annotations

import base64
import json
import pickle
import subprocess
import sys
import time
from typing import Any

from jupyter_gpu_guard.protocols import DevicesSeen


class NvmlApart:
    """`Devices` over a pipe. `ahead` and `wall_ahead` are seconds by which its clocks run ahead of the real ones.

    `namespaced` None: it looks for itself. `prefix` is a command that runs a command.
    """

    simulated = False

    def __init__(
        self,
        environment: dict[str, str],
        *,
        namespaced: bool | None = False,
        prelude: str = "",
        prefix: tuple[str, ...] = (),
        **options: object,
    ) -> None:
        given = json.dumps({"namespaced": namespaced, "prelude": prelude, "options": options})
        self._process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "tests.driver.apart", given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.ahead = 0.0
        self.wall_ahead = 0.0

    def read(self) -> DevicesSeen:
        """One reading over there."""
        return self._ask("read")

    def close(self) -> None:
        """Close over there."""
        self._ask("close")

    def cost(self, times: int) -> float:
        """CPU seconds of one reading over there, the mean of so many, five seconds apart by its clock."""
        return self._ask(f"cost {times}")

    def bury(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _ask(self, command: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{self.ahead} {self.wall_ahead} {command}\n")
        self._process.stdin.flush()
        return pickle.loads(base64.b64decode(self._process.stdout.readline()))


def _serve(*, namespaced: bool | None, prelude: str, options: dict[str, Any]) -> None:
    from jupyter_gpu_guard.sources.nvml import NvmlDevices

    exec(prelude, {})
    now = ahead = wall_ahead = 0.0  # seconds; a clock that the machine's own wall clock cannot disturb
    epoch = time.time() - time.monotonic()
    devices = NvmlDevices(
        lambda: now + ahead, lambda: epoch + now + ahead + wall_ahead, namespaced=namespaced, **options
    )
    for line in sys.stdin:
        first, second, command, *rest = line.split()
        now, ahead, wall_ahead = time.monotonic(), float(first), float(second)
        answer: object = None
        if command == "read":
            answer = devices.read()
        elif command == "close":
            devices.close()
        elif command == "cost":
            before = time.process_time()
            for _ in range(int(rest[0])):
                now += 5
                devices.read()
            answer = (time.process_time() - before) / int(rest[0])
        print(base64.b64encode(pickle.dumps(answer)).decode(), flush=True)


if __name__ == "__main__":
    _serve(**json.loads(sys.argv[1]))
