"""The promises, through the whole pure flow: attribute, push, judge, limit, review, act, settle."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpu_guard.core.explain import sentence
from jupyter_gpu_guard.core.model import Instant, OwnerKey, OwnerState, Snapshot
from jupyter_gpu_guard.core.policy import Action, Belts, Match, Policy, Rule
from jupyter_gpu_guard.core.verdict import Code, Result, Verdict
from jupyter_gpu_guard.core.window import MINUTE

from .build import GIB, GONE, key, lease, policy, rule, rungs, steadily
from .drive import LONGEST_SPAN, Act, Tick, acts, drive
from .films import STRANGER, Look, Moment, film, root_of, still

QUICK = rule(lasting="30s", notice="20s", undelivered="60s")

# --- whatever happens -----------------------------------------------------------------------------------------------

SOFT = rungs("warn", ("release", "5s"), ("park", "10s"), ("warn", "15s"), ("shutdown", "30s"))
RULES = (
    QUICK,
    rule(lasting="10s", notice="40s"),
    rule(lasting="60s", notice="5s", ladder=rungs("warn", ("warn", "10s"), ("shutdown", "15s"))),
    rule(lasting="20s", notice="10s", ladder=rungs(("warn", "10s"), ("shutdown", "20s"))),
    rule(lasting="20s", ladder=rungs("warn")),
    rule(lasting=None),
    rule(keep=True),
    rule(lasting="20s", notice="20s", ladder=SOFT, undelivered="45s"),
    rule(lasting="20s", notice="10s", ladder=rungs("release", ("warn", "5s"), ("park", "10s")), undelivered=None),
    rule(lasting="10s", notice="15s", undelivered=None),
)
POLICIES = (
    policy(QUICK),
    policy(replace(RULES[1], name="long notice"), rule()),
    policy(replace(RULES[2], name="two warnings"), rule()),
    policy(replace(RULES[3], name="late warning"), rule()),
    policy(replace(RULES[4], name="only warns"), rule()),
    policy(replace(RULES[5], name="never"), rule()),
    policy(replace(RULES[6], name="keeps"), rule()),
    policy(replace(RULES[1], name="executing", match=Match(state=OwnerState.EXECUTING)), QUICK),
    policy(QUICK, belts=Belts(2, 1)),
    policy(replace(RULES[7], name="soft"), rule()),
    policy(replace(RULES[8], name="never ends"), rule()),
    policy(replace(RULES[9], name="waits for somebody"), rule()),
    policy(replace(RULES[4], name="only releases", ladder=rungs("release")), rule()),
    policy(replace(RULES[4], name="parks at last", ladder=rungs("warn", ("park", "5s"))), rule()),
)

QUIET = Look()
LOOKS = st.one_of(
    st.just(QUIET),
    st.just(QUIET),
    st.just(Look(compute=(0.0, 0.0))),
    st.builds(
        Look,
        memory=st.sampled_from([12 * GIB, 12 * GIB, 2.0**20, GONE]),
        compute=st.lists(st.sampled_from([0.0, 0.0, 4.0, 5.0, 90.0, GONE]), min_size=1, max_size=2).map(tuple),
        state=st.sampled_from([OwnerState.IDLE, OwnerState.IDLE, *OwnerState]),
        used=st.booleans(),
        life=st.integers(0, 2),
        children=st.integers(0, 2),
    ),
)


@dataclass(frozen=True)
class Story:
    """A film and all that happens around it."""

    moments: tuple[Moment, ...]
    policies: tuple[Policy, ...]
    fails: frozenset[int] = frozenset()
    stubborn: str = ""
    restarts: frozenset[int] = frozenset()
    takes: float = 0.0
    leased_until: float = 0.0
    visits: tuple[float, ...] = (0.0,)

    @property
    def film(self) -> list[Snapshot]:
        """Its pictures."""
        return film(self.moments)

    def in_force(self, now: float) -> Policy:
        """The policy at `now`: each holds for thirty-five seconds."""
        return self.policies[int((now - 1000) / 35) % len(self.policies)]

    def script(self, verdict: Verdict, now: Instant) -> Result:
        """Each act that begins at a time in `fails` fails, and each shutdown of a `stubborn` kernel."""
        in_vain = verdict.action.loses_work and verdict.owner.id in self.stubborn
        return Result.FAILED if in_vain or round(now.monotonic) in self.fails else Result.DONE

    def is_there(self, owner: OwnerKey, now: float) -> bool:
        """Whether somebody can be told: they come and go by turns at each of `visits`, and never see to `b` first."""
        return sum(1 for then in self.visits if then <= now - 20 * (owner.id == "b")) % 2 == 1

    def run(self) -> list[Tick]:
        """What the core made of it."""
        return drive(
            self.film,
            self.in_force,
            leases=[lease(self.leased_until)],
            script=self.script,
            takes=self.takes,
            restart_at=self.restarts,
            present=self.is_there,
        )


@st.composite
def kernels(draw: st.DrawFn, count: int) -> list[Look]:
    """One kernel for `count` moments: it stays as it is for a while, mostly idle. Lives only ever follow each other."""
    looks: list[Look] = []
    life = 0
    while len(looks) < count:
        look = draw(LOOKS)
        life = max(life, look.life)
        looks += [replace(look, life=life, used=look.used and n == 0) for n in range(draw(st.integers(1, 25)))]
    return looks[:count]


@st.composite
def stories(draw: st.DrawFn, policies: st.SearchStrategy[tuple[Policy, ...]] = st.just((policy(QUICK),))) -> Story:  # noqa: B008
    """Two kernels for a few minutes. In most stories something goes wrong now and then."""
    count = draw(st.integers(15, 60))
    both = {name: draw(kernels(count)) for name in "ab"}
    steps = draw(st.lists(st.sampled_from([5.0] * 12 + [1.0, 10.0, 11.0, 300.0]), min_size=count, max_size=count))
    gaps = draw(st.dictionaries(st.integers(0, count), st.sampled_from(["devices", "processes", "owners"]), max_size=2))
    moments = tuple(
        Moment({name: looks[n] for name, looks in both.items()}, steps[n], (gaps[n],) if n in gaps else ())
        for n in range(count)
    )
    now = [picture.taken_at.monotonic for picture in film(moments)]
    return Story(
        moments=moments,
        policies=draw(policies),
        fails=frozenset(round(then) for then in draw(st.lists(st.sampled_from(now), max_size=6))),
        stubborn=draw(st.sampled_from(["", "", "a", "ab"])),
        restarts=draw(st.frozensets(st.integers(1, count), max_size=1)),
        takes=draw(st.sampled_from([0.0, 12.0])),
        leased_until=draw(st.sampled_from([0.0, *now])),
        visits=tuple(
            sorted(draw(st.sampled_from([[0.0], [0.0], []])) + draw(st.lists(st.sampled_from(now), max_size=4)))
        ),
    )


CHANGING = st.lists(st.sampled_from(POLICIES), min_size=1, max_size=3).map(tuple)
few = steadily(25)


def every_act(ticks: list[Tick]) -> Iterator[tuple[int, Act]]:
    """Each act, with the number of its tick."""
    for number, one in enumerate(ticks):
        for act in one.acts:
            yield number, act


def seen_idle(story: Story, number: int, act: Act) -> float:
    """Seconds for which the kernel was seen idle up to its act, found by walking back over all that was shown.

    Back from the act for as long as each reading is there, whole, of the same process, not later than the longest
    span, and below the threshold; not past a restart of the guard, the end of a cell, or the birth of a process in its
    tree that has lived for a minute by then.
    """
    pictures, name = story.film, act.verdict.owner.id
    below = act.rule.idle.compute_below
    running = act.holder.state not in {OwnerState.IDLE, OwnerState.STARTING, OwnerState.DEAD, OwnerState.UNKNOWN}

    def is_quiet(n: int) -> bool:
        moment, look = story.moments[n], story.moments[n].kernels[name]
        same = look.life == story.moments[number].kernels[name].life
        return same and not moment.missed and look.is_known and look.busiest < below

    def has_grown_up(n: int) -> bool:
        born_after = story.moments[n - 1].kernels[name].children
        lives = all(story.moments[m].kernels[name].children > born_after for m in range(n, number + 1))
        return lives and pictures[number].taken_at.monotonic - pictures[n].taken_at.monotonic >= MINUTE

    last = number
    while last > 0 and last not in story.restarts:
        look, before = story.moments[last].kernels[name], story.moments[last - 1].kernels[name]
        if not is_quiet(last) or not is_quiet(last - 1) or story.moments[last].after > LONGEST_SPAN:
            break
        if look.used or (look.children > before.children and not running and has_grown_up(last)):
            break
        last -= 1
    return pictures[number].taken_at.monotonic - pictures[last].taken_at.monotonic


def every_act_was_earned_by_what_was_seen(story: Story, ticks: list[Tick]) -> None:
    """No act without the full time of the deciding rule, seen without a gap, without compute on any device.

    So: Unknown never acts, unseen time never counts, work anywhere spares, a new process starts with clean clocks.
    """
    for number, act in every_act(ticks):
        look = story.moments[number].kernels[act.verdict.owner.id]
        if any(reason.code is Code.RUN_ENDED for reason in act.verdict.reasons):
            # A word about processes that compute although no cell has run for long; nothing ever follows it.
            assert act.verdict.action is Action.WARN
            assert (act.verdict.next_action, act.verdict.deadline) == (None, None)
            continue
        assert not story.moments[number].missed
        assert look.is_known
        assert look.memory >= act.rule.idle.memory_above
        assert act.rule.idle.lasting is not None
        assert seen_idle(story, number, act) >= act.rule.idle.lasting.total_seconds()


def nothing_is_lost_without_a_warning_and_its_full_time(story: Story, ticks: list[Tick]) -> None:
    """Before each loss a warning that named it was given, about this very process, and has stood ever since.

    Where one has reached somebody, the full notice of the rule that decides has passed since the first that did, and no
    deadline that was shown after it is still to come: whichever rules took over meanwhile. Where none has, so much time
    as the rule asks for that has passed since the last one, and a rule that waits for somebody ends nothing.
    """
    for number, act in every_act(ticks):
        if not act.verdict.action.loses_work:
            continue
        who, now = act.verdict.owner, act.begun.monotonic
        standing = number
        while standing > 0 and any(notice.owner == who for notice in ticks[standing - 1].state.ledger.notices):
            standing -= 1
        told = [
            earlier
            for n, earlier in every_act(ticks[:number])
            if n >= standing
            and (earlier.verdict.owner, earlier.verdict.root) == (who, act.verdict.root)
            and (earlier.verdict.action, earlier.result) == (Action.WARN, Result.DONE)
        ]
        hints = [n for n, earlier in enumerate(told) if earlier.verdict.deadline is None]
        named = told[hints[-1] + 1 :] if hints else told
        assert named
        heard = [earlier for earlier in named if earlier.reached]
        if not heard:
            assert act.rule.undelivered is not None
            wait = max(act.rule.notice, act.rule.undelivered)
            assert now >= named[-1].begun.monotonic + wait.total_seconds()
            continue
        first = heard[0]
        assert first.notice is not None
        assert first.notice.next_action is Action.SHUTDOWN
        assert now >= first.begun.monotonic + act.rule.notice.total_seconds()
        for one in ticks[standing:number]:
            if one.snapshot.taken_at.monotonic < first.begun.monotonic:
                continue
            for notice in one.state.ledger.notices:
                assert notice.owner != who or notice.deadline is None or notice.deadline <= act.begun.wall
            verdict = one.verdicts.get(who)
            if verdict and verdict.next_action is Action.SHUTDOWN:
                assert verdict.deadline is not None
                assert verdict.deadline <= now


def a_promised_deadline_never_comes_closer(story: Story, ticks: list[Tick]) -> None:
    """For as long as a warning stands that reached somebody, its deadline only ever moves away, whatever the rules."""
    for before, after in pairwise(ticks):
        for who, case in after.state.ledger.cases.items():
            earlier = before.state.ledger.case_of(who, case.root)
            if earlier is None or earlier.deadline is None or earlier.opened_at != case.opened_at:
                continue
            if not earlier.undelivered:
                assert case.deadline is not None
                assert case.deadline >= earlier.deadline


def nothing_is_parked_before_a_warning(story: Story, ticks: list[Tick]) -> None:
    """One was given about this very process: one that named the loss, if the rule ends in one."""
    for number, act in every_act(ticks):
        if act.verdict.action is not Action.PARK:
            continue
        loses = any(stage.do.loses_work for stage in act.rule.ladder)
        about = (act.verdict.owner, act.verdict.root)
        assert any(
            (earlier.verdict.owner, earlier.verdict.root) == about
            and (earlier.verdict.action, earlier.result) == (Action.WARN, Result.DONE)
            and (earlier.verdict.deadline is not None or not loses)
            for _, earlier in every_act(ticks[:number])
        )


def who_is_not_idle_is_only_ever_warned(story: Story, ticks: list[Tick]) -> None:
    """To an executing, starting, dead or unknown owner nothing else is done, unless the rule names its state."""
    for number, act in every_act(ticks):
        state = story.moments[number].kernels[act.verdict.owner.id].state
        if act.verdict.action is not Action.WARN:
            assert state is OwnerState.IDLE or act.rule.match.state is state


def a_lease_holds_to_its_last_second(story: Story, ticks: list[Tick]) -> None:
    """Nothing happens to its owner before it has ended; the other kernel has none of it."""
    for _, act in every_act(ticks):
        if act.verdict.owner.id == "a":
            assert act.begun.wall > lease(story.leased_until).until


def strangers_never_get_a_verdict_and_are_in_no_tree(story: Story, ticks: list[Tick]) -> None:
    """Nor does anybody else's process: a tree holds what the kernel has started, and nothing of the other one."""
    for number, one in enumerate(ticks):
        assert set(one.verdicts) == {held.owner.key for held in one.attribution.holders}
        for held in one.attribution.holders:
            look = story.moments[number].kernels[held.owner.key.id]
            base = root_of(held.owner.key.id, look.life)
            assert key(STRANGER) not in held.tree
            if not story.moments[number].missed:
                assert {member.pid for member in held.tree} <= set(range(base, base + 100))


