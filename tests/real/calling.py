"""The same call on different ways to a server, and what came of it in one form."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from tests.real.servers import Call
from tests.support.daemon import Box, Peer, RpcError

Json = dict[str, Any]
Caller = Callable[[Call], Json]

TIMEOUT_S = 30.0
SERVER_INFO = "io.modelcontextprotocol/serverInfo"


def over(peer: Peer) -> Caller:
    """Call by ``tools/call`` in a session."""

    def call(asked: Call) -> Json:
        return answer(peer, "tools/call", {"name": asked.tool, "arguments": asked.arguments})

    return call


def answer(peer: Peer, method: str, params: Json) -> Json:
    """Return what a request is answered, be it a result or an error."""
    try:
        return {"result": unsigned(peer.request(method, params, TIMEOUT_S))}
    except RpcError as error:
        told: Json = {"code": error.code, "message": error.message}
        return {"error": told if error.data is None else {**told, "data": error.data}}


def raw(peer: Peer, method: str, params: Json, member: str) -> str:
    """Return a member of a result as its bytes came: spacing, escapes and order included."""
    ident, line = peer.start(method, params), b""
    while (said := json.loads(line or b"{}")).get("id") != ident or "method" in said:
        peer.inbox += [said] if said else []
        line = peer.read_line(TIMEOUT_S) or b""
        assert line, f"closed before the answer to {method}"
    assert member in said.get("result", {}), said
    assert "nextCursor" not in said["result"], "a list in pages"
    text, name = line.decode(), json.dumps(member)
    start = re.compile(rf"{name}\s*:\s*").search(text, text.index('"result"'))
    assert start
    _, end = json.JSONDecoder().raw_decode(text, start.end())
    return text[start.end() : end]


def by_command(box: Box, server: str) -> Caller:
    """Call by ``mcpctl call``; its exit status must agree with what it printed."""

    def call(asked: Call) -> Json:
        words = [_word(name, value) for name, value in asked.arguments.items()]
        ran = box.ctl("call", "--json", server, asked.tool, *words)
        assert ran.stdout, ran.stderr
        printed = json.loads(ran.stdout)
        failed = set(printed) == {"error"}
        assert ran.returncode == (failed or bool(printed.get("isError"))), (ran, printed)
        return printed if failed else {"result": unsigned(printed)}

    return call


def unsigned(result: Json) -> Json:
    """Return a result without the name of the server, which modern servers put into each.

    A server of both eras is used as modern by mcpd, and what it says is passed on; a client that
    speaks to it directly in the legacy era gets none.
    """
    meta = {key: value for key, value in result.get("_meta", {}).items() if key != SERVER_INFO}
    bare = {key: value for key, value in result.items() if key != "_meta"}
    return {**bare, "_meta": meta} if meta else bare


def _word(name: str, value: object) -> str:
    """Return an argument as it is typed: texts as they are, everything else as JSON."""
    return f"{name}={value}" if isinstance(value, str) else f"{name}:={json.dumps(value)}"


def outcomes(call: Caller, calls: tuple[Call, ...]) -> list[tuple[str, Json]]:
    """Make the calls in turn and return what came of each, masked."""
    return [(each.tool, masked(call(each), each.mask)) for each in calls]


def differing(
    got: list[tuple[str, Json]], wanted: list[tuple[str, Json]]
) -> list[tuple[str, Json, Json]]:
    """Return tool, outcome and what was wanted, where they differ."""
    pairs = zip(got, wanted, strict=True)
    return [(tool, mine, theirs) for (tool, mine), (_, theirs) in pairs if mine != theirs]


def masked(value: Any, mask: Callable[[str], str] | None) -> Any:
    """Return ``value`` with ``mask`` applied to every text that is somebody's content."""
    match value:
        case dict():
            return {k: v if k == "type" else masked(v, mask) for k, v in value.items()}
        case list():
            return [masked(v, mask) for v in value]
        case str() if mask is not None:
            return mask(value)
    return value
