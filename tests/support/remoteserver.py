"""A server that is reached by URL, in the loop of the test: each byte that it sends can be chosen.

It speaks a legacy revision with sessions and JSON, or the modern one. ``on`` replaces what it does
with one kind of request: a JSON-RPC method, ``tools/call:NAME``, or an HTTP method.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

Json = dict[str, Any]
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"


class Asked:
    """One HTTP request, and the connection that its answer goes to."""

    def __init__(
        self,
        server: RemoteServer,
        method: str,
        target: str,
        headers: dict[str, str],
        body: bytes,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.server = server
        self.method = method
        self.target = target
        self.headers = headers
        self.message: Json = json.loads(body) if body else {}
        self.writer = writer
        self.is_over = False
        """Whether the connection ends with this request."""

    @property
    def rpc(self) -> str:
        return str(self.message.get("method", ""))

    @property
    def params(self) -> Json:
        found: Json = self.message.get("params") or {}
        return found

    @property
    def session(self) -> str:
        return self.headers.get("mcp-session-id", "")

    def raw(self, data: bytes) -> None:
        self.writer.write(data)

    def reply(self, status: int, body: bytes = b"", kind: str = "", **headers: str) -> None:
        """Answer with a whole body."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if kind:
            named["Content-Type"] = kind
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in named.items()]
        self.raw("\r\n".join([*lines, "", ""]).encode() + body)

    def json(self, message: Json, status: int = 200, **headers: str) -> None:
        self.reply(status, json.dumps(message).encode(), "application/json", **headers)

    def result(self, result: Json, **headers: str) -> None:
        self.json({"jsonrpc": "2.0", "id": self.message["id"], "result": result}, 200, **headers)

    def text(self, value: str) -> None:
        self.result(text_of(value))

    def begin_stream(self) -> None:
        """Begin an event stream that ends with the connection or with ``end_stream``."""
        self.raw(
            b"HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )

    def chunk(self, data: bytes) -> None:
        self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    def event(self, message: Json, ident: str = "") -> None:
        head = f"id: {ident}\n" if ident else ""
        self.chunk(f"{head}data: {json.dumps(message)}\n\n".encode())

    def end_stream(self) -> None:
        self.raw(b"0\r\n\r\n")

    def cut(self) -> None:
        """Break the connection."""
        self.is_over = True
        self.writer.close()


Handler = Callable[[Asked], Awaitable[None] | None]


class RemoteServer:
    """The server; ``start`` makes it listen."""

    def __init__(self, era: str = "legacy", tls: ssl.SSLContext | None = None) -> None:
        self.era = era
        self.tls = tls
        self.asked: list[Asked] = []
        self.on: dict[str, Handler] = {}
        self.sessions: set[str] = set()
        self.lost_status = 404
        """What a request gets whose session is not known."""
        self.made = 0
        self.deleted: list[str] = []
        self.count = 0
        self.has_stream = False
        """Whether a GET opens a stream; otherwise it is not allowed."""
        self.streams: list[Asked] = []
        self.tools: list[Json] = [
            {
                "name": "echo",
                "inputSchema": {"type": "object"},
                "annotations": {"readOnlyHint": True},
            },
            {"name": "count", "inputSchema": {"type": "object"}},
        ]
        self.connections = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def start(self) -> RemoteServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        """Refuse connections, and break those that there are."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._open):
            writer.transport.abort()
        await asyncio.sleep(0)

    def forget(self) -> None:
        """Forget all sessions."""
        self.sessions.clear()

    @property
    def url(self) -> str:
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://127.0.0.1:{self.port}/mcp"

    def seen(self, what: str) -> list[Asked]:
        return [each for each in self.asked if what in _names(each)]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        try:
            while not writer.is_closing():
                asked = await _read(self, reader, writer)
                if asked is None:
                    return
                self.asked.append(asked)
                handler = next(
                    (self.on[name] for name in _names(asked) if name in self.on), self.serve
                )
                done = handler(asked)
                if done is not None:
                    await done
                if asked.is_over:
                    return
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return
        finally:
            self._open.discard(writer)
            writer.close()

    async def serve(self, asked: Asked) -> None:
        """Answer as a server does that works."""
        if asked.method == "GET":
            await self._stream(asked)
        elif asked.method == "DELETE":
            self.deleted.append(asked.session)
            self.sessions.discard(asked.session)
            asked.reply(204)
        elif META + "protocolVersion" in (asked.params.get("_meta") or {}):
            self._modern(asked)
        elif asked.rpc == "initialize":
            self.made += 1
            ident = f"session-{self.made}"
            self.sessions.add(ident)
            result = {
                "protocolVersion": asked.params["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "far", "version": "1"},
            }
            asked.result(result, **{"Mcp-Session-Id": ident})
        elif asked.session not in self.sessions:
            error = {"code": -32001, "message": "Session not found"}
            asked.json({"jsonrpc": "2.0", "id": None, "error": error}, self.lost_status)
        elif "id" not in asked.message or not asked.rpc:
            asked.reply(202)
        else:
            self._answer(asked)

    def _modern(self, asked: Asked) -> None:
        if self.era != "modern":
            error = {"code": -32000, "message": "Bad Request: no valid session ID"}
            asked.json({"jsonrpc": "2.0", "id": None, "error": error}, 400)
        elif asked.rpc == "server/discover":
            asked.result(
                {
                    "supportedVersions": [MODERN],
                    "capabilities": {"tools": {}},
                    "resultType": "complete",
                }
            )
        else:
            self._answer(asked)

    def _answer(self, asked: Asked) -> None:
        match asked.rpc:
            case "tools/list":
                asked.result({"tools": self.tools})
            case "tools/call" if asked.params["name"] == "count":
                self.count += 1
                asked.text(str(self.count))
            case "tools/call":
                asked.text(str(asked.params.get("arguments", {}).get("text")))
            case _:
                error = {"code": -32601, "message": "Method not found"}
                asked.json({"jsonrpc": "2.0", "id": asked.message["id"], "error": error})

    async def _stream(self, asked: Asked) -> None:
        if not self.has_stream:
            asked.reply(405)
            return
        asked.begin_stream()
        self.streams.append(asked)
        asked.is_over = True
        while not asked.writer.is_closing():
            await asyncio.sleep(0.02)
        self.streams.remove(asked)


def text_of(value: str) -> Json:
    return {"content": [{"type": "text", "text": value}]}


def _names(asked: Asked) -> tuple[str, ...]:
    tool = asked.params.get("name") if asked.rpc == "tools/call" else None
    return (f"tools/call:{tool}", asked.rpc, asked.method)


async def _read(
    server: RemoteServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> Asked | None:
    line = await reader.readline()
    if not line:
        return None
    method, target, _ = line.decode().split(" ")
    headers: dict[str, str] = {}
    while (line := await reader.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(server, method, target, headers, body, writer)
