"""The queue of requests that wait for room at a server."""

from __future__ import annotations

from mcpd.core.mcp.methods import CLIENT_REQUESTS
from mcpd.core.requests.inflight import Recipient, UpstreamRequest
from mcpd.core.requests.room import FairQueue

CALL = CLIENT_REQUESTS["tools/call"]


def pending(owner: int = 1) -> UpstreamRequest:
    return UpstreamRequest(owner, CALL, None, Recipient())


def test_owners_take_turns():
    """
    B088: one that queues many does not hold back another.
    """
    queue = FairQueue()
    a, b, c, d = pending(1), pending(1), pending(1), pending(2)
    for one in (a, b, c, d):
        queue.push(one)
    assert [queue.pop() for _ in range(4)] == [a, d, b, c]
    assert queue.pop() is None and not queue.length


def test_who_comes_back_waits_behind_the_others():
    queue = FairQueue()
    a, b, c = pending(1), pending(2), pending(1)
    queue.push(a)
    queue.push(b)
    assert queue.pop() is a
    queue.push(c)
    assert [queue.pop(), queue.pop()] == [b, c]


def test_what_is_given_up_leaves_the_queue():
    queue = FairQueue()
    a, b = pending(1), pending(1)
    queue.push(a)
    assert queue.remove(a)
    assert not queue.remove(a) and not queue.remove(b)
    assert queue.length == 0 and not queue.length
    queue.push(b)
    assert queue.pop() is b


def test_all_that_waits_can_be_taken_out():
    queue = FairQueue()
    waiting = [pending(1), pending(2), pending(1)]
    for one in waiting:
        queue.push(one)
    assert sorted(map(id, queue.drain())) == sorted(map(id, waiting))
    assert not queue.length
