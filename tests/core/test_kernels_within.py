"""A terminal in which something else runs kernels: they may be at work while nobody types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from jupyter_gpu_guard.core.explain import sentence
from jupyter_gpu_guard.core.model import Mark, OwnerKind, OwnerState, Process, ProcessKey, Snapshot
from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.core.rehearse import Carried, rehearse
from jupyter_gpu_guard.core.verdict import Code, Verdict

from .build import client, device, key, owner, policy, process, rule, snapshot

SHELL, WITHIN, KERNEL = process(100, 10), process(110, 100), process(120, 110)
NOTEBOOK = "/home/anna/thesis.ipynb"
MARKED = {KERNEL.key: Mark(WITHIN.key.pid, NOTEBOOK)}
SOON = policy(replace(rule(lasting="1m", notice="1m"), states={OwnerState.EXECUTING: None}))


def story(
    marks: Mapping[ProcessKey, Mark] = MARKED,
    rows: tuple[Process, ...] = (SHELL, WITHIN, KERNEL),
    *,
    kind: OwnerKind = OwnerKind.TERMINAL,
    missed: tuple[str, ...] = (),
) -> tuple[list[Verdict], OwnerState]:
    """Ten minutes without compute: what is done to the terminal, and its state at the end."""
    carried, acts, state = Carried(), [], OwnerState.DEAD
    for now in range(0, 600, 10):
        seen: Snapshot = snapshot(
            *rows,
            owners=[owner("1", kind=kind)],
            clients=[client(120)],
            devices=[device()],
            missed=missed,
            now=float(now),
        )
        scene = rehearse(replace(seen, marks=marks), carried, SOON, 20.0)
        acts += [act.verdict for act in scene.acts]
        carried = scene.carried
        (holder,) = carried.perceived.attribution.holders
        state = holder.state
    return acts, state


def test_a_terminal_in_which_another_server_has_kernels_is_only_warned() -> None:
    """However long it rests; and the warning says why nothing more follows."""
    acts, state = story()
    assert [act.action for act in acts] == [Action.WARN]
    assert state is OwnerState.UNKNOWN
    assert acts[0].next_action is None
    (why,) = (reason for reason in acts[0].reasons if reason.code is Code.STATE_WARNS_ONLY)
    assert sentence(why).startswith("Another server or program runs kernels in it")


@pytest.mark.parametrize(
    ("marks", "rows"),
    [
        ({}, (SHELL, WITHIN, KERNEL)),
        # This very server may have been started by a kernel of another one: all that it starts carries that mark.
        ({row.key: Mark(7, NOTEBOOK) for row in (SHELL, WITHIN, KERNEL)}, (process(7), SHELL, WITHIN, KERNEL)),
        ({KERNEL.key: Mark(KERNEL.key.pid, NOTEBOOK)}, (SHELL, WITHIN, KERNEL)),
        ({KERNEL.key: Mark(None, None)}, (SHELL, WITHIN, KERNEL)),
        # Whoever has started it has ended, and its number has passed to a younger one.
        ({KERNEL.key: Mark(130, NOTEBOOK)}, (SHELL, WITHIN, KERNEL, process(130, 100))),
        ({key(121): Mark(110, NOTEBOOK)}, (SHELL, WITHIN, KERNEL)),
    ],
    ids=["unmarked", "all from outside", "by itself", "no server", "reused", "gone"],
)
def test_any_other_mark_spares_no_terminal(marks: Mapping[ProcessKey, Mark], rows: tuple[Process, ...]) -> None:
    """It is judged as it was."""
    acts, state = story(marks, rows)
    assert [act.action for act in acts][:2] == [Action.WARN, Action.SHUTDOWN]
    assert state is OwnerState.IDLE


def test_marks_that_cannot_be_read_make_a_terminal_unknown() -> None:
    """Unknown is never idle. Of kernels the server knows what they do."""
    assert story({}, missed=("marks",))[1] is OwnerState.UNKNOWN
    assert [act.action for act in story({}, missed=("marks",))[0]] == [Action.WARN]
    assert story({}, missed=("marks",), kind=OwnerKind.KERNEL)[1] is OwnerState.IDLE