def every_verdict_has_a_reason_in_words(story: Story, ticks: list[Tick]) -> None:
    """Keep too, in every tick, for every holder."""
    for one in ticks:
        for verdict in one.verdicts.values():
            assert verdict.reasons
            assert all(sentence(reason) for reason in verdict.reasons)


def no_two_acts_on_one_owner_at_once(story: Story, ticks: list[Tick]) -> None:
    """While something is done to it, its owner is left alone, also if it has a new process by then."""
    until: dict[str, float] = {}
    for number, act in every_act(ticks):
        if any(number >= restart for restart in story.restarts):
            break
        name, now = act.verdict.owner.id, act.begun.monotonic
        assert now >= until.get(name, 0.0)
        if act.verdict.action is not Action.WARN:
            until[name] = now + story.takes


@steadily(90)
@given(stories(CHANGING))
def test_the_promises_hold_whatever_happens(story: Story) -> None:
    """Whatever is seen, ruled, kept, fails or restarts: each of the promises above holds, as its own words say."""
    ticks = story.run()
    for promise in (
        every_act_was_earned_by_what_was_seen,
        nothing_is_lost_without_a_warning_and_its_full_time,
        a_promised_deadline_never_comes_closer,
        nothing_is_parked_before_a_warning,
        who_is_not_idle_is_only_ever_warned,
        a_lease_holds_to_its_last_second,
        strangers_never_get_a_verdict_and_are_in_no_tree,
        every_verdict_has_a_reason_in_words,
        no_two_acts_on_one_owner_at_once,
    ):
        promise(story, ticks)


