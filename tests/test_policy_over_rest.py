"""GET policy shows each value by its name and unit, and only an administrator accepts a policy that waits."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from datetime import timedelta

import pytest
from jupyter_server.auth.authorizer import Authorizer
from server_room import server_room
from tornado.httpclient import HTTPClientError

from jupyter_gpu_guard.core.model import OwnerKind, OwnerState
from jupyter_gpu_guard.core.policy import Idle, Match, Mode, Policy, Rule
from jupyter_gpu_guard.published import Published
from jupyter_gpu_guard.server.rules import effective


def test_each_value_of_a_rule_is_told_with_its_unit() -> None:
    """No part of a rule is missing, what is not set or never is null, and a match tells only what it asks."""
    rule = Rule(
        "r",
        Match(owner=OwnerKind.KERNEL, notebook="a/**"),
        Idle(lasting=None),
        states={OwnerState.EXECUTING: timedelta(hours=6)},
    )
    shown = effective(Published(policy=Policy(Mode.ENFORCE, (rule, Rule("default"))), interval=5.0))
    (first, last) = shown.rules
    assert first.match == {"owner": "kernel", "notebook": "a/**"}
    assert last.match == {}
    assert first.settings["idle.for_seconds"] is None
    assert last.settings["idle.for_seconds"] == 7200
    assert first.settings["states.executing_seconds"] == 6 * 3600
    assert last.settings["idle.memory_above_bytes"] == 512 * 2**20
    assert last.settings["keep.longest_seconds"] == 8 * 3600
    assert [(stage.do, stage.after_seconds) for stage in last.ladder] == [("warn", 0.0), ("shutdown", 900.0)]
    told = {name.partition(".")[0].partition("_seconds")[0] for name in first.settings}
    parts = {part.name for part in fields(rule)} - {"name", "match", "ladder", "keep_limits"}
    assert parts <= told


class FakeAuthorizer(Authorizer):
    """Lets everybody do everything but administer."""

    def is_authorized(self, handler, user, action, resource) -> bool:
        """Whether it is no matter of administrators."""
        return resource != "gpu_guard:admin"


def test_accepting_needs_the_administrators_right(tmp_path) -> None:
    """An authorizer is asked for it; what anybody may do is not touched by that."""

    async def play() -> None:
        async with server_room(tmp_path) as room:
            room.app.web_app.settings["authorizer"] = FakeAuthorizer(parent=room.app)
            address = "gpu-guard/api/v1/policy"
            shown = await room.ask("GET", address)
            assert (shown["mode"], shown["pending"]) == ("observe", None)
            with pytest.raises(HTTPClientError) as refusal:
                await room.ask("POST", f"{address}/accept", {"hash": "x"})
            assert refusal.value.code == 403

    asyncio.run(play())
