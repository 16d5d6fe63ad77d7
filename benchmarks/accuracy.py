"""Who would have been ended, what that would have given back, and what it would have cost, beside other rules.

    python -m benchmarks.accuracy [--traces FOLDER] [--sessions 400] [--json FILE]

Every rule is played over the same notebook sessions: recorded ones (`benchmarks/data`, or another folder of that
form), and made-up ones. Each ends a session at most once. From then on its idle hours are reclaimed and its computing
hours are lost; whoever computes after its end came back. The rows of this project go through its own judging code.
Nothing passes or fails.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from math import ceil
from pathlib import Path
from statistics import mean, median
from typing import Any

from .foresight import best
from .own_pauses import leave_one_owner_out, pauses_before
from .rules import RULES
from .score import Parking, Score, score
from .sessions import HOUR, Session, made_up, recorded

WIDTH = 70
DATA = Path(__file__).parent / "data"
TWO_HOURS, PARKED_AFTER, ENDS_AFTER = "every minute below 5 % for 2 h", 15, 30
PARKINGS = {"of rest": Parking(60.0 * PARKED_AFTER), "idle": Parking(60.0 * PARKED_AFTER, only_at_rest=False)}
DEFAULTS, SHORTER = "ours: defaults (2 h, notice 15 min)", "ours: 30 min, notice 15 min"


def about(sessions: Sequence[Session]) -> str:
    """What the sessions are like."""
    spans = [span for session in sessions for span in session.spans]
    held, idle = sum(s.end - s.begin for s in spans), sum(s.end - s.begin for s in spans if s.is_idle)
    means = [
        sum(s.percent * (s.end - s.begin) for s in session.spans) / sum(s.end - s.begin for s in session.spans)
        for session in sessions
    ]
    owners = len({session.owner for session in sessions})
    return (
        f"{len(sessions)} notebooks, owners: {owners}, {held / HOUR:.1f} GPU-hours, {idle / HOUR:.1f} of them idle;\n"
        f"compute of a notebook: mean {mean(means):.1f} %, median {median(means):.1f} %, "
        f"never any in {100 * sum(not m for m in means) / len(means):.1f} %"
    )


def compare(sessions: Sequence[Session]) -> dict[str, Score]:
    """The score of each rule."""
    return {name: score(sessions, ends) for name, ends in RULES.items()}


def with_parking(sessions: Sequence[Session]) -> dict[str, Score]:
    """The score of ours, if idle memory could be given back without an end: while no cell runs, or always."""
    return {
        f"{name}; parked after {PARKED_AFTER} min {when}": score(sessions, RULES[name], parking)
        for name in (DEFAULTS, SHORTER)
        for when, parking in PARKINGS.items()
    }


def show(found: dict[str, Score]) -> None:
    """A table for people."""
    heads = ("ended", "came back", "lost h", "reclaimed h", "without an end h")
    width = WIDTH
    print(" " * width + "".join(f"{head:>{len(head) + 3}}" for head in heads))
    for name, scored in found.items():
        parts = (
            f"{scored.ended}",
            f"{scored.came_back}",
            f"{scored.lost_hours:.1f}",
            f"{scored.reclaimed_hours:.1f}",
            f"{scored.without_ending_hours:.1f}",
        )
        print(f"{name:{width}}" + "".join(f"{part:>{len(head) + 3}}" for part, head in zip(parts, heads, strict=True)))


def show_bounds(sessions: Sequence[Session], allowed: float) -> None:
    """How much whoever knows the future could reclaim by ending, at no more loss than the two-hour rule."""
    print(f"Whoever knew the future could, for at most {allowed:.1f} h lost, reclaim by ending sessions:")
    print(f"  {best(sessions, allowed, rest_for=None):.1f} h at any moment without compute")
    for minutes in (0, ENDS_AFTER):
        print(
            f"  {best(sessions, allowed, rest_for=60.0 * minutes):.1f} h only after {minutes} min in which no cell ran"
        )


def show_own_pauses(sessions: Sequence[Session]) -> None:
    """A limit by everyone's own pauses, chosen on the others' notebooks and tried on one's own."""
    print("A limit by one's own pauses, chosen without one's own notebooks (leave one owner out):")
    for what, earlier in (("this notebook", {}), ("all earlier notebooks", pauses_before(sessions))):
        found, choices = leave_one_owner_out(sessions, earlier)
        print(
            f"  pauses of {what}: ended {found.ended}, came back {found.came_back}, lost {found.lost_hours:.1f} h, ",
            end="",
        )
        print(f"reclaimed {found.reclaimed_hours:.1f} h; chosen: {', '.join(sorted(set(choices.values())))}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=DATA, help="a folder of recorded notebooks")
    parser.add_argument("--sessions", type=int, default=400, help="how many to make up; 0: none")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    options = parser.parse_args()
    written: dict[str, Any] = {}
    for title, sessions in (("Recorded", recorded(options.traces)), ("Made up", made_up(options.sessions))):
        if not sessions:
            continue
        found = compare(sessions)
        print(f"\n{title}: {about(sessions)}")
        show(found)
        print("If idle memory could be given back without an end, which is not built yet:")
        show(with_parking(sessions))
        show_bounds(sessions, ceil(10 * found[TWO_HOURS].lost_hours) / 10)
        if len({session.owner for session in sessions}) > 1:
            show_own_pauses(sessions)
        written[title] = {name: asdict(scored) for name, scored in found.items()}
    if options.json:
        options.json.write_text(json.dumps(written, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
