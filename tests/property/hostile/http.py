"""Hostile HTTP clients on a real daemon: torn, slow, oversized, smuggled and random requests."""

from __future__ import annotations

import contextlib
import json
import random
import re
import select
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.faults.ground import memory_kib
from tests.size.ground import HOLDS_MIB, Arena
from tests.support.httpclient import BOTH, HttpClient, token
from tests.support.waiting import wait_until

META: Final = "io.modelcontextprotocol/"
ENVELOPE: Final = {f"{META}protocolVersion": "2026-07-28", f"{META}clientCapabilities": {}}
PIECES: Final = (b"\r\n", b"\n", b"\r", b"\0", b"\xff", b"{", b"]", b'"', b"-1", b" ", b"\t",
          b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Upgrade: h2c\r\n",
          b"Connection: upgrade\r\n", b"Connection: close\r\n", b"Expect: 100-continue\r\n",
          b"Host: evil\r\n", b"Origin: http://evil\r\n", b"Mcp-Session-Id: x\r\n", b"%00", b"%ff",
          b"\\ud800", b"9" * 400, b"2099-01-01", b"text/event-stream", b"0\r\n\r\n")  # fmt: skip
"""What is put into requests."""

FRAMES: Final = (
    b"Content-Length: %d\r\n\r\n",
    b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"Content-Length: %d\r\nContent-Length: 0\r\n\r\n",
    b"Content-Length: %d, 0\r\n\r\n",
    b"Content-Length: +%d\r\n\r\n",
    b"Content-Length: 0%d\r\n\r\n",
    b"Content-Length : %d\r\n\r\n",
    b"Content-Length:\r\n %d\r\n\r\n",
    b"X: y\nContent-Length: %d\n\n",
    b"Transfer-Encoding: chunked, identity\r\n\r\n%x\r\n",
    b"Transfer-Encoding: \x0bchunked\r\n\r\n%x\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n%x;a=b;c\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n0%x\n",
    b"Transfer-Encoding: chunked\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n%x\r\n",
)
"""How the length of a body is said: rightly, in two ways, or wrongly."""

POOL: Final = 40
"""Connections that are open at a time; each is read before it is closed."""
EVERY: Final = 1000
"""Requests between two calls of the good sessions."""
WARM: Final = 0.2
"""Of the requests: then memory is looked at for the first time."""
GROWTH: Final = 1.25
SLACK_KIB: Final = 8192

_STATUS: Final = re.compile(rb"HTTP/1\.1 ([0-9]{3}) ")


