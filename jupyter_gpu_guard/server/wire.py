"""The report as JSON: what every face reads. The TypeScript types are generated from these models.

A reading that is not known is `null`, and its sibling `<field>_unknown` says why (a `Why` value, e.g. "not-supported").
Times are ISO 8601 in UTC; units are in the names. Fields are only ever added within one `schema_version`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1


class Wire(BaseModel):
    """The base of everything on the wire: closed, so that a misspelt field is an error here and not in a browser."""

    model_config = ConfigDict(extra="forbid", frozen=True)


WireAction = Literal["warn", "release", "park", "resume", "shutdown"]
WireDue = Literal["keep", "warn", "release", "park", "shutdown"]
WireStep = Literal["warn", "release", "park", "shutdown"]
WireOffer = Literal["release", "park", "resume", "shutdown"]
WireResult = Literal["done", "rehearsed", "already-gone", "withdrawn", "failed", "unsuited", "unknown"]


class WireReason(Wire):
    """A coded fact and its English sentence; faces translate by `code` and `facts`, and fall back to `text`."""

    code: str
    text: str
    facts: dict[str, Union[str, float, int, None]]


class WireGap(Wire):
    """A source that did not answer, why, and since when. `said` is `why` by its code, where it is a known sentence."""

    source: str
    why: str
    since: datetime
    said: WireReason | None = None


class WireHistory(Wire):
    """The last hour at most, minute by minute, the newest last and not over yet. null: not seen, or not known."""

    compute_percent: list[float | None]
    memory_bytes: list[int | None]


class WireDevice(Wire):
    """One GPU or MIG instance."""

    uuid: str
    index: int
    name: str
    memory_total_bytes: float | None
    memory_total_bytes_unknown: str | None = None
    memory_used_bytes: float | None
    memory_used_bytes_unknown: str | None = None
    memory_unattributed_bytes: float | None
    memory_unattributed_bytes_unknown: str | None = None
    compute_percent: float | None
    compute_percent_unknown: str | None = None
    temperature_celsius: float | None
    temperature_celsius_unknown: str | None = None
    power_watts: float | None
    power_watts_unknown: str | None = None
    mig: bool
    part_of: str | None = None
    state: Literal["ok", "lost", "failing", "suspended"]
    history: WireHistory | None = None


Evidence = Literal["process", "sole-owner", "estimate"]


class WireProcess(Wire):
    """One process on one device. No name, no arguments. `type` as the driver has it: C, G, M, joined by `+`."""

    pid: int
    started_at: datetime
    device: str
    memory_bytes: float | None
    memory_bytes_unknown: str | None = None
    compute_percent: float | None
    compute_percent_unknown: str | None = None
    type: str = "C"
    evidence: Evidence = "process"


class WireHolding(Wire):
    """What one owner has on one device. `device` is the UUID; `evidence` is what the figures rest on."""

    device: str
    memory_bytes: float | None
    memory_bytes_unknown: str | None = None
    compute_percent: float | None
    compute_percent_unknown: str | None = None
    evidence: Evidence = "process"
    processes: list[WireProcess]


class WireBoard(Wire):
    """What is particular about a TensorBoard. `watchers`: connections to its port now or within about a minute.

    `started_by` names the owner in whose tree it runs, `started_by_name` is what people call that; `duplicate`: another
    one shows the same log directory. `unwatched_seconds` null: not known yet.
    """

    log_dir: str
    port: int | None
    started_by: str | None
    started_by_name: str | None
    watchers: int | None
    unwatched_seconds: float | None
    duplicate: bool
    inside: bool


class WireParked(Wire):
    """That what it had on devices is in the host's memory: since when, and how much."""

    since: datetime
    memory_bytes: float


class WireVerdict(Wire):
    """What will happen and why. `action` is due now; `next_action` is due at `deadline` at the earliest, or never."""

    action: WireDue
    next_action: WireStep | None
    stage: int | None
    rule: str
    deadline: datetime | None
    reasons: list[WireReason]


class WireLease(Wire):
    """A person's promise to need it."""

    until: datetime
    reason: str


