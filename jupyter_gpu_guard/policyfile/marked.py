"""YAML text to marked nodes: every refusal of the syntax, and no meaning.

Nodes are not turned into Python values: YAML 1.1 would read `12:30` as 750 and `on` as true, and the marks would be
lost. Anchors and aliases are refused, so that a small file cannot unfold into a huge one.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import Node, ScalarNode

from .problems import Place, Problem

LARGEST_FILE = 256 * 2**10
DEEPEST = 32

_STR = "tag:yaml.org,2002:str"


def read_text(path: Path) -> str | Problem:
    """The text of a regular file of UTF-8. Never waits on a pipe or a device."""
    read = read_file(path)
    return read if isinstance(read, Problem) else read[0]


def read_file(path: Path) -> tuple[str, os.stat_result] | Problem:
    """The text of a regular file of UTF-8, and the status of that very file. Never waits on a pipe or a device."""
    place = Place(str(path))
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return Problem(place, "is not a regular file", "name a YAML file")
            content = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        why = getattr(error, "strerror", None) or str(error)
        return Problem(place, f"cannot be read ({why})", "name a YAML file that exists and that you may read")
    if len(content) > LARGEST_FILE:
        limit = LARGEST_FILE // 2**10
        return Problem(place, f"is larger than {limit} KiB", "split it into several files")
    try:
        return content.decode("utf-8-sig"), status
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8", errors="replace")
        what = f"byte {content[error.start]:#04x} is not UTF-8"
        return Problem(_place_after(str(path), before), what, "save the file as UTF-8")


def _place_after(file: str, text: str) -> Place:
    return Place(file, text.count("\n") + 1, len(text) - (text.rfind("\n") + 1) + 1)


def place_of(file: str, mark: yaml.Mark) -> Place:
    """Where a YAML mark points."""
    return Place(file, mark.line + 1, mark.column + 1)


class _TooDeepError(Exception):
    pass


class _Composer(yaml.SafeLoader):
    """PyYAML's own composer, told to note anchors, aliases and tags, and to stop at a depth."""

    def __init__(self, text: str, file: str, problems: list[Problem]) -> None:
        super().__init__(text)
        self._file = file
        self._problems = problems
        self._depth = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        place = place_of(self._file, event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            self.get_event()  # type: ignore[no-untyped-call]
            what = f"'*{event.anchor}' is read as an alias, and aliases are not used here"
            self._problems.append(Problem(place, what, f'write "*{event.anchor}" in quotes if it is a pattern'))
            pattern = ScalarNode(_STR, f"*{event.anchor}", style='"')
            pattern.start_mark, pattern.end_mark = event.start_mark, event.end_mark
            return pattern
        if event.anchor is not None:
            self._problems.append(
                Problem(place, f"'&{event.anchor}' is an anchor, and anchors are not used here", "write the value out"),
            )
            event.anchor = None
        if getattr(event, "tag", None) is not None:
            self._problems.append(
                Problem(
                    place,
                    f"{event.tag!r} is a tag, and tags are not used here",
                    "put text that starts with ! in quotes",
                ),
            )
            event.tag, event.implicit = None, (True, False)
        self._depth += 1
        if self._depth > DEEPEST:
            self._problems.append(Problem(place, f"is nested more than {DEEPEST} deep", "write it flatter"))
            raise _TooDeepError
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def compose(text: str, file: str, problems: list[Problem]) -> Node | None:
    """The root node of the one document in `text`; None: there is none, and `problems` says why."""
    known = len(problems)
    root: Node | None = None
    try:
        loader = _Composer(text, file, problems)
        root = loader.get_single_node()
    except _TooDeepError:
        return None
    except yaml.reader.ReaderError as error:
        place = _place_after(file, text[: error.position])
        problems.append(Problem(place, f"the character U+{error.character:04X} is not allowed", "remove it"))
        return None
    except yaml.MarkedYAMLError as error:
        problems.append(_syntax_problem(error, file))
        return None
    if root is None and len(problems) == known:
        problems.append(Problem(Place(file), "is empty", "start with `version: 1`, or remove the file"))
    return root


def _syntax_problem(error: yaml.MarkedYAMLError, file: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    place = place_of(file, mark) if mark else Place(file)
    said = error.problem or error.context or "is not YAML"
    if "'\\t'" in said:
        return Problem(place, "a tab cannot indent in YAML", "use spaces")
    if error.context and "alias" in error.context:
        return Problem(place, "a value that starts with * is read as an alias", 'put the pattern in quotes, "*.ipynb"')
    if "'%'" in said or "'@'" in said or "'`'" in said:
        return Problem(place, said, "put the value in quotes")
    if error.context == "expected a single document in the stream":
        return Problem(place, "a second document starts here", "keep one document in a file, or use several files")
    if "mapping values are not allowed" in said:
        return Problem(place, "a colon is not expected here", "check the indentation, or put the value in quotes")
    context = f" {error.context}" if error.context else ""
    return Problem(place, f"is not YAML: {said}{context}", "check the indentation, quotes and brackets near here")