# --- one thing changed ----------------------------------------------------------------------------------------------


def first_shutdowns(ticks: list[Tick]) -> dict[tuple[str, int], float]:
    """When each process of a kernel was first shut down."""
    found: dict[tuple[str, int], float] = {}
    for act in acts(ticks, Action.SHUTDOWN):
        assert act.verdict.root is not None
        found.setdefault((act.verdict.owner.id, act.verdict.root.pid), act.begun.monotonic)
    return found


def is_never_earlier(kind: list[Tick], plain: list[Tick]) -> bool:
    """Whether nothing is shut down earlier in `kind`, or only there."""
    before = first_shutdowns(plain)
    return all(then >= before.get(who, float("inf")) for who, then in first_shutdowns(kind).items())


def without_failures(story: Story) -> Story:
    """The story in which every act succeeds at once."""
    return replace(story, fails=frozenset(), stubborn="", restarts=frozenset(), takes=0.0)


@few
@given(stories(), st.sets(st.integers(1, 59), min_size=1, max_size=2))
def test_a_restart_never_hurries(story: Story, restarts: set[int]) -> None:
    """Whoever loses all state ends nothing earlier, and nothing that would not have been ended."""
    plain = without_failures(story)
    assert is_never_earlier(replace(plain, restarts=frozenset(restarts)).run(), plain.run())


