"""A simulation ends once, and what is seen afterwards is what the end would have given back or cost."""

from __future__ import annotations

from hypothesis import given

from jupyter_gpu_guard.core.policy import Action, Policy
from jupyter_gpu_guard.core.simulate import Simulation
from jupyter_gpu_guard.core.tally import Tally

from .build import GIB, at, policy, rule, steady
from .drive import LONGEST_SPAN
from .films import Look, Moment, film, still
from .test_promises import Story, stories
from .test_rehearse import QUICK, scenes


def simulated(pictures, ruled: Policy = QUICK) -> Simulation:
    """The whole film, seen."""
    simulation = Simulation(ruled)
    for picture in pictures:
        simulation.see(picture, LONGEST_SPAN)
    return simulation


@steady
@given(stories())
def test_up_to_its_end_each_holder_meets_what_it_would_meet_in_a_rehearsal(story: Story) -> None:
    """The first end of each life comes at the same moment as in a rehearsal where nothing ends; no second one comes."""
    rehearsed: dict[object, object] = {}
    for act in (act for scene in scenes(story.film) for act in scene.acts):
        if act.verdict.action is Action.SHUTDOWN:
            rehearsed.setdefault((act.verdict.owner, act.verdict.root), act.outcome.at)
    simulation = Simulation(QUICK)
    acts = [act for picture in story.film for act in simulation.see(picture, LONGEST_SPAN)]
    ends = [act for act in acts if act.verdict.action is Action.SHUTDOWN]
    lives = [((act.verdict.owner, act.verdict.root), act.outcome.at) for act in ends]
    assert len(dict(lives)) == len(lives)
    assert dict(lives) == rehearsed


def test_ended_means_ended() -> None:
    """However long it stays idle: one warning, one end, and all that it held from then on is given back."""
    tally = simulated(still(100)).tally
    (ended,) = tally.ended
    assert (tally.warned, tally.holders, tally.readings) == (1, 1, 100)
    rest = 1005.0 + 99 * 5 - ended.monotonic
    assert ended.after.idle_gpu_seconds == rest
    assert ended.after.idle_byte_seconds == rest * 12 * GIB
    assert ended.back_after is None
    assert tally.after.computing_gpu_seconds == 0
    assert (str(ended.owner), ended.name, ended.rule, ended.idle_seconds) == ("kernel:a", "a.ipynb", "default", 50.0)
    assert (ended.at, tally.rules) == (at(ended.monotonic).wall, {"default": 1})


def test_who_computes_again_would_have_been_missed() -> None:
    """The time until then is told, and what it computed."""
    idle, busy = Look(), Look(compute=(60.0,))
    pictures = film([*([Moment({"a": idle})] * 20), *([Moment({"a": busy})] * 4), *([Moment({"a": idle})] * 3)])
    tally = simulated(pictures).tally
    (ended,) = tally.ended
    assert ended.back_after == 1000.0 + 21 * 5 - ended.monotonic
    assert ended.after.computing_gpu_seconds == 4 * 5.0
    assert tally.regretted(within=ended.back_after) == [ended]
    assert tally.regretted(within=ended.back_after - 1) == []


def test_time_counts_for_each_device_that_is_held() -> None:
    """Two kernels give two GPU-seconds each second; a device on which one holds nothing does not count."""
    tally = simulated(still(40, a=Look(compute=(0.0, 0.0), memory=2 * GIB), b=Look(compute=(90.0,)))).tally
    assert tally.holders == 2
    assert tally.held.gpu_seconds == 2 * 39 * 5.0
    assert tally.held.computing_gpu_seconds == 39 * 5.0


def test_a_kernel_that_was_restarted_is_another() -> None:
    """After a restart it is judged anew, and may be ended again."""
    pictures = film([*([Moment({"a": Look()})] * 20), *([Moment({"a": Look(life=1)})] * 20)])
    assert len(simulated(pictures).tally.ended) == 2


def test_who_holds_nothing_yet_is_counted_once_it_does() -> None:
    """Also if somebody else has gone meanwhile."""
    empty = Look(memory=0.0)
    moments = [Moment({"a": Look(), "b": empty})] * 3 + [Moment({"b": empty})] * 2 + [Moment({"b": Look()})] * 2
    assert simulated(film(moments)).tally.holders == 2


def test_sums_add_up() -> None:
    """Of several runs: each figure is the sum of theirs, and everybody who would have been ended is there."""
    one, other = simulated(still(100)).tally, simulated(still(40, a=Look(), b=Look())).tally
    both = Tally()
    both.include(one)
    both.include(other)
    assert (both.readings, both.holders, both.warned, both.rules) == (140, 3, 3, {"default": 3})
    assert both.ended == [*one.ended, *other.ended]
    for part in ("gpu_seconds", "idle_gpu_seconds", "byte_seconds", "idle_byte_seconds"):
        assert getattr(both.held, part) == getattr(one.held, part) + getattr(other.held, part) > 0
        assert getattr(both.after, part) == getattr(one.after, part) + getattr(other.after, part) > 0


def test_others_are_judged_as_before() -> None:
    """That one counts as ended changes nothing for the others."""
    alone = simulated(film([Moment({"b": Look(used=n == 6)}) for n in range(40)])).tally.ended
    both = simulated(film([Moment({"a": Look(), "b": Look(used=n == 6)}) for n in range(40)])).tally.ended
    assert [each.at for each in alone] == [each.at for each in both if each.owner.id == "b"]


def test_a_gap_counts_nowhere() -> None:
    """What was not seen was neither held nor given back."""
    pictures = film([*([Moment({"a": Look()})] * 20), Moment({"a": Look()}, after=600.0)])
    (ended,) = simulated(pictures, policy(rule(lasting="30s", notice="20s"))).tally.ended
    assert ended.after.idle_gpu_seconds == 1000.0 + 20 * 5 - ended.monotonic
