"""Questions of legacy servers, to the only session that they can be for; never guessed.

A legacy server's request says nothing about the call that caused it. If exactly
one session has calls in flight that can have caused it, the request is for that session. If that
session cannot answer, or if there are several, the server gets an error and its tool goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import Raw

from mcpd.core.facts import QuestionAnswered, QuestionAsked
from mcpd.core.interface.entries import Interactive
from mcpd.core.mcp import codes, questions
from mcpd.core.mcp.questions import MOST_PER_CALL
from mcpd.core.questions.parked_calls import ParkedCalls
from mcpd.core.questions.question import OpenQuestions, Question, able, refuse, refuse_undeclared
from mcpd.core.questions.requests_to_clients import NO_INPUT, RequestsToClients
from mcpd.core.questions.sampling_budgets import SamplingBudgets
from mcpd.core.questions.url_elicitations import UrlElicitations
from mcpd.core.requests.inflight import UpstreamRequest
from mcpd.core.state.session import Session
from mcpd.core.state.state import MuxState
from mcpd.core.upstream.upstream import Upstream
from mcpd.core.wire import envelope
from mcpd.core.wire.memory import REQUEST_BYTES
from mcpd.core.wire.wire_ids import whole
from mcpd.ids import SessionId

MOST_OF_A_PROCESS: Final = 256
"""Questions that may be open for one process, those that are held among them."""


class Questions:
    """Which questions of servers are open, whose they are, and the answers on their way back."""

    def __init__(self, state: MuxState, opened: OpenQuestions, parked: ParkedCalls) -> None:
        self.to_clients = RequestsToClients(state.ctx)
        self.url_elicitations = UrlElicitations(state)
        self.when_gone: list[Callable[[Upstream], None]] = []
        """Called with a server whose process has ended, before its requests end."""
        self.budgets = SamplingBudgets(state.ctx)
        self._state = state
        self._open = opened
        self._parked_calls = parked

    # -- from a server ---------------------------------------------------------------------------

    def ask(self, upstream: Upstream, ident: bytes, method: str, params: Raw) -> None:
        """Take a question of a server's to its session, or answer it here."""
        if method == "ping":
            upstream.answer(ident, result=b"{}", error=None)
            return
        if key_of(ident) is None:
            return  # no answer could name it
        need = questions.needed_capability(method, params)
        if need is None:
            refuse(upstream, ident, codes.METHOD_NOT_FOUND, f"unknown method {method}")
        elif self.has_room(upstream, ident, params):
            self._ask_a_caller(upstream, ident, method, params, need)

    def has_room(self, upstream: Upstream, ident: bytes, params: Raw) -> bool:
        """Tell whether one more question of a process may be open; else it is refused."""
        if len(self._open.of(upstream)) >= MOST_OF_A_PROCESS:
            self._refuse_one_more(upstream, ident, f"{MOST_OF_A_PROCESS} questions are open")
        elif not upstream.share.has_room(len(params) + REQUEST_BYTES):
            most = upstream.share.memory.most_bytes
            why = f"there is no room for {len(params)} bytes (max_buffered_bytes is {most})"
            self._refuse_one_more(upstream, ident, why)
        else:
            return True
        return False

    def _refuse_one_more(self, upstream: Upstream, ident: bytes, why: str) -> None:
        upstream.warn_seldom(f"a question was refused: {why}")
        refuse(upstream, ident, codes.INTERNAL_ERROR, f"{why}: ask again when one is answered")

    def _ask_a_caller(
        self, upstream: Upstream, ident: bytes, method: str, params: Raw, need: str
    ) -> None:
        takes_turns = upstream.calls.gate.is_exclusive
        causes = _causes(upstream, need, is_held=takes_turns)
        given_up = [p for p in upstream.calls.gate.possible() if p.method.is_input_capable]
        if causes or given_up:
            upstream.calls.gate.mark_asked()
            upstream.mark_asked()
        if upstream.entry.interactive is Interactive.OFF:
            why = f'{upstream.entry.name} is to ask nobody (interactive = "off")'
            refuse(upstream, ident, codes.METHOD_NOT_FOUND, why)
            return
        if not causes:
            is_roots = method == questions.ROOTS
            code = codes.METHOD_NOT_FOUND if is_roots else codes.INVALID_PARAMS
            refuse(upstream, ident, code, f"{method} outside a call reaches no client")
            return
        candidates = able(causes, need)
        owners = {p.owner for p in candidates}
        question = Question(upstream, ident, method, params, candidates)
        question.given_up = able(given_up, need)
        if not owners:
            refuse_undeclared(upstream, ident, need, causes)
        elif self._least_open(upstream, candidates) >= MOST_PER_CALL * len(candidates):
            self._refuse_one_more(upstream, ident, f"{MOST_PER_CALL} questions of a call are open")
        elif {p.owner for p in question.given_up} - owners:
            why = f"{method} may be of a call that was given up, and is not guessed"
            refuse(upstream, ident, codes.INTERNAL_ERROR, why)
        elif (len(owners) == 1 or takes_turns) and not self._is_within_budget(question):
            return
        elif len(owners) == 1:
            self.keep(question)
            self.put(question)
        elif takes_turns:
            self.keep(question)
            self._hold(question)
        else:
            why = f"{method} could be for more than one session, and is not guessed"
            refuse(upstream, ident, codes.INTERNAL_ERROR, why)

    def _is_within_budget(self, question: Question) -> bool:
        """Tell whether the server may ask this; else it is refused, and no client is asked."""
        upstream = question.upstream
        if question.method != questions.SAMPLING:
            return True
        entry, size = upstream.entry, len(question.params)
        reserved = self.budgets.reserve(entry, question.params)
        if isinstance(reserved, str):
            refuse(upstream, question.ident, codes.INTERNAL_ERROR, reserved)
            return False
        question.settle = partial(self.budgets.settle, entry, reserved, size)
        return True

    def withdraw(self, upstream: Upstream, ident: bytes) -> None:
        """The server does not want to know any more."""
        key = key_of(ident)
        for question in self._open.of(upstream):
            if key_of(question.ident) == key:
                self._open.drop(question)

    def server_gone(self, upstream: Upstream) -> None:
        """The process is gone, and its questions with it."""
        for question in self._open.of(upstream):
            self._open.drop(question)
        self.url_elicitations.server_gone(upstream)
        self._parked_calls.server_gone(upstream)
        for act in self.when_gone:
            act(upstream)

    # -- from a session --------------------------------------------------------------------------

    def hear_answer(self, session: Session, message: envelope.Message) -> None:
        """An answer counts only from the session that was asked."""
        self.to_clients.hear_answer(session, message)

    def spoil_answer(self, session: Session, ident: bytes) -> None:
        """What came as an answer could not be read."""
        self.to_clients.spoil(session, ident)

    def hear_progress(self, session: Session, params: Raw) -> None:
        """A client says how far it is with an answer."""
        self.to_clients.hear_progress(session, params)

    def input_ended(self, session: Session) -> None:
        """Answer with an error what was asked of a client that sends nothing more."""
        self.to_clients.input_ended(session)
        for question in self._open.asked_of(session.id):
            question.take_back()
            self._open.answer(question, result=None, error=NO_INPUT)

    def session_gone(self, session: Session) -> None:
        """A session that is gone answers with an error."""
        for question in self._open.asked_of(session.id):
            self._open.close(question)
            why = "the client that was asked is gone"
            refuse(question.upstream, question.ident, codes.INTERNAL_ERROR, why)

    # -- one question ----------------------------------------------------------------------------

    def keep(self, question: Question) -> None:
        """Keep a question; it ends with the calls that can have caused it."""
        self._open.add(question)
        if question.is_of_call:
            for leg in question.callers:
                over = partial(self._caller_over, question)
                question.upstream.calls.gate.watch(leg, question, over)

    def _hold(self, question: Question) -> None:
        wait = question.upstream.entry.question_wait
        if wait > 0:
            act = partial(self._hold_expired, question, wait)
            question.timer = self._state.ctx.after(wait, act)

    def _hold_expired(self, question: Question, wait: float) -> None:
        self._open.close(question)
        why = (
            f"{question.method} could be for more than one session, and is not guessed; "
            f"it was held for {wait:g} s (question_wait)"
        )
        refuse(question.upstream, question.ident, codes.INTERNAL_ERROR, why)

    def _caller_over(self, question: Question) -> None:
        """A call that can have caused a question has ended, in whatever way.

        One that was answered has caused none that is open. One that was given up may have: its
        server asks on, and what it asks is for nobody else.
        """
        if not question.is_open:
            return
        callers = [*question.callers, *question.given_up]
        possible = [p for p in callers if p.is_given_up or not p.is_over]
        left = [p for p in question.callers if not p.is_over]
        if not left:
            question.take_back()
            self._open.answer(question, result=None, error=None)
        elif question.owner or len({p.owner for p in left}) > 1:
            return
        elif len({p.owner for p in possible}) == 1:
            self._open.narrow(question, left)
            self.put(question)
        else:
            self._open.close(question)
            why = f"{question.method} may be of a call that was given up, and is not guessed"
            refuse(question.upstream, question.ident, codes.INTERNAL_ERROR, why)

    def put(self, question: Question) -> None:
        """Ask the one session that a question can be for."""
        if question.timer is not None:
            question.timer.cancel()
            question.timer = None
        question.owner = question.callers[0].owner
        self._tell(question)
        question.upstream.calls.question_opened(question.owner)
        newest = question.callers[-1]
        fresh = (p for p in reversed(question.callers) if not self._parked_calls.is_parked(p))
        leg = next(fresh, newest)
        session = self._state.sessions.get(SessionId(question.owner))
        if session is not None and session.has_ended:
            self._open.answer(question, result=None, error=NO_INPUT)
        elif leg.is_modern:
            self._open.narrow(question, [leg])
            self._parked_calls.put(question, leg)
        elif session is not None:
            self.put_to(question, session)

    def _tell(self, question: Question) -> None:
        """Report that a client is asked, and when that is over, where calls are recorded."""
        ctx, server = self._state.ctx, question.upstream.entry.name
        if not ctx.tells_calls:
            return
        session, method = SessionId(question.owner), question.method
        ctx.tell(QuestionAsked(server, session, method))
        question.when_over = lambda how: ctx.tell(QuestionAnswered(server, session, method, how))

    def put_to(self, question: Question, session: Session) -> None:
        """Ask a legacy session."""

        upstream = question.upstream
        asked = self.to_clients.ask(
            session,
            question.method,
            question.params,
            partial(self._answered, question),
            timeout=upstream.entry.question_timeout,
            request=_request_of(question),
            on_progress=partial(upstream.notify, b'"notifications/progress"'),
        )
        question.retract = partial(self.to_clients.withdraw, asked)
        if question.method == questions.ELICITATION:
            self.url_elicitations.note(upstream, question.params, session)

    def _answered(self, question: Question, result: Raw | None, error: Raw | None) -> None:
        self._open.answer(question, result=result, error=error)

    def _least_open(self, upstream: Upstream, callers: list[UpstreamRequest]) -> int:
        """Return the least number of open questions that any of these calls may have caused."""
        is_parked, reasons = self._parked_calls.is_parked, upstream.calls.timeouts.reasons
        return min(reasons(each) - is_parked(each) for each in callers)


def _request_of(question: Question) -> bytes:
    """Return the key of the only request that can have caused a question, or nothing."""
    return question.callers[0].key if len(question.callers) == 1 else b""


def _causes(upstream: Upstream, need: str, *, is_held: bool) -> list[UpstreamRequest]:
    """Return the calls that can have caused a question, oldest first.

    Where the question is not held, two of sessions that can be asked are as good as all.
    """
    causes = []
    first = 0
    for leg in upstream.calls.inflight.all():
        if leg.owner and leg.method.is_input_capable:
            causes.append(leg)
            if not is_held and able([leg], need):
                if first and first != leg.owner:
                    break
                first = leg.owner
    return causes


def key_of(ident: bytes) -> bytes | None:
    """Return what makes two spellings of a server's id equal; ``None`` where it is none."""
    if envelope.is_id(ident):
        return envelope.id_key(ident)
    number = whole(ident)
    return None if number is None else b"%d" % number
