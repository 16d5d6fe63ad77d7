"""What judge() says and what the doors answer: Reasons, Verdicts, Leases, Notices and Outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Union

from .model import OwnerKey, ProcessKey
from .policy import Action

Fact = Union[str, float, int, None]


class Code(str, Enum):
    """Why. Stable words: they travel in the report and each face has a sentence for each."""

    RULE_KEEPS = "rule-keeps"
    NEVER = "never"
    UNKNOWN_READING = "unknown-reading"
    NOT_LOCAL = "not-local"
    HOLDS_LITTLE = "holds-little"
    COMPUTING = "computing"
    IDLE_NOT_LONG = "idle-not-long"
    IDLE_TOO_LONG = "idle-too-long"
    STATE_WARNS_ONLY = "state-warns-only"
    EXEMPT = "exempt"  # the site leaves it alone for some time
    LEASED = "leased"
    NOTICE_RUNNING = "notice-running"
    LADDER_DONE = "ladder-done"
    BELT = "belt"
    ACTING = "acting"
    RETRY_LATER = "retry-later"
    OBSERVING = "observing"
    ASKED = "asked"  # a person pressed the button
    ATTENDED = "attended"  # halted in the debugger, with somebody connected
    LAST_CELL_FAILED = "last-cell-failed"  # the saved frames of its error may hold the memory
    RUN_ENDED = "run-ended"  # no cell runs, and yet processes that it started compute
    LEFT_BEHIND = "left-behind"  # processes of an earlier run hold memory
    ESTIMATED = "estimated"  # it is inferred, and not seen, that it is on a device
    SOLE_OWNER = "sole-owner"  # its compute is that of the whole device
    UNWATCHED = "unwatched"  # a TensorBoard that nobody looks at
    TRICKLE = "trickle"  # hardly any compute in all over a long time, although there are peaks
    POSSIBLE_KEEP_ALIVE = "possible-keep-alive"  # a little compute comes regularly, as if to seem in use
    RULE_OBSERVES = "rule-observes"  # a rule on trial would do something
    OVER_BUDGET = "over-budget"  # a budget is used up, so that the rule of the budget decides
    WATCHED = "watched"  # a TensorBoard that somebody looks at
    UNDELIVERED = "undelivered"  # it was warned, and nobody could be told
    PARKED = "parked"  # what it had on devices is in the host's memory
    WAITING_FOR_ROOM = "waiting-for-room"  # it is parked and wanted back, and its device is full


class Protection(str, Enum):
    """A fact that spares a holder now."""

    LEASED = "leased"
    EXECUTING = "executing"
    UNKNOWN = "unknown"
    EXEMPT = "exempt"
    ATTENDED = "attended"  # halted in the debugger or at a question, with somebody connected
    BUSY = "busy"  # its processes use the CPU, disk or network
    SERVING = "serving"  # somebody came to a port on which it listens
    ESTIMATED = "estimated"  # nothing is ended on an estimate


@dataclass(frozen=True)
class Reason:
    """One coded fact. `facts` hold numbers in base units (`*_seconds`, `*_bytes`, `*_percent`) and short words."""

    code: Code
    facts: Mapping[str, Fact] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """What should happen to one holder now, and why; `keep` too.

    `stage` is the rung of the ladder (0-based) that is due now or, for keep, that comes next; None: none will come.
    `next_action` is what follows, and `deadline` the monotonic time at which it may come at the earliest; for a loss,
    nothing is lost before it. `idle_for` is in seconds (None: not known). `notice` is how long (seconds) before a loss
    a warning must have been delivered, and `undelivered` the same if it reaches nobody (None: nothing is lost then).
    `compute_below` (percent) is what the last look before an act is held against. `repeated`: it is a warning that has
    reached nobody when it was given first.
    """

    owner: OwnerKey
    root: ProcessKey | None
    action: Action
    rule: str
    reasons: tuple[Reason, ...]
    protections: tuple[Protection, ...] = ()
    stage: int | None = None
    next_action: Action | None = None
    deadline: float | None = None
    idle_for: float | None = None
    notice: float | None = None
    compute_below: float | None = None
    undelivered: float | None = None
    repeated: bool = False


@dataclass(frozen=True)
class Lease:
    """A person's promise to need it: holds until `until`, to its last second. `by` is the user's name."""

    owner: OwnerKey
    until: datetime
    reason: str
    by: str


class Result(str, Enum):
    """How an act ended."""

    DONE = "done"
    REHEARSED = "rehearsed"  # mode observe: it would have been done
    ALREADY_GONE = "already-gone"  # the owner ended by itself before or during the act
    WITHDRAWN = "withdrawn"  # at the last look it was in use again, or another process
    FAILED = "failed"
    UNSUITED = (
        "unsuited"  # this remedy does not fit it, `detail` says why; nothing was done, and the next stage follows
    )
    UNKNOWN = "unknown"  # the server ended before the act was over


@dataclass(frozen=True)
class Survivor:
    """A process that outlived the act and still holds a device. `state` is the letter of /proc/PID/stat."""

    key: ProcessKey
    device: str
    state: str


@dataclass(frozen=True)
class Outcome:
    """What really happened. `detail` is a sentence for people. `freed_bytes` was seen in the driver, not computed.

    Of a warning, `reached` are the ways by which it reached somebody: `page`, or a hook by its name. `undelivered`:
    there was none.
    """

    owner: OwnerKey
    root: ProcessKey | None
    action: Action
    rule: str
    result: Result
    at: datetime
    detail: str
    reasons: tuple[Reason, ...] = ()
    notebook: str | None = None
    name: str = ""
    by: str | None = None
    freed_bytes: float | None = None
    took_seconds: float | None = None
    survivors: tuple[Survivor, ...] = ()
    reached: tuple[str, ...] = ()
    undelivered: bool = False


@dataclass(frozen=True)
class Notice:
    """A warning that stands: what will happen, when, and why. `deadline` on the wall clock, for people.

    `next_action` and `deadline` None: nothing will follow by itself. `reached` and `undelivered` as in its Outcome.
    """

    owner: OwnerKey
    name: str
    notebook: str | None
    rule: str
    next_action: Action | None
    given_at: datetime
    deadline: datetime | None
    memory_bytes: float
    reasons: tuple[Reason, ...]
    reached: tuple[str, ...] = ()
    undelivered: bool = False
