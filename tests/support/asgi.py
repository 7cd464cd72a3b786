"""The HTTP front in memory: its ASGI application, clients of it, and a core that does as it is told."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from mcpd.core.interface.commands import SessionState
from mcpd.core.wire.memory import Memory
from mcpd.ids import SessionId
from mcpd.listeners.http.application import Application
from mcpd.listeners.http.core import Carrier, Core, Life
from mcpd.listeners.http.keepalive import Keepalive
from mcpd.listeners.http.legacy import LegacyFront
from mcpd.listeners.http.old_sse import OldFront
from mcpd.listeners.http.sessions import HttpSession
from mcpd.listeners.http.settings import HttpSettings
from mcpd.listeners.http.stateless import StatelessFront
from mcpd.listeners.http.streams import Line
from mcpd.tokens import Token
from tests.support.virtualtime import settle

Json = dict[str, Any]

LIFE: Final = "0123abcd"
BOTH: Final = "application/json, text/event-stream"
STREAM: Final = "text/event-stream"
VERSION: Final = "2025-11-25"
MODERN: Final = "2026-07-28"
META: Final = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}
STATE: Final = SessionState(version=VERSION)

ADA: Final = Token(name="ada", sha256="", created=0.0)
BOB: Final = Token(name="bob", sha256="", created=0.0)
TOKENS: Final = {token.name: token for token in (ADA, BOB)}
"""The text of each is its name."""


def message(method: str, ident: Any = 1, **params: Any) -> Json:
    """Return a request."""
    return {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}


def notification(method: str, **params: Any) -> Json:
    """Return a notification."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def result(ident: Any, **members: Any) -> bytes:
    """Return the line of a response."""
    return json.dumps({"jsonrpc": "2.0", "id": ident, "result": members}).encode() + b"\n"


class Link:
    """Stands for ``protocol.Connection``: a client's connection."""

    def __init__(self) -> None:
        self.on_lost: Callable[[], None] | None = None
        self.on_half_closed: Callable[[], None] | None = None
        self.is_lost = False
        self.is_half_closed = False

    def respond(self, *_: object) -> bool:
        """Have the application send each response over ASGI."""
        return False

    def lose(self) -> None:
        """Close the connection, as a client does."""
        self.is_lost = True
        if self.on_lost is not None:
            self.on_lost()

    def half_close(self) -> None:
        """Close the client's side of it."""
        self.is_half_closed = True
        if self.on_half_closed is not None:
            self.on_half_closed()


