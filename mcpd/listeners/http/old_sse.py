"""HTTP+SSE of 2024-11-05: one stream that announces the address to POST to."""

from __future__ import annotations

from collections.abc import Callable

from mcpd.core.interface.commands import SessionState
from mcpd.core.mcp import codes
from mcpd.core.wire.memory import Memory
from mcpd.ids import SessionId
from mcpd.listeners.http.answering import Manner, answer
from mcpd.listeners.http.core import Core
from mcpd.listeners.http.exchange import Exchange
from mcpd.listeners.http.keepalive import Keepalive
from mcpd.listeners.http.requests import messages
from mcpd.listeners.http.requests.guards import STREAM, Accepted
from mcpd.listeners.http.sessions import digest_of, new_id
from mcpd.listeners.http.settings import HttpSettings
from mcpd.listeners.http.streams import Event, Line, Outbox, Outboxes, retry
from mcpd.tokens import Token


class _Old:
    """One such session: everything goes to its stream, and it ends with that."""

    def __init__(self, token: str | None, outbox: Outbox) -> None:
        self.token = token
        self.outbox = outbox
        self.core: SessionId | None = None

    def deliver(self, line: Line, request: bytes | None, *, is_response: bool) -> None:
        """Queue a message."""
        del request
        self.outbox.put(Event(0, None, line, is_response))

    def changed(self, state: SessionState) -> None:
        """Save nothing: the client opens another stream."""

    def closed(self, reason: str) -> None:
        """End the stream."""
        del reason
        self.outbox.close()


class OldFront:
    """Serves clients that know no other way."""

    def __init__(
        self,
        core: Core,
        settings: Callable[[], HttpSettings],
        memory: Memory,
        keepalive: Keepalive,
    ) -> None:
        self._core = core
        self._settings = settings
        self._outboxes = Outboxes(memory)
        self._keepalive = keepalive
        self._sessions: dict[str, _Old] = {}

    async def get(self, exchange: Exchange, token: Token | None, server: str | None) -> None:
        """Open a session; it ends with this stream."""
        if not Accepted(exchange.headers.joined("accept")).stream:
            await exchange.reply_json(406, {"error": "Not Acceptable"})
            return
        ident = new_id()
        with self._outboxes.opened(self._settings().max_outbox_bytes, exchange.abort) as outbox:
            session = _Old(None if token is None else token.name, outbox)
            session.core = self._core.open(token, server, session)
            self._sessions[digest_of(ident)] = session
            exchange.when_lost(outbox.drop, outbox.drop)
            outbox.put(b"event: endpoint\ndata: /messages/%b\n\n" % ident.encode())
            try:
                await answer(exchange, outbox, Manner(Accepted(STREAM), 0.0), self._keepalive)
            finally:
                del self._sessions[digest_of(ident)]
                self._core.close(session.core, "its client hung up")

    async def post(self, exchange: Exchange, token: Token | None, ident: str, body: bytes) -> None:
        """Take a message; its answer comes on the stream.

        Raises:
            Invalid: the client's fault: the body is no message.
        """
        session = self._sessions.get(digest_of(ident))
        if session is None or session.token != (None if token is None else token.name):
            error = codes.plain_error(codes.INVALID_REQUEST, "there is no such session")
            await exchange.reply_error(404, error)
            return
        messages.read(body)
        if session.core is not None:
            self._core.take(session.core, body)
        await exchange.reply(202)

    def drain(self) -> None:
        """End every stream, saying when to come back."""
        for session in list(self._sessions.values()):
            session.outbox.close(retry())
