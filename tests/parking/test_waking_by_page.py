"""A page that runs a cell wakes its parked kernel, on a real server that does not look at all meanwhile."""

from __future__ import annotations

import asyncio

import pytest
from kernel_room import isolate, until
from server_room import V1, server_room

from jupyter_gpu_guard.core.model import OwnerKey, OwnerKind
from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.core.verdict import Result
from jupyter_gpu_guard.parking.registry import Entry, Phase
from jupyter_gpu_guard.server.waking import BY_USE


@pytest.mark.parametrize("protocol", [V1, None])
def test_a_cell_of_a_page_wakes_a_parked_kernel(tmp_path, monkeypatch, protocol):
    """There is no room here, so it is said what it waits for; a page that only connects wakes nobody."""
    isolate(monkeypatch, tmp_path / "home")

    async def scene():
        async with server_room(tmp_path) as room:
            kernel_id = await room.notebook("train.ipynb")
            page = await room.page(kernel_id, protocol)
            guard = room.guard.guard
            await guard.tick()
            key = OwnerKey(OwnerKind.KERNEL, kernel_id)
            root = guard.published.holder(key).owner.root
            now = guard._clock.now().wall
            entry = Entry(key, "train.ipynb", root, root, now, {"GPU-that-is-gone": 2.0**30}, Phase.PARKED)
            await asyncio.to_thread(room.guard._registry.put, entry)

            await page.receive("kernel_info_reply", page.send("shell", "kernel_info_request", {}))
            assert guard.published.outcomes == ()
            await page.end_of(page.run("1 + 1"))
            await until(lambda: guard.published.outcomes, "it was tried to resume it")
            (outcome,) = guard.published.outcomes
            assert (outcome.action, outcome.result, outcome.by) == (Action.RESUME, Result.UNSUITED, BY_USE)
            await guard.tick()
            parked = guard.published.holder(key).owner.parked
            assert parked.memory == 2.0**30
            assert parked.waiting.needed == 2.0**30

    asyncio.run(scene())