@few
@given(stories(), st.sampled_from(RULES[:5]), st.integers(0, 60), st.integers(0, 60))
def test_a_longer_limit_or_notice_never_hurries(story: Story, usual: Rule, limit: int, notice: int) -> None:
    """All else equal, nothing is ended earlier."""
    assert usual.idle.lasting is not None
    slower = replace(
        usual,
        idle=replace(usual.idle, lasting=usual.idle.lasting + limit * QUICK.notice / 20),
        notice=usual.notice + notice * QUICK.notice / 20,
    )
    plain = replace(without_failures(story), policies=(policy(usual),))
    assert is_never_earlier(replace(plain, policies=(policy(slower),)).run(), plain.run())


@few
@given(stories(), st.integers(0, 59), st.sampled_from(["a", "b"]), st.sampled_from(["unknown", "busy", "used", "gap"]))
def test_one_sign_of_life_more_never_hurries(story: Story, where: int, name: str, sign: str) -> None:
    """A reading that fails, some compute or a use: whatever is added, nothing is ended earlier."""
    plain = without_failures(story)
    where %= len(plain.moments)
    moment = plain.moments[where]
    look = moment.kernels[name]
    signs: dict[str, Callable[[], Moment]] = {
        "unknown": lambda: replace(moment, kernels={**moment.kernels, name: replace(look, memory=GONE)}),
        "busy": lambda: replace(moment, kernels={**moment.kernels, name: replace(look, compute=(0.0, 50.0))}),
        "used": lambda: replace(moment, kernels={**moment.kernels, name: replace(look, used=True)}),
        "gap": lambda: replace(moment, missed=("devices",)),
    }
    lively = replace(plain, moments=(*plain.moments[:where], signs[sign](), *plain.moments[where + 1 :]))
    assert is_never_earlier(lively.run(), plain.run())


