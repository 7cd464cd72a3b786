"""A thousand connections, and whoever looks at the daemon or stops it meanwhile."""

from __future__ import annotations

import contextlib
import json
import resource
from collections.abc import Iterator

import pytest

from tests.support.daemon import Box, Peer, RpcError
from tests.support.waiting import wait_until

MOST = 1000
RESERVE = 16


@pytest.fixture
def crowded(box: Box) -> Iterator[list[Peer]]:
    """A daemon whose connections are all taken: a few by sessions, the others by who says nothing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, MOST + 200)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(hard, wanted)))
    peers: list[Peer] = []
    try:
        box.fake().up()
        peers += [box.session() for _ in range(10)]
        peers += [Peer.dial(box.socket) for _ in range(MOST - len(peers))]
        yield peers
    finally:
        for peer in peers:
            peer.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_full_daemon_is_seen_and_stopped(box: Box, crowded: list[Peer]) -> None:
    """
    The last connections are kept for people; whoever wants a session is told that there is none.
    """
    status = json.loads(box.ctl("status", "--json").stdout)
    assert status["daemon"]["sessions"] == 10
    assert box.ctl("call", "fake", "echo", "text=hi").returncode == 0
    for method, params in (("ping", {}), ("mcpd/attach", {"server": "fake"})):
        with box.peer() as late:
            late.request("mcpd/hello")
            with pytest.raises(RpcError) as refused:
                late.request(method, params)
            assert refused.value.kind == "rate_limited"
            assert late.read_line() is None
    assert crowded[0].text("echo", text="still here") == "still here"
    assert box.ctl("stop", "fake").returncode == 0
    assert box.ctl("down").returncode == 0
    assert box.daemon
    assert box.daemon.wait(20) == 0


def test_who_follows_events_gives_its_place_to_who_asks(box: Box, crowded: list[Peer]) -> None:
    """
    Sixteen that stay keep nobody out, and one that leaves makes room for a session.
    """
    with contextlib.ExitStack() as stack:
        followers = [stack.enter_context(box.peer()) for _ in range(RESERVE)]
        for each in followers:
            each.request("mcpd/events")
        assert box.ctl("status").returncode == 0
        assert box.says_hello()
    crowded.pop().close()

    def is_in() -> bool:
        with contextlib.suppress(RpcError, EOFError, OSError), box.peer() as late:
            late.request("mcpd/attach", {"server": "fake"})
            return True
        return False

    wait_until(is_in)
