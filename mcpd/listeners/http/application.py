"""The ASGI application: each request passes the guards, in their order, to its endpoint.

The order is Host, Origin, token, path, method, headers, body. Every response is JSON or an event
stream.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from typing import Final

from mcpd.core.mcp import codes
from mcpd.core.mcp.versions import LEGACY, MODERN
from mcpd.core.wire.memory import Memory, Share
from mcpd.listeners.http.core import Core
from mcpd.listeners.http.exchange import (
    Disconnected,
    Exchange,
    NoRoom,
    Receive,
    Scope,
    Send,
    TooLarge,
)
from mcpd.listeners.http.legacy import LAST_EVENT, SESSION, LegacyFront
from mcpd.listeners.http.old_sse import OldFront
from mcpd.listeners.http.requests import guards, messages, paths, routing
from mcpd.listeners.http.requests.messages import Batch, Invalid, Message, Request
from mcpd.listeners.http.requests.paths import Endpoint, Place
from mcpd.listeners.http.settings import HttpSettings
from mcpd.listeners.http.stateless import StatelessFront, version_of
from mcpd.tokens import Token

MOST_IN_FLIGHT: Final = 100
"""Requests of one token, streams of unasked messages and listens not counted."""

_PROBED: Final = (b"/.well-known/", b"/register")
"""Where clients look for OAuth; they are told that there is none."""

_STREAMING: Final = "subscriptions/listen"

_SINGLE: Final = ("content-type", SESSION, LAST_EVENT)
"""Headers of which a proxy might read another than we do, were there two."""


class Application:
    """Takes every request of every address."""

    def __init__(
        self,
        core: Core,
        settings: Callable[[], HttpSettings],
        memory: Memory,
        find_token: Callable[[str], Token | None],
        refused: Callable[[], None],
        *,
        legacy: LegacyFront,
        stateless: StatelessFront,
        old: OldFront,
    ) -> None:
        """``find_token`` returns the token of a text; ``refused`` is told of a wrong one."""
        self._core = core
        self._settings = settings
        self._memory = memory
        self._find_token = find_token
        self._refused = refused
        self._legacy = legacy
        self._stateless = stateless
        self._old = old
        self._in_flight: Counter[str | None] = Counter()
        self._arriving: dict[str | None, Share] = {}
        """Where the bodies that arrive are counted, by token."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        exchange = Exchange(scope, receive, send)
        is_done = False
        try:
            await self._answer(exchange)
            is_done = True
        finally:  # a bug of ours: uvicorn logs it, and its own answer would be no JSON
            if not (is_done or exchange.has_started):
                await exchange.reply_json(500, {"error": "Internal Server Error"})

    async def _answer(self, exchange: Exchange) -> None:
        with contextlib.suppress(Disconnected):
            try:
                await self._serve(exchange)
            except Invalid as problem:
                await exchange.reply_error(400, problem.error, problem.ident)
            except TooLarge:
                most = self._settings().max_request_bytes
                why = f"the request has more than {most} bytes (max_request_bytes)"
                await exchange.reply_json(413, {"error": "Content Too Large", "message": why})
            except NoRoom:
                why = "there is no memory for this request now (max_buffered_bytes)"
                await exchange.reply_json(
                    503,
                    {"error": "Service Unavailable", "message": why},
                    [(b"Retry-After", b"1")],
                )

    # -- guards ------------------------------------------------------------------------------------

    async def _serve(self, exchange: Exchange) -> None:
        settings, headers = self._settings(), exchange.headers
        host = headers.get("host")
        if headers.count("host") > 1 or not guards.is_our_host(host, settings.allowed_hosts):
            why = "this name is not ours; `allowed_hosts` in the table `http` lists others"
            await exchange.reply_json(421, {"error": "Misdirected Request", "message": why})
            return
        origin = headers.get("origin")
        if origin is not None:
            if headers.count("origin") > 1 or not guards.is_our_origin(
                origin, host or "", settings.allowed_origins
            ):
                why = (
                    "pages of this origin may not; `allowed_origins` in the table `http` lists them"
                )
                await exchange.reply_json(403, {"error": "Forbidden", "message": why})
                return
            exchange.extra = [
                (b"Access-Control-Allow-Origin", origin.encode("latin-1")),
                (b"Access-Control-Expose-Headers", guards.EXPOSED_HEADERS),
                (b"Vary", b"Origin"),
            ]
            if exchange.method == "OPTIONS":
                asked = headers.joined("access-control-request-headers")
                await exchange.reply(204, headers=guards.preflight(asked))
                return
        endpoint = paths.find(exchange.raw_path)
        if endpoint is not None and endpoint.place is Place.HEALTH:
            await self._health(exchange)
            return
        if exchange.raw_path.startswith(_PROBED):
            await exchange.reply_json(404, {"error": "Not Found"})
            return
        token: Token | None = None
        if settings.needs_token:
            is_one = headers.count("authorization") == 1
            text = guards.bearer(headers.get("authorization")) if is_one else None
            token = None if text is None else self._find_token(text)
            if token is None:
                self._refused()
                await exchange.reply_json(
                    401, {"error": "Unauthorized"}, [(b"WWW-Authenticate", b"Bearer")]
                )
                return
        if endpoint is None:
            await exchange.reply_json(404, {"error": "Not Found"})
        elif exchange.method not in paths.METHODS[endpoint.place]:
            await self._not_allowed(exchange, *paths.METHODS[endpoint.place])
        elif twice := [name for name in _SINGLE if headers.count(name) > 1]:
            why = f"the header {twice[0]} was sent twice"
            await exchange.reply_json(400, {"error": "Bad Request", "message": why})
        else:
            await self._serve_endpoint(exchange, endpoint, token)

    async def _health(self, exchange: Exchange) -> None:
        if exchange.method in paths.METHODS[Place.HEALTH]:
            await exchange.reply_json(200, {"status": "ok"})
        else:
            await self._not_allowed(exchange, *paths.METHODS[Place.HEALTH])

    async def _not_allowed(self, exchange: Exchange, *methods: str) -> None:
        allow = [(b"Allow", ", ".join(methods).encode())]
        await exchange.reply_json(405, {"error": "Method Not Allowed"}, allow)

    # -- endpoints ---------------------------------------------------------------------------------

    async def _serve_endpoint(
        self, exchange: Exchange, endpoint: Endpoint, token: Token | None
    ) -> None:
        server = endpoint.server
        if endpoint.place is Place.MESSAGES:
            body = await self._body(exchange, token)
            if body is not None:
                await self._old.post(exchange, token, server or "", body)
            return
        unknown = None if server is None else self._core.refusal(token, server)
        if exchange.method == "POST":
            await self._post(exchange, endpoint, token, unknown)
        elif unknown is not None:
            await exchange.reply_error(404, unknown)
        elif endpoint.place is Place.SSE:
            await self._old.get(exchange, token, server)
        else:
            await self._serve_session(exchange, token, server)

    async def _serve_session(
        self, exchange: Exchange, token: Token | None, server: str | None
    ) -> None:
        """Serve a GET or DELETE, which only sessions of the handshake revisions have."""
        is_named = exchange.headers.get(SESSION) is not None
        is_get = exchange.method == "GET"
        if _is_modern(exchange.headers.get(routing.VERSION)) or (is_get and not is_named):
            await self._not_allowed(exchange, "POST")
        elif not is_named:
            why = f"the header {SESSION} is missing"
            await exchange.reply_json(400, {"error": "Bad Request", "message": why})
        elif is_get:
            await self._legacy.get(exchange, token, server)
        else:
            await self._legacy.delete(exchange, token, server)

    async def _post(
        self,
        exchange: Exchange,
        endpoint: Endpoint,
        token: Token | None,
        unknown: bytes | None,
    ) -> None:
        body = await self._body(exchange, token)
        if body is None:
            return
        server = endpoint.server
        if unknown is not None:
            await exchange.reply_error(404, unknown, _ident_of(body))
            return
        version = exchange.headers.get(routing.VERSION)
        message = messages.read(body)
        named = version_of(message) if isinstance(message, Request) else None
        if exchange.headers.count(routing.VERSION) > 1:
            ident = message.ident if isinstance(message, Request) else None
            why = f"the header {routing.VERSION} was sent twice"
            raise Invalid(codes.HEADER_MISMATCH, why, ident)
        if version is None or version in LEGACY:
            if isinstance(message, Request) and named in MODERN:
                why = f"the header {routing.VERSION} must repeat the request's protocol version"
                raise Invalid(codes.HEADER_MISMATCH, why, message.ident)
            serve = self._post_legacy
        else:
            serve = self._stateless.post_modern
        count = _count_of(message)
        if not count:
            await serve(exchange, token, server, message, body)
            return
        if count > MOST_IN_FLIGHT:
            why = f"an array of more than {MOST_IN_FLIGHT} messages"
            raise Invalid(codes.INVALID_REQUEST, why)
        name = None if token is None else token.name
        if self._in_flight[name] + count > MOST_IN_FLIGHT:
            await self._busy(exchange)
            return
        self._in_flight[name] += count
        try:
            await serve(exchange, token, server, message, body)
        finally:
            self._in_flight[name] -= count
            if not self._in_flight[name]:
                del self._in_flight[name]

    async def _post_legacy(
        self,
        exchange: Exchange,
        token: Token | None,
        server: str | None,
        message: Message,
        body: bytes,
    ) -> None:
        if exchange.headers.get(SESSION) is not None:
            await self._legacy.post(exchange, token, server, message, body)
        elif isinstance(message, Request) and message.method == "initialize":
            await self._legacy.initialize(exchange, token, server, message, body)
        else:
            await self._stateless.post_legacy(exchange, token, server, message, body)

    async def _body(self, exchange: Exchange, token: Token | None) -> bytes | None:
        """Read the body of a POST; ``None`` where its type was refused."""
        if not guards.is_json(exchange.headers.get("content-type")):
            why = f"Content-Type must be {guards.JSON}"
            await exchange.reply_json(415, {"error": "Unsupported Media Type", "message": why})
            return None
        name = None if token is None else token.name
        share = self._arriving.setdefault(name, Share(self._memory))
        try:
            return await exchange.body(self._settings().max_request_bytes, share)
        finally:
            if not share.kept_bytes and self._arriving.get(name) is share:
                del self._arriving[name]

    async def _busy(self, exchange: Exchange) -> None:
        why = f"{MOST_IN_FLIGHT} requests of this token are in flight"
        headers = [(b"Retry-After", b"1")]
        await exchange.reply_json(429, {"error": "Too Many Requests", "message": why}, headers)


def _is_modern(version: str | None) -> bool:
    return version is not None and version not in LEGACY


def _count_of(message: Message) -> int:
    """Return how many requests in flight a message counts as; an array counts its elements."""
    if isinstance(message, Batch):
        return len(message.elements)
    return int(isinstance(message, Request) and message.method != _STREAMING)


def _ident_of(body: bytes) -> bytes | None:
    try:
        message = messages.read(body)
    except Invalid as problem:
        return problem.ident
    return message.ident if isinstance(message, Request) else None
