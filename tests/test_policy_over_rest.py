"""GET policy shows each value by its name and unit, and only an administrator accepts a policy that waits."""

from __future__ import annotations

import asyncio
import json
from dataclasses import fields, replace
from datetime import timedelta

import pytest
from fake_clock import NOON
from jupyter_server.auth.authorizer import Authorizer
from server_room import server_room
from tornado.httpclient import HTTPClientError

from jupyter_gpu_guard.core.budget import Account, Amount, Budget, Measure, Per
from jupyter_gpu_guard.core.impact import Impact
from jupyter_gpu_guard.core.model import OwnerKind, OwnerState
from jupyter_gpu_guard.core.policy import Idle, Match, Mode, Policy, Rule, Site
from jupyter_gpu_guard.published import Pending, Published
from jupyter_gpu_guard.server.report import report
from jupyter_gpu_guard.server.rules import effective, for_users


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


def test_yes_and_no_are_told_as_such() -> None:
    """And not as the numbers 1 and 0."""
    shown = effective(Published(policy=Policy(Mode.ENFORCE, (Rule("r", keep=True), Rule("default"))), interval=5.0))
    told = json.loads(shown.model_dump_json())["rules"]
    assert told[0]["settings"]["keep"] is True
    assert told[1]["settings"]["keep"] is False
    assert told[1]["settings"]["trust_estimates"] is False


def test_budgets_are_told_with_what_was_used_of_them() -> None:
    """By whoever runs the server: of several groups or kernels what is most; and whether it is about them at all."""
    week = Budget("week", Measure.IDLE_GIB_HOURS, 40.0, timedelta(days=7), "default", match=Match(group="students"))
    groups = replace(week, name="groups", per=Per.GROUP, match=Match(group="lab-*"))
    single = replace(week, name="single", per=Per.KERNEL, match=Match(notebook="a/**"))
    others = replace(week, name="others", match=Match(group="staff"))
    spending = {
        Account("week", week.measure, "user"): Amount(12.25, 30.0),
        Account("groups", week.measure, "group:lab-a"): Amount(1.0),
        Account("groups", week.measure, "group:lab-b"): Amount(3.0),
        Account("single", week.measure, "kernel:a"): Amount(2.0),
        Account("single", week.measure, "kernel:b"): Amount(7.0),
    }
    state = Published(
        policy=replace(Policy(), budgets=(week, groups, single, others)),
        interval=5.0,
        site=Site("ada", frozenset({"students", "lab-a", "lab-b"})),
        spending=spending,
    )
    told = {each.name: each for each in effective(state).budgets}
    assert {name: each.used for name, each in told.items()} == {"week": 12.25, "groups": 3, "single": 7, "others": 0}
    assert {name: each.applies_to_me for name, each in told.items()} == {
        "week": True,
        "groups": True,
        "single": True,
        "others": False,
    }
    assert told["week"].model_dump() == {
        "name": "week",
        "match": {"group": "students"},
        "per": "user",
        "measure": "idle_gib_hours",
        "window_seconds": 604800.0,
        "used": 12.25,
        "unknown_seconds": 30.0,
        "limit": 40.0,
        "then": "default",
        "applies_to_me": True,
    }


FAULT = "/etc/jupyter/gpu-guard/policy.d/site.yaml:3:1: 'x' is not known"
GOOD = replace(Policy(Mode.ENFORCE), source="/etc/jupyter/gpu-guard/policy.d/site.yaml")


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (replace(GOOD, fault=FAULT), "The newest files of the policy could not be used; the one before is in force."),
        (
            replace(Policy(), fault=FAULT),
            "The files of the policy could not be used; nothing is ended until they are mended.",
        ),
        (replace(GOOD, fault=FAULT, fault_is_own=True), FAULT),
        (GOOD, None),
    ],
)
def test_what_is_wrong_with_files_of_the_site_is_for_administrators(policy: Policy, told: str | None) -> None:
    """Others are told that it is so, and everything about a file of their own."""
    state = Published(policy=policy, interval=5.0)
    assert effective(for_users(state)).fault == told
    assert report(for_users(state)).policy.fault == told
    assert effective(state).fault == policy.fault


def test_a_policy_that_waits_is_told_to_everybody_but_not_where_it_is() -> None:
    """Whom it would touch is their own business."""
    waits = Pending(replace(GOOD, digest="new"), NOON, Impact((), 3))
    state = Published(policy=GOOD, interval=5.0, pending=waits)
    shown, whole = report(for_users(state)).policy.pending, report(state).policy.pending
    assert (shown.hash, shown.source, shown.holders) == ("new", "", 3)
    assert whole.source == GOOD.source


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


def test_a_server_tells_users_and_administrators_apart(tmp_path) -> None:
    """Report, policy and health of the same server, asked by the one and by the other."""

    async def play() -> None:
        async with server_room(tmp_path) as room:
            room.guard.guard.refuse(FAULT)
            address = "gpu-guard/api/v1"

            async def said() -> str:
                answers = [await room.ask("GET", f"{address}/{what}") for what in ("report", "policy", "health")]
                assert answers[0]["policy"]["fault"] == answers[1]["fault"]
                assert answers[1]["fault"] in answers[2]["problems"]
                return json.dumps(answers)

            assert FAULT in await said()
            room.app.web_app.settings["authorizer"] = FakeAuthorizer(parent=room.app)
            assert "site.yaml" not in await said()

    asyncio.run(play())
