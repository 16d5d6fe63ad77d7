"""Whatever happens: from what is on disk of a verdict, the same verdict comes out."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gpu_guard.core.assess import bench_of, perceive
from jupyter_gpu_guard.core.budget import Account, Amount, Budget, Measure, Per
from jupyter_gpu_guard.core.entry import Entry, Kind, grounds, judged_again
from jupyter_gpu_guard.core.judge import judge
from jupyter_gpu_guard.core.model import OwnerState
from jupyter_gpu_guard.core.policy import Exemption, Match, Mode, Trickle
from jupyter_gpu_guard.history.lines import from_line, to_line
from tests.core.build import NOON, lease, policy, rule, steady
from tests.core.drive import LONGEST_SPAN, State, tick
from tests.core.test_promises import POLICIES, QUICK, Story, stories

TRIAL = replace(rule("trial", lasting="10s"), observe=True)
STATES = replace(QUICK, states={OwnerState.EXECUTING: timedelta(seconds=40), OwnerState.WAITING: None})
USED_UP = rule("used-up", lasting="15s", match=Match(user="nobody at all"))
BUDGET = Budget("week", Measure.GPU_HOURS, 10.0, timedelta(days=7), "used-up", Per.USER, Match(notebook="a*"))
SPENT = {Account("week", Measure.GPU_HOURS, "user"): Amount(10.5)}
MORE = (
    *POLICIES,
    policy(TRIAL, QUICK),
    policy(replace(TRIAL, match=Match(state=OwnerState.EXECUTING)), STATES),
    policy(replace(QUICK, trickle=Trickle(2.0, timedelta(seconds=60)))),
    replace(policy(QUICK), exemptions=(Exemption(Match(notebook="a*"), NOON + timedelta(seconds=1150), "rebuttal"),)),
    policy(QUICK, mode=Mode.OBSERVE),
    replace(policy(TRIAL, USED_UP, QUICK), budgets=(BUDGET,)),
    replace(policy(STATES), budgets=(replace(BUDGET, then=STATES.name),)),
)
CHANGING = st.lists(st.sampled_from(MORE), min_size=1, max_size=3).map(tuple)


@settings(steady, max_examples=25)
@given(stories(policies=CHANGING))
def test_the_same_facts_give_the_same_verdict(story: Story) -> None:
    """For each verdict, of each look: line, facts, judge, and the same again."""
    state = State()
    for seen in story.film:
        now = seen.taken_at
        ruled = story.in_force(now.monotonic)
        held = {each.owner: each for each in [lease(story.leased_until)] if each.until >= now.wall}
        perceived = perceive(seen, state.perceived, LONGEST_SPAN)
        bench = bench_of(seen, perceived, ruled, held, state.ledger, spending=SPENT)
        holders = perceived.attribution.holders
        for holder, verdict in zip(holders, judge(holders, bench), strict=True):
            told = grounds(holder, bench, verdict)
            entry = Entry(Kind.SPARED, now.wall, ruled.mode, "", holder.owner.key, verdict=verdict, grounds=told)
            kept = from_line(to_line(entry))
            assert kept == entry
            assert kept.grounds is not None
            assert judged_again(kept.grounds) == verdict
        state = tick(seen, state, ruled, [lease(story.leased_until)], story.script).state


def test_a_line_of_a_later_version_is_read_as_far_as_it_goes() -> None:
    """What is not known here is passed over; grounds in other words are left out, and the rest is there."""
    entry = Entry(Kind.SPARED, NOON, Mode.ENFORCE, "abc", detail="x")
    line = to_line(entry).rstrip()[:-1]
    assert from_line(line + b',"novelty":{"a":1}}') == entry
    assert from_line(line + b',"grounds":{"rule":7}}') == entry
    assert from_line(line + b',"kind":"dreamt"}') is None
    assert from_line(line.replace(b"+00:00", b"") + b"}") is None
