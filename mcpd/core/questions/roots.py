"""The roots that a server is told: of its entry, of the session whose process it is, or theirs."""

from __future__ import annotations

from functools import partial
from typing import Final

from msgspec import Raw

from mcpd.core.interface.entries import Interactive, Sharing
from mcpd.core.mcp import codes, questions
from mcpd.core.questions.question import OpenQuestions, Question, able, refuse, refuse_undeclared
from mcpd.core.questions.questions import Questions, key_of
from mcpd.core.state.session import Session
from mcpd.core.state.state import MuxState
from mcpd.core.upstream.upstream import Upstream
from mcpd.core.wire import envelope
from mcpd.ids import SessionId

_UNHURRIED: Final = 0.5
"""Of the start-up time: how long a session has to be initialized, and asked for its roots."""

_LOOKS_EVERY: Final = 0.05
"""Seconds between two looks whether it is."""

_SAFE: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/")


class Roots:
    """Answers ``roots/list`` of servers whose entry has roots; nobody needs a turn for it."""

    def __init__(self, state: MuxState, opened: OpenQuestions, asked: Questions) -> None:
        self._state = state
        self._open = opened
        self._questions = asked

    def ask(self, upstream: Upstream, ident: bytes, params: Raw) -> bool:
        """Answer a server's ``roots/list``, or ask the session whose process it is.

        Return ``False`` where neither has roots for it: then it is a question like others.
        """
        if key_of(ident) is None:
            return True  # no answer could name it
        upstream.roots_asked(ident)
        entry = upstream.entry
        if entry.roots:
            upstream.answer(ident, result=_written(entry.roots), error=None)
        elif entry.asks_for_roots and entry.interactive is not Interactive.OFF:
            if self._questions.has_room(upstream, ident, params):
                self._ask_session(upstream, ident, params)
        else:
            return False
        return True

    def _ask_session(self, upstream: Upstream, ident: bytes, params: Raw) -> None:
        """Ask the session whose process it is, in a call or outside of one."""
        calls = upstream.calls.unfinished()  # or those that wait for the process, or for this
        callers = able([p for p in calls if p.method.is_input_capable], "roots")
        given_up = able(upstream.calls.gate.possible(), "roots")
        question = Question(upstream, ident, questions.ROOTS, params, callers)
        users = [self._state.sessions.get(SessionId(user)) for user in upstream.calls.usage.users]
        session = users[0] if len(users) == 1 else None
        if session is not None and "roots" in session.client_info.answers:
            question.is_of_call = False  # it does not end with its calls
            question.owner = session.id
            self._questions.keep(question)
            left = upstream.entry.startup_timeout * _UNHURRIED
            self._ask_when_initialized(question, session, left)
        elif callers and len({p.owner for p in (*callers, *given_up)}) == 1:
            self._questions.keep(question)
            self._questions.put(question)
        elif session is None:
            self._answer_with_workspace(upstream, ident, [s for s in users if s is not None])
        elif session.roots:
            upstream.answer(ident, result=_written(session.roots), error=None)
        else:
            refuse_undeclared(upstream, ident, "roots", [])

    def _ask_when_initialized(self, question: Question, session: Session, left: float) -> None:
        """Ask a session in its time; else what it said when it attached must do."""

        if session.is_initialized or question.callers:
            self._questions.put_to(question, session)
        elif left > 0:
            left -= _LOOKS_EVERY
            again = partial(self._ask_when_initialized, question, session, left)
            question.timer = self._state.ctx.after(_LOOKS_EVERY, again)
        else:
            self._open.answer(question, result=_written(session.roots), error=None)

    def _answer_with_workspace(
        self, upstream: Upstream, ident: bytes, users: list[Session]
    ) -> None:
        """Name what several sessions of one process have in common: their workspace."""
        workspace = users[0].workspace if users else None
        if upstream.entry.sharing is not Sharing.WORKSPACE or workspace is None:
            why = "roots/list outside a call reaches no client"
            refuse(upstream, ident, codes.METHOD_NOT_FOUND, why)
            return
        upstream.answer(ident, result=_written((_uri_of(workspace),)), error=None)


def _written(uris: tuple[str, ...]) -> bytes:
    return b'{"roots":[%b]}' % b",".join(b'{"uri":%b}' % envelope.quote(uri) for uri in uris)


def _uri_of(path: str) -> str:
    try:
        raw = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raw = path.encode("utf-8", "replace")
    return "file://" + "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in raw)
