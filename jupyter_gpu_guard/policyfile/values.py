"""Single values of a policy file: what may be written, and what it means. Refusals are sentences."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone, tzinfo
from difflib import get_close_matches
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from jupyter_gpu_guard.core.calendars import DAY, Hours
from jupyter_gpu_guard.core.trickle import LONGEST as LONGEST_TRICKLE
from jupyter_gpu_guard.core.usage import LONGEST_WINDOW
from jupyter_gpu_guard.quantities import (
    QuantityError,
    parse_duration,
    parse_percent,
    parse_size,
    say_duration,
)

_SHORTEST_WINDOW = timedelta(hours=1)
_SHORTEST_TRICKLE = timedelta(hours=1)
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_EVERY_DAY = frozenset(range(7))
_HOURS = re.compile(r"(?:(?P<days>[a-z, -]*[a-z])\s*)?(?:(?P<start>\d{1,2}:\d\d)\s*-\s*(?P<end>\d{1,2}:\d\d))?")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?P<time>[T ]\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d)?)?")


def lasting(text: str) -> timedelta | None:
    """How long something must last. `never`, 0 and anything below 0 mean never. Raises QuantityError."""
    if text.strip().lower() == "never":
        return None
    if text.strip().startswith("-") and text.strip().removeprefix("-").replace(".", "", 1).isdigit():
        return None  # a bare negative number needs no unit to mean never
    span = parse_duration(text)
    return span if span > timedelta(0) else None


def trickling(text: str) -> timedelta | None:
    """How long a trickle is looked at; the Window forgets what is older than three days. Raises QuantityError."""
    over = lasting(text)
    if over is None:
        return None
    longest = timedelta(seconds=LONGEST_TRICKLE)
    if not _SHORTEST_TRICKLE <= over <= longest:
        shortest, most = say_duration(_SHORTEST_TRICKLE), say_duration(longest)
        raise QuantityError(f"{text!r} is not between {shortest} and {most}", "write for example 6h")
    return over


def time_to_answer(text: str) -> timedelta:
    """A duration above 0. Raises QuantityError."""
    span = parse_duration(text)
    if span <= timedelta(0):
        raise QuantityError(f"{text!r} leaves people no time to answer", "write for example 15m")
    return span


def age(text: str) -> timedelta:
    """A duration above 0. Raises QuantityError."""
    span = parse_duration(text)
    if span <= timedelta(0):
        raise QuantityError(f"{text!r} is the age of everything", "write for example 12h")
    return span


def rolling(text: str) -> timedelta:
    """The time over which use is summed: from one hour to as long as it is remembered. Raises QuantityError."""
    span = parse_duration(text)
    if not _SHORTEST_WINDOW <= span <= LONGEST_WINDOW:
        shortest, longest = say_duration(_SHORTEST_WINDOW), say_duration(LONGEST_WINDOW)
        raise QuantityError(f"{text!r} is not between {shortest} and {longest}", "write for example 7d")
    return span


def delay(text: str) -> timedelta:
    """A duration of 0 or more. Raises QuantityError."""
    span = parse_duration(text)
    if span < timedelta(0):
        raise QuantityError(f"{text!r} is negative", 'write for example 15m, or "+5m" after the stage before')
    return span


def share(text: str) -> float:
    """A percentage above 0, at most 100. Raises QuantityError."""
    percent = parse_percent(text)
    if not 0 < percent <= 100:  # noqa: PLR2004 - percent
        raise QuantityError(f"{text!r} is not between 0% and 100%", "write for example 5%")
    return percent


def any_share(text: str) -> float:
    """A percentage from 0 to 100. Raises QuantityError."""
    percent = parse_percent(text)
    if not 0 <= percent <= 100:  # noqa: PLR2004 - percent
        raise QuantityError(f"{text!r} is not between 0% and 100%", "write for example 40%")
    return percent


def memory(text: str) -> float:
    """A size above 0, in bytes. Raises QuantityError."""
    amount = parse_size(text)
    if amount <= 0:
        raise QuantityError(f"{text!r} would count what holds no GPU memory at all", "write for example 512MiB")
    return amount


def zone(text: str) -> tzinfo:
    """A time zone by its name in the IANA database. Raises QuantityError."""
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass  # OSError: a folder of the database, as `Europe`
    known = available_timezones()
    if not known:
        raise QuantityError(f"{text!r} is not known, nor is any time zone", "install the Python package tzdata")
    cities = {name.rpartition("/")[2].lower(): name for name in sorted(known)}
    near = get_close_matches(text, known, n=1) or [
        cities[city] for city in get_close_matches(text.rpartition("/")[2].lower(), cities, n=1)
    ]
    raise QuantityError(
        f"{text!r} is not a time zone", f"did you mean {near[0]!r}?" if near else "write for example Europe/Berlin"
    )


def hours(text: str) -> Hours:
    """`mon-fri 08:00-18:00`, `sat,sun`, `daily 22:00-06:00`. Raises QuantityError."""
    found = _HOURS.fullmatch(text.strip().lower())
    if found is None or not any(found.groups()):
        raise QuantityError(f"{text!r} are no hours", 'write for example "mon-fri 08:00-18:00" or "sat,sun"')
    days = _EVERY_DAY if found["days"] is None else _days(found["days"])
    if found["start"] is None:
        return Hours(days)
    start, end = _minute(found["start"]), _minute(found["end"])
    if start in {DAY, end}:
        raise QuantityError(f"{text!r} are no hours", "write 00:00-24:00 for the whole day")
    return Hours(days, start, end)


def _days(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = (word.strip() for word in part.partition("-"))
        if first == "daily" and not last:
            return _EVERY_DAY
        begin, end = _day(first), _day(last or first)
        found.update((begin + step) % 7 for step in range((end - begin) % 7 + 1))
    return frozenset(found)


def _day(word: str) -> int:
    for number, name in enumerate(_DAYS):
        if word in {name, name[:3]}:
            return number
    near = get_close_matches(word, (*_DAYS, *(name[:3] for name in _DAYS)), n=1)
    right = f"did you mean {near[0][:3]!r}?" if near else "write mon, tue, wed, thu, fri, sat, sun or daily"
    raise QuantityError(f"{word!r} is not a day", right)


def _minute(clock: str) -> int:
    hour, minute = map(int, clock.split(":"))
    if hour * 60 + minute > DAY or minute > 59:  # noqa: PLR2004 - of an hour
        raise QuantityError(f"{clock!r} is not a time of day", "write 00:00 to 24:00")
    return hour * 60 + minute


def moment(text: str) -> datetime:
    """A moment; without a zone if none was written. A day alone means its end. Raises QuantityError."""
    found = _MOMENT.fullmatch(text.strip())
    right = "write for example 2027-01-20, 2027-01-20T18:00 or 2027-01-20T18:00Z"
    if found is None:
        raise QuantityError(f"{text!r} is not a moment", right)
    try:
        at = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
        return at if found["time"] else at + timedelta(days=1)
    except (ValueError, OverflowError):
        raise QuantityError(f"{text!r} is not on the calendar", right) from None


def in_zone(at: datetime, home: tzinfo) -> datetime:
    """`at`, in UTC; if it names no zone, by the clock of `home`. An hour that comes twice: the later one."""
    if at.tzinfo is not None:
        return at.astimezone(timezone.utc)
    return max(at.replace(tzinfo=home, fold=fold).astimezone(timezone.utc) for fold in (0, 1))
