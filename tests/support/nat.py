"""A proxy in the loop of the test that forgets connections silently, as routers do."""

from __future__ import annotations

import asyncio

from tests.support.remoteserver import RemoteServer


class Nat:
    """Forwards bytes to a server. Whatever it has forgotten stays open, and nothing gets through."""

    def __init__(self, server: RemoteServer) -> None:
        self._server = server
        self._listening: asyncio.Server | None = None
        self._forwards: list[asyncio.Task[None]] = []
        self._streams: list[asyncio.StreamWriter] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def start(self) -> Nat:
        self._listening = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._listening.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        if self._listening is not None:
            self._listening.close()
        self.forget()
        for writer in self._streams:
            writer.transport.abort()

    def forget(self) -> None:
        """Forward nothing more on the connections that there are, and tell neither end."""
        for each in self._forwards:
            each.cancel()
        self._forwards.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", self._server.port)
        self._streams += [writer, there[1]]
        for source, sink in ((reader, there[1]), (there[0], writer)):
            self._forwards.append(asyncio.create_task(_forward(source, sink)))


async def _forward(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            sink.write(data)
    except ConnectionError:
        pass
    sink.close()
