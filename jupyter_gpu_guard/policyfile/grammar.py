"""Every key of a policy file: what it takes, and what it means. The reader and the JSON Schema rest on this table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from enum import Enum
from typing import Generic, TypeVar, Union

from jupyter_gpu_guard.core.budget import Measure, Per
from jupyter_gpu_guard.core.calendars import Hours
from jupyter_gpu_guard.core.model import OwnerKind, OwnerState
from jupyter_gpu_guard.core.policy import STAGES, Mode

from . import values

T_co = TypeVar("T_co", covariant=True)

CASES_SUFFIX = ".cases.yaml"
VERSION = "1"
MOST = 1_000_000


class Asked(str, Enum):
    """Whether a person who keeps something has to say why."""

    OPTIONAL = "optional"
    REQUIRED = "required"


class Override(str, Enum):
    """What becomes of an earlier rule of the same name."""

    REPLACE = "replace"
    DISABLE = "disable"


@dataclass(frozen=True)
class Quantity(Generic[T_co]):
    """A text with a meaning of its own. `pattern` lets through all that `parse` takes; `bare`: and 0 without a unit."""

    parse: Callable[[str], T_co]
    pattern: str
    example: str
    bare: bool = False


@dataclass(frozen=True)
class Words:
    """One of a few words."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class Text:
    """Any text but an empty one."""

    example: str = "text"


@dataclass(frozen=True)
class Count:
    """A whole number from 1 on."""


@dataclass(frozen=True)
class Number:
    """A number above 0, without a unit."""

    example: float = 40


@dataclass(frozen=True)
class YesNo:
    """`true` or `false`."""


@dataclass(frozen=True)
class Only:
    """This and nothing else, as YAML reads it."""

    value: Union[str, int, bool]


@dataclass(frozen=True)
class Section:
    """A mapping of known keys. `title` is how a message calls it, `required` are those that must be there.

    `hints` say what to write instead of a word that is not among them. `instead`: a single value in its place.
    """

    title: str
    keys: Mapping[str, Key]
    required: tuple[str, ...] = ()
    hints: Mapping[str, str] = field(default_factory=dict)
    instead: Only | None = None


@dataclass(frozen=True)
class ListOf:
    """A list. `alone`: a single one needs no list. `may_be_empty`: also without any item."""

    item: Kind
    alone: bool = False
    may_be_empty: bool = False


@dataclass(frozen=True)
class Named:
    """A mapping whose keys are names of one's own."""

    value: Kind


Kind = Union["Quantity[object]", Words, Text, Count, Number, YesNo, Only, Section, ListOf, Named]


@dataclass(frozen=True)
class Key:
    """What a key takes, and what it means, in a few words for an editor."""

    kind: Kind
    says: str


def _words(enum: type[Enum], *but: Enum) -> Words:
    return Words(tuple(str(word.value) for word in enum if word not in but))


_NUMBER = r"\d+(\.\d+)?"
_DURATION = rf" *\+?{_NUMBER} *[A-Za-z]+( *{_NUMBER} *[A-Za-z]+)* *"

SHARE: Quantity[float] = Quantity(values.share, rf"^ *{_NUMBER} *% *$", "5%")
LITTLE: Quantity[float] = Quantity(values.share, SHARE.pattern, "2%")
MEMORY: Quantity[float] = Quantity(values.memory, rf"^ *{_NUMBER} *[A-Za-z]+ *$", "2GiB")
LASTING: Quantity[timedelta | None] = Quantity(
    values.lasting, rf"^(-?{_DURATION}| *[Nn][Ee][Vv][Ee][Rr] *)$", "2h", bare=True
)
TRICKLING: Quantity[timedelta | None] = Quantity(values.trickling, LASTING.pattern, "6h", bare=True)
NOTICE: Quantity[timedelta] = Quantity(values.time_to_answer, rf"^{_DURATION}$", "10m")
AGE: Quantity[timedelta] = Quantity(values.age, rf"^{_DURATION}$", "12h")
DELAY: Quantity[timedelta] = Quantity(values.delay, rf"^{_DURATION}$", "30m", bare=True)
HOURS: Quantity[Hours] = Quantity(values.hours, r"^[A-Za-z, -]*([0-9: -]+)?$", "mon-fri 08:00-18:00")
ZONE: Quantity[tzinfo] = Quantity(values.zone, r"^\S+$", "Europe/Berlin")
SPAN: Quantity[timedelta] = Quantity(values.rolling, rf"^{_DURATION}$", "7d")
MOMENT: Quantity[datetime] = Quantity(values.moment, r"^ *\d{4}-\d\d-\d\d.*$", "2027-01-20T18:00Z")
PATTERN = Text("python*")

NO_RULES = (OwnerState.UNKNOWN, OwnerState.PARKED)  # nothing is ever done to an owner in these states

