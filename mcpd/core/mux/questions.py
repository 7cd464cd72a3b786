"""Questions from a server, to the only session that they can be for; never guessed.

A legacy server's request says nothing about the call that caused it. It belongs to the only
session with requests in flight that can cause one; where there are several, or where that
session cannot answer, the server gets an error and its tool goes on.
"""

from __future__ import annotations

import itertools
from typing import Final

import msgspec
from msgspec import UNSET, Raw

from mcpd.core.mcp import codes
from mcpd.core.mux.commands import ToSession
from mcpd.core.mux.effects import Timer
from mcpd.core.mux.inflight import Pending
from mcpd.core.mux.session import Session
from mcpd.core.mux.tables import Tables
from mcpd.core.mux.upstream import Upstream
from mcpd.core.wire import envelope
from mcpd.ids import SessionId

CAPABILITIES: Final = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}
"""What a client must have declared to be asked (2025-11-25, client features)."""

QUESTION_TIMEOUT: Final = 300.0
"""Seconds that a question may stay open; then it is answered for the client."""

_CANCELLED: Final = b'{"action":"cancel"}'


class _Question:
    def __init__(
        self, upstream: Upstream, ident: bytes, session: SessionId, key: bytes, method: str
    ) -> None:
        self.upstream = upstream
        self.ident = ident
        self.session = session
        self.key = key
        self.method = method
        self.timer: Timer | None = None


class Questions:
    """Which questions are open, whose they are, and the answers on their way back."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._ids = itertools.count(1)
        self._open: dict[tuple[SessionId, bytes], _Question] = {}

    def __len__(self) -> int:
        return len(self._open)

    def ask(self, upstream: Upstream, ident: bytes, method: str, params: Raw) -> None:
        """Take a question of a server's to its session, or answer it here."""
        if method == "ping":
            upstream.answer(ident, result=b"{}", error=None)
            return
        if method == "roots/list" and upstream.entry.roots:
            roots = b",".join(b'{"uri":%b}' % envelope.quote(uri) for uri in upstream.entry.roots)
            upstream.answer(ident, result=b'{"roots":[%b]}' % roots, error=None)
            return
        if not envelope.is_id(ident):
            return  # no answer could name it
        capability = CAPABILITIES.get(method)
        if capability is None:
            self._refuse(upstream, ident, codes.METHOD_NOT_FOUND, f"unknown method {method}")
            return
        owners = {p.owner for p in self._askers(upstream)}
        if not owners:
            why = f"{method} outside a call reaches no client"
            self._refuse(upstream, ident, codes.METHOD_NOT_FOUND, why)
            return
        sessions = (self._tables.sessions.get(SessionId(owner)) for owner in owners)
        able = [s for s in sessions if s is not None and capability in s.capabilities]
        if not able:
            why = f"the client has not declared {capability}"
            self._refuse(upstream, ident, codes.METHOD_NOT_FOUND, why)
        elif len(able) > 1:
            why = f"{method} could be for any of {len(able)} sessions, and is not guessed"
            self._refuse(upstream, ident, codes.INTERNAL_ERROR, why)
        else:
            self._put(upstream, ident, able[0], method, params)

    def hear_answer(self, session: Session, message: envelope.Message) -> None:
        """An answer counts only from the session that was asked."""
        if message.id is UNSET or (message.result is UNSET) == (message.error is UNSET):
            return
        question = self._take(session.id, envelope.id_key(bytes(message.id)))
        if question is None:
            return
        if message.result is not UNSET:
            question.upstream.answer(question.ident, result=message.result, error=None)
        elif message.error is not UNSET:
            question.upstream.answer(question.ident, result=None, error=message.error)

    def withdraw(self, upstream: Upstream, ident: bytes) -> None:
        """The server does not want to know any more."""
        for question in self._of(upstream):
            if question.ident == ident:
                self._retract(question)

    def server_gone(self, upstream: Upstream) -> None:
        """The process is gone, and its questions with it."""
        for question in self._of(upstream):
            self._retract(question)

    def session_gone(self, session: Session) -> None:
        """A session that is gone answers with an error."""
        for question in [q for q in self._open.values() if q.session == session.id]:
            self._take(question.session, question.key)
            why = "the client that was asked is gone"
            self._refuse(question.upstream, question.ident, codes.INTERNAL_ERROR, why)

    def call_over(self, session: Session, pending: Pending) -> None:
        """A call was given up: the questions it caused are withdrawn, if it was the last."""
        for question in [q for q in self._open.values() if q.session == session.id]:
            requests = question.upstream.requests
            if requests is pending.upstream and not any(
                p.owner == session.id for p in self._askers(question.upstream)
            ):
                self._retract(question)
                self._answer_for(question)

    def _put(
        self, upstream: Upstream, ident: bytes, session: Session, method: str, params: Raw
    ) -> None:
        number = next(self._ids)
        key = b"%d" % number
        question = _Question(upstream, ident, session.id, key, method)
        self._open[session.id, key] = question
        question.timer = self._tables.fx.after(QUESTION_TIMEOUT, lambda: self._expire(question))
        for pending in self._askers(upstream):
            if pending.owner == session.id:
                upstream.requests.pause(pending)
        line = envelope.request(number, envelope.quote(method), params)
        self._tables.fx.emit(ToSession(session.id, line))

    def _expire(self, question: _Question) -> None:
        self._retract(question)
        self._answer_for(question)

    def _answer_for(self, question: _Question) -> None:
        if question.method == "elicitation/create":
            question.upstream.answer(question.ident, result=_CANCELLED, error=None)
        else:
            why = "the client did not answer"
            self._refuse(question.upstream, question.ident, codes.INTERNAL_ERROR, why)

    def _retract(self, question: _Question) -> None:
        if self._take(question.session, question.key) is None:
            return
        session = self._tables.sessions.get(question.session)
        if session is not None:
            params = msgspec.json.encode({"requestId": int(question.key)})
            self._tables.notify(session, "notifications/cancelled", params)

    def _take(self, session: SessionId, key: bytes) -> _Question | None:
        question = self._open.pop((session, key), None)
        if question is None:
            return None
        if question.timer is not None:
            question.timer.cancel()
        still_asked = any(
            q.session == session and q.upstream is question.upstream for q in self._open.values()
        )
        if not still_asked:
            for pending in self._askers(question.upstream):
                if pending.owner == session:
                    question.upstream.requests.resume(pending)
        return question

    def _of(self, upstream: Upstream) -> list[_Question]:
        return [q for q in self._open.values() if q.upstream is upstream]

    def _askers(self, upstream: Upstream) -> list[Pending]:
        flying = upstream.requests.flying()
        return [p for p in flying if p.owner and p.method.is_input_capable]

    def _refuse(self, upstream: Upstream, ident: bytes, code: int, why: str) -> None:
        upstream.answer(ident, result=None, error=codes.plain_error(code, why))
