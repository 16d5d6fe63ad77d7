"""Durations, sizes and shares: what is read, what is refused, and with which words."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpu_guard.quantities import (
    QuantityError,
    parse_duration,
    parse_percent,
    parse_size,
    say_duration,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("2h", 7200),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("2 days", 172800),
        ("1w", 604800),
        ("1.5h", 5400),
        (" 20 Sec ", 20),
        ("0", 0),
        ("-1", None),
        ("-5m", -300),
        ("+5m", 300),
    ],
)
def test_durations_are_read_in_the_units_people_use(text: str, seconds: int | None) -> None:
    """A number and a unit, several parts from large to small; only 0 may stand without a unit."""
    if seconds is None:
        with pytest.raises(QuantityError, match="no unit"):
            parse_duration(text)
    else:
        assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30", "'30' has no unit; write for example 30s, 30m or 30h"),
        ("12:30", "time of day"),
        ("5x", "'5x' is not a duration; write for example 90s"),
        ("", "is not a duration"),
        ("+", "is not a duration"),
        ("30m 1h", "is not a duration"),
        ("1h 1h", "is not a duration"),
        ("1,5h", "is not a duration"),
        ("9" * 400 + "d", "more than ten years"),
        ("4000d", "more than ten years"),
    ],
)
def test_a_refused_duration_says_what_would_be_right(text: str, expected: str) -> None:
    """Every refusal carries a remedy."""
    with pytest.raises(QuantityError) as refused:
        parse_duration(text)
    assert expected in str(refused.value)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("512MiB", 512 * 2**20),
        ("5 GB", 5e9),
        ("5GiB", 5 * 2**30),
        ("1.5gib", 1.5 * 2**30),
        ("80 kB", 80_000),
        ("7 b", 7),
        ("0", 0),
        ("-1MiB", -(2**20)),
    ],
)
def test_sizes_are_read_in_decimal_and_binary_units(text: str, amount: float) -> None:
    """GB is 1000 and GiB is 1024 to the third; a space before the unit is fine."""
    assert parse_size(text) == amount


@pytest.mark.parametrize("text", ["5x", "512", "GiB", "", "5 Gi", "1e3MiB", "9" * 400 + "B", "5%"])
def test_other_texts_are_no_sizes(text: str) -> None:
    """No unit, an unknown one, or more than any device has: refused."""
    with pytest.raises(QuantityError):
        parse_size(text)


@pytest.mark.parametrize(("text", "percent"), [("5%", 5), ("0.5 %", 0.5), ("100%", 100), ("-3%", -3)])
def test_percentages_carry_their_sign(text: str, percent: float) -> None:
    """The percent sign is part of the number."""
    assert parse_percent(text) == percent


@pytest.mark.parametrize(
    ("text", "remedy"), [("5", "write 5%"), ("0.05", "write 5%"), ("five", "write for example 5%")]
)
def test_a_bare_share_is_refused(text: str, remedy: str) -> None:
    """Neither 5 nor 0.05 is guessed at."""
    with pytest.raises(QuantityError, match=remedy):
        parse_percent(text)


@given(st.integers(min_value=0, max_value=10 * 86400))
def test_what_is_said_can_be_read_back(seconds: int) -> None:
    """A duration that is shown may be typed again: it is off by at most half of its smaller part."""
    span = timedelta(seconds=seconds)
    error = abs(parse_duration(say_duration(span)) - span)
    assert error <= (
        timedelta(minutes=30) if seconds >= 86400 else timedelta(seconds=30) if seconds >= 3600 else timedelta(0)
    )


def test_durations_are_said_in_two_parts_at_most() -> None:
    """No needless digits, and a sign only in front."""
    spans = [timedelta(seconds=seconds) for seconds in (0, 45, 5400, 7200, 90_000, 3599, -60)]
    assert [say_duration(span) for span in spans] == ["0s", "45s", "1h 30m", "2h", "1d 1h", "59m 59s", "-1m"]
