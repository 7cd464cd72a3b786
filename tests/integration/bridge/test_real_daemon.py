"""The bridge and the real daemon together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.daemon import FAKE_SERVER, Box, Json, binary
from tests.support.waiting import scaled, wait_until


def asks(*requests: tuple[str, Json]) -> bytes:
    """Return a handshake, and the requests with the ids 1, 2 and so on."""
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    messages: list[Json] = [
        {"id": 0, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
    ]
    messages += [
        {"id": number, "method": method, "params": params}
        for number, (method, params) in enumerate(requests, 1)
    ]
    return b"".join(json.dumps({"jsonrpc": "2.0", **one}).encode() + b"\n" for one in messages)


def call(tool: str, **arguments: Any) -> tuple[str, Json]:
    return "tools/call", {"name": tool, "arguments": arguments}


def pipeline(box: Box, sent: bytes, *args: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [binary("mcpctl"), "connect", *args],
        env=box.env,
        input=sent,
        capture_output=True,
        timeout=scaled(30),
        check=False,
    )


def ids(output: bytes) -> list[Any]:
    return sorted(json.loads(one).get("id") for one in output.splitlines())


def test_a_pipeline_waits_for_a_server_that_is_slow_to_start(box: Box) -> None:
    """
    The time for answers counts from when the server is ready, here long after the end of input.
    """
    box.fake("fake", "--start-delay", 0.8).up()
    os.kill(int(box.session().text("pid")), signal.SIGKILL)
    wait_until(lambda: box.status()["state"] != "ready", what="the server's death to be seen")
    done = pipeline(box, asks(call("echo", text="hi")), "fake", "--linger", "0.3")
    assert (done.returncode, done.stderr) == (0, b"")
    answers = {one["id"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert answers[1]["result"]["content"][0]["text"] == "hi"


def test_a_pipeline_that_starts_the_daemon_too_gets_every_answer(box: Box) -> None:
    box.fake().write()
    done = pipeline(box, asks(call("echo", text="hi"), call("sleep", ms=300)), "fake")
    assert (done.returncode, done.stderr) == (0, b"")
    assert ids(done.stdout) == [0, 1, 2]
    assert box.ctl("down").returncode == 0


def test_a_call_that_hangs_is_cancelled_upstream_when_the_time_is_over(box: Box) -> None:
    box.fake().up()
    box.session().text("pid")  # the server runs: a session that begins is answered at once
    done = pipeline(box, asks(call("hang"), call("echo", text="hi")), "fake", "--linger", "0.5")
    assert done.returncode == 5
    assert ids(done.stdout) == [0, 2]
    assert b"1 answer did not come" in done.stderr
    wait_until(
        lambda: box.messages("fake", "notifications/cancelled"), what="the cancellation upstream"
    )


def test_a_server_that_never_answers_does_not_keep_a_pipeline_for_ever(box: Box) -> None:
    """
    The daemon gives its start up after some time, and answers with that.
    """
    box.fake("fake", "--mute", startup_timeout=1).up()
    done = pipeline(box, asks(call("echo", text="hi")), "fake", "--linger", "0.5")
    assert done.returncode == 0
    assert ids(done.stdout) == [0, 1]
    assert b"startup_timeout" in done.stdout


def test_an_ad_hoc_server_has_its_clients_environment_and_directory(
    box: Box, tmp_path: Path
) -> None:
    """
    Not the daemon's with the client's over it: it is to run as if the client had started it.
    """
    box.env["ONLY_DAEMON"] = "secret"
    box.up()
    del box.env["ONLY_DAEMON"]
    box.env["ONLY_CLIENT"] = "$HOME ~ $$"
    peer = box.bridge("--", sys.executable, str(FAKE_SERVER), "--name", "adhoc", cwd=tmp_path)
    assert peer.text("env", name="ONLY_CLIENT") == "$HOME ~ $$"
    assert peer.text("env", name="ONLY_DAEMON") == "<unset>"
    assert peer.text("env", name="PATH") == os.environ["PATH"]
    assert peer.text("cwd") == str(tmp_path)


def test_a_large_result_comes_through_byte_for_byte(box: Box) -> None:
    """
    B058, B072: through the daemon's socket and the bridge alike.
    """
    box.fake().up()
    peer = box.bridge("fake")
    for size in (65_536, 1 << 20, 4 << 20):
        assert peer.text("blob", timeout=30, bytes=size) == "x" * size


def test_a_refusal_says_what_to_do_and_leaves_stdout_alone(box: Box) -> None:
    box.fake().servers["broken"] = {"command": 5}
    box.up()
    for name, said in (("nope", b"nope"), ("broken", b"command")):
        done = pipeline(box, b"", name)
        assert (done.returncode, done.stdout) == (4, b""), name
        assert said in done.stderr, name
