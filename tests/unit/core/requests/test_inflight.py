"""The table of requests in flight."""

from __future__ import annotations

from mcpd.core.mcp.methods import CLIENT_REQUESTS
from mcpd.core.requests.inflight import Inflight, Recipient, UpstreamRequest

CALL = CLIENT_REQUESTS["tools/call"]


def pending(owner: int = 1) -> UpstreamRequest:
    return UpstreamRequest(owner, CALL, None, Recipient())


def test_ids_count_from_one_and_are_never_used_twice():
    table = Inflight()
    ids = [table.open(pending()) for _ in range(3)]
    table.close(2)
    ids.append(table.open(pending()))
    assert ids == [1, 2, 3, 4]


def test_what_was_answered_leaves_a_tombstone():
    """
    B074: a late answer is told from one to what was never asked.
    """
    table = Inflight()
    one = pending()
    table.open(one)
    assert table.close(1) is one
    assert table.close(1) is None and table.get(1) is None
    assert table.was_used(1)
    assert not any(map(table.was_used, (0, 2, -1)))


def test_the_table_knows_whose_requests_it_holds():
    table = Inflight()
    for owner in (7, 0, 8, 7):
        table.open(pending(owner))
    assert table.owners() == {7, 8}
    assert [p.owner for p in table.all()] == [7, 0, 8, 7]
    assert len(table) == 4
