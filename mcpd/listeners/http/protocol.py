"""One client's connection: uvicorn's HTTP protocol, with limits on how a request may arrive."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, Final

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

MOST_HEADER_BYTES: Final = 65536

LINGER_S: Final = 1.0
"""How long a connection that was refused is read, so that the client gets the answer."""

_HEADER_OVERHEAD: Final = 4  # a colon, a blank and the end of the line


class Connection(HttpToolsProtocol):
    """Serves the requests of one connection, one after another.

    A request has ``request_timeout`` seconds to arrive whole, and 64 KiB for its headers. The part
    that answers it is called when the client has closed the connection, or its own side of it.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        request_timeout: Callable[[], float],
        admit: Callable[[Connection], bool],
        closed: Callable[[Connection], None],
    ) -> None:
        """``admit`` tells whether there is room for one more connection; ``closed`` gets one that
        was admitted and has ended."""
        super().__init__(config, server_state, {"connection": self})
        self.on_lost: Callable[[], None] | None = None
        """Called once the client has closed the connection; set again for each request."""
        self.is_lost = False
        """Whether nothing more can be sent."""
        self.is_half_closed = False
        """Whether the client sends nothing more."""
        self.on_half_closed: Callable[[], None] | None = None
        """Called once the client sends nothing more; it may have closed the connection."""
        self._request_timeout = request_timeout
        self._admit = admit
        self._closed = closed
        self._is_admitted = False
        self._deadline: asyncio.TimerHandle | None = None
        self._loose_bytes = 0
        """Bytes since the last part of a request that was complete: its headers, or of its body."""
        self._is_arriving = False
        """Whether a request has begun and is not complete."""
        self._is_whole = False
        """Whether the bytes that came last completed a request."""
        self._has_headers = False
        """Whether the last request was handed over."""
        self._upgrade: bytes | None = None
        """The head of a request for another protocol, without its saying so."""
        self._is_refused = False
        self._running: RequestResponseCycle | None = None
        """The request that is being answered; ``cycle`` is the one that came last."""

    # -- the life of a connection ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, unless there are too many connections."""
        super().connection_made(transport)
        self._is_admitted = self._admit(self)
        if not self._is_admitted:
            self._refuse(503)
            return
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the part that answers the request."""
        self._stop_deadline()
        self._abandon()
        super().connection_lost(exc)
        if self._is_admitted:
            self._closed(self)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection open for the response: a client may close its own side first."""
        if not self._is_answering:
            return False
        self.is_half_closed = True
        self._call(self.on_half_closed)
        return True

    def end_with_connection(self, *, is_over: bool = False) -> None:
        """Write a stream of unknown length as HTTP/1.0 has it: its end is that of the connection.

        Call it before the stream, and with ``is_over`` before its end.
        """
        if self._running is not None:
            self._running.chunked_encoding = False
            self._running.expected_content_length = 0 if is_over else sys.maxsize

    def respond(self, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Write a whole response in one write; ``headers`` has its ``Content-Length``.

        Returns ``False`` where nothing was written, and the application sends the response itself:
        to a client that does not read, that has gone, or that asked for the head alone.
        """
        cycle = self._running
        if (
            cycle is None
            or cycle.disconnected
            or cycle.response_started
            or self.flow.write_paused
            or cycle.scope["method"] == "HEAD"
        ):
            return False
        lines = [STATUS_LINE[status]]
        lines += [b"%b: %b\r\n" % (name.lower(), value) for name, value in headers]
        if not cycle.keep_alive:
            lines.append(b"connection: close\r\n")
        self.transport.write(b"".join((*lines, b"\r\n", body)))
        cycle.waiting_for_100_continue = False
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()
        return True

    @staticmethod
    def _call(callback: Callable[[], None] | None) -> None:
        if callback is not None:
            callback()

    # -- how a request arrives ---------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Take bytes; count those of headers, trailers and chunk extensions."""
        if self._is_refused:
            return
        begins = self._deadline is None and not self._is_answering
        self._is_whole = False
        self._loose_bytes += len(data)
        self._unset_keepalive_if_required()
        self._parse(data)
        if begins and not self._is_whole and not self._is_refused:
            self._start_deadline()
        if self._loose_bytes > MOST_HEADER_BYTES and not self._is_refused:
            self._refuse(431)

    def _parse(self, data: bytes) -> None:
        """Have the parser take bytes; a request for another protocol is parsed once more.

        For the parser such a request has no body, and what follows is of the other protocol. A
        server may ignore ``Upgrade`` (RFC 9110, section 7.8), which Java's HTTP client sends.
        """
        waiting = [memoryview(data)]
        while waiting and not self._is_refused:
            part = waiting.pop()
            try:
                self.parser.feed_data(part)
            except httptools.HttpParserUpgrade as upgrade:
                waiting.append(part[upgrade.args[0] :])
            except httptools.HttpParserError:
                self._refuse(400)
            if self._upgrade is not None:
                waiting.append(memoryview(self._upgrade))
                self._upgrade = None
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._is_arriving = True
        self._has_headers = False
        self._loose_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; trailers are dropped (RFC 9110, section 6.5.1)."""
        if not self._has_headers:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Hand the request over, unless its headers are too large."""
        self._loose_bytes = 0
        if self.parser.get_method() == b"CONNECT":
            self._refuse(400)
            return
        if self.parser.should_upgrade():
            self._upgrade = self._head_without_upgrade()
            return
        size = len(self.url) + sum(
            len(name) + len(value) + _HEADER_OVERHEAD for name, value in self.headers
        )
        if size > MOST_HEADER_BYTES:
            self._refuse(431)
            return
        self._take_target()
        is_busy = self._is_answering
        super().on_headers_complete()
        self._has_headers = True
        if not is_busy:
            self._running = self.cycle

    def _take_target(self) -> None:
        """Let the host of a target that has one stand in place of ``Host`` (RFC 9112, 3.2.2)."""
        if b"://" in self.url and not self.url.startswith(b"/"):
            host = self.url.partition(b"://")[2].partition(b"/")[0]
            self.headers[:] = [pair for pair in self.headers if pair[0] != b"host"]
            self.headers.append((b"host", host))

    def _head_without_upgrade(self) -> bytes:
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [b"%b: %b" % pair for pair in self.headers if pair[0] != b"upgrade"]
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def on_response_complete(self) -> None:
        """Go on with the request that came next, if it has come; else wait for its rest.

        One that was answered before its client was told to go on is the last: what would follow
        could be its body, which need not come.
        """
        if self._was_answered_early and self.expect_100_continue:
            self._hang_up()
            return
        if self.pipeline:
            self._running = self.pipeline[-1][0]
        super().on_response_complete()
        if self._is_arriving and self._deadline is None:
            self._start_deadline()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._loose_bytes = 0
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the request is there."""
        self._loose_bytes = 0
        if self._upgrade is not None:
            return
        self._is_whole = True
        self._stop_deadline()
        self._is_arriving = False
        if not self._is_refused:
            super().on_message_complete()

    def _start_deadline(self) -> None:
        seconds = self._request_timeout()
        if seconds > 0:
            self._deadline = self.loop.call_later(seconds, self._refuse, 408)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # -- refusing ----------------------------------------------------------------------------------

    @property
    def _is_answering(self) -> bool:
        """Whether a request has been taken, and its response is not complete."""
        return self._running is not None and not self._running.response_complete

    @property
    def _was_answered_early(self) -> bool:
        """Whether the request that arrives has its response already."""
        return self._is_arriving and self._has_headers and self.cycle.response_complete

    def _refuse(self, status: int) -> None:
        """Answer with a status, unless an answer has begun, and close the connection."""
        self._stop_deadline()
        self._is_refused = True
        if self.transport.is_closing():
            return
        has_begun = self._running is not None and (
            self._running.response_started and not self._running.response_complete
        )
        was_answered = self._was_answered_early
        self._abandon()
        if was_answered:
            self._hang_up()
        elif not has_begun:
            self.transport.write(_whole(status))
            self._hang_up()
        else:
            self.transport.close()

    def _hang_up(self) -> None:
        """Close the connection after what was written.

        What the client still sends is read for a moment: closing a socket with unread bytes would
        take the answer from it.
        """
        self._stop_deadline()
        self._is_refused = True
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        with contextlib.suppress(OSError):  # the client has reset the connection
            self.transport.write_eof()
            self.loop.call_later(LINGER_S, self.transport.close)
            return
        self.transport.close()

    def _abandon(self) -> None:
        """Have nothing more written of the response that is under way, and of those after it."""
        self.is_lost = True
        waiting = [cycle for cycle, _ in self.pipeline]
        self.pipeline.clear()
        for cycle in (self._running, self.cycle, *waiting):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.waiting_for_100_continue = False
                cycle.message_event.set()
        self._call(self.on_lost)


def _whole(status: int) -> bytes:
    phrase = HTTPStatus(status).phrase
    body = json.dumps({"error": phrase}).encode()
    head: dict[str, Any] = {
        "Content-Type": "application/json",
        "Content-Length": len(body),
        "Connection": "close",
    }
    if status == 503:
        head["Retry-After"] = 1
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return f"HTTP/1.1 {status} {phrase}\r\n{lines}\r\n".encode() + body
