"""What is open: Cases and the Ledger, and how Outcomes move them. Pure.

Only an Outcome moves a Case: a verdict that was not carried out changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from math import inf

from .model import Instant, OwnerKey, ProcessKey
from .policy import Action
from .verdict import Code, Notice, Outcome, Result, Verdict

HOUR = 3600.0
FIRST_RETRY = 60.0
_DOUBLINGS = 6  # reach an hour

# A holder kept for one of these reasons is still over its limits: its Case stays open.
_STILL_OPEN = frozenset(
    {
        Code.NOTICE_RUNNING,
        Code.UNDELIVERED,
        Code.LADDER_DONE,
        Code.BELT,
        Code.ACTING,
        Code.RETRY_LATER,
        Code.RUN_ENDED,
    }
)


@dataclass(frozen=True)
class Case:
    """The open matter of one Holder under one Rule. Times are monotonic seconds.

    `stages_done` rungs of the rule's ladder are behind it. `warned_at`: since when a delivered warning names a loss; it
    is None after a hint that nothing follows by itself, and once nothing does any more. `deadline` was promised in such
    a warning, or shown after it: nothing is lost before it, and it only ever moves away. `undelivered`: the warning has
    reached nobody so far. `hinted`: some warning has been given, if only a hint. `acting`: something is being done to
    its owner; `gently`: and that leaves it alive.
    """

    owner: OwnerKey
    root: ProcessKey | None
    rule: str
    opened_at: float
    stages_done: int = 0
    warned_at: float | None = None
    deadline: float | None = None
    notice: Notice | None = None
    acting: bool = False
    gently: bool = False
    failures: int = 0
    retry_at: float | None = None
    undelivered: bool = False
    hinted: bool = False


@dataclass(frozen=True)
class Ledger:
    """All open Cases, and when the last shutdowns were. A rehearsal ledger is thrown away once the mode is enforce."""

    cases: Mapping[OwnerKey, Case] = field(default_factory=dict)
    shutdowns_at: tuple[float, ...] = ()
    rehearsal: bool = False

    def case_of(self, owner: OwnerKey, root: ProcessKey | None) -> Case | None:
        """The open Case of `owner`, unless it concerns an earlier root."""
        case = self.cases.get(owner)
        return case if case is not None and case.root == root else None

    def is_unheard(self, warning: Outcome) -> bool:
        """Whether `warning` has reached nobody, and none before it in the same Case that names a loss has either."""
        case = self.case_of(warning.owner, warning.root)
        return warning.undelivered and (case is None or case.warned_at is None or case.undelivered)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """The warnings that stand. A rehearsal warns nobody."""
        if self.rehearsal:
            return ()
        return tuple(case.notice for _, case in sorted(self.cases.items()) if case.notice is not None)


def review(ledger: Ledger, verdicts: Iterable[Verdict], now: Instant) -> Ledger:
    """Open a Case for what is due for the first time, close those whose holder is within its limits again or gone."""
    cases: dict[OwnerKey, Case] = {}
    for verdict in verdicts:
        case = ledger.case_of(verdict.owner, verdict.root)
        if verdict.action is Action.KEEP:
            if case is not None and _is_still_over(verdict):
                cases[verdict.owner] = _moved(_called_off(case, verdict), verdict, now)
            continue
        opened = case or Case(verdict.owner, verdict.root, verdict.rule, now.monotonic)
        cases[verdict.owner] = _moved(opened, verdict, now)
    for owner, case in ledger.cases.items():
        if case.acting:  # an act outlives the owner it is about
            cases.setdefault(owner, case)
    recent = tuple(at for at in ledger.shutdowns_at if at > now.monotonic - HOUR)
    return replace(ledger, cases=cases, shutdowns_at=recent)


def under_new_rules(ledger: Ledger) -> Ledger:
    """The Ledger when other rules take over: a warning given and its deadline stay, the stages after it start over."""
    cases = {owner: replace(case, stages_done=min(case.stages_done, 1)) for owner, case in ledger.cases.items()}
    return replace(ledger, cases=cases)


def _is_still_over(verdict: Verdict) -> bool:
    """Whether the holder is still over its limits, or what it was given a hint about still holds true."""
    return any(reason.code in _STILL_OPEN for reason in verdict.reasons)


def _called_off(case: Case, verdict: Verdict) -> Case:
    """The Case once it is said that nothing follows by itself: should that change, a loss has to be named anew."""
    if case.warned_at is None or all(reason.code is not Code.STATE_WARNS_ONLY for reason in verdict.reasons):
        return case
    notice = case.notice and replace(case.notice, next_action=None, deadline=None)
    return replace(case, warned_at=None, notice=notice)


def begin(ledger: Ledger, verdict: Verdict, now: Instant) -> Ledger:
    """Note that an act on the owner of `verdict` is under way: until it is settled nothing else happens to it."""
    case = ledger.case_of(verdict.owner, verdict.root) or Case(verdict.owner, verdict.root, verdict.rule, now.monotonic)
    begun = replace(case, acting=True, gently=verdict.action.leaves_it_alive)
    return replace(ledger, cases={**ledger.cases, verdict.owner: begun})


def settle(ledger: Ledger, verdict: Verdict, outcome: Outcome, now: Instant, notice: Notice | None = None) -> Ledger:
    """Enter what really happened. `notice` is the warning that was delivered, if it was one."""
    shutdowns = ledger.shutdowns_at
    if verdict.action.loses_work and outcome.result in (Result.DONE, Result.REHEARSED):
        shutdowns = (*shutdowns, now.monotonic)
    case = ledger.case_of(verdict.owner, verdict.root)
    if case is None or (case.acting and verdict.action is Action.WARN):
        # Overtaken: the Case was closed meanwhile, is about another root, or somebody has begun to act on it.
        return replace(ledger, shutdowns_at=shutdowns)
    cases = dict(ledger.cases)
    if verdict.action.leaves_it_alive:
        _settle_gently(cases, case, verdict, outcome)
    elif outcome.result is Result.FAILED:
        wait = min(FIRST_RETRY * 2 ** min(case.failures, _DOUBLINGS), HOUR)
        cases[verdict.owner] = replace(case, acting=False, failures=case.failures + 1, retry_at=now.monotonic + wait)
    elif outcome.result in (Result.ALREADY_GONE, Result.WITHDRAWN):
        del cases[verdict.owner]
    elif verdict.action is Action.WARN:
        cases[verdict.owner] = _warned(case, verdict, now, notice, undelivered=ledger.is_unheard(outcome))
    elif outcome.result is Result.REHEARSED:
        cases[verdict.owner] = replace(case, acting=False, stages_done=case.stages_done + 1)
    else:
        del cases[verdict.owner]
    return replace(ledger, cases=cases, shutdowns_at=shutdowns)


def _settle_gently(cases: dict[OwnerKey, Case], case: Case, verdict: Verdict, outcome: Outcome) -> None:
    """Enter an act after which the owner lives on. One that did not help is not tried twice: the next stage follows."""
    asked = any(reason.code is Code.ASKED for reason in verdict.reasons)
    closes = (Result.ALREADY_GONE,) if asked else (Result.ALREADY_GONE, Result.WITHDRAWN)
    if outcome.result in closes or (asked and case.stages_done == 0):
        del cases[verdict.owner]
        return
    # What a person has asked for takes no warning back, and no deadline with it, whatever came of it.
    done = case.stages_done if asked else (case.stages_done if verdict.stage is None else verdict.stage) + 1
    cases[verdict.owner] = replace(case, acting=False, gently=False, stages_done=max(case.stages_done, done))


def wait_before_loss(verdict: Verdict, *, undelivered: bool) -> float | None:
    """Seconds between a warning and the loss that it names; None: nothing is lost before it reaches somebody."""
    if undelivered:
        return None if verdict.undelivered is None else max(verdict.notice or 0.0, verdict.undelivered)
    return verdict.notice or 0.0


def _warned(case: Case, verdict: Verdict, now: Instant, notice: Notice | None, *, undelivered: bool) -> Case:
    """The Case after a warning. The first that names a loss counts; after a hint it has to be named anew.

    So has one that reached nobody, once somebody is there: what it promised was told to nobody.
    """
    warned_at, promised = None, case.deadline
    if verdict.deadline is not None:
        first = case.warned_at is None or case.undelivered
        warned_at = now.monotonic if first else case.warned_at
        wait = wait_before_loss(verdict, undelivered=undelivered)
        earlier = -inf if case.deadline is None or (case.undelivered and not undelivered) else case.deadline
        promised = None if wait is None else max(verdict.deadline, now.monotonic + wait, earlier)
        notice = notice and _as_promised(notice, verdict, promised, now)
    return replace(
        case,
        failures=0,
        retry_at=None,
        stages_done=max(case.stages_done, (case.stages_done if verdict.stage is None else verdict.stage) + 1),
        warned_at=warned_at,
        deadline=promised,
        notice=notice,
        undelivered=undelivered and warned_at is not None,
        hinted=True,
    )


def _as_promised(notice: Notice, verdict: Verdict, promised: float | None, now: Instant) -> Notice:
    """`notice` of what the Case holds to; without a deadline it names nothing that follows."""
    if promised is None:
        return replace(notice, next_action=None, deadline=None)
    deadline = now.wall + timedelta(seconds=promised - now.monotonic)
    return replace(notice, next_action=verdict.next_action, deadline=deadline)


def _moved(case: Case, verdict: Verdict, now: Instant) -> Case:
    """The Case under the rule that decides now. A warning given stays given; the stages start over after it.

    A later deadline that this rule shows holds from then on, whatever rule comes next.
    """
    if case.rule != verdict.rule:
        case = replace(case, rule=verdict.rule, stages_done=min(case.stages_done, 1))
    shown = verdict.deadline
    losing = verdict.next_action is not None and verdict.next_action.loses_work
    if not losing or shown is None or case.deadline is None or shown <= case.deadline:
        return case
    wall = now.wall + timedelta(seconds=shown - now.monotonic)
    return replace(case, deadline=shown, notice=case.notice and replace(case.notice, deadline=wall))
