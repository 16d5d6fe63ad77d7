"""Which messages mean that a cell is running, and which of them are a person's doing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpu_guard.core.model import OwnerState
from jupyter_gpu_guard.sources.executions import REPLIED_FOR, SENT_FOR, Executions

EXECUTING, WAITING, BREAKPOINT = OwnerState.EXECUTING, OwnerState.WAITING, OwnerState.BREAKPOINT


def message(kind, request, *, state=None, parent="execute_request"):
    """A message as a kernel broadcasts it."""
    return {
        "header": {"msg_type": kind},
        "parent_header": {"msg_type": parent, "msg_id": request} if parent else {},
        "content": {"execution_state": state} if state else {},
    }


def begin(heard, request, now=1, *, silent=False, process="p"):
    """What a kernel broadcasts when it begins a cell."""
    heard.hear(message("status", request, state="busy"), process, now)
    if not silent:
        heard.hear(message("execute_input", request), process, now)


def end(heard, request, now=2):
    """What a kernel broadcasts when a cell has ended."""
    heard.hear(message("status", request, state="idle"), "p", now)


def debugger(event, **body):
    """What the debugger tells, whatever request came last."""
    return {
        "header": {"msg_type": "debug_event"},
        "parent_header": {"msg_type": "debug_request", "msg_id": "d"},
        "content": {"type": "event", "event": event, "body": body},
    }


def test_a_cell_runs_from_busy_to_idle_and_its_end_is_use():
    """Use is the end of what a person ran, not its beginning."""
    heard = Executions()
    heard.hear(message("status", "a", state="busy"), "p", 1)
    heard.hear(message("execute_input", "a"), "p", 2)
    assert heard.state is EXECUTING
    assert heard.used_at is None
    heard.hear(message("status", "a", state="idle"), "p", 9)
    assert heard.state is None
    assert heard.used_at == 9


def test_a_silent_snippet_runs_but_is_not_use():
    """Extensions look into kernels with silent requests: they protect while they run and leave no trace."""
    heard = Executions()
    heard.hear(message("status", "a", state="busy"), "p", 1)
    assert heard.state is EXECUTING
    heard.hear(message("status", "a", state="idle"), "p", 2)
    assert heard.state is None
    assert heard.used_at is None


def test_the_end_of_another_request_does_not_end_a_cell():
    """A subshell, a usage request, a comm, a kernel_info: each reports busy and idle while the cell still runs."""
    heard = Executions()
    heard.hear(message("status", "a", state="busy"), "p", 1)
    heard.hear(message("execute_input", "a"), "p", 1)
    for other in ("create_subshell_request", "usage_request", "comm_msg", "kernel_info_request"):
        heard.hear(message("status", "b", state="busy", parent=other), "p", 2)
        heard.hear(message("status", "b", state="idle", parent=other), "p", 3)
    assert heard.state is EXECUTING
    assert heard.used_at is None


def test_other_requests_alone_are_neither_running_nor_use():
    """Looking never counts."""
    heard = Executions()
    for other in ("kernel_info_request", "comm_open", "usage_request", "debug_request", "complete_request"):
        heard.hear(message("status", "b", state="busy", parent=other), "p", 2)
        assert heard.state is None
        heard.hear(message("status", "b", state="idle", parent=other), "p", 3)
    assert heard.used_at is None


def test_what_is_printed_after_a_cell_is_no_use():
    """A thread that goes on to print, show or update: to seem busy is not to be busy."""
    heard = Executions()
    begin(heard, "a", 1)
    end(heard, "a", 2)
    for now, kind in enumerate(("stream", "display_data", "update_display_data", "comm_msg") * 3, start=3):
        heard.hear(message(kind, "a"), "p", now)
    assert heard.state is None
    assert heard.used_at == 2


def test_an_end_without_a_beginning_counts_as_use():
    """Whoever comes late cannot know that it was silent, and errs on the kind side."""
    heard = Executions()
    heard.hear(message("status", "a", state="idle"), "p", 5)
    assert heard.used_at == 5


def test_an_input_without_its_busy_shows_that_a_cell_runs():
    """Whoever comes between the two hears a running cell."""
    heard = Executions()
    heard.hear(message("execute_input", "a"), "p", 5)
    assert heard.state is EXECUTING


def test_nothing_runs_any_more_in_a_kernel_that_starts_anew():
    """A restart ends the cells of the process before; for a person's cell, that moment is its end."""
    heard = Executions()
    heard.hear(message("status", "a", state="busy"), "old", 1)
    heard.hear(message("execute_input", "a"), "old", 1)
    heard.hear(message("status", "-", state="starting", parent=None), "new", 7)
    assert heard.state is None
    assert heard.used_at == 7


