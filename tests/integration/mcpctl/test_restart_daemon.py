"""``mcpctl restart --daemon``: another daemon under the bridges of the old one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Box, Peer, is_alive
from tests.support.waiting import scaled, wait_until


@pytest.fixture
def box() -> Iterator[Box]:
    made = Box()
    yield made
    made.ctl("down", "--force")
    made.close()


def hello(box: Box) -> dict[str, object]:
    with Peer.dial(box.socket) as peer:
        said: dict[str, object] = peer.request("mcpd/hello")
        return said


def reaped(box: Box) -> None:
    """Reap the box's own daemon, which would else be a zombie that ``restart`` waits for."""
    assert box.daemon
    box.daemon.wait(scaled(30))
    box.daemon = None


def test_bridges_go_on_and_no_call_is_lost(box: Box) -> None:
    """
    B053, B120: what is in flight is finished by the old one, what comes meanwhile by the new one.
    """
    box.fake().up()
    old = hello(box)["pid"]
    peers = [box.bridge("fake") for _ in range(3)]
    slow = [peer.start("tools/call", {"name": "sleep", "arguments": {"ms": 700}}) for peer in peers]
    wait_until(lambda: len(box.messages("fake", "tools/call")) == 3, what="the calls upstream")
    restart = subprocess.Popen(
        [str(Path(sys.executable).parent / "mcpctl"), "restart", "--daemon", "--json"],
        env=box.env,
        stdout=subprocess.PIPE,
    )
    wait_until(lambda: "daemon.draining" in box.tail(), 20, what="the drain")
    fresh = [peer.start("tools/call", {"name": "pid", "arguments": {}}) for peer in peers]
    assert [p.finish(i)["content"][0]["text"] for p, i in zip(peers, slow, strict=True)] == [
        "slept 700"
    ] * 3
    reaped(box)
    pids = {p.finish(i, 30)["content"][0]["text"] for p, i in zip(peers, fresh, strict=True)}
    assert pids == {str(box.pids()[-1])}, "the new daemon's process"
    assert [peer.inbox for peer in peers] == [[], [], []]
    out, _ = restart.communicate(timeout=scaled(30))
    told = json.loads(out)
    assert restart.returncode == 0
    assert told["replaced"]["pid"] == old
    assert told["daemon"]["pid"] == hello(box)["pid"] != old
    assert len(box.messages("fake", "tools/call")) == 6, "nothing is called twice"


def test_the_next_daemon_has_the_configuration_of_the_old_one(box: Box) -> None:
    """
    Also where bridges would start one with another: they wait.
    """
    box.fake().write()
    own = box.root / "own.json"
    own.write_text(box.config.read_text().replace('"fake": {', '"own": {'))
    own.chmod(0o600)
    box.up("--config", str(own))
    assert hello(box)["config"] == str(own)
    peer = box.bridge("own")
    for _ in range(2):
        pid = hello(box)["pid"]
        done = subprocess.Popen(
            [str(Path(sys.executable).parent / "mcpctl"), "restart", "--daemon"],
            env=box.env,
            stdout=subprocess.PIPE,
            text=True,
        )
        if box.daemon:
            reaped(box)
        said, _ = done.communicate(timeout=scaled(30))
        assert f"(it was pid {pid})" in said
        assert hello(box)["config"] == str(own)
        assert peer.text("echo", timeout=20, text="hi") == "hi"


def test_a_bridge_that_starts_the_next_daemon_gives_it_the_old_configuration(box: Box) -> None:
    box.fake().write()
    own = box.root / "own.json"
    own.write_text(box.config.read_text().replace('"fake": {', '"own": {'))
    own.chmod(0o600)
    box.up("--config", str(own))
    peer = box.bridge("own")
    box.down(signal.SIGKILL)
    assert peer.text("echo", timeout=20, text="hi") == "hi"
    assert hello(box)["config"] == str(own)


