"""Sessions that call, cancel, time out and hang up, and compare every answer with what it must be."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import itertools
import json
import random
from pathlib import Path
from typing import Any

from tests.support.waiting import scaled

Json = dict[str, Any]

CRASH_EVERY = 1000
"""Calls between two crashes of the server."""

LANES = 3
"""Calls that a session has in flight."""

ANSWER_WITHIN_S = 30.0
FLAKY, CALM = "flaky", "calm"
"""The server that crashes, and one that never does."""


class Left(Exception):
    """The session hung up while the call was in flight."""


class Session:
    """One connection and what it waits for; ids are numbers and texts by turns."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, prefix: str
    ) -> None:
        self._reader, self._writer = reader, writer
        self.prefix = prefix
        """What stands before the flaky server's tools."""
        self.complaints: list[str] = []
        self.is_leaving = False
        self._waiting: dict[Any, asyncio.Future[Json]] = {}
        self._cancelled: set[Any] = set()
        self._numbers = itertools.count(1)
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, path: Path, server: str | None) -> Session:
        """Connect to a server's own endpoint, or to the aggregate."""
        reader, writer = await asyncio.open_unix_connection(str(path))
        self = cls(reader, writer, "" if server else f"{FLAKY}__")
        if server is not None:
            await self.request("mcpd/attach", {"server": server})
        asked = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "crowd", "version": "1"},
        }
        await self.request("initialize", asked)
        self._send(method="notifications/initialized")
        return self

    def start(self, method: str, params: Json) -> tuple[Any, asyncio.Future[Json]]:
        """Send a request; return its id and what will hold its answer."""
        number = next(self._numbers)
        ident = number if number % 2 else str(number)
        answer = self._waiting[ident] = asyncio.get_running_loop().create_future()
        self._send(id=ident, method=method, params=params)
        return ident, answer

    async def request(self, method: str, params: Json) -> Json:
        """Send a request and return its whole answer; raises ``Left``, or ``TimeoutError``."""
        return await asyncio.wait_for(self.start(method, params)[1], scaled(ANSWER_WITHIN_S))

    def cancel(self, ident: Any) -> None:
        """Cancel a request; its answer is not waited for any more."""
        if self._waiting.pop(ident, None) is not None:
            self._cancelled.add(ident)
            self._send(method="notifications/cancelled", params={"requestId": ident})

    async def close(self) -> None:
        """Hang up, whatever is in flight."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    def _send(self, **message: Any) -> None:
        if not self._writer.is_closing():
            self._writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def _read(self) -> None:
        try:
            async for line in self._reader:
                self._take(json.loads(line))
            self.complaints.append("the daemon hung up")
        finally:
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(Left())

    def _take(self, message: Json) -> None:
        ident = message.get("id")
        if "method" in message:
            if "id" in message:
                self.complaints.append(f"a question that no tool asks: {message}")
        elif ident in self._cancelled:
            # Of a call that hangs there is no result, but its server may die before it is told.
            if kind_of(message) != "server_crashed":
                self.complaints.append(f"an answer to a cancelled call: {message}")
        elif answer := self._waiting.pop(ident, None):
            answer.set_result(message)
        else:
            self.complaints.append(f"an answer that nobody waits for: {message}")


def kind_of(message: Json) -> str:
    """Return ``ok``, or the product's name of the error."""
    if "error" not in message:
        return "ok"
    data = message["error"].get("data") or {}
    return str(data.get("kind", message["error"]))


