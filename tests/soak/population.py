"""Sessions that come, call, stall, vanish and compare every answer with what it must be."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import itertools
import json
import os
import random
import signal
from collections.abc import Mapping
from typing import Any, Final

from tests.support.daemon import binary

Json = dict[str, Any]

ANSWER_WITHIN_S: Final = 60.0
"""Within so long each request is to be answered, whatever becomes of its server."""

READ_AHEAD_BYTES: Final = 1 << 21
"""A line is shorter; of what a session that stalls is sent, twice this is read nevertheless."""

CALM: Final = "calm"
"""The server of which tools are called through the aggregate."""

HANGS: Final = "hangs"
"""The server with a `call_timeout`."""

MODERN: Final = "2026-07-28"
ENVELOPE: Final = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "soak", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
MAY_BE: Final = frozenset(
    (
        "server_crashed",
        "crash_loop",
        "server_busy",
        "server_stopped",
        "server_not_found",
        "startup_timeout",
        "spawn_failed",
        "handshake_failed",
        "call_timeout",
        "tool_not_found",
    )
)
"""Failures that a call may meet while its server crashes, changes or is taken away."""


class Gone(Exception):
    """The session has vanished, with its call in flight."""


class Tally:
    """What happened in all, and what was wrong."""

    def __init__(self) -> None:
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []
        """Answers that were not what was asked for, were missing, or came twice. Must be empty."""


class Client:
    """One session of either era, on the socket or through a bridge."""

    def __init__(
        self,
        tally: Tally,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        process: asyncio.subprocess.Process | None,
        *,
        is_modern: bool,
        server: str | None,
    ) -> None:
        self.is_modern = is_modern
        self.server = server
        self._prefix = "" if server else f"{CALM}__"
        self._tally = tally
        self._reader, self._writer, self._process = reader, writer, process
        self._waiting: dict[Any, asyncio.Future[Json]] = {}
        self._cancelled: set[Any] = set()
        self._numbers = itertools.count(1)
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._is_leaving = False
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(
        cls, tally: Tally, env: Mapping[str, str], server: str | None, dice: random.Random
    ) -> Client:
        """Come in by a way that the dice choose; raises ``Gone`` where there is no such server."""
        is_modern = dice.random() < 0.3
        if dice.random() < 0.2:
            argv = [binary("mcpctl"), "connect", *([server] if server else [])]
            pipe = asyncio.subprocess.PIPE
            process = await asyncio.create_subprocess_exec(
                *argv, env=env, stdin=pipe, stdout=pipe, stderr=pipe, limit=READ_AHEAD_BYTES
            )
            assert process.stdin
            assert process.stdout
            reader, writer = process.stdout, process.stdin
            self = cls(tally, reader, writer, process, is_modern=is_modern, server=server)
        else:
            path = env["MCPD_SOCKET"]
            reader, writer = await asyncio.open_unix_connection(path, limit=READ_AHEAD_BYTES)
            self = cls(tally, reader, writer, None, is_modern=is_modern, server=server)
            if server is not None:
                said = await self.request("mcpd/attach", {"server": server})
                if "error" in said:
                    await self.leave()
                    raise Gone
        if not is_modern:
            asked = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "soak", "version": "1"},
            }
            await self.request("initialize", asked)
            self._send(method="notifications/initialized")
        return self

    async def call(self, tool: str, arguments: Json) -> Json:
        """Call a tool and return the whole answer."""
        return await self.request("tools/call", self.told(tool, arguments))

    def told(self, tool: str, arguments: Json) -> Json:
        """Return the parameters of a call, under the name that the tool has here."""
        meta = {"_meta": ENVELOPE} if self.is_modern else {}
        return {"name": self._prefix + tool, "arguments": arguments, **meta}

    def start(self, method: str, params: Json) -> tuple[Any, asyncio.Future[Json]]:
        """Send a request; return its id and what will hold its answer."""
        number = next(self._numbers)
        ident = number if number % 2 else str(number)
        answer = self._waiting[ident] = asyncio.get_running_loop().create_future()
        if self._reading.done():  # it has ended by itself: its server is gone
            answer.set_exception(Gone())
        self._send(id=ident, method=method, params=params)
        return ident, answer

    async def request(self, method: str, params: Json) -> Json:
        """Send a request and return its answer; raises ``Gone``."""
        ident, answer = self.start(method, params)
        return await self.wait(answer, f"{ident!r}, {method} {str(params)[:200]}")

    async def wait(self, answer: asyncio.Future[Json], what: str) -> Json:
        """Wait for an answer, not for ever; raises ``Gone``."""
        try:
            return await asyncio.wait_for(answer, ANSWER_WITHIN_S)
        except TimeoutError:
            self._tally.wrong.append(f"no answer to {what}")
            raise Gone from None

    def cancel(self, ident: Any) -> None:
        """Cancel a request; its answer is not waited for any more."""
        if self._waiting.pop(ident, None) is not None:
            self._cancelled.add(ident)
            self._send(method="notifications/cancelled", params={"requestId": ident})

    def stall(self) -> None:
        """Read nothing."""
        self._may_read.clear()

    def go_on(self) -> None:
        """Read again."""
        self._may_read.set()

    async def leave(self) -> None:
        """Vanish: hang up in the middle of everything, or be killed."""
        self._is_leaving = True
        self._may_read.set()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
            await self._process.communicate()
        else:
            self._writer.transport.abort()

    async def say_goodbye(self) -> None:
        """End the input and wait for the bridge to end."""
        self._is_leaving = True
        self._may_read.set()
        if self._process is None:
            await self.leave()
            return
        self._writer.close()
        try:
            status = await asyncio.wait_for(self._process.wait(), ANSWER_WITHIN_S)
        except TimeoutError:
            self._tally.wrong.append("a bridge did not end with its input")
            self._process.kill()
            status = await self._process.wait()
        said = await self._process.stderr.read() if self._process.stderr else b""
        is_removed = status == 4 and b"there is no server" in said
        if status not in (0, 5) and not is_removed:
            self._tally.wrong.append(f"a bridge ended with {status}: {said[-300:]!r}")
        await asyncio.gather(self._reading, return_exceptions=True)

    def _send(self, **message: Any) -> None:
        if not self._writer.is_closing():
            self._writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                await self._may_read.wait()
                self._take(json.loads(line))
        except ConnectionError:
            pass
        finally:
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(Gone())
                    answer.exception()  # whoever waited may have gone as well

    def _take(self, message: Json) -> None:
        ident = message.get("id")
        if "method" in message:
            if "id" in message:
                self._tally.wrong.append(f"a question to nobody: {str(message)[:200]}")
        elif ident in self._cancelled:
            if kind_of(message) not in MAY_BE:
                self._tally.wrong.append(f"an answer to a cancelled call: {str(message)[:200]}")
        elif answer := self._waiting.pop(ident, None):
            if not answer.done():
                answer.set_result(message)
        elif not self._is_leaving:
            self._tally.wrong.append(f"an answer that nobody waits for: {str(message)[:200]}")


def kind_of(message: Json) -> str:
    """Return ``ok``, or the product's name of the error."""
    if "error" not in message:
        return "ok"
    data = message["error"].get("data") or {}
    return str(data.get("kind", message["error"].get("message")))


