"""The floor: clients on a Unix socket, one server's pipes; an envelope parsed, an id replaced.

Run as ``python relay.py SOCKET COMMAND...``. It supervises, checks, bounds and remembers nothing:
what a daemon needs beyond it is what its care costs.
"""

import asyncio
import itertools
import subprocess
import sys
from typing import cast

import msgspec
import uvloop

Kept = msgspec.Raw | msgspec.UnsetType
"""A member that goes through byte for byte, or is not there."""


class Envelope(msgspec.Struct):
    """A message; the payload stays as it came."""

    jsonrpc: str
    id: Kept = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: Kept = msgspec.UNSET
    result: Kept = msgspec.UNSET
    error: Kept = msgspec.UNSET


decode = msgspec.json.Decoder(Envelope).decode
encode = msgspec.json.Encoder().encode


class Lines(asyncio.Protocol):
    """Hands out whole lines; the parts of a long one are joined once."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        *whole, rest = data.split(b"\n")
        for line in whole:
            self.line_received(b"".join((*self.parts, line)) if self.parts else line)
            self.parts.clear()
        if rest:
            self.parts.append(rest)

    def line_received(self, line: bytes) -> None:
        raise NotImplementedError


class Server(Lines):
    """The one server: ids of ours there, and whose they were."""

    def __init__(self, stdin: asyncio.WriteTransport) -> None:
        super().__init__()
        self.stdin, self.ids = stdin, itertools.count(1)
        self.waiting: dict[bytes, tuple[Client, Kept]] = {}

    def line_received(self, line: bytes) -> None:
        message = decode(line)
        client, message.id = self.waiting.pop(bytes(cast(msgspec.Raw, message.id)))
        client.transport.write(encode(message) + b"\n")


class Client(Lines):
    """One of the clients."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self.server = server

    def line_received(self, line: bytes) -> None:
        message = decode(line)
        if message.id is not msgspec.UNSET:
            wire_id = b"%d" % next(self.server.ids)
            self.server.waiting[wire_id] = (self, message.id)
            message.id = msgspec.Raw(wire_id)
        self.server.stdin.write(encode(message) + b"\n")


async def main(path: str, *command: str) -> None:
    """Serve until the server ends."""
    loop = asyncio.get_running_loop()
    pipe = subprocess.PIPE
    child = subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)
    stdin, _ = await loop.connect_write_pipe(asyncio.Protocol, child.stdin)
    _, server = await loop.connect_read_pipe(lambda: Server(stdin), child.stdout)
    await loop.create_unix_server(lambda: Client(server), path)
    await loop.run_in_executor(None, child.wait)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
