"""Sentences that effects and sources have made, as codes with facts, so that a face can say them in its own language.

Whoever acts or looks says what it found in plain English: that goes to the log, to the audit and to hooks as it is, and
is read back from the audit years later. Here each clause that is known is told by its template; one that is not has no
code, and is shown as it was said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache

from jupyter_gpu_guard.core.explain import Said
from jupyter_gpu_guard.core.verdict import Fact

from .sentences import GAPS, OUTCOMES, PROBLEMS

# In a template, what a name ends in says what stands there: an amount, a span, a number, or any words.
_PART = re.compile(r"; (?![^()]*\))")  # what stands in brackets is one part
_SENTENCE = re.compile(r"(?<=\.) (?=[A-Z/])")
_NAME = re.compile(r"\{(\w+)\}")
_DEVICE = r"GPU \d+(?: MIG \d+)?"
_KINDS = {
    "_bytes": r"[\d.]+ [GM]iB|GPU memory",
    "_seconds": r"[\d.]+",
    "_count": r"\d+",
    "devices": rf"{_DEVICE}(?:(?:, | and ){_DEVICE})*",
    "port": r"\d+",
    "state": r"[\w-]+",
    "step": r"[\w-]+",
    "pid": r"\d+",
    "index": r"\d+",
}
_SIZES = {"GiB": 2**30, "MiB": 2**20}

_REMEMBERED = 1000  # sentences


def of_outcome(detail: str) -> list[Said]:
    """The parts of a detail in their order: code, text, facts. The code is empty where it is not known."""
    return list(_parts(detail))


@lru_cache(_REMEMBERED)  # each report tells the same ones again, and to find the codes of a hundred takes a while
def _parts(detail: str) -> tuple[Said, ...]:
    return tuple(_said(part, OUTCOMES) for part in _PART.split(detail) if part)


def of_gap(why: str) -> Said:
    """Why a source did not answer: code, text, facts."""
    return _said(why, GAPS)


def of_problem(problem: str) -> list[Said]:
    """What health shows, as one or, where a sentence says several things, as its parts."""
    parts = [_of_problem(part) for part in _SENTENCE.split(problem)]
    if all(part.code for part in parts):
        return parts
    whole = _of_problem(problem)
    return [whole] if whole.code else parts


def of_policy_fault(fault: str | None) -> Said | None:
    """Why a newer policy was not taken, for whoever is not told more; None: it is told with file and line."""
    said = None if fault is None else _said(fault, PROBLEMS)
    return said if said is not None and said.code else None


def _of_problem(text: str) -> Said:
    said = _said(text, PROBLEMS)
    return said if said.code else of_gap(text)


def _said(text: str, templates: Mapping[str, str]) -> Said:
    for code, template in templates.items():
        found = _pattern(template).fullmatch(text)
        if found is not None:
            return Said(code, text, {name: _fact(name, value) for name, value in found.groupdict().items()})
    return Said("", text, {})


@cache
def _pattern(template: str) -> re.Pattern[str]:
    *fixed, last = _NAME.split(template)[::2]
    names = _NAME.findall(template)
    parts = [re.escape(text) + f"(?P<{name}>{_kind(name)})" for text, name in zip(fixed, names, strict=True)]
    return re.compile("".join(parts) + re.escape(last))


def _kind(name: str) -> str:
    return next((kind for ending, kind in _KINDS.items() if name.endswith(ending)), ".+")


def _fact(name: str, value: str) -> Fact:
    if name.endswith("_bytes"):
        amount, unit = value.split()
        return float(amount) * _SIZES[unit] if unit in _SIZES else None
    return float(value) if name.endswith(("_seconds", "_count")) else value
