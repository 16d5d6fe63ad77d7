"""What is open: Cases and the Ledger, and how Outcomes move them. Pure.

Only an Outcome moves a Case: a verdict that was not carried out changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from .model import Instant, OwnerKey, ProcessKey
from .policy import Action
from .verdict import Code, Notice, Outcome, Result, Verdict

HOUR = 3600.0
FIRST_RETRY = 60.0

# A holder kept for one of these reasons is still over its limits: its Case stays open.
_STILL_OPEN = frozenset({Code.NOTICE_RUNNING, Code.LADDER_DONE, Code.BELT, Code.ACTING, Code.RETRY_LATER})


@dataclass(frozen=True)
class Case:
    """The open matter of one Holder under one Rule. Times are monotonic seconds.

    `stages_done` rungs of the rule's ladder are behind it. `deadline` was promised in a delivered warning: nothing is
    lost before it, and it only ever moves away.
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
    failures: int = 0
    retry_at: float | None = None


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
            if case is not None and (case.acting or any(r.code in _STILL_OPEN for r in verdict.reasons)):
                cases[verdict.owner] = _moved(case, verdict.rule)
            continue
        opened = case or Case(verdict.owner, verdict.root, verdict.rule, now.monotonic)
        cases[verdict.owner] = _moved(opened, verdict.rule)
    for owner, case in ledger.cases.items():
        if case.acting:  # an act outlives the owner it is about
            cases.setdefault(owner, case)
    recent = tuple(at for at in ledger.shutdowns_at if at > now.monotonic - HOUR)
    return replace(ledger, cases=cases, shutdowns_at=recent)


def begin(ledger: Ledger, verdict: Verdict, now: Instant) -> Ledger:
    """Note that an act on the owner of `verdict` is under way: until it is settled nothing else happens to it."""
    case = ledger.case_of(verdict.owner, verdict.root) or Case(verdict.owner, verdict.root, verdict.rule, now.monotonic)
    return replace(ledger, cases={**ledger.cases, verdict.owner: replace(case, acting=True)})


def settle(ledger: Ledger, verdict: Verdict, outcome: Outcome, now: Instant, notice: Notice | None = None) -> Ledger:
    """Enter what really happened. `notice` is the warning that was delivered, if it was one."""
    case = ledger.cases.get(verdict.owner)
    shutdowns = ledger.shutdowns_at
    if case is None:
        return ledger
    cases = dict(ledger.cases)
    if outcome.result is Result.FAILED:
        wait = min(FIRST_RETRY * 2**case.failures, HOUR)
        cases[verdict.owner] = replace(case, acting=False, failures=case.failures + 1, retry_at=now.monotonic + wait)
    elif outcome.result in (Result.ALREADY_GONE, Result.WITHDRAWN):
        del cases[verdict.owner]
    elif verdict.action is Action.WARN:
        promised = None
        if verdict.deadline is not None:
            promised = max(verdict.deadline, now.monotonic + (verdict.notice or 0.0), case.deadline or 0.0)
        cases[verdict.owner] = replace(
            case,
            acting=False,
            failures=0,
            retry_at=None,
            stages_done=case.stages_done + 1,
            warned_at=now.monotonic if case.warned_at is None else case.warned_at,
            deadline=promised,
            notice=notice,
        )
    else:
        shutdowns = (*shutdowns, now.monotonic)
        if outcome.result is Result.REHEARSED:
            cases[verdict.owner] = replace(case, acting=False, stages_done=case.stages_done + 1)
        else:
            del cases[verdict.owner]
    return replace(ledger, cases=cases, shutdowns_at=shutdowns)


def _moved(case: Case, rule: str) -> Case:
    """The Case under the rule that decides now. A warning given stays given; the stages start over after it."""
    if case.rule == rule:
        return case
    return replace(case, rule=rule, stages_done=min(case.stages_done, 1))