@few
@given(stories(CHANGING), st.lists(st.sampled_from([0.0, 3600.0, -3600.0, 1e7]), min_size=60, max_size=60))
def test_steps_of_the_wall_clock_change_nothing(story: Story, ahead: list[float]) -> None:
    """Spans are measured on the monotonic clock; only a lease knows the time of day."""
    straight = replace(story, leased_until=-1e9)
    stepped = replace(
        straight,
        moments=tuple(replace(moment, wall_ahead=ahead[n]) for n, moment in enumerate(story.moments)),
    )
    assert [one.verdicts for one in stepped.run()] == [one.verdicts for one in straight.run()]


@few
@given(stories(CHANGING), st.integers(0, 999).map(random.Random))
def test_the_order_of_input_changes_nothing(story: Story, chance: random.Random) -> None:
    """Devices, clients, processes and owners in any order give the same verdicts."""

    def shuffled(picture: Snapshot) -> Snapshot:
        return replace(
            picture,
            devices=tuple(chance.sample(picture.devices, len(picture.devices))),
            clients=tuple(chance.sample(picture.clients, len(picture.clients))),
            processes=dict(chance.sample(list(picture.processes.items()), len(picture.processes))),
            owners=tuple(chance.sample(picture.owners, len(picture.owners))),
        )

    mixed = drive([shuffled(picture) for picture in story.film], story.in_force, script=story.script)
    straight = drive(story.film, story.in_force, script=story.script)
    assert [one.verdicts for one in mixed] == [one.verdicts for one in straight]


