"""One message that is posted to a server, and what comes back for it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, Protocol

from mcpd.core.facts import Failure
from mcpd.core.mcp.routing import Routing
from mcpd.core.wire.framing import Frame, Oversized
from mcpd.upstreams.http import bodies, failures
from mcpd.upstreams.http.authorizer import CannotAuthorize
from mcpd.upstreams.http.client import Response
from mcpd.upstreams.http.endpoint import Endpoint
from mcpd.upstreams.http.failures import Unreachable
from mcpd.upstreams.http.oldsse import OldStream
from mcpd.upstreams.http.streams import RETRY_S, EventReader, Unending, message_of

ERROR_BODY_BYTES: Final = 64 * 1024
"""How much is read of a body that is no answer."""

CLOSING_S: Final = 0.5
"""For a server to end a stream after its last message, so that the connection can be kept."""

FAULT_S: Final = 0.2
"""For a gateway to recover, before a request that it failed is sent once more."""

RESUMES_MOST: Final = 20
"""How often a stream is resumed that brings nothing."""

_FALLBACK: Final = (400, 404, 405)
"""What a server answers to ``initialize`` that has HTTP+SSE alone."""

_STRAY: Final = 4096
"""Bytes of a body that nobody expects, which are read so that the connection can be kept."""


class Channel(Protocol):
    """What an exchange reports."""

    max_message_bytes: int
    old: OldStream | None

    def deliver(self, frame: Frame | Oversized) -> None:
        """Take a message of the server."""

    def failed(self, wire_id: int, failure: Failure, *, may_repeat: bool = False) -> None:
        """Note that a request will get no answer; harmless where it has one."""

    def forgotten(self, wire_id: int) -> None:
        """Note that the server does not know the session, and has not served the request."""

    def lost(self, wire_id: int, failure: Failure) -> None:
        """Note that the server can not be used any more, and has not read the request."""

    async def fall_back(self) -> bool:
        """Use HTTP+SSE from now on, where the server has it; tell whether it has."""


class Exchange:
    """One POST: a request of ours, or any other message, whose ``wire_id`` is 0."""

    def __init__(
        self,
        endpoint: Endpoint,
        channel: Channel,
        data: bytes,
        wire_id: int,
        routing: Routing | None,
    ) -> None:
        self.wire_id = wire_id
        self.is_sent = False
        """Whether the server may have read some of it."""
        self.is_opening = False
        """Whether messages after it wait until it is answered."""
        self.size_bytes = len(data)
        self._endpoint = endpoint
        self._channel = channel
        self._data = data
        self._routing = routing
        self._reader: EventReader | None = None

    @property
    def method(self) -> str:
        """The method of a request, empty for any other message."""
        return "" if self._routing is None else self._routing.method

    def unfinished(self) -> tuple[bytes, int]:
        """Return the beginning of the event that is being read, and its bytes so far."""
        return (b"", 0) if self._reader is None else self._reader.unfinished()

    async def run(self) -> None:
        """Send the message and deliver what comes back."""
        server = self._endpoint.server
        try:
            await self._run()
        except CannotAuthorize as problem:
            self._refused(problem.failure)
        except Unreachable as problem:
            failure = failures.unreachable(server, problem)
            if problem.is_sent:
                self._channel.failed(self.wire_id, failure, may_repeat=True)
            else:
                self._channel.lost(self.wire_id, failure)

    def _refused(self, failure: Failure) -> None:
        if failure.kind == "forbidden":
            self._channel.failed(self.wire_id, failure)
        else:
            self._channel.lost(self.wire_id, failure)

    async def _run(self) -> None:
        endpoint = self._endpoint
        response = await endpoint.post(self._data, self._routing, sending=self._sending, key=self)
        try:
            if self.method != "initialize" and await endpoint.is_session_lost(response):
                self._channel.forgotten(self.wire_id)
            elif not self.wire_id or (response.status < 300 and self._channel.old is not None):
                await response.beginning(_STRAY)  # the answer comes on the stream, if there is one
            elif 200 <= response.status < 300:
                await self._answered(response)
            else:
                await self._refusal(response)
        finally:
            response.close()

    def _sending(self, is_sent: bool) -> None:
        self.is_sent = is_sent

    # -- answers -----------------------------------------------------------------------------------

    async def _answered(self, response: Response) -> None:
        endpoint, kind = self._endpoint, response.type
        if self.method == "initialize":
            endpoint.session_id = _visible(response.headers.get("Mcp-Session-Id", ""))
        if kind.is_stream:
            await self._stream(response)
        elif kind.is_json:
            await self._json(response)
        else:
            what = "answered with nothing"
            if kind.name and await response.beginning(1):
                what = f"answered with {kind.name} and not with JSON: is url in its entry right?"
            failure = failures.no_answer(endpoint.server, f"{what} (HTTP {response.status})")
            self._channel.failed(self.wire_id, failure)

    async def _json(self, response: Response) -> None:
        most, body = self._channel.max_message_bytes, bytearray()
        size = response.length or 0
        async for piece in response.pieces():
            body += piece
            if len(body) > most:
                size = max(size, len(body))
                self._channel.deliver(bodies.oversized(self.wire_id, size))
                return
        message: Frame = bodies.to_utf8(body, response.type.charset)
        message = bodies.one_line(message)
        if bodies.response_id(message) in (b"", b"null"):
            message = bodies.error_with_id(message, self.wire_id) or message
        if message.strip():
            self._channel.deliver(message if len(message) > bodies.PIECE_BYTES else bytes(message))
        why = f"answered with no answer to the request (HTTP {response.status})"
        self._channel.failed(self.wire_id, failures.no_answer(self._endpoint.server, why))

    async def _stream(self, response: Response) -> None:
        """Read the stream of the response, and those that resume it, until the answer has come."""
        reader = self._reader = EventReader(self._channel.max_message_bytes)
        in_vain, begun = 0, response
        try:
            while True:
                before = reader.last_id
                try:
                    async for event in reader.events(response):
                        message = message_of(event)
                        if message is not None and self._take(message):
                            with contextlib.suppress(TimeoutError, Unreachable, Unending):
                                await asyncio.wait_for(_rest(response), CLOSING_S)
                            return
                    problem = Unreachable(
                        "http", "ended its stream before the answer", is_sent=True
                    )
                except Unreachable as broken:
                    problem = broken
                in_vain = in_vain + 1 if reader.last_id == before else 0
                if not reader.last_id or self._endpoint.is_modern or in_vain > RESUMES_MOST:
                    raise problem
                if response is not begun:
                    response.close()
                response = await self._resume(reader, in_vain, problem)
        except Unending as event:
            self._channel.deliver(bodies.oversized(self.wire_id, event.size_bytes))
        finally:
            if response is not begun:
                response.close()

    async def _resume(self, reader: EventReader, in_vain: int, problem: Unreachable) -> Response:
        """Return the response that goes on where the stream has ended."""
        wait = reader.retry_s if reader.retry_s is not None else RETRY_S
        while True:
            await asyncio.sleep(min(wait * 2 ** min(in_vain, 6), 60.0))
            try:
                response = await reader.open(self._endpoint)
            except Unreachable as again:
                in_vain += 1
                if in_vain > RESUMES_MOST:
                    raise problem from again
                continue
            except CannotAuthorize as refusal:
                raise problem from refusal  # the next request will say so
            if response.status == 200 and response.type.is_stream:
                return response
            response.close()
            raise problem

    def _take(self, message: Frame | Oversized) -> bool:
        """Deliver a message of the stream; tell whether it was the answer.

        A response to anything else is dropped: on this stream it has nobody to go to.
        """
        ident = bodies.response_id(message)
        if ident is None:
            self._channel.deliver(message)
            return False
        if ident in (b"", b"null") and not isinstance(message, Oversized):
            message = bodies.error_with_id(message, self.wire_id) or message
            ident = bodies.response_id(message)
        if ident != b"%d" % self.wire_id:
            return False
        self._channel.deliver(message)
        return True

    # -- anything else -----------------------------------------------------------------------------

    async def _refusal(self, response: Response) -> None:
        """Handle a status that is no success: there may be an answer in it nevertheless."""
        server, status = self._endpoint.server, response.status
        body = await response.beginning(ERROR_BODY_BYTES)
        text = bytes(bodies.to_utf8(body, response.type.charset)).decode("utf-8", "replace")
        said = self._endpoint.masked(text)
        error = bodies.error_with_id(said.encode(), self.wire_id) if said else None
        if error is not None:
            self._channel.deliver(error)
            self._channel.failed(self.wire_id, failures.answered_with(server, status, ""))
            return
        if self.method == "server/discover" and 400 <= status < 500 and status != 429:
            self._channel.deliver(_no_such_method(self.wire_id, status))
            return
        if self.method == "initialize" and status in _FALLBACK:
            response.close()
            if await self._channel.fall_back():
                await self._run()
                return
        said = said[: failures.EXCERPT_CHARACTERS] if response.type.is_text else ""
        if self._channel.old is not None:
            said = f"{self._channel.old.describe()} {said}"
        failure = failures.answered_with(server, status, " ".join(said.split()))
        if status >= 500:
            await asyncio.sleep(FAULT_S)
        self._channel.failed(self.wire_id, failure, may_repeat=status >= 500)


async def _rest(response: Response) -> None:
    async for _ in response.pieces():
        pass


def _visible(session_id: str) -> str:
    """Return a session id if it is one: visible ASCII."""
    return session_id if session_id.isascii() and session_id.isprintable() else ""


def _no_such_method(wire_id: int, status: int) -> bytes:
    said = b'{"code":-32601,"message":"HTTP %d"}' % status
    return b'{"jsonrpc":"2.0","id":%d,"error":%b}' % (wire_id, said)
