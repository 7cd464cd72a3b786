"""Comments on quiet streams."""

from __future__ import annotations

import asyncio

from mcpd.core.wire.memory import Memory, Share
from mcpd.listeners.http.keepalive import Keepalive
from mcpd.listeners.http.streams import KEEPALIVE, Outbox
from tests.support.virtualtime import settle, virtual


def outbox() -> Outbox:
    return Outbox(10**6, Share(Memory(10**9)))


async def taken(box: Outbox) -> list:
    """Return what is queued."""
    found = []
    while not box.is_closed:
        try:
            async with asyncio.timeout(0):
                found.append(await box.get())
        except TimeoutError:
            break
    return found


@virtual
async def test_a_quiet_stream_gets_a_comment_at_least_every_interval():
    keepalive, box = Keepalive(10), outbox()
    with keepalive.watching(box):
        for _ in range(5):
            await asyncio.sleep(15)
            assert KEEPALIVE in await taken(box)
    keepalive.close()


@virtual
async def test_a_stream_that_was_written_to_gets_none():
    keepalive, box = Keepalive(10), outbox()
    with keepalive.watching(box):
        for _ in range(50):
            await asyncio.sleep(1)
            keepalive.written(box)
        assert not await taken(box)


@virtual
async def test_nothing_runs_while_no_stream_is_open():
    keepalive = Keepalive(10)
    with keepalive.watching(outbox()):
        pass
    await asyncio.sleep(20)
    box = outbox()
    with keepalive.watching(box):
        await asyncio.sleep(20)
        assert await taken(box)


@virtual
async def test_none_are_sent_where_none_are_wanted():
    keepalive, box = Keepalive(0), outbox()
    with keepalive.watching(box):
        await asyncio.sleep(1000)
    assert not await taken(box)


@virtual
async def test_another_interval_counts_on_streams_that_are_open():
    """
    A reload that turns them on must not wait for another stream.
    """
    keepalive, box = Keepalive(0), outbox()
    with keepalive.watching(box):
        keepalive.change(10)
        await asyncio.sleep(20)
        assert KEEPALIVE in await taken(box)
        keepalive.change(0)
        await asyncio.sleep(1000)
        assert not await taken(box)
    keepalive.change(10)
    await settle()


@virtual
async def test_a_client_that_does_not_read_is_given_up():
    keepalive, box = Keepalive(10), Outbox(len(KEEPALIVE) * 3, Share(Memory(10**9)))
    with keepalive.watching(box):
        await asyncio.sleep(100)
    assert box.is_closed
    assert await box.get() is None
