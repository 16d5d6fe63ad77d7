"""The JSON Schema for editors and the reader are made of one table: what one takes, the other takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from jupyter_gpu_guard.policyfile import PolicyError, load
from jupyter_gpu_guard.policyfile.grammar import (
    BELTS,
    BUDGET,
    EXEMPTION,
    FILE,
    RULE,
    STAGE,
    Count,
    Kind,
    ListOf,
    Named,
    Number,
    Only,
    Quantity,
    Section,
    Text,
    Words,
    YesNo,
)
from jupyter_gpu_guard.policyfile.schema import cases_schema, json_schema

SCHEMA = Draft202012Validator(json_schema())
CASES = Draft202012Validator(cases_schema())
ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "deploy" / "policies").glob("*.yaml"))

# What stands in the way of a value that is tried alone.
CONTEXT: dict[str, dict[str, Any]] = {
    "a rule": {"name": "r"},
    "a stage of ladder": {"do": "warn"},
    "an exemption": {"match": {}, "until": "2027-01-01T00:00Z", "reason": "r"},
    "trickle": {"over": "6h"},
    "a budget": {"name": "b", "per": "user", "window": "7d", "measure": "gpu_hours", "limit": 40, "then": "default"},
}


def wrapped(section: Section, key: str, value: Any) -> Any:
    """A section with one key, and what must stand beside it."""
    return {**CONTEXT.get(section.title, {}), key: value}


def leaves(kind: Kind, wrap: Any, path: str) -> Iterator[tuple[str, Kind, Any]]:
    """Every place for a single value: its path, its kind, and how to make a file of a value there."""
    if isinstance(kind, Section):
        for name, key in kind.keys.items():
            yield from leaves(
                key.kind,
                lambda value, name=name, kind=kind: wrap(wrapped(kind, name, value)),
                f"{path}.{name}",
            )
        if kind.instead is not None:
            yield f"{path}=", kind.instead, wrap
    elif isinstance(kind, ListOf):
        yield from leaves(kind.item, lambda value: wrap([value]), f"{path}[]")
        if kind.alone:
            yield from leaves(kind.item, wrap, path)
    elif isinstance(kind, Named):
        yield from leaves(kind.value, lambda value: wrap({"work": value}), f"{path}{{}}")
    else:
        yield path, kind, wrap


def file_of(content: Any) -> Any:
    """A whole file around what is tried."""
    return {"version": 1, "timezone": "UTC", "calendars": {"office-hours": "mon"}, **content}


LEAVES = {path: (kind, wrap) for path, kind, wrap in leaves(FILE, file_of, "")}
VALUES: list[Any] = [
    *("5%", "0%", "101%", "2GiB", "0MiB", "2h", "+5m", "-5m", "never", "Never", "10m", "0.5 %", "1h 30m", "2 days"),
    *(0, -1, 1, 3, 20, 1_000_001, 1.5, True, False, None, "", "  ", [], {}, ["x"], {"x": 1}),
    *("observe", "enforce", "kernel", "idle", "executing", "warn", "shutdown", "keep", "required", "replace"),
    *("Europe/Berlin", "office-hours", "mon-fri 08:00-18:00", "sat,sun", "2027-01-20", "2027-01-20T18:00Z", "any text"),
]


def is_read(content: Any, path: Path) -> bool:
    """Whether the reader takes it."""
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    try:
        load([path])
    except PolicyError:
        return False
    return True


def example(kind: Kind) -> Any:
    """A value that the table itself calls right."""
    if isinstance(kind, Quantity | Text | Number):
        return kind.example
    if isinstance(kind, Words):
        return kind.words[0]
    if isinstance(kind, Only):
        return kind.value
    return 3 if isinstance(kind, Count) else True


def test_the_schema_is_one() -> None:
    """Both are valid in their own dialect."""
    for schema in (json_schema(), cases_schema()):
        Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("path", LEAVES)
def test_each_key_takes_its_example(path: str, tmp_path: Path) -> None:
    """By the schema and by the reader; so each key of the table is known to the reader at its place."""
    kind, wrap = LEAVES[path]
    content = wrap(example(kind))
    assert SCHEMA.is_valid(content), list(SCHEMA.iter_errors(content))
    if path.endswith(".override"):
        return  # needs an earlier file
    assert is_read(content, tmp_path / "p.yaml")


@pytest.mark.parametrize("path", LEAVES)
def test_what_the_reader_takes_the_schema_takes(path: str, tmp_path: Path) -> None:
    """No editor marks as wrong what is right. Of words and counts both take the same."""
    kind, wrap = LEAVES[path]
    for value in VALUES:
        content = wrap(value)
        by_reader, by_schema = is_read(content, tmp_path / "p.yaml"), SCHEMA.is_valid(content)
        assert by_schema or not by_reader, value
        if isinstance(kind, Words | Only | YesNo | Count | Number) and "override" not in path and "ladder" not in path:
            assert by_schema == by_reader, value


@pytest.mark.parametrize("section", [FILE, BELTS, EXEMPTION, RULE, STAGE, BUDGET])
def test_neither_takes_a_key_that_is_not_known(section: Section, tmp_path: Path) -> None:
    """Nor leaves out one that must be there."""
    whole = {
        FILE.title: file_of,
        BELTS.title: lambda inner: file_of({"belts": inner}),
        EXEMPTION.title: lambda inner: file_of({"exemptions": [inner]}),
        BUDGET.title: lambda inner: file_of({"budgets": [inner]}),
        RULE.title: lambda inner: file_of({"rules": [inner]}),
        STAGE.title: lambda inner: file_of({"defaults": {"ladder": [inner]}}),
    }[section.title]
    right = dict(CONTEXT.get(section.title, {}))
    assert SCHEMA.is_valid(whole(right))
    assert is_read(whole(right), tmp_path / "p.yaml")
    for wrong in ({**right, "xyzzy": 1}, *({k: v for k, v in right.items() if k != gone} for gone in section.required)):
        if wrong == right:  # the version, which file_of() adds
            continue
        assert not SCHEMA.is_valid(whole(wrong))
        assert not is_read(whole(wrong), tmp_path / "p.yaml")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_are_right_by_the_schema(path: Path) -> None:
    """As a reader of YAML 1.2, such as an editor, sees them: nothing that looks like a date or a boolean is one."""
    content = yaml.load(path.read_text(encoding="utf-8"), Loader=_Plain)
    validator = CASES if path.name.endswith(".cases.yaml") else SCHEMA
    assert list(validator.iter_errors(content)) == []


class _Plain(yaml.SafeLoader):
    """Without YAML 1.1's dates, and with nothing but `true` and `false` as booleans."""


_Plain.yaml_implicit_resolvers = {
    letter: [(tag, found) for tag, found in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
