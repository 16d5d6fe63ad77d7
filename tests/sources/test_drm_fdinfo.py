"""The text of the graphics drivers: memory with its units, engines, and what is worked within an interval."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gpu_guard.core.model import Reading, Unknown, Why, is_known
from jupyter_gpu_guard.sources.drm_fdinfo import Engine, busiest, parse_fdinfo, worked

MIB = 2**20


def usage(*lines: str):
    """The parsed text with these lines after those that each has."""
    parsed = parse_fdinfo("\n".join(["pos:\t0", "drm-driver:\tamdgpu", "drm-client-id:\t7", *lines]))
    assert parsed is not None
    return parsed


@pytest.mark.parametrize(
    ("lines", "memory"),
    [
        (["drm-memory-vram:\t2048 KiB"], 2 * MIB),
        (["drm-memory-vram:\t3 MiB", "drm-memory-gtt: \t900 MiB"], 3 * MIB),
        (["drm-memory-vram:\t4096"], 4096),
        (["drm-total-vram:\t9 MiB", "drm-resident-vram:\t5 MiB", "drm-memory-vram:\t6 MiB"], 5 * MIB),
        (["drm-total-local0:\t9 MiB", "drm-resident-stolen-local0:\t1 MiB"], 9 * MIB),
        (["drm-resident-vram0:\t1 MiB", "drm-resident-vram1:\t2 MiB", "drm-shared-vram0:\t7 MiB"], 3 * MIB),
        (["drm-resident-system0:\t5 MiB", "drm-resident-stolen-system0:\t1048576"], 5 * MIB),
        (["drm-resident-vram0:\t0", "drm-resident-system:\t5 MiB"], 0),
    ],
)
def test_memory_is_what_is_resident_on_the_device_in_bytes(lines: list[str], memory: float) -> None:
    """Resident before all that was asked for; the machine's memory only where the device has none of its own."""
    assert usage(*lines).memory == memory


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([], Why.NOT_SUPPORTED),
        (["drm-memory-vram:\tmuch"], Why.IMPLAUSIBLE),
        (["drm-memory-vram:\t1 parsec"], Why.IMPLAUSIBLE),
        (["drm-memory-vram:\t18446744073709551615 KiB"], Why.IMPLAUSIBLE),
        (["drm-memory-vram:\t-1 KiB"], Why.IMPLAUSIBLE),
    ],
)
def test_memory_that_is_not_told_is_unknown(lines: list[str], why: Why) -> None:
    """Nothing, or nothing that can be read, is never 0."""
    memory = usage(*lines).memory
    assert isinstance(memory, Unknown)
    assert memory.why is why


def test_other_files_are_not_about_graphics() -> None:
    """A plain file, and an empty text."""
    assert parse_fdinfo("pos:\t0\nflags:\t02\n") is None
    assert parse_fdinfo("") is None


def test_engines_have_their_capacity_and_their_clock() -> None:
    """Nanoseconds count by the wall; cycles count by the engine's own clock."""
    told = usage(
        "drm-engine-gfx:\t1000 ns",
        "drm-engine-capacity-gfx:\t2",
        "drm-cycles-ccs:\t5",
        "drm-total-cycles-ccs:\t100",
        "drm-engine-capacity-ccs:\t4",
        "drm-cycles-lonely:\t5",
    )
    assert told.engines == {"gfx": Engine(1000, None, 2), "ccs": Engine(5, 100, 4)}


def test_time_counts_before_cycles() -> None:
    """A driver that tells both is read by its nanoseconds."""
    lines = ["drm-cycles-gfx:\t5", "drm-total-cycles-gfx:\t9", "drm-engine-gfx:\t1000 ns"]
    for order in (lines, lines[::-1]):
        assert usage(*order).engines == {"gfx": Engine(1000)}


@pytest.mark.parametrize(
    ("before", "after", "percent"),
    [
        (Engine(0), Engine(5_000_000_000), 50),
        (Engine(0, None, 2), Engine(5_000_000_000, None, 2), 25),
        (None, Engine(1_000_000_000), 10),
        (Engine(7), Engine(7), 0),
        (Engine(0), Engine(90_000_000_000), 100),
        (Engine(0, 1000), Engine(30, 1100), 30),
        (Engine(0, 1000, 2), Engine(30, 1100, 2), 15),
    ],
)
def test_compute_is_what_was_worked_within_ten_seconds(before: Engine | None, after: Engine, percent: float) -> None:
    """Exact, shared out over equal engines, and never more than the whole."""
    assert busiest([worked({"x": before} if before else {}, {"x": after}, 10)]) == pytest.approx(percent)


@pytest.mark.parametrize(
    ("before", "after", "seconds", "why"),
    [
        (Engine(5), Engine(4), 10, Why.IMPLAUSIBLE),
        (Engine(5), None, 10, Why.IMPLAUSIBLE),
        (None, Engine(5, 100), 10, Why.FIRST_READING),
        (Engine(5, 100), Engine(6, 100), 10, Why.NOT_AVAILABLE),
        (Engine(5), Engine(6), 0, Why.NOT_AVAILABLE),
    ],
)
def test_compute_that_cannot_be_told_is_unknown(
    before: Engine | None, after: Engine | None, seconds: float, why: Why
) -> None:
    """A counter that runs backwards, a clock that stands still or has no beginning."""
    share = worked({"x": before} if before else {}, {"x": after} if after else {}, seconds)
    compute = busiest([{"y": 0.1}, share])
    assert isinstance(compute, Unknown)
    assert compute.why is why


def test_the_busiest_engine_counts_all_clients_together() -> None:
    """Two clients of one process on one engine add up; two engines do not."""
    assert busiest([{"gfx": 0.2, "dec": 0.4}, {"gfx": 0.3}]) == pytest.approx(50)
    assert busiest([]) == 0


@settings(derandomize=True, deadline=None, database=None)
@given(st.lists(st.tuples(st.sampled_from(["drm-driver", "drm-memory-vram", "drm-engine-gfx", "x"]), st.text())))
def test_no_text_raises_and_none_becomes_a_number(lines: list[tuple[str, str]]) -> None:
    """Whatever a driver writes: nothing, an Unknown, or a number that stands there."""
    parsed = parse_fdinfo("\n".join(f"{key}:{value}" for key, value in lines))
    if parsed is not None:
        memory: Reading = parsed.memory
        digits = any(any(letter.isdigit() for letter in value) for _, value in lines)
        assert not is_known(memory) or digits
