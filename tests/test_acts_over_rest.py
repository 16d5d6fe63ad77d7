"""What a person asks for over REST while something else is under way with the same kernel."""

from __future__ import annotations

import asyncio
import json

import pytest
from kernel_room import isolate
from server_room import server_room
from tornado.httpclient import HTTPClientError

from jupyter_gpu_guard.core.model import OwnerKey, OwnerKind
from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.core.verdict import Result
from jupyter_gpu_guard.effects.outcomes import outcome_of
from jupyter_gpu_guard.server import handlers


class FakeRelease:
    """A remedy that takes until `over` is set."""

    def __init__(self, clock):
        self._clock = clock
        self.over = asyncio.Event()

    def suits(self, holder):
        """Always."""
        return True

    async def carry_out(self, verdict, holder, spared):
        """Wait."""
        await self.over.wait()
        return outcome_of(verdict, holder, self._clock, Result.DONE, "nothing to give back")


def play(monkeypatch, tmp_path, scene):
    """Act `scene` with a kernel that is being released."""
    isolate(monkeypatch, tmp_path / "home")
    monkeypatch.delenv("JUPYTER_GPU_GUARD_SIMULATED_DIR", raising=False)
    root = tmp_path / "notebooks"
    root.mkdir()

    async def whole():
        async with server_room(root) as room:
            guard = room.guard.guard
            kernel_id = await room.notebook("training.ipynb")
            await guard.tick()
            release = FakeRelease(guard._clock)
            guard._enforcer._remedies = {Action.RELEASE: release}
            key = OwnerKey(OwnerKind.KERNEL, kernel_id)
            begun = guard.act(Action.RELEASE, key, "anna")
            arrived = asyncio.Event()

            def act(*wanted):
                arrived.set()
                return whole_act(*wanted)

            whole_act, guard.act = guard.act, act

            async def ask(what, meanwhile=lambda: None):
                """Ask over REST, and do something once that has arrived."""
                asked = asyncio.ensure_future(room.ask("POST", f"gpu-guard/api/v1/owners/{key}/{what}"))
                await asyncio.wait_for(arrived.wait(), 60)
                meanwhile()
                return await asked

            try:
                await scene(room, release, ask)
            finally:
                release.over.set()
                await begun

    asyncio.run(whole())


def test_what_was_asked_for_is_done_after_what_is_under_way(monkeypatch, tmp_path):
    """The answer to a shutdown is never the outcome of a release."""

    async def scene(room, release, ask):
        outcome = await ask("shutdown", release.over.set)
        assert (outcome["action"], outcome["result"]) == ("shutdown", "done")

    play(monkeypatch, tmp_path, scene)


def test_what_takes_too_long_is_named_instead(monkeypatch, tmp_path):
    """Nobody is told that a shutdown is under way when it is not, but what is, since when, and to ask again."""
    monkeypatch.setattr(handlers, "ANSWER_WITHIN", 0.2)

    async def scene(room, release, ask):
        guard = room.guard.guard
        (key,) = guard._acts
        since = guard.begun(key)
        with pytest.raises(HTTPClientError) as refusal:
            await ask("shutdown")
        assert refusal.value.code == 409
        message = json.loads(refusal.value.response.body)["message"]
        assert message == (
            f"something else is done to it (release, since {since.isoformat(timespec='seconds')}): "
            "the shutdown has not begun; ask again when that is over"
        )
        assert guard.doing(OwnerKey(OwnerKind.KERNEL, "nobody")) is None
        assert guard.begun(OwnerKey(OwnerKind.KERNEL, "nobody")) is None

    play(monkeypatch, tmp_path, scene)


def test_who_asks_for_the_same_gets_what_is_under_way(monkeypatch, tmp_path):
    """It is done once."""

    async def scene(room, release, ask):
        assert (await ask("release", release.over.set))["by"] == "anna"

    play(monkeypatch, tmp_path, scene)
