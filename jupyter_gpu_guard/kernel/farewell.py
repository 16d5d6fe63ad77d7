"""What a person wants to be done in their kernel before the guard shuts it down."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[[], Any])

_registered: dict[object, Callable[[], Any]] = {}


def on_shutdown(function: F) -> F:
    """Have `function` called, without arguments, before the guard shuts this kernel down while it is idle.

    May be used as a decorator. A function of the same name from the same module takes the place of the earlier one, so
    that a cell may be run again. It should end within a minute, and must not ask for input. Raises TypeError.
    """
    if not callable(function):
        raise TypeError(
            f"{function!r} cannot be called; write for example on_shutdown(save), without brackets after it"
        )
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"{_name(function)} is asynchronous; register an ordinary function")
    name = getattr(function, "__qualname__", "<lambda>")
    is_named = "<" not in name and getattr(function, "__self__", None) is None
    _registered[(function.__module__, name) if is_named else id(function)] = function
    return function


def is_registered() -> bool:
    """Whether there is anything to be done."""
    return bool(_registered)


def say_farewell(until: float) -> dict[str, Any]:
    """Call all that was registered, in this order, while `time.monotonic` says that it is not `until`.

    `done`: the names of those that came to their end; `failed`: the others, each with the kind of its error; `left`:
    those for which there was no time.
    """
    told: dict[str, Any] = {"done": [], "failed": [], "left": []}
    for function in list(_registered.values()):
        name = _name(function)
        if time.monotonic() > until:
            told["left"].append(name)
            continue
        try:
            function()
        except BaseException as fault:  # noqa: BLE001 - even an exit is no reason not to call the next one
            told["failed"].append([name, type(fault).__name__])
        else:
            told["done"].append(name)
    return told


def _name(function: Callable[[], Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