def raw(method: str, target: str, client: HttpClient, *headers: str, body: Any = None) -> bytes:
    """Return a request as bytes."""
    data = b"" if body is None else json.dumps(body).encode()
    lines = [
        f"{method} {target} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {client.token}",
    ]
    lines += [f"Accept: {BOTH}", *headers]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def requests(client: HttpClient, server: str = "fake") -> list[bytes]:
    """Return good requests of every kind."""
    modern = ("MCP-Protocol-Version: 2026-07-28",)
    listen = request("subscriptions/listen", notifications={}, _meta=ENVELOPE)
    call = request("tools/call", name="echo", arguments={"text": "x"}, _meta=ENVELOPE)
    hello = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "a"}}
    named = (*modern, "Mcp-Method: tools/call", "Mcp-Name: echo")
    path = f"/mcp/{server}"
    return [
        raw("POST", path, client, body=request("ping")),
        raw("POST", "/mcp", client, body=request("initialize", **hello)),
        raw("POST", path, client, *named, body=call),
        raw("POST", path, client, *modern, "Mcp-Method: subscriptions/listen", body=listen),
        raw("GET", f"/sse/{server}", client),
        raw("GET", path, client, "Mcp-Session-Id: x", "Last-Event-ID: abcdef01.0.2"),
        raw("DELETE", path, client, "Mcp-Session-Id: x"),
        raw("GET", "/healthz", client),
        raw("POST", path, client, body=[request("ping"), request("ping")]),
    ]


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Return a request with up to three mistakes."""
    changed = bytearray(data)
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(changed) + 1)
        end = min(len(changed), at + chance.randrange(1, 40))
        match chance.randrange(5):
            case 0:
                changed[at:at] = chance.choice(PIECES)
            case 1:
                del changed[at:end]
            case 2:
                changed[at:at] = changed[at:end]
            case 3 if changed:
                changed[at % len(changed)] = chance.randrange(256)
            case _:
                changed = changed[:at]
    return bytes(changed)


class Hostile:
    """Makes what is sent; the same dice make the same."""

    def __init__(self, client: HttpClient, dice: random.Random, server: str) -> None:
        self._client = client
        self._dice = dice
        self._server = server
        self.good = requests(client, server)
        self._sessions: list[bytes] = []
        self._drawn: list[bytes] = []
        self._chunk = dice.randrange(1 << 30)

    def hear(self, answer: bytes) -> None:
        """Remember the id of a session, to misuse it."""
        found = re.search(rb"mcp-session-id: (\S+)", answer)
        if found is not None:
            self._sessions = [*self._sessions[-20:], found[1]]

    def next(self) -> bytes:
        """Return what is sent on the next connection."""
        kinds: tuple[Callable[[], bytes], ...] = (
            self._mistaken, self._mistaken, self._mistaken, self._pipelined, self._smuggled,
            self._smuggled, self._oversized, self._random, self._drawn_body, self._of_a_session,
        )  # fmt: skip
        return self._dice.choice(kinds)()

    def _mistaken(self) -> bytes:
        return mutated(self._dice.choice(self.good), self._dice)

    def _pipelined(self) -> bytes:
        return b"".join(self._mistaken() for _ in range(self._dice.randrange(2, 6)))

    def _smuggled(self) -> bytes:
        inner = self._dice.choice(self.good)
        frame = self._dice.choice(FRAMES)
        head = self.good[0].split(b"Content-Length")[0]
        body = self._dice.choice((b'{"jsonrpc":"2.0","id":1,"method":"ping"}', inner))
        data = head + frame % len(body) + body + b"\r\n0\r\n\r\n" + inner
        return data if self._dice.random() < 0.7 else mutated(data, self._dice)

    def _oversized(self) -> bytes:
        head = self.good[0].split(b"\r\n\r\n")[0].split(b"Content-Length")[0]
        match self._dice.randrange(6):
            case 0:
                return head + b"X: " + b"a" * 70_000 + b"\r\n\r\n"
            case 1:
                return head + b"X: y\r\n" * 12_000 + b"\r\n"
            case 2:
                return head + b"Content-Length: 99999999\r\n\r\n" + b"x" * 1000
            case 3:
                chunk = b"1000\r\n" + b"x" * 4096 + b"\r\n"
                return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 20
            case 4:
                return head + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: y\r\n" * 12_000
            case _:
                return b"GET /" + b"%41" * 30_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"

    def _random(self) -> bytes:
        return self._dice.randbytes(self._dice.randrange(1, 300))

    def _of_a_session(self) -> bytes:
        """Return a request of a session that somebody has opened."""
        if not self._sessions:
            return self.good[1]
        dice, path = self._dice, f"/mcp{dice_path(self._dice, self._server)}"
        named = f"Mcp-Session-Id: {dice.choice(self._sessions).decode('latin-1')}"
        text = dice.choice(("ping", "tools/list", "initialize", "notifications/cancelled"))
        data = dice.choice((
            raw("POST", path, self._client, named, body=request(text)),
            raw("POST", path, self._client, named, body=[request(text)] * dice.randrange(5)),
            raw("GET", path, self._client, named),
            raw("GET", path, self._client, named, f"Last-Event-ID: {dice.randbytes(4).hex()}.0.1"),
            raw("DELETE", path, self._client, named),
        ))  # fmt: skip
        return data if dice.random() < 0.6 else mutated(data, dice)

    def _drawn_body(self) -> bytes:
        """Return a request whose headers and body hypothesis has drawn."""
        if not self._drawn:
            self._chunk += 1
            self._drawn = drawn(self._chunk, self._client, self._server)
        return self._drawn.pop()


def dice_path(dice: random.Random, server: str) -> str:
    return dice.choice(("", f"/{server}", "/nobody"))


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "arguments", "_meta", "uri", "requestId", "cursor", "x", *ENVELOPE]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)  # fmt: skip
_methods = st.sampled_from(
    ["ping", "tools/call", "tools/list", "initialize", "notifications/cancelled", "server/discover",
     "subscriptions/listen", "resources/read", "logging/setLevel", "tasks/get", "x"]
)  # fmt: skip
_messages = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", "1.0", 2]),
        "id": st.integers() | st.text(max_size=10) | _values,
        "method": _methods | _values,
        "params": st.fixed_dictionaries({"_meta": st.just(ENVELOPE)}) | _values,
        "result": _values,
        "error": _values,
    },
)
_headers = st.dictionaries(
    st.sampled_from(["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Accept", "Content-Type",
                     "Mcp-Session-Id", "Last-Event-ID", "Origin", "Mcp-Param-X"]),
    st.sampled_from(["2026-07-28", "2025-11-25", "2025-06-18", "tools/call", "ping", "echo", "*/*",
                     "application/json", "text/event-stream;q=0", "=?base64?zz?=", "http://localhost"])
    | st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=30),
    max_size=4,
)  # fmt: skip


def drawn(number: int, client: HttpClient, server: str) -> list[bytes]:
    """Return requests that hypothesis draws; the same number draws the same."""
    found: list[bytes] = []

    @seed(number)
    @settings(
        max_examples=50,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(
        _messages | st.lists(_messages, max_size=3),
        _headers,
        st.sampled_from(["POST", "POST", "GET"]),
    )
    def draw(body: Any, headers: dict[str, str], method: str) -> None:
        lines = [f"{name}: {value}" for name, value in headers.items()]
        head, _, data = raw(method, f"/mcp/{server}", client, body=body).partition(b"\r\n\r\n")
        extra = "\r\n".join(lines).encode("latin-1")
        found.append(head + (b"\r\n" + extra if extra else b"") + b"\r\n\r\n" + data)

    draw()
    return found


class Pool:
    """Connections of hostile clients, each read before it is closed."""

    def __init__(self, client: HttpClient, hostile: Hostile, dice: random.Random) -> None:
        self._path = str(client.path)
        self._hostile = hostile
        self._dice = dice
        self._open: list[tuple[socket.socket, bytes]] = []
        self.statuses: dict[int, int] = {}

    def send(self, data: bytes) -> None:
        """Open a connection and send, perhaps in pieces, and perhaps not all of it."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(5.0)
        connection.connect(self._path)
        connection.setblocking(False)
        pieces = [data]
        if self._dice.random() < 0.3 and len(data) > 1:
            at = self._dice.randrange(1, len(data))
            pieces = [data[:at], data[at:]]
        with contextlib.suppress(OSError):
            connection.send(pieces[0])
        if len(pieces) > 1 and self._dice.random() < 0.2:
            pieces.pop()  # the rest never comes
        if self._dice.random() < 0.1:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
        self._open.append((connection, b"".join(pieces[1:])))
        if len(self._open) > POOL:
            self._finish(self._dice.randrange(POOL))

    def _finish(self, index: int) -> None:
        connection, rest = self._open.pop(index)
        answer = b""
        with connection, contextlib.suppress(OSError):
            if rest:
                connection.send(rest)
            select.select([connection], [], [], 0.005)
            answer = connection.recv(65536)
        self._judge(answer)

    def _judge(self, answer: bytes) -> None:
        if not answer:
            return
        self._hostile.hear(answer)
        found = _STATUS.match(answer)
        assert found is not None, answer[:300]
        status = int(found[1])
        self.statuses[status] = self.statuses.get(status, 0) + 1
        assert status != 500, answer[:300]

    def close(self) -> None:
        while self._open:
            self._finish(0)