def test_where_none_runs_it_starts_one_unless_told_not_to(box: Box) -> None:
    box.write()
    done = box.ctl("restart", "--daemon", "--no-start")
    assert done.returncode == 3
    assert "no daemon runs" in done.stderr
    assert "mcpctl up" in done.stderr
    done = box.ctl("restart", "--daemon", "--json")
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert told["replaced"] is None
    assert told["daemon"]["pid"] == hello(box)["pid"]


def test_its_log_goes_on_where_the_one_before_it_ended(box: Box) -> None:
    """
    What the last one said, or was doing when it hung, is what a bug report needs.
    """
    box.write()
    assert box.ctl("up").returncode == 0
    first = hello(box)["pid"]
    assert box.ctl("restart", "--daemon").returncode == 0
    lines = box.ctl("logs", "-n", "1000").stdout.splitlines()
    started = [line.partition("pid=")[2].split()[0] for line in lines if "daemon.started" in line]
    assert started == [str(first), str(hello(box)["pid"])]
    assert any("daemon.stopped" in line for line in lines)
    assert len(box.ctl("logs", "-n", "5").stdout.splitlines()) == 5


def test_one_that_cannot_start_is_said_together_with_the_end_of_the_old_one(box: Box) -> None:
    box.up()
    box.config.write_text("{")
    restart = subprocess.Popen(
        [str(Path(sys.executable).parent / "mcpctl"), "restart", "--daemon"],
        env=box.env,
        stderr=subprocess.PIPE,
        text=True,
    )
    reaped(box)
    _, said = restart.communicate(timeout=scaled(30))
    assert restart.returncode == 3
    assert "has ended, and no other one has started" in said
    assert str(box.config) in said


FOREIGN = """
import fcntl, json, os, signal, socket, sys
lock = open(sys.argv[1] + ".lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
signal.signal(signal.SIGTERM, lambda *_: (os.unlink(sys.argv[1]), os._exit(0)))
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(8)
while True:
    connection, _ = listener.accept()
    asked = json.loads(connection.recv(65536))
    result = {"version": "9.0.0", "pid": os.getpid(), "api": 2}
    connection.sendall(json.dumps({"id": asked["id"], "result": result}).encode() + b"\\n")
    connection.close()
"""


def test_one_of_another_protocol_is_replaced_because_a_person_says_so(box: Box) -> None:
    """
    B120: an error elsewhere, which says what to type; nobody ends it by himself.
    """
    box.write()
    program = box.root / "mcpd"
    program.write_text(FOREIGN)
    foreign = subprocess.Popen([sys.executable, str(program), str(box.socket)])
    try:
        wait_until(box.socket.exists, what="the socket")
        done = box.ctl("status")
        assert done.returncode == 3
        assert "mcpctl restart --daemon" in done.stderr
        done = box.ctl("connect", "fake", stdin="")
        assert done.returncode == 3
        assert "too old: it speaks version 1 of the control protocol" in done.stderr
        assert is_alive(foreign.pid)
        restart = subprocess.Popen(
            [str(Path(sys.executable).parent / "mcpctl"), "restart", "--daemon"],
            env=box.env,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert foreign.wait(scaled(30)) == 0
        said, _ = restart.communicate(timeout=scaled(30))
        assert f"(it was pid {foreign.pid})" in said
        assert hello(box)["api"] == 1
    finally:
        foreign.kill()
        foreign.wait()


def test_what_is_no_daemon_is_left_alone(box: Box) -> None:
    """
    Something else that listens there, and says that it is another version.
    """
    box.write()
    program = box.root / "other"
    program.write_text(FOREIGN)
    foreign = subprocess.Popen([sys.executable, str(program), str(box.socket)])
    try:
        wait_until(box.socket.exists, what="the socket")
        done = box.ctl("restart", "--daemon")
        assert done.returncode == 3
        assert "left alone" in done.stderr
        assert is_alive(foreign.pid)
    finally:
        foreign.kill()
        foreign.wait()
