"""Whose turn it is with a server that asks, as ``mcpctl status`` tells it."""

from __future__ import annotations

from tests.support.daemon import Box
from tests.support.waiting import wait_until

ASKABLE = {"elicitation": {}}


def test_status_says_who_has_the_turn_and_who_waits(box: Box) -> None:
    box.fake(interactive="exclusive").up()
    sessions = [box.session(capabilities=ASKABLE) for _ in range(3)]
    calls = [sessions[0].start("tools/call", {"name": "hang", "arguments": {}})]
    wait_until(lambda: box.status()["interactive"]["turn"], 10, what="a turn")
    for session in sessions[1:]:
        calls.append(session.start("tools/call", {"name": "echo", "arguments": {"text": "x"}}))
    wait_until(lambda: len(box.status()["interactive"]["waiting"]) == 2, 10, what="two who wait")
    told = box.ctl("status", "fake").stdout.splitlines()
    assert "fake: questions exclusive: it has not asked any yet" in told
    queue = next(line for line in told if " sessions wait for " in line)
    assert queue.startswith("fake: 2 sessions wait for tests 1 (session ")
    assert ", which has had the turn for " in queue
    sessions[0].notify("notifications/cancelled", {"requestId": calls[0]})
    for session, call in zip(sessions[1:], calls[1:], strict=True):
        assert session.finish(call)["content"][0]["text"] == "x"
    assert "wait" not in box.ctl("status").stdout
