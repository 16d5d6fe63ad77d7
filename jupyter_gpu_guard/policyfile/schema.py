"""The JSON Schema of a policy file, for editors; made of the table that the reader uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .cases import CASES
from .grammar import FILE, MOST, Count, Kind, ListOf, Named, Number, Only, Quantity, Section, Text, Words, YesNo

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The schema of one file. It lets through all that the reader takes, and no key that it does not know."""
    return {"$schema": DIALECT, "title": "jupyter-gpu-guard policy", **schema_of(FILE)}


def cases_schema() -> dict[str, Any]:
    """The schema of a file of cases."""
    return {"$schema": DIALECT, "title": "jupyter-gpu-guard policy cases", **schema_of(CASES)}


def schema_of(kind: Kind) -> dict[str, Any]:
    """The schema of one kind of value."""
    if isinstance(kind, Section):
        return _either(_section(kind), schema_of(kind.instead) if kind.instead else None)
    if isinstance(kind, ListOf):
        item = schema_of(kind.item)
        several: dict[str, Any] = {"type": "array", "items": item}
        if kind.may_be_empty:
            return {**several, "type": ["array", "null"]}
        return _either({**several, "minItems": 1}, item if kind.alone else None)
    if isinstance(kind, Named):
        return {"type": "object", "additionalProperties": schema_of(kind.value)}
    return _single(kind)


def _section(kind: Section) -> dict[str, Any]:
    properties = {name: {**schema_of(key.kind), "description": key.says} for name, key in kind.keys.items()}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(kind.required)} if kind.required else schema


def _single(kind: Quantity[object] | Words | Text | Count | Number | YesNo | Only) -> dict[str, Any]:
    if isinstance(kind, Quantity):
        written = {"type": "string", "pattern": kind.pattern, "examples": [kind.example]}
        return _either(written, {"type": "number", "maximum": 0} if kind.bare else None)
    if isinstance(kind, Words):
        return {"enum": list(kind.words)}
    if isinstance(kind, Text):
        return {"type": "string", "pattern": r"\S", "examples": [kind.example]}
    if isinstance(kind, Count):
        return {"type": "integer", "minimum": 1, "maximum": MOST}
    if isinstance(kind, Number):
        return {"type": "number", "exclusiveMinimum": 0, "maximum": MOST}
    return {"type": "boolean"} if isinstance(kind, YesNo) else {"const": kind.value}


def _either(first: Mapping[str, Any], second: Mapping[str, Any] | None) -> dict[str, Any]:
    return dict(first) if second is None else {"anyOf": [dict(first), dict(second)]}