# --- told as stories ------------------------------------------------------------------------------------------------


def times(ticks: list[Tick], do: Action, of: str = "a") -> list[float]:
    """When such acts on one kernel began, in seconds after the first picture."""
    start = ticks[0].snapshot.taken_at.monotonic
    return [act.begun.monotonic - start for act in acts(ticks, do, of)]


def test_an_idle_kernel_is_warned_at_its_limit_and_ended_one_notice_later() -> None:
    """To the second, as far as it was looked at."""
    ticks = drive(still(20), policy(QUICK))
    assert (times(ticks, Action.WARN), times(ticks, Action.SHUTDOWN)) == ([30], [50])
    assert ticks[-1].attribution.holders == ()


def test_a_kernel_that_computes_in_waves_lives() -> None:
    """One wave in each limit is enough, on whichever device."""
    wave = [Moment({"a": Look(compute=(0.0, 40.0))})] + [Moment({"a": Look(compute=(0.0, 0.0))})] * 6
    assert acts(drive(film(wave * 6), policy(QUICK)), Action.WARN) == []


def test_work_after_the_warning_withdraws_it() -> None:
    """Then all begins anew: limit, warning, full notice."""
    story = [Moment({"a": QUIET})] * 8 + [Moment({"a": Look(compute=(60.0,))})] + [Moment({"a": QUIET})] * 12
    ticks = drive(film(story), policy(QUICK))
    assert times(ticks, Action.WARN) == [30, 75]
    assert times(ticks, Action.SHUTDOWN) == [95]
    assert ticks[8].state.ledger.notices == ()


def test_a_failed_warning_is_retried_and_loses_nothing_meanwhile() -> None:
    """The full notice begins with the one that was delivered."""
    failing = iter([Result.FAILED, Result.FAILED])
    ticks = drive(still(60), policy(QUICK), script=lambda verdict, now: next(failing, Result.DONE))
    assert times(ticks, Action.WARN) == [30, 90, 210]
    assert times(ticks, Action.SHUTDOWN) == [230]


def test_a_failed_shutdown_is_retried_later() -> None:
    """It is not forgotten, and not hammered."""
    failing = iter([Result.FAILED])
    ticks = drive(
        still(40),
        policy(QUICK),
        script=lambda verdict, now: Result.DONE if verdict.action is Action.WARN else next(failing, Result.DONE),
    )
    assert times(ticks, Action.SHUTDOWN) == [50, 110]


@pytest.mark.parametrize("result", [Result.WITHDRAWN, Result.ALREADY_GONE])
def test_a_shutdown_that_was_withdrawn_begins_anew(result: Result) -> None:
    """The next one comes after another warning and another full notice."""
    first = iter([result])
    ticks = drive(
        still(25),
        policy(QUICK),
        script=lambda verdict, now: Result.DONE if verdict.action is Action.WARN else next(first, Result.DONE),
    )
    assert (times(ticks, Action.WARN), times(ticks, Action.SHUTDOWN)) == ([30, 55], [50, 75])


def test_a_hint_during_a_cell_is_no_warning_of_the_end() -> None:
    """A cell that nobody sent ran without compute; when it ends, the loss is named first and the full notice given."""
    story = [Moment({"a": Look(state=OwnerState.EXECUTING)})] * 30 + [Moment({"a": QUIET})] * 10
    ticks = drive(film(story), policy(QUICK))
    assert (times(ticks, Action.WARN), times(ticks, Action.SHUTDOWN)) == ([30, 150], [170])
    assert [act.verdict.next_action for act in acts(ticks, Action.WARN)] == [None, Action.SHUTDOWN]


def test_a_rule_that_only_warned_does_not_shorten_the_notice_of_the_next() -> None:
    """The policy changed to one that ends: first it says so."""
    ticks = drive(still(40), lambda now: policy(RULES[4]) if now < 1100 else policy(QUICK))
    (shutdown,) = acts(ticks, Action.SHUTDOWN)
    named = acts(ticks, Action.WARN)[-1]
    assert named.begun.monotonic == 1100
    assert shutdown.begun.monotonic == 1120


