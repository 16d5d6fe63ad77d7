"""Who would see a warning: pages that listen to the events of a real server, or ask for reports."""

from __future__ import annotations

import asyncio

from fake_clock import FakeClock
from jupyter_events import EventLogger
from server_room import TOKEN, server_room
from tornado.httpclient import AsyncHTTPClient
from tornado.websocket import websocket_connect

from jupyter_gpu_guard.effects.notices import NOTICE, SCHEMAS
from jupyter_gpu_guard.effects.pages import ASKED_WITHIN, Pages


def _empty() -> tuple[Pages, EventLogger, FakeClock]:
    events, clock = EventLogger(), FakeClock()
    events.register_event_schema(SCHEMAS[NOTICE])
    return Pages(events, NOTICE, clock), events, clock


def test_a_server_without_pages_has_none() -> None:
    """An admin's own listener is no page, and neither is an event logger that is not understood."""
    pages, events, _ = _empty()

    async def listen(logger, schema_id, data):
        """Somebody's handler."""

    events.add_listener(schema_id=NOTICE, listener=listen)
    assert not pages.is_open()
    assert not Pages(object(), NOTICE, FakeClock()).is_open()


def test_a_page_that_asks_counts_for_a_while() -> None:
    """Where websockets do not get through, a page is known by its questions."""
    pages, _, clock = _empty()
    pages.asked()
    clock.advance(ASKED_WITHIN)
    assert pages.is_open()
    clock.advance(0.1)
    assert not pages.is_open()


ASKED = [
    ({"Referer": "http://127.0.0.1/lab"}, True),
    ({"Referer": "http://127.0.0.1/lab", "Sec-Fetch-Mode": "cors"}, True),
    ({"Referer": "http://127.0.0.1/tree", "Sec-Fetch-Mode": "navigate"}, False),
    ({}, False),
]


def test_pages_of_a_real_server_count_while_they_are_open(tmp_path) -> None:
    """One that listens, until it is closed; one whose script asks. No client of a kernel alone, no command line."""

    async def scene() -> None:
        async with server_room(tmp_path) as room:
            pages = room.guard.pages
            client = await room.page(await room.notebook("a.ipynb"))
            assert not pages.is_open()
            url = room.url.replace("http", "ws", 1) + f"/api/events/subscribe?token={TOKEN}"
            socket = await websocket_connect(url)
            await _until(pages.is_open)
            socket.close()
            await _until(lambda: not pages.is_open())
            client.close()
            for headers, is_page in ASKED:
                pages._asked_at = None
                address = f"{room.url}/gpu-guard/api/v1/report"
                await AsyncHTTPClient().fetch(address, headers={"Authorization": f"token {TOKEN}", **headers})
                assert pages.is_open() is is_page, headers

    asyncio.run(scene())


async def _until(holds) -> None:
    for _ in range(300):
        if holds():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("waited in vain")
