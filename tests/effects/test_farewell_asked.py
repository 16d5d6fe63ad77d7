"""Whether a kernel gets to say what it has to save, when it only seems to be at something."""

from __future__ import annotations

import asyncio

import pytest
from shutdown_scene import verdict_on

from jupyter_gpu_guard.core.model import Holder, Owner, OwnerKey, OwnerKind, OwnerState, ProcessKey
from jupyter_gpu_guard.effects import farewell as module
from jupyter_gpu_guard.effects.farewell import Farewell
from jupyter_gpu_guard.effects.inside import WithdrawnError

ROOT = ProcessKey(4242, 77)
OWNER = Owner(OwnerKey(OwnerKind.KERNEL, "abc"), "a.ipynb", ROOT, OwnerState.IDLE)
HOLDER = Holder(OWNER, (), (ROOT,))
SAVED = {"done": ["save"], "failed": [], "left": []}


class FakeInside:
    """A kernel that seems to execute for the first `busy` questions, and then says that it has saved."""

    def __init__(self, busy: int) -> None:
        self.busy = busy

    async def ask(self, owner, question, within, unless):
        """It executes, or has saved."""
        self.busy -= 1
        if self.busy >= 0:
            raise WithdrawnError("it is executing by now")
        return SAVED

    async def answers(self, owner):
        """Promptly."""
        return True


def said(monkeypatch, busy, *, asked):
    """What comes of the farewell, and what is against a shutdown after it."""
    monkeypatch.setattr(module, "HEARD_WITHIN", 0.01)
    monkeypatch.setattr(module, "CALM_WITHIN", 0.05)
    farewell, verdict = Farewell(FakeInside(busy), lambda key: OWNER, 60.0), verdict_on(HOLDER, asked=asked)

    async def scene():
        return await farewell(verdict, HOLDER), await farewell.why_not_after(verdict, HOLDER)

    return asyncio.run(scene())


@pytest.mark.parametrize("asked", [False, True])
def test_it_is_asked_again_where_it_only_seemed_to_execute(monkeypatch, asked):
    """That its last cell has ended is heard a moment later."""
    assert said(monkeypatch, 2, asked=asked) == ("before that, save was called", None)


def test_a_rule_ends_nothing_that_could_not_be_asked(monkeypatch):
    """It may have something to save; a person who ends what executes knows what they do."""
    told, against = said(monkeypatch, 1000, asked=False)
    assert told is None
    assert against is not None
    assert said(monkeypatch, 1000, asked=True) == (None, None)
