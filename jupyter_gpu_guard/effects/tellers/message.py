"""What hooks tell: a warning or an outcome, as facts and as a sentence in English. No command line, no path but one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_gpu_guard.core.explain import memory, sentence, span
from jupyter_gpu_guard.core.model import is_known
from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.core.verdict import Result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from jupyter_gpu_guard.core.model import Holder
    from jupyter_gpu_guard.core.policy import Site
    from jupyter_gpu_guard.core.verdict import Outcome, Verdict

VERSION = 1
_DONE = {
    Action.RELEASE: "was made to give back what its frameworks kept",
    Action.PARK: "was parked in the host's memory",
    Action.RESUME: "was brought back to its GPU",
    Action.SHUTDOWN: "was shut down",
}
_FOLLOWS = {Action.RELEASE: "made to give back what its frameworks keep", Action.PARK: "parked"}
_FUNCTIONS = (
    (re.compile(r"before that, [^;]+ was called"), "before that, what was registered was called"),
    (
        re.compile(r"(^|(?<=; ))[^;]+, registered for its end, failed \([^;]*\)"),
        "what was registered for its end failed",
    ),
    (re.compile(r"there was no time for [^;]+"), "there was no time for all that was registered"),
)


@dataclass(frozen=True)
class Message:
    """One thing to tell. `facts` are plain JSON, `title` is one line; both and `text` are free of control characters.

    `called` is how `text` calls it.
    """

    title: str
    text: str
    called: str
    facts: Mapping[str, Any]

    @property
    def whole(self) -> dict[str, Any]:
        """The facts and the sentence together."""
        return {**self.facts, "text": self.text}


@dataclass(frozen=True)
class Writer:
    """Writes messages. `names`: with those of notebooks. `link` leads to the server, without a token; empty: none."""

    site: Site
    names: bool = True
    link: Callable[[], str] = str

    def warning(self, verdict: Verdict, holder: Holder, now: datetime, deadline: datetime | None) -> Message:
        """That something may happen to `holder` at `deadline`; None: nothing will by itself."""
        owner = holder.owner
        held = holder.memory if is_known(holder.memory) else None
        follows = verdict.next_action if deadline is not None else None
        who, called = self._who(owner.key.kind.value, owner.name)
        what = sentence(verdict.reasons[0]) if verdict.reasons else f"It holds {memory(held)} of GPU memory."
        then = "Nothing follows by itself."
        if deadline is not None and follows is not None:
            left = span((deadline - now).total_seconds())
            done = _FOLLOWS.get(follows, "shut down")
            then = f"It is {done} in {left}, at {_moment(deadline)}, unless it is used or kept."
        return self._message(
            f"{called}: GPU memory held without compute",
            (f"{who}: {what}", then),
            called,
            {
                "about": "warning",
                **self._about(str(owner.key), owner.name, owner.notebook),
                "rule": verdict.rule,
                "memory_bytes": held,
                "next_action": follows.value if follows is not None else None,
                "given_at": now.isoformat(),
                "deadline": deadline.isoformat() if deadline is not None else None,
                "reasons": [reason.code.value for reason in verdict.reasons],
            },
        )

    def outcome(self, outcome: Outcome) -> Message:
        """What a rule has done, or could not do."""
        detail = outcome.detail if self.names else _without_functions(outcome.detail)
        who, called = self._who(outcome.owner.kind.value, outcome.name)
        done = _DONE.get(outcome.action, outcome.action.value)
        if outcome.result is Result.FAILED:
            what = f"{who} could not be dealt with ({outcome.action.value}), by rule {outcome.rule}: {detail}."
        else:
            what = f"{who} {done}, by rule {outcome.rule}: {detail}."
        return self._message(
            f"{called}: {outcome.action.value} {outcome.result.value}",
            (what,),
            called,
            {
                "about": "outcome",
                **self._about(str(outcome.owner), outcome.name, outcome.notebook),
                "rule": outcome.rule,
                "action": outcome.action.value,
                "result": outcome.result.value,
                "at": outcome.at.isoformat(),
                "detail": detail,
                "freed_bytes": outcome.freed_bytes,
                "took_seconds": outcome.took_seconds,
                "reasons": [reason.code.value for reason in outcome.reasons],
            },
        )

    def _about(self, owner: str, name: str, notebook: str | None) -> dict[str, Any]:
        kind, _, _ = owner.partition(":")
        return {
            "version": VERSION,
            "owner": owner,
            "kind": kind,
            "name": _clean(name) if self.names else None,
            "notebook": _clean(notebook) if self.names and notebook is not None else None,
            "user": self.site.user,
            "server": self.site.server,
            "link": self.link() or None,
        }

    def _who(self, kind: str, name: str) -> tuple[str, str]:
        called = _clean(name) if self.names and name else f"a {kind}"
        of = f" of {_clean(self.site.user)}" if self.site.user else ""
        return f"{called[:1].upper()}{called[1:]}{of}" if called.startswith("a ") else f"{called}{of}", called

    def _message(self, title: str, sentences: tuple[str, ...], called: str, facts: dict[str, Any]) -> Message:
        parts = (*(_clean(part) for part in sentences), *((facts["link"],) if facts["link"] else ()))
        return Message(_clean(title), " ".join(parts), called, facts)


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _without_functions(detail: str) -> str:
    """`detail` without what a person calls the functions and errors in their notebook."""
    for named, nameless in _FUNCTIONS:
        detail = named.sub(nameless, detail)
    return detail


def _clean(text: str) -> str:
    """`text` on one line, without what a terminal or a header would take for more than text."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
