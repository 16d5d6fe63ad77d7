"""Which messages mean that a cell is running, and which of them are a person's doing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpu_guard.sources.executions import Executions


def message(kind, request, *, state=None, parent="execute_request"):
    """A message as a kernel broadcasts it."""
    return {
        "header": {"msg_type": kind},
        "parent_header": {"msg_type": parent, "msg_id": request} if parent else {},
        "content": {"execution_state": state} if state else {},
    }


def test_a_cell_runs_from_busy_to_idle_and_its_end_is_use():
    """Use is the end of what a person ran, not its beginning."""
    heard = Executions()
    heard.hear(message("status", "a", state="busy"), "p", 1)
    heard.hear(message("execute_input", "a"), "p", 2)
    assert heard
    assert heard.used_at is None
    heard.hear(message("status", "a", state="idle"), "p", 9)
    assert not heard
    assert heard.used_at == 9


def test_a_silent_snippet_runs_but_is_not_use():
    """Extensions look into kernels with silent requests: they protect while they run and leave no trace."""
    heard = Executions()
    heard.hear(message("status", "a", state="busy"), "p", 1)
    assert heard
    heard.hear(message("status", "a", state="idle"), "p", 2)
    assert not heard
    assert heard.used_at is None


def test_the_end_of_another_request_does_not_end_a_cell():
    """A subshell, a usage request, a comm, a kernel_info: each reports busy and idle while the cell still runs."""
    heard = Executions()
    heard.hear(message("status", "a", state="busy"), "p", 1)
    heard.hear(message("execute_input", "a"), "p", 1)
    for other in ("create_subshell_request", "usage_request", "comm_msg", "kernel_info_request"):
        heard.hear(message("status", "b", state="busy", parent=other), "p", 2)
        heard.hear(message("status", "b", state="idle", parent=other), "p", 3)
    assert heard
    assert heard.used_at is None


def test_other_requests_alone_are_neither_running_nor_use():
    """Looking never counts."""
    heard = Executions()
    for other in ("kernel_info_request", "comm_open", "usage_request", "debug_request", "complete_request"):
        heard.hear(message("status", "b", state="busy", parent=other), "p", 2)
        assert not heard
        heard.hear(message("status", "b", state="idle", parent=other), "p", 3)
    assert heard.used_at is None


def test_an_end_without_a_beginning_counts_as_use():
    """Whoever comes late cannot know that it was silent, and errs on the kind side."""
    heard = Executions()
    heard.hear(message("status", "a", state="idle"), "p", 5)
    assert heard.used_at == 5


def test_an_input_without_its_busy_shows_that_a_cell_runs():
    """Whoever comes between the two hears a running cell."""
    heard = Executions()
    heard.hear(message("execute_input", "a"), "p", 5)
    assert heard


def test_nothing_runs_any_more_in_a_kernel_that_starts_anew():
    """A restart ends the cells of the process before; for a person's cell, that moment is its end."""
    heard = Executions()
    heard.hear(message("status", "a", state="busy"), "old", 1)
    heard.hear(message("execute_input", "a"), "old", 1)
    heard.hear(message("status", "-", state="starting", parent=None), "new", 7)
    assert not heard
    assert heard.used_at == 7


def test_only_the_living_process_keeps_its_cells():
    """A restart that is noticed late must not drop what the new process has begun meanwhile."""
    heard = Executions()
    heard.hear(message("status", "a", state="busy"), "old", 1)
    heard.hear(message("status", "b", state="busy"), "new", 2)
    heard.forget(3, besides="new")
    assert heard
    heard.hear(message("status", "b", state="idle"), "new", 4)
    assert not heard


@given(st.permutations(["a", "b", "c"]), st.permutations(["a", "b", "c"]))
def test_cells_may_end_in_any_order(begins, ends):
    """Subshells and concurrent kernels interleave; something runs until the last one has ended."""
    heard = Executions()
    for request in begins:
        heard.hear(message("status", request, state="busy"), "p", 1)
    for request in ends:
        assert heard
        heard.hear(message("status", request, state="idle"), "p", 2)
    assert not heard
