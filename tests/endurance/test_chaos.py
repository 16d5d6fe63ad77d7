"""Thousands of histories in which everything goes wrong: nobody innocent is hit, nobody surprised, none forgotten.

`CHAOS_HISTORIES` says how many, `CHAOS_SEED` with which one to begin; `make chaos` lives many.
"""

from __future__ import annotations

import os
import signal

import pytest

from jupyter_gpu_guard.effects import shutdown
from jupyter_gpu_guard.effects.signals import Sent
from jupyter_gpu_guard.guard import Guard

from .chaos import live_all
from .watched_server import BrokenPromiseError

HISTORIES = int(os.environ.get("CHAOS_HISTORIES", "1000"))
SEED = int(os.environ.get("CHAOS_SEED", "0"))


@pytest.mark.slow
@pytest.mark.timeout(max(300, HISTORIES))
def test_whatever_goes_wrong_and_when(capsys) -> None:
    """Sources, disks, Jupyter and the server itself fail between any two steps, and pids are somebody else's at once.

    No process but those of an act gets a signal. Nothing is lost by a rule without a warning that named it, about this
    very process, the full notice earlier; nor while somebody keeps it, while a cell runs, or in mode observe. There are
    never two acts on one owner. Once the faults stop, all that holds the GPU without work is gone.
    """
    found = live_all(HISTORIES, SEED)
    with capsys.disabled():
        print(f"\n{HISTORIES} histories from seed {SEED}: {dict(found)}")
    assert min(found[each] for each in ("done", "failed", "already-gone", "withdrawn")) > HISTORIES / 100, found


def _careless(key, signum, identify) -> Sent:
    """Signal whoever has the pid now."""
    try:
        pinned = os.pidfd_open(key.pid)
        signal.pidfd_send_signal(pinned, signum)
        os.close(pinned)
    except OSError:
        return Sent.GONE
    return Sent.SENT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "what", "broken", "says"),
    [
        (shutdown, "send", _careless, "innocent"),
        (Guard, "_is_kept", lambda *_: False, "keeps it"),
        (shutdown, "why_not", lambda *_: None, "is lost|another process"),
    ],
    ids=["pids are not compared", "leases are forgotten", "nobody looks again"],
)
def test_a_guard_that_is_careless_is_found_out(monkeypatch, where, what, broken, says) -> None:
    """Otherwise the histories would show nothing."""
    monkeypatch.setattr(where, what, broken)
    with pytest.raises(BrokenPromiseError, match=says):
        live_all(300)
