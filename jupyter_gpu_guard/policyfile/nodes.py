"""Marked YAML nodes to plain values: what does not look as it must is noted where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TypeVar

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from jupyter_gpu_guard.quantities import QuantityError

from .draft import Placed
from .grammar import MOST, Quantity, Section, homes
from .marked import place_of
from .problems import Place, Problem, suggestion

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
T = TypeVar("T")
E = TypeVar("E", bound=Enum)

_HOMES = homes()
_SHAPES = {MappingNode: "a mapping of keys to values", SequenceNode: "a list", ScalarNode: "a single value"}


class Nodes:
    """Reads the nodes of one file and notes its problems."""

    def __init__(self, file: str, problems: list[Problem]) -> None:
        self._file = file
        self._problems = problems

    def place(self, node: Node) -> Place:
        """Where it begins."""
        return place_of(self._file, node.start_mark)

    def say(self, node: Node, what: str, right: str) -> None:
        """Note a problem with `node`."""
        self._problems.append(Problem(self.place(node), what, right))

    def section(self, node: Node | None, section: Section) -> dict[str, Node]:
        """The values of a mapping that may be absent."""
        return {} if node is None else self.mapping(node, repr(section.title), section) or {}

    def mapping(self, node: Node, name: str, section: Section) -> dict[str, Node] | None:
        """The values of a mapping by their keys, all of them known; None: it is none."""
        known = tuple(section.keys)
        pairs = self.pairs(node, name, f"write keys such as {', '.join(known[:2])}")
        if pairs is None:
            return None
        found: dict[str, Node] = {}
        for key, value in pairs:
            word = key.value if isinstance(key, ScalarNode) else None
            if word is None:
                self.say(key, "a key must be a single word", suggestion("", known))
            elif word in found:
                self.say(key, f"{word!r} is given twice", "keep one of them")
            elif word not in known:
                self.say(key, f"{word!r} is not known in {name}", section.hints.get(word) or _right_key(word, known))
            else:
                found[word] = value
        return found

    def pairs(self, node: Node, name: str, right: str) -> list[tuple[Node, Node]] | None:
        """The keys and values of a mapping; None: it is none."""
        if isinstance(node, MappingNode):
            pairs: list[tuple[Node, Node]] = node.value
            return pairs
        self.say(node, f"{name} must be {_SHAPES[MappingNode]}, not {_shape(node)}", right)
        return None

    def items(self, node: Node | None, name: str, *, empty_is_fine: bool = False) -> Iterable[Node]:
        """The items of a list."""
        if node is None or (empty_is_fine and _is_empty(node)):
            return ()
        if not isinstance(node, SequenceNode):
            self.say(node, f"{name!r} must be {_SHAPES[SequenceNode]}, not {_shape(node)}", "start each item with `- `")
            return ()
        if not node.value and not empty_is_fine:
            right = "leave it out, or write `for: never` in `idle` or `keep: true` in a rule to end nothing"
            self.say(node, f"{name!r} is empty", right)
        items: list[Node] = node.value
        return items

    def scalar(self, node: Node, name: str, right: str) -> ScalarNode | None:
        """A single value that is not empty."""
        if isinstance(node, ScalarNode) and node.value.strip():
            return node
        self.say(node, f"{name} must be {_SHAPES[ScalarNode]}, not {_shape(node)}", right)
        return None

    def text(self, node: Node | None, name: str) -> Placed[str] | None:
        """A text that YAML reads as one."""
        if node is None:
            return None
        scalar = self.scalar(node, name, "write a text")
        if scalar is None:
            return None
        if scalar.style is None and scalar.tag != "tag:yaml.org,2002:str":
            self.say(node, f"{scalar.value!r} is not read as a text by YAML", f'put it in quotes: "{scalar.value}"')
        return Placed(scalar.value, self.place(node))

    def word(self, node: Node | None, words: type[E], name: str, *, but: tuple[E, ...] = ()) -> E | None:
        """One of a few words."""
        if node is None:
            return None
        known = {str(word.value): word for word in words if word not in but}
        scalar = self.scalar(node, name, suggestion("", known))
        if scalar is None:
            return None
        if scalar.value not in known:
            self.say(node, f"{scalar.value!r} is not {name}", suggestion(scalar.value, known))
        return known.get(scalar.value)

    def yes_or_no(self, node: Node | None) -> Placed[bool] | None:
        """`true` or `false`."""
        if node is None or (scalar := self.scalar(node, "a yes or no", "write true or false")) is None:
            return None
        if scalar.value not in {"true", "false"}:
            self.say(node, f"{scalar.value!r} is neither true nor false", "write true or false")
        return Placed(scalar.value == "true", self.place(node))

    def count(self, node: Node | None, name: str, instead_of_none: str) -> Placed[int] | None:
        """A whole number from 1 on."""
        if node is None or (scalar := self.scalar(node, name, "write for example 20")) is None:
            return None
        text = scalar.value.strip()
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()):
            self.say(node, f"{text!r} is not a whole number", "write for example 20")
        elif text.startswith("-") or not digits.strip("0"):
            self.say(node, f"{text} must be 1 or more", instead_of_none)
        elif len(digits) > len(str(MOST)) or int(digits) > MOST:
            self.say(node, f"{text} is no limit", f"write {MOST} or less")
        else:
            return Placed(int(digits), self.place(node))
        return None

    def number(self, node: Node | None, name: str, right: str) -> Placed[float] | None:
        """A number above 0, without a unit. `right`: what to write instead of anything else."""
        if node is None or (scalar := self.scalar(node, name, right)) is None:
            return None
        text = scalar.value.strip()
        if not _NUMBER.fullmatch(text):
            self.say(node, f"{text!r} is not a number", right)
        elif text.startswith("-") or not text.strip("0."):
            self.say(node, f"{text} must be more than 0", right)
        elif float(text) > MOST:
            self.say(node, f"{text} is no limit", f"write {MOST} or less")
        else:
            return Placed(float(text), self.place(node))
        return None

    def quantity(self, node: Node | None, kind: Quantity[T]) -> Placed[T] | None:
        """A text with a meaning of its own."""
        if node is None:
            return None
        scalar = self.scalar(node, "a quantity", f"write for example {kind.example}")
        if scalar is None:
            return None
        try:
            return Placed(kind.parse(scalar.value), self.place(node))
        except QuantityError as error:
            self.say(node, error.what, error.right)
            return None

    def required(self, node: Node, found: Mapping[str, Node], section: Section) -> bool:
        """Whether all is there that must be."""
        missing = [name for name in section.required if name not in found]
        if missing:
            self.say(node, f"{section.title} without {' and '.join(map(repr, missing))}", f"add `{missing[0]}:`")
        return not missing


def within(node: Node | None, key: str) -> Node | None:
    """The value of `key`, if `node` is a mapping that has it."""
    pairs = node.value if isinstance(node, MappingNode) else ()
    return next((value for name, value in pairs if isinstance(name, ScalarNode) and name.value == key), None)


def _is_empty(node: Node) -> bool:
    return isinstance(node, ScalarNode) and not node.value.strip()


def _shape(node: Node) -> str:
    return "empty" if _is_empty(node) else _SHAPES[type(node)]


def _right_key(word: str, known: tuple[str, ...]) -> str:
    home = _HOMES.get(word)
    return f"it belongs in {home}" if home else suggestion(word, known)
