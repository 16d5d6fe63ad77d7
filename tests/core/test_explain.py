"""Reasons in words."""

from __future__ import annotations

import pytest

from jupyter_gpu_guard.core.explain import (
    ARGUMENT,
    Said,
    argument,
    hours,
    memory,
    percent,
    reading,
    sentence,
    setting,
    span,
)
from jupyter_gpu_guard.core.model import OwnerState, Unknown, Why
from jupyter_gpu_guard.core.policy import Action, Belts
from jupyter_gpu_guard.core.verdict import Code, Fact, Reason

from .build import GIB, GONE, holder, lease, owner, policy, rule, rungs, verdict_on
from .drive import acts, drive
from .films import still

# The facts that each code travels with.
FACTS: dict[Code, dict[str, Fact]] = {
    Code.RULE_KEEPS: {"rule": "lectures"},
    Code.NEVER: {"rule": "lectures"},
    Code.UNKNOWN_READING: {"what": "memory", "why": "not-read", "detail": "devices"},
    Code.NOT_LOCAL: {"state": "idle"},
    Code.HOLDS_LITTLE: {"memory_bytes": 2.0**20, "memory_above_bytes": 2.0**29},
    Code.COMPUTING: {"compute_percent": 40.0, "compute_below_percent": 5.0},
    Code.IDLE_NOT_LONG: {"memory_bytes": GIB, "idle_seconds": 60, "for_seconds": 7200},
    Code.IDLE_TOO_LONG: {
        "memory_bytes": 6 * GIB,
        "idle_seconds": 7500,
        "for_seconds": 7200,
        "compute_percent": 0.0,
        "compute_below_percent": 5.0,
    },
    Code.STATE_WARNS_ONLY: {"state": "executing"},
    Code.TRICKLE: {"mean_percent": 0.4, "mean_below_percent": 2.0, "over_seconds": 21_600, "memory_bytes": 6 * GIB},
    Code.POSSIBLE_KEEP_ALIVE: {"pulses": 12, "over_seconds": 7200, "mean_percent": 0.1},
    Code.RULE_OBSERVES: {"rule": "students", "would": "shutdown", "idle_seconds": 7200},
    Code.EXEMPT: {"until": "2030-05-01T12:00:00+00:00", "reason": "rebuttal runs"},
    Code.LEASED: {"until": "2030-05-01T12:00:00+00:00", "reason": "long run", "by": "ada"},
    Code.NOTICE_RUNNING: {"wait_seconds": 90},
    Code.LADDER_DONE: {},
    Code.BELT: {"shutdowns_per_hour": 20, "shutdowns_per_tick": 5},
    Code.ACTING: {},
    Code.RETRY_LATER: {"wait_seconds": 60},
    Code.UNDELIVERED: {"wait_seconds": 43_200},
    Code.PARKED: {"memory_bytes": 6 * GIB},
    Code.WAITING_FOR_ROOM: {
        "device": "GPU 0",
        "needed_bytes": 6 * GIB,
        "free_bytes": GIB,
        "held_by": "train.ipynb 70.0 GiB, others 3.0 GiB",
    },
    Code.OVER_BUDGET: {
        "budget": "student-week",
        "rule": "used-up",
        "instead_of": "students",
        "measure": "idle_gib_hours",
        "per": "user",
        "used": 45.23,
        "limit": 40.0,
        "window_seconds": 604_800.0,
    },
    Code.OBSERVING: {},
    Code.ASKED: {"by": "ada"},
    Code.ATTENDED: {"state": "at-breakpoint"},
    Code.LAST_CELL_FAILED: {},
    Code.RUN_ENDED: {"processes": 3, "memory_bytes": 24 * GIB, "compute_percent": 100.0},
    Code.LEFT_BEHIND: {"processes": 4, "memory_bytes": 4 * GIB, "died": 1},
    Code.ESTIMATED: {},
    Code.SOLE_OWNER: {},
    Code.UNWATCHED: {"unwatched_seconds": 7200, "unwatched_for_seconds": 3600},
    Code.WATCHED: {"unwatched_seconds": 20, "unwatched_for_seconds": 3600},
}


@pytest.mark.parametrize("code", Code)
def test_every_code_has_a_sentence(code: Code) -> None:
    """A whole one, with its facts in it."""
    said = sentence(Reason(code, FACTS[code]))
    assert said[0].isupper() or said.startswith("ada ")
    assert said.endswith(".")
    for name, word in FACTS[code].items():
        coded = name == "measure" or code in (Code.NOT_LOCAL, Code.ATTENDED)
        assert not isinstance(word, str) or word in said or coded


def test_every_reason_that_judge_gives_has_a_sentence() -> None:
    """Its facts are those that the sentence needs; nothing is left as a dash that was known."""
    said = {}
    for verdict in (
        verdict_on(holder()),
        verdict_on(holder(), "1h"),
        verdict_on(holder(GONE)),
        verdict_on(holder(), windows={}),
        verdict_on(holder(2.0**20)),
        verdict_on(holder(compute=40.0)),
        verdict_on(holder(), by=rule(keep=True)),
        verdict_on(holder(), by=rule(lasting=None)),
        verdict_on(holder(), leased=lease(200_000)),
        verdict_on(holder(of=owner("a", None))),
        verdict_on(holder(of=owner(state=OwnerState.EXECUTING))),
        verdict_on(holder(), by=rule(ladder=rungs(("warn", "9h")))),
        verdict_on(holder(), by=rule(ladder=rungs("shutdown"))),
    ):
        said.update({reason.code: sentence(reason) for reason in verdict.reasons})
    usual = policy(rule(lasting="20s", notice="10s"), belts=Belts(0, 0))
    for one in drive(still(20), usual):
        said.update({reason.code: sentence(reason) for held in one.verdicts.values() for reason in held.reasons})
    assert {Code.BELT, Code.IDLE_TOO_LONG, Code.NOTICE_RUNNING, Code.LEASED, Code.STATE_WARNS_ONLY} <= set(said)
    assert not [words for words in said.values() if "–" in words or "None" in words]


