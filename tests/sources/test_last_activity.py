"""When the server's last activity of a kernel cannot be true."""

from __future__ import annotations

from jupyter_gpu_guard.sources.last_activity import LastActivity


def test_a_time_that_stands_still_while_cells_run_is_a_contradiction():
    """For longer than two looks; then until it moves."""
    check = LastActivity()
    check.begun("noon")
    check.ended()
    assert [check.stands_still("noon") for _ in range(4)] == [False, False, True, True]
    check.begun("noon")
    check.ended()
    assert check.stands_still("noon")
    assert not check.stands_still("later")
    assert not check.stands_still("later")


def test_a_time_that_moves_with_each_cell_is_none():
    """However many cells and looks there are between."""
    check = LastActivity()
    for minute in range(5):
        check.begun(f"begin {minute}")
        check.ended()
        assert not any(check.stands_still(f"end {minute}") for _ in range(5))


def test_a_time_that_stands_still_while_nothing_ran_is_none():
    """An idle kernel, and one whose first cell still runs."""
    check = LastActivity()
    assert not any(check.stands_still("noon") for _ in range(5))
    check.begun("noon")
    assert not any(check.stands_still("noon") for _ in range(5))


def test_a_server_that_tells_no_time_does_not_contradict():
    """Behind a gateway there is none."""
    check = LastActivity()
    check.begun(None)
    check.ended()
    assert not any(check.stands_still(None) for _ in range(5))
