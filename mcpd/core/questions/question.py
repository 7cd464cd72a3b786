"""Questions of legacy servers that are open, and how each is answered or dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Raw

from mcpd.core.interface.context import Timer
from mcpd.core.mcp import codes, questions
from mcpd.core.requests.inflight import UpstreamRequest
from mcpd.core.upstream.upstream import Upstream
from mcpd.core.wire.memory import REQUEST_BYTES

CANCELLED: Final = b'{"action":"cancel"}'
"""What we answer for a client that was shown a dialog and says nothing (2025-06-18)."""


class Question:
    """One question of a legacy server's, from when it came until it is answered or withdrawn.

    ``callers`` are the calls that can have caused it, and whose time stands still; it ends with
    them if it ``is_of_call``. ``given_up`` are calls that can have caused it although nobody waits
    for them any more. ``owner`` is the session that was asked, 0 while it is held.
    """

    def __init__(
        self,
        upstream: Upstream,
        ident: bytes,
        method: str,
        params: Raw,
        callers: list[UpstreamRequest],
    ) -> None:
        self.upstream = upstream
        self.ident = ident
        self.method = method
        self.params = params
        self.callers = callers
        self.given_up: list[UpstreamRequest] = []
        self.owner = 0
        self.is_of_call = bool(callers)
        self.is_open = True
        self.timer: Timer | None = None
        self.retract: Callable[[], None] | None = None
        """Withdraws it from the client that was asked."""
        self.settle: Callable[[int], None] | None = None
        """Takes the size of its answer in bytes, once it is closed."""
        self.answer_bytes = 0
        self.when_over: Callable[[str], None] | None = None
        """Called once with how it ended: ``answered``, ``error`` or ``none``."""

    def take_back(self) -> None:
        """Nobody wants to know any more."""
        if self.retract is not None:
            self.retract()


class OpenQuestions:
    """The open questions of every server; the time of the calls that caused one is suspended."""

    def __init__(self) -> None:
        self._open: dict[Upstream, dict[Question, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))

    def add(self, question: Question) -> None:
        """Keep a question, and suspend the time-outs of the calls that can have caused it."""
        self._open.setdefault(question.upstream, {})[question] = None
        question.upstream.share.add(len(question.params) + REQUEST_BYTES)
        for leg in question.callers:
            question.upstream.calls.timeouts.suspend(leg)

    def answer(
        self, question: Question, *, result: Raw | bytes | None, error: Raw | bytes | None
    ) -> None:
        """Give a server its answer; with neither result nor error the client said nothing."""
        if not question.is_open:
            return
        question.answer_bytes = 0 if result is None else len(result)
        how = "answered" if result is not None else "none" if error is None else "error"
        self.close(question, how)
        if result is not None or error is not None:
            question.upstream.answer(question.ident, result=result, error=error)
        elif question.method == questions.ELICITATION:
            question.upstream.answer(question.ident, result=CANCELLED, error=None)
        else:
            why = "the client did not answer"
            refuse(question.upstream, question.ident, codes.INTERNAL_ERROR, why)

    def narrow(self, question: Question, callers: list[UpstreamRequest]) -> None:
        """Attribute a question to fewer calls; the time-outs of the others go on."""
        for leg in question.callers:
            if leg not in callers:
                question.upstream.calls.timeouts.resume(leg)
                question.upstream.calls.gate.unwatch(leg, question)
        question.callers = callers

    def drop(self, question: Question) -> None:
        """Close a question that gets no answer."""
        if question.is_open:
            question.take_back()
            self.close(question)

    def close(self, question: Question, how: str = "none") -> None:
        """Forget a question, and let the time-outs of its calls go on; ``how`` is reported."""
        question.is_open = False
        if question.settle is not None:
            question.settle(question.answer_bytes)
        if question.when_over is not None:
            question.when_over(how)
        own = self._open[question.upstream]
        del own[question]
        if not own:
            del self._open[question.upstream]
        question.upstream.share.add(-len(question.params) - REQUEST_BYTES)
        if question.timer is not None:
            question.timer.cancel()
        for leg in question.callers:
            question.upstream.calls.timeouts.resume(leg)
            question.upstream.calls.gate.unwatch(leg, question)
        # what refers back to it: its parameters are freed now, not by the garbage collector
        question.retract = question.settle = question.when_over = question.timer = None
        if question.owner and question.is_of_call:
            question.upstream.calls.gate.question_closed(question.owner)

    def of(self, upstream: Upstream) -> list[Question]:
        """Return the open questions of a server."""
        return list(self._open.get(upstream, ()))

    def asked_of(self, owner: int) -> list[Question]:
        """Return the open questions that a session is asked."""
        return [q for own in self._open.values() for q in own if q.owner == owner]

    def is_asking(self, upstream: Upstream) -> bool:
        """Tell whether a question of a server is open."""
        return upstream in self._open


def able(causes: list[UpstreamRequest], need: str) -> list[UpstreamRequest]:
    """Return the calls whose client can be asked this."""
    return [
        p
        for p in causes
        if p.is_asking and p.client_info is not None and need in p.client_info.answers
    ]


def refuse(upstream: Upstream, ident: bytes, code: int, why: str) -> None:
    """Answer a question with an error, which says what its server did not know of the client."""
    upstream.answer(ident, result=None, error=codes.plain_error(code, why))


def refuse_undeclared(
    upstream: Upstream, ident: bytes, need: str, causes: list[UpstreamRequest]
) -> None:
    """Answer a question that none of the clients can be asked that can have caused it.

    MCP has -32601 for a capability that was not declared, and -32602 for a kind of it.
    """
    if len(causes) == 1:
        causes[0].lacked = need  # a modern client is told so, if the call fails of it
    base = need.partition(".")[0]
    declared = {a for p in causes if p.client_info is not None for a in p.client_info.answers}
    is_known = any(each.partition(".")[0] == base for each in declared)
    code = codes.INVALID_PARAMS if is_known else codes.METHOD_NOT_FOUND
    kind = " of this kind" if is_known else ""
    refuse(upstream, ident, code, f"the client has not declared {base}{kind}")
