"""An idle limit by the pauses from which one has come back, and how far it carries when it is honestly chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from .rules import Ends, minutes_idle
from .score import Score, score
from .sessions import HOUR, Kind, Session

SHORTEST = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)  # hours
FACTORS = (0.0, 1.0, 1.5, 2.0, 3.0)


def pauses_before(sessions: Sequence[Session]) -> dict[str, float]:
    """The longest pause (seconds) in the same owner's earlier sessions, by the name of the session."""
    found: dict[str, float] = {}
    longest: dict[str, float] = {}
    for session in sorted(sessions, key=lambda each: each.began):
        found[session.name] = longest.get(session.owner, 0.0)
        longest[session.owner] = max(found[session.name], _longest_pause(session))
    return found


def _longest_pause(session: Session) -> float:
    """The longest rest after which a cell ran again."""
    longest, rest = 0.0, 0.0
    for span in session.spans:
        if span.kind is Kind.REST:
            rest += span.end - span.begin
        else:
            longest, rest = max(longest, rest), 0.0
    return longest


def by_own_pauses(
    shortest: float, factor: float, earlier: Mapping[str, float], longest: float = 2.0, notice: float = 0.25
) -> Ends:
    """A limit of so many hours for each: `factor` times the longest pause from which it has come back so far.

    Never below `shortest`, never above `longest`. Only rest counts, not a cell that runs.
    """

    def ends(session: Session) -> float | None:
        rest, longest_pause = 0.0, earlier.get(session.name, 0.0)
        for span in session.spans:
            if span.kind is not Kind.REST:
                longest_pause, rest = max(longest_pause, rest), 0.0
                continue
            limit = HOUR * (min(longest, max(shortest, factor * longest_pause / HOUR)) + notice)
            if rest + span.end - span.begin >= limit:
                return span.begin + limit - rest
            rest += span.end - span.begin
        return None

    return ends


def leave_one_owner_out(sessions: Sequence[Session], earlier: Mapping[str, float]) -> tuple[Score, dict[str, str]]:
    """The score where each owner is judged by what suits all others best, and what that was, by owner.

    `earlier`: the longest pause known before a session begins, in seconds, by its name.

    Best reclaims most without losing more than the rule of two hours does on the same notebooks.
    """
    total, choices = Score(), {}
    for owner in sorted({session.owner for session in sessions}):
        others = [session for session in sessions if session.owner != owner]
        allowed = score(others, minutes_idle(120)).lost_hours
        tried = {
            (shortest, factor): score(others, by_own_pauses(shortest, factor, earlier))
            for shortest, factor in product(SHORTEST, FACTORS)
        }
        fitting = [each for each in tried if tried[each].lost_hours <= allowed]
        # Where nothing fits, the mildest; of equals the later one.
        chosen = max(fitting or tried, key=lambda each: (tried[each].reclaimed_hours if fitting else 0.0, each))
        choices[owner] = f"{chosen[0]:g} h or {chosen[1]:g} times"
        for session in sessions:
            if session.owner == owner:
                total.add(session, by_own_pauses(*chosen, earlier)(session))
    return total, choices
