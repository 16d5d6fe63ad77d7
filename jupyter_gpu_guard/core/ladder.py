"""Which rung of its ladder a Holder that is over its limit has come to, and when the next one is due. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from .ledger import Case
from .model import Holder
from .policy import Action, Rule, Stage
from .verdict import Code, Fact, Reason, Verdict


def usable(holder: Holder, rule: Rule) -> tuple[tuple[Stage, ...], tuple[Reason, ...]]:
    """The rungs that may be used: unless the rule names the state, all but an idle owner is only ever warned.

    Nor does anything more follow where it is only inferred that it is on a device, unless the rule trusts that.
    """
    state = holder.state
    named = rule.ends_in(state)
    trusted = rule.trust_estimates or not holder.estimated
    if named and trusted:
        return rule.ladder, ()
    warnings = tuple(stage for stage in rule.ladder if stage.do is Action.WARN)
    if named:
        return warnings, ()
    facts: dict[str, Fact] = {"state": state.value}
    if holder.kernels_within:
        facts["kernels_within"] = 1
    return warnings, (Reason(Code.STATE_WARNS_ONLY, facts),)


@dataclass(frozen=True)
class Climb:
    """One Holder on its `ladder`, over its limit for `over` seconds at the monotonic time `now`."""

    ladder: tuple[Stage, ...]
    rule: Rule
    case: Case | None
    over: float
    now: float

    def step(self, verdict: Verdict) -> Verdict:
        """`verdict` with the rung that is due now, or with the one that comes next and when."""
        index = self._done
        if index >= len(self.ladder):
            return _with(verdict, Code.LADDER_DONE)
        if self._names_too_little(index):
            warning = self._last_warning(index)
            index = index if warning is None else warning
        stage, loss = self.ladder[index], self._loss_from(self.case)
        if self._is_undelivered:
            verdict = _with(verdict, Code.UNDELIVERED, wait_seconds=verdict.undelivered)
        if stage.do.loses_work and self._is_told and loss is None:
            return replace(verdict, stage=index, next_action=stage.do)
        due = loss if stage.do.loses_work and loss is not None else self.now + stage.after.total_seconds() - self.over
        verdict = replace(verdict, stage=index, next_action=stage.do, deadline=due)
        if self.now < self._retry_at:
            verdict = _with(verdict, Code.RETRY_LATER, wait_seconds=self._retry_at - self.now)
            return replace(verdict, deadline=max(due, self._retry_at))
        if self.now < due or (stage.do.loses_work and not self._is_told):
            return _with(verdict, Code.NOTICE_RUNNING, wait_seconds=max(0.0, due - self.now))
        return self._due(verdict, index)

    def told_again(self, verdict: Verdict) -> Verdict:
        """The warning that has reached nobody so far, now that it does: with the full notice from now on.

        It waits as others do where its last delivery failed, and where no rung warns there is nothing to tell.
        """
        index = self._last_warning(self._done)
        if index is None:
            index = next((n for n, stage in enumerate(self.ladder) if stage.do is Action.WARN), None)
        if index is None or self.now < self._retry_at:
            return self.step(verdict)
        return self._due(replace(verdict, stage=index, repeated=True), index)

    @property
    def _done(self) -> int:
        return self.case.stages_done if self.case is not None else 0

    @property
    def _retry_at(self) -> float:
        return self.case.retry_at if self.case is not None and self.case.retry_at is not None else self.now

    @property
    def _loss(self) -> Stage | None:
        """The rung at which something is lost: the last one, if there is one."""
        return next((stage for stage in self.ladder if stage.do.loses_work), None)

    @property
    def _is_told(self) -> bool:
        return self.case is not None and self.case.warned_at is not None

    @property
    def _is_undelivered(self) -> bool:
        return self.case is not None and self.case.undelivered

    def _names_too_little(self, index: int) -> bool:
        """Whether nobody was told of the loss that this rung is, or that follows once it has parked the owner.

        Where no loss follows a hint is enough to park.
        """
        do = self.ladder[index].do
        hint_is_enough = do is Action.PARK and self._loss is None and self.case is not None and self.case.hinted
        return (do.loses_work or do is Action.PARK) and not (self._is_told or hint_is_enough)

    def _due(self, verdict: Verdict, index: int) -> Verdict:
        """`verdict` with the rung that is due. A warning after one that reached nobody names the full notice anew."""
        do = self.ladder[index].do
        loss = self._loss_from(None if self._is_undelivered and do is Action.WARN else self.case)
        return replace(verdict, action=do, next_action=self._loss.do if self._loss else None, deadline=loss)

    def _last_warning(self, before: int) -> int | None:
        """The last rung below `before` that warns, if there is one."""
        return max((n for n, stage in enumerate(self.ladder[:before]) if stage.do is Action.WARN), default=None)

    def _loss_from(self, case: Case | None) -> float | None:
        """The monotonic time of the loss that may come: after its stage is due, and after the full notice.

        A deadline that was promised in `case` stays: a rule that takes over may move it away, never closer. None: no
        loss will come, or the warning has reached nobody, and the rule waits until it does.
        """
        if self._loss is None:
            return None
        due = self.now + self._loss.after.total_seconds() - self.over
        warned_at = case.warned_at if case is not None and case.warned_at is not None else self.now
        promised = case.deadline if case is not None and case.deadline is not None else due
        wait: timedelta | None = self.rule.notice
        if case is not None and case.undelivered:
            wait = None if self.rule.undelivered is None else max(self.rule.notice, self.rule.undelivered)
        return None if wait is None else max(due, warned_at + wait.total_seconds(), promised)


def _with(verdict: Verdict, code: Code, **facts: float | None) -> Verdict:
    return replace(verdict, reasons=(*verdict.reasons, Reason(code, facts)))
