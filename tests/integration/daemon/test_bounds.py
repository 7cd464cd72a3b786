"""What one client or server can make the daemon keep, with real processes: it has a bound."""

from __future__ import annotations

import json
from typing import Any

from mcpd.core.mcp import modern_meta
from mcpd.core.mcp.versions import NEWEST_MODERN
from tests.faults.ground import memory_kib
from tests.support.daemon import Box, Peer

MIB = 1 << 20
KEPT = 32 * MIB
BIG = "x" * MIB
ROOM_KIB = 96 * 1024
"""What the daemon may grow by: twice what is kept, for the copies, and some for the allocator."""


def answers(peer: Peer, count: int) -> list[Any]:
    """Take the answers to some requests, whatever else comes."""
    return [peer.take(lambda m: "id" in m and "method" not in m, 60) for _ in range(count)]


def memory(box: Box) -> int:
    """Return the resident memory of the daemon, in KiB."""
    assert box.daemon is not None
    return memory_kib(box.daemon.pid)


def kinds(found: list[Any]) -> list[str]:
    return [m["error"]["data"]["kind"] for m in found if "error" in m]


def test_calls_that_wait_for_a_place_are_bounded_in_bytes(box: Box) -> None:
    """
    119 calls of 9 MB behind ``max_concurrency = 1`` took 1 GB.
    """
    box.settings["max_buffered_bytes"] = KEPT
    box.fake("narrow", max_concurrency=1, queue_timeout=0).fake("calm").up()
    client, calm = box.session("narrow"), box.session("calm")
    calm.text("echo", text="x")
    client.start("tools/call", {"name": "hang"})
    before = memory(box)
    for _ in range(119):
        client.start("tools/call", {"name": "echo", "arguments": {"text": BIG}})
    refused = answers(client, 119 - KEPT // MIB // 2)
    assert set(kinds(refused)) == {"server_busy"}
    assert memory(box) - before < ROOM_KIB
    assert calm.text("echo", text="x" * 1000) == "x" * 1000
    client.close()
    again = box.session("narrow")
    for _ in range(KEPT // MIB // 2):  # there is as much room as before
        again.start("tools/call", {"name": "echo", "arguments": {"text": BIG}})
    assert not kinds(answers(again, KEPT // MIB // 2))


def test_parked_calls_are_bounded_in_bytes(box: Box) -> None:
    """
    1,777 were parked by one client, 400 MiB for ten minutes.
    """
    box.settings["max_buffered_bytes"] = KEPT
    box.fake().up()
    client = box.peer()
    client.request("mcpd/attach", {"server": "fake"})
    about = {
        modern_meta.VERSION_KEY: NEWEST_MODERN,
        modern_meta.CAPABILITIES_KEY: {"elicitation": {}},
    }
    client.request("tools/list", {"_meta": about})
    before = memory(box)
    found = []
    for _ in range(40):
        asks = {"question": "why?", "x": BIG}
        client.start("tools/call", {"name": "ask", "arguments": asks, "_meta": about})
        found += answers(client, 1)
    parked = [m for m in found if m.get("result", {}).get("resultType") == "input_required"]
    assert len(parked) == KEPT // MIB // 2 and set(kinds(found)) == {"server_busy"}
    assert memory(box) - before < ROOM_KIB


def test_a_flood_of_questions_reaches_its_client_thirty_two_times(box: Box) -> None:
    """
    One call opened 200,000 elicitations at its client, 505 MiB.
    """
    box.fake().fake("calm").up()
    client, calm = box.session(capabilities={"elicitation": {}}), box.session("calm")
    calm.text("echo", text="x")
    ask = '{"jsonrpc":"2.0","id":"q%d","method":"elicitation/create","params":{"message":"?"}}'
    flood = "\n".join(ask % number for number in range(20_000))
    before = memory(box)
    call = client.start("tools/call", {"name": "hang"})
    client.request("tools/call", {"name": "raw_line", "arguments": {"line": flood}}, 60)
    asked = [client.take(lambda m: m.get("method") == "elicitation/create") for _ in range(32)]
    assert len(asked) == 32
    assert calm.text("echo", text="x") == "x"
    assert memory(box) - before < ROOM_KIB
    client.notify("notifications/cancelled", {"requestId": call})


def test_a_session_has_a_thousand_subscriptions(box: Box) -> None:
    box.fake().up()
    client = box.session()
    for number in range(1001):
        client.start("resources/subscribe", {"uri": f"fake://{number}"})
        if number % 100 == 99:
            assert not kinds(answers(client, 100))
    (refused,) = answers(client, 1)
    data = refused["error"]["data"]
    assert (data["kind"], data["limit"]) == ("rate_limited", "subscriptions"), json.dumps(data)
