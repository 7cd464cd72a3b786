"""Networks that forget, names that do not resolve, and a machine that sleeps."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator

import aiohttp.connector
import pytest

from tests.support.far import Client
from tests.support.nat import Nat
from tests.support.waiting import wait_until_async

HOUR_S = 3600.0


@pytest.fixture
async def nat(server) -> AsyncIterator[Nat]:
    made = await Nat(server).start()
    yield made
    await made.stop()


async def reached(far, state):
    """Return the status of the server, once it is in this state."""
    async with asyncio.timeout(10):
        while (found := await far.status())["state"] != state:
            await asyncio.sleep(0)
    return found


async def test_what_was_quiet_for_a_minute_is_not_used_again(make, nat, server, monkeypatch):
    """
    A NAT forgets connections after a minute, some sooner than others, and tells nobody.
    """
    client = await make(url=nat.url).client()
    assert await client.text("count") == "1"
    nat.forget()
    monkeypatch.setattr(aiohttp.connector, "monotonic", lambda: time.monotonic() + 60)
    assert await client.text("count") == "2"
    assert server.made == 1


@pytest.mark.parametrize("is_counted", [True, False], ids=["counted", "not counted"])
async def test_a_sleep_of_an_hour(make, nat, server, monkeypatch, is_counted):
    """
    The network has forgotten all connections. The monotonic clock of some systems counts the time
    of a sleep, and that of Linux does not; no call times out by it.
    """
    client = await make(url=nat.url, call_timeout=60).client()
    assert await client.text("echo", text="x") == "x"
    nat.forget()
    if is_counted:
        loop = asyncio.get_running_loop()
        before = loop.time
        monkeypatch.setattr(loop, "time", lambda: before() + HOUR_S)
        await asyncio.sleep(0.001)
    else:
        read = time.clock_gettime
        shift = {time.CLOCK_BOOTTIME: HOUR_S}
        monkeypatch.setattr(time, "clock_gettime", lambda each: read(each) + shift.get(each, 0))
    calls = [client.call("count") for _ in range(5)]
    assert all(["result" in await client.finish(each) for each in calls])
    assert server.count == 5 and server.made == 1


async def test_a_call_that_is_served_during_a_sleep_is_not_timed_out(make, server, monkeypatch):
    far = make(call_timeout=60)
    client = await far.client()
    await client.text("echo", text="x")
    asked: list = []
    server.on["tools/call:count"] = asked.append
    ident = client.call("count")
    await wait_until_async(lambda: asked)
    loop = asyncio.get_running_loop()
    before = loop.time
    monkeypatch.setattr(loop, "time", lambda: before() + HOUR_S)
    for _ in range(10):
        await asyncio.sleep(0.005)  # for whatever is due
        assert await client.text("echo", text="y") == "y"
    asked[0].text("late")
    answer = await client.finish(ident)
    assert answer["result"]["content"][0]["text"] == "late"


async def test_a_name_that_does_not_resolve_for_a_while(make, server, monkeypatch):
    """
    Nobody has to do anything when it does again, and nothing spins meanwhile.
    """
    resolve, names = socket.getaddrinfo, {"far.test": "127.0.0.1"}
    asked: list[float] = []
    is_gone = True

    def look_up(host, *args, **kwargs):
        if host in names:
            asked.append(time.monotonic())
            if is_gone:
                raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return resolve(names.get(host, host), *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    far = make(
        url=f"http://far.test:{server.port}/mcp",
        allow_insecure=True,
        restart={"backoff": 0.05, "backoff_max": 0.1, "max_failures": 0},
    )
    client = Client(far)
    await client.request("mcpd/attach", server="far")
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
    error = (await client.request("initialize", **hello))["error"]["data"]
    assert (error["kind"], error["reason"], error["retryable"]) == ("connect_failed", "dns", True)
    await wait_until_async(lambda: len(asked) >= 4)
    assert "far.test does not resolve" in (await reached(far, "backoff"))["last_error"]
    is_gone = False
    await reached(far, "ready")
    assert await (await far.client()).text("count") == "1"
    after = len(asked)

    is_gone = True
    await server.stop()
    monkeypatch.setattr(aiohttp.connector, "monotonic", lambda: time.monotonic() + 60)
    again = await far.client()
    assert (await again.error("count"))["reason"] == "dns"
    is_gone = False
    await server.start()
    await wait_until_async(lambda: server.made == 2)
    assert await again.text("count") == "2" and len(asked) > after
