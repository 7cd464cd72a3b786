"""Clients that end their input and still read, as ``printf … | nc -UN`` does."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Box, Json
from tests.support.waiting import scaled, wait_until


def line(ident: Any, method: str, **params: Any) -> bytes:
    said: Json = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(said if ident is None else said | {"id": ident}).encode() + b"\n"


def call(ident: Any, tool: str, **arguments: Any) -> bytes:
    return line(ident, "tools/call", name=tool, arguments=arguments)


HELLO = line(
    1,
    "initialize",
    protocolVersion="2025-11-25",
    capabilities={"elicitation": {}},
    clientInfo={"name": "nc", "version": "1"},
) + line(None, "notifications/initialized")


def ended(box: Box, data: bytes) -> socket.socket:
    """Send ``data`` and end the input."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(scaled(20))
    client.connect(str(box.socket))
    client.sendall(data)
    client.shutdown(socket.SHUT_WR)
    return client


def answers(box: Box, data: bytes) -> list[Json]:
    """Return all that a client gets that sends ``data``, ends its input and reads to the end."""
    with ended(box, data) as client, client.makefile("rb") as file:
        return [json.loads(each) for each in file]


def test_a_control_request_is_answered(box: Box) -> None:
    """
    The last line needs no end: the end of the input is one.
    """
    box.fake().up()
    for data in (line(1, "mcpd/status"), line(1, "mcpd/status").rstrip()):
        (answer,) = answers(box, data)
        assert answer["result"]["servers"][0]["name"] == "fake"


def test_a_call_is_answered_also_when_the_server_has_to_start(box: Box) -> None:
    box.fake("fake", "--start-delay", 2.5).up()
    (answer,) = answers(
        box, line(1, "mcpd/call", server="fake", tool="echo", arguments={"text": "hi"})
    )
    assert answer["result"]["content"][0]["text"] == "hi"


def test_a_whole_session_is_answered(box: Box) -> None:
    box.fake().up()
    data = line(0, "mcpd/attach", server="fake") + HELLO
    data += line(2, "tools/list") + call(3, "sleep", ms=300) + call(4, "echo", text="x" * 300_000)
    found = {each["id"]: each for each in answers(box, data) if "id" in each}
    assert set(found) == {0, 1, 2, 3, 4}
    assert all("result" in each for each in found.values())
    wait_until(lambda: box.status()["sessions"] == 0)


def test_what_takes_longer_than_two_seconds_is_cancelled(box: Box) -> None:
    box.fake().up()
    data = line(0, "mcpd/attach", server="fake") + HELLO + call(2, "hang")
    began = time.monotonic()
    found = answers(box, data)
    assert time.monotonic() - began > 1.9
    assert {each["id"] for each in found if "id" in each} == {0, 1}
    wait_until(lambda: box.messages("fake", "notifications/cancelled"))


def test_a_stream_ends_with_its_answer(box: Box) -> None:
    """
    Nothing is owed after it: whoever wants to follow keeps the input open.
    """
    box.fake().up()
    for data in (line(1, "mcpd/events"), line(1, "mcpd/logs", server="fake", follow=True)):
        (answer,) = answers(box, data)
        assert answer["id"] == 1


def test_a_question_is_refused_at_once(box: Box) -> None:
    """
    It cannot be answered, neither one that is open when the input ends nor one that comes later.
    """
    box.fake().up()
    data = line(0, "mcpd/attach", server="fake") + HELLO + call(2, "ask", question="?")
    found = {each["id"]: each for each in answers(box, data) if "id" in each}
    assert "ended its input" in json.dumps(found[2]["result"])
    with socket.socket(socket.AF_UNIX) as client, client.makefile("rb") as file:
        client.settimeout(scaled(20))
        client.connect(str(box.socket))
        client.sendall(data)
        while json.loads(file.readline()).get("method") != "elicitation/create":
            continue
        client.shutdown(socket.SHUT_WR)
        rest = {each["id"]: each for each in map(json.loads, file) if "id" in each}
    assert "ended its input" in json.dumps(rest[2]["result"])


@pytest.mark.parametrize("how", ["at_once", "later"])
def test_one_that_hangs_up_has_its_calls_cancelled_at_once(box: Box, how: str) -> None:
    """
    Whether it closes both directions at the same time or one after the other.
    """
    box.fake().up()
    data = line(0, "mcpd/attach", server="fake") + HELLO + call(2, "hang")
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(box.socket))
    client.sendall(data)
    wait_until(lambda: box.messages("fake", "tools/call"))
    while b'"id":1' not in client.recv(1 << 16):
        continue
    closed_at = time.monotonic()
    if how == "later":
        client.shutdown(socket.SHUT_WR)
        wait_until(lambda: box.status()["in_flight"] == 1)
    client.close()
    wait_until(lambda: box.messages("fake", "notifications/cancelled"), 1)
    assert time.monotonic() - closed_at < scaled(1.5)


def test_a_killed_bridge_has_its_calls_cancelled_at_once(box: Box) -> None:
    box.fake().up()
    bridge = box.bridge("fake")
    bridge.start("tools/call", {"name": "hang", "arguments": {}})
    wait_until(lambda: box.messages("fake", "tools/call"))
    os.kill(box._started[-1].pid, signal.SIGKILL)
    wait_until(lambda: box.messages("fake", "notifications/cancelled"), 1)


def test_a_session_that_waits_for_nothing_ends_at_once(box: Box) -> None:
    box.fake().up()
    with ended(box, b"") as client:
        assert client.recv(10) == b""


def test_a_loop_of_python_tells_them_apart_too(box: Box) -> None:
    """
    Where there is no uvloop.
    """
    folder = box.root / "without" / "uvloop"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise ImportError('not here')\n")
    box.env["PYTHONPATH"] = str(folder.parent)
    box.fake().up()
    assert box.daemon
    assert "uvloop" not in Path(f"/proc/{box.daemon.pid}/maps").read_text()
    (answer,) = answers(
        box, line(1, "mcpd/call", server="fake", tool="echo", arguments={"text": "hi"})
    )
    assert answer["result"]["content"][0]["text"] == "hi"
    test = ended(box, line(1, "mcpd/call", server="fake", tool="hang"))
    wait_until(lambda: len(box.messages("fake", "tools/call")) == 2)
    test.close()
    wait_until(lambda: box.messages("fake", "notifications/cancelled"), 1)
