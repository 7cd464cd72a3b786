"""What a hostile client makes many or large of."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
from typing import Final

from mcpd.audit import queue
from mcpd.daemon.downstream import MOST_CONNECTIONS
from mcpd.daemon.servers import adhoc
from mcpd.listeners.unix import RESERVE
from tests.size.ground import BUFFERED_BYTES, HOLDS_MIB, MIB, REQUEST_BYTES, Arena, outcome, skim
from tests.size.rows import row
from tests.support.daemon import Json, Peer
from tests.support.waiting import wait_until

LARGE: Final = 8 * MIB
"""A large part of a line that is still taken."""

MODERN: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "size", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}


def line(method: str, params: bytes, ident: bytes = b'"it"') -> bytes:
    """Return a request with parameters as they are given."""
    head = b'{"jsonrpc":"2.0","id":%b,"method":"%b","params":' % (ident, method.encode())
    return b"".join((head, params, b"}\n"))


def asked(peer: Peer, data: bytes, timeout: float = 30.0) -> Json:
    """Send a line and return what comes back."""
    peer.send_raw(data)
    answer: Json = peer.take(lambda m: "id" in m or "error" in m, timeout)
    return answer


def error_of(message: Json) -> str:
    """Return ``ok``, the kind of an error, or its code."""
    if "error" not in message:
        return "ok"
    data = message["error"].get("data") or {}
    return str(data.get("kind", message["error"]["code"]))


@row(80)
def elements_of_a_batch(arena: Arena) -> None:
    """1 MiB of them held everybody up for 14 s."""
    peer = arena.session("victim", version="2025-03-26")
    for elements in (b"1", b"{}", b'{"jsonrpc":"2.0","method":"x"}'):
        many = b"[" + b",".join([elements] * (4 * MIB // (len(elements) + 1))) + b"]\n"
        assert asked(peer, many)["error"]["code"] == -32600
    few = b"[" + b",".join(line("ping", b"{}", b"%d" % n)[:-1] for n in range(1000)) + b"]\n"
    peer.send_raw(few)
    taken = peer.read_line(30.0)
    assert taken is not None
    assert len(json.loads(taken)) == 1000


@row(80)
def arrays_where_none_are_taken(arena: Arena) -> None:
    """A session of another revision takes no batch at all."""
    peer = arena.session("victim")
    assert asked(peer, b"[" + b"{}," * (LARGE // 3) + b"{}]\n")["error"]["code"] == -32600


@row(200)
def members_of_an_object(arena: Arena) -> None:
    members = b",".join(b'"%x":1' % n for n in range(LARGE // 12))
    peer = arena.session("victim")
    body = b'{"name":"echo","arguments":{"text":"x",%b}}' % members
    assert error_of(asked(peer, line("tools/call", body))) == "ok"
    body = b'{"name":"echo","arguments":{"text":"x"},"_meta":{%b}}' % members
    error_of(asked(peer, line("tools/call", body)))
    body = b'{"name":"echo","arguments":{"text":"x"},%b}' % members
    error_of(asked(peer, line("tools/call", body)))
    error_of(asked(peer, b'{"jsonrpc":"2.0","id":"it","method":"ping",%b}\n' % members))


@row(120)
def depth(arena: Arena) -> None:
    peer = arena.session("victim")
    deep = LARGE // 2
    for body in (
        b"[" * deep + b"]" * deep,
        b'{"name":"echo","arguments":{"text":%b%b}}' % (b"[" * deep, b"]" * deep),
        b'{"name":"echo","arguments":%b1%b}' % (b'{"a":' * (deep // 3), b"}" * (deep // 3)),
    ):
        assert error_of(asked(peer, line("tools/call", body))) != "ok"
    assert peer.text("echo", text="after") == "after"


@row(150)
def blanks(arena: Arena) -> None:
    """Beside a lone surrogate they were walked through one by one, in Python."""
    peer = arena.session("victim")
    for body in (
        b'{"name":"echo","arguments":{"text":"x"}%b}' % (b" " * LARGE),
        b'{"name":"echo","arguments":{"text":"\\ud800"%b}}' % (b" " * LARGE),
        b'{"name":"echo",%b"arguments":{"text":"\\ud800"}}' % (b" \t" * (LARGE // 2)),
    ):
        asked(peer, line("tools/call", body))
    peer.send_raw((b" " * 1000 + b"\n") * 8000)
    assert peer.request("ping") == {}


@row(200)
def escapes(arena: Arena) -> None:
    peer = arena.session("victim")
    some = b"\\ud800" * (LARGE // 6)
    asked(peer, line("tools/call", b'{"name":"%b","arguments":{}}' % some))
    asked(peer, line("tools/call", b'{"name":"echo","arguments":{"%b":1}}' % some))
    asked(peer, line("tools/call", b'{"name":"echo","arguments":{"text":"%b"}}' % some))
    asked(peer, line(some.decode(), b"{}"))


@row(150)
def names(arena: Arena) -> None:
    """What is not found is named in the error, and cut."""
    peer, control = arena.session(None), arena.peer()
    name = b"x" * LARGE
    for method, body in (
        ("tools/call", b'{"name":"%b","arguments":{}}' % name),
        ("prompts/get", b'{"name":"%b"}' % name),
        ("logging/setLevel", b'{"level":"%b"}' % name),
        (name.decode(), b"{}"),
    ):
        answer = asked(peer, line(method, body))
        assert "error" in answer
        assert len(json.dumps(answer)) < MIB, method
    for method, body in (
        ("mcpd/call", b'{"server":"%b","tool":"x"}' % name),
        ("mcpd/call", b'{"server":"victim","tool":"%b"}' % name),
        ("mcpd/attach", b'{"server":"%b"}' % name),
        ("mcpd/logs", b'{"server":"%b"}' % name),
        ("mcpd/" + name.decode(), b"{}"),
    ):
        answer = asked(control, line(method, body))
        assert "error" in answer
        assert len(json.dumps(answer)) < MIB, method


@row(150)
def uris(arena: Arena) -> None:
    peer = arena.session(None)
    uri = b"puppet://" + b"x/" * (LARGE // 2)
    for method in ("resources/read", "resources/subscribe", "resources/unsubscribe"):
        answer = asked(peer, line(method, b'{"uri":"%b"}' % uri))
        assert len(json.dumps(answer)) < 2 * LARGE


@row(HOLDS_MIB)
def ids(arena: Arena) -> None:
    """Each is kept until its request is answered; so are progress tokens."""
    peer = arena.session("puppet")
    long = b"x" * MIB
    for n in range(120):
        body = b'{"name":"hang","_meta":{"progressToken":"%d%b"}}' % (n, long)
        peer.send_raw(line("tools/call", body, b'"%d%b"' % (n, long)))
    assert peer.request("ping", timeout=30.0) == {}


@row(40)
def requests_in_flight(arena: Arena) -> None:
    peer = arena.session("puppet")
    for n in range(1200):
        peer.start("tools/call", {"name": "hang"}, ident=f"r{n}")
    assert [outcome(peer, f"r{n}") for n in range(1000, 1200)] == ["rate_limited"] * 200


@row(HOLDS_MIB)
def bytes_that_wait(arena: Arena) -> None:
    """119 calls behind ``max_concurrency = 1`` took 1 GB."""
    arena.bring("narrow", max_concurrency=1)
    peer = arena.session("narrow")
    big = b'{"name":"hang","arguments":{"blob":"%b"}}' % (b"x" * (4 * MIB))
    many = 2 * BUFFERED_BYTES // len(big)
    for n in range(many):
        peer.send_raw(line("tools/call", big, b'"r%d"' % n))
    assert peer.request("ping", timeout=30.0) == {}
    refused = [m for m in peer.inbox if error_of(m) == "server_busy"]
    assert len(refused) > many // 4


@row(HOLDS_MIB)
def bytes_in_flight(arena: Arena) -> None:
    """What was sent is kept for as long as it may have to be sent again."""
    peer = arena.session("puppet")
    big = b'{"name":"hang","arguments":{"blob":"%b"}}' % (b"x" * (4 * MIB))
    for n in range(2 * BUFFERED_BYTES // len(big)):
        peer.send_raw(line("tools/call", big, b'"r%d"' % n))
    assert peer.request("ping", timeout=30.0) == {}


@row(HOLDS_MIB)
def calls_that_are_asked_about(arena: Arena) -> None:
    """With large arguments, with many members, and from many sessions one after the other."""
    arena.bring("asked", approval="ask")
    for number in range(40):
        peer = arena.session("asked")
        params = {"name": "run", "arguments": {"n": number, "blob": "x" * MIB}}
        kinds = [
            outcome(peer, peer.start("tools/call", {**params, "name": f"run{each}"}))
            for each in range(10)
        ]
        assert set(kinds) <= {"approval_required", "rate_limited", "server_busy"}
        peer.close()
    peer = arena.session("asked")
    for many in (b"[" + b"{}," * 300_000 + b"{}]", b"[" * 100_000 + b"]" * 100_000):
        call = line("tools/call", b'{"name":"run","arguments":{"a":%b}}' % many)
        kind = error_of(asked(peer, call))
        assert kind in ("invalid_arguments", "invalid_message")


@row(40)
def subscriptions(arena: Arena) -> None:
    peer = arena.session("puppet")
    for n in range(1500):
        peer.start("resources/subscribe", {"uri": f"puppet://{n}"}, ident=f"r{n}")
    came = [outcome(peer, f"r{n}") for n in range(1500)]
    assert came[:900] == ["ok"] * 900
    assert came[-100:] == ["rate_limited"] * 100


@row(60)
def listens(arena: Arena) -> None:
    peer = arena.session("puppet", handshake=False)
    wants = {"_meta": MODERN, "notifications": {"toolsListChanged": True}}
    for n in range(1500):
        peer.start("subscriptions/listen", wants, ident=f"r{n}")
    assert [outcome(peer, f"r{n}") for n in range(1400, 1500)] == ["rate_limited"] * 100


@row(120)
def topics_of_a_listen(arena: Arena) -> None:
    peer = arena.session("puppet", handshake=False)
    many = [f"puppet://{n}" for n in range(100_000)]
    wants = {"_meta": MODERN, "notifications": {"resourceSubscriptions": many}}
    peer.start("subscriptions/listen", wants, ident="r1")
    assert outcome(peer, "r1") == "rate_limited"


@row(40)
def cancellations(arena: Arena) -> None:
    arena.bring("narrow", max_concurrency=1)
    peer = arena.session("narrow")
    for n in range(900):
        peer.start("tools/call", {"name": "hang"}, ident=f"r{n}")
    lines = [
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"r%d"}}\n' % n
        for n in reversed(range(900))
    ]
    peer.send_raw(b"".join(lines * 5))
    assert peer.request("ping", timeout=30.0) == {}
    assert not peer.inbox


@row(40)
def notifications(arena: Arena) -> None:
    peer = arena.session("victim")
    some = [
        b'{"jsonrpc":"2.0","method":"notifications/%b","params":{"progressToken":1,"progress":1}}\n'
        % name
        for name in (b"progress", b"roots/list_changed", b"initialized", b"nobody/knows")
    ]
    peer.send_raw(b"".join(some) * 10_000)
    assert peer.request("ping", timeout=30.0) == {}


@row(HOLDS_MIB)
def half_frames(arena: Arena) -> None:
    """A line that is never finished is kept, up to its limit, on each connection."""
    peers = [arena.peer() for _ in range(40)]
    for peer in peers:
        try:
            peer.send_raw(b'{"a":"' + b"x" * (4 * MIB))
        except OSError:  # it was the one to be closed
            continue
    with arena.peer() as control:
        assert control.request("mcpd/hello", timeout=30.0)


@row(60)
def lines_over_their_limit(arena: Arena) -> None:
    peer = arena.session("victim")
    piece = b"x" * MIB
    peer.send_raw(b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":"')
    for _ in range(REQUEST_BYTES // MIB * 4):
        peer.send_raw(piece)
    peer.send_raw(b'"}}\n')
    assert outcome(peer, 7) == "message_too_large"


@row(60)
def connections(arena: Arena) -> None:
    crowd = []
    try:
        for _ in range(1100):
            crowd.append(Peer.dial(arena.box.socket))
        answers = [peer for peer in crowd if _says_hello(peer)]
        assert 900 < len(answers) <= MOST_CONNECTIONS + RESERVE, len(answers)
        assert arena.box.ctl("status").returncode == 0
    finally:
        for peer in crowd:
            peer.close()


def _says_hello(peer: Peer) -> bool:
    try:
        peer.send(id=1, method="mcpd/hello")
        answer = peer.read_line()
    except OSError:
        return False
    return answer is not None and "result" in json.loads(answer)


@row(40)
def coming_and_going(arena: Arena) -> None:
    greeting = b'{"jsonrpc":"2.0","id":1,"method":"mcpd/hello"}\n'
    attach = b'{"jsonrpc":"2.0","id":2,"method":"mcpd/attach","params":{"server":"victim"}}\n'
    for _ in range(1000):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(arena.box.socket))
            sock.sendall(greeting + attach)


@row(60)
def servers_that_are_brought(arena: Arena) -> None:
    """Each command that is in no configuration is a server for a minute at least."""

    def bring(number: int) -> tuple[Peer, str]:
        peer = arena.peer()
        command = {"command": "/bin/cat", "args": [f"{os.getpid()}-{number}"]}
        peer.start("mcpd/attach", {"command": command}, ident="it")
        return peer, outcome(peer, "it")

    for number in range(adhoc.MOST + 20):
        peer, kind = bring(number)
        assert kind == "ok"
        peer.close()
    kinds = [bring(number)[1] for number in range(adhoc.MOST + 20)]
    assert kinds == ["ok"] * adhoc.MOST + ["rate_limited"] * 20
    with arena.peer() as control:
        found = control.request("mcpd/status", timeout=30.0)["servers"]
    assert len(found) == len(arena.box.servers) + adhoc.MOST


@row(150)
def parts_of_a_command(arena: Arena) -> None:
    peer = arena.peer()
    for command in (
        {"command": "/bin/cat", "args": [""] * (LARGE // 3)},
        {"command": "/bin/cat", "env": {str(n): "" for n in range(LARGE // 14)}},
        {"command": "/bin/cat", "args": ["${A}" * (LARGE // 4)]},
        {str(n): n for n in range(LARGE // 20)},
    ):
        assert "error" in asked(
            peer, line("mcpd/attach", json.dumps({"command": command}).encode())
        )


@row(150)
def roots(arena: Arena) -> None:
    peer = arena.peer()
    for attach in ({"roots": ["x"] * (LARGE // 5)}, {"roots": ["file://[" * (LARGE // 8)]}):
        peer.request("mcpd/hello")
        asked(peer, line("mcpd/attach", json.dumps({"server": "victim", **attach}).encode()))
        peer = arena.peer()


@row(100)
def directories(arena: Arena) -> None:
    """Each part of the path was looked at, in a path of 8 MiB."""
    deep = "/a" * (LARGE // 2)
    with arena.peer() as peer:
        asked(peer, line("mcpd/hello", json.dumps({"cwd": deep}).encode()))
    with arena.peer() as peer:
        answer = asked(
            peer, line("mcpd/attach", json.dumps({"server": "victim", "cwd": deep}).encode())
        )
        assert "error" in answer


@row(HOLDS_MIB)
def capabilities(arena: Arena) -> None:
    """What a client says of itself is kept as long as its session."""
    blob = "x" * (4 * MIB)
    for _ in range(2 * BUFFERED_BYTES // len(blob)):
        peer = arena.session("victim", handshake=False)
        told = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"experimental": {"x": blob}},
            "clientInfo": {"name": "x", "version": "1"},
        }
        try:
            asked(peer, line("initialize", json.dumps(told).encode()))
        except (OSError, EOFError):
            continue


@row(60)
def followers_of_events(arena: Arena) -> None:
    """Each is told each event."""
    for _ in range(4):
        peer = arena.peer()
        for n in range(1000):
            peer.start("mcpd/events", {}, ident=f"r{n}")
        peer.request("mcpd/hello", timeout=30.0)
    for _ in range(50):
        with Peer.dial(arena.box.socket) as other:
            other.request("mcpd/attach", {"server": "victim"})


@row(60)
def followers_of_logs(arena: Arena) -> None:
    for _ in range(4):
        peer = arena.peer()
        for n in range(1000):
            peer.start("mcpd/logs", {"server": "puppet", "follow": True, "lines": 1}, ident=f"r{n}")
        peer.request("mcpd/hello", timeout=30.0)
    noisy = arena.session("puppet")
    noisy.call("run", 30.0, code="err(b'a line of noise\\n' * 200)")


@row(150)
def lines_of_a_log(arena: Arena) -> None:
    """As many as are asked for are read from the file."""
    noisy = arena.session("puppet")
    noisy.call("run", 30.0, code="err(b'a line of noise\\n' * 200_000)")
    with arena.peer() as peer:
        for _ in range(2):
            peer.start("mcpd/logs", {"server": "puppet", "lines": 10**9}, ident="it")
            assert skim(peer, "it") is not None


@row(150)
def control_requests(arena: Arena) -> None:
    peer = arena.peer()
    many = ["victim"] * (LARGE // 20)
    for method, params in (
        ("mcpd/status", {"servers": many}),
        ("mcpd/start", {"servers": many}),
        ("mcpd/events", {"servers": many}),
        ("mcpd/status", {"servers": [str(n) for n in range(LARGE // 20)]}),
    ):
        asked(peer, line(method, json.dumps(params).encode()))
    crowd = arena.peer()
    for n in range(1000):
        crowd.start("mcpd/status", ident=f"r{n}")
    assert {outcome(crowd, f"r{n}") for n in range(1000)} == {"ok"}


@row(60)
def completions(arena: Arena) -> None:
    peer = arena.session("puppet")
    argument = {
        "ref": {"type": "ref/prompt", "name": "x"},
        "argument": {"name": "a", "value": "v" * 1000},
    }
    for n in range(1000):
        peer.start("completion/complete", argument, ident=f"r{n}")
    assert {outcome(peer, f"r{n}") for n in range(1000)} == {"ok"}


@row(150)
def arguments_that_are_checked(arena: Arena) -> None:
    """In a process of its own, and up to a bound."""
    with arena.peer() as peer:
        for body in (
            b"{%b}" % b",".join(b'"%x":[]' % n for n in range(LARGE // 10)),
            b'{"text":%b%b}' % (b"[" * (LARGE // 2), b"]" * (LARGE // 2)),
            b'{"text":"%b"}' % (b"x" * LARGE),
        ):
            asked(
                peer,
                line("mcpd/call", b'{"server":"victim","tool":"echo","arguments":%b}' % body),
                60.0,
            )


@row(HOLDS_MIB)
def answers_that_nobody_reads(arena: Arena) -> None:
    """The largest outbox is closed when all together are over the bound."""
    peers: list[Peer] = []
    for _ in range(6):
        peer = arena.session("victim")
        peers.append(peer)
        for n in range(10):
            try:
                peer.start(
                    "tools/call", {"name": "blob", "arguments": {"bytes": 4 * MIB}}, ident=f"b{n}"
                )
            except OSError:
                break
    with arena.peer() as control:
        assert control.request("mcpd/hello", timeout=30.0)
    assert arena.session("victim").text("echo", 30.0, text="x") == "x"


@row(40)
def log_levels(arena: Arena) -> None:
    peer = arena.session("puppet")
    levels = ("debug", "info", "error")
    for n in range(900):
        peer.start("logging/setLevel", {"level": levels[n % 3]}, ident=f"r{n}")
    assert {outcome(peer, f"r{n}") for n in range(900)} == {"ok"}


@row(60)
def answers_that_nobody_asked_for(arena: Arena) -> None:
    peer = arena.session("victim")
    peer.send_raw(b"".join(b'{"jsonrpc":"2.0","id":%d,"result":{}}\n' % n for n in range(100_000)))
    assert peer.request("ping", timeout=30.0) == {}


@row(110)
def calls_that_are_not_recorded_yet(arena: Arena) -> None:
    """Another program holds the file: calls go on, and what waits for it is bounded."""
    peer = arena.session("victim")
    peer.call("count")
    path = arena.box.state / "audit.db"
    wait_until(path.exists)
    held = sqlite3.connect(path, isolation_level=None, timeout=10.0)
    held.execute("BEGIN IMMEDIATE")
    try:
        asked_for = b"".join(
            line("tools/call", b'{"name":"count","arguments":{}}', b"%d" % n)
            for n in range(1000, 1500)
        )
        for _ in range(queue.MOST_ROWS // 500 + 1):
            peer.send_raw(asked_for)
            for ident in range(1000, 1500):
                assert outcome(peer, ident) == "ok"
    finally:
        held.execute("ROLLBACK")
        held.close()

    def is_said() -> bool:
        with Peer.dial(arena.box.socket) as person:
            problems = person.request("mcpd/status")["daemon"].get("problems", [])
        return any("the audit has a gap" in each for each in problems)

    wait_until(is_said, 20.0)
