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
from typing import Final, Protocol

from msgspec import UNSET, Raw

from mcpd.core.mcp import codes, questions
from mcpd.core.mux.asking import Asking
from mcpd.core.mux.effects import Timer
from mcpd.core.mux.entries import Interactive, Sharing
from mcpd.core.mux.inflight import Pending
from mcpd.core.mux.pauses import Pauses
from mcpd.core.mux.session import Session
from mcpd.core.mux.tables import Tables
from mcpd.core.mux.upstream import Upstream
from mcpd.core.wire import envelope
from mcpd.ids import SessionId

CANCELLED: Final = b'{"action":"cancel"}'
"""What we answer for a client that was shown a dialog and says nothing (2025-06-18)."""

_UNHURRIED: Final = 0.5
"""Of the start-up time: how long a session has to be initialized, and asked for its roots."""

_LOOKS_EVERY: Final = 0.05
"""Seconds between two looks whether it is."""

_MOST_VISITS: Final = 1000
"""Of one process: elicitations at a URL whose end may still be told."""

_SAFE: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/")


class Question:
    """One question of a legacy server's, from when it came until it is answered or withdrawn.

    ``callers`` are the calls that can have caused it, and whose time stands still; it ends with
    them if it ``is_of_call``. ``owner`` is the session that was asked, 0 while it is held.
    """

    def __init__(
        self, upstream: Upstream, ident: bytes, method: str, params: Raw, callers: list[Pending]
    ) -> None:
        self.upstream = upstream
        self.ident = ident
        self.method = method
        self.params = params
        self.callers = callers
        self.owner = 0
        self.is_of_call = bool(callers)
        self.is_open = True
        self.timer: Timer | None = None
        self.retract: Callable[[], None] | None = None
        """Takes it back from whoever was asked."""


class Parking(Protocol):
    """How a modern client is asked: its call is parked."""

    def put(self, question: Question, pending: Pending) -> None:
        """Ask the client whose call this is."""

    def is_parked(self, pending: Pending) -> bool:
        """Tell whether a call's client has been told to retry it."""

    def restart(
        self, upstream: Upstream, pending: Pending, asks: dict[str, tuple[str, bytes | None]]
    ) -> bytes:
        """Return the result that asks a client something and then has it call anew."""


