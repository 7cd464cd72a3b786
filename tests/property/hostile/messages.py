"""Messages of a hostile client and of a hostile server: valid ones, nearly valid ones, and worse.

Standard library only: a hostile server is a process of its own. Each kind is a function of dice, a
size in bytes and what the peer has seen; the same dice give the same message.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

Json = dict[str, Any]

MODERN: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "hostile", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "sampling": {}},
}
ODD: Final = (
    *(b"", b" ", b"\0", b"\xff\xfe", b"null", b"1e400", b'"', b"{", b"}", b"[]", b"{}", b"[1]"),
    *(b'"\\ud800"', b"Content-Length: 3", b"\x1b[31m", b'{"jsonrpc":"2.0"}', b'{"a":1,"a":2}'),
)
URIS: Final = ("fake://a", "fake://b", "fake://a/b", "nobody://x", "")
NEVER: Final = 987_654_321
"""An id that nobody has given."""


class Seen:
    """What a peer knows that it can misuse."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        """Ids of what it was asked, and has not answered."""
        self.answered: list[Any] = []
        self.sent = 0

    def hear(self, line: bytes) -> None:
        """Remember the id of a request."""
        if b'"method"' not in line[:200]:
            return
        message = json.loads(line)
        if "id" in message:
            self.asked = [*self.asked[-200:], message["id"]]

    def any(self, dice: random.Random) -> Any:
        """Return an id: one that is open, mostly, or another."""
        if self.asked and dice.random() < 0.8:
            return dice.choice(self.asked)
        return dice.choice(self.answered) if self.answered else NEVER

    def open(self, dice: random.Random) -> Any:
        """Return an id that is open, and forget it."""
        if not self.asked:
            return NEVER
        found = self.asked.pop(dice.randrange(len(self.asked)))
        self.answered = [*self.answered[-200:], found]
        return found


Make = Callable[[random.Random, int, Seen], bytes]


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode()


def nested(size: int) -> bytes:
    return b"[" * (size // 2) + b"]" * (size // 2)


def blob(dice: random.Random, size: int) -> Any:
    """Return a value of about so many bytes, in one of many shapes."""
    match dice.randrange(6):
        case 0:
            return "x" * size
        case 1:
            return [1] * (size // 2)
        case 2:
            return {f"{n:x}": n for n in range(size // 12)}
        case 3:
            return '\ud800\\"\n' * (size // 12)
        case 4:
            return [{}] * (size // 3)
        case _:
            return " " * size


def ident(dice: random.Random, seen: Seen) -> Any:
    seen.sent += 1
    return dice.choice((seen.sent, str(seen.sent), seen.sent, seen.sent, 1, "1", -1, 2**63))


# -- a client --------------------------------------------------------------------------------------


def call(dice: random.Random, size: int, seen: Seen) -> bytes:
    params: Json = {
        "name": dice.choice(("echo", "write", "run", "hang", "bad__echo", "nobody")),
        "arguments": dice.choice(({}, {"text": blob(dice, size)})),
    }
    if dice.random() < 0.3:
        params["_meta"] = {"progressToken": dice.choice((1, "t", seen.sent, "x" * min(size, 5000)))}
    if dice.random() < 0.3:
        params["_meta"] = dict(MODERN)
    return line(id=ident(dice, seen), method="tools/call", params=params)


def request(dice: random.Random, size: int, seen: Seen) -> bytes:
    method, params = dice.choice(
        (
            ("ping", {}),
            ("tools/list", {"cursor": dice.choice((None, "x", 5))}),
            ("prompts/list", {}),
            ("prompts/get", {"name": "p", "arguments": dice.choice(({}, [], {"a": 5}))}),
            ("resources/list", None),
            ("resources/templates/list", {}),
            ("resources/read", {"uri": dice.choice((*URIS, "x" * size))}),
            ("logging/setLevel", {"level": dice.choice(("debug", "error", "nobody", 5))}),
            ("completion/complete", {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {}}),
            ("initialize", {"protocolVersion": "2025-03-26", "capabilities": {"elicitation": {}}}),
            ("server/discover", {"_meta": MODERN}),
            ("x" * min(size, 10_000), {}),
        )
    )
    return line(id=ident(dice, seen), method=method, params=params)


def follow(dice: random.Random, size: int, seen: Seen) -> bytes:
    uri = dice.choice((*URIS, f"fake://{dice.randrange(5000)}"))
    method = dice.choice(("resources/subscribe", "resources/unsubscribe", "subscriptions/listen"))
    params: Json = {"uri": uri}
    if method == "subscriptions/listen":
        topics = [f"fake://{n}" for n in range(dice.choice((0, 1, min(size, 50_000) // 20)))]
        params = {"_meta": MODERN, "notifications": {"resourceSubscriptions": topics}}
        if dice.random() < 0.5:
            params["notifications"]["toolsListChanged"] = True
    return line(id=ident(dice, seen), method=method, params=params)


def batch(dice: random.Random, size: int, seen: Seen) -> bytes:
    makes = (call, request, cancel, odd, batch if size < 1000 else odd)
    some = (dice.choice(makes)(dice, 10, seen) for _ in range(min(size // 20, 2000)))
    return b"[" + b",".join(some) + b"]"


def cancel(dice: random.Random, size: int, seen: Seen) -> bytes:
    which = dice.choice((seen.sent, str(seen.sent), dice.randrange(seen.sent + 1), None, [1]))
    params = {"requestId": which, "reason": "x" * min(size, 100_000)}
    return line(method="notifications/cancelled", params=params)


def notify(dice: random.Random, size: int, seen: Seen) -> bytes:
    method = dice.choice(("initialized", "progress", "roots/list_changed", "nobody/knows"))
    params = {"progressToken": dice.choice((1, "1", None)), "progress": 1, "x": blob(dice, size)}
    return line(method=f"notifications/{method}", params=params)


def reply(dice: random.Random, size: int, seen: Seen) -> bytes:
    """Answer a question, well or not."""
    results: tuple[Json, ...] = (
        {"result": {"action": "accept", "content": {"a": "x" * min(size, 10_000)}}},
        {"result": {"action": "nobody"}},
        {"error": {"code": 1, "message": "no"}},
        {"result": {}, "error": {}},
        {},
    )
    which = seen.open(dice) if dice.random() < 0.7 else seen.any(dice)
    return line(id=which, **dice.choice(results))


def control(dice: random.Random, size: int, seen: Seen) -> bytes:
    names = dice.choice((["good"], ["bad"], ["nobody"], ["bad"] * min(size // 6, 10_000)))
    method, params = dice.choice(
        (
            ("hello", {"cwd": "/a" * (size // 2)}),
            ("status", {"servers": names}),
            ("attach", {"server": "bad", "roots": ["file:///x"] * min(size // 12, 10_000)}),
            ("attach", {"command": {"command": "/bin/cat", "args": [str(dice.randrange(5))]}}),
            ("call", {"server": "bad", "tool": "run", "arguments": {"a": "x" * size}}),
            ("call", {"server": "bad", "tool": "x", "timeout": dice.choice((0.01, -1, "x"))}),
            ("tools", {}),
            ("resources", {"server": "bad"}),
            ("read", {"uri": dice.choice(URIS)}),
            ("prompt", {"server": "bad", "name": "x" * min(size, 10_000)}),
            ("list", {}),
            ("logs", {"server": "bad", "lines": 10, "follow": dice.random() < 0.5}),
            ("events", {"since": dice.choice((0, -1, 10**9))}),
            ("nobody", {}),
        )
    )
    return line(id=ident(dice, seen), method=f"mcpd/{method}", params=params)


def deep(dice: random.Random, size: int, seen: Seen) -> bytes:
    head = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":' % dice.randrange(1, 1000)
    return (
        head + dice.choice((nested(size), b'{"name":"echo","arguments":%b}' % nested(size))) + b"}"
    )


def odd(dice: random.Random, size: int, seen: Seen) -> bytes:
    return dice.choice(ODD)


def torn(dice: random.Random, size: int, seen: Seen) -> bytes:
    """Return a message with a piece missing, or one too many."""
    whole = dice.choice((call, request, reply))(dice, min(size, 2000), seen)
    at = dice.randrange(len(whole))
    return (
        whole[:at]
        + dice.choice((b"", b"\\", b'"', b"\xff", b"}"))
        + whole[at + dice.randrange(3) :]
    )


CLIENT: Final[Mapping[str, Make]] = {
    made.__name__: made
    for made in (call, request, follow, batch, cancel, notify, reply, control, deep, odd, torn)
}


# -- a server --------------------------------------------------------------------------------------


def answer(dice: random.Random, size: int, seen: Seen) -> bytes:
    which = seen.open(dice) if dice.random() < 0.8 else seen.any(dice)
    members: tuple[Json, ...] = (
        {"result": {"content": [{"type": "text", "text": "x"}], "x": blob(dice, size)}},
        {"result": {"resultType": "complete", "content": []}},
        {"result": {"tools": [{"name": f"t{n}"} for n in range(min(size // 10, 3000))]}},
        {"result": {"tools": [1] * (size // 2), "nextCursor": "again"}},
        {"result": {"resources": [{"uri": uri, "name": "n"} for uri in URIS]}},
        {"result": {"resultType": "input_required", "requestState": "s" * min(size, 10_000)}},
        {
            "result": {
                "resultType": "input_required",
                "inputRequests": {
                    str(n): {"method": "elicitation/create", "params": {"message": "m"}}
                    for n in range(min(size // 60, 500))
                },
            }
        },
        {"result": "x" * size},
        {"result": None, "error": None},
        {"error": {"code": -32601, "message": "x" * min(size, 10_000)}},
        {"error": "x"},
    )
    return line(id=which, **dice.choice(members))


def ask(dice: random.Random, size: int, seen: Seen) -> bytes:
    method = dice.choice(
        ("elicitation/create", "elicitation/create", "sampling/createMessage", "roots/list", "x")
    )
    params = {"message": "x" * size, "requestedSchema": {"type": "object", "properties": {}}}
    which = dice.choice(
        (dice.randrange(10**9), dice.randrange(10), "q", None, "x" * min(size, 3000))
    )
    return line(id=which, method=method, params=params)


def report(dice: random.Random, size: int, seen: Seen) -> bytes:
    told: tuple[tuple[str, Json], ...] = (
        ("progress", {"progressToken": seen.any(dice), "progress": 1, "message": "x" * size}),
        ("message", {"level": dice.choice(("error", "debug", 5)), "data": blob(dice, size)}),
        ("tools/list_changed", {}),
        ("prompts/list_changed", {}),
        ("resources/list_changed", {}),
        ("resources/updated", {"uri": dice.choice((*URIS, "x" * size))}),
        ("cancelled", {"requestId": dice.choice((seen.any(dice), dice.randrange(10), "q"))}),
        ("elicitation/complete", {"elicitationId": "x" * min(size, 3000)}),
        ("subscriptions/acknowledged", {"notifications": {"resourceSubscriptions": ["x"]}}),
        ("tasks", {"taskId": "x"}),
        ("nobody/knows", {"x": blob(dice, size)}),
    )
    method, params = dice.choice(told)
    return line(method=f"notifications/{method}", params=params)


def gather(dice: random.Random, size: int, seen: Seen) -> bytes:
    """Return an array of messages, and of what is none."""
    some = (
        dice.choice((answer, ask, report, odd))(dice, 10, seen)
        for _ in range(min(size // 20, 2000))
    )
    return b"[" + b",".join(some) + b"]"


def noise(dice: random.Random, size: int, seen: Seen) -> bytes:
    return dice.choice((*ODD, b"x" * size, b"[" + b"1," * (size // 2) + b"1]", b" " * size))


def sink(dice: random.Random, size: int, seen: Seen) -> bytes:
    head = b'{"jsonrpc":"2.0","id":%b,"result":' % json.dumps(seen.any(dice)).encode()
    return head + dice.choice((nested(size), b"{" * size, b'{"a":%b}' % nested(size))) + b"}"


def cut(dice: random.Random, size: int, seen: Seen) -> bytes:
    whole = dice.choice((answer, ask, report))(dice, min(size, 2000), seen)
    return whole[: dice.randrange(len(whole))]


SERVER: Final[Mapping[str, Make]] = {
    made.__name__: made for made in (answer, ask, report, gather, noise, sink, cut)
}


SIZES: Final = (10, 10, 100, 100, 1000, 1000, 10_000, 100_000)
"""Of what is large in a message, in bytes; one in a few hundred has a megabyte."""


def size_of(dice: random.Random) -> int:
    """Return how large a message is to be."""
    return 1_000_000 if dice.random() < 0.002 else dice.choice(SIZES)