class Population:
    """Sessions that replace each other, ``size`` at a time."""

    def __init__(self, env: Mapping[str, str], servers: list[str], *, size: int, seed: str) -> None:
        self.tally = Tally()
        self._env = env
        self._servers = servers
        self._size = size
        self._seed = seed

    async def live(self, seconds: float) -> None:
        """Come and go for so long; everybody has left when this returns."""
        until = asyncio.get_running_loop().time() + seconds
        await asyncio.gather(*(self._one_after_another(i, until) for i in range(self._size)))

    async def _one_after_another(self, member: int, until: float) -> None:
        loop = asyncio.get_running_loop()
        dice = random.Random(f"{self._seed}/{member}")
        while loop.time() < until:
            server = dice.choice([*self._servers, None, None])
            try:
                client = await Client.open(self.tally, self._env, server, dice)
            except (Gone, ConnectionError, EOFError):
                self.tally.outcomes["not let in"] += 1
                await asyncio.sleep(0.2)
                continue
            ends = min(until, loop.time() + dice.uniform(1.0, 40.0))
            try:
                while loop.time() < ends:
                    await self._act(client, dice)
                    await asyncio.sleep(dice.expovariate(4.0))
            except (Gone, ConnectionError):
                self.tally.outcomes["cut off"] += 1
            if dice.random() < 0.5:
                await client.leave()
            else:
                await client.say_goodbye()

    async def _act(self, client: Client, dice: random.Random) -> None:
        acts = (self._echo, self._blob, self._cancel, self._crash, self._stall, self._grow)
        act = dice.choices((*acts, self._babble, self._hang), (68, 8, 8, 3, 4, 3, 4, 2))[0]
        self.tally.outcomes[f"{act.__name__[1:]}: {await act(client, dice)}"] += 1

    async def _echo(self, client: Client, dice: random.Random) -> str:
        nonce = f"{os.getpid()} {dice.random()}"
        answer = await client.call("echo", {"text": nonce})
        return self._judge(answer, lambda result: result["content"][0]["text"] == nonce)

    async def _blob(self, client: Client, dice: random.Random) -> str:
        size = dice.choice((10, 60_000, 70_000, 1_000_000))
        answer = await client.call("blob", {"bytes": size})
        return self._judge(answer, lambda result: len(result["content"][0]["text"]) >= size)

    async def _cancel(self, client: Client, dice: random.Random) -> str:
        ident, answer = client.start("tools/call", client.told("hang", {}))
        await asyncio.sleep(dice.uniform(0.0, 0.3))
        if answer.done():
            return self._judge(answer.result(), lambda result: False)
        client.cancel(ident)
        return "cancelled"

    async def _crash(self, client: Client, dice: random.Random) -> str:
        answer = await client.call("crash", {"code": dice.choice((0, 1, 3))})
        return self._judge(answer, lambda result: False)

    async def _stall(self, client: Client, dice: random.Random) -> str:
        client.stall()
        told = client.told("blob", {"bytes": 300_000})
        answers = [client.start("tools/call", told)[1] for _ in range(dice.choice((1, 5, 20)))]
        await asyncio.sleep(dice.uniform(0.1, 3.0))
        client.go_on()
        for answer in answers:
            said = await client.wait(answer, "a blob that was read late")
            self._judge(said, lambda result: len(result["content"][0]["text"]) >= 300_000)
        return "read late"

    async def _babble(self, client: Client, dice: random.Random) -> str:
        line = dice.choice(
            ("not json", "[]", '{"jsonrpc":"2.0","id":77777,"result":{}}', "\x1b[0m")
        )
        answer = await client.call("raw_line", {"line": line})
        return self._judge(answer, lambda result: True)

    async def _hang(self, client: Client, dice: random.Random) -> str:
        if client.server != HANGS:
            return "elsewhere"
        return self._judge(await client.call("hang", {}), lambda result: False)

    async def _grow(self, client: Client, dice: random.Random) -> str:
        answer = await client.call("grow", {"name": f"more_{dice.randrange(50)}"})
        return self._judge(answer, lambda result: True)

    def _judge(self, answer: Json, is_right: Any) -> str:
        kind = kind_of(answer)
        if kind == "ok" and not is_right(answer["result"]):
            self.tally.wrong.append(f"a wrong answer: {str(answer)[:300]}")
        elif kind != "ok" and kind not in MAY_BE:
            self.tally.wrong.append(f"an error of another kind: {str(answer)[:300]}")
        return kind
