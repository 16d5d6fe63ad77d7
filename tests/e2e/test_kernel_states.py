"""What a kernel is doing decides what may happen to it: on one real server, each state beside the others."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import websocket

from tests.driver import StandIn

from .lab import GPU, QUICK_POLICY, TOKEN, Kernel, Lab, start_ticks, until

GIB = 2**30

# Kernels in limited/ have a limit of their own for each state; all others live by the defaults.
POLICY = (
    QUICK_POLICY
    + """\
rules:
  - {name: long-cells, match: {notebook: "limited/**", state: executing}, idle: {for: 10s}}
  - {name: loops, match: {notebook: "limited/**", state: input-bound}, idle: {for: 10s}}
  - {name: questions, match: {notebook: "limited/**", state: waiting-for-input}, idle: {for: 10s}}
  - {name: breakpoints, match: {notebook: "limited/**", state: at-breakpoint}, idle: {for: 10s}}
"""
)


@pytest.fixture
def lab(tmp_path: Path, driver: StandIn) -> Iterator[Lab]:
    """A server whose administrator has set limits for kernels that are not idle, in one folder."""
    with Lab(tmp_path / "lab", driver=driver, policy=POLICY) as running:
        yield running


def _attach(lab: Lab, kernel: Kernel) -> websocket.WebSocket:
    """Connect to the kernel as a page does, and stay."""
    address = f"{lab.url.replace('http', 'ws')}api/kernels/{kernel.id}/channels?token={TOKEN}"
    return websocket.create_connection(address, timeout=20)


def _state(lab: Lab, kernel: Kernel) -> str | None:
    holder = lab.holder(kernel.id)
    return None if holder is None else str(holder["state"])


def _ask(channel: websocket.WebSocket, code: str) -> None:
    """Execute `code` over the page's connection, as one that can answer questions."""
    header = {"msg_id": "ask-1", "msg_type": "execute_request", "username": "", "session": "s", "version": "5.3"}
    content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": True}
    message = {"channel": "shell", "header": header, "parent_header": {}, "metadata": {}, "content": content}
    channel.send(json.dumps({**message, "buffers": []}))


def test_a_cell_that_runs_is_ended_only_by_a_limit_of_its_own(lab: Lab) -> None:
    """Silent or looping, with and without somebody connected: told at most, unless the administrator has said more."""
    loop = "while True: pass"
    silent, looping, long, endless = (
        lab.start_kernel(name) for name in ("silent.ipynb", "loop.ipynb", "limited/long.ipynb", "limited/loop.ipynb")
    )
    pages = [_attach(lab, kernel) for kernel in (looping, endless)]
    for kernel in (silent, looping, long, endless):
        kernel.run(GPU + "gpu.hold('4 GiB')")
    for kernel in (silent, long):
        kernel.begin("import time; time.sleep(600)")
    for kernel in (looping, endless):
        kernel.begin(loop)
    until(lambda: _state(lab, silent) == "executing", "the silent cell to be seen")
    until(lambda: _state(lab, looping) == "input-bound", "the loop to be seen as work on the CPU")

    notices = {kernel.id: until(lambda k=kernel: lab.notice(k.id), "a notice") for kernel in (long, endless)}
    assert notices[endless.id]["next_action"] == "shutdown"
    ended = {kernel.id: until(lambda k=kernel: lab.outcome(k.id), "the limit to bite") for kernel in (long, endless)}
    assert (ended[long.id]["rule"], ended[long.id]["result"]) == ("long-cells", "done")
    assert (ended[endless.id]["rule"], ended[endless.id]["result"]) == ("loops", "done")
    assert all(ended[key]["at"] >= notices[key]["given_at"] for key in ended)

    for kernel, state in ((silent, "executing"), (looping, "input-bound")):
        assert lab.outcome(kernel.id) is None
        assert start_ticks(kernel.pid) is not None
        hint = until(lambda k=kernel: lab.notice(k.id), "the hint")
        assert (hint["next_action"], hint["deadline"]) == (None, None)
        assert _state(lab, kernel) == state
    assert "busy" in lab.holder(looping.id)["protections"]
    for page in pages:
        page.close()


