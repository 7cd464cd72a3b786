"""A server that stops reading its stdin for a while, and what waits for it."""

from __future__ import annotations

import os
import signal

from tests.support.daemon import Box
from tests.support.waiting import wait_until


def test_a_cancellation_overtakes_the_calls_that_wait_for_a_server_to_read(box: Box) -> None:
    """
    A call that is still unsent is withdrawn; the server reads neither it nor its cancellation.
    """
    box.fake().up()
    session = box.session()
    pid = int(session.text("pid"))
    slow = session.start("tools/call", {"name": "sleep", "arguments": {"ms": 60_000}})
    wait_until(lambda: len(box.messages(method="tools/call")) == 2)
    os.kill(pid, signal.SIGSTOP)
    try:
        echoes = [
            session.start("tools/call", {"name": "echo", "arguments": {"text": f"{n}" * 100_000}})
            for n in range(8)
        ]
        session.notify("notifications/cancelled", {"requestId": slow})
        session.notify("notifications/cancelled", {"requestId": echoes[-2]})
        session.request("ping")  # so the daemon has read all of it
    finally:
        os.kill(pid, signal.SIGCONT)
    assert session.finish(echoes[-1])["content"][0]["text"] == "7" * 100_000
    read = [
        message["params"]["arguments"]["text"][0]
        if message.get("method") == "tools/call"
        else "cancelled"
        for message in box.messages()
        if message.get("method") == "notifications/cancelled"
        or message.get("params", {}).get("name") == "echo"
    ]
    assert [each for each in read if each != "cancelled"] == list("0123457")
    assert read.count("cancelled") == 1
    assert read.index("cancelled") < read.index("5")
