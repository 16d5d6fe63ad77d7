"""The belts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpu_guard.core.ledger import HOUR, Case, Ledger, begin
from jupyter_gpu_guard.core.limit import limit
from jupyter_gpu_guard.core.policy import Action, Belts
from jupyter_gpu_guard.core.verdict import Code, Reason, Verdict

from .build import at, codes, key, owner, steady

NOW = 100_000.0
WIDE = Belts(1000, 1000)


def due(name: str, action: Action = Action.SHUTDOWN) -> Verdict:
    """A Verdict on kernel `name`."""
    return Verdict(owner(name).key, key(100), action, "default", (Reason(Code.IDLE_TOO_LONG),), stage=1)


def ledger(*, opened: dict[str, float], acting: str = "", shutdowns: tuple[float, ...] = ()) -> Ledger:
    """Cases by the time they were opened at."""
    cases = {
        owner(name).key: Case(owner(name).key, key(100), "default", since, acting=name in acting)
        for name, since in opened.items()
    }
    return Ledger(cases, shutdowns)


def passed(verdicts: tuple[Verdict, ...]) -> str:
    """The names of those that may be shut down."""
    return "".join(verdict.owner.id for verdict in verdicts if verdict.action is Action.SHUTDOWN)


def test_no_more_than_so_many_in_a_tick_the_oldest_case_first() -> None:
    """The others are kept, stay in their place, and say why."""
    verdicts = limit(map(due, "abcd"), ledger(opened={"a": 4, "b": 2, "c": 1, "d": 3}), Belts(20, 2), at(NOW))
    assert passed(verdicts) == "bc"
    assert [verdict.owner.id for verdict in verdicts] == ["a", "b", "c", "d"]
    assert (verdicts[0].action, codes(verdicts[0])) == (Action.KEEP, [Code.IDLE_TOO_LONG, Code.BELT])
    assert verdicts[0].stage == 1


def test_of_two_of_the_same_age_the_first_by_name_goes() -> None:
    """Always the same one, whatever order they come in."""
    for names in ("ab", "ba"):
        assert passed(limit(map(due, names), ledger(opened={"a": 1, "b": 1}), Belts(20, 1), at(NOW))) == "a"


def test_who_has_no_case_waits_for_those_who_have_one() -> None:
    """It counts as due since now."""
    assert passed(limit(map(due, "ab"), ledger(opened={"b": NOW - 1}), Belts(20, 1), at(NOW))) == "b"


def test_no_more_than_so_many_in_an_hour() -> None:
    """An hour later the next may go."""
    lately = ledger(opened={"a": 1, "b": 2}, shutdowns=(NOW - HOUR, NOW - HOUR + 1, NOW - 5))
    assert passed(limit(map(due, "ab"), lately, Belts(2, 5), at(NOW))) == ""
    assert passed(limit(map(due, "ab"), lately, Belts(3, 5), at(NOW))) == "a"
    assert passed(limit(map(due, "ab"), lately, Belts(2, 5), at(NOW + 1))) == "a"


def test_acts_under_way_count_for_the_hour() -> None:
    """They will have happened in it."""
    busy = ledger(opened={"a": 1, "b": 2, "x": 0, "y": 0}, acting="xy")
    assert passed(limit(map(due, "ab"), busy, Belts(2, 5), at(NOW))) == ""
    assert passed(limit(map(due, "ab"), busy, Belts(3, 5), at(NOW))) == "a"


@pytest.mark.parametrize("action", [Action.RELEASE, Action.PARK, Action.RESUME])
def test_acts_that_leave_their_owner_alive_do_not_count(action: Action) -> None:
    """However many are under way, a loss that is due has the whole hour's room; a shutdown under way takes of it."""
    state = ledger(opened={"a": 1})
    for name in "xyz":
        state = begin(state, due(name, action), at(NOW))
    assert passed(limit([due("a")], state, Belts(1, 5), at(NOW))) == "a"
    assert passed(limit([due("a")], begin(state, due("s"), at(NOW)), Belts(1, 5), at(NOW))) == ""


def test_belts_hold_back_losses_only() -> None:
    """A warning costs nobody anything."""
    warned = limit([due("a", Action.WARN), due("b")], ledger(opened={"a": 1, "b": 2}), Belts(0, 0), at(NOW))
    assert [verdict.action for verdict in warned] == [Action.WARN, Action.KEEP]


def test_what_passes_is_unchanged() -> None:
    """Belts add nothing to it."""
    assert limit([due("a")], ledger(opened={"a": 1}), WIDE, at(NOW)) == (due("a"),)


NAMES = st.sampled_from("abcdefgh")


@steady
@given(
    st.dictionaries(NAMES, st.integers(0, 5).map(float), max_size=8),
    st.lists(NAMES, unique=True, max_size=8),
    st.lists(st.floats(NOW - 2 * HOUR, NOW), max_size=8).map(tuple),
    st.integers(0, 6),
    st.integers(0, 6),
)
def test_exactly_as_many_pass_as_there_is_room(
    opened: dict[str, float], named: list[str], shutdowns: tuple[float, ...], per_hour: int, per_tick: int
) -> None:
    """Not one more, and not one less; and nobody passes who is younger than one that is held back."""
    state = ledger(opened=opened, shutdowns=shutdowns)
    verdicts = limit(map(due, named), state, Belts(per_hour, per_tick), at(NOW))
    room = max(0, min(per_tick, per_hour - sum(1 for then in shutdowns if then > NOW - HOUR)))
    going = passed(verdicts)
    assert len(going) == min(room, len(named))
    ages = {name: opened.get(name, NOW) for name in named}
    kept = [ages[name] for name in named if name not in going]
    assert not kept or all(ages[name] <= min(kept) for name in going)
