"""``mcpctl doctor`` against the real thing, with what it finds brought about."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from typing import Any

from tests.support.daemon import Box, Json, is_alive
from tests.support.waiting import scaled, wait_until


def examined(box: Box, status: int | None = None, *args: str) -> dict[str, Json]:
    done = box.ctl(*args, "doctor", "--json")
    assert done.stderr == ""
    if status is not None:
        assert done.returncode == status, done.stdout
    findings = json.loads(done.stdout)["findings"]
    assert all({"id", "severity", "message", "remedy"} <= set(each) for each in findings)
    return {each["id"]: each for each in findings}


def bad(findings: dict[str, Json]) -> set[str]:
    return {each["id"] for each in findings.values() if each["severity"] in ("error", "warning")}


def test_where_nothing_is_wrong_it_says_so(box: Box) -> None:
    box.fake().up()
    box.session().call("echo", text="hi")
    found = examined(box, 0)
    assert bad(found) == set()
    assert {"daemon_runs", "config", "server", "descriptors", "disk", "python"} <= set(found)
    shown = box.ctl("doctor")
    assert shown.returncode == 0
    assert shown.stdout == "nothing is wrong; --verbose says what was looked at\n"
    told = box.ctl("doctor", "-v").stdout
    assert told.startswith("In order:\n  mcpd ") and "  fake: ready\n" in told


def test_without_a_daemon_it_works_and_starts_none(box: Box) -> None:
    box.fake().write()
    found = examined(box, 0)
    assert (found["daemon_absent"]["severity"], found["daemon_absent"]["remedy"]) == (
        "note",
        "mcpctl up",
    )
    assert not box.socket.exists() and box.survivors() == {}


def test_a_stopped_daemon_is_told_in_time_with_how_it_goes_on(box: Box) -> None:
    """
    B114: all else hangs then; this does not.
    """
    box.fake().up()
    assert box.daemon
    box.daemon.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    found = examined(box, 3)
    assert time.monotonic() - began < scaled(20)  # 5, and what a busy machine adds
    assert f"pid {box.daemon.pid}" in found["daemon_unresponsive"]["message"]
    assert "a signal has stopped it" in found["daemon_unresponsive"]["message"]
    assert found["daemon_unresponsive"]["remedy"].startswith(
        f"kill -CONT {box.daemon.pid}; or: mcpctl down --force"
    )
    assert "config" in found and "disk" in found
    box.daemon.send_signal(signal.SIGCONT)
    wait_until(lambda: examined(box)["daemon_runs"], 20)


def test_a_daemon_whose_socket_is_gone_is_told(box: Box) -> None:
    """
    B114: it holds the lock, so nobody can start another one.
    """
    box.fake().up()
    assert box.daemon
    box.socket.unlink()
    wedged = examined(box, 3)["daemon_wedged"]
    assert f"pid {box.daemon.pid}" in wedged["message"]
    assert "mcpctl down --force" in wedged["remedy"]
    for command in ("status", "down"):
        done = box.ctl(command)
        assert (done.returncode, done.stdout) == (3, "")
        assert f"pid {box.daemon.pid}, holds the lock" in done.stderr
        assert "mcpctl down --force" in done.stderr
    assert box.ctl("down", "--force").stdout == f"mcpd is down (it was pid {box.daemon.pid})\n"
    assert box.daemon.wait(scaled(20)) == 0
    assert examined(box, 0)["daemon_absent"]


def test_what_a_dead_daemon_left_is_no_error(box: Box) -> None:
    box.fake().up()
    box.down(signal.SIGKILL)
    wait_until(lambda: not box.survivors(), 20, what="the guardian to end")
    assert examined(box, 0)["socket_stale"]["remedy"] == "mcpctl up"


def test_a_place_that_others_can_write_in_is_told(box: Box) -> None:
    """
    B118: it could be anybody who answers there.
    """
    box.fake().up()
    box.socket.parent.chmod(0o777)
    found = examined(box, 3)["socket_exposed"]
    assert found["remedy"] == f"chmod go-w {box.socket.parent}"
    box.socket.parent.chmod(0o700)
    box.socket.chmod(0o666)
    assert examined(box, 0)["socket_mode"]["remedy"] == f"chmod 600 {box.socket}"
    box.socket.chmod(0o600)


def test_a_path_that_is_too_long_is_told_with_where_it_leads(box: Box) -> None:
    """
    B117: else nobody knows where the socket is.
    """
    long = str(box.root / ("d" * 110) / "mcpd.sock")
    told = examined(box, None, "--socket", long)["socket_path_long"]["message"]
    assert long in told
    used = told.partition(": ")[2].partition(" ")[0]
    assert used.endswith(".sock") and len(used) < 108


def test_something_else_in_the_sockets_place_is_told(box: Box) -> None:
    box.fake().write()
    box.socket.touch()
    assert examined(box, 3)["socket_unusable"]["severity"] == "error"


def test_another_daemon_of_ours_is_told_with_its_socket(box: Box) -> None:
    """
    Two of them are twice the servers.
    """
    box.fake().up()
    other = str(box.root / "run" / "other.sock")
    assert box.ctl("--socket", other, "up").returncode == 0
    found = examined(box, 0)["daemon_another"]
    assert found["remedy"] == f"if that is not meant: mcpctl --socket {other} down"
    assert box.ctl("--socket", other, "down").returncode == 0


def test_orphans_of_dead_daemons_are_told(box: Box) -> None:
    box.fake().up()
    box.session().call("echo", text="hi")
    (box.root / "aside").mkdir()
    pid = box.status()["pid"]
    os.kill(pid, signal.SIGSTOP)  # the guardian ends it all the same, but its ledger is kept
    ledgers = box.state / "ledger"
    shutil.copytree(ledgers, box.root / "kept")
    os.kill(pid, signal.SIGCONT)
    box.down()
    with subprocess.Popen(
        [sys.executable, "-c", "input()"],
        stdin=subprocess.PIPE,
        env={**box.env, "MCPD_INSTANCE": f"{next((box.root / 'kept').glob('*.json')).stem}:fake:1"},
    ) as stray:
        shutil.copytree(box.root / "kept", ledgers, dirs_exist_ok=True)
        found = examined(box)["orphans"]
        assert str(stray.pid) in found["message"]
        assert found["remedy"] == "mcpctl up"
        assert is_alive(stray.pid)  # it tells, and signals nobody
        stray.kill()


def test_files_that_nobody_has_reloaded_are_told(box: Box) -> None:
    box.settings["watch"] = False
    box.fake().up()
    assert bad(examined(box, 0)) == set()
    box.servers["fake"]["env"] = {"X": "1"}
    box.write()
    found = examined(box, 0)["config_not_reloaded"]
    assert found["remedy"] == "mcpctl reload" and "watch = false" in found["message"]
    assert box.ctl("reload").returncode == 0
    assert bad(examined(box, 0)) == set()


def test_it_looks_with_the_daemons_environment_and_not_with_its_own(box: Box) -> None:
    """
    B029: what a terminal finds, a daemon that was started elsewhere may not.
    """
    tool = box.root / "tools" / "mytool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    box.servers["s"] = {"command": "mytool", "args": ["${MY_VARIABLE}"]}
    box.up()
    box.env["PATH"] = f"{tool.parent}:{box.env['PATH']}"
    box.env["MY_VARIABLE"] = "here"
    found = examined(box, 1)
    assert "MY_VARIABLE is not set" in found["config_error"]["message"]
    box.servers["s"]["args"] = []
    box.write()
    found = wait_until(lambda: "command_not_found" in (seen := examined(box)) and seen, 20)
    assert found["command_not_found"]["server"] == "s"
    assert str(tool.parent) not in found["command_not_found"]["message"]


def test_servers_in_trouble_are_told_with_why_and_what_to_type(box: Box) -> None:
    restart = {"max_failures": 1}
    box.fake("bad", "--crash-at-start", "3", restart=restart)
    box.fake("mute", "--mute", startup_timeout=0.5, restart=restart)
    box.fake("noisy", "--noise").fake("stuck").fake("held")
    box.servers["gone"] = {"command": "no-such-program"}
    box.up()
    for name in ("bad", "mute", "noisy", "stuck"):
        box.ctl("start", name)
    box.ctl("stop", "held")
    os.kill(box.status("stuck")["pid"], signal.SIGSTOP)
    done = box.ctl("doctor", "--json")
    assert done.returncode == 1
    found: dict[tuple[str, str | None], Any] = {
        (each["id"], each.get("server")): each for each in json.loads(done.stdout)["findings"]
    }
    assert "exited with status 3" in found["server_failed", "bad"]["message"]
    assert "startup_timeout = 1" in found["server_failed", "mute"]["remedy"]
    assert "5 lines" in found["server_noise", "noisy"]["message"]
    assert found["server_unresponsive", "stuck"]["remedy"].startswith("kill -CONT ")
    assert found["server_held", "held"]["severity"] == "note"
    assert "no-such-program" in found["command_not_found", "gone"]["message"]
    shown = box.ctl("doctor").stdout
    assert shown.startswith("Errors:\n")
    assert "\nWarnings:\n" in shown and "\nNotes:\n" in shown and "In order" not in shown
    assert "\n    -> mcpctl start held\n" in shown
    os.kill(box.status("stuck")["pid"], signal.SIGCONT)


def test_no_secret_is_shown(box: Box) -> None:
    """
    B139, B140: whoever asks for help pastes what it says.
    """
    box.env["FILES_TOKEN"] = "sentinel-of-env"
    box.fake("a", env={"API_KEY": "sentinel-in-file", "OTHER": "${FILES_TOKEN}"})
    box.servers["b"] = {
        "command": "/nowhere/${FILES_TOKEN}/x",
        "args": ["--api-key", "sentinel-arg", "-H Authorization: sentinel-joined"],
    }
    box.servers["c"] = {
        "command": "docker",
        "args": ["run", "-e", "API_KEY=sentinel-docker", "img"],
    }
    box.up()
    box.ctl("start", "a")
    box.ctl("start", "b")
    for args in (["doctor", "-v"], ["doctor", "--json"]):
        told = box.ctl(*args).stdout
        assert "secret_in_arguments" in told or "looks like a secret" in told
        assert "sentinel" not in told


def test_a_daemon_that_listens_and_is_another_version_is_told(box: Box) -> None:
    """
    B120: also one that cannot be spoken to.
    """
    box.fake().write()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(box.socket))
        listener.listen()
        with subprocess.Popen(  # it is asked from here, so it must answer from elsewhere
            [sys.executable, "-c", ANSWER.format(fd=listener.fileno())],
            pass_fds=[listener.fileno()],
        ) as answering:
            found = examined(box, 3)
            answering.kill()
    assert found["daemon_incompatible"]["remedy"] == "mcpctl restart --daemon"


ANSWER = """
import socket
with socket.socket(fileno={fd}) as listener:
    while True:
        taken, _ = listener.accept()
        taken.recv(1000)
        taken.sendall(b'{{"jsonrpc":"2.0","id":1,"result":{{"version":"9.0","pid":7,"api":99,"uptime_s":1}}}}\\n')
        taken.recv(1000)
"""