class WireHolder(Wire):
    """One kernel, terminal or TensorBoard, or what an earlier run of a kernel left behind.

    `compute_percent` is the mean over the last minute seen.
    `estimated`: it is inferred, and not seen, that it is on a device. `failed`: its last cell ended in an error.
    `died`: the process before the present one ended by itself. `tree_size`: how many living processes end with it, its
    own first one too; null: not known. `offers`: what a person may ask for. `history` null: it had nothing on a device.
    """

    owner: str
    kind: Literal["kernel", "terminal", "tensorboard", "leftovers"]
    name: str
    notebook: str | None
    kernelspec: str | None
    state: Literal[
        "idle",
        "executing",
        "waiting-for-input",
        "at-breakpoint",
        "serving",
        "input-bound",
        "starting",
        "parked",
        "dead",
        "unknown",
    ]
    memory_bytes: float | None
    memory_bytes_unknown: str | None = None
    compute_percent: float | None
    compute_percent_unknown: str | None = None
    idle_seconds: float | None
    started_at: datetime | None
    longest_keep_seconds: float
    keeps_left: int | None = None
    keep_needs_reason: bool = False
    holdings: list[WireHolding]
    verdict: WireVerdict
    protections: list[str]
    lease: WireLease | None
    leftovers: list[WireProcess]
    estimated: bool = False
    failed: bool = False
    died: bool = False
    tree_size: int | None = None
    board: WireBoard | None = None
    parked: WireParked | None = None
    offers: list[WireOffer] = []
    history: WireHistory | None = None


class WireStrangers(Wire):
    """Processes on a device that are not of this server, as one anonymous line."""

    device: str
    memory_bytes: float | None
    memory_bytes_unknown: str | None = None
    processes: int


class WireNotice(Wire):
    """A warning that stands. `id` is stable for one warning, so that each face shows it once.

    `next_action` and `deadline` null: a hint, nothing will follow by itself (a cell that runs without compute).
    `reached` are the ways by which it reached somebody when it was given: `page`, or a hook. `undelivered`: none.
    """

    id: str
    owner: str
    name: str
    notebook: str | None
    rule: str
    next_action: Literal["shutdown"] | None
    given_at: datetime
    deadline: datetime | None
    memory_bytes: float
    longest_keep_seconds: float
    reasons: list[WireReason]
    reached: list[str] = []
    undelivered: bool = False


class WireOutcome(Wire):
    """What was done, also after the owner is gone. `id` is stable. `said` are the parts of `detail` by their codes."""

    id: str
    owner: str
    name: str
    notebook: str | None
    action: WireAction
    rule: str
    result: WireResult
    at: datetime
    by: str | None
    detail: str
    freed_bytes: float | None
    took_seconds: float | None
    survivors: list[int]
    reasons: list[WireReason]
    said: list[WireReason] = []


class WireTouched(Wire):
    """One owner that a new policy would newly end. `name` empty: it is gone."""

    owner: str
    name: str


class WirePending(Wire):
    """A new policy that waits for a person: it would newly end `touched`, out of `holders` that hold GPU memory.

    `source` is empty for whoever is no administrator.
    """

    hash: str
    source: str
    since: datetime
    touched: list[WireTouched]
    holders: int


class WirePolicy(Wire):
    """Which policy is in force. `fault` says why a newer file was not taken; where, only to an administrator.

    `said` is the `fault` by its code, for whoever is not told where.
    """

    hash: str
    source: str
    fault: str | None
    said: WireReason | None = None
    pending: WirePending | None = None


class WireStage(Wire):
    """One rung of a ladder, and how long after the limit was reached."""

    do: str
    after_seconds: float


class WireRule(Wire):
    """One rule with all its values, those of `defaults` too. What is null is never, or not set."""

    name: str
    match: dict[str, Union[bool, str, float, int, None]]
    settings: dict[str, Union[bool, str, float, int, None]]
    ladder: list[WireStage]


class WireExemption(Wire):
    """What is left alone until then, and why."""

    match: dict[str, Union[bool, str, float, int, None]]
    until: datetime
    reason: str


class WireBudget(Wire):
    """One budget: `used` of `limit`, in the unit of `measure`, over the last `window_seconds`, and which rule follows.

    `used` is what counts for whoever runs this server: of single kernels, or several groups, the most.
    `unknown_seconds`: for so long something was held of which it is not known how much. `applies_to_me`: its condition
    can hold for this user and server.
    """

    name: str
    match: dict[str, Union[bool, str, float, int, None]]
    per: Literal["kernel", "user", "group", "site"]
    measure: Literal["gib_hours", "idle_gib_hours", "gpu_hours", "idle_gpu_hours"]
    window_seconds: float
    used: float
    unknown_seconds: float
    limit: float
    then: str
    applies_to_me: bool