def test_only_the_living_process_keeps_its_cells():
    """A restart that is noticed late must not drop what the new process has begun meanwhile."""
    heard = Executions()
    heard.hear(message("status", "a", state="busy"), "old", 1)
    heard.hear(message("status", "b", state="busy"), "new", 2)
    heard.forget(3, besides="new")
    assert heard.state is EXECUTING
    heard.hear(message("status", "b", state="idle"), "new", 4)
    assert heard.state is None


@given(st.permutations(["a", "b", "c"]), st.permutations(["a", "b", "c"]))
def test_cells_may_end_in_any_order(begins, ends):
    """Subshells and concurrent kernels interleave; something runs until the last one has ended."""
    heard = Executions()
    for request in begins:
        heard.hear(message("status", request, state="busy"), "p", 1)
    for request in ends:
        assert heard.state is EXECUTING
        heard.hear(message("status", request, state="idle"), "p", 2)
    assert heard.state is None


def test_a_cell_that_asks_for_input_waits_until_it_is_answered():
    """The answer is a person's doing; the cell goes on."""
    heard = Executions()
    begin(heard, "a")
    heard.asks("a")
    assert heard.state is WAITING
    assert heard.used_at is None
    heard.answered(5)
    assert heard.state is EXECUTING
    assert heard.used_at == 5
    heard.asks("a")
    assert heard.state is WAITING
    end(heard, "a", 9)
    assert heard.state is None


def test_a_question_may_be_heard_before_its_cell():
    """They come over two sockets."""
    heard = Executions()
    heard.asks("a")
    assert heard.state is None
    begin(heard, "a")
    assert heard.state is WAITING


def test_who_asks_in_one_subshell_computes_in_another():
    """WAITING is said only if nothing else runs."""
    heard = Executions()
    begin(heard, "a")
    begin(heard, "b")
    heard.asks("a")
    assert heard.state is EXECUTING
    end(heard, "b")
    assert heard.state is WAITING


def test_a_question_is_over_with_its_process():
    """After a restart nobody waits."""
    heard = Executions()
    begin(heard, "a")
    heard.asks("a")
    heard.forget(5, besides="new")
    assert heard.state is None
    begin(heard, "a", process="new")  # no kernel does that; but nothing must be left of the question
    assert heard.state is EXECUTING


@pytest.mark.parametrize("event", ["continued", "terminated", "exited"])
def test_a_cell_halts_at_a_breakpoint_until_the_debugger_goes_on(event):
    """Or until the debugger ends."""
    heard = Executions()
    begin(heard, "a")
    heard.hear(debugger("stopped", threadId=1, allThreadsStopped=True), "p", 2)
    assert heard.state is BREAKPOINT
    heard.hear(debugger("thread", reason="started"), "p", 3)
    assert heard.state is BREAKPOINT
    heard.hear(debugger(event), "p", 4)
    assert heard.state is EXECUTING


@pytest.mark.parametrize("over", ["end", "restart", "next"])
def test_nothing_halts_where_a_cell_begins_or_ends(over):
    """The word that the debugger has gone on may be lost."""
    heard = Executions()
    if over != "next":
        begin(heard, "a")
    heard.hear(debugger("stopped", threadId=1, allThreadsStopped=True), "p", 2)
    assert heard.state is BREAKPOINT
    if over == "end":
        end(heard, "a")
        assert heard.state is None
    elif over == "restart":
        heard.forget(3, besides="new")
        assert heard.state is None
    else:
        begin(heard, "b")
        assert heard.state is EXECUTING


def test_the_ports_of_the_debugger_are_known_until_the_process_ends():
    """It tells them itself."""
    heard = Executions()
    sockets = [{"host": "127.0.0.1", "port": 4111, "internal": False}, {"host": "127.0.0.1", "port": 4112}]
    heard.hear(debugger("debugpySockets", sockets=sockets), "p", 1)
    assert heard.debugger_ports == {4111, 4112}
    heard.forget(2)
    assert heard.debugger_ports == frozenset()


