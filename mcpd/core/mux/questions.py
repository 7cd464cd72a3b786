"""Questions of legacy servers, to the only session that they can be for; never guessed.

A legacy server's request says nothing about the call that caused it. It belongs to the only
session with calls in flight that can have caused it; where that session cannot answer, or where
there are several that take no turns, the server gets an error and its tool goes on.

``Questions(tables)``. ``Parked`` makes itself known as ``parking``; ``asking`` is shared with
``Rounds``; ``when_gone`` is called with the upstream whose process is gone, before its requests
are failed or repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Raw

from mcpd.core.mcp import codes, questions
from mcpd.core.mcp.questions import MOST_OF_A_CALL
from mcpd.core.mux.asking import NO_INPUT, Asking
from mcpd.core.mux.entries import Interactive
from mcpd.core.mux.inflight import Pending
from mcpd.core.mux.pauses import Pauses
from mcpd.core.mux.question import Parking, Question, able, refuse, refuse_undeclared
from mcpd.core.mux.roots import Roots
from mcpd.core.mux.session import Session
from mcpd.core.mux.tables import Tables
from mcpd.core.mux.upstream import Upstream
from mcpd.core.mux.visits import Visits
from mcpd.core.mux.wire_ids import whole
from mcpd.core.wire import envelope
from mcpd.core.wire.memory import REQUEST_BYTES
from mcpd.ids import SessionId

CANCELLED: Final = b'{"action":"cancel"}'
"""What we answer for a client that was shown a dialog and says nothing (2025-06-18)."""


MOST_OF_A_PROCESS: Final = 256
"""Questions that may be open for one process, those that are held among them."""


class Questions:
    """Which questions of servers are open, whose they are, and the answers on their way back."""

    parking: Parking

    def __init__(self, tables: Tables) -> None:
        self.asking = Asking(tables.fx)
        self.pauses = Pauses()
        self.visits = Visits(tables)
        self.when_gone: list[Callable[[Upstream], None]] = [self.visits.server_gone]
        self._tables = tables
        self._open: dict[Upstream, dict[Question, None]] = {}
        self._roots = Roots(tables, self)

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))

    # -- from a server ---------------------------------------------------------------------------

    def ask(self, upstream: Upstream, ident: bytes, method: str, params: Raw) -> None:
        """Take a question of a server's to its session, or answer it here."""
        if method == "ping":
            upstream.answer(ident, result=b"{}", error=None)
            return
        if _key_of(ident) is None:
            return  # no answer could name it
        if upstream.is_modern:
            why = f"{method}: a server of this revision asks in its results"
            refuse(upstream, ident, codes.METHOD_NOT_FOUND, why)
            return
        if method == questions.ROOTS:
            upstream.roots_asked(ident)
        need = questions.needed_for(method, params)
        may_ask = upstream.entry.interactive is not Interactive.OFF
        if need is None:
            refuse(upstream, ident, codes.METHOD_NOT_FOUND, f"unknown method {method}")
        elif method == questions.ROOTS and upstream.entry.roots:
            self._roots.answer(upstream, ident)
        elif method == questions.ROOTS and upstream.entry.asks_for_roots and may_ask:
            if self._has_room(upstream, ident, params):
                self._roots.ask(upstream, ident, params)
        elif self._has_room(upstream, ident, params):
            self._ask_a_caller(upstream, ident, method, params, need)

    def _has_room(self, upstream: Upstream, ident: bytes, params: Raw) -> bool:
        """Tell whether one more question of a process may be open; else it is refused."""
        if len(self._open.get(upstream, ())) >= MOST_OF_A_PROCESS:
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
        takes_turns = upstream.turns.is_exclusive
        causes = _causes(upstream, need, is_held=takes_turns)
        given_up = [p for p in upstream.turns.possible() if p.method.is_input_capable]
        if causes or given_up:
            upstream.turns.mark_asked()
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
        elif self._least_open(candidates) >= MOST_OF_A_CALL * len(candidates):
            self._refuse_one_more(upstream, ident, f"{MOST_OF_A_CALL} questions of a call are open")
        elif {p.owner for p in question.given_up} - owners:
            why = f"{method} may be of a call that was given up, and is not guessed"
            refuse(upstream, ident, codes.INTERNAL_ERROR, why)
        elif len(owners) == 1:
            self.keep(question)
            self.put(question)
        elif takes_turns:
            self.keep(question)
            self._hold(question)
        else:
            why = f"{method} could be for more than one session, and is not guessed"
            refuse(upstream, ident, codes.INTERNAL_ERROR, why)

    def withdraw(self, upstream: Upstream, ident: bytes) -> None:
        """The server does not want to know any more."""
        key = _key_of(ident)
        for question in self._of(upstream):
            if _key_of(question.ident) == key:
                self._drop(question)

    def server_gone(self, upstream: Upstream) -> None:
        """The process is gone, and its questions with it."""
        for question in self._of(upstream):
            self._drop(question)
        for act in self.when_gone:
            act(upstream)

    # -- from a session --------------------------------------------------------------------------

    def hear_answer(self, session: Session, message: envelope.Message) -> None:
        """An answer counts only from the session that was asked."""
        self.asking.hear_answer(session, message)

    def spoil_answer(self, session: Session, ident: bytes) -> None:
        """What came as an answer could not be read."""
        self.asking.spoil(session, ident)

    def hear_progress(self, session: Session, params: Raw) -> None:
        """A client says how far it is with an answer."""
        self.asking.hear_progress(session, params)

    def input_ended(self, session: Session) -> None:
        """Answer with an error what was asked of a client that sends nothing more."""
        self.asking.input_ended(session)
        for question in [q for own in self._open.values() for q in own if q.owner == session.id]:
            question.take_back()
            self.answer(question, result=None, error=NO_INPUT)

    def session_gone(self, session: Session) -> None:
        """A session that is gone answers with an error."""
        for question in [q for own in self._open.values() for q in own if q.owner == session.id]:
            self._close(question)
            why = "the client that was asked is gone"
            refuse(question.upstream, question.ident, codes.INTERNAL_ERROR, why)

    # -- one question ----------------------------------------------------------------------------

    def answer(
        self, question: Question, *, result: Raw | bytes | None, error: Raw | bytes | None
    ) -> None:
        """Give a server its answer; with neither result nor error the client said nothing."""
        if not question.is_open:
            return
        self._close(question)
        if result is not None or error is not None:
            question.upstream.answer(question.ident, result=result, error=error)
        elif question.method == questions.ELICITATION:
            question.upstream.answer(question.ident, result=CANCELLED, error=None)
        else:
            why = "the client did not answer"
            refuse(question.upstream, question.ident, codes.INTERNAL_ERROR, why)

    def keep(self, question: Question) -> None:
        """A question is open; its callers' time stands still."""
        self._open.setdefault(question.upstream, {})[question] = None
        question.upstream.share.add(len(question.params) + REQUEST_BYTES)
        for pending in question.callers:
            self.pauses.stop(question.upstream.requests, pending)
            if question.is_of_call:
                question.upstream.turns.watch(pending, lambda: self._caller_over(question))

    def _hold(self, question: Question) -> None:
        def give_up() -> None:
            self._close(question)
            why = (
                f"{question.method} could be for more than one session, and is not guessed; "
                f"it was held for {wait:g} s (question_wait)"
            )
            refuse(question.upstream, question.ident, codes.INTERNAL_ERROR, why)

        wait = question.upstream.entry.question_wait
        if wait > 0:
            question.timer = self._tables.fx.after(wait, give_up)

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
            self.answer(question, result=None, error=None)
        elif question.owner or len({p.owner for p in left}) > 1:
            return
        elif len({p.owner for p in possible}) == 1:
            self._narrow(question, left)
            self.put(question)
        else:
            self._close(question)
            why = f"{question.method} may be of a call that was given up, and is not guessed"
            refuse(question.upstream, question.ident, codes.INTERNAL_ERROR, why)

    def _narrow(self, question: Question, callers: list[Pending]) -> None:
        for pending in question.callers:
            if pending not in callers:
                self.pauses.go_on(question.upstream.requests, pending)
        question.callers = callers

    def put(self, question: Question) -> None:
        """Ask the one session that a question can be for."""
        if question.timer is not None:
            question.timer.cancel()
            question.timer = None
        question.owner = question.callers[0].owner
        question.upstream.turns.question_opened(question.owner)
        newest = question.callers[-1]
        fresh = (p for p in reversed(question.callers) if not self.parking.is_parked(p))
        pending = next(fresh, newest)
        session = self._tables.sessions.get(SessionId(question.owner))
        if session is not None and session.has_ended:
            self.answer(question, result=None, error=NO_INPUT)
        elif pending.is_modern:
            self._narrow(question, [pending])
            self.parking.put(question, pending)
        elif session is not None:
            self.put_to(question, session)

    def put_to(self, question: Question, session: Session) -> None:
        """Ask a legacy session."""

        def heard(result: Raw | None, error: Raw | None) -> None:
            self.answer(question, result=result, error=error)

        def on_progress(params: bytes) -> None:
            question.upstream.notify(b'"notifications/progress"', params)

        asked = self.asking.ask(
            session,
            question.method,
            question.params,
            heard,
            timeout=question.upstream.entry.question_timeout,
            on_progress=on_progress,
        )
        question.retract = lambda: self.asking.withdraw(asked)
        if question.method == questions.ELICITATION:
            self.visits.note(question.upstream, question.params, session)

    def _drop(self, question: Question) -> None:
        """Forget a question that gets no answer."""
        if question.is_open:
            question.take_back()
            self._close(question)

    def _close(self, question: Question) -> None:
        question.is_open = False
        own = self._open[question.upstream]
        del own[question]
        if not own:
            del self._open[question.upstream]
        question.upstream.share.add(-len(question.params) - REQUEST_BYTES)
        if question.timer is not None:
            question.timer.cancel()
        for pending in question.callers:
            self.pauses.go_on(question.upstream.requests, pending)
        if question.owner and question.is_of_call:
            question.upstream.turns.question_closed(question.owner)

    def is_asking(self, upstream: Upstream) -> bool:
        """Tell whether a question of a server's is open."""
        return upstream in self._open

    def _of(self, upstream: Upstream) -> list[Question]:
        return list(self._open.get(upstream, ()))

    def _least_open(self, callers: list[Pending]) -> int:
        """Return the least number of open questions that any of these calls may have caused."""
        is_parked = self.parking.is_parked
        return min(self.pauses.reasons(each) - is_parked(each) for each in callers)


def _causes(upstream: Upstream, need: str, *, is_held: bool) -> list[Pending]:
    """Return the calls that can have caused a question, oldest first.

    Where the question is not held, two of sessions that can be asked are as good as all.
    """
    causes = []
    first = 0
    for pending in upstream.requests.flying():
        if pending.owner and pending.method.is_input_capable:
            causes.append(pending)
            if not is_held and able([pending], need):
                if first and first != pending.owner:
                    break
                first = pending.owner
    return causes


def _key_of(ident: bytes) -> bytes | None:
    """Return what makes two spellings of a server's id equal; ``None`` where it is none."""
    if envelope.is_id(ident):
        return envelope.id_key(ident)
    number = whole(ident)
    return None if number is None else b"%d" % number
