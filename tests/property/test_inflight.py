"""Ids are never used twice, and queues are fair, whatever comes and goes."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mcpd.core.mcp.methods import CLIENT_REQUESTS
from mcpd.core.requests.inflight import Inflight, Recipient, UpstreamRequest
from mcpd.core.requests.room import FairQueue

CALL = CLIENT_REQUESTS["tools/call"]


def pending(owner: int) -> UpstreamRequest:
    return UpstreamRequest(owner, CALL, None, Recipient())


@given(st.lists(st.none() | st.integers(1, 30), max_size=60))
def test_an_id_means_one_request_for_ever(steps: list[int | None]):
    """
    Requests are made (``None``) and answered (an id, which may be late, doubled or made up).
    """
    table, made = Inflight(), dict[int, UpstreamRequest]()
    live: set[int] = set()
    for step in steps:
        if step is None:
            one = pending(1)
            ident = table.open(one)
            assert ident not in made and ident == one.wire_id
            made[ident] = one
            live.add(ident)
        else:
            found = table.close(step)
            assert found is (made[step] if step in live else None)
            assert table.was_used(step) is (step in made)
            live.discard(step)
        assert len(table) == len(live)
        assert {p.wire_id for p in table.all()} == live


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["push", "pop", "drop"]))))
def test_nobody_waits_for_more_than_one_call_of_each_other(steps: list[tuple[int, str]]):
    """
    B088: between two calls of one session, each other that waits gets at most one through, and
    each session's own stay in order.
    """
    queue = FairQueue()
    lines: dict[int, list[UpstreamRequest]] = {owner: [] for owner in range(1, 5)}
    passed: dict[int, Counter[int]] = {owner: Counter() for owner in lines}  # while owner waited
    for owner, what in steps:
        if what == "push":
            one = pending(owner)
            if not lines[owner]:
                passed[owner].clear()
            lines[owner].append(one)
            queue.push(one)
        elif what == "drop" and lines[owner]:
            assert queue.remove(lines[owner].pop())
        elif what == "pop":
            found = queue.pop()
            if found is None:
                assert not any(lines.values())
                continue
            assert lines[found.owner].pop(0) is found
            passed[found.owner].clear()
            for other, waiting in lines.items():
                if waiting and other != found.owner:
                    passed[other][found.owner] += 1
                    assert passed[other][found.owner] <= 1
        assert queue.length == sum(map(len, lines.values()))
        assert bool(queue.length) == any(lines.values())
