"""What people do with kernels, side by side on one real server under the quick policy."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import datetime, timedelta

import websocket

from .lab import GPU, TOKEN, Kernel, Lab, start_ticks, until


def _reconnect(lab: Lab, kernel: Kernel) -> None:
    """Open the kernel's channels as a page does, and close them again, as a laptop that changes networks."""
    address = f"{lab.url.replace('http', 'ws')}api/kernels/{kernel.id}/channels?token={TOKEN}"
    websocket.create_connection(address, timeout=20).close()


def test_busy_pooled_and_reconnecting_kernels(lab: Lab) -> None:
    """A silent long cell is only told; a worker pool is one row and ends with its kernel; reconnects are no use."""
    busy = lab.start_kernel("busy.ipynb")
    busy.run(GPU + "gpu.hold('4 GiB')")
    busy.begin("import time; time.sleep(300)")
    pool = lab.start_kernel("pool.ipynb")
    code = (
        "from concurrent.futures import ProcessPoolExecutor\n"
        "def hold(_):\n"
        "    import os, time\n"
        "    gpu.hold('0.5 GiB'); time.sleep(1); return os.getpid()\n"
        "pool = ProcessPoolExecutor(2)\n"
        "print(*pool.map(hold, range(2)))\n"
    )
    workers = {int(pid) for pid in pool.run(GPU + code).split()}
    assert len(workers) == 2
    restless = lab.start_kernel("restless.ipynb")
    restless.run(GPU + "gpu.hold('2 GiB')")

    row = until(lambda: (h := lab.holder(pool.id)) and h["memory_bytes"] and h, "the pool's row")
    assert row["memory_bytes"] == 2**30
    assert {process["pid"] for process in row["holdings"][0]["processes"]} == workers

    end = time.monotonic() + 60
    while lab.outcome(restless.id) is None:
        with suppress(websocket.WebSocketBadStatusException):  # once the kernel is gone
            _reconnect(lab, restless)
        time.sleep(2)
        assert time.monotonic() < end, "reconnects kept the kernel alive"
    until(lambda: lab.outcome(pool.id), "the pool's end")
    assert lab.outcome(pool.id)["result"] == "done"
    assert [start_ticks(pid) for pid in workers] == [None, None]

    # The busy one has been told, without a deadline, and lives.
    hint = until(lambda: lab.notice(busy.id), "the hint")
    assert (hint["next_action"], hint["deadline"]) == (None, None)
    time.sleep(5)
    holder = lab.holder(busy.id)
    assert (holder["state"], holder["protections"]) == ("executing", ["executing"])
    assert lab.outcome(busy.id) is None
    assert start_ticks(busy.pid) is not None

    # A new kernel for the same notebook starts with clean clocks and gets its full time.
    again = lab.start_kernel("restless.ipynb")
    started = datetime.fromisoformat(until(lambda: lab.holder(again.id), "the new row")["started_at"])
    again.run(GPU + "gpu.hold('1 GiB')")
    notice = until(lambda: lab.notice(again.id), "the new kernel's warning")
    assert datetime.fromisoformat(notice["given_at"]) - started >= timedelta(seconds=8)
    deadline = datetime.fromisoformat(notice["deadline"])
    assert deadline - datetime.fromisoformat(notice["given_at"]) >= timedelta(seconds=12)
