"""Calls that wait for the answer to a question, and questions that nobody has answered.

While a call waits it is in no queue and takes no turn; its server and its session are in use. A
question outlives its call for a while: a yes that comes then lets the same call through when it is
made again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import Raw

from mcpd.core.approvals import refusals
from mcpd.core.approvals.approval_questions import (
    ApprovalQuestion,
    ApprovalQuestions,
    QuestionEnd,
    QuestionKey,
)
from mcpd.core.facts import ApprovalOver
from mcpd.core.requests.inflight import UpstreamRequest
from mcpd.core.state.session import ClientRequest
from mcpd.core.state.state import MuxState
from mcpd.core.upstream.upstream import Upstream
from mcpd.core.wire import envelope
from mcpd.ids import SessionId

PROGRESS_S: Final = 10.0
"""Between two notifications of progress to a client whose call waits."""

DISK_S: Final = 1.0
"""Between two looks whether an answer is on the disk that came in time."""


class WaitingCalls:
    """Which calls wait for which question, until an answer, the end of their time, or of theirs.

    One call waits for its own question; others of the same session and tool wait behind it.
    """

    def __init__(
        self,
        state: MuxState,
        questions: ApprovalQuestions,
        send: Callable[[UpstreamRequest], None],
    ) -> None:
        """``send`` decides about a call again, and sends it on if it may run."""
        self._state = state
        self._ctx = state.ctx
        self._questions = questions
        self._send = send
        self._waiting: dict[QuestionKey, ApprovalQuestion] = {}
        """Questions that a call waits for."""

    def question_of(self, key: QuestionKey) -> ApprovalQuestion | None:
        """Return the question that a call of a session and a tool waits for."""
        return self._waiting.get(key)

    # -- waiting ---------------------------------------------------------------------------------

    def wait(
        self,
        question: ApprovalQuestion,
        leg: UpstreamRequest,
        request: ClientRequest,
        upstream: Upstream,
    ) -> None:
        """Have a call wait for the answer to its question."""
        question.leg, question.upstream = leg, upstream
        self._waiting[question.key] = question
        upstream.calls.hold(leg)
        request.leave = partial(self._left, question, leg)
        question.drop_timers()
        timeout, keep = self._state.policy.approval_timeout, self._state.policy.approval_keep
        question.ends_at = self._ctx.now + timeout + keep if timeout > 0 else math.inf
        if timeout > 0:
            question.timer = self._ctx.after(timeout, partial(self._time_out, question))
        if leg.wants_progress:
            self._tell_progress(question, leg, 1)

    def wait_behind(
        self,
        first: ApprovalQuestion,
        leg: UpstreamRequest,
        request: ClientRequest,
        upstream: Upstream,
    ) -> None:
        """Have a call wait until the question of another one is over."""
        first.behind[leg] = upstream
        upstream.calls.hold(leg)
        request.leave = partial(self._left, first, leg)

    def behind(self, session: SessionId) -> list[bytes]:
        """Return the keys of the requests of a session that wait behind a question of another."""
        return [
            leg.recipient.key
            for question in self._waiting.values()
            if question.asked.session == session
            for leg in question.behind
            if isinstance(leg.recipient, ClientRequest)
        ]

    def _tell_progress(self, question: ApprovalQuestion, leg: UpstreamRequest, count: int) -> None:
        """Keep a client from giving up that restarts its timer when it is told of progress.

        The values are below whatever the server will say.
        """

        def tell() -> None:
            said = f"waiting for approval {question.asked.id}"
            told = b'{"progressToken":0,"progress":%b,"message":%b}' % (
                f"{count / 1_000_000:.6f}".encode(),
                envelope.quote(said),
            )
            leg.recipient.take_progress(leg, Raw(told))
            self._tell_progress(question, leg, count + 1)

        question.progress = self._ctx.after(PROGRESS_S, tell)

    # -- no longer waiting -------------------------------------------------------------------------

    def keep(self, question: ApprovalQuestion) -> None:
        """Keep a question that no call waits for, for a late yes."""
        question.drop_timers()
        keep = self._state.policy.approval_keep
        question.ends_at = self._ctx.now + keep
        question.timer = self._ctx.after(keep, partial(self._expire, question))

    def give_up(self, question: ApprovalQuestion) -> None:
        """Tell a call that nobody has answered; the question stays for a late yes."""
        leg = question.leg
        self._stop_waiting(question)
        if leg is not None and isinstance(leg.recipient, ClientRequest):
            leg.recipient.refuse(refusals.approval_required(question.asked))

    def drain(self) -> None:
        """Have no call wait any more: the daemon is about to end."""
        for question in self._questions:
            if question.leg is not None and question.answer is None:
                behind, question.behind = question.behind, {}
                for leg, upstream in behind.items():
                    upstream.calls.let_go(leg)
                    if isinstance(leg.recipient, ClientRequest):
                        leg.recipient.leave = None
                        leg.recipient.refuse(refusals.approval_required(question.asked))
                self.give_up(question)

    def _left(self, question: ApprovalQuestion, leg: UpstreamRequest) -> None:
        """A call does not wait any more: its client gave it up, or it has been answered."""
        upstream = question.behind.pop(leg, None)
        if upstream is not None:
            upstream.calls.let_go(leg)
        elif question.leg is leg:
            self._stop_waiting(question)

    def _stop_waiting(self, question: ApprovalQuestion) -> None:
        """Keep a question whose call does not wait any more."""
        behind = self._release(question)
        self.keep(question)
        self.go_on(behind)

    def _time_out(self, question: ApprovalQuestion) -> None:
        if question.answer is None:
            self.give_up(question)
        else:  # the disk may refuse it
            question.timer = self._ctx.after(DISK_S, partial(self._time_out, question))

    def _expire(self, question: ApprovalQuestion) -> None:
        if question.answer is None:
            self.end(question, "nobody answered in time")
        else:  # the disk may refuse it
            question.timer = self._ctx.after(DISK_S, partial(self._expire, question))

    # -- the end of a question ---------------------------------------------------------------------

    def end(self, question: ApprovalQuestion, how: str) -> None:
        """End a question that was not answered; its calls are decided about again."""
        told = question.seen_at(self._ctx.now)
        leg = question.leg
        behind = self.close(question, QuestionEnd(how))
        self._ctx.tell(ApprovalOver(told, how))
        if leg is not None:
            self._send(leg)
        self.go_on(behind)

    def close(
        self, question: ApprovalQuestion, end: QuestionEnd
    ) -> dict[UpstreamRequest, Upstream]:
        """Forget a question; return the calls behind it, which are for the caller to ``go_on``."""
        self._questions.remove(question, end)
        return self._release(question)

    def _release(self, question: ApprovalQuestion) -> dict[UpstreamRequest, Upstream]:
        """Take the calls of a question out, and take back what its client is asked."""
        leg, upstream = question.leg, question.upstream
        behind, question.behind = question.behind, {}
        if self._waiting.get(question.key) is question:
            del self._waiting[question.key]
        question.leg = question.upstream = None
        for each, its in (*behind.items(), *([(leg, upstream)] if leg and upstream else [])):
            if isinstance(each.recipient, ClientRequest):
                each.recipient.leave = None
            its.calls.let_go(each)
        question.take_form_back()
        return behind

    def go_on(self, behind: dict[UpstreamRequest, Upstream]) -> None:
        """Have the calls behind a question decided about; the first that is asked holds the rest.

        Those that an answer lets through, or refuses, are over with that.
        """
        left = dict(behind)
        while left:
            leg = next(iter(left))
            del left[leg]
            request = leg.recipient
            if leg.is_over or not isinstance(request, ClientRequest) or request.is_over:
                continue
            self._send(leg)
            entry = leg.entry
            key = request.session.id, "" if entry is None else entry.name, leg.tool or ""
            first = self._waiting.get(key)
            if first is None:
                continue
            for other, upstream in left.items():
                recipient = other.recipient
                if isinstance(recipient, ClientRequest) and not recipient.is_over:
                    self.wait_behind(first, other, recipient, upstream)
            return
