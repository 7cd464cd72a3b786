"""What is kept in memory, counted from scratch: the mux must have counted the same."""

from __future__ import annotations

from mcpd.core.mux.mux import Mux
from mcpd.core.wire.memory import REQUEST_BYTES


def check(mux: Mux) -> None:
    """Hold what the mux has counted against the requests and questions that there are."""
    tables = mux._state
    checks = [(request.session, request) for request, *_ in mux._admission._checks.values()]
    followed = [f for u in tables.all_upstreams() for f in u.subscriptions._followed.values()]
    is_settled = not any(each.waiters for each in followed)
    total = 0
    for session in tables.sessions.values():
        kept = {*session.requests.values(), *(each.kept for each in session.listens.values())}
        kept |= {c.kept for c in mux._parked_calls._calls.get(session.id, {}).values() if c.kept}
        kept |= {request for owner, request in checks if owner is session}
        batches = {session.batch, *(r.batch for r in session.requests.values())}
        size = sum(each.kept_bytes for each in kept)
        size += sum(batch._kept_bytes for batch in batches if batch is not None)
        size += sum(uri.__sizeof__() for uri in session.subscribed)
        share = session.share
        if is_settled:  # else a subscription may be on its way whose request was given up
            assert (share.kept_bytes, share.count) == (size, len(kept)), "counted wrongly"
        assert share.kept_bytes >= size and share.count >= len(kept), "not counted"
        total += share.kept_bytes
    total += sum(o.kept_bytes for s, o in checks if s.id not in tables.sessions)
    for upstream, questions in mux._open_questions._open.items():
        size = sum(len(each.params) + REQUEST_BYTES for each in questions)
        assert upstream.share.kept_bytes == size, "a question is counted wrongly"
        total += size
    asked = sum(each.size for each in mux.approvals.questions)
    assert mux.approvals.questions.kept_bytes == asked, "a question of ours is counted wrongly"
    total += asked
    assert mux.memory.kept_bytes == total, "what is kept is counted wrongly"
