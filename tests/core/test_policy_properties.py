"""What holds for every policy, holder and history: exemptions, conditions and trials never do harm."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpu_guard.core.calendars import Calendar, Hours
from jupyter_gpu_guard.core.judge import Bench, judge
from jupyter_gpu_guard.core.ledger import Case, Ledger
from jupyter_gpu_guard.core.model import Device, Holder, OwnerKind, OwnerState
from jupyter_gpu_guard.core.policy import (
    Action,
    Exemption,
    Idle,
    Match,
    Mode,
    Policy,
    Rule,
    Site,
    Stage,
    Trickle,
)
from jupyter_gpu_guard.core.trickle import Stretch
from jupyter_gpu_guard.core.verdict import Code, Verdict
from jupyter_gpu_guard.core.window import Window

from .build import GIB, GONE, NOON, at, holder, key, owner, steadily, window

NOW = 500_000.0
HARM = [Action.KEEP, Action.WARN, Action.SHUTDOWN]
NIGHT = Calendar("night", timezone.utc, (Hours(frozenset(range(7)), 22 * 60, 6 * 60),))
DAY = Calendar("day", timezone.utc, (Hours(frozenset(range(7)), 6 * 60, 22 * 60),))

thorough = steadily(150)
minutes = st.sampled_from([1, 30, 120, 500]).map(lambda number: timedelta(minutes=number))
limits = st.none() | minutes | minutes
names = st.sampled_from(["a", "b", "a*", "*", "[ab]", "x/**"])


def maybe(values: st.SearchStrategy) -> st.SearchStrategy:
    """Nothing, or one of `values`."""
    return st.none() | values


VALUES: dict[str, st.SearchStrategy] = {
    **dict.fromkeys(("user", "group", "server", "notebook", "kernelspec", "device"), names),
    "owner": st.sampled_from(OwnerKind),
    "state": st.sampled_from([OwnerState.IDLE, OwnerState.EXECUTING]),
    "memory_above": st.sampled_from([GIB, 8 * GIB]),
    "device_free_below": st.sampled_from([5.0, 50.0]),
    "older_than": minutes,
    "during": st.sampled_from([NIGHT, DAY]),
}
parts = st.one_of(*(st.tuples(st.just(part), values) for part, values in VALUES.items()))
conditions = st.lists(parts, max_size=2).map(lambda given: Match(**dict(given)))


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    """A rule with a ladder that gives notice."""
    notice = draw(minutes)
    first = draw(st.sampled_from([timedelta(0), timedelta(minutes=5)]))
    lossy = () if draw(st.integers(0, 4)) == 0 else (Stage(Action.SHUTDOWN, first + notice),)
    return Rule(
        name=draw(st.sampled_from(["r", "s", "t"])),
        match=draw(conditions),
        idle=Idle(draw(st.sampled_from([1.0, 5.0])), draw(st.sampled_from([1.0, 6 * GIB])), draw(limits)),
        notice=notice,
        ladder=(Stage(Action.WARN, first), *lossy),
        keep=draw(st.integers(0, 7)) == 0,
        observe=draw(st.integers(0, 3)) == 0,
        states=dict(
            draw(st.lists(st.tuples(st.sampled_from([OwnerState.EXECUTING, OwnerState.SERVING]), limits), max_size=1))
        ),
        trickle=draw(st.sampled_from([None, None, Trickle(0.5, timedelta(hours=1)), Trickle(4.0, timedelta(hours=6))])),
    )


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Some rules and a catch-all."""
    catch_all = replace(draw(rules()), name="default", match=Match(), observe=False)
    mode = draw(st.sampled_from([Mode.ENFORCE, Mode.ENFORCE, Mode.OBSERVE]))
    return Policy(mode=mode, rules=(*draw(st.lists(rules(), max_size=3)), catch_all))


@st.composite
def any_scenes(draw: st.DrawFn, *, ripe: bool) -> tuple[Holder, Bench]:
    """A holder, and a bench without a policy worth the name. `ripe`: idle for long, and warned long ago."""
    states = st.sampled_from([OwnerState.IDLE] * 5 + [OwnerState.EXECUTING] * 3 + list(OwnerState))
    owned = replace(
        owner(
            "a",
            state=draw(states),
            kind=draw(st.sampled_from([OwnerKind.KERNEL, *OwnerKind])),
            notebook=draw(st.sampled_from(["a", "b", "x/y"])),
            kernelspec=draw(st.sampled_from(["a", "b"])),
        ),
        started_at=draw(maybe(minutes.map(lambda age: NOON - age))),
    )
    memory = 12 * GIB if ripe else draw(st.sampled_from([12 * GIB] * 3 + [0.0, GIB, GONE]))
    compute = 0.0 if ripe else draw(st.sampled_from([0.0] * 3 + [3.0, 60.0, GONE]))
    held = holder(memory, compute, of=owned)
    windows = {}
    if ripe or draw(st.integers(0, 9)):
        seen: Window = window(f"{699 if ripe else draw(st.sampled_from([1, 90, 300, 699]))}m", seen="700m", now=NOW)
        mean = draw(st.sampled_from([0.1, 2.0, 30.0]))
        windows = {owned.key: replace(seen, stretch=Stretch(seen.began, NOW, mean * (NOW - seen.began), 50.0))}
    ledger = Ledger()
    if ripe or draw(st.integers(0, 3)):
        warned = NOW - (36_000 if ripe else draw(st.sampled_from([60, 3600, 36_000])))
        ledger = Ledger({owned.key: Case(owned.key, key(100), "r", warned, stages_done=1, warned_at=warned)})
    used = draw(st.sampled_from([0.0, 79 * GIB, GONE]))
    device = Device("gpu-0", 0, draw(st.sampled_from(["a", "b"])), 80 * GIB, used)
    site = Site(draw(maybe(names)), frozenset(draw(st.lists(names, max_size=2))), draw(maybe(names)))
    bench = Bench(Policy(), windows, {}, ledger, {"gpu-0": device}, at(NOW), site)
    return held, bench


