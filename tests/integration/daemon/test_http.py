"""Clients over HTTP: the same servers as over the socket, under tokens, across daemons."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path

import pytest

from tests.support.daemon import Box
from tests.support.httpclient import HttpClient, token, turned_on
from tests.support.waiting import wait_until


def mapped(box: Box) -> str:
    assert box.daemon
    return Path(f"/proc/{box.daemon.pid}/maps").read_text()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_nothing_of_http_is_loaded_while_it_is_off(box: Box) -> None:
    client = HttpClient(box)
    box.fake().up()
    assert "httptools" not in mapped(box)
    box.http = {"listen": client.address}
    assert box.write().ctl("reload").returncode == 0
    assert client.is_healthy()
    assert "httptools" in mapped(box)


def test_http_and_the_socket_have_one_process(box: Box) -> None:
    client = turned_on(box.fake())
    pid = box.session().text("pid")
    assert client.session().text("pid") == pid
    called = client.rpc("tools/call", {"name": "pid", "arguments": {}}).message()
    assert called["result"]["content"][0]["text"] == pid
    assert client.session("/mcp").text("fake__pid") == pid


def test_a_reload_turns_it_off_and_touches_nothing_else(box: Box) -> None:
    client = turned_on(box.fake())
    peer, session = box.session(), client.session()
    pid = session.text("pid")
    box.http = {"listen": ""}
    assert box.write().ctl("reload").returncode == 0
    assert not client.is_healthy()
    assert not client.path.exists()
    assert peer.text("pid") == pid
    box.http = {"listen": client.address}
    assert box.write().ctl("reload").returncode == 0
    assert session.text("pid") == pid


def test_a_session_goes_on_with_the_next_daemon(box: Box) -> None:
    """
    What makes it up is on disk before ``initialize`` is answered.
    """
    client = turned_on(box.fake())
    session = client.session()
    assert box.down(signal.SIGKILL) == -signal.SIGKILL
    box.up()
    wait_until(client.is_healthy, 10)
    assert session.text("echo", text="x") == "x"
    box.ctl("token", "revoke", "tests")
    client.token = token(box, "another")
    assert session.post("ping").code() == 404


def test_a_revoked_token_ends_its_streams_and_sessions(box: Box) -> None:
    client = turned_on(box.fake())
    session = client.session()
    with session.listen() as stream:
        assert box.ctl("token", "revoke", "tests").returncode == 0
        assert stream.event() is None
    assert client.rpc("ping").code() == 401
    client.token = token(box, "tests")
    assert session.post("ping").code() == 404


def test_a_token_of_the_same_name_is_another_for_the_next_daemon(box: Box) -> None:
    client = turned_on(box.fake())
    session = client.session()
    assert box.down(signal.SIGKILL) == -signal.SIGKILL
    box.ctl("token", "revoke", "tests")
    client.token = token(box, "tests")
    box.up()
    wait_until(client.is_healthy, 10)
    assert session.post("ping").code() == 404


def test_what_a_token_may_not_use_is_not_there(box: Box) -> None:
    client = turned_on(box.fake("one").fake("two"), "--server", "one", "--tool", "p*")
    error = client.rpc("tools/list", target="/mcp/two").message()["error"]
    assert error["data"]["kind"] == "server_not_found"
    assert "two" not in error["data"]["near"]
    listed = client.rpc("tools/list", target="/mcp").message()["result"]["tools"]
    assert {tool["name"] for tool in listed} <= {"one__pid", "one__progress", "one__protocol"}
    assert "one__pid" in {tool["name"] for tool in listed}
    session = client.session("/mcp/one")
    assert session.call("echo", text="x")["error"]["data"]["kind"] == "tool_not_found"
    assert session.text("pid")


def test_a_drain_ends_streams_and_says_when_to_come_back(box: Box) -> None:
    client = turned_on(box.fake())
    with client.session().listen() as stream:
        assert box.down() == 0
        assert any(line.startswith(b"retry:") for line in stream.lines())


def test_a_stream_ends_after_its_lifetime_and_its_client_comes_back(box: Box) -> None:
    """
    What a proxy would cut is closed before, and the call goes on meanwhile (2025-11-25,
    basic/transports, "Sending Messages to the Server").
    """
    client = turned_on(box.fake(), json_wait=0, stream_lifetime=0.2)
    session = client.session(version="2025-11-25", capabilities={"elicitation": {}})
    asked = {"name": "ask", "arguments": {"question": "who?"}}
    lines = session.post("tools/call", asked).lines()
    while not (questions := [line for line in lines if b'"elicitation/create"' in line]):
        assert lines[-2].startswith(b"retry:"), "closed on purpose"
        lines += session.listen(last_id(lines)).lines()
    assert lines[-2].startswith(b"retry:")
    question = json.loads(questions[0].removeprefix(b"data: "))
    session.respond(question["id"], {"action": "accept", "content": {"answer": "me"}})
    found = session.listen(last_id(lines)).message()
    assert "me" in found["result"]["content"][0]["text"]


def last_id(lines: list[bytes]) -> str:
    return [line for line in lines if line.startswith(b"id: ")][-1].removeprefix(b"id: ").decode()


def test_a_client_that_cannot_come_back_keeps_its_stream(box: Box) -> None:
    """
    Before 2025-11-25 a stream lasts until its response.
    """
    client = turned_on(box.fake(), json_wait=0, stream_lifetime=0.1)
    session = client.session(version="2025-06-18")
    assert session.text("sleep", ms=500) == "slept 500"


def test_without_json_wait_all_is_streamed_on_a_session(box: Box) -> None:
    """
    Also what the daemon knows already: lists. A request without a session keeps its status.
    """
    client = turned_on(box.fake(), json_wait=0)
    session = client.session()
    for _ in range(2):
        with session.post("tools/list") as answer:
            assert answer.headers.get_content_type() == "text/event-stream"
    with client.rpc("resources/read", {}) as answer:
        assert answer.status == 400


def test_an_address_in_use_is_named_and_everything_else_goes_on(box: Box) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        box.http = {"listen": f"127.0.0.1:{holder.getsockname()[1]}"}
        box.fake().up()
        assert box.session().text("echo", text="x") == "x"
        done = box.ctl("reload")
        assert done.returncode == 2
        assert box.http["listen"] in done.stderr
        assert box.http["listen"] in box.ctl("status").stderr
        assert "http_not_listening" in box.ctl("doctor", "--json").stdout
    assert box.ctl("reload").returncode == 0


def test_the_token_of_a_session_is_named_and_never_shown(box: Box) -> None:
    client = turned_on(box.fake())
    client.session()
    shown = box.ctl("status", "--json").stdout
    assert "tests (token tests)" in shown
    assert client.token is not None
    assert client.token not in shown + box.ctl("token", "list", "--json").stdout + box.tail()


def test_http_on_and_off_are_typed(box: Box) -> None:
    client = HttpClient(box)
    box.fake().up()
    assert box.ctl("http", "on", "--listen", client.address).returncode == 0
    assert client.is_healthy()
    url = box.ctl("url")
    assert (url.returncode, client.address in url.stderr) == (4, True)
    assert box.ctl("http", "off").returncode == 0
    assert not client.is_healthy()
