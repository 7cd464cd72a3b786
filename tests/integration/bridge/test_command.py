"""``mcpctl connect``: what it says and how it ends when there is no session."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import pytest

from mcpd.daemon_start.search import RECONNECT_PAUSE_S
from tests.integration.bridge.fakedaemon import ROOT, Bridge, FakeDaemon, command, line
from tests.support.waiting import scaled, wait_until


@pytest.fixture
def daemon():
    with FakeDaemon() as made:
        yield made


def run(daemon, *args, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*args),
        env=daemon.env | options.pop("env", {}),
        input="",
        text=True,
        capture_output=True,
        timeout=scaled(20),
        check=False,
        **options,
    )


@pytest.mark.parametrize(
    ("kind", "code", "status"),
    [("server_not_found", -32602, 4), ("config_invalid", -32603, 4), ("draining", -32603, 3)],
)
def test_a_refusal_is_said_on_stderr(daemon, kind, code, status):
    data = {"kind": kind, "retryable": False, "hint": "mcpctl list"}
    daemon.refusal = {"code": code, "message": "no server is called nope", "data": data}
    done = run(daemon, "nope", "--no-start")
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr == "mcpctl: no server is called nope\n  mcpctl list\n"


def test_without_a_daemon_and_the_leave_to_start_one_it_ends_with_3(daemon):
    nowhere = f"{daemon.directory}/none.sock"
    done = run(daemon, "--no-start", "--socket", nowhere)
    assert (done.returncode, done.stdout) == (3, "")
    assert "no daemon runs" in done.stderr
    assert done.stderr.endswith(f"\n  mcpctl --socket {nowhere} up\n")


def test_a_wrong_command_line_ends_with_2(daemon):
    done = run(daemon, "--lingr", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no such option: --lingr" in done.stderr
    assert "--help" in done.stderr
    assert daemon.sessions == []


def test_help_is_for_stdout():
    program = "import sys; from mcpd.bridge import main; sys.exit(main(['--help']))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for option in ("--linger", "--no-start", "--socket", "--config", "-- COMMAND"):
        assert option in done.stdout


def test_the_socket_is_told_by_flag_or_variable(daemon):
    done = run(daemon, "--socket", daemon.path, env={"MCPD_SOCKET": "/nowhere"})
    assert done.returncode == 0
    assert daemon.session().attached is not None


def test_an_ad_hoc_command_is_sent_with_directory_and_environment(daemon, tmp_path):
    done = run(daemon, "--", "prog", "-x", "$A", cwd=tmp_path, env={"A": "b", "TERM": "xterm"})
    assert done.returncode == 0
    attached = daemon.session().attached
    assert attached is not None
    sent = attached["command"]
    assert (sent["command"], sent["args"], sent["cwd"]) == ("prog", ["-x", "$A"], str(tmp_path))
    assert sent["env"]["A"] == "b"
    assert "TERM" not in sent["env"]


def test_a_stranger_on_the_socket_gets_nothing(daemon, tmp_path):
    """
    B118: who is there is looked at before the first byte.
    """
    os.chmod(daemon.directory, 0o777)
    done = run(daemon, "--no-start")
    assert done.returncode == 3
    assert "others can write" in done.stderr
    assert daemon.sessions == []


def test_a_new_bridge_waits_for_the_one_after_a_daemon_that_drains(daemon):
    """
    A client that starts in the midst of ``restart --daemon`` starts its bridge only once.
    """
    data = {"kind": "draining", "retryable": True, "hint": "mcpctl up"}
    daemon.refusal = {"code": -32603, "message": "the daemon is on its way out", "data": data}
    with daemon.nobody_starts(), Bridge(daemon, "fake") as bridge:
        wait_until(lambda: daemon.refused > 1, 10, what="two tries")
        daemon.die()
        daemon.refusal = None
        daemon.revive()
        bridge.request(1, "echo")
        assert bridge.read()["id"] == 1


def test_a_new_bridge_is_patient_with_who_hangs_up_and_not_busy(daemon):
    daemon.die()
    with daemon.nobody_starts(), socket.socket(socket.AF_UNIX) as listener:
        os.unlink(daemon.path)
        listener.bind(daemon.path)
        listener.listen(64)
        listener.settimeout(scaled(10))
        with Bridge(daemon, "fake") as bridge:
            listener.accept()[0].close()
            begun = time.monotonic()
            for _ in range(5):
                listener.accept()[0].close()
            assert time.monotonic() - begun > 4 * RECONNECT_PAUSE_S
            daemon.revive()
            daemon.session()
            assert bridge.process.poll() is None


def test_a_listener_that_hangs_up_is_no_daemon(daemon):
    path = f"{daemon.directory}/other.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(path)
        other.listen()
        process = subprocess.Popen(
            command("--no-start", "--socket", path),
            env=daemon.env,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        accepted, _ = other.accept()
        accepted.recv(65536)
        accepted.close()
        _, complaint = process.communicate(timeout=scaled(10))
    assert process.returncode == 3
    assert b"hung up" in complaint


def test_thirty_bridges_on_one_daemon(daemon):
    """
    B021, B080: each has its own session, and its own answers to the same ids.
    """
    bridges = [Bridge(daemon, "fake") for _ in range(30)]
    try:
        for number, bridge in enumerate(bridges):
            bridge.send(line(id=1, method="echo", params={"n": number}))
        assert [bridge.read(30)["result"]["n"] for bridge in bridges] == list(range(30))
        assert len(daemon.sessions) == 30
    finally:
        for bridge in bridges:
            bridge.__exit__()


def test_a_waiting_bridge_is_small(daemon):
    """
    Twenty clients of eight servers are 160 of them.
    """
    with Bridge(daemon, "fake") as bridge:
        bridge.request(1, "echo")
        bridge.read()
        with open(f"/proc/{bridge.process.pid}/smaps_rollup") as rollup:
            pss = next(int(row.split()[1]) for row in rollup if row.startswith("Pss:"))
        assert pss < 10_000, "kB"


def test_an_idle_bridge_sleeps(daemon):
    """
    It wakes for its two ends, and for nothing else.
    """
    with Bridge(daemon, "fake") as bridge:
        bridge.request(1, "echo")
        bridge.read()

        def switches() -> int:
            with open(f"/proc/{bridge.process.pid}/status") as status:
                return next(int(r.split()[1]) for r in status if r.startswith("voluntary"))

        before = switches()
        with pytest.raises(subprocess.TimeoutExpired):
            bridge.process.wait(0.5)
        assert switches() - before <= 1