class Crowd:
    """All sessions of a run, and what became of their calls."""

    def __init__(self, path: Path, *, sessions: int, seed: int) -> None:
        self._path, self._count, self._seed = path, sessions, seed
        self._sessions: list[Session] = []
        self._tickets = 0
        self.crashes = 0
        """Calls so far that end the server."""
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.complaints: list[str] = []
        """What was wrong. Must be empty."""

    async def open(self) -> None:
        """Connect everybody: two in three to the server itself, the others to the aggregate."""
        self._sessions = [await self._connect(i) for i in range(self._count)]

    async def call(self, calls: int) -> None:
        """Have so many more calls made, by all sessions together, and wait for all of them."""
        limit = self._tickets + calls
        lanes = [self._lane(i, lane, limit) for i in range(self._count) for lane in range(LANES)]
        await asyncio.gather(*lanes)

    async def close(self) -> None:
        """Hang up, all of them."""
        for session in self._sessions:
            await self._hang_up(session)

    async def _connect(self, member: int) -> Session:
        return await Session.open(self._path, None if member % 3 == 2 else FLAKY)

    async def _hang_up(self, session: Session) -> None:
        await session.close()
        self.complaints += session.complaints

    async def _lane(self, member: int, lane: int, limit: int) -> None:
        dice = random.Random(f"{self._seed}/{limit}/{member}/{lane}")
        while self._tickets < limit:
            self._tickets += 1
            session = self._sessions[member]
            try:
                if self._tickets % CRASH_EVERY == 0:
                    outcome = await self._crash(session)
                else:
                    acts = (self._echo, self._fail, self._cancel, self._time_out, self._leave)
                    act = dice.choices(acts, (75, 15, 5, 3, 2))[0]
                    outcome = await act(session, member, f"{member}/{lane}/{self._tickets}")
            except Left:
                outcome = "left"
            except TimeoutError:
                outcome = "no answer"
            self.outcomes[outcome] += 1

    # -- one call each; what comes back is the outcome -------------------------------------------

    async def _crash(self, session: Session) -> str:
        self.crashes += 1
        told = {"name": f"{session.prefix}crash", "arguments": {"code": 3}}
        answer = await session.request("tools/call", told)
        data = (answer.get("error") or {}).get("data") or {}
        if data.get("exit_code") != 3 or data.get("outcome_unknown") is not True:
            self.complaints.append(f"crash: {answer}")
        return "crashed"

    async def _echo(self, session: Session, member: int, text: str) -> str:
        """Call what may be repeated: only two crashes can spoil it, and none that of the calm."""
        calm = session.prefix and member % 2
        crashes = self.crashes
        name = f"{CALM}__echo" if calm else f"{session.prefix}echo"
        answer = await session.request("tools/call", {"name": name, "arguments": {"text": text}})
        crashes = 0 if calm else self.crashes - crashes
        if kind_of(answer) == "server_crashed" and crashes > 1:
            return "server_crashed"
        expected = {
            "content": [{"type": "text", "text": text}],
            "structuredContent": {"text": text},
        }
        if answer.get("result") != expected:
            self.complaints.append(f"echo {text} ({crashes} crashes meanwhile): {answer}")
        return "ok, over a crash" if crashes else "ok"

    async def _fail(self, session: Session, _member: int, text: str) -> str:
        """Call what must not be repeated."""
        told = {"name": f"{session.prefix}fail", "arguments": {"text": text}}
        answer = await session.request("tools/call", told)
        if kind_of(answer) == "server_crashed":
            return "server_crashed"
        expected = {"content": [{"type": "text", "text": text}], "isError": True}
        if answer.get("result") != expected:
            self.complaints.append(f"fail {text}: {answer}")
        return "ok"

    async def _cancel(self, session: Session, _member: int, text: str) -> str:
        told = {"name": f"{session.prefix}hang", "arguments": {}}
        ident, answer = session.start("tools/call", told)
        # An answer to something later: by then the daemon has read the call, too.
        await session.request("ping", {})
        if answer.done():
            return kind_of(answer.result())
        session.cancel(ident)
        return "cancelled"

    async def _time_out(self, session: Session, _member: int, text: str) -> str:
        told = {"server": FLAKY, "tool": "hang", "timeout": 0.05}
        answer = await session.request("mcpd/call", told)
        kind = kind_of(answer)
        if kind not in ("call_timeout", "server_crashed"):
            self.complaints.append(f"a call that hangs: {answer}")
        return kind

    async def _leave(self, session: Session, member: int, text: str) -> str:
        """Hang up with calls in flight, and come back."""
        told = {"name": f"{session.prefix}hang", "arguments": {}}
        answer = session.start("tools/call", told)[1]
        if session.is_leaving:  # another lane has had the same idea
            return kind_of(await answer)
        session.is_leaving = True
        self._sessions[member] = await self._connect(member)
        await self._hang_up(session)
        await answer
        return "answered before it left"
