"""An upstream that is no process: a server in memory, and a session that has no connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from msgspec import Raw

from mcpd.core.facts import Failure
from mcpd.core.lifecycle.rules import Rules
from mcpd.core.mcp.routing import Routing
from mcpd.ids import SessionId
from mcpd.upstreams.host import NotStarted, Reports
from mcpd.upstreams.run import Backend, Frames, Run
from mcpd.upstreams.slot import Slot

Json = dict[str, Any]

RULES = Rules(
    startup_timeout=5.0,
    startup_timeout_max=5.0,
    idle_timeout=0.0,
    restarts=True,
    backoff=0.001,
    backoff_max=0.001,
    max_failures=3,
    window=60.0,
    failed_retry=0.0,
)


class MemoryBackend(Backend, frozen=True, kw_only=True):
    """A server of ``MemoryHost``."""

    transport: ClassVar[str] = "memory"


class MemoryChannel:
    """Answers requests as a server of the legacy era with one tool, ``echo``."""

    def __init__(self, frames: Frames) -> None:
        self.is_open = True
        self.is_full = False
        self.answers_calls = True
        self.version = ""
        self.received: list[Json] = []
        self._frames = frames

    def write(
        self,
        data: bytes,
        wire_id: int = 0,
        *,
        cancels: int = 0,
        routing: Routing | None = None,
    ) -> bool:
        if not self.is_open or self.is_full:
            return False
        message = json.loads(data)
        self.received.append(message)
        answer = self._answer(message)
        if answer is not None and "id" in message:
            whole = {"jsonrpc": "2.0", "id": message["id"], **answer}
            asyncio.get_running_loop().call_soon(self._frames, json.dumps(whole).encode())
        return True

    def introduced(self, version: str) -> None:
        self.version = version

    def _answer(self, message: Json) -> Json | None:
        match message.get("method"):
            case "initialize":
                return {
                    "result": {
                        "protocolVersion": message["params"]["protocolVersion"],
                        "capabilities": {"tools": {}},
                        "serverInfo": {"name": "memory", "version": "1"},
                    }
                }
            case "tools/list":
                return {"result": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}}
            case "tools/call" if self.answers_calls:
                return {"result": {"content": [], "structuredContent": message["params"]}}
            case "tools/call":
                return None
            case _:
                return {"error": {"code": -32601, "message": "Method not found"}}

    def bring(self, elements: list[bytes]) -> None:
        for element in elements:
            self._frames(element)

    def unfinished(self) -> tuple[bytes, int]:
        return b"", 0


class MemoryRun(Run):
    """A connection to the server in memory."""

    channel: MemoryChannel

    def __init__(self, slot: Slot, reports: Reports, *, grace: float) -> None:
        super().__init__(grace=grace)
        self._slot = slot
        self._reports = reports
        self._is_muted = False
        self.has_ended = False
        frames = reports.frames(slot.id)
        self.channel = MemoryChannel(lambda frame: None if self._is_muted else frames(frame))

    def begin(self) -> None:
        asyncio.get_running_loop().call_soon(self._reports.connected, self._slot, self)

    def mute(self) -> None:
        self._is_muted = True

    async def end(self, grace: float) -> str | None:
        self.channel.is_open = False
        self.has_ended = True
        return None

    def fail(self, message: str) -> None:
        """Lose the connection."""
        failure = Failure("server_crashed", message, self._slot.server, True)
        self._reports.ended(self._slot, self, failure, is_clean=False)


class MemoryHost:
    """Starts servers in memory, and remembers them."""

    def __init__(self) -> None:
        self.runs: list[MemoryRun] = []
        self.refusal: Failure | None = None
        """Why nothing can be started."""

    def must_wait(self, backend: MemoryBackend, then: Callable[[], None]) -> bool:
        return False

    def start(
        self, slot: Slot, backend: MemoryBackend, generation: int, reports: Reports
    ) -> MemoryRun | NotStarted:
        if self.refusal is not None:
            return NotStarted(self.refusal)
        run = MemoryRun(slot, reports, grace=backend.grace)
        self.runs.append(run)
        return run


class MemoryOutbox:
    """The outbox of a session that nothing carries."""

    def __init__(self, session: SessionId) -> None:
        self.session = session
        self.messages: list[Json] = []
        self.closed: str | None = None

    def write(
        self,
        data: bytes | tuple[bytes | Raw, ...],
        *,
        is_notification: bool = False,
        request: bytes = b"",
        is_response: bool = False,
    ) -> None:
        parts: Iterable[bytes | Raw] = data if isinstance(data, tuple) else (data,)
        self.messages.append(json.loads(b"".join(bytes(part) for part in parts)))

    def answer(self, ident: int) -> Json | None:
        """Return the response to a request, ``None`` while there is none."""
        return next((each for each in self.messages if each.get("id") == ident), None)

    def bring(self, elements: list[bytes]) -> None:
        raise AssertionError("no client sends arrays here")

    def unsent_bytes(self) -> int:
        return 0

    def close(self, reason: str) -> None:
        self.closed = reason

    async def wait_gone(self, timeout: float) -> None:
        return
