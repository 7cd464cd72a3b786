"""Streamable HTTP of the handshake revisions: POST, GET and DELETE on sessions (2025-03-26 on)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mcpd.core.mcp import codes
from mcpd.core.mcp.versions import HAS_BATCHES
from mcpd.core.wire.memory import Memory, Share
from mcpd.listeners.http.answering import Manner, answer
from mcpd.listeners.http.core import Core, Life
from mcpd.listeners.http.exchange import Exchange
from mcpd.listeners.http.keepalive import Keepalive
from mcpd.listeners.http.requests import messages
from mcpd.listeners.http.requests.guards import Accepted
from mcpd.listeners.http.requests.messages import Batch, Message, Notification, Request, Response
from mcpd.listeners.http.sessions import HttpSession, Sessions, digest_of, new_id
from mcpd.listeners.http.settings import HttpSettings
from mcpd.listeners.http.streams import Outbox, parse_event_id, retry
from mcpd.tokens import Token

SESSION: Final = "mcp-session-id"
LAST_EVENT: Final = "last-event-id"

PRIMES: Final = "2025-11-25"
"""The first revision whose clients take an event without data, and come back to a closed stream."""

_STREAM_ALONE: Final = Accepted("text/event-stream")
_SWEEP_S: Final = 30.0
_NO_SESSION: Final = "there is no such session: send initialize again"


class LegacyFront:
    """Serves sessions; it owns them, and closes those that nobody uses."""

    def __init__(
        self,
        core: Core,
        settings: Callable[[], HttpSettings],
        memory: Memory,
        keepalive: Keepalive,
        saved: Callable[[HttpSession], None],
        removed: Callable[[HttpSession], None],
        life: str,
    ) -> None:
        """``saved`` writes a session down for the next daemon, ``removed`` takes it out again.

        ``life`` stands for this daemon in event ids: eight hexadecimal digits.
        """
        self.sessions: Final = Sessions()
        self._core = core
        self._settings = settings
        self._memory = memory
        self._keepalive = keepalive
        self._saved = saved
        self._removed = removed
        self._life = life
        self._sweep: asyncio.TimerHandle | None = None

    # -- POST --------------------------------------------------------------------------------------

    async def initialize(
        self,
        exchange: Exchange,
        token: Token | None,
        server: str | None,
        request: Request,
        body: bytes,
    ) -> None:
        """Open a session, and answer with its id."""
        if not self._make_room():
            await exchange.reply_json(503, {"error": "Too Many Sessions"}, [(b"Retry-After", b"5")])
            return
        ident = new_id()
        session = self._new(digest_of(ident), token, server)
        self.sessions.add(session)
        session.core = self._core.open(token, server, session, life=Life.KEPT)
        headers = [(b"Mcp-Session-Id", ident.encode())]
        await self._answer(exchange, session, (request.key,), body, request.ident, headers)
        if session.has_failed:
            self.end(session, "initialize failed")

    async def post(
        self,
        exchange: Exchange,
        token: Token | None,
        server: str | None,
        message: Message,
        body: bytes,
    ) -> None:
        """Answer a POST that names a session."""
        session = self._find(exchange, token, server)
        if session is None:
            if isinstance(message, Request) and message.method == "initialize":
                await self.initialize(exchange, token, server, message, body)
                return
            ident = message.ident if isinstance(message, Request) else None
            error = codes.plain_error(codes.INVALID_REQUEST, _NO_SESSION)
            await exchange.reply_error(404, error, ident)
            return
        match message:
            case Request(method="initialize"):
                await self._refuse(exchange, "the session is initialized already", message.ident)
            case Request() if session.has_request(message.key):
                why = "a request with this id is in flight already"
                await self._refuse(exchange, why, message.ident)
            case Request():
                await self._answer(exchange, session, (message.key,), body, message.ident)
            case Batch():
                await self._post_batch(exchange, session, message, body)
            case Notification(method=method) if method == messages.CANCELLED:
                self._take(session, body)
                session.give_up(messages.cancelled(body))
                await exchange.reply(202)
            case Notification() | Response():
                self._take(session, body)
                await exchange.reply(202)

    async def _post_batch(
        self, exchange: Exchange, session: HttpSession, batch: Batch, body: bytes
    ) -> None:
        version = None if session.state is None else session.state.version
        if version != HAS_BATCHES:
            why = f"an array of messages, which revision {HAS_BATCHES} alone has"
            await self._refuse(exchange, why)
            return
        keys, cancelled = messages.keys_of(batch)
        if any(session.has_request(key) for key in keys):
            await self._refuse(exchange, "a request with this id is in flight already")
        elif keys:
            await self._answer(exchange, session, keys, body, cancelled=cancelled)
        else:
            self._take(session, body)
            session.give_up(cancelled)
            await exchange.reply(202)

    async def _answer(
        self,
        exchange: Exchange,
        session: HttpSession,
        keys: tuple[bytes, ...],
        body: bytes,
        ident: bytes | None = None,
        headers: list[tuple[bytes, bytes]] | None = None,
        cancelled: tuple[bytes, ...] = (),
    ) -> None:
        accepted = Accepted(exchange.headers.joined("accept"))
        if not accepted.json and not accepted.stream:
            await exchange.reply_json(406, {"error": "Not Acceptable"})
            if headers is not None:
                self.end(session, "nothing was accepted")
            return
        settings = self._settings()
        if settings.json_wait <= 0 and accepted.stream:
            accepted = _STREAM_ALONE
        outbox = Outbox(settings.max_outbox_bytes, session.share, exchange.abort)
        stream = session.begin(keys, outbox, ident)
        exchange.when_lost(outbox.drop)
        self._take(session, body)
        session.give_up(cancelled)
        if session.has_failed and headers is not None:
            headers = []
        primes = _primes(session)

        async def unanswered() -> None:
            if session.is_over:
                error = codes.plain_error(codes.INVALID_REQUEST, _NO_SESSION)
                await exchange.reply_error(404, error, ident)
            else:  # it was cancelled
                await exchange.reply(202, headers=headers or ())

        manner = Manner(
            accepted,
            settings.json_wait,
            headers=headers or (),
            prime=stream.prime if primes else None,
            unanswered=unanswered,
            lifetime=settings.stream_lifetime if primes else 0.0,
        )
        session.carry(stream, outbox)
        try:
            was_json = await answer(exchange, outbox, manner, self._keepalive)
        finally:
            session.carried(stream, outbox)
        if was_json:
            session.forget(stream)

    # -- GET and DELETE ----------------------------------------------------------------------------

    async def get(self, exchange: Exchange, token: Token | None, server: str | None) -> None:
        """Send the stream of unasked messages, or the rest of the one that is resumed."""
        session = self._find(exchange, token, server)
        if session is None:
            await self._unknown(exchange)
            return
        if not Accepted(exchange.headers.joined("accept")).stream:
            await exchange.reply_json(406, {"error": "Not Acceptable"})
            return
        stream, after = session.unasked, None
        last = exchange.headers.get(LAST_EVENT)
        if last is not None:
            event = parse_event_id(last)
            resumed = None if event is None else session.resumed(event)
            if event is None or resumed is None:
                await exchange.reply_json(404, {"error": "Unknown Event"})
                return
            stream, after = resumed, event.number if event.life == self._life else None
        settings = self._settings()
        outbox = Outbox(settings.max_outbox_bytes, session.share, exchange.abort)
        exchange.when_lost(outbox.drop, outbox.drop)
        stream.attach(outbox, after)
        if stream.ended_at is not None:
            stream.detach(outbox)
            outbox.close()
        primes = _primes(session)
        manner = Manner(
            _STREAM_ALONE,
            0.0,
            prime=stream.prime if last is None and primes else None,
            lifetime=settings.stream_lifetime if primes else 0.0,
        )
        session.carry(stream, outbox)
        try:
            await answer(exchange, outbox, manner, self._keepalive)
        finally:
            session.carried(stream, outbox)

    async def delete(self, exchange: Exchange, token: Token | None, server: str | None) -> None:
        """End a session."""
        session = self._find(exchange, token, server)
        if session is None:
            await self._unknown(exchange)
            return
        self.end(session, "its client ended it")
        await exchange.reply(204)

    async def _unknown(self, exchange: Exchange) -> None:
        error = codes.plain_error(codes.INVALID_REQUEST, _NO_SESSION)
        await exchange.reply_error(404, error)

    async def _refuse(self, exchange: Exchange, why: str, ident: bytes | None = None) -> None:
        error = codes.plain_error(codes.INVALID_REQUEST, why)
        await exchange.reply_error(400, error, ident)

    # -- the life of a session ---------------------------------------------------------------------

    def restore(self, session: HttpSession) -> None:
        """Take in a session of an earlier daemon; it is opened at its first request."""
        self.sessions.add(session)
        self._arm()

    def new(self, digest: str, token: str | None, server: str | None) -> HttpSession:
        """Make a session that is not in the core yet."""
        settings = self._settings()
        return HttpSession(
            digest,
            token,
            server,
            Share(self._memory),
            life=self._life,
            replay_events=settings.replay_events,
            now=asyncio.get_running_loop().time,
            changed=self._saved,
            over=self._give_way,
        )

    def end(self, session: HttpSession, reason: str) -> None:
        """End a session: its requests are cancelled, and its streams end."""
        self.sessions.remove(session)
        self._removed(session)
        core, session.core = session.core, None
        if core is not None:
            self._core.close(core, reason)
        session.closed(reason)

    def end_of_token(self, name: str) -> None:
        """End the sessions of a token that is valid no more."""
        for session in list(self.sessions):
            if session.token == name:
                self.end(session, "its token was revoked, or has expired")

    def drain(self, *, unasked_only: bool = False) -> None:
        """End every stream, saying when to come back; the sessions go on with the next daemon.

        With ``unasked_only`` those of requests go on until these have their responses.
        """
        for session in list(self.sessions):
            session.drain(retry(), unasked_only=unasked_only)

    def let_go(self, reason: str) -> None:
        """Have the core forget every session; each is taken up again at its next request."""
        for session in list(self.sessions):
            core, session.core = session.core, None
            if core is not None:
                self._core.close(core, reason)

    def close(self) -> None:
        """Stop looking for sessions that nobody uses."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    def _new(self, digest: str, token: Token | None, server: str | None) -> HttpSession:
        self._arm()
        return self.new(digest, None if token is None else token.name, server)

    def _find(
        self, exchange: Exchange, token: Token | None, server: str | None
    ) -> HttpSession | None:
        """Return the session that a request names, opened in the core."""
        ident = exchange.headers.get(SESSION)
        session = None if ident is None else self.sessions.find(ident, token, server)
        if session is not None:
            self._use(session)
            if session.core is None:
                session.core = self._core.open(
                    token, server, session, session.state, life=Life.KEPT, lists=session.lists
                )
        return session

    def _use(self, session: HttpSession) -> None:
        session.used_at = asyncio.get_running_loop().time()

    def _take(self, session: HttpSession, body: bytes) -> None:
        if session.core is not None:
            self._core.take(session.core, body)

    def _make_room(self) -> bool:
        """Tell whether one more session may be opened; close the one that is needed least."""
        if len(self.sessions) < self._settings().max_sessions:
            return True
        least = self.sessions.least_needed()
        if least is None:
            return False
        self.end(least, "another session needed its place (max_sessions)")
        return True

    def _give_way(self) -> None:
        """Have the sessions that hold the most hold less, until all together hold no more than
        they may."""
        memory = self._memory
        while memory.kept_bytes > memory.most_bytes:
            largest = max(self.sessions, key=lambda each: each.share.kept_bytes, default=None)
            if largest is None or largest.share.kept_bytes <= memory.free_bytes:
                return
            largest.give_way()

    def _arm(self) -> None:
        if self._sweep is None:
            idle = self._settings().session_idle or _SWEEP_S
            wait = min(_SWEEP_S, idle / 2)
            self._sweep = asyncio.get_running_loop().call_later(wait, self._sweep_all)

    def _sweep_all(self) -> None:
        """Close the sessions that were idle for too long, and forget streams that have ended."""
        self._sweep = None
        idle, now = self._settings().session_idle, asyncio.get_running_loop().time()
        for session in list(self.sessions):
            session.prune()
            if idle > 0 and not session.is_in_use and now >= session.used_at + idle:
                self.end(session, "it was idle (session_idle)")
        if len(self.sessions):
            self._arm()


def _primes(session: HttpSession) -> bool:
    version = None if session.state is None else session.state.version
    return version is not None and version >= PRIMES
