"""A client that measures: one session, one call at a time, every answer decoded and compared."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import msgspec

from benchmarks.relay import Lines

ANSWER_WITHIN_S = 60.0
"""After so long without an answer a measurement is given up: something hangs."""

Clock = Callable[[], int]
now_ns: Clock = time.perf_counter_ns
decode = msgspec.json.Decoder().decode
encode = msgspec.json.Encoder().encode


class WrongAnswer(Exception):
    """An answer is not what the call must give, or does not come: no figure is worth anything."""


class Address(NamedTuple):
    """How a client reaches a server: a socket, with a server to attach to, or a command."""

    socket: str | None = None
    attach: str | None = None
    command: tuple[str, ...] = ()
    profile: str | None = None


class Call(NamedTuple):
    """A ``tools/call``: its id, the line that makes it, the text that must come back."""

    id: int
    line: bytes
    text: str


def echo(ident: int) -> Call:
    """Return a call that is answered with 64 bytes which no other call's answer has."""
    text = f"{ident:012d} and the quick brown fox jumps over the lazy dog, again"
    return Call(
        ident,
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":'
        b'{"name":"echo","arguments":{"text":"%b"}}}\n' % (ident, text.encode()),
        text,
    )


def blob(size_bytes: int) -> Callable[[int], Call]:
    """Return what makes calls that are answered with so many bytes."""
    text = "x" * size_bytes

    def make(ident: int) -> Call:
        return Call(
            ident,
            b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":'
            b'{"name":"blob","arguments":{"bytes":%d}}}\n' % (ident, size_bytes),
            text,
        )

    return make


class Client(Lines):
    """One MCP session.

    Driven by its answers, without a future or a task per call, so that little of what is
    measured is the client itself.
    """

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._write: Callable[[bytes], None]
        self._ids = iter(range(1, 1 << 62))
        self._on_answer: Callable[[dict[str, Any]], None] | None = None
        self._done: asyncio.Future[Any] | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self.process: subprocess.Popen[bytes] | None = None

    @classmethod
    async def open(
        cls, address: Address, env: Mapping[str, str] | None = None, *, handshake: bool = True
    ) -> Self:
        """Connect, or start the command, and do the handshake."""
        self = cls()
        if address.socket is not None:
            transport, _ = await self._loop.create_unix_connection(lambda: self, address.socket)
            self._write = transport.write
        else:
            child = self.process = subprocess.Popen(
                address.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=env,
                bufsize=0,
                start_new_session=True,
            )
            stdin, _ = await self._loop.connect_write_pipe(asyncio.Protocol, child.stdin)
            await self._loop.connect_read_pipe(lambda: self, child.stdout)
            self._stdin = stdin
            self._write = stdin.write
        if address.attach is not None:
            within = {} if address.profile is None else {"profile": address.profile}
            await self.request("mcpd/attach", {"server": address.attach, **within})
        if handshake:
            await self.initialize()
        return self

    async def initialize(self) -> None:
        """Do the legacy handshake."""
        await self.request(
            "initialize",
            {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "benchmark", "version": "1"},
            },
        )
        self._write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    async def request(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """Send any request and return its result."""
        ident = next(self._ids)
        done = self._begin()

        def take(message: dict[str, Any]) -> None:
            if message.get("id") != ident or "result" not in message:
                self._fail(f"{method} was answered with {message!r:.300}")
            else:
                self._finish(message["result"])

        self._on_answer = take
        message = {"jsonrpc": "2.0", "id": ident, "method": method, "params": params or {}}
        self._write(encode(message) + b"\n")
        return await asyncio.wait_for(done, ANSWER_WITHIN_S)

    async def call(self, make: Callable[[int], Call]) -> float:
        """Make one call and return how long it took, in seconds."""
        return (await self.calls(make, most=1))[0]

    async def calls(
        self, make: Callable[[int], Call], *, seconds: float = 3600.0, most: int = 1 << 62
    ) -> list[float]:
        """Call back to back; return what each took, in seconds.

        A call's time ends when its answer has been decoded and found right. At least one is made.
        """
        took: list[float] = []
        done = self._begin()
        end = now_ns() + int(seconds * 1e9)
        expected = make(next(self._ids))
        started = now_ns()

        def take(message: dict[str, Any]) -> None:
            nonlocal expected, started
            try:
                right = message["result"]["content"][0]["text"] == expected.text
            except (KeyError, IndexError, TypeError):
                right = False
            if not right or message["id"] != expected.id:
                self._fail(f"call {expected.id} was answered with {message!r:.300}")
                return
            now = now_ns()
            took.append((now - started) / 1e9)
            if now >= end or len(took) >= most:
                self._finish(took)
                return
            expected = make(next(self._ids))
            started = now_ns()
            self._write(expected.line)

        self._on_answer = take
        self._write(expected.line)
        return await asyncio.wait_for(done, seconds + ANSWER_WITHIN_S)

    def line_received(self, line: bytes) -> None:
        message = decode(line)
        if "method" in message:
            if "id" in message:
                self._fail(f"an unexpected request: {message!r:.300}")
        elif self._on_answer is None:
            self._fail(f"an answer nobody waits for: {message!r:.300}")
        else:
            self._on_answer(message)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"the connection was lost: {exc}")

    def _begin(self) -> asyncio.Future[Any]:
        if self._done is not None and not self._done.done():
            raise RuntimeError("one thing at a time")
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

    async def close(self) -> None:
        """End the session; a command is waited for."""
        if self.process is not None and self._stdin is not None:
            self._stdin.close()
            await self._loop.run_in_executor(None, self.process.wait)
        self.transport.close()


def environment(directory: str) -> dict[str, str]:
    """Return the environment of all processes of a run: a home of its own, little else."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {
        **kept,
        "HOME": directory,
        "MCPD_SOCKET": f"{directory}/run/mcpd.sock",
        "MCPD_STATE_DIR": f"{directory}/state",
        "MCPD_CONFIG": f"{directory}/mcp.json",
    }
