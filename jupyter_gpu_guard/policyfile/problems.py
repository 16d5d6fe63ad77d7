"""What is wrong with a policy, where, and what would be right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True, order=True)
class Place:
    """A spot in a file. Lines and columns count from 1; line 0 stands for the file as a whole."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True)
class Problem:
    """One mistake: `what` is wrong, and what would be `right`."""

    place: Place
    what: str
    right: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}; {self.right}"


class PolicyError(ValueError):
    """A policy that cannot be used. `problems` are all that were found, in the order of the files."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def suggestion(word: str, known: Iterable[str]) -> str:
    """What to write instead of `word`: the nearest known one, or all of them."""
    options = sorted(known)
    near = get_close_matches(word.lower(), options, n=1, cutoff=0.6)
    listed = ", ".join(options[:-1]) + f" or {options[-1]}" if len(options) > 1 else options[0]
    return f"did you mean {near[0]!r}?" if near else f"write {listed}"
