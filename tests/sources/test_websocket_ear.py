"""What passes between a page and a kernel: heard at a real server, over real websockets, and left as it is."""

from __future__ import annotations

import asyncio
import logging

import pytest
from kernel_room import isolate, until
from server_room import V1, server_room

from jupyter_gpu_guard.core.model import OwnerKey, OwnerKind, OwnerState
from jupyter_gpu_guard.sources.websocket_ear import Passing, listening


@pytest.fixture
def root(monkeypatch, tmp_path):
    """The folder with the notebooks."""
    isolate(monkeypatch, tmp_path / "home")
    folder = tmp_path / "notebooks"
    folder.mkdir()
    return folder


def look(room, kernel_id):
    """The kernel at this moment."""
    return room.owners.look_again(OwnerKey(OwnerKind.KERNEL, kernel_id))


async def becomes(room, kernel_id, state):
    """Wait until the kernel is in `state`."""
    await until(lambda: look(room, kernel_id).state is state, state.value)


@pytest.mark.parametrize("protocol", [V1, None])
def test_a_cell_that_asks_for_input_waits_until_the_person_answers(root, protocol):
    """With both protocols that pages speak; the line reaches the cell, and giving it is use."""

    async def scene():
        async with server_room(root) as room:
            kernel_id = await room.notebook("ask.ipynb")
            page = await room.page(kernel_id, protocol)
            request = page.run("word = input('? ')\nimport time\nwhile word: time.sleep(0.05)")
            assert (await page.receive("input_request"))["prompt"] == "? "
            await becomes(room, kernel_id, OwnerState.WAITING)
            assert look(room, kernel_id).used_at is None
            page.send("stdin", "input_reply", {"value": "go", "status": "ok"})
            await becomes(room, kernel_id, OwnerState.EXECUTING)
            assert look(room, kernel_id).used_at is not None
            await room.ask("POST", f"api/kernels/{kernel_id}/interrupt")
            await page.end_of(request)
            await becomes(room, kernel_id, OwnerState.IDLE)

    asyncio.run(scene())


@pytest.mark.parametrize("how", ["interrupt", "restart"])
def test_a_question_ends_with_its_cell(root, how):
    """Whether it is interrupted or its kernel restarted."""

    async def scene():
        async with server_room(root) as room:
            kernel_id = await room.notebook("ask.ipynb")
            page = await room.page(kernel_id)
            page.run("input('? ')")
            await page.receive("input_request")
            await becomes(room, kernel_id, OwnerState.WAITING)
            await room.ask("POST", f"api/kernels/{kernel_id}/{how}")
            await becomes(room, kernel_id, OwnerState.IDLE)
            assert look(room, kernel_id).failed is (how == "interrupt")

    asyncio.run(scene())


def test_a_question_that_nobody_is_there_to_hear_is_heard_by_the_guard(root):
    """The page has left when the cell asks; the next one answers."""

    async def scene():
        async with server_room(root) as room:
            kernel_id = await room.notebook("left.ipynb")
            page = await room.page(kernel_id)
            page.run("import os, time\nwhile not os.path.exists('go'): time.sleep(0.05)\ninput('? ')")
            await becomes(room, kernel_id, OwnerState.EXECUTING)
            page.close()
            await until(lambda: look(room, kernel_id).clients == 0, "gone")
            (root / "go").touch()

            async def waits():
                await room.owners.read()
                return look(room, kernel_id).state is OwnerState.WAITING

            deadline = asyncio.get_running_loop().time() + 60
            while not await waits():
                assert asyncio.get_running_loop().time() < deadline
                await asyncio.sleep(0.05)
            page = await room.page(kernel_id, ready=False)
            assert (await page.receive("input_request"))["prompt"] == "? "
            assert await waits()
            page.send("stdin", "input_reply", {"value": "line", "status": "ok"})
            await becomes(room, kernel_id, OwnerState.IDLE)

    asyncio.run(scene())