def test_a_question_and_a_breakpoint_are_no_idleness(lab: Lab) -> None:
    """Told at most; an answer is a use; a breakpoint with somebody there is spared even by a rule that names it."""
    asking, halted, left = (lab.start_kernel(f"{name}.ipynb") for name in ("asking", "limited/halted", "limited/left"))
    for kernel in (asking, halted, left):
        kernel.run(GPU + "gpu.hold('2 GiB')")
    page = _attach(lab, asking)
    _ask(page, "answer = input('go on? ')")
    until(lambda: _state(lab, asking) == "waiting-for-input", "the question to be seen")

    attached = _attach(lab, halted)
    for kernel in (halted, left):
        _halt(kernel)
    until(lambda: _state(lab, halted) == "at-breakpoint", "the breakpoint to be seen")
    until(lambda: _state(lab, left) == "executing", "the breakpoint that nobody is at to count as a stuck cell")

    # The guard needs no answer of such a kernel.
    assert lab.get(f"gpu-guard/api/v1/explain/kernel%3A{halted.id}")["holder"]["state"] == "at-breakpoint"

    outcome = until(lambda: lab.outcome(left.id), "the stuck cell to be ended by its rule")
    assert (outcome["rule"], outcome["result"]) == ("long-cells", "done")
    holder = lab.holder(halted.id)
    assert [reason["code"] for reason in holder["verdict"]["reasons"]][:1] == ["attended"]
    assert lab.outcome(halted.id) is None
    assert lab.notice(halted.id) is None
    hint = until(lambda: lab.notice(asking.id), "the word about the question")
    assert hint["deadline"] is None
    assert lab.outcome(asking.id) is None

    asking.client.input("yes")
    page.close()
    attached.close()


def _halt(kernel: Kernel) -> None:
    """Run into a breakpoint, over the control channel, as the debugger of a page does."""
    code = "for n in range(3):\n    x = n\n    y = x\n"

    def debug(command: str, arguments: dict[str, Any], seq: int) -> Any:
        content = {"type": "request", "seq": seq, "command": command, "arguments": arguments}
        client = kernel.client
        message = client.session.msg("debug_request", content)
        client.control_channel.send(message)
        while True:
            reply = client.get_control_msg(timeout=60)
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                return reply["content"]

    debug("initialize", {"clientID": "t", "adapterID": "", "pathFormat": "path", "linesStartAt1": True}, 1)
    debug("attach", {}, 2)
    dumped = debug("dumpCell", {"code": code}, 3)["body"]["sourcePath"]
    debug("setBreakpoints", {"source": {"path": dumped}, "breakpoints": [{"line": 2}], "sourceModified": False}, 4)
    debug("configurationDone", {}, 5)
    kernel.begin(code)


def test_nothing_runs_for_ever_after_an_interrupt_or_a_death(lab: Lab) -> None:
    """Both end what ran; a kernel that died and was started again holds nothing and runs nothing."""
    kernel = lab.start_kernel("restless.ipynb")
    kernel.run(GPU + "gpu.hold('2 GiB')")
    kernel.begin("import time; time.sleep(600)")
    until(lambda: _state(lab, kernel) == "executing", "the cell to be seen")
    assert lab.request("POST", f"api/kernels/{kernel.id}/interrupt")[0] == 204
    until(lambda: _state(lab, kernel) == "idle", "the interrupted cell to be over")
    kernel.begin("time.sleep(600)")
    until(lambda: _state(lab, kernel) == "executing", "the second cell to be seen")
    os.kill(kernel.pid, signal.SIGKILL)

    def came_back() -> Any:
        # Without a client Jupyter never learns that it is ready.
        holder = lab.holder(kernel.id)
        return holder and holder["died"] and holder["state"] in {"idle", "starting"} and holder

    assert until(came_back, "the new process")["memory_bytes"] == 0
