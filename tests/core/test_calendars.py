"""Hours of the week, by the clock on the wall."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from jupyter_gpu_guard.core.calendars import Calendar, Hours

BERLIN = ZoneInfo("Europe/Berlin")
WORK = Hours(frozenset(range(5)), 8 * 60, 18 * 60)
NIGHT = Hours(frozenset({4}), 22 * 60, 6 * 60)  # from Friday evening to Saturday morning
WHOLE_DAY = Hours(frozenset({2}), 8 * 60, 8 * 60)  # from Wednesday to Thursday
HALF_PAST_TWO = Hours(frozenset(range(7)), 2 * 60 + 30, 2 * 60 + 45)


def utc(text: str) -> datetime:
    """A moment in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("hours", "moment", "holds"),
    [
        (WORK, "2030-05-01T05:59:59", False),  # a Wednesday, 07:59:59 in Berlin
        (WORK, "2030-05-01T06:00:00", True),
        (WORK, "2030-05-01T15:59:59", True),
        (WORK, "2030-05-01T16:00:00", False),  # the end is not in it
        (WORK, "2030-05-04T10:00:00", False),  # a Saturday
        (WHOLE_DAY, "2030-05-01T05:59:59", False),  # a Wednesday, before eight in Berlin
        (WHOLE_DAY, "2030-05-01T06:00:00", True),
        (WHOLE_DAY, "2030-05-02T05:59:59", True),
        (WHOLE_DAY, "2030-05-02T06:00:00", False),
        (NIGHT, "2030-05-03T19:59:59", False),
        (NIGHT, "2030-05-03T20:00:00", True),  # Friday, 22:00
        (NIGHT, "2030-05-04T03:59:59", True),  # Saturday, just before 06:00
        (NIGHT, "2030-05-04T04:00:00", False),
        (NIGHT, "2030-05-04T20:00:00", False),  # Saturday evening begins no night
        (Hours(frozenset({6}), 22 * 60, 6 * 60), "2030-05-06T02:00:00", True),  # from Sunday into Monday
        (Hours(frozenset({5, 6})), "2030-05-03T22:00:00", True),  # whole days: Saturday, 00:00
        (Hours(frozenset({5, 6})), "2030-05-05T22:00:00", False),  # Monday, 00:00
    ],
)
def test_hours_hold_by_the_local_clock(hours: Hours, moment: str, holds: object) -> None:
    """From the start until just before the end; over midnight they belong to the day on which they begin."""
    assert Calendar("c", BERLIN, (hours,)).holds(utc(moment)) is holds


def test_an_hour_that_is_passed_twice_counts_both_times() -> None:
    """Clocks go back on 27 October 2030: 02:30 comes at 00:30 and at 01:30 UTC."""
    calendar = Calendar("c", BERLIN, (HALF_PAST_TWO,))
    assert calendar.holds(utc("2030-10-27T00:30:00"))
    assert calendar.holds(utc("2030-10-27T01:30:00"))
    assert not calendar.holds(utc("2030-10-27T02:30:00"))


def test_an_hour_that_is_left_out_never_comes() -> None:
    """Clocks go forward on 31 March 2030: there is no 02:30, and hours that reach beyond it have no hole."""
    moments = [utc("2030-03-31T00:00:00") + timedelta(minutes=minute) for minute in range(24 * 60)]
    assert not any(Calendar("c", BERLIN, (HALF_PAST_TWO,)).holds(moment) for moment in moments)
    wide = Calendar("c", BERLIN, (Hours(frozenset({6}), 60, 4 * 60),))
    held = [moment for moment in moments if wide.holds(moment)]
    assert held == moments[: 2 * 60]  # 01:00 to 04:00 are two hours on that day, without a hole


def test_any_of_several_hours_will_do() -> None:
    """A calendar holds while one of its hours does."""
    both = Calendar("c", timezone.utc, (WORK, NIGHT))
    assert both.holds(utc("2030-05-01T12:00:00"))
    assert both.holds(utc("2030-05-03T23:00:00"))
    assert not both.holds(utc("2030-05-04T12:00:00"))
