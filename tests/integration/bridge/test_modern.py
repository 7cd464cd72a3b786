"""The bridge between peers of the modern era: requests that carry all, and listens without end."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.integration.bridge.fakedaemon import Bridge, Connection, FakeDaemon, Json, line
from tests.support.daemon import Box, binary
from tests.support.waiting import scaled, wait_until

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}


def modern(ident: object, method: str, **params: object) -> bytes:
    return line(id=ident, method=method, params={"_meta": ENVELOPE, **params})


def listen(ident: object) -> bytes:
    return modern(ident, "subscriptions/listen", notifications={"toolsListChanged": True})


def answering(message: Json, connection: Connection) -> None:
    """Acknowledge a listen, and answer what is neither that nor ``tools/call``."""
    if message["method"] == "subscriptions/listen":
        tag = {"io.modelcontextprotocol/subscriptionId": message["id"]}
        params = {"_meta": tag, "notifications": {"toolsListChanged": True}}
        connection.answer(line(method="notifications/subscriptions/acknowledged", params=params))
    elif "id" in message and message["method"] != "tools/call":
        connection.answer(line(id=message["id"], result={"resultType": "complete"}))


@pytest.fixture
def daemon():
    with FakeDaemon(answering) as made:
        yield made


@pytest.fixture
def bridge(daemon):
    with Bridge(daemon, "fake", "--no-start", "--linger", "60") as made:
        yield made


def test_modern_frames_pass_byte_for_byte_in_both_directions(daemon, bridge):
    daemon.handler = lambda message, connection: None
    sent = [
        modern("d", "server/discover"),
        b'{"params":{"_meta":{"io.modelcontextprotocol/protocolVersion" : "2026-07-28"},'
        b'"arguments":{"n":1.0}},"method":"tools/call","id":"\\u0031","jsonrpc":"2.0"}\n',
        listen(-7),
        listen("ü"),
        line(method="notifications/cancelled", params={"requestId": -7}),
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"\\u00fc"}}\n',
        line(method="notifications/cancelled", params={"requestId": 1.5, "_meta": ENVELOPE}),
        line(method="notifications/cancelled", params={"requestId": {"a": [None]}}),
        modern(2, "tools/call", inputResponses={"q": {"action": "accept"}}, requestState="x.y"),
    ]
    bridge.send(b"".join(sent))
    session = daemon.session()
    wait_until(lambda: session.lines == sent, what=lambda: f"the frames: {session.lines}")
    back = [
        line(id="d", result={"resultType": "complete", "supportedVersions": ["2026-07-28"]}),
        line(id="1", result={"resultType": "input_required", "inputRequests": {"q": {}}}),
        line(method="notifications/tools/list_changed", params={"_meta": {"x/y": -7}}),
        b'{"jsonrpc":"2.0","error":{"code":-32022,"message":"","data":{"requested":"1"}}}\n',
        line(id=2, result={"resultType": "complete", "content": [], "ttlMs": 0}),
    ]
    session.send(b"".join(back))
    assert [bridge.read_line() for _ in back] == back


def test_the_end_of_input_is_the_end_whatever_listens_are_open(daemon, bridge):
    """
    Their answers may never come, and none of them is missing.
    """
    bridge.send(listen(1) + listen("1") + modern(2, "tools/list"))
    told = [bridge.read() for _ in range(3)]
    assert {one.get("id") for one in told} == {None, 2}
    bridge.stdin.close()
    assert bridge.wait() == 0
    assert bridge.complaint() == ""
    session = daemon.session()
    wait_until(lambda: session.is_closed, what="the end of the connection")
    assert session.methods() == ["subscriptions/listen", "subscriptions/listen", "tools/list"]
    assert daemon.asked == []


def test_an_answer_on_its_way_is_waited_for_beside_an_open_listen(daemon, bridge):
    bridge.send(listen("l") + modern(1, "tools/call"))
    bridge.read()
    bridge.stdin.close()
    session = daemon.session()
    wait_until(lambda: daemon.asked, what="the question whether the server is starting")
    assert bridge.process.poll() is None
    session.send(line(id=1, result={"resultType": "complete"}))
    assert bridge.read()["id"] == 1
    assert bridge.wait() == 0


def test_what_is_missing_is_told_without_the_listens(daemon):
    with Bridge(daemon, "fake", "--linger", "0.2") as bridge:
        bridge.send(listen("l") + modern(1, "tools/call"))
        bridge.read()
        bridge.stdin.close()
        assert bridge.wait() == 5
        assert bridge.complaint().startswith("mcpctl: 1 answer did not come within 0.2 s")
        session = daemon.session()
        wait_until(lambda: len(session.lines) == 3, what="the cancellation")
        assert json.loads(session.lines[2])["params"]["requestId"] == 1


def test_a_listen_outlives_the_daemon_and_its_client_sees_nothing_of_it():
    """
    Neither an error nor a second acknowledgement; a list that changed meanwhile is told of.
    """
    lists = {"tools/list": {"resultType": "complete", "tools": [1], "ttlMs": 5}}

    def serving(message: Json, connection: Connection) -> None:
        if message["method"] in lists:
            connection.answer(line(id=message["id"], result=lists[message["method"]]))
        else:
            answering(message, connection)

    with FakeDaemon(serving) as daemon, Bridge(daemon, "fake", "--no-start") as bridge:
        bridge.send(listen("l") + listen(8) + modern(1, "tools/list"))
        assert {bridge.read().get("id") for _ in range(3)} == {None, 1}
        bridge.send(modern(2, "tools/call"))
        session = daemon.session()
        wait_until(lambda: len(session.lines) == 4, what="the call")
        session.send(line(id=8, result={"resultType": "complete"}))
        assert bridge.read()["id"] == 8
        daemon.die()
        answer = bridge.read()
        assert (answer["id"], answer["error"]["data"]["kind"]) == (2, "outcome_unknown")
        lists["tools/list"] = {"resultType": "complete", "tools": [2], "ttlMs": 0}
        daemon.revive()
        told = bridge.read()
        assert told["method"] == "notifications/tools/list_changed"
        assert told["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": "l"}
        again = daemon.session(1)
        assert again.lines[0] == listen("l")
        assert again.methods() == ["subscriptions/listen", "tools/list"]
        again.send(line(method="notifications/resources/updated"))
        assert bridge.read()["method"] == "notifications/resources/updated"


def test_a_listen_that_was_not_acknowledged_is_by_the_next_daemon(daemon, bridge):
    daemon.handler = lambda message, connection: None
    bridge.send(listen("l"))
    session = daemon.session()
    wait_until(lambda: session.lines, what="the listen")
    daemon.handler = answering
    daemon.die()
    daemon.revive()
    assert bridge.read()["method"] == "notifications/subscriptions/acknowledged"


def test_a_listen_that_ends_with_its_daemon_goes_on_with_the_next(daemon, bridge):
    bridge.send(listen("l"))
    bridge.read()
    meta = {"io.modelcontextprotocol/subscriptionId": "l", "mcpd/draining": True}
    session = daemon.session()
    session.send(line(id="l", result={"resultType": "complete", "_meta": meta}))
    daemon.die()
    daemon.revive()
    wait_until(lambda: daemon.session(1).lines == [listen("l")], what="the listen anew")
    daemon.session(1).send(line(id="l", result={"resultType": "complete"}))
    assert bridge.read()["id"] == "l", "that one is for the client"


def test_a_modern_client_of_a_legacy_server_works_through_the_bridge(box: Box) -> None:
    """
    The real daemon translates; what the client still listens to at its end is not waited for.
    """
    box.fake().up()
    asked = {"name": "echo", "arguments": {"text": "hi"}}
    sent = modern("d", "server/discover") + modern(1, "tools/call", **asked) + listen("l")
    done = subprocess.run(
        [binary("mcpctl"), "connect", "--linger", "60", "fake"],
        env=box.env,
        input=sent,
        capture_output=True,
        timeout=scaled(30),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    answers = {one.get("id"): one for one in map(json.loads, done.stdout.splitlines())}
    assert answers["d"]["result"]["supportedVersions"] == ["2026-07-28"]
    assert answers[1]["result"]["resultType"] == "complete"
    assert answers[1]["result"]["content"][0]["text"] == "hi"
    assert "l" not in answers
