"""A peer that floods the daemon takes its turn like everybody else."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest

from tests.support.daemon import Box, Peer
from tests.support.waiting import scaled

LINES = 100_000


def slowest_call(session: Peer, count: int = 20) -> float:
    """Return the seconds that the slowest of some calls took."""
    slowest = 0.0
    for _ in range(count):
        begun = time.monotonic()
        session.text("echo", 30, text="x")
        slowest = max(slowest, time.monotonic() - begun)
    return slowest


@pytest.mark.parametrize(
    "line", ["1", '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}']
)
def test_a_server_that_floods_its_stdout_slows_nobody_else_down(box: Box, line: str) -> None:
    """It was read to the end before anybody else had a turn: seconds."""
    box.fake("loud").fake("calm").up()
    loud, calm = box.session("loud"), box.session("calm")
    slowest_call(calm)
    flood = "\n".join([line] * LINES)
    loud.start("tools/call", {"name": "raw_line", "arguments": {"line": flood}})
    assert slowest_call(calm) < scaled(0.5)


def test_a_client_that_floods_the_socket_slows_nobody_else_down(box: Box) -> None:
    box.fake("calm").up()
    rude, calm = box.session(None), box.session("calm")
    slowest_call(calm)

    def flood() -> None:
        with contextlib.suppress(OSError):  # the test closes the connection before all is sent
            rude.send_raw(b"[]\n" * LINES)

    threading.Thread(target=flood, daemon=True).start()
    assert slowest_call(calm) < scaled(0.5)
    rude.take(lambda message: "error" in message)
    rude.close()
