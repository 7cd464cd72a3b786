"""Any bytes, cut anywhere, from a client or a server, are nobody else's trouble."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.daemon import Box, Peer
from tests.support.waiting import scaled

ODD_SERVER = Path(__file__).parents[1] / "faults" / "oddserver.py"
MESSAGE_LIMIT = 1 << 16
REQUEST_LIMIT = 1 << 20
"""Bytes of a line from a server, and from a client."""

FRAGMENTS = [
    *(b"\n", b"\r\n", b"\n\n \n", b"\xef\xbb\xbf", b"\0", b"\xff\xfe", b"\xed\xa0\xbd", b"\\ud83d"),
    *(b"{", b"}", b"[", b"]", b'"', b":", b",", b"null", b"1e400", b"-", b"Content-Length: 3\r\n"),
    *(
        b'{"jsonrpc":"2.0",',
        b'"id":',
        b'"id":1}',
        b'"method":',
        b'"params":{',
        b'"result":',
        b"{}}",
    ),
    *(b"[" * 60_000, b'{"a":' * 12_000, b" " * MESSAGE_LIMIT, b"x" * (MESSAGE_LIMIT + 1)),
]
NOTICES = ["message", "progress", "tools/list_changed", "resources/updated", "cancelled", "nobody"]
REQUESTS = [
    ("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}}),
    ("initialize", {}),
    ("ping", {}),
    ("tools/list", {"cursor": 5}),
    ("tools/call", {"name": "good__echo", "arguments": {"text": "x"}}),
    ("tools/call", {"arguments": []}),
    ("server/discover", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}),
    ("sampling/createMessage", {"messages": []}),
    ("elicitation/create", {"message": "who?", "requestedSchema": {}}),
    ("roots/list", {}),
    ("mcpd/hello", {}),
    ("mcpd/status", {"servers": 5}),
    ("mcpd/attach", {"server": "good"}),
    ("mcpd/call", {"server": "good", "tool": "echo", "arguments": {"text": 5}}),
    ("mcpd/events", {"since": -1}),
]


def line(**message: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


idents = st.sampled_from([0, 1, -1, "1", "", None, [1], 2**64, 1.5])
messages = st.one_of(
    st.builds(
        lambda ident, request: line(id=ident, method=request[0], params=request[1]),
        idents,
        st.sampled_from(REQUESTS),
    ),
    st.builds(
        lambda name, params: line(method=f"notifications/{name}", params=params),
        st.sampled_from(NOTICES),
        st.sampled_from([{}, [], None, {"progressToken": 1, "progress": "x"}, {"requestId": 1}]),
    ),
    st.builds(lambda ident: line(id=ident, result={}, error={"code": "x"}), idents),
)
pieces = st.lists(st.binary(max_size=40) | st.sampled_from(FRAGMENTS) | messages, max_size=8)
with_long_ones = st.lists(st.just(b"y" * (REQUEST_LIMIT + 1)) | messages, max_size=3)
cuts = st.lists(st.floats(0, 1), max_size=6)


def cut(data: bytes, where: list[float]) -> list[bytes]:
    """Cut bytes at these parts of their length."""
    at = [0, *sorted(int(part * len(data)) for part in where), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(at)]


class Ground:
    """A daemon with a good session on a good server, and a session on an odd one."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.good = box.session("good")
        self.odd = box.session("odd")
        self._count = 0

    @contextlib.contextmanager
    def good_calls_go_on(self) -> Iterator[None]:
        """Have the good session's calls in flight meanwhile, each to get its own answer."""
        self._count += 1
        before = [f"{self._count} {number}" for number in range(3)]
        params = [{"name": "echo", "arguments": {"text": text}} for text in before]
        nap = {"name": "sleep", "arguments": {"ms": 3}}
        slow = self.good.start("tools/call", nap)
        calls = [self.good.start("tools/call", each) for each in params]
        try:
            yield
        finally:
            said = [self.good.finish(call)["content"][0]["text"] for call in calls]
            nap_said = self.good.finish(slow)["content"][0]["text"]
        assert said == before
        assert nap_said == "slept 3"
        assert self.good.text("echo", text="after") == "after"
        assert not self.good.inbox


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    """One daemon for all examples; in the end it and its servers are those of the beginning."""
    box = Box()
    try:
        box.fake("good")
        args = ["-I", "-S", str(ODD_SERVER)]
        box.servers["odd"] = {"command": sys.executable, "args": args, "era": "legacy"}
        limits = {"max_message_bytes": MESSAGE_LIMIT, "max_request_bytes": REQUEST_LIMIT}
        box.settings |= limits
        made = Ground(box.up())
        yield made
        assert [box.status(name)["generation"] for name in ("good", "odd")] == [1, 1]
        made.good.close()
        made.odd.close()
        assert box.down() == 0
        assert "Traceback" not in box.log.read_text()
        assert " error " not in box.log.read_text()
    finally:
        box.close()


unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.timeout(1800)
@unhurried
@given(
    parts=pieces | with_long_ones,
    where=cuts,
    end=st.sampled_from(["close", "half close", "linger"]),
)
@example(parts=[line(id=1, method="mcpd/hello")], where=[0.5], end="half close")
@example(parts=[line(id=1, method="initialize")] * 2, where=[], end="linger")
def test_any_bytes_of_a_client_are_its_own_trouble(
    ground: Ground, parts: list[bytes], where: list[float], end: str
):
    """
    What comes back are messages, and others' calls go on. B071: however deep they are nested.
    """
    with ground.good_calls_go_on(), socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(scaled(10))
        sock.connect(str(ground.box.socket))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for piece in cut(b"".join(parts), where):
                sock.sendall(piece)
            if end == "half close":
                sock.shutdown(socket.SHUT_WR)
                for answer in read_all(sock).splitlines():
                    assert json.loads(answer)["jsonrpc"] == "2.0"
            elif end == "linger":
                ground.good.text("echo", text="meanwhile")


def read_all(sock: socket.socket) -> bytes:
    """Read until the daemon hangs up."""
    got = bytearray()
    while data := sock.recv(1 << 16):
        got += data
    return bytes(got)


@pytest.mark.timeout(1800)
@unhurried
@given(parts=pieces, where=cuts)
@example(parts=[b"x" * (MESSAGE_LIMIT * 3)], where=[0.3, 0.31])
@example(parts=[line(id=1, result={}), line(id=2, error={})], where=[])
def test_any_bytes_of_a_server_are_its_own_trouble(
    ground: Ground, parts: list[bytes], where: list[float]
):
    """
    Its next answer still arrives, and others' calls go on.
    """
    texts = [[piece.decode("latin-1"), 1] for piece in cut(b"".join(parts), where)]
    with ground.good_calls_go_on():
        assert say(ground.odd, texts) == "said"


def say(session: Peer, parts: list[list[object]]) -> str:
    """Have the odd server write, and then answer."""
    arguments = {"parts": parts, "encoding": "latin-1", "answer": True}
    said: str = session.call("say", **arguments)["content"][0]["text"]
    return said
