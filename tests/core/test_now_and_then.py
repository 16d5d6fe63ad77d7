"""Owners that work now and then: told once, and not at each turn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from jupyter_gpu_guard.core.model import OwnerState, Snapshot
from jupyter_gpu_guard.core.policy import Action, Match, Rule
from jupyter_gpu_guard.core.verdict import Code

from .build import client, codes, owner, policy, process, rule, seconds, snapshot
from .drive import State, Tick, tick

EVERY = 5.0
SHORT = rule(lasting="20m")


def kernel(now: float, *, cpu: float = 0.0, of_child: float = 0.0, state: OwnerState = OwnerState.IDLE) -> Snapshot:
    """One that holds a GPU, has used so much of the CPU, and has a child that computes so many percent."""
    rows = (replace(process(100, 10), cpu=cpu), process(101, 100))
    on = (client(100), client(101, compute=of_child))
    return snapshot(*rows, owners=[owner("a", state=state)], clients=on, now=now)


def bursts(lasting: str, state: OwnerState = OwnerState.IDLE) -> Iterable[Snapshot]:
    """Ten seconds of the CPU every three minutes."""
    used = 0.0
    for n in range(int(seconds(lasting) / EVERY)):
        used += 5.0 if n % 36 < 2 else 0.0
        yield kernel(1000 + n * EVERY, cpu=used, state=state)


def played(film: Iterable[Snapshot], by: Rule) -> list[Tick]:
    """All ticks, each warning delivered."""
    state, ticks = State(), []
    for seen in film:
        ticks.append(tick(seen, state, policy(by)))
        state = ticks[-1].state
    return ticks


def acts(ticks: list[Tick]) -> list[Action]:
    """What was done, in order."""
    return [act.verdict.action for each in ticks for act in each.acts]


def test_work_on_the_cpu_defers_where_no_cell_runs() -> None:
    """Nobody is warned at each burst about an idleness that the next quiet minute would deny."""
    ticks = played(bursts("1h"), SHORT)
    assert {each.attribution.holders[0].state for each in ticks} == {OwnerState.IDLE, OwnerState.INPUT_BOUND}
    assert acts(ticks) == []


def test_while_a_cell_runs_it_is_warned_about_once() -> None:
    """What its processes do on the CPU is no use of the GPU."""
    assert acts(played(bursts("1h", OwnerState.EXECUTING), SHORT)) == [Action.WARN]


def test_a_rule_that_names_the_state_measures_it_by_the_cells() -> None:
    """Work on the CPU is what it is about, so it is no use."""
    named = rule("loops", lasting="20m", match=Match(state=OwnerState.INPUT_BOUND))
    film = [kernel(1000 + n * EVERY, cpu=n * EVERY) for n in range(int(seconds("30m") / EVERY))]
    state = State()
    warned = []
    for seen in film:
        told = tick(seen, state, policy(named, rule()))
        state = told.state
        warned += [act.verdict.rule for act in told.acts]
    assert warned == ["loops"]


@pytest.mark.parametrize("dip", [3.0, 0.0], ids=["a little less", "nothing"])
def test_a_run_that_goes_on_is_told_once(dip: float) -> None:
    """Also if it computes a little less now and then; a rest makes it another matter."""
    film = [kernel(1000 + n * EVERY, of_child=dip if n % 24 == 0 else 60.0) for n in range(int(seconds("1h") / EVERY))]
    ticks = played(film, SHORT)
    assert acts(ticks) == ([Action.WARN] if dip else [])
    said = {code for each in ticks for verdict in each.verdicts.values() for code in codes(verdict)}
    assert (Code.RUN_ENDED in said) is bool(dip)