class Questions:
    """Which questions of servers are open, whose they are, and the answers on their way back."""

    parking: Parking

    def __init__(self, tables: Tables) -> None:
        self.asking = Asking(tables.fx)
        self.pauses = Pauses()
        self.when_gone: list[Callable[[Upstream], None]] = []
        self._tables = tables
        self._open: dict[Question, None] = {}
        self._visits: dict[Upstream, dict[str, int]] = {}
        """Who was asked to go to a URL, by the server's name for it."""

    def __len__(self) -> int:
        return len(self._open)

    # -- from a server ---------------------------------------------------------------------------

    def ask(self, upstream: Upstream, ident: bytes, method: str, params: Raw) -> None:
        """Take a question of a server's to its session, or answer it here."""
        if method == "ping":
            upstream.answer(ident, result=b"{}", error=None)
            return
        if not envelope.is_id(ident):
            return  # no answer could name it
        if upstream.is_modern:
            why = f"{method}: a server of this revision asks in its results"
            _refuse(upstream, ident, codes.METHOD_NOT_FOUND, why)
            return
        need = questions.needed_for(method, params)
        may_ask = upstream.entry.interactive is not Interactive.OFF
        if need is None:
            _refuse(upstream, ident, codes.METHOD_NOT_FOUND, f"unknown method {method}")
        elif method == questions.ROOTS and upstream.entry.roots:
            upstream.answer(ident, result=_roots(upstream.entry.roots), error=None)
        elif method == questions.ROOTS and upstream.entry.asks_for_roots and may_ask:
            self._ask_for_roots(upstream, ident, params)
        else:
            self._ask_a_caller(upstream, ident, method, params, need)

    def _ask_a_caller(
        self, upstream: Upstream, ident: bytes, method: str, params: Raw, need: str
    ) -> None:
        flying = upstream.requests.flying()
        causes = [p for p in flying if p.owner and p.method.is_input_capable]
        takes_turns = upstream.turns.is_exclusive
        if causes:
            upstream.turns.mark_asked()
            upstream.mark_asked()
        if upstream.entry.interactive is Interactive.OFF:
            why = f'{upstream.entry.name} is to ask nobody (interactive = "off")'
            _refuse(upstream, ident, codes.METHOD_NOT_FOUND, why)
            return
        if not causes:
            is_roots = method == questions.ROOTS
            code = codes.METHOD_NOT_FOUND if is_roots else codes.INVALID_PARAMS
            _refuse(upstream, ident, code, f"{method} outside a call reaches no client")
            return
        able = _able(causes, need)
        owners = {p.owner for p in able}
        question = Question(upstream, ident, method, params, able)
        if not owners:
            self._refuse_undeclared(upstream, ident, need, causes)
        elif len(owners) == 1:
            self._keep(question)
            self._put(question)
        elif takes_turns:
            self._keep(question)
            self._hold(question)
        else:
            why = f"{method} could be for any of {len(owners)} sessions, and is not guessed"
            _refuse(upstream, ident, codes.INTERNAL_ERROR, why)

    def _refuse_undeclared(
        self, upstream: Upstream, ident: bytes, need: str, causes: list[Pending]
    ) -> None:
        if len(causes) == 1:
            causes[0].lacked = need  # a modern client is told so, if the call fails of it
        base = need.partition(".")[0]
        declared = {a for p in causes if p.asker is not None for a in p.asker.answers}
        if any(each.partition(".")[0] == base for each in declared):
            why = f"the client has not declared {base} of this kind"
            _refuse(upstream, ident, codes.INVALID_PARAMS, why)
        else:
            why = f"the client has not declared {base}"
            _refuse(upstream, ident, codes.METHOD_NOT_FOUND, why)

    def complete(self, upstream: Upstream, params: Raw) -> None:
        """What a session was asked to do elsewhere is done: that session is told, and no other."""
        name = _elicitation_in(params)
        ident = self._visits.get(upstream, {}).pop(name, None) if name is not None else None
        if ident is None and len(upstream.requests.users) == 1:
            (ident,) = upstream.requests.users  # it was told in an error
        session = None if ident is None else self._tables.sessions.get(SessionId(ident))
        if session is not None:
            self._tables.notify(session, "notifications/elicitation/complete", params)

    def withdraw(self, upstream: Upstream, ident: bytes) -> None:
        """The server does not want to know any more."""
        key = envelope.id_key(ident) if envelope.is_id(ident) else b""
        for question in self._of(upstream):
            if envelope.id_key(question.ident) == key:
                self._drop(question)

    def server_gone(self, upstream: Upstream) -> None:
        """The process is gone, and its questions with it."""
        for question in self._of(upstream):
            self._drop(question)
        self._visits.pop(upstream, None)
        for act in self.when_gone:
            act(upstream)

    # -- from a session --------------------------------------------------------------------------

    def hear_answer(self, session: Session, message: envelope.Message) -> None:
        """An answer counts only from the session that was asked."""
        self.asking.hear_answer(session, message)

    def hear_progress(self, session: Session, params: Raw) -> None:
        """A client says how far it is with an answer."""
        self.asking.hear_progress(session, params)

    def session_gone(self, session: Session) -> None:
        """A session that is gone answers with an error."""
        for question in [q for q in self._open if q.owner == session.id]:
            self._close(question)
            why = "the client that was asked is gone"
            _refuse(question.upstream, question.ident, codes.INTERNAL_ERROR, why)
        self.asking.session_gone(session)

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
            _refuse(question.upstream, question.ident, codes.INTERNAL_ERROR, why)

    def _keep(self, question: Question) -> None:
        self._open[question] = None
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
            _refuse(question.upstream, question.ident, codes.INTERNAL_ERROR, why)

        wait = question.upstream.entry.question_wait
        if wait > 0:
            question.timer = self._tables.fx.after(wait, give_up)

    def _caller_over(self, question: Question) -> None:
        """A call that can have caused a question has ended, in whatever way."""
        if not question.is_open:
            return
        left = [p for p in question.callers if not p.is_over]
        if not left:
            _retract(question)
            self.answer(question, result=None, error=None)
        elif not question.owner and len({p.owner for p in left}) == 1:
            self._narrow(question, left)
            self._put(question)

    def _narrow(self, question: Question, callers: list[Pending]) -> None:
        for pending in question.callers:
            if pending not in callers:
                self.pauses.go_on(question.upstream.requests, pending)
        question.callers = callers

    def _put(self, question: Question) -> None:
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
        if pending.is_modern:
            self._narrow(question, [pending])
            self.parking.put(question, pending)
        elif session is not None:
            self._ask_legacy(question, session)

    def _ask_legacy(self, question: Question, session: Session) -> None:
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
            self._note_visit(question)

    def _note_visit(self, question: Question) -> None:
        name = _elicitation_in(question.params)
        if name is not None:
            visits = self._visits.setdefault(question.upstream, {})
            if len(visits) >= _MOST_VISITS:
                del visits[next(iter(visits))]
            visits[name] = question.owner

    def _drop(self, question: Question) -> None:
        """Forget a question that gets no answer."""
        if question.is_open:
            _retract(question)
            self._close(question)

    def _close(self, question: Question) -> None:
        question.is_open = False
        del self._open[question]
        if question.timer is not None:
            question.timer.cancel()
        for pending in question.callers:
            self.pauses.go_on(question.upstream.requests, pending)
        if question.owner and question.is_of_call:
            question.upstream.turns.question_closed(question.owner)

    def _of(self, upstream: Upstream) -> list[Question]:
        return [q for q in self._open if q.upstream is upstream]

    # -- the roots of a process of one's own -------------------------------------------------------

    def _ask_for_roots(self, upstream: Upstream, ident: bytes, params: Raw) -> None:
        """Ask the session whose process it is, in a call or outside; nobody needs a turn for it."""
        flying = upstream.requests.flying()
        able = _able([p for p in flying if p.method.is_input_capable], "roots")
        question = Question(upstream, ident, questions.ROOTS, params, able)
        users = [self._tables.sessions.get(SessionId(user)) for user in upstream.requests.users]
        session = users[0] if len(users) == 1 else None
        if session is not None and "roots" in session.asker.answers:
            question.is_of_call = False  # whatever becomes of its calls
            question.owner = session.id
            self._keep(question)
            left = upstream.entry.startup_timeout * _UNHURRIED
            self._ask_when_initialized(question, session, left)
        elif len({p.owner for p in able}) == 1:
            self._keep(question)
            self._put(question)
        elif session is None:
            self._answer_with_workspace(upstream, ident, [s for s in users if s is not None])
        elif session.roots:
            upstream.answer(ident, result=_roots(session.roots), error=None)
        else:
            self._refuse_undeclared(upstream, ident, "roots", [])

    def _ask_when_initialized(self, question: Question, session: Session, left: float) -> None:
        """Ask a session in its time; else what it said when it attached must do."""

        def look() -> None:
            self._ask_when_initialized(question, session, left - _LOOKS_EVERY)

        if session.is_initialized or question.callers:
            self._ask_legacy(question, session)
        elif left > 0:
            question.timer = self._tables.fx.after(_LOOKS_EVERY, look)
        else:
            self.answer(question, result=_roots(session.roots), error=None)

    def _answer_with_workspace(
        self, upstream: Upstream, ident: bytes, users: list[Session]
    ) -> None:
        """Name what several sessions of one process have in common: their workspace."""
        workspace = users[0].workspace if users else None
        if upstream.entry.sharing is not Sharing.WORKSPACE or workspace is None:
            why = "roots/list outside a call reaches no client"
            _refuse(upstream, ident, codes.METHOD_NOT_FOUND, why)
            return
        uri = "file://" + "".join(
            chr(byte) if byte in _SAFE else f"%{byte:02X}"
            for byte in workspace.encode("utf-8", "surrogateescape")
        )
        upstream.answer(ident, result=_roots((uri,)), error=None)


def _able(causes: list[Pending], need: str) -> list[Pending]:
    """Return the calls whose client can be asked this."""
    return [p for p in causes if p.is_asking and p.asker is not None and need in p.asker.answers]


def _elicitation_in(params: Raw) -> str | None:
    return envelope.text((envelope.object_of(params) or {}).get("elicitationId", UNSET))


def _retract(question: Question) -> None:
    if question.retract is not None:
        question.retract()


def _roots(uris: tuple[str, ...]) -> bytes:
    return b'{"roots":[%b]}' % b",".join(b'{"uri":%b}' % envelope.quote(uri) for uri in uris)


def _refuse(upstream: Upstream, ident: bytes, code: int, why: str) -> None:
    upstream.answer(ident, result=None, error=codes.plain_error(code, why))