def test_who_runs_cell_after_cell_without_the_gpu_is_not_warned() -> None:
    """Each end of a cell is a use, also while the next one runs."""
    cell = [Moment({"a": Look(state=OwnerState.EXECUTING)})] * 5 + [Moment({"a": Look(used=True)})]
    assert acts(drive(film(cell * 8), policy(QUICK)), Action.WARN) == []


def test_a_restarted_kernel_is_judged_from_its_own_start() -> None:
    """Neither the clock nor the warning of its earlier life counts."""
    story = [Moment({"a": QUIET})] * 9 + [Moment({"a": Look(life=1)})] * 12
    ticks = drive(film(story), policy(QUICK))
    assert (times(ticks, Action.WARN), times(ticks, Action.SHUTDOWN)) == ([30, 75], [95])


def test_a_suspended_machine_wakes_up_kinder() -> None:
    """The readings before and after lie too far apart: idle time begins anew."""
    story = [Moment({"a": QUIET})] * 9 + [Moment({"a": QUIET}, after=8 * 3600.0)] + [Moment({"a": QUIET})] * 11
    ticks = drive(film(story), policy(QUICK))
    woken = 40 + 8 * 3600
    assert times(ticks, Action.WARN) == [30, woken + 30]
    assert times(ticks, Action.SHUTDOWN) == [woken + 50]


def test_after_a_lease_comes_a_warning_and_the_full_notice() -> None:
    """The lease ends at its second; nothing was counted down behind it."""
    ticks = drive(still(40), policy(QUICK), leases=[lease(1100)])
    assert (times(ticks, Action.WARN), times(ticks, Action.SHUTDOWN)) == ([100], [120])


def test_a_lease_during_the_notice_withdraws_the_warning() -> None:
    """It is over when the lease is."""
    seen = still(40)
    before, after = drive(seen[:9], policy(QUICK)), drive(seen, policy(QUICK), leases=[lease(1100)])
    assert before[-1].state.ledger.notices
    assert after[8].state.ledger.notices == ()


def test_a_rehearsed_case_ends_nothing_and_is_not_repeated() -> None:
    """In mode observe each step is rehearsed once."""
    ticks = drive(still(60), policy(QUICK), script=lambda verdict, now: Result.REHEARSED)
    assert (times(ticks, Action.WARN), times(ticks, Action.SHUTDOWN)) == ([30], [50])
    assert ticks[-1].attribution.holders


def test_belts_let_the_oldest_go_first_and_nobody_waits_for_ever() -> None:
    """One in a tick, three in an hour: all seven are ended in the third hour, in the order in which they were due."""
    names = "gfedcba"
    arrivals = [Moment(dict.fromkeys(names[: 1 + n // 2], QUIET), after=10.0) for n in range(14)]
    story = film(arrivals + [Moment(dict.fromkeys(names, QUIET), after=10.0)] * 740)
    ticks = drive(story, policy(QUICK, belts=Belts(3, 1)))
    ended = [(act.begun.monotonic, act.verdict.owner.id) for act in acts(ticks, Action.SHUTDOWN)]
    assert "".join(name for _, name in ended) == names
    assert len({then for then, _ in ended}) == len(names)
    for n, (then, _) in enumerate(ended):
        assert sum(1 for earlier, _ in ended[: n + 1] if earlier > then - 3600) <= 3


def test_those_that_cannot_be_ended_do_not_starve_the_others() -> None:
    """The oldest fail each time; between their attempts the belt is free."""
    stubborn = {"a", "b", "c"}

    def script(verdict: Verdict, now: Instant) -> Result:
        is_lost = verdict.action is Action.SHUTDOWN and verdict.owner.id in stubborn
        return Result.FAILED if is_lost else Result.DONE

    ticks = drive(still(40, **dict.fromkeys("abcdef", QUIET)), policy(QUICK, belts=Belts(100, 1)), script=script)
    ended = {act.verdict.owner.id for act in acts(ticks, Action.SHUTDOWN) if act.result is Result.DONE}
    assert ended == set("def")
