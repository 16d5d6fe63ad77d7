"""Durations, sizes and shares as people write them: `1h 30m`, `512MiB`, `5%`. Pure; refusals are sentences."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from itertools import pairwise

LONGEST = timedelta(days=3650)
LARGEST_BYTES = float(2**60)

_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_PART = re.compile(rf"({_NUMBER})\s*([a-z]+)\s*")
_SIZE = re.compile(rf"([+-]?{_NUMBER})\s*([a-z]*)")
_PERCENT = re.compile(rf"([+-]?{_NUMBER})\s*%")
_BARE = re.compile(rf"[+-]?{_NUMBER}")

_SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DURATION_UNITS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
    **dict.fromkeys(("w", "week", "weeks"), "w"),
}
_BYTES: dict[str, int] = {
    "b": 1,
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", start=1)},
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgt", start=1)},
}


class QuantityError(ValueError):
    """A text that is no such quantity: `what` is wrong with it, and what would be `right`."""

    def __init__(self, what: str, right: str) -> None:
        super().__init__(f"{what}; {right}")
        self.what = what
        self.right = right


def parse_duration(text: str) -> timedelta:
    """`90s`, `15m`, `1h 30m`, `2 days`; a bare `0` needs no unit. Negative ones are read too: the caller judges them.

    Raises QuantityError.
    """
    stripped = text.strip().lower()
    sign = -1 if stripped.startswith("-") else 1
    body = stripped[1:] if stripped[:1] in {"+", "-"} else stripped
    if _BARE.fullmatch(stripped):
        if float(body) == 0:
            return timedelta(0)
        raise QuantityError(f"{text!r} has no unit", f"write for example {body}s, {body}m or {body}h")
    if ":" in body:
        raise QuantityError(f"{text!r} is a time of day, not a duration", "write for example 12h 30m")
    seconds, position, smallest = 0.0, 0, float("inf")
    while position < len(body):
        part = _PART.match(body, position)
        unit = _DURATION_UNITS.get(part[2]) if part else None
        if part is None or unit is None or _SECONDS[unit] >= smallest:
            raise QuantityError(f"{text!r} is not a duration", "write for example 90s, 15m, 2h, 1h 30m or 3d")
        smallest = _SECONDS[unit]
        seconds += float(part[1]) * smallest
        position = part.end()
    if position == 0:
        raise QuantityError(f"{text!r} is not a duration", "write for example 90s, 15m, 2h, 1h 30m or 3d")
    if seconds > LONGEST.total_seconds():
        raise QuantityError(f"{text!r} is more than ten years", f"write {LONGEST.days}d or less")
    return sign * timedelta(seconds=seconds)


def parse_since(text: str, now: datetime) -> datetime:
    """`7d`: so long before `now`; or `2026-11-30T08:00Z`: that moment, with its zone. Raises QuantityError."""
    try:
        return now - abs(parse_duration(text))
    except QuantityError:
        pass
    try:
        moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise QuantityError(f"{text!r} is no time", "write for example 7d, or 2026-11-30T08:00Z with its zone")
    return moment


def parse_size(text: str) -> float:
    """Bytes: `512MiB`, `5 GB`, `1.5gib`; a bare `0` needs no unit. Negative ones are read too. Raises QuantityError."""
    match = _SIZE.fullmatch(text.strip().lower())
    if match and not match[2]:
        if float(match[1]) == 0:
            return 0.0
        raise QuantityError(f"{text!r} has no unit", f"write for example {match[1]}MiB or {match[1]}GiB")
    factor = _BYTES.get(match[2]) if match else None
    if match is None or factor is None:
        raise QuantityError(f"{text!r} is not a size", "write for example 512MiB, 6GiB or 5GB")
    amount = float(match[1]) * factor
    if amount > LARGEST_BYTES:
        raise QuantityError(f"{text!r} is more than any device has", "write for example 80GiB")
    return amount


def parse_percent(text: str) -> float:
    """Percent: `5%`, `0.5 %`. Never a bare number: 0.05 and 5 would both be plausible. Raises QuantityError."""
    stripped = text.strip()
    if match := _PERCENT.fullmatch(stripped):
        return float(match[1])
    if _BARE.fullmatch(stripped):
        number = float(stripped)
        meant = number * 100 if 0 < number < 1 else number
        raise QuantityError(f"{text!r} has no unit", f"write {meant:g}%")
    raise QuantityError(f"{text!r} is not a percentage", "write for example 5%")


def say_duration(span: timedelta) -> str:
    """At most two parts that `parse_duration` reads back, rounded to the smaller one: `2h`, `1h 30m`, `45s`, `0s`."""
    seconds = round(span.total_seconds())
    if seconds < 0:
        return f"-{say_duration(-span)}"
    sizes = [(unit, size) for unit, size in _SECONDS.items() if unit != "w"]
    for (unit, size), (next_unit, next_size) in pairwise(sizes):
        if seconds >= size:
            whole, rest = divmod(round(seconds / next_size), size // next_size)
            return f"{whole}{unit} {rest}{next_unit}" if rest else f"{whole}{unit}"
    return f"{seconds}s"