scenes = st.booleans().flatmap(lambda ripe: any_scenes(ripe=ripe))


def said(scene: tuple[Holder, Bench], ruled: Policy) -> Verdict:
    """What `ruled` says about the holder of `scene`."""
    held, bench = scene
    (verdict,) = judge((held,), replace(bench, policy=ruled))
    return verdict


@thorough
@given(scene=scenes, ruled=policies(), match=conditions, ahead=st.integers(-100, 100))
def test_adding_an_exemption_never_ends_more(
    scene: tuple[Holder, Bench], ruled: Policy, match: Match, ahead: int
) -> None:
    """It changes nothing, or it spares and says so."""
    until = scene[1].now.wall + timedelta(seconds=ahead)
    before, after = said(scene, ruled), said(scene, replace(ruled, exemptions=(Exemption(match, until, "x"),)))
    assert HARM.index(after.action) <= HARM.index(before.action)
    if after != before and after.action is not before.action:
        assert after.reasons[0].code is Code.EXEMPT
        assert ahead >= 0
        assert match.holds(scene[0], scene[1].around)


@thorough
@given(scene=scenes, ruled=policies(), rule=rules(), position=st.integers(0, 4), more=conditions)
def test_a_stricter_match_never_touches_who_is_not_matched(
    scene: tuple[Holder, Bench], ruled: Policy, rule: Rule, position: int, more: Match
) -> None:
    """Whom a narrowed rule does not match is judged as if the rule were not there; whom it still matches, as before."""
    narrowed = {
        part: getattr(more, part) if getattr(rule.match, part) is None else getattr(rule.match, part) for part in VALUES
    }
    strict = replace(rule, match=Match(**narrowed))
    place = min(position, len(ruled.rules) - 1)

    def with_rule(added: Rule) -> Policy:
        return replace(ruled, rules=(*ruled.rules[:place], added, *ruled.rules[place:]))

    if strict.match.holds(scene[0], scene[1].around):
        assert rule.match.holds(scene[0], scene[1].around)
        assert said(scene, with_rule(strict)) == said(scene, with_rule(rule))
    else:
        assert said(scene, with_rule(strict)) == said(scene, ruled)


@thorough
@given(scene=scenes, ruled=policies(), rule=rules(), position=st.integers(0, 4))
def test_a_rule_on_trial_only_adds_a_reason(
    scene: tuple[Holder, Bench], ruled: Policy, rule: Rule, position: int
) -> None:
    """Whatever it would do, everything else is as without it."""
    place = min(position, len(ruled.rules) - 1)
    trial = replace(rule, name="trial", observe=True)
    with_it = said(scene, replace(ruled, rules=(*ruled.rules[:place], trial, *ruled.rules[place:])))
    kept = tuple(reason for reason in with_it.reasons if reason.facts.get("rule") != "trial")
    assert len(with_it.reasons) - len(kept) <= 1
    assert replace(with_it, reasons=kept) == said(scene, ruled)


@thorough
@given(scene=scenes, ruled=policies(), data=st.data())
def test_rules_that_do_not_match_may_stand_anywhere(
    scene: tuple[Holder, Bench], ruled: Policy, data: st.DataObject
) -> None:
    """Of all rules only those matter that match, and of these only up to the first that decides."""
    around = scene[1].around
    first = next(n for n, r in enumerate(ruled.rules) if r.match.holds(scene[0], around) and not r.observe)
    matching = [rule for rule in ruled.rules[:first] if rule.match.holds(scene[0], around)]
    others = [rule for rule in ruled.rules[:-1] if not rule.match.holds(scene[0], around)]
    shuffled = data.draw(st.permutations([*others, *ruled.rules[first + 1 : -1]]))
    fewer = replace(ruled, rules=(*matching, ruled.rules[first], *shuffled, ruled.rules[-1]))
    assert said(scene, fewer) == said(scene, ruled)


@thorough
@given(scene=scenes, ruled=policies())
def test_what_is_not_known_is_never_ended(scene: tuple[Holder, Bench], ruled: Policy) -> None:
    """Whatever the rules say: not without memory, compute and a history."""
    held, bench = scene
    verdict = said(scene, ruled)
    if GONE in (held.memory, held.compute) or not bench.windows:
        assert verdict.action is Action.KEEP
    assert verdict.reasons


@thorough
@given(scene=scenes, ruled=policies())
def test_a_running_cell_is_ended_only_by_a_rule_that_names_it(scene: tuple[Holder, Bench], ruled: Policy) -> None:
    """By its `match`, or by a limit for that state."""
    verdict = said(scene, ruled)
    rule = ruled.rule_for(scene[0], scene[1].around)
    if verdict.action.loses_work:
        state = scene[0].state
        assert state is OwnerState.IDLE or rule.match.state is state or rule.states.get(state) is not None
        case = scene[1].ledger.cases[scene[0].owner.key]
        assert case.warned_at is not None
        assert NOW - case.warned_at >= rule.notice.total_seconds()
