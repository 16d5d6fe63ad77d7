"""Keeping within limits: how long, how often in a day, and for which reason; an administrator may go beyond."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from fake_clock import NOON

from jupyter_gpu_guard.core.entry import Kind
from jupyter_gpu_guard.core.model import Holder, OwnerKey, OwnerKind
from jupyter_gpu_guard.core.policy import KeepLimits, Rule
from jupyter_gpu_guard.keeping import (
    KeepRefusedError,
    KeepTooLongError,
    KeptTooOftenError,
    ReasonMissingError,
    counting,
    refusal,
)
from jupyter_gpu_guard.protocols import Grant
from tests.core.build import owner
from tests.test_chronicle import Play
from tests.test_guard import KEY, POLICY

HOUR = timedelta(hours=1)


def holder(name: str = "a", notebook: str = "n.ipynb") -> Holder:
    """A kernel of a notebook."""
    return Holder(owner(name, notebook=notebook))


def grants(*hours: float, of: str = "a", notebook: str | None = "n.ipynb") -> list[Grant]:
    """One for each, so many hours ago."""
    return [Grant(OwnerKey(OwnerKind.KERNEL, of), notebook, NOON - each * HOUR) for each in hours]


def rule(**limits) -> Rule:
    """A rule with these limits."""
    return Rule("students", keep_limits=KeepLimits(**limits))


def test_grants_count_for_the_notebook_and_for_the_kernel():
    """Neither another kernel nor another name starts the count anew; other notebooks have theirs."""
    of_notebook = grants(1, of="an earlier kernel")
    of_kernel = grants(2, notebook="its old name.ipynb")
    others = [*grants(3, of="b", notebook="other.ipynb"), *grants(4, of="terminal", notebook=None)]
    found = counting([*of_notebook, *of_kernel, *others], holder(), NOON)
    assert found == [*of_kernel, *of_notebook]


def test_a_day_is_24_hours_and_rolls():
    """A grant counts until just before it is a day old; then one more is allowed."""
    limited = rule(per_day=2)
    earlier = grants(1, 23.9)
    refused = refusal(limited, holder(), HOUR, "", earlier, NOON)
    assert isinstance(refused, KeptTooOftenError)
    assert refused.again_at == NOON + timedelta(hours=0.1)
    assert refusal(limited, holder(), HOUR, "", earlier, refused.again_at) is None


def test_more_grants_than_the_rule_allows_now():
    """After the limit was lowered it is again allowed when so many have become a day old that one is missing."""
    refused = refusal(rule(per_day=1), holder(), HOUR, "", grants(1, 5, 20), NOON)
    assert isinstance(refused, KeptTooOftenError)
    assert refused.again_at == NOON + 23 * HOUR


def test_a_limit_of_none_at_all():
    """It is never allowed, and no time is promised."""
    refused = refusal(rule(per_day=0), holder(), HOUR, "", [], NOON)
    assert isinstance(refused, KeptTooOftenError)
    assert refused.again_at is None


def test_without_limits_anything_goes():
    """By default any number of times, for eight hours, without a reason."""
    assert refusal(Rule("default"), holder(), 8 * HOUR, "", grants(*range(20)), NOON) is None
    assert isinstance(refusal(Rule("default"), holder(), 8.1 * HOUR, "", [], NOON), KeepTooLongError)


def scene(folder, **limits) -> Play:
    """A guard whose rule limits keeping."""
    (only,) = POLICY.rules
    return Play(folder, replace(POLICY, rules=(replace(only, keep_limits=KeepLimits(**limits)),)))


def test_a_rule_may_want_a_reason(tmp_path):
    """Without one nothing is kept, not even by an administrator; with one it is."""

    async def play():
        it = scene(tmp_path, reason_required=True)
        await it.pass_time(5)
        for beyond in (False, True):
            with pytest.raises(ReasonMissingError, match="default"):
                await it.guard.keep(KEY, HOUR, "", "anna", beyond_limits=beyond)
        assert it.guard.published.leases == {}
        assert (await it.guard.keep(KEY, HOUR, "rebuttal", "anna")).reason == "rebuttal"

    asyncio.run(play())


def test_so_often_a_day_over_a_restart(tmp_path):
    """The count goes on in the next server; how often is left is published; a refusal keeps nothing."""

    async def play():
        first = scene(tmp_path, per_day=2)
        await first.pass_time(5)
        await first.guard.keep(KEY, HOUR, "", "anna")
        assert first.guard.published.keeps_left(first.guard.published.holder(KEY)) == 2  # as of the last look
        await first.pass_time(5)
        assert first.guard.published.keeps_left(first.guard.published.holder(KEY)) == 1
        second = scene(tmp_path, per_day=2)
        second.clock.advance(600)
        await second.pass_time(5)
        await second.guard.keep(KEY, HOUR, "", "anna")
        await second.guard.unkeep(KEY, "anna")
        await second.pass_time(5)
        assert second.guard.published.keeps_left(second.guard.published.holder(KEY)) == 0
        with pytest.raises(KeptTooOftenError):
            await second.guard.keep(KEY, HOUR, "", "anna")
        assert second.guard.published.leases == {}
        assert [entry.kind for entry in second.journal.of(Kind.KEPT, Kind.UNKEPT)] == [Kind.KEPT, Kind.UNKEPT]

    asyncio.run(play())


def test_two_at_once_are_counted_as_two(tmp_path):
    """Of two that ask at the same moment for the last one, one gets it."""

    async def play():
        it = scene(tmp_path, per_day=1)
        await it.pass_time(5)
        asked = [it.guard.keep(KEY, HOUR, "", name) for name in ("anna", "bert")]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert sorted(isinstance(answer, KeepRefusedError) for answer in answers) == [False, True]

    asyncio.run(play())


def test_beyond_the_limits_by_right(tmp_path):
    """An administrator may keep it longer and more often; that it was by right is told."""

    async def play():
        it = scene(tmp_path, per_day=1, longest=HOUR)
        await it.pass_time(5)
        await it.guard.keep(KEY, HOUR, "", "anna")
        lease = await it.guard.keep(KEY, 9 * HOUR, "", "root", beyond_limits=True)
        assert lease.until == it.clock.now().wall + 9 * HOUR
        within, beyond = it.journal.of(Kind.KEPT)
        assert within.detail == ""
        assert "administrator" in beyond.detail
        assert beyond.by == "root"

    asyncio.run(play())
