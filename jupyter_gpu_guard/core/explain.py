"""Reasons in words. The one place with English sentences about decisions; other languages go by the codes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from .model import Reading, is_known
from .policy import Action
from .verdict import Code, Fact, Reason, Verdict

_UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def memory(amount: Reading | Fact) -> str:
    """`6.0 GiB`; a dash for what is not known."""
    if not isinstance(amount, (int, float)):
        return "–"
    for size, unit in _UNITS:
        if amount >= size:
            return f"{amount / size:.1f} {unit}"
    return f"{amount:.0f} B"


def span(seconds: Fact) -> str:
    """`2 h 5 min`, `40 s`; a dash for what is not known."""
    if not isinstance(seconds, (int, float)):
        return "–"
    whole = round(seconds)
    if whole < 60:  # noqa: PLR2004  a minute
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 10 and rest:  # noqa: PLR2004  below ten minutes the seconds still matter
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if not hours:
        return f"{minutes} min"
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min")]
    return " ".join(f"{amount} {unit}" for amount, unit in parts if amount)


def percent(value: Reading | Fact) -> str:
    """`3 %`, `0.4 %`; a dash for what is not known."""
    if not isinstance(value, (int, float)):
        return "–"
    return f"{value:.0f} %" if value >= 10 or value == int(value) else f"{value:.1f} %"  # noqa: PLR2004


def hours(amount: Fact) -> str:
    """`45.2`, `0.04`: three digits that count; a dash for what is not known."""
    if not isinstance(amount, (int, float)):
        return "–"
    return f"{amount:.0f}" if amount >= 100 else f"{amount:.3g}"  # noqa: PLR2004  whole from here on


_MEASURES = {
    "gib_hours": "GiB·hours",
    "idle_gib_hours": "GiB·hours without compute",
    "gpu_hours": "GPU·hours",
    "idle_gpu_hours": "GPU·hours without compute",
}
_PER = {
    "kernel": "by this one alone",
    "user": "by its user",
    "group": "by the group",
    "site": "by all together",
}

_SENTENCES: dict[Code, Callable[[dict[str, Fact]], str]] = {
    Code.RULE_KEEPS: lambda f: f"Rule {f['rule']} leaves it alone.",
    Code.NEVER: lambda f: f"Rule {f['rule']} sets no time limit.",
    Code.UNKNOWN_READING: lambda f: (
        f"Its {f['what']} could not be read ({f['why']}{': ' + str(f['detail']) if f.get('detail') else ''}); "
        "what is not known never counts as idle."
    ),
    Code.NOT_LOCAL: lambda _: "Its process is not on this machine, or has ended; it is not judged here.",
    Code.HOLDS_LITTLE: lambda f: (
        f"It holds {memory(f['memory_bytes'])}, less than the limit of {memory(f['memory_above_bytes'])}."
    ),
    Code.COMPUTING: lambda f: (
        f"It computes: {percent(f['compute_percent'])} since the last look, "
        f"{percent(f['compute_below_percent'])} or more counts as use."
    ),
    Code.IDLE_NOT_LONG: lambda f: (
        f"Holds {memory(f['memory_bytes'])} and was seen idle for {span(f['idle_seconds'])}; "
        f"the limit is {span(f['for_seconds'])}."
    ),
    Code.IDLE_TOO_LONG: lambda f: (
        f"Holds {memory(f['memory_bytes'])} with less than {percent(f['compute_below_percent'])} compute "
        f"for {span(f['idle_seconds'])}; the limit is {span(f['for_seconds'])}."
    ),
    Code.STATE_WARNS_ONLY: lambda f: (
        "Another server or program runs kernels in it, and what they do is not known: nothing but a warning follows by "
        "itself."
        if f.get("kernels_within")
        else f"Its state is {f['state']}: nothing but a warning follows by itself."
    ),
    Code.LEASED: lambda f: (
        f"{f['by']} keeps it until {f['until']}{': ' + str(f['reason']) if f.get('reason') else ''}."
    ),
    Code.EXEMPT: lambda f: f"The site leaves it alone until {f['until']}: {f['reason']}.",
    Code.NOTICE_RUNNING: lambda f: f"The next step comes in {span(f['wait_seconds'])} at the earliest.",
    Code.LADDER_DONE: lambda _: "All steps of the rule have been taken.",
    Code.BELT: lambda f: (
        f"Held back: at most {f['shutdowns_per_tick']} at once and {f['shutdowns_per_hour']} in an hour."
    ),
    Code.ACTING: lambda _: "A step is under way.",
    Code.RETRY_LATER: lambda f: f"The last attempt failed; the next one comes in {span(f['wait_seconds'])}.",
    Code.UNDELIVERED: lambda f: (
        "Nobody could be told: no page was open, and no other way has reached anybody. "
        + (
            f"In that case nothing is lost within {span(f['wait_seconds'])} of the warning."
            if f["wait_seconds"] is not None
            else "Nothing is lost before somebody is told."
        )
    ),
    Code.PARKED: lambda f: (
        f"It is parked: {memory(f['memory_bytes'])} that it had on GPUs are in the host's memory. "
        "A cell brings it back."
    ),
    Code.WAITING_FOR_ROOM: lambda f: (
        f"It is to come back and waits for room on {f['device']}: it needs {memory(f['needed_bytes'])}, free are "
        f"{memory(f['free_bytes'])}{' (held by ' + str(f['held_by']) + ')' if f['held_by'] else ''}."
    ),
    Code.OVER_BUDGET: lambda f: (
        f"Budget {f['budget']} is used up: {hours(f['used'])} of {hours(f['limit'])} {_MEASURES[str(f['measure'])]} "
        f"{_PER[str(f['per'])]} in {span(f['window_seconds'])}. So rule {f['rule']} decides, in place of "
        f"{f['instead_of']}."
    ),
    Code.OBSERVING: lambda _: "The guard only observes: nothing is ended.",
    Code.ASKED: lambda f: f"{f.get('by') or 'Somebody'} asked for it.",
    Code.ATTENDED: lambda _: "It is halted in the debugger, and somebody is connected.",
    Code.LAST_CELL_FAILED: lambda _: (
        "Its last cell ended in an error, whose saved frames may hold the memory: run `import sys, gc; "
        "sys.last_exc = sys.last_value = sys.last_traceback = None; gc.collect()`, then empty the framework's cache, "
        "or restart the kernel."
    ),
    Code.RUN_ENDED: lambda f: (
        f"No cell runs any more, but processes that it started ({f['processes']}) hold {memory(f['memory_bytes'])} and "
        f"compute {percent(f['compute_percent'])}: stop them if the run is over."
    ),
    Code.LEFT_BEHIND: lambda f: (
        f"{'The kernel died' if f.get('died') else 'An earlier run ended'}; processes that it left behind "
        f"({f['processes']}) hold {memory(f['memory_bytes'])}."
    ),
    Code.ESTIMATED: lambda _: (
        "That it is on this GPU is an estimate, since the driver names processes that cannot be seen here: "
        "nothing is ended on it unless the rule trusts estimates."
    ),
    Code.SOLE_OWNER: lambda _: (
        "Its processes are not measured one by one. It is alone on the GPU, so the GPU's own compute stands in."
    ),
    Code.UNWATCHED: lambda f: (
        f"Nobody has looked at this TensorBoard for {span(f['unwatched_seconds'])}; "
        f"the limit is {span(f['unwatched_for_seconds'])}."
    ),
    Code.TRICKLE: lambda f: (
        f"Holds {memory(f['memory_bytes'])} with a mean compute of {percent(f['mean_percent'])} over the last "
        f"{span(f['over_seconds'])}; less than {percent(f['mean_below_percent'])} counts as a trickle."
    ),
    Code.POSSIBLE_KEEP_ALIVE: lambda f: (
        f"It computed {f['pulses']} times, at regular times, in {span(f['over_seconds'])}, and "
        f"{percent(f['mean_percent'])} in the mean: perhaps only to seem in use."
    ),
    Code.RULE_OBSERVES: lambda f: (
        f"Rule {f['rule']} is on trial: had it decided, this would be due by now: {f['would']}."
    ),
    Code.WATCHED: lambda f: (
        f"Nobody has looked at this TensorBoard for {span(f['unwatched_seconds'])}; "
        f"the limit is {span(f['unwatched_for_seconds'])}."
    ),
}


def sentence(reason: Reason) -> str:
    """The reason in English."""
    return _SENTENCES[reason.code](dict(reason.facts))


_NOUNS = {
    Action.KEEP: "nothing",
    Action.WARN: "a warning",
    Action.RELEASE: "the release of what its frameworks keep",
    Action.PARK: "its parking in the host's memory",
    Action.SHUTDOWN: "a shutdown",
}


class Said(NamedTuple):
    """One line: by its code and facts, so that a face can say it in its own language, and in English."""

    code: str
    text: str
    facts: Mapping[str, Fact]


ARGUMENT = ("argument-mode", "argument-rule", "due-now", "next-in", "next-now", "protected-now")  # the codes of lines


def argument(verdict: Verdict, now: float) -> list[Said]:
    """The whole argument for one verdict, line by line. `now` is monotonic, as is the verdict's deadline."""
    lines = [Said("argument-rule", f"Rule: {verdict.rule}.", {"rule": verdict.rule})]
    lines += [Said(reason.code.value, sentence(reason), reason.facts) for reason in verdict.reasons]
    if verdict.action is not Action.KEEP:
        lines.append(Said("due-now", f"Due now: {_NOUNS[verdict.action]}.", {"step": verdict.action.value}))
    following = verdict.next_action
    if following is not None and verdict.deadline is not None and verdict.action is not following:
        wait, noun = verdict.deadline - now, _NOUNS[following]
        facts: dict[str, Fact] = {"step": following.value}
        if wait > 0:
            text = f"Next: {noun} in {span(wait)} at the earliest."
            lines.append(Said("next-in", text, {**facts, "wait_seconds": wait}))
        else:
            lines.append(Said("next-now", f"Next: {noun} now.", facts))
    if verdict.protections:
        names = ", ".join(p.value for p in verdict.protections)
        lines.append(Said("protected-now", f"Protected now: {names}.", {"protections": names}))
    return lines


def setting(mode: str, source: str) -> Said:
    """The line before an argument: whether anything is done at all, and by which policy."""
    return Said("argument-mode", f"Mode: {mode}. Policy: {source}.", {"mode": mode, "source": source})


def reading(value: Reading) -> tuple[float | None, str | None]:
    """A Reading as the pair of the wire: the number and None, or None and why."""
    return (value, None) if is_known(value) else (None, value.why.value)
