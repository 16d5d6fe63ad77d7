"""Frozen values as plain JSON, and back, by their types. A field that is empty by default and empty is left out.

A number is always there: what counts as the default may change. A value may gain fields: what is missing has its
default, what is not known here is passed over.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """`value` in what JSON knows. Times with their zone, spans in seconds. Raises TypeError for what has no words."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if is_dataclass(value):
        return {
            field.name: to_plain(part)
            for field in fields(value)
            if (part := getattr(value, field.name)) or _default(field) != part
        }
    if isinstance(value, Mapping):
        return {str(to_plain(key)): to_plain(part) for key, part in value.items()}
    if isinstance(value, (tuple, frozenset)):
        return [to_plain(part) for part in (value if isinstance(value, tuple) else sorted(value))]
    raise TypeError(f"no plain form of {type(value).__name__}")


def from_plain(kind: type[T], told: Any) -> T:
    """The value of type `kind` that was `told`. Raises ValueError for anything else."""
    try:
        return cast("T", _made(kind, told))
    except (TypeError, KeyError, AttributeError, OverflowError) as error:
        raise ValueError(f"this is no {kind.__name__}") from error


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _default(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    return MISSING if field.default_factory is MISSING else field.default_factory()


def _made(kind: Any, told: Any) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _one_of(parts, told)
    if origin in (tuple, frozenset):
        if not isinstance(told, list):
            raise TypeError("not a list")
        return origin(_made(parts[0], part) for part in told)
    if origin is not None and issubclass(origin, Mapping):
        return {_made(parts[0], key): _made(parts[1], part) for key, part in told.items()}
    if is_dataclass(kind):
        names = {field.name for field in fields(kind)}
        hints = _hints(cast("type", kind))
        return cast("type", kind)(**{n: _made(hints[n], part) for n, part in told.items() if n in names})
    return _scalar(kind, told)


def _scalar(kind: Any, told: Any) -> Any:
    if kind is datetime:
        return datetime.fromisoformat(told)
    if kind is timedelta:
        return timedelta(seconds=told)
    if issubclass(kind, Enum):
        return kind(told)
    if kind is float and isinstance(told, int) and not isinstance(told, bool):
        return float(told)
    if not isinstance(told, kind):
        raise TypeError(f"not {kind}")
    return told


def _one_of(kinds: tuple[Any, ...], told: Any) -> Any:
    """`told` as the first of `kinds` that fits, the exact ones first: an int stays an int."""
    if told is None and type(None) in kinds:
        return None
    for kind in sorted(kinds, key=lambda kind: kind is not type(told)):
        if kind is type(None):
            continue
        try:
            return _made(kind, told)
        except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
            continue
    raise ValueError("none of its types fits")