def test_a_sentence_without_its_optional_facts_is_whole() -> None:
    """Nobody gave a reason, and nobody knows who it was."""
    assert sentence(Reason(Code.LEASED, {"until": "noon", "reason": "", "by": "ada"})) == "ada keeps it until noon."
    assert sentence(Reason(Code.ASKED)) == "Somebody asked for it."
    unread = Reason(Code.UNKNOWN_READING, {"what": "memory", "why": "not-read", "detail": ""})
    assert sentence(unread).startswith("Its memory could not be read (not-read);")


def texts(lines: list[Said]) -> list[str]:
    """The lines in English."""
    return [line.text for line in lines]


def test_each_line_of_an_argument_has_a_code_with_facts() -> None:
    """Reasons by their own; the others by those that are listed."""
    now = 100_000.0
    lines = argument(verdict_on(holder(), now=now), now)
    assert [line.code for line in lines] == ["argument-rule", "idle-too-long", "due-now", "next-in"]
    assert (lines[0].facts, lines[2].facts) == ({"rule": "default"}, {"step": "warn"})
    assert lines[3].facts == {"step": "shutdown", "wait_seconds": 900.0}
    kept = argument(verdict_on(holder(), by=rule(keep=True), now=now), now)
    assert kept[-1] == ("protected-now", "Protected now: exempt.", {"protections": "exempt"})
    ours = {line.code for line in (*lines, *kept, setting("enforce", "site.yaml"))}
    assert ours <= {*ARGUMENT, *(code.value for code in Code)}


def test_the_argument_names_rule_reasons_and_what_comes() -> None:
    """In this order, with the time that is left."""
    now = 100_000.0
    warn = verdict_on(holder(), now=now)
    assert texts(argument(warn, now)) == [
        "Rule: default.",
        "Holds 12.0 GiB with less than 5 % compute for 3 h; the limit is 2 h.",
        "Due now: a warning.",
        "Next: a shutdown in 15 min at the earliest.",
    ]
    early = texts(argument(verdict_on(holder(), "1h", now=now), now))
    assert early[-1] == "Next: a warning in 1 h at the earliest."
    kept = texts(argument(verdict_on(holder(), by=rule(keep=True), now=now), now))
    assert kept == ["Rule: default.", "Rule default leaves it alone.", "Protected now: exempt."]


def test_the_argument_for_an_act_says_what_is_due() -> None:
    """It is not announced a second time."""
    (act,) = acts(drive(still(20), policy(rule(lasting="20s", notice="10s"))), Action.SHUTDOWN)
    lines = texts(argument(act.verdict, act.begun.monotonic))
    assert lines[-1] == "Due now: a shutdown."


def test_an_overdue_step_comes_now() -> None:
    """A belt holds it back; there is no time left to tell."""
    ticks = drive(still(20), policy(rule(lasting="20s", notice="10s"), belts=Belts(0, 0)))
    (verdict,) = ticks[-1].verdicts.values()
    assert texts(argument(verdict, ticks[-1].snapshot.taken_at.monotonic))[-1] == "Next: a shutdown now."
    assert verdict.deadline is not None
    assert texts(argument(verdict, verdict.deadline))[-1] == "Next: a shutdown now."
    assert texts(argument(verdict, verdict.deadline - 1))[-1] == "Next: a shutdown in 1 s at the earliest."


@pytest.mark.parametrize(
    ("amount", "said"), [(0.04, "0.04"), (45.23, "45.2"), (99.4, "99.4"), (100.0, "100"), (1234.5, "1234"), (None, "–")]
)
def test_hours(amount: Fact, said: str) -> None:
    """Three digits that count, and all that stand before the point; a dash for what is not known."""
    assert hours(amount) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (90, "1 min 30 s"),
        (600, "10 min"),
        (615, "10 min"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (86_400, "1 d"),
        (90_060, "1 d 1 h 1 min"),
        (None, "–"),
    ],
)
def test_spans(seconds: float | None, said: str) -> None:
    """As people say them; a dash for what is not known."""
    assert span(seconds) == said


@pytest.mark.parametrize(
    ("amount", "said"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (6 * GIB, "6.0 GiB"), (2.0**40, "1.0 TiB"), (GONE, "–")],
)
def test_memory(amount: float | Unknown, said: str) -> None:
    """In binary units."""
    assert memory(amount) == said


@pytest.mark.parametrize(("share", "said"), [(0.0, "0 %"), (0.44, "0.4 %"), (3.0, "3 %"), (55.5, "56 %"), (GONE, "–")])
def test_percent(share: float | Unknown, said: str) -> None:
    """With a decimal where it matters."""
    assert percent(share) == said


def test_a_reading_is_a_number_or_a_reason() -> None:
    """Never both, and never a number for what is not known."""
    assert reading(0.0) == (0.0, None)
    assert reading(Unknown(Why.DEVICE_LOST)) == (None, "device-lost")
