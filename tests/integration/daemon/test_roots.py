"""Servers that ask for roots when they are initialized, and deny everything until they know some."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Box

PROGRAM = Path(__file__).parents[2] / "support" / "listserver.py"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
}
ROOTS = {"roots": [{"uri": "file:///mine"}]}
ECHO = {"name": "echo", "arguments": {}}


def serve(box: Box, *flags: object, **entry: Any) -> Box:
    args = [str(PROGRAM), "--asks-roots", *map(str, flags)]
    box.servers["fake"] = {"command": sys.executable, "args": args, **entry}
    return box.up()


def told(result: Any) -> Any:
    """Return the roots that the server had when the tool was called; text where it had none."""
    text = result["content"][0]["text"]
    return text if result.get("isError") else json.loads(text)[2]


@pytest.mark.parametrize("after", [0, 0.1])
def test_the_call_that_starts_a_server_waits_until_it_knows_the_roots(
    box: Box, after: float
) -> None:
    """
    Its question comes after the handshake, and a client that is alone with it has answered that
    long before it calls a tool.
    """
    serve(box, "--asks-after", after, sharing="session", roots="session")
    first = box.session(capabilities={"roots": {}})  # waits for the server, that nobody knows yet
    second = box.session(capabilities={"roots": {}})  # does not: its call starts one
    for peer in (second, first):
        call = peer.start("tools/call", ECHO)
        asked = peer.take(lambda m: m.get("method") == "roots/list")
        peer.send(id=asked["id"], result=ROOTS)
        assert told(peer.finish(call)) == ["file:///mine"]


def test_a_modern_client_is_asked_before_its_call_is_sent(box: Box) -> None:
    serve(box, sharing="session", roots="session")
    peer = box.session(handshake=False)
    asked = peer.request("tools/call", {**ECHO, "_meta": META})
    assert asked["resultType"] == "input_required"
    ((key, question),) = asked["inputRequests"].items()
    assert question["method"] == "roots/list"
    answer = {"inputResponses": {key: ROOTS}, "requestState": asked["requestState"]}
    assert told(peer.request("tools/call", {**ECHO, **answer, "_meta": META})) == ["file:///mine"]


def test_roots_of_the_entry_are_known_before_the_first_call(box: Box) -> None:
    serve(box, "--asks-after", 0.1, roots=["file:///its"])
    assert told(box.session().call("echo")) == ["file:///its"]
    box.ctl("restart", "fake")
    done = box.ctl("call", "fake.echo")
    assert (json.loads(done.stdout)[2], done.stderr) == (["file:///its"], "")


def test_a_client_without_roots_is_not_waited_for(box: Box) -> None:
    """
    The server is told so, and does what it does without roots.
    """
    serve(box, sharing="session", roots="session")
    assert told(box.session().call("echo")) == "Access denied"
