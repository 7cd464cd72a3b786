"""Forms in which the person at the calling client is asked, and what clients send back."""

from __future__ import annotations

from functools import partial
from typing import Final

from msgspec import Raw

from mcpd.core.approvals import approval_form
from mcpd.core.approvals.answers import Answers
from mcpd.core.approvals.approval_form import Refusal
from mcpd.core.approvals.approval_questions import ApprovalQuestion
from mcpd.core.approvals.waiting_calls import WaitingCalls
from mcpd.core.facts import ClientDeclines
from mcpd.core.interface.context import Context
from mcpd.core.interface.events import Answerer
from mcpd.core.mcp import questions
from mcpd.core.questions.parked_call import OwnQuestion
from mcpd.core.questions.parked_calls import ParkedCalls
from mcpd.core.questions.requests_to_clients import RequestsToClients
from mcpd.core.requests.inflight import UpstreamRequest
from mcpd.core.state.session import ClientRequest, Session
from mcpd.core.upstream.upstream import Upstream
from mcpd.ids import SessionId

BY_ITSELF_S: Final = 0.3
"""A client that refuses sooner than this does so by itself."""


class ClientForms:
    """Sends forms to clients and reads the answers; knows which clients refuse by themselves."""

    def __init__(
        self,
        ctx: Context,
        to_clients: RequestsToClients,
        parked: ParkedCalls,
        waiting: WaitingCalls,
        answers: Answers,
    ) -> None:
        self._ctx = ctx
        self._to_clients = to_clients
        self._parked_calls = parked
        self._waiting = waiting
        self._answers = answers
        self._declining: set[SessionId] = set()
        """Sessions whose clients refuse by themselves."""

    def can_ask(self, question: ApprovalQuestion, request: ClientRequest, session: Session) -> bool:
        """Tell whether a person may be looking at the client of a call."""
        client = request.client_info or session.client_info
        return (
            not request.is_control
            and questions.needed_capability(questions.ELICITATION, b"{}") in client.answers
            and not question.is_form_refused
            and session.id not in self._declining
            and not session.has_ended
        )

    def ask_legacy(
        self, question: ApprovalQuestion, leg: UpstreamRequest, session: Session, said: str
    ) -> None:
        """Send a legacy client the form, on the stream of its call."""
        question.form_sent_at = self._ctx.now
        form = self._to_clients.ask(
            session,
            questions.ELICITATION,
            approval_form.params(said, has_always=question.has_always),
            partial(self._heard, question),
            timeout=0,
            request=leg.key,
        )
        question.withdraw_form = partial(self._to_clients.withdraw, form)

    def ask_modern(
        self,
        question: ApprovalQuestion,
        leg: UpstreamRequest,
        request: ClientRequest,
        upstream: Upstream,
        said: str,
    ) -> None:
        """Answer a modern client's call with the question; it calls again with the answer."""
        question.form_sent_at = self._ctx.now
        form = approval_form.params(said, has_always=question.has_always)
        ask = OwnQuestion(questions.ELICITATION, form, partial(self._heard, question))
        leg.is_over = True  # the call that is reported is the one that brings the answer
        result = self._parked_calls.restart(upstream, leg, {"approval": ask})
        question.withdraw_form = partial(self._parked_calls.forget, leg, "approval")
        request.reply(result)

    def _heard(
        self, question: ApprovalQuestion, result: Raw | None, error: Raw | None = None
    ) -> None:
        """Take what a client's form brings; the first answer counts."""
        question.withdraw_form = None
        if question.is_over or question.answer is not None:
            return
        choice = approval_form.read(result, has_always=question.has_always)
        asked, session = question.asked, question.asked.session
        if isinstance(choice, str):
            self._answers.give(question, choice, Answerer("client", None, asked.client))
            return
        is_soon = self._ctx.now - question.form_sent_at < BY_ITSELF_S
        if choice is Refusal.DECLINED and not is_soon:
            self._answers.give(question, "no", Answerer("client", None, asked.client))
            return
        question.is_form_refused = True
        is_refusal = result is None or choice is not Refusal.NO_CHOICE
        if is_refusal and (is_soon or result is None):
            self._declining.add(session)
            if result is not None:
                who = asked.client or "a client without a name"
                self._ctx.tell(ClientDeclines(session, who))
        is_asked_elsewhere = any(surface != "client" for surface in asked.asked_in)
        if is_refusal and not is_asked_elsewhere and question.leg is not None:
            self._waiting.give_up(question)

    def session_gone(self, session: SessionId) -> None:
        """Forget a session that has ended."""
        self._declining.discard(session)