def test_the_last_cell_failed_until_the_next_one_begins():
    """Only cells that a person sent count."""
    heard = Executions()
    begin(heard, "a")
    heard.hear(message("error", "a"), "p", 2)
    end(heard, "a")
    assert heard.failed
    begin(heard, "b", silent=True)
    end(heard, "b")
    assert heard.failed
    begin(heard, "c")
    assert not heard.failed
    end(heard, "c")
    assert not heard.failed


def test_a_silent_snippet_does_not_fail_for_a_person():
    """An extension's error is not the last cell's."""
    heard = Executions()
    begin(heard, "a", silent=True)
    heard.hear(message("error", "a"), "p", 2)
    assert not heard.failed


def test_a_failure_ends_with_its_process():
    """The frames of its error are gone."""
    heard = Executions()
    begin(heard, "a")
    heard.hear(message("error", "a"), "p", 2)
    end(heard, "a")
    heard.forget(3, besides="new")
    assert not heard.failed


def test_what_was_heard_of_the_living_process_stays():
    """It may be identified only after it was heard."""
    heard = Executions()
    begin(heard, "a")
    heard.hear(message("error", "a"), "p", 2)
    end(heard, "a")
    heard.hear(debugger("debugpySockets", sockets=[{"port": 4111}]), "p", 3)
    heard.hear(debugger("stopped"), "p", 3)
    heard.forget(4, besides="p")
    assert heard.failed
    assert heard.debugger_ports == {4111}
    assert heard.state is BREAKPOINT


def test_a_lost_end_is_made_up_for_by_the_next_cell():
    """What waits for its turn on the main shell of such a kernel began after all before it had ended."""
    heard = Executions(in_turn=True)
    for request in ("a", "b"):
        heard.sent(request, 0.0)
        begin(heard, request)
        assert heard.state is EXECUTING
    end(heard, "b", 8)
    assert heard.state is None
    assert heard.used_at == 8


@pytest.mark.parametrize("case", ["not in turn", "first unknown", "second unknown", "another process"])
def test_an_end_says_nothing_of_what_may_run_beside_it(case):
    """A subshell, a request over the control channel, a kernel that runs several cells at once."""
    heard = Executions(in_turn=case != "not in turn")
    for request, unknown in (("a", "first unknown"), ("b", "second unknown")):
        if case != unknown:
            heard.sent(request, 0.0)
        begin(heard, request, process=request if case == "another process" else "p")
    end(heard, "b")
    assert heard.state is EXECUTING


def test_a_later_cell_is_not_ended_by_an_earlier_one():
    """Only what came before is over."""
    heard = Executions(in_turn=True)
    for request in ("a", "b"):
        heard.sent(request, 0.0)
        begin(heard, request)
    end(heard, "a")
    assert heard.state is EXECUTING


def test_a_reply_makes_up_for_a_lost_end_after_a_while():
    """The reply comes over another channel; the end is that moment."""
    heard = Executions()
    begin(heard, "a")
    heard.settle(1000)
    assert heard.state is EXECUTING
    heard.replied("a", 1000)
    heard.replied("b", 1000)
    heard.settle(1000 + REPLIED_FOR - 1)
    assert heard.state is EXECUTING
    heard.settle(1000 + REPLIED_FOR)
    assert heard.state is None
    assert heard.used_at == 1000


def test_what_is_remembered_of_clients_is_bounded():
    """A page may send what no kernel ever begins."""
    heard = Executions(in_turn=True)
    for number in range(10_000):
        heard.sent(f"s{number}", 0.0)
        heard.asks(f"a{number}")
    assert len(heard._sent) == len(heard._asking) == 4096
    assert "s9999" in heard._sent


def test_what_was_sent_and_has_not_begun_is_awaited():
    """Until it begins; and not for ever, since it may be lost on its way, nor long after its reply."""
    heard = Executions(in_turn=True)
    assert not heard.is_awaited(0)
    for request in ("a", "b", "c"):
        heard.sent(request, 10.0)
    begin(heard, "a")
    end(heard, "a", 11)
    heard.replied("b", 12)
    assert heard.is_awaited(12)
    assert heard.state is None
    assert heard.is_awaited(10 + SENT_FOR - 1)
    assert not heard.is_awaited(10 + SENT_FOR)
    begin(heard, "c")
    end(heard, "c", 13)
    assert heard.is_awaited(12 + REPLIED_FOR - 1)
    assert not heard.is_awaited(12 + REPLIED_FOR)
