"""Requests that we send to legacy clients, each with one answer or none.

The caller gets a handle. Its callback gets the answer, or nothing when that does not come in time;
it is not called for a request that was withdrawn, or whose session has ended.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import UNSET, Raw

from mcpd.core.interface.commands import ToSession
from mcpd.core.interface.context import Context, Timer
from mcpd.core.mcp import codes
from mcpd.core.state.session import Session
from mcpd.core.wire import envelope, progress
from mcpd.ids import SessionId

Heard = Callable[[Raw | None, Raw | None], None]
"""Called once, with a result or an error; with neither where no answer came in time."""

_INTEGER: Final = re.compile(rb"-?[0-9]+\Z")

NO_INPUT: Final = Raw(
    codes.plain_error(codes.INTERNAL_ERROR, "the client has ended its input: it answers nothing")
)

_UNREADABLE: Final = Raw(
    codes.plain_error(codes.INTERNAL_ERROR, "the client's answer could not be read")
)
"""What stands for an answer that a server would not take for one: it would wait for ever."""


class RequestToClient:
    """One request that a session has not answered yet.

    ``request`` is the key of the client's request that caused it, empty where several may have.
    ``token`` is the server's progress token.
    """

    __slots__ = ("is_sent", "number", "on_progress", "request", "session", "then", "timer", "token")

    def __init__(self, session: SessionId, number: int, then: Heard, request: bytes) -> None:
        self.session = session
        self.request = request
        self.number = number
        self.then = then
        self.is_sent = False
        self.timer: Timer | None = None
        self.token: bytes | None = None
        self.on_progress: Callable[[bytes], None] | None = None


class RequestsToClients:
    """Which requests of ours are open, and at which session.

    Invariant: an answer counts once, and only from the session that was asked.
    """

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._numbers = itertools.count(ctx.settings.first_question)
        self._open: dict[SessionId, dict[int, RequestToClient]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))

    def ask(
        self,
        session: Session,
        method: str,
        params: Raw | bytes | None,
        then: Heard,
        *,
        timeout: float,
        request: bytes = b"",
        on_progress: Callable[[bytes], None] | None = None,
    ) -> RequestToClient:
        """Send a session a request; ``timeout`` is in seconds, 0 for none.

        ``request`` is the key of the client's request that caused it, empty where several may have.

        A progress token in it is replaced by one of ours; ``on_progress`` gets the parameters of
        each notification of the client's, with the asker's own token in them.
        """
        number = next(self._numbers)
        asked = RequestToClient(session.id, number, then, request)
        if session.has_ended:
            self._open.setdefault(session.id, {})[number] = asked
            asked.timer = self._ctx.after(0, lambda: self._refuse(asked))
            return asked
        asked.is_sent = True
        if on_progress is not None and params is not None and (token := _token_in(params)):
            asked.token, asked.on_progress = token, on_progress
            params = progress.with_token(params, number)
        self._open.setdefault(session.id, {})[number] = asked
        if timeout > 0:
            asked.timer = self._ctx.after(timeout, lambda: self._expire(asked))
        line = envelope.request(number, envelope.quote(method), params)
        self._ctx.emit(ToSession(session.id, line, request=request))
        return asked

    def withdraw(self, asked: RequestToClient) -> None:
        """Nobody wants to know any more: tell the client, unless it has answered."""
        if self._take(asked.session, asked.number) is None or not asked.is_sent:
            return
        params = msgspec.json.encode({"requestId": asked.number})
        line = envelope.notification(b'"notifications/cancelled"', params)
        request = asked.request
        self._ctx.emit(ToSession(asked.session, line, is_notification=True, request=request))

    def hear_answer(self, session: Session, message: envelope.Message) -> None:
        """Pass on an answer, if this session owes one, or say that it cannot be read."""
        if message.id is UNSET:
            return
        result = None if message.result is UNSET else message.result
        error = None if message.error is UNSET else message.error
        if result is not None and error is not None:  # some libraries write one as null
            result = None if bytes(result) == b"null" else result
            error = None if bytes(error) == b"null" else error
        if result is None and error is None:
            return
        asked = self._take(session.id, _number_of(bytes(message.id)))
        if asked is None:
            return
        if error is None and envelope.object_of(result or b"") is not None:
            asked.then(result, None)
        else:
            is_error = result is None and error is not None and _is_error(error)
            asked.then(None, error if is_error else _UNREADABLE)

    def spoil(self, session: Session, ident: bytes) -> None:
        """An answer has come that could not be read, or not be kept."""
        asked = self._take(session.id, _number_of(ident))
        if asked is not None:
            asked.then(None, _UNREADABLE)

    def hear_progress(self, session: Session, params: Raw) -> None:
        """Pass on how far a client is with its answer."""
        found = envelope.params_of(params)
        if found is None or found.progress_token is UNSET:
            return
        number = progress.token_of(found.progress_token) or 0
        asked = self._open.get(session.id, {}).get(number)
        if asked is not None and asked.on_progress is not None and asked.token is not None:
            asked.on_progress(progress.restored(params, asked.token))

    def input_ended(self, session: Session) -> None:
        """Answer with an error what a client was asked that sends nothing more."""
        for asked in list(self._open.get(session.id, {}).values()):
            self._refuse(asked)

    def session_gone(self, session: Session) -> None:
        """Forget the requests to a session that is gone; their callers know that it is."""
        for number in list(self._open.get(session.id, {})):
            self._take(session.id, number)

    def _refuse(self, asked: RequestToClient) -> None:
        if self._take(asked.session, asked.number) is not None:
            asked.then(None, NO_INPUT)

    def _expire(self, asked: RequestToClient) -> None:
        self.withdraw(asked)
        asked.then(None, None)

    def _take(self, session: SessionId, number: int) -> RequestToClient | None:
        own = self._open.get(session, {})
        asked = own.pop(number, None)
        if asked is not None:
            if not own:
                del self._open[session]
            if asked.timer is not None:
                asked.timer.cancel()
        return asked


def _number_of(ident: bytes) -> int:
    return int(ident) if ident.isdigit() and len(ident) < 20 else 0


def _is_error(error: Raw) -> bool:
    """Tell whether this has the form of an error (JSON-RPC 2.0): servers take nothing else."""
    members = envelope.object_of(error) or {}
    code = bytes(members.get("code", b""))
    return (
        _INTEGER.match(code) is not None
        and envelope.text(members.get("message", UNSET)) is not None
    )


def _token_in(params: Raw | bytes) -> bytes | None:
    if b'"progressToken"' not in bytes(params):
        return None
    members = envelope.object_of(params) or {}
    meta = (envelope.object_of(members["_meta"]) if "_meta" in members else None) or {}
    return bytes(meta["progressToken"]) if "progressToken" in meta else None
