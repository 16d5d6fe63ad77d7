"""Who slipped away before it was seen is known by what it has inherited."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jupyter_gpu_guard.core.attribute import attribute
from jupyter_gpu_guard.core.model import Mark, Owner, OwnerKind, OwnerState, Process, ProcessKey, Snapshot

from .build import SERVER, client, key, owner, process, snapshot
from .test_attribute import charged, leftover, strange, the, watch

NOTEBOOK = "/home/ada/work/a.ipynb"
OURS = Mark(SERVER, NOTEBOOK)


def marked(
    *processes: Process, owners: tuple[Owner, ...], marks: dict[ProcessKey, Mark], on: tuple[int, ...] = (300,)
) -> Snapshot:
    """A Snapshot in which the processes `on` hold a device."""
    seen = snapshot(*processes, owners=owners, clients=[client(pid) for pid in on])
    return replace(seen, marks=marks)


def test_a_daemon_with_the_marks_of_a_kernel_is_its_own() -> None:
    """Its parent is init and its session its own, and yet it came from there; it stays so without the marks."""
    seen = marked(process(100, SERVER), process(300), owners=(owner("a", 100),), marks={key(100): OURS, key(300): OURS})
    found = attribute(seen, {})
    assert charged(the("a", found)) == [300]
    assert strange(found) == 0
    later = attribute(replace(seen, marks={}), found.lineage)
    assert charged(the("a", later)) == [300]


def test_a_daemon_of_an_earlier_run_was_left_behind() -> None:
    """It is older than the kernel that bears the same marks now, so it is not charged to it."""
    seen = marked(
        process(100, SERVER, start=5000),
        process(300, start=3000),
        owners=(owner("a", key(100, 5000)),),
        marks={key(100, 5000): OURS, key(300, 3000): OURS},
    )
    found = attribute(seen, {})
    assert charged(the("a", found)) == []
    assert leftover(the("a", found)) == [300]


def test_a_tensorboard_with_the_marks_of_its_kernel_takes_nobody_from_it() -> None:
    """It has inherited them like everything else that the kernel has started."""
    board = owner("b", 200, kind=OwnerKind.TENSORBOARD)
    seen = marked(
        process(100, SERVER),
        process(200, 100),
        process(300),
        owners=(owner("a", 100), board),
        marks={key(100): OURS, key(200): OURS, key(300): OURS},
    )
    assert charged(the("a", attribute(seen, {}))) == [300]


@pytest.mark.parametrize("kind", [OwnerKind.TENSORBOARD, OwnerKind.TERMINAL])
def test_marks_that_were_only_inherited_make_nobody_its_own(kind: OwnerKind) -> None:
    """The kernel has ended, or was one of another server in which this server was started."""
    other = owner("b", 200, kind=kind)
    seen = marked(process(200), process(300), owners=(other,), marks={key(200): OURS, key(300): OURS})
    found = attribute(seen, {})
    assert charged(the("b", found)) == []
    assert strange(found) == 1


@pytest.mark.parametrize(
    "mark",
    [
        pytest.param(Mark(77, NOTEBOOK), id="of another living server"),
        pytest.param(Mark(SERVER, "/home/ada/work/b.ipynb"), id="of a notebook that is not there"),
        pytest.param(Mark(SERVER, None), id="without a notebook"),
        pytest.param(Mark(None, NOTEBOOK), id="without a server"),
    ],
)
def test_other_marks_make_nobody_ours(mark: Mark) -> None:
    """Then it is a stranger."""
    seen = marked(
        process(77),
        process(100, SERVER),
        process(300),
        owners=(owner("a", 100),),
        marks={key(100): OURS, key(300): mark},
    )
    found = attribute(seen, {})
    assert charged(the("a", found)) == leftover(the("a", found)) == []
    assert strange(found) == 1


def test_marks_that_two_kernels_bear_say_nothing() -> None:
    """Two kernels of one notebook: whose it is cannot be told, so it is nobody's."""
    seen = marked(
        process(100, SERVER),
        process(101, SERVER),
        process(300),
        owners=(owner("a", 100), owner("b", 101)),
        marks={key(100): OURS, key(101): OURS, key(300): OURS},
    )
    assert strange(attribute(seen, {})) == 1


def test_what_a_server_that_has_ended_left_behind_is_shown_under_its_notebook() -> None:
    """As a kernel that is dead, and it stays there; nothing is charged to anybody."""
    ended = Mark(9000, NOTEBOOK)
    seen = marked(process(300), process(301), owners=(), marks={key(300): ended, key(301): ended}, on=(300, 301))
    for found in (attribute(seen, {}), watch(seen, replace(seen, marks={}))):
        holder, left = found.holders
        assert (holder.owner.name, holder.owner.state, holder.owner.root) == ("a.ipynb", OwnerState.DEAD, None)
        assert (left.owner.key.kind, left.owner.name) == (OwnerKind.LEFTOVERS, "a.ipynb")
        assert charged(left) == [300, 301]
        assert leftover(holder) == [300, 301]
        assert holder.tree == ()
        assert strange(found) == 0


def test_what_was_left_behind_of_two_notebooks_is_shown_apart() -> None:
    """Of two folders too, in which they have the same name."""
    marks = {key(300): Mark(9000, NOTEBOOK), key(301): Mark(9000, "/home/ada/other/a.ipynb")}
    found = attribute(marked(process(300), process(301), owners=(), marks=marks, on=(300, 301)), {})
    kernels = [held for held in found.holders if held.owner.key.kind is OwnerKind.KERNEL]
    assert sorted(leftover(held) for held in kernels) == [[300], [301]]
    assert {held.owner.name for held in kernels} == {"a.ipynb"}


def test_a_server_that_got_the_pid_of_one_that_has_ended_is_another_one() -> None:
    """What was started before it came from the earlier one: left behind, under the notebook that is open again."""
    seen = marked(
        process(100, SERVER),
        process(300, start=50),
        owners=(owner("a", 100),),
        marks={key(100): OURS, key(300, 50): OURS},
    )
    found = attribute(seen, {})  # the server started at 100 ticks
    assert leftover(the("a", found)) == [300]


def test_a_nearer_owner_outweighs_inherited_marks() -> None:
    """A kernel started from within another one has a mark of its own, or inherits; its tree is what counts."""
    seen = marked(
        process(100, SERVER),
        process(200, 100),
        process(300, 200),
        owners=(owner("a", 100), owner("b", 200)),
        marks={key(100): OURS, key(300): OURS},
    )
    assert charged(the("b", attribute(seen, {}))) == [300]