class Good:
    """Sessions that must not notice: one over HTTP with a stream, and one on the socket."""

    def __init__(self, arena: Arena, client: HttpClient) -> None:
        self._session = client.session("/mcp/calm")
        self._stream = self._session.listen()
        assert self._stream.status == 200
        self._peer = arena.session("calm")
        self.slowest = 0.0

    def call(self, number: int) -> None:
        """Have each called; neither may get anything but its answer."""
        began = time.monotonic()
        assert self._session.text("echo", text=f"h{number}") == f"h{number}"
        self.slowest = max(self.slowest, time.monotonic() - began)
        assert self._peer.text("echo", text=f"s{number}") == f"s{number}"

    def end(self) -> None:
        """Nothing has come on the stream, and it is still open."""
        connection = self._stream._connection.sock or self._stream._response.fp.raw._sock
        connection.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            rest = connection.recv(65536)
            assert rest and b"data:" not in rest, rest
        self._stream.close()


@contextlib.contextmanager
def _attacked() -> Iterator[tuple[Arena, HttpClient, HttpClient]]:
    arena = Arena()
    try:
        good, bad = HttpClient(arena.box), HttpClient(arena.box)
        arena.box.http = {
            "listen": good.address,
            "max_sessions": 200,
            "request_timeout": 1,
            "json_wait": 1,
            "keepalive": 1,
        }
        arena.up()
        wait_until(good.is_healthy, 10)
        good.token = token(arena.box, "good")
        bad.token = token(arena.box, "bad", "--server", "victim")
        yield arena, good, bad
    finally:
        arena.close()


def _look(arena: Arena) -> None:
    """Fail with what the log says of a bug of ours."""
    log = arena.box.tail(1 << 24)
    for trouble in ("Traceback", "Exception in ASGI", "Fatal error", "loop.hung"):
        at = log.find(trouble)
        assert at < 0, log[max(0, at - 1000) : at + 4000]


def storm(messages: int, number: int) -> str:
    """Send so many hostile requests beside good sessions; return the figures."""
    dice = random.Random(number)
    with _attacked() as (arena, good_client, bad_client):
        with arena.measured(HOLDS_MIB) as measure:
            good = Good(arena, good_client)
            hostile = Hostile(bad_client, dice, "victim")
            pool = Pool(bad_client, hostile, dice)
            early_kib = 0
            for sent in range(messages):
                pool.send(hostile.next())
                if sent % EVERY == 0:
                    good.call(sent)
                    _look(arena)
                if sent == int(messages * WARM):
                    early_kib = memory_kib(arena.pid)
            pool.close()
            good.call(messages)
            late_kib = memory_kib(arena.pid)
            good.end()
            seconds = time.monotonic() - measure.began
        _look(arena)
        assert late_kib < early_kib * GROWTH + SLACK_KIB, (early_kib, late_kib)
        assert arena.box.down() == 0
    return (
        f"{messages:,} requests in {seconds:.0f} s, answers {dict(sorted(pool.statuses.items()))}; "
        f"a good call took {good.slowest * 1000:.0f} ms at most; "
        f"memory {early_kib // 1024} MiB after a fifth, {late_kib // 1024} MiB at the end"
    )
