"""Seeming busy is not being busy: what is printed or saved again and again keeps no GPU."""

from __future__ import annotations

from tests.driver import StandIn

from .lab import GPU, Lab, start_ticks, until

PRINTS = """
import threading, time
def chatter():
    while True:
        print("still here", flush=True)
        time.sleep(0.5)
threading.Thread(target=chatter, daemon=True).start()
"""


def test_a_thread_that_prints_keeps_nothing(lab: Lab, driver: StandIn) -> None:
    """The kernel is warned and ended like any other, while its notebook is saved over and over."""
    kernel = lab.start_kernel("chatter.ipynb")
    kernel.run(GPU + "gpu.hold('4 GiB')" + PRINTS)
    content = {"type": "notebook", "format": "json", "content": {"cells": [], "metadata": {}, "nbformat": 4}}
    content["content"]["nbformat_minor"] = 5

    def saved_and(found):
        assert lab.request("PUT", "api/contents/chatter.ipynb", content)[0] in {200, 201}
        return found

    until(lambda: saved_and(lab.notice(kernel.id)), "the warning")
    outcome = until(lambda: saved_and(lab.outcome(kernel.id)), "the shutdown")
    assert outcome["result"] == "done"
    assert start_ticks(kernel.pid) is None
