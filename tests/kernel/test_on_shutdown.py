"""What a person registers for the end of their kernel."""

from __future__ import annotations

import time

import pytest

import jupyter_gpu_guard
from jupyter_gpu_guard.effects.farewell import say_farewell as in_words
from jupyter_gpu_guard.kernel import farewell


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch):
    """Each test begins with nothing."""
    monkeypatch.setattr(farewell, "_registered", {})


def for_ever():
    """A time that does not come."""
    return float("inf")


def test_it_is_called_in_order_and_what_fails_harms_only_itself():
    """Each one is called once, also after one that failed or wanted to exit."""
    called = []

    def first():
        called.append("first")

    def broken():
        raise OSError("secret")

    def leaves():
        raise SystemExit

    def last():
        called.append("last")

    assert not farewell.is_registered()
    for function in (first, broken, leaves, last):
        assert jupyter_gpu_guard.on_shutdown(function) is function
    assert farewell.is_registered()
    told = farewell.say_farewell(for_ever())
    assert called == ["first", "last"]
    assert told == {
        "done": ["first", "last"],
        "failed": [["broken", "OSError"], ["leaves", "SystemExit"]],
        "left": [],
    }
    assert in_words(told) == (
        "before that, first, last was called; broken, registered for its end, failed (OSError); leaves, registered for "
        "its end, failed (SystemExit)"
    )


def test_a_cell_that_is_run_again_replaces_what_it_registered():
    """A function of a module by the same name is called once; those that are made on the fly are all kept."""
    called = []
    for number in range(2):

        def save(number=number):
            called.append(number)

        save.__qualname__ = "save"
        farewell.on_shutdown(save)
    farewell.on_shutdown(lambda: called.append("a"))
    farewell.on_shutdown(lambda: called.append("b"))
    farewell.say_farewell(for_ever())
    assert called == [1, "a", "b"]


def test_there_is_no_call_after_the_time_is_over():
    """Those for which there was no time are named."""
    called = []

    def save():
        called.append(1)

    farewell.on_shutdown(save)
    told = farewell.say_farewell(time.monotonic() - 1)
    assert (called, told["left"]) == ([], ["save"])
    assert in_words(told) == "there was no time for save"


def test_what_cannot_be_called_is_refused_at_once():
    """The result of a call, and an asynchronous function, are refused with the remedy."""
    with pytest.raises(TypeError, match="without brackets"):
        farewell.on_shutdown(None)

    async def save():
        pass

    with pytest.raises(TypeError, match="asynchronous"):
        farewell.on_shutdown(save)
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = jupyter_gpu_guard.nothing_such
