"""Many clients of the HTTP front in one loop: connections, sessions and event streams."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Self

from tests.support.daemon import Json
from tests.support.httpclient import BOTH
from tests.support.waiting import scaled

STREAM = "text/event-stream"
VERSION = "2025-11-25"
"""The first revision whose streams begin with an event that can be resumed after."""

PATIENCE_S = 60.0


class Cut(Exception):
    """The connection ended before the response did."""


class Wire:
    """One connection, and the response that comes on it; ``async with`` closes it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._reader = reader
        self._writer = writer
        self._lines = b""
        self._is_over = False

    @classmethod
    async def dial(cls, path: Path) -> Self:
        """Connect to a Unix socket; raises ``OSError``."""
        return cls(*await asyncio.open_unix_connection(str(path)))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.transport.abort()

    async def send(self, method: str, target: str, headers: dict[str, str], body: Any) -> None:
        """Send a request and read the head of its response; raises ``Cut``."""
        data = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {target} HTTP/1.1", "Host: localhost"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if data:
            lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
        try:
            self._writer.write("\r\n".join([*lines, "", ""]).encode() + data)
            async with asyncio.timeout(scaled(PATIENCE_S)):
                head = await self._reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise Cut(str(error)) from None
        first, *rest = head.decode().split("\r\n")
        self.status = int(first.split()[1])
        pairs = (line.split(":", 1) for line in rest if line)
        self.headers = {name.lower(): value.strip() for name, value in pairs}
        self._is_over = self.headers.get("content-length") == "0"

    @property
    def is_stream(self) -> bool:
        """Whether events come."""
        return self.headers.get("content-type", "").startswith(STREAM)

    async def read(self) -> bytes:
        """Return the next part of the body, nothing at its end; raises ``Cut``."""
        if self._is_over:
            return b""
        try:
            if "content-length" in self.headers:
                self._is_over = True
                return await self._reader.readexactly(int(self.headers["content-length"]))
            size = int(await self._reader.readline() or b"cut", 16)
            data = await self._reader.readexactly(size + 2)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError) as error:
            raise Cut(str(error)) from None
        self._is_over = not size
        return data[:-2]

    async def json(self) -> Any:
        """Return the whole body."""
        data = b""
        while part := await self.read():
            data += part
        return json.loads(data)

    async def event(self) -> dict[str, str] | None:
        """Return the fields of the next event, ``None`` at the end of the stream."""
        while b"\n\n" not in self._lines:
            part = await self.read()
            if not part:
                return None
            self._lines += part
        text, _, self._lines = self._lines.partition(b"\n\n")
        pairs = (line.partition(": ") for line in text.decode().splitlines())
        return {name.rstrip(":"): value for name, _, value in pairs}


class Member:
    """One session."""

    def __init__(self, path: Path, token: str | None, target: str = "/mcp/fake") -> None:
        self.target = target
        self.headers = {"MCP-Protocol-Version": VERSION, "Authorization": f"Bearer {token}"}
        self._path = path
        self._last = 0

    async def begin(self) -> None:
        """Do the handshake."""
        info = {"name": "crowd", "version": "1"}
        params = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": info}
        async with await self.post(self.request("initialize", params)) as wire:
            assert wire.status == 200, wire.status
            assert "result" in await wire.json()
            self.headers["Mcp-Session-Id"] = wire.headers["mcp-session-id"]
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        async with await self.post(note) as wire:
            assert wire.status == 202, wire.status

    def request(self, method: str, params: Json) -> Json:
        """Return a request with an id of its own."""
        self._last += 1
        return {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}

    async def post(self, message: Json, accept: str = BOTH) -> Wire:
        """Send a message, and return the response once its head is there."""
        return await self._send("POST", message, {"Accept": accept})

    async def listen(self, last: str | None = None) -> Wire:
        """Open the stream of unasked messages, or go on with the one of an event."""
        resuming = {} if last is None else {"Last-Event-ID": last}
        return await self._send("GET", None, {"Accept": STREAM, **resuming})

    async def call(self, tool: str, **arguments: Any) -> Json:
        """Call a tool; return the whole response."""
        asked = self.request("tools/call", {"name": tool, "arguments": arguments})
        async with await self.post(asked) as wire:
            found: Json = await wire.json()
            return found

    async def _send(self, method: str, body: Any, headers: dict[str, str]) -> Wire:
        wire = await Wire.dial(self._path)
        try:
            await wire.send(method, self.target, {**self.headers, **headers}, body)
        except BaseException:
            await wire.__aexit__()
            raise
        return wire
