"""Asks about a call: opens its question, and asks everywhere at once."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import structs

from mcpd.core.approvals import approval_form, refusals
from mcpd.core.approvals.approval_questions import (
    MOST,
    MOST_OF_SESSION,
    ApprovalQuestion,
    ApprovalQuestions,
)
from mcpd.core.approvals.call_identity import Call
from mcpd.core.approvals.client_forms import ClientForms
from mcpd.core.approvals.waiting_calls import WaitingCalls
from mcpd.core.facts import ApprovalAsked, AskedCall
from mcpd.core.interface.events import CallTool
from mcpd.core.requests.inflight import UpstreamRequest
from mcpd.core.state.session import ClientRequest, Session
from mcpd.core.state.state import MuxState
from mcpd.core.upstream.upstream import Upstream


class CallToAsk(NamedTuple):
    """A call that waits for approval, the session that makes it, and its server's process."""

    leg: UpstreamRequest
    request: ClientRequest
    session: Session
    upstream: Upstream
    arguments: Any
    """As ``core.wire.arguments`` reads them."""


class Asking:
    """Opens questions, finds those that are open already, and chooses who is asked."""

    def __init__(
        self,
        state: MuxState,
        questions: ApprovalQuestions,
        waiting: WaitingCalls,
        forms: ClientForms,
    ) -> None:
        self._state = state
        self._ctx = state.ctx
        self._questions = questions
        self._waiting = waiting
        self._forms = forms

    def ask(self, asked: AskedCall, call: Call, held: CallToAsk) -> None:
        """Ask about a call, which waits then, or is refused where nobody can be asked.

        Where another call of its session and tool is asked about, it waits behind that one.
        """
        leg, request, session, upstream, _ = held
        first = self._waiting.question_of((session.id, asked.server, asked.tool))
        if first is not None:
            self._waiting.wait_behind(first, leg, request, upstream)
            return
        question = self._questions.idle_about(call)
        is_new = question is None
        is_of_session = question is not None and question.asked.session == session.id
        if not is_of_session and self._questions.is_full_of(session.id):
            request.refuse(refusals.too_many_questions(asked.server, MOST_OF_SESSION))
            return
        if question is None:
            question = self._open(asked, call, request)
        if question is not None:
            self._put(question, held, is_new=is_new)

    def _open(
        self, asked: AskedCall, call: Call, request: ClientRequest
    ) -> ApprovalQuestion | None:
        """Open a question, or refuse the call that there is no room for."""
        left = [each for each in self._questions if self._is_left(each, call)]
        if len(left) >= MOST_OF_SESSION:
            self._waiting.end(left[0], "others took its place")
        if (full := self._questions.take_room(asked)) is not None:
            request.refuse(full)
            return None
        if len(self._questions) >= MOST:
            idle = self._questions.oldest_idle()
            if idle is not None:
                self._waiting.end(idle, "others took its place")
        return self._questions.add(asked, call)

    def _is_left(self, question: ApprovalQuestion, call: Call) -> bool:
        """Tell whether a question is of an earlier session of a call's client.

        A request without a session has one of its own, and a client can come again and again.
        """
        if question.leg is not None or question.answer is not None:
            return False
        session = self._state.sessions.get(question.asked.session)
        is_over = session is None or session.is_brief
        return is_over and question.call[:2] == call[:2]

    def _put(self, question: ApprovalQuestion, held: CallToAsk, *, is_new: bool) -> None:
        """Ask everywhere at once; the call waits if somebody may be looking."""
        leg, request, session, upstream, values = held
        can_ask = self._forms.can_ask(question, request, session)
        who = session.client or question.asked.client
        title = approval_form.title(who, question.asked.server, question.asked.tool)
        said, is_whole = approval_form.message(
            question.asked.id, title, question.asked.reason, values
        )
        of_call = isinstance(request.event, CallTool) and request.event.approvals
        surfaces = {
            "client": can_ask,
            "listener": self._ctx.approval_listeners > 0,
            "call": of_call,
        }
        question.has_always = is_whole
        is_told = is_new or any(surfaces.values()) or question.asked.session != session.id
        question.asked = structs.replace(
            question.asked,
            session=session.id,
            attached=session.attached,
            client_pid=session.client_pid,
            shown_all=is_whole,
            asked_in=tuple(name for name, is_asked in surfaces.items() if is_asked),
            of_call=of_call,
        )
        if question.answer is None and not any(surfaces.values()):
            self._waiting.keep(question)
            if is_told:
                self._tell_asked(question)
            request.refuse(refusals.approval_required(question.asked))
            return
        if can_ask and question.answer is None and leg.is_modern:
            self._waiting.keep(question)
            self._tell_asked(question)
            self._forms.ask_modern(question, leg, request, upstream, said)
            return
        self._waiting.wait(question, leg, request, upstream)
        if question.answer is not None:
            return  # it goes on once that is on the disk
        if can_ask:
            self._forms.ask_legacy(question, leg, session, said)
        self._tell_asked(question)

    def _tell_asked(self, question: ApprovalQuestion) -> None:
        self._ctx.tell(ApprovalAsked(question.seen_at(self._ctx.now)))