MATCH = Section(
    "match",
    {
        "user": Key(PATTERN, "A pattern for the name of the user."),
        "group": Key(PATTERN, "A pattern for any group of the user."),
        "server": Key(PATTERN, "A pattern for the name of the server."),
        "owner": Key(_words(OwnerKind), "The kind of owner."),
        "notebook": Key(PATTERN, "A pattern for the path of the notebook below the server's root folder."),
        "kernelspec": Key(PATTERN, "A pattern for the name of the kernelspec."),
        "device": Key(PATTERN, "A pattern for the name of any GPU that it is on."),
        "mig": Key(Text("1g.10gb"), "A pattern for the profile of any MIG instance that it is on."),
        "state": Key(_words(OwnerState, *NO_RULES), "What it is doing."),
        "memory_above": Key(MEMORY, "It holds at least so much GPU memory."),
        "device_free_below": Key(SHARE, "Of a GPU that it is on less than so much is free."),
        "older_than": Key(AGE, "It was started longer ago than this."),
        "during": Key(Text("office-hours"), "The name of a calendar: only at its hours."),
    },
)
IDLE = Section(
    "idle",
    {
        "compute_below": Key(SHARE, "Less compute than this on every GPU."),
        "memory_above": Key(MEMORY, "At least so much memory over all GPUs."),
        "for": Key(LASTING, "How long it must have been seen so; 0 and less mean never."),
        "unwatched_for": Key(LASTING, "For TensorBoards: due without memory if nobody looks at it for so long."),
    },
)
TRICKLE = Section(
    "trickle",
    {
        "mean_below": Key(LITTLE, "The mean compute is below this."),
        "over": Key(TRICKLING, "For so long, and unused all the time."),
    },
)
STATES = Section(
    "states",
    {
        word: Key(LASTING, f"How long one that is {word} must have been idle; never: it is warned at most.")
        for word in _words(OwnerState, OwnerState.IDLE, *NO_RULES).words
    },
    hints={OwnerState.IDLE.value: "write `idle: {for: 2h}` beside `states`"},
)
KEEP = Section(
    "keep",
    {
        "longest": Key(NOTICE, "How long a person may keep it at once."),
        "per_day": Key(Count(), "How often in 24 hours."),
        "reason": Key(_words(Asked), "Whether they must say what for."),
    },
)
STAGE = Section(
    "a stage of ladder",
    {
        "do": Key(Words(tuple(action.value for action in STAGES)), "What to do."),
        "after": Key(DELAY, "So long after the idle limit; with a + after the stage before."),
    },
    required=("do",),
)
SETTINGS: Mapping[str, Key] = {
    "idle": Key(IDLE, "When something counts as idle."),
    "states": Key(STATES, "Limits of their own for what it is doing."),
    "trickle": Key(TRICKLE, "When a little compute now and then is not enough."),
    "notice": Key(NOTICE, "How long before a loss a warning must have been delivered."),
    "undelivered": Key(LASTING, "The same for a warning that reaches nobody; never: nothing is lost before one does."),
    "keep": Key(KEEP, "How people may keep it."),
    "ladder": Key(ListOf(STAGE), "The stages, from soft to hard."),
    "trust_estimates": Key(YesNo(), "Whether something may be ended on an estimate."),
}
DEFAULTS = Section("defaults", SETTINGS)
RULE = Section(
    "a rule",
    {
        "name": Key(Text("students"), "A short word for it; no name twice."),
        "match": Key(MATCH, "The condition; all parts must hold."),
        "mode": Key(Words((Mode.OBSERVE.value,)), "On trial: it says what it would do, and a later rule decides."),
        "override": Key(_words(Override), "What becomes of the rule of this name in an earlier file."),
        **SETTINGS,
        "keep": Key(
            Section(KEEP.title, KEEP.keys, instead=Only(value=True)),
            "true: left alone. Or how people may keep it.",
        ),
    },
    required=("name",),
)
EXEMPTION = Section(
    "an exemption",
    {
        "match": Key(MATCH, "What is left alone."),
        "until": Key(MOMENT, "Until then."),
        "reason": Key(Text("rebuttal runs"), "What for."),
    },
    required=("match", "until", "reason"),
)
BUDGET = Section(
    "a budget",
    {
        "name": Key(Text("student-week"), "A short word for it; no name twice."),
        "match": Key(MATCH, "What counts, and what the rule then decides about."),
        "per": Key(_words(Per), "Whose use counts together."),
        "window": Key(SPAN, "Over so long, up to now."),
        "measure": Key(_words(Measure), "What is counted."),
        "limit": Key(Number(), "How much may be used, in the unit of the measure."),
        "then": Key(Text("default"), "The rule that decides once it is used up."),
    },
    required=("name", "per", "window", "measure", "limit", "then"),
)
BELTS = Section(
    "belts",
    {
        "shutdowns_per_hour": Key(Count(), "Shutdowns in any hour."),
        "shutdowns_per_tick": Key(Count(), "Shutdowns begun at one look."),
        "share_of_holders": Key(SHARE, "A new policy that would newly end more than this waits for a person."),
    },
)
FILE = Section(
    "the top level of the file",
    {
        "version": Key(Only(int(VERSION)), "The version of this format."),
        "mode": Key(_words(Mode), "Show and rehearse, or act."),
        "timezone": Key(ZONE, "Where the hours and moments of this file are."),
        "calendars": Key(Named(ListOf(HOURS, alone=True)), "Hours of the week by name."),
        "belts": Key(BELTS, "Limits on how much is done at once."),
        "defaults": Key(DEFAULTS, "What rules leave open, and the last rule."),
        "exemptions": Key(ListOf(EXEMPTION, may_be_empty=True), "What is left alone until some moment."),
        "rules": Key(ListOf(RULE, may_be_empty=True), "Asked in order: the first that matches decides."),
        "budgets": Key(ListOf(BUDGET, may_be_empty=True), "How much may be used in a time, and what follows."),
    },
    required=("version",),
)


def homes() -> Mapping[str, str]:
    """Where each key belongs, in words: for whoever wrote it one level too high or too low."""
    found: dict[str, list[str]] = {}
    for name in SETTINGS:
        found[name] = ["defaults or a rule"]
    for section in (FILE, BELTS, MATCH, IDLE, TRICKLE, KEEP, STAGE, EXEMPTION, RULE, BUDGET):
        for name in section.keys:
            if name not in SETTINGS and section.title not in found.setdefault(name, []):
                found[name].append(section.title)
    return {name: " or ".join(titles) for name, titles in found.items()}
