"""An HTTP client that measures: one keep-alive connection, one call at a time, all checked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Self

from benchmarks.client import ANSWER_WITHIN_S, Call, WrongAnswer, decode, encode, now_ns

VERSION = "2025-06-18"


class HttpClient(asyncio.Protocol):
    """One session over HTTP, or none where ``path`` is of a server that knows no MCP."""

    def __init__(self, port: int, path: str, token: str | None) -> None:
        self._port = port
        self._path = path
        self._headers = {
            "Host": f"127.0.0.1:{port}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._transport: asyncio.Transport
        self._buffer = b""
        self._ids = iter(range(1, 1 << 62))
        self._on_answer: Callable[[dict[str, str], bytes], None] | None = None
        self._done: asyncio.Future[Any] | None = None
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def open(
        cls, port: int, path: str, token: str | None = None, *, handshake: bool = True
    ) -> Self:
        """Connect, and begin a session."""
        self = cls(port, path, token)
        self._transport, _ = await self._loop.create_connection(lambda: self, "127.0.0.1", port)
        if handshake:
            info = {"name": "benchmark", "version": "1"}
            params = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": info}
            message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
            headers, _ = await self._post(encode(message))
            self._headers |= {
                "Mcp-Session-Id": headers["mcp-session-id"],
                "MCP-Protocol-Version": VERSION,
            }
            await self._post(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return self

    async def reopened(self) -> HttpClient:
        """Return another connection of the session."""
        other = HttpClient(self._port, self._path, None)
        other._headers = self._headers
        other._transport, _ = await self._loop.create_connection(
            lambda: other, "127.0.0.1", self._port
        )
        return other

    async def listen(self) -> None:
        """Turn the connection into the session's stream of unasked messages."""
        self._begin_request()
        self._write_head("GET", {**self._headers, "Accept": "text/event-stream"})
        done = self._done
        assert done is not None
        await asyncio.wait_for(done, ANSWER_WITHIN_S)

    async def calls(
        self,
        make: Callable[[int], Call],
        *,
        seconds: float = 3600.0,
        most: int = 1 << 62,
        is_checked: bool = True,
    ) -> list[float]:
        """Call back to back; return what each took, in seconds."""
        took: list[float] = []
        done = self._begin_request()
        head = self._head_of("POST", self._headers)
        end = now_ns() + int(seconds * 1e9)
        expected = make(next(self._ids))
        started = now_ns()

        def write() -> None:
            body = expected.line.rstrip(b"\n")
            self._transport.write(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))

        def take(_: dict[str, str], body: bytes) -> None:
            nonlocal expected, started
            message = decode(body)
            if is_checked and (
                message.get("id") != expected.id
                or message["result"]["content"][0]["text"] != expected.text
            ):
                self._fail(f"call {expected.id} was answered with {message!r:.300}")
                return
            now = now_ns()
            took.append((now - started) / 1e9)
            if now >= end or len(took) >= most:
                self._finish(took)
                return
            expected = make(next(self._ids))
            started = now_ns()
            write()

        self._on_answer = take
        write()
        return await asyncio.wait_for(done, seconds + ANSWER_WITHIN_S)

    def close(self) -> None:
        """Close the connection."""
        self._done = None
        self._transport.abort()

    # -- HTTP --------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            lines = self._buffer[:end].decode("latin-1").split("\r\n")
            headers = {
                name.lower(): value.strip()
                for name, _, value in (x.partition(":") for x in lines[1:])
            }
            if " 200 " not in lines[0] and " 202 " not in lines[0]:
                self._fail(f"{lines[0]}: {self._buffer[end:]!r:.300}")
                return
            if headers.get("content-type", "").startswith("text/event-stream"):
                self._buffer = b""
                self._finish(None)
                return
            size = int(headers.get("content-length", 0))
            if len(self._buffer) < end + 4 + size:
                return
            body = self._buffer[end + 4 : end + 4 + size]
            self._buffer = self._buffer[end + 4 + size :]
            if self._on_answer is not None:
                self._on_answer(headers, body)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"the connection was lost: {exc}")

    async def _post(self, body: bytes) -> tuple[dict[str, str], bytes]:
        done = self._begin_request()
        self._on_answer = lambda headers, found: self._finish((headers, found))
        self._write_head("POST", {**self._headers, "Content-Length": str(len(body))}, body)
        found: tuple[dict[str, str], bytes] = await asyncio.wait_for(done, ANSWER_WITHIN_S)
        return found

    def _write_head(self, method: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        self._transport.write(self._head_of(method, headers) + b"\r\n" + body)

    def _head_of(self, method: str, headers: Mapping[str, str]) -> bytes:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"{method} {self._path} HTTP/1.1\r\n{lines}".encode()

    def _begin_request(self) -> asyncio.Future[Any]:
        self._done = self._loop.create_future()
        return self._done

    def _finish(self, value: object) -> None:
        self._on_answer = None
        if self._done is not None and not self._done.done():
            self._done.set_result(value)

    def _fail(self, what: str) -> None:
        self._on_answer = None
        if self._done is not None and not self._done.done():
            self._done.set_exception(WrongAnswer(what))