class Exchanged:
    """A request, and what has come of its response."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.is_complete = False
        self.reads = asyncio.Event()
        """Cleared while the client reads nothing."""
        self.reads.set()
        self._task: asyncio.Task[None] | None = None

    def start(self, application: Application, scope: Json, parts: Iterable[bytes]) -> None:
        """Send the request, its body in parts."""
        waiting = list(parts)
        self._task = asyncio.get_running_loop().create_task(
            application(scope, lambda: self._receive(waiting), self._send)
        )

    async def _receive(self, parts: list[bytes]) -> Json:
        if not parts:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def _send(self, part: Any) -> None:
        assert not self.is_complete, "something is sent after the end"
        if not self.link.is_lost:
            await self.reads.wait()
        if self.link.is_lost:
            return
        if part["type"] == "http.response.start":
            assert not self.status, "there are two heads"
            self.status = part["status"]
            for name, value in part["headers"]:
                self.headers[name.decode().lower()] = value.decode("latin-1")
            return
        assert self.status, "there is no head"
        self.body += part["body"]
        self.is_complete = not part["more_body"]
        if self.is_complete and "content-length" in self.headers:
            assert len(self.body) == int(self.headers["content-length"])

    def lose(self) -> None:
        """Close the connection."""
        self.link.lose()
        self.reads.set()

    @property
    def is_over(self) -> bool:
        """Whether the front has done with it."""
        assert self._task
        return self._task.done()

    async def wait(self) -> Exchanged:
        """Return once the front has done with it; raise what it has raised."""
        assert self._task
        await self._task
        return self

    @property
    def events(self) -> list[tuple[str | None, Json | None]]:
        """Return the id and the message of each event that has come."""
        found = []
        for block in self.body.split(b"\n\n")[:-1]:
            ident: str | None = None
            data: Json | None = None
            for line in block.split(b"\n"):
                if line.startswith(b"id: "):
                    ident = line[4:].decode()
                elif line.startswith((b"data: {", b"data: [")):
                    data = json.loads(line[6:])
            found.append((ident, data))
        return found

    @property
    def messages(self) -> list[Json]:
        """Return the messages of a stream, or the body that is JSON."""
        if self.headers.get("content-type", "").startswith(STREAM):
            return [data for _, data in self.events if data is not None]
        return [json.loads(self.body)] if self.body else []

    @property
    def last_id(self) -> str | None:
        """Return the id of the last event that has come whole."""
        return next((ident for ident, _ in reversed(self.events) if ident is not None), None)

    def json(self) -> Json:
        """Return the body."""
        assert self.headers["content-type"] == "application/json"
        found: Json = json.loads(self.body)
        return found


class FakeCore:
    """A core that remembers what it is asked, and says what a test has it say."""

    def __init__(self) -> None:
        self.carriers: dict[SessionId, Carrier] = {}
        self.opened: list[tuple[str | None, str | None, SessionState | None, Life]] = []
        self.taken: list[tuple[SessionId, Json]] = []
        self.closed: list[tuple[SessionId, str]] = []
        self.released: list[SessionId] = []
        self.handles: dict[str, SessionId] = {}
        self.schemas: dict[str, bytes] = {}
        self.answers_initialize = True
        self.ended: Callable[[SessionId], None] = lambda session: None
        self._ids = itertools.count(1)

    def open(
        self,
        token: Token | None,
        server: str | None,
        carrier: Carrier,
        state: SessionState | None = None,
        *,
        life: Life = Life.STREAM,
        lists: str | None = None,
    ) -> SessionId:
        session = SessionId(next(self._ids))
        self.carriers[session] = carrier
        self.opened.append((None if token is None else token.name, server, state, life))
        return session

    def lists_of(self, server: str | None) -> str:
        return "lists"

    def take(self, session: SessionId, frame: bytes) -> None:
        said = json.loads(frame)
        self.taken.append((session, said))
        if (
            self.answers_initialize
            and isinstance(said, dict)
            and said.get("method") == "initialize"
        ):
            version = said["params"]["protocolVersion"]
            self.carriers[session].changed(msgspec.structs.replace(STATE, version=version))
            self.answer(session, said["id"])

    def close(self, session: SessionId, reason: str) -> None:
        if self.carriers.pop(session, None) is not None:
            self.closed.append((session, reason))
            self.ended(session)

    def release(self, session: SessionId) -> None:
        self.released.append(session)

    def parked(self, token: Token | None, server: str | None, state: str) -> SessionId | None:
        return self.handles.get(state)

    def refusal(self, token: Token | None, server: str) -> bytes | None:
        return None if server == "one" else b'{"code":-32602,"message":"no server"}'

    def tool_schema(self, token: Token | None, server: str | None, tool: str) -> bytes | None:
        return self.schemas.get(tool)

    # -- what it says ------------------------------------------------------------------------------

    @property
    def newest(self) -> SessionId:
        """Return the session that was opened last."""
        return max(self.carriers)

    def answer(self, session: SessionId, ident: Any, **members: Any) -> None:
        """Answer a request."""
        self.say(session, result(ident, **members), ident, is_response=True)

    def fail(self, session: SessionId, ident: Any, code: int) -> None:
        """Answer a request with an error."""
        error = {"jsonrpc": "2.0", "id": ident, "error": {"code": code, "message": "no"}}
        self.say(session, json.dumps(error).encode() + b"\n", ident, is_response=True)

    def say(
        self, session: SessionId, line: Line, ident: Any = None, *, is_response: bool = False
    ) -> None:
        """Say a line that belongs to a request, or to none."""
        key = None if ident is None else json.dumps(ident).encode()
        self.carriers[session].deliver(line, key, is_response=is_response)

    def tell(self, session: SessionId, text: str, ident: Any = None) -> None:
        """Say something that is no response."""
        self.say(session, json.dumps(notification("told", text=text)).encode() + b"\n", ident)

    def methods(self, session: SessionId) -> list[str | None]:
        """Return what a session was sent."""
        return [said.get("method") for own, said in self.taken if own == session]


class Front:
    """The application on a core, and clients of it."""

    def __init__(self, core: Core, *, memory: Memory | None = None, **settings: Any) -> None:
        self.core = core
        self.memory = memory or Memory(10**9)
        self.settings = HttpSettings(**settings)
        self.keepalive = Keepalive(self.settings.keepalive)
        self.saved: dict[str, SessionState | None] = {}
        self.refused = 0
        parts = core, self._settings, self.memory, self.keepalive
        self.stateless = StatelessFront(*parts)
        self.old = OldFront(*parts)
        self.legacy = LegacyFront(*parts, self._saved, self._removed, LIFE)
        self.application = Application(
            core,
            self._settings,
            self.memory,
            TOKENS.get,
            self._refused,
            legacy=self.legacy,
            stateless=self.stateless,
            old=self.old,
        )
        if isinstance(core, FakeCore):
            core.ended = self.stateless.closed

    def change(self, **settings: Any) -> None:
        """Change settings, as a reload does."""
        self.settings = msgspec.structs.replace(self.settings, **settings)

    def _settings(self) -> HttpSettings:
        return self.settings

    def _saved(self, session: HttpSession) -> None:
        self.saved[session.digest] = session.state

    def _removed(self, session: HttpSession) -> None:
        self.saved.pop(session.digest, None)

    def _refused(self) -> None:
        self.refused += 1

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        token: str | None = "ada",
        parts: Iterable[bytes] | None = None,
        link: Link | None = None,
        **headers: Any,
    ) -> Exchanged:
        """Send a request; a header that is ``None`` is left out."""
        sent: Json = {"host": "localhost:6273", "content-type": "application/json", "accept": BOTH}
        if token is not None:
            sent["authorization"] = f"Bearer {token}"
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = b"" if body is None else body if isinstance(body, bytes) else _dumped(body)
        exchanged = Exchanged(link or Link())
        scope = {
            "method": method,
            "raw_path": path.encode(),
            "headers": [
                (name.encode(), each.encode("latin-1"))
                for name, value in sent.items()
                if value is not None
                for each in (value if isinstance(value, list) else [value])
            ],
            "state": {"connection": exchanged.link},
        }
        exchanged.start(self.application, scope, [data] if parts is None else parts)
        return exchanged

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> Exchanged:
        """Send a request; return what has come once nothing more can happen before a timer."""
        exchanged = self.send(method, path, body, **more)
        await settle()
        return exchanged

    async def session(
        self, path: str = "/mcp/one", version: str = VERSION, token: str | None = "ada"
    ) -> FakeSession:
        """Open a session."""
        asked = message("initialize", 0, protocolVersion=version, capabilities={})
        answer = await self.ask("POST", path, asked, token=token)
        assert answer.status == 200, answer.body
        return FakeSession(self, path, version, token, answer.headers["mcp-session-id"])

    def close(self) -> None:
        """Stop the timers."""
        self.legacy.close()
        self.keepalive.close()


class FakeSession:
    """A client that has a session."""

    def __init__(
        self, front: Front, path: str, version: str, token: str | None, ident: str
    ) -> None:
        self.front = front
        self.path = path
        self.token = token
        self.ident = ident
        self.headers = {"mcp_session_id": ident, "mcp_protocol_version": version}

    async def post(self, body: Any, **more: Any) -> Exchanged:
        """Send a message, or several."""
        return await self._ask("POST", body, **more)

    async def get(self, last: str | None = None, **more: Any) -> Exchanged:
        """Open the stream of unasked messages, or resume one."""
        return await self._ask("GET", **{"accept": STREAM, "last_event_id": last, **more})

    async def delete(self, **more: Any) -> Exchanged:
        """End the session."""
        return await self._ask("DELETE", **more)

    async def _ask(self, method: str, body: Any = None, **more: Any) -> Exchanged:
        sent: Json = {"token": self.token, **self.headers, **more}
        return await self.front.ask(method, self.path, body, **sent)


def _dumped(body: Any) -> bytes:
    return json.dumps(body).encode()
