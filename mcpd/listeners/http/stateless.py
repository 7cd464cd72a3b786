"""Requests that stand alone: those of the modern revision, and those that name no session.

Each has a session of the core for itself, so that what is asked of or told to one client never
reaches another. It ends with the response, unless a call is parked: then the retry finds it by its
``requestState``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import UNSET, Raw

from mcpd.core.interface.commands import SessionState
from mcpd.core.mcp import codes, modern_meta
from mcpd.core.mcp.routing import parameters
from mcpd.core.mcp.versions import LEGACY
from mcpd.core.wire import envelope
from mcpd.core.wire.memory import Memory, Share
from mcpd.ids import SessionId
from mcpd.listeners.http.answering import Manner, StatusOf, answer
from mcpd.listeners.http.core import Core, Life
from mcpd.listeners.http.exchange import Exchange
from mcpd.listeners.http.keepalive import Keepalive
from mcpd.listeners.http.requests import routing
from mcpd.listeners.http.requests.guards import JSON, STREAM, Accepted
from mcpd.listeners.http.requests.messages import Batch, Invalid, Message, Request, Response
from mcpd.listeners.http.settings import HttpSettings
from mcpd.listeners.http.streams import Event, Line, Outbox, Outboxes
from mcpd.tokens import Token

OLDEST_HEADER: Final = "2025-03-26"
"""The revision of a request without a version header."""

_LISTING: Final = 1
_LISTING_KEY: Final = b"%d" % _LISTING

LISTEN: Final = "subscriptions/listen"

_BAD_REQUESTS: Final = frozenset(
    (
        codes.PARSE_ERROR,
        codes.INVALID_REQUEST,
        codes.INVALID_PARAMS,
        codes.HEADER_MISMATCH,
        codes.MISSING_CAPABILITY,
        codes.UNSUPPORTED_VERSION,
    )
)


def status_for_legacy(code: int) -> int:
    """Return the status of an error for scripts, which read it instead of the body."""
    if code in (codes.PARSE_ERROR, codes.INVALID_REQUEST, codes.INVALID_PARAMS):
        return 400
    return 404 if code == codes.RESOURCE_NOT_FOUND else 200


def status_for_modern(code: int) -> int:
    """Return the status of an error (2026-07-28, basic/transports, as the Python SDK reads it)."""
    if code == codes.METHOD_NOT_FOUND:
        return 404
    return 400 if code in _BAD_REQUESTS else 200


class _Lone:
    """Carries the session of one request, or of a parked call and its retries."""

    def __init__(self) -> None:
        self.outboxes: dict[bytes, Outbox] = {}
        """By the key of the request."""

    def deliver(self, line: Line, request: bytes | None, *, is_response: bool) -> None:
        """Queue a message of the request; what belongs to none is for nobody."""
        outbox = None if request is None else self.outboxes.get(request)
        if outbox is None or request is None:
            return
        outbox.put(Event(0, None, line, is_response))
        if is_response:
            outbox.close()
            del self.outboxes[request]

    def changed(self, state: SessionState) -> None:
        """Save nothing: no other daemon takes this session up."""

    def closed(self, reason: str) -> None:
        """End what is open."""
        del reason
        for outbox in self.outboxes.values():
            outbox.close()
        self.outboxes.clear()


class StatelessFront:
    """Serves requests that name no session."""

    def __init__(
        self,
        core: Core,
        settings: Callable[[], HttpSettings],
        memory: Memory,
        keepalive: Keepalive,
    ) -> None:
        self._core = core
        self._settings = settings
        self._memory = memory
        self._outboxes = Outboxes(memory)
        self._keepalive = keepalive
        self._carriers: dict[SessionId, _Lone] = {}

    # -- handshake revisions -----------------------------------------------------------------------

    async def post_legacy(
        self,
        exchange: Exchange,
        token: Token | None,
        server: str | None,
        message: Message,
        body: bytes,
    ) -> None:
        """Serve a request without a session, under the revision of its header.

        Raises:
            Invalid: the client's fault.
        """
        if isinstance(message, Batch):
            raise Invalid(codes.INVALID_REQUEST, "an array of messages needs a session")
        if not isinstance(message, Request):
            await exchange.reply(202)
            return
        accepted = Accepted(exchange.headers.joined("accept"))
        if not (accepted.json and accepted.stream):
            why = f"Accept must list {JSON} and {STREAM}"
            error = codes.plain_error(codes.INVALID_REQUEST, why, {"accept": [JSON, STREAM]})
            await exchange.reply_error(400, error)
            return
        version = exchange.headers.get(routing.VERSION) or OLDEST_HEADER
        state = SessionState(version=version if version in LEGACY else OLDEST_HEADER)
        await self._answer(
            exchange, token, server, message, body, accepted, status_for_legacy, state
        )

    # -- the modern revision -----------------------------------------------------------------------

    async def post_modern(
        self,
        exchange: Exchange,
        token: Token | None,
        server: str | None,
        message: Message,
        body: bytes,
    ) -> None:
        """Serve a request of 2026-07-28.

        Raises:
            Invalid: the client's fault: the first rule of the ladder that the request breaks.
        """
        if isinstance(message, Batch | Response):
            raise Invalid(codes.INVALID_REQUEST, "a message is a request or a notification")
        if not isinstance(message, Request):
            await exchange.reply(202)  # strangers could cancel by id, so nothing is done
            return
        ident, params = message.ident, message.params
        version = version_of(message)
        members = envelope.object_of(params.meta) if params.meta is not UNSET else None
        declared = (members or {}).get(modern_meta.CAPABILITIES_KEY, UNSET)
        if version is None or declared is UNSET or envelope.object_of(declared) is None:
            why = f"_meta needs {modern_meta.VERSION_KEY} and {modern_meta.CAPABILITIES_KEY}"
            raise Invalid(codes.INVALID_PARAMS, why, ident)
        wrong = routing.disagreement(exchange.headers, version, message.method, params)
        if wrong is None and message.method == "tools/call":
            name = envelope.text(params.name) or ""
            schema = self._core.tool_schema(token, server, name)
            if schema is None and members is not None:
                await self._have_listed(token, server, members)
                schema = self._core.tool_schema(token, server, name)
            wanted = parameters(schema) or {}
            wrong = routing.parameter_disagreement(exchange.headers, wanted, params.arguments)
        if wrong is not None:
            raise Invalid(codes.HEADER_MISMATCH, wrong, ident)
        accepted = Accepted(exchange.headers.joined("accept"))
        if message.method == LISTEN:
            accepted.json = False
        if not accepted.json and not accepted.stream:
            await exchange.reply_json(406, {"error": "Not Acceptable"})
            return
        await self._answer(exchange, token, server, message, body, accepted, status_for_modern)

    async def _have_listed(
        self, token: Token | None, server: str | None, meta: dict[str, Raw]
    ) -> None:
        """Have the tools listed, so that the headers of a call can be checked.

        A server that has never run is started; its call would start it, too.
        """
        outbox = Outbox(self._settings().max_outbox_bytes, Share(self._memory))
        carrier = _Lone()
        carrier.outboxes[_LISTING_KEY] = outbox
        session = self._core.open(token, server, carrier, life=Life.REQUEST)
        self._carriers[session] = carrier
        kept = {name: value for name, value in meta.items() if name != "progressToken"}
        params = b'{"_meta":%b}' % envelope.object_from(kept)
        self._core.take(session, envelope.request(_LISTING, b'"tools/list"', params))
        try:
            while await outbox.get() is not None:
                pass
        finally:
            self._core.close(session, "its tools are listed")

    # -- both --------------------------------------------------------------------------------------

    async def _answer(
        self,
        exchange: Exchange,
        token: Token | None,
        server: str | None,
        request: Request,
        body: bytes,
        accepted: Accepted,
        status_of: StatusOf,
        state: SessionState | None = None,
    ) -> None:
        settings = self._settings()
        manner = Manner(accepted, settings.json_wait, status_of)
        with self._outboxes.opened(settings.max_outbox_bytes, exchange.abort) as outbox:
            session, carrier = self._session_for(token, server, request, state)
            carrier.outboxes[request.key] = outbox
            exchange.when_lost(outbox.drop, outbox.drop)
            self._core.take(session, body)
            await answer(exchange, outbox, manner, self._keepalive)
            if carrier.outboxes.pop(request.key, None) is not None:  # it got no response
                self._core.take(session, _cancellation(request.ident))
            if not carrier.outboxes:
                self._core.release(session)

    def _session_for(
        self, token: Token | None, server: str | None, request: Request, state: SessionState | None
    ) -> tuple[SessionId, _Lone]:
        """Return the session whose call is retried, else a new one."""
        handle = envelope.text(request.params.state)
        parked = None if handle is None else self._core.parked(token, server, handle)
        if parked is not None and parked in self._carriers:
            carrier = self._carriers[parked]
            if request.key not in carrier.outboxes:
                return parked, carrier
        carrier = _Lone()
        session = self._core.open(token, server, carrier, state, life=Life.REQUEST)
        self._carriers[session] = carrier
        return session, carrier

    def closed(self, session: SessionId) -> None:
        """Forget a session that has ended."""
        self._carriers.pop(session, None)


def version_of(request: Request) -> str | None:
    """Return the protocol version that a request names in ``_meta``."""
    meta = request.params.meta
    members = envelope.object_of(meta) if meta is not UNSET else None
    return envelope.text((members or {}).get(modern_meta.VERSION_KEY, UNSET))


def _cancellation(ident: bytes) -> bytes:
    params = b'{"requestId":%b,"reason":"its client has hung up"}' % ident
    return envelope.notification(b'"notifications/cancelled"', params)