class WireEffectivePolicy(Wire):
    """GET `gpu-guard/api/v1/policy`: what is in force, and what waits. The first rule that matches decides."""

    hash: str
    source: str
    mode: Literal["observe", "enforce"]
    fault: str | None
    pending: WirePending | None
    belts: dict[str, float]
    exemptions: list[WireExemption] = []
    budgets: list[WireBudget] = []
    rules: list[WireRule]


class WireAccept(Wire):
    """POST `gpu-guard/api/v1/policy/accept`: the hash of the policy that waits. Gives a WireEffectivePolicy."""

    hash: str


class WirePrice(Wire):
    """What one whole GPU costs an hour, in `currency`: a sign or a code, for people."""

    gpu_hour: float
    currency: str


class WireReport(Wire):
    """GET `gpu-guard/api/v1/report`. `taken_at` null: no tick has been completed yet."""

    schema_version: int = SCHEMA_VERSION
    taken_at: datetime | None
    interval_seconds: float
    mode: Literal["observe", "enforce"]
    simulated: bool
    policy: WirePolicy
    gaps: list[WireGap]
    devices: list[WireDevice]
    holders: list[WireHolder]
    strangers: list[WireStrangers]
    notices: list[WireNotice]
    outcomes: list[WireOutcome]
    price: WirePrice | None = None


class WirePassedOver(Wire):
    """A rule before the one that decides, and the parts of its condition that do not hold; none: it is on trial."""

    rule: str
    unmet: list[str]


class WireExplanation(Wire):
    """GET `gpu-guard/api/v1/explain/{owner}`: one holder, and in `lines` the whole argument in English.

    `argument` is the same by codes. `passed_over` are the rules that were asked before the one that decides, in order.
    """

    holder: WireHolder
    lines: list[str]
    argument: list[WireReason] = Field(default_factory=list)
    passed_over: list[WirePassedOver] = Field(default_factory=list)


class WireKeep(Wire):
    """POST `gpu-guard/api/v1/owners/{owner}/keep`: seconds from now, and a line of reason. Gives a WireLease.

    `beyond_limits` of its rule: for an administrator only.
    """

    seconds: float = Field(strict=True)
    reason: str = Field(default="", max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")
    beyond_limits: bool = Field(default=False, strict=True)


class WireProcessKey(Wire):
    """A process for ever: its pid, and its start in clock ticks since boot."""

    pid: int
    start_ticks: int


class WireEntry(Wire):
    """One entry of the audit. `grounds` are all the facts to judge again; null where nothing was judged."""

    at: datetime
    kind: Literal[
        "started",
        "stopped",
        "policy",
        "policy-waits",
        "warned",
        "hinted",
        "lifted",
        "kept",
        "unkept",
        "begun",
        "outcome",
        "spared",
    ]
    mode: Literal["observe", "enforce"]
    policy: str
    server: str
    owner: str | None
    name: str
    notebook: str | None
    rule: str | None
    action: WireAction | None
    result: WireResult | None
    act: str | None
    detail: str
    by: str | None
    clients: int | None
    deadline: datetime | None
    kept_until: datetime | None
    kept_because: str | None
    freed_bytes: float | None
    took_seconds: float | None
    processes: list[WireProcessKey]
    reasons: list[WireReason]
    grounds: dict[str, Any] | None


class WireAudit(Wire):
    """GET `gpu-guard/api/v1/audit`: entries in the order of time.

    `left_out` older ones would be too much for one answer. `unreadable` lines on disk are damaged.
    """

    schema_version: int = SCHEMA_VERSION
    since: datetime
    entries: list[WireEntry]
    left_out: int
    unreadable: int


class WireError(Wire):
    """Every refusal: a sentence that says what is wrong and what would be right."""

    message: str


class WireHealth(Wire):
    """GET `gpu-guard/api/v1/health`. `said` are the `problems`, or their parts, by codes; empty where it is none."""

    status: Literal["ok", "degraded"]
    version: str
    mode: Literal["observe", "enforce"]
    simulated: bool
    last_tick_at: datetime | None
    ticks: int
    problems: list[str]
    said: list[WireReason] = []
