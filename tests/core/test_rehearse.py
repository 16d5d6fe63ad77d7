"""A rehearsal thinks as a guard does that only observes."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given

from jupyter_gpu_guard.core.model import Instant, OwnerState
from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.core.rehearse import Carried, Scene, rehearse
from jupyter_gpu_guard.core.verdict import Result, Verdict

from .build import lease, policy, rule, steady
from .drive import LONGEST_SPAN, drive
from .films import Look, still
from .test_promises import Story, stories

QUICK = policy(rule(lasting="30s", notice="20s"))


def scenes(film, ruled=QUICK, leases=()) -> list[Scene]:
    """The whole film, rehearsed."""
    shown, carried = [], Carried()
    for picture in film:
        shown.append(rehearse(picture, carried, ruled, LONGEST_SPAN, {promise.owner: promise for promise in leases}))
        carried = shown[-1].carried
    return shown


def only_rehearsed(verdict: Verdict, now: Instant) -> Result:
    """What a guard that observes hears of each act."""
    return Result.REHEARSED


@steady
@given(stories())
def test_a_rehearsal_says_what_a_guard_says(story: Story) -> None:
    """The same verdict for each owner at each moment as the whole flow, when that only rehearses."""
    rehearsed = scenes(story.film)
    driven = drive(story.film, QUICK, script=only_rehearsed)
    assert [scene.verdicts for scene in rehearsed] == [tick.verdicts for tick in driven]


def test_a_warning_comes_first_and_a_shutdown_once() -> None:
    """What stays idle is warned, and would have been shut down a notice later; and not again in the next picture."""
    acts = [(act.outcome.at, act.verdict.action) for scene in scenes(still(40)) for act in scene.acts]
    assert [action for _, action in acts] == [Action.WARN, Action.SHUTDOWN]
    (warned, _), (ended, _) = acts
    assert (ended - warned).total_seconds() == 20
    last = scenes(still(40))[-1]
    assert all(act.outcome.result is Result.REHEARSED for scene in scenes(still(40)) for act in scene.acts)
    assert last.acts == ()


def test_nothing_is_done_to_what_computes() -> None:
    """However long the film."""
    busy = Look(compute=(50.0,), state=OwnerState.EXECUTING)
    assert not any(scene.acts for scene in scenes(still(40, a=busy)))


def test_a_lease_spares() -> None:
    """Whoever plays a lease into it sees it hold."""
    assert not any(scene.acts for scene in scenes(still(40), leases=[lease(10_000.0)]))


def test_starting_anew_never_hurries() -> None:
    """A rehearsal that begins in the middle acts later than one that has seen it all, never earlier."""
    film = still(60)
    times = [[act.outcome.at for scene in scenes(film[begin:]) for act in scene.acts] for begin in (0, 3, 10)]
    assert all(earlier < later for one, other in pairwise(times) for earlier, later in zip(one, other, strict=True))
