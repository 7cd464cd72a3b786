"""Streams of control requests are requests in flight: their ids are taken, their number bounded."""

from __future__ import annotations

import pytest

from mcpd.listeners.control import MOST_STREAMS
from tests.support.daemon import Box, RpcError


def test_the_id_of_a_stream_is_in_use(box: Box) -> None:
    """A second one of that id would have made the first one endless."""
    box.up()
    peer = box.peer()
    peer.finish(peer.start("mcpd/events", ident="e"))
    for method in ("mcpd/events", "mcpd/hello", "ping"):
        with pytest.raises(RpcError) as refused:
            peer.finish(peer.start(method, ident="e"))
        assert refused.value.code == -32600
    peer.notify("notifications/cancelled", {"requestId": "e"})
    assert peer.finish(peer.start("mcpd/hello", ident="e"))["api"] == 1


def test_the_number_of_streams_is_bounded_until_one_ends(box: Box) -> None:
    box.up()
    peer = box.peer()
    idents = [peer.start("mcpd/events") for _ in range(MOST_STREAMS + 1)]
    for ident in idents[:-1]:
        peer.finish(ident)
    with pytest.raises(RpcError) as refused:
        peer.finish(idents[-1])
    assert refused.value.kind == "rate_limited"
    peer.notify("notifications/cancelled", {"requestId": idents[0]})
    peer.finish(peer.start("mcpd/events"))