def test_pages_that_come_and_go_are_no_use(root):
    """Reconnects, reloads, completions, looks at the history and at the debugger: nobody has run anything."""

    async def scene():
        async with server_room(root) as room:
            kernel_id = await room.notebook("lid.ipynb")
            for visit in range(3):
                page = await room.page(kernel_id, session=f"visit-{visit}")
                for kind, content in (
                    ("comm_info_request", {}),
                    ("history_request", {"hist_access_type": "tail", "n": 1, "output": False, "raw": True}),
                    ("complete_request", {"code": "pri", "cursor_pos": 3}),
                    ("inspect_request", {"code": "print", "cursor_pos": 5, "detail_level": 0}),
                ):
                    await page.receive(kind.replace("request", "reply"), page.send("shell", kind, content))
                for kind, content in (
                    ("usage_request", {}),
                    ("debug_request", {"type": "request", "seq": 1, "command": "debugInfo", "arguments": {}}),
                ):
                    await page.receive(kind.replace("request", "reply"), page.send("control", kind, content))
                page.close()
                await room.owners.read()
            await becomes(room, kernel_id, OwnerState.IDLE)
            assert look(room, kernel_id).used_at is None

    asyncio.run(scene())


def test_a_lost_end_is_made_up_for_by_what_passes_to_pages(root):
    """The guard's own ear misses the end of a cell; the page that runs the next one has the server tell."""

    async def scene():
        async with server_room(root) as room:
            kernel_id = await room.notebook("lost.ipynb")
            page = await room.page(kernel_id)
            await page.end_of(page.run("1 + 1"))
            await becomes(room, kernel_id, OwnerState.IDLE)
            request = page.run("import time; time.sleep(0.5)")
            await becomes(room, kernel_id, OwnerState.EXECUTING)
            room.owners._watches[kernel_id]._ear.close()  # from here on nothing is heard
            await page.end_of(request)
            assert look(room, kernel_id).state is OwnerState.EXECUTING
            room.owners._watches[kernel_id]._ear = None  # heard again
            look(room, kernel_id)
            await asyncio.sleep(0.5)  # until the new subscription has reached the kernel
            await page.end_of(page.run("2 + 2"))
            await becomes(room, kernel_id, OwnerState.IDLE)

    asyncio.run(scene())


class FakeConnection:
    """A connection class of somebody else, that keeps what it is given."""

    subprotocol = None
    kernel_id = "k"

    def __init__(self):
        self.passed = []

    def handle_incoming_message(self, message):
        """Pass it on."""
        self.passed.append(message)
        return "in"

    def handle_outgoing_message(self, stream, parts):
        """Pass it on."""
        self.passed.append(parts)
        return "out"


def failing(passing):
    """A listener with a fault."""
    raise RuntimeError(str(passing))


@pytest.mark.parametrize(
    "message", ["input_reply no JSON", '{"header": "input_reply"}', b"\x00input_reply", "", b"", None]
)
@pytest.mark.parametrize("subprotocol", [None, V1])
def test_whatever_cannot_be_read_passes_unharmed(message, subprotocol):
    """The connection does its work first, and a fault in listening is not its fault."""
    heard = []
    connection = listening(FakeConnection, heard.append, logging.getLogger(__name__))()
    connection.subprotocol = subprotocol
    assert connection.handle_incoming_message(message) == "in"
    assert connection.handle_outgoing_message("stdin", message) == "out"
    assert connection.passed == [message, message]
    assert heard == []


def test_a_listener_with_a_fault_harms_nobody():
    """What it raises goes to the log."""
    message = '{"channel": "stdin", "header": {"msg_type": "input_reply", "msg_id": "m"}}'
    heard = []
    connection = listening(FakeConnection, heard.append, logging.getLogger(__name__))()
    connection.handle_incoming_message(message)
    assert heard == [Passing("k", "input_reply")]
    connection = listening(FakeConnection, failing, logging.getLogger(__name__))()
    assert connection.handle_incoming_message(message) == "in"


def test_a_fault_of_the_connection_stays_its_own():
    """It is raised as before, and what did not pass was not heard."""

    class FakeBroken(FakeConnection):
        def handle_incoming_message(self, message):
            raise OSError("closed")

    heard = []
    connection = listening(FakeBroken, heard.append, logging.getLogger(__name__))()
    with pytest.raises(OSError, match="closed"):
        connection.handle_incoming_message('{"channel": "stdin", "header": {"msg_type": "input_reply"}}')
    assert heard == []


def test_the_extended_class_is_configured_like_the_one_it_extends():
    """An administrator's settings for the server's own class go on to hold."""
    from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection
    from traitlets.config import Config

    extended = listening(ZMQChannelsWebsocketConnection, failing, logging.getLogger(__name__))
    made = extended(config=Config({"ZMQChannelsWebsocketConnection": {"limit_rate": False}}))
    assert made.limit_rate is False
