"""What the status says, against what is."""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime

import pytest

from tests.support.daemon import Box
from tests.support.waiting import wait_until


def test_a_server_that_a_signal_has_stopped_is_shown_unresponsive(box: Box) -> None:
    """
    B055: what was connected once may hang now; the process table knows.
    """
    box.fake().up()
    box.session().call("echo", text="hi")
    status = box.status()
    assert (status["responsive"], status["stopped_pids"]) == (True, [])
    os.kill(status["pid"], signal.SIGSTOP)
    told = wait_until(lambda: not box.status()["responsive"] and box.status(), 10)
    assert told["stopped_pids"] == [status["pid"]]
    assert told["state"] == "ready"  # nothing ended, and the states are the product's
    shown = box.ctl("status").stdout
    assert (
        f"fake: unresponsive: a process of it is stopped by a signal; to let it go on: kill -CONT {status['pid']}"
        in shown
    )
    os.kill(status["pid"], signal.SIGCONT)
    wait_until(lambda: box.status()["responsive"], 10)
    assert "unresponsive" not in box.ctl("status").stdout


def test_a_launchers_child_counts_as_the_server(box: Box) -> None:
    """
    B055: what npx has started is what answers, or does not.
    """
    box.fake()
    launched = box.servers["fake"]
    launched["args"] = ["-c", '"$@"; exit', "sh", launched["command"], *launched["args"]]
    launched["command"] = "sh"
    box.up()
    assert box.ctl("start", "fake").returncode == 0
    leaf = next(pid for pid in box.status()["pids"] if pid != box.status()["pid"])
    os.kill(leaf, signal.SIGSTOP)
    wait_until(lambda: box.status()["stopped_pids"] == [leaf], 10)
    os.kill(leaf, signal.SIGCONT)


def test_a_server_that_owes_an_answer_is_silent(box: Box) -> None:
    """
    B055: no heartbeat is needed to see that a call goes unanswered.
    """
    box.fake().up()
    session = box.session()
    assert box.status()["silent_s"] is None
    session.start("tools/call", {"name": "hang", "arguments": {}})
    wait_until(lambda: (box.status()["silent_s"] or 0) > 0.2, 10)


def test_a_crash_is_told_with_its_reason_its_kind_and_its_time(box: Box) -> None:
    box.fake("fake", "--crash-at-start", "3", restart={"max_failures": 1}).up()
    before = datetime.now(UTC)
    assert box.ctl("start", "fake").returncode == 4
    status = box.status()
    assert status["last_error"] == "fake exited with status 3 before it was ready"
    assert status["last_error_kind"] == "server_crashed"
    at = datetime.fromisoformat(status["last_error_at"])
    assert status["last_error_at"].endswith("Z")
    assert abs((at - before).total_seconds()) < 60
    shown = box.ctl("status").stdout
    assert f"exited with status 3 before it was ready, {at.astimezone():%H:%M:%S} (" in shown
    assert " s ago)" in shown


def test_an_entry_that_is_wrong_has_no_time(box: Box) -> None:
    box.fake("fake")
    box.servers["fake"]["args"] = 7
    box.up()
    status = box.status()
    assert status["last_error_kind"] == "config_invalid"
    assert status["last_error_at"] is None


def test_noise_is_counted(box: Box) -> None:
    """
    B062: whose stdout is not clean is to be seen without a search through logs.
    """
    box.fake("fake", "--noise").up()
    box.session().call("echo", text="hi")
    status = box.status()
    assert (status["noise"], status["noise_reason"]) == (5, "not JSON-RPC")
    assert (
        "fake: 5 lines on its stdout were no messages of MCP (not JSON-RPC)"
        in box.ctl("status").stdout
    )


@pytest.mark.parametrize(
    ("flags", "step", "told"),
    [
        ((), "eof", "ended by itself at the end of its input"),
        (("--ignore-eof",), "term", "ended at SIGTERM"),
        (("--ignore-eof", "--ignore-term"), "kill", "was killed with SIGKILL"),
    ],
)
def test_a_stop_says_what_it_took(box: Box, flags: tuple[str, ...], step: str, told: str) -> None:
    """
    B005: somebody whose server ignores the end of its input wants to know that.
    """
    box.fake("fake", *flags, stop_grace=0.3).up()
    assert box.ctl("start", "fake").returncode == 0
    assert f"fake: {told}" in box.ctl("stop", "-v", "fake").stdout
    assert "fake: no process was running" in box.ctl("stop", "-v", "fake").stdout
    assert box.ctl("start", "fake").returncode == 0
    stopped = box.peer().request("mcpd/stop", {"servers": ["fake"]}, 20.0)["servers"]
    assert stopped == [{"name": "fake", "state": "stopped", "pid": None, "step": step}]
