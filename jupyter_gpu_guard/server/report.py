"""Published state to the report of the wire. Reads values only: making a report is not looking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, cast

from jupyter_gpu_guard.core.explain import Said, argument, reading, sentence, setting
from jupyter_gpu_guard.core.minutes import Minutes
from jupyter_gpu_guard.core.model import (
    Device,
    DeviceState,
    GpuProcess,
    Holder,
    Holding,
    OwnerKey,
    Reading,
    Strangers,
    Unknown,
    Why,
    is_known,
    total,
)
from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.core.verdict import Lease, Notice, Outcome, Reason, Verdict
from jupyter_gpu_guard.core.window import minute_compute
from jupyter_gpu_guard.published import Published

from .rules import in_force
from .said import of_gap, of_outcome
from .wire import (
    WireAction,
    WireBoard,
    WireDevice,
    WireDue,
    WireExplanation,
    WireGap,
    WireHistory,
    WireHolder,
    WireHolding,
    WireLease,
    WireNotice,
    WireOffer,
    WireOutcome,
    WireParked,
    WirePassedOver,
    WirePrice,
    WireProcess,
    WireReason,
    WireReport,
    WireStep,
    WireStrangers,
    WireVerdict,
)


def report(state: Published) -> WireReport:
    """The whole report."""
    snapshot = state.snapshot
    return WireReport(
        taken_at=snapshot.taken_at.wall if snapshot else None,
        interval_seconds=state.interval,
        mode=state.policy.mode.value,
        simulated=snapshot.simulated if snapshot else False,
        policy=in_force(state),
        gaps=[
            WireGap(
                source=gap.source,
                why=gap.why,
                since=state.gaps_since.get(gap.source, snapshot.taken_at.wall),
                said=next(_coded([of_gap(gap.why)]), None),
            )
            for gap in snapshot.gaps
        ]
        if snapshot
        else [],
        devices=[_device(device, state) for device in sorted(snapshot.devices, key=lambda d: d.index)]
        if snapshot
        else [],
        holders=[_holder(holder, state) for holder in state.attribution.holders],
        strangers=[_strangers(strangers) for strangers in state.attribution.strangers],
        notices=[_notice(notice, state) for notice in state.ledger.notices],
        outcomes=[outcome_to_wire(outcome) for outcome in state.outcomes],
        price=None if state.price is None else WirePrice(gpu_hour=state.price.gpu_hour, currency=state.price.currency),
    )


def explanation(state: Published, key: OwnerKey) -> WireExplanation:
    """One holder and the argument in words. Raises NoSuchOwnerError."""
    holder = state.holder(key)
    now = state.snapshot.taken_at.monotonic if state.snapshot else 0.0
    said = [setting(state.policy.mode.value, state.policy.source)]
    verdict = state.verdicts.get(key)
    if verdict is not None:
        said += argument(verdict, now)
    passed_over = [WirePassedOver(rule=rule, unmet=list(unmet)) for rule, unmet in state.passed_over(holder).items()]
    return with_lines(WireExplanation(holder=_holder(holder, state), lines=[], passed_over=passed_over), said)


def with_lines(explanation: WireExplanation, said: Iterable[Said]) -> WireExplanation:
    """The same with more lines, in words and by their codes."""
    more = [coded(line) for line in said]
    lines = [*explanation.lines, *(line.text for line in more)]
    return explanation.model_copy(update={"lines": lines, "argument": [*explanation.argument, *more]})


def lease_to_wire(lease: Lease) -> WireLease:
    """A lease, without the name of whoever gave it: a server has one user."""
    return WireLease(until=lease.until, reason=lease.reason)


def outcome_to_wire(outcome: Outcome) -> WireOutcome:
    """One outcome."""
    return WireOutcome(
        id=f"{outcome.owner}@{outcome.at.isoformat()}",
        owner=str(outcome.owner),
        name=outcome.name,
        notebook=outcome.notebook,
        action=cast("WireAction", outcome.action.value),
        rule=outcome.rule,
        result=outcome.result.value,
        at=outcome.at,
        by=outcome.by,
        detail=outcome.detail,
        freed_bytes=outcome.freed_bytes,
        took_seconds=outcome.took_seconds,
        survivors=[survivor.key.pid for survivor in outcome.survivors],
        reasons=_reasons(outcome.reasons),
        said=list(_coded(of_outcome(outcome.detail))),
    )


def _pair(field: str, value: Reading) -> dict[str, Any]:
    """A Reading as the field and its `_unknown` sibling."""
    number, why = reading(value)
    return {field: number} if why is None else {field: None, f"{field}_unknown": why}


def _reasons(reasons: Iterable[Reason]) -> list[WireReason]:
    return [WireReason(code=r.code.value, text=sentence(r), facts=dict(r.facts)) for r in reasons]


def coded(said: Said) -> WireReason:
    """A sentence by its code; an empty one where it is not known."""
    return WireReason(code=said.code, text=said.text, facts=dict(said.facts))


def _coded(said: Iterable[Said]) -> Iterator[WireReason]:
    """Sentences by their codes. One without a code is there too if others have one: its text stands among theirs."""
    parts = [coded(part) for part in said]
    if any(part.code for part in parts):
        yield from parts


def _device(device: Device, state: Published) -> WireDevice:
    return WireDevice(
        uuid=device.uuid,
        index=device.index,
        name=device.name,
        mig=device.mig,
        part_of=device.part_of,
        state=device.state.value,
        history=_history(state.minutes.get(device.uuid)),
        **_pair("memory_total_bytes", device.memory_total),
        **_pair("memory_used_bytes", device.memory_used),
        **_pair("memory_unattributed_bytes", _unattributed(device, state)),
        **_pair("compute_percent", device.compute),
        **_pair("temperature_celsius", device.temperature),
        **_pair("power_watts", device.power),
    )


def _history(minutes: Minutes | None) -> WireHistory | None:
    """The last hour; None where nothing but 0 was read: most kernels never come near a GPU."""
    if minutes is None or not any(minute.compute or minute.memory for minute in minutes.all):
        return None
    return WireHistory(
        compute_percent=[None if minute.compute is None else round(minute.compute, 1) for minute in minutes.all],
        memory_bytes=[None if minute.memory is None else int(minute.memory) for minute in minutes.all],
    )


def _unattributed(device: Device, state: Published) -> Reading:
    """Used, less all that is listed. Never spread over notebooks."""
    if device.state is DeviceState.SUSPENDED:
        return Unknown(Why.SUSPENDED)
    if state.snapshot is None or state.snapshot.missed("devices") or device.state is not DeviceState.OK:
        return Unknown(Why.NOT_READ)
    # What is on an instance is on the GPU that it is cut from.
    places = {device.uuid, *(part.uuid for part in state.snapshot.devices if part.part_of == device.uuid)}
    listed = total(client.memory for client in state.snapshot.clients if client.device in places)
    if not is_known(device.memory_used):
        return device.memory_used
    return max(0.0, device.memory_used - listed) if is_known(listed) else listed


def _process(row: GpuProcess) -> WireProcess:
    return WireProcess(
        pid=row.key.pid,
        started_at=row.started_at,
        device=row.device,
        type=row.type,
        evidence=row.evidence.value,
        **_pair("memory_bytes", row.memory),
        **_pair("compute_percent", row.compute),
    )


def _holding(holding: Holding) -> WireHolding:
    return WireHolding(
        device=holding.device,
        evidence=holding.evidence.value,
        processes=[_process(row) for row in holding.processes],
        **_pair("memory_bytes", holding.memory),
        **_pair("compute_percent", holding.compute),
    )


def _strangers(strangers: Strangers) -> WireStrangers:
    return WireStrangers(
        device=strangers.device, processes=strangers.processes, **_pair("memory_bytes", strangers.memory)
    )


def _longest_keep(holder: Holder, state: Published) -> float:
    return state.rule_for(holder).keep_limits.longest.total_seconds()


def _holder(holder: Holder, state: Published) -> WireHolder:
    owner, key = holder.owner, holder.owner.key
    verdict = state.verdicts.get(key)
    lease = state.leases.get(key)
    return WireHolder(
        owner=str(key),
        kind=key.kind.value,
        name=owner.name,
        notebook=owner.notebook,
        kernelspec=owner.kernelspec,
        state=holder.state.value,
        idle_seconds=verdict.idle_for if verdict else None,
        started_at=owner.started_at,
        longest_keep_seconds=_longest_keep(holder, state),
        keeps_left=state.keeps_left(holder),
        keep_needs_reason=state.rule_for(holder).keep_limits.reason_required,
        holdings=[_holding(holding) for holding in holder.holdings],
        verdict=_verdict(verdict, state),
        protections=[protection.value for protection in verdict.protections] if verdict else [],
        lease=lease_to_wire(lease) if lease is not None else None,
        leftovers=[_process(row) for row in holder.leftovers],
        estimated=holder.estimated,
        failed=owner.failed,
        died=owner.died,
        tree_size=len(holder.tree) if owner.root is not None and holder.unknown is None else None,
        board=_board(holder, state),
        parked=None if owner.parked is None else WireParked(since=owner.parked.since, memory_bytes=owner.parked.memory),
        offers=[cast("WireOffer", action.value) for action in state.offers.get(key, ())],
        history=_history(state.minutes.get(str(key))),
        **_pair("memory_bytes", holder.memory),
        **_pair("compute_percent", minute_compute(state.windows.get(key), holder)),
    )


def _board(holder: Holder, state: Published) -> WireBoard | None:
    board, window, activity = holder.owner.board, state.windows.get(holder.owner.key), holder.activity
    if board is None:
        return None
    starter = next((h.owner for h in state.attribution.holders if h.owner.key == board.started_by), None)
    unwatched = None
    if window is not None and activity is not None and activity.visitors is not None:
        unwatched = window.at - (window.began if window.visited_at is None else window.visited_at)
    return WireBoard(
        log_dir=board.log_dir,
        port=board.port,
        started_by=None if board.started_by is None else str(board.started_by),
        started_by_name=None if starter is None else starter.notebook or starter.name,
        watchers=None if activity is None else activity.visitors,
        unwatched_seconds=unwatched,
        duplicate=board.duplicate,
        inside=board.inside,
    )


def _verdict(verdict: Verdict | None, state: Published) -> WireVerdict:
    if verdict is None:  # only between a tick that saw the owner and one that judged it: never published
        return WireVerdict(action="keep", next_action=None, stage=None, rule="", deadline=None, reasons=[])
    following = verdict.next_action
    return WireVerdict(
        action=cast("WireDue", verdict.action.value),
        next_action=cast("WireStep", following.value) if following not in (None, Action.KEEP) else None,
        stage=verdict.stage,
        rule=verdict.rule,
        deadline=_wall(verdict.deadline, state),
        reasons=_reasons(verdict.reasons),
    )


def _wall(monotonic: float | None, state: Published) -> datetime | None:
    """A monotonic time on the wall clock of the last snapshot."""
    if monotonic is None or state.snapshot is None:
        return None
    now = state.snapshot.taken_at
    return now.wall + timedelta(seconds=monotonic - now.monotonic)


def _notice(notice: Notice, state: Published) -> WireNotice:
    holders: Mapping[OwnerKey, Holder] = {holder.owner.key: holder for holder in state.attribution.holders}
    holder = holders.get(notice.owner)
    return WireNotice(
        id=f"{notice.owner}@{notice.given_at.isoformat()}",
        owner=str(notice.owner),
        # A notebook that was renamed since is called by its name of today.
        name=holder.owner.name if holder else notice.name,
        notebook=holder.owner.notebook if holder else notice.notebook,
        rule=notice.rule,
        next_action="shutdown" if notice.next_action is Action.SHUTDOWN else None,
        given_at=notice.given_at,
        deadline=notice.deadline,
        memory_bytes=notice.memory_bytes,
        longest_keep_seconds=_longest_keep(holder, state) if holder else 0.0,
        reasons=_reasons(notice.reasons),
        reached=list(notice.reached),
        undelivered=notice.undelivered,
    )
