"""Where daemons are, and how clients find them whose environment does not say it."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.daemon import TAG, Box, Json, Peer, binary, is_alive
from tests.support.waiting import scaled, wait_until

MCPCTL = """
import sys
import mcpd.paths
directory = sys.argv.pop(1)
mcpd.paths._own_directory = lambda: directory
from mcpctl.__main__ import main
sys.exit(main())
"""
"""A ``mcpctl`` for which the default socket is in the box and not the machine's."""

PASSED = ("HOME", "PATH", "SHELL", TAG)
"""What a client passes on to the programs that it starts."""


def stripped(box: Box) -> dict[str, str]:
    return {name: box.env[name] for name in PASSED if name in box.env}


def command(box: Box, *args: str) -> list[str]:
    return [sys.executable, "-c", MCPCTL, str(box.root / "default"), *args]


def ctl(box: Box, *args: str) -> subprocess.CompletedProcess[str]:
    """Run ``mcpctl`` to its end in the environment of a client."""
    return subprocess.run(
        command(box, *args),
        env=stripped(box),
        text=True,
        capture_output=True,
        timeout=scaled(30),
        check=False,
    )


def note_of(box: Box) -> Path:
    return Path(box.env["HOME"]) / ".local/state/mcpd/place.json"


def noted(box: Box) -> Json:
    """Return what is noted, as soon as it is."""
    wait_until(note_of(box).exists, what="place.json")
    found: Json = json.loads(note_of(box).read_text())
    return found


def second(box: Box) -> tuple[Path, subprocess.Popen[bytes]]:
    """Start another daemon with the same home directory, and files of its own."""
    root = box.root / "second"
    root.mkdir(mode=0o700)
    places = {"MCPD_SOCKET": str(root / "mcpd.sock"), "MCPD_STATE_DIR": str(root / "state")}
    with box.log.open("ab") as log:
        started = subprocess.Popen(
            [binary("mcpd")], env=box.env | places, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
    box._started.append(started)

    def is_noted() -> bool:
        return any(each["pid"] == started.pid for each in noted(box)["others"])

    wait_until(is_noted, 20, what="the second daemon's note")
    return root / "mcpd.sock", started


def status(socket: Path) -> Json:
    with Peer.dial(socket) as peer:
        found: Json = peer.request("mcpd/status")["daemon"]
        return found


def test_a_daemon_notes_its_place_whatever_its_environment_says(box: Box) -> None:
    box.up()
    assert box.daemon is not None
    found = noted(box)
    assert stat.S_IMODE(note_of(box).stat().st_mode) == 0o600
    assert found.pop("start_time")
    assert found == {
        "socket": str(box.socket),
        "state_dir": str(box.state),
        "config": str(box.config),
        "config_home": f"{box.env['XDG_CONFIG_HOME']}/mcpd",
        "pid": box.daemon.pid,
        "others": [],
    }
    box.down()
    assert [each.name for each in note_of(box).parent.iterdir()] == []


def test_a_client_with_a_bare_environment_finds_it(box: Box) -> None:
    box.fake().up()
    noted(box)
    with box.session() as session:
        pid = session.text("pid")
    bridge = subprocess.Popen(
        command(box, "connect", "fake"),
        env=stripped(box),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with Peer.over(bridge) as peer:
        peer.initialize()
        assert peer.text("pid") == pid
    assert ctl(box, "status").stdout.split()[-1:] and str(box.socket) in ctl(box, "status").stdout
    told = ctl(box, "doctor")
    assert str(box.socket) in ctl(box, "doctor", "-v").stdout, told.stderr
    assert not (box.root / "default").exists()


def test_a_bare_bridge_starts_the_next_daemon_at_the_same_place(box: Box) -> None:
    """With its state directory: sign-ins, tokens and the record of its processes are there."""
    box.fake().up()
    noted(box)
    bridge = subprocess.Popen(
        command(box, "connect", "fake"),
        env=stripped(box),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with Peer.over(bridge) as peer:
        peer.initialize()
        assert peer.text("echo", text="before") == "before"
        box.down(signal.SIGKILL)
        assert peer.text("echo", 30.0, text="after") == "after"
        wait_until(lambda: noted(box)["pid"] != box.daemon.pid, what="the next note")  # type: ignore[union-attr]
        found = noted(box)
        assert (found["socket"], found["state_dir"]) == (str(box.socket), str(box.state))
        assert ctl(box, "down").returncode == 0
        assert not is_alive(found["pid"])


def test_a_note_of_a_daemon_that_was_killed_is_not_used_and_not_kept(box: Box) -> None:
    box.up()
    before = noted(box)
    box.down(signal.SIGKILL)
    assert ctl(box, "status", "--no-start").returncode == 3
    box.up()
    wait_until(lambda: noted(box)["pid"] != before["pid"], what="the next note")
    assert noted(box)["others"] == []


def test_another_process_with_the_pid_of_a_dead_daemon_is_not_taken_for_it(box: Box) -> None:
    """Not even another daemon of the same user, which holds another lock."""
    box.up()
    other_socket, other = second(box)
    first = noted(box)
    box.down(signal.SIGKILL)
    theirs = next(each for each in first["others"] if each["pid"] == other.pid)
    forged = {**first, "pid": theirs["pid"], "start_time": theirs["start_time"], "others": []}
    note_of(box).write_text(json.dumps(forged))
    assert ctl(box, "status", "--no-start").returncode == 3
    forged |= {"socket": str(other_socket), "start_time": f"{theirs['start_time']}0"}
    note_of(box).write_text(json.dumps(forged))
    assert ctl(box, "status", "--no-start").returncode == 3
    forged |= {"start_time": theirs["start_time"]}
    note_of(box).write_text(json.dumps(forged))
    assert ctl(box, "status", "--no-start").returncode == 0


@pytest.mark.parametrize("how", ["writable", "link"])
def test_a_note_that_others_could_write_is_not_used(box: Box, how: str) -> None:
    box.up()
    noted(box)
    if how == "writable":
        note_of(box).chmod(0o666)
    else:
        note_of(box).rename(box.root / "note")
        note_of(box).symlink_to(box.root / "note")
    assert ctl(box, "status", "--no-start").returncode == 3


def test_of_two_daemons_each_names_the_other(box: Box) -> None:
    box.up()
    noted(box)
    other_socket, other = second(box)
    assert box.daemon is not None
    assert status(box.socket)["others"] == [{"pid": other.pid, "socket": str(other_socket)}]
    assert status(other_socket)["others"] == [{"pid": box.daemon.pid, "socket": str(box.socket)}]
    shown = box.ctl("status").stderr
    assert f"another mcpd of yours runs, pid {other.pid}, on {other_socket}" in shown
    assert f"pid {other.pid}, on {other_socket}" in box.ctl("doctor").stdout
    assert str(box.socket) in ctl(box, "status").stdout
    other.send_signal(signal.SIGTERM)
    assert other.wait(scaled(20)) == 0
    assert noted(box)["others"] == []
    assert status(box.socket)["others"] == []


def test_the_second_of_two_daemons_is_found_when_the_first_has_ended(box: Box) -> None:
    box.up()
    noted(box)
    other_socket, other = second(box)
    box.down()
    assert (noted(box)["pid"], noted(box)["others"]) == (other.pid, [])
    assert str(other_socket) in ctl(box, "status").stdout


def test_a_daemon_at_the_default_socket_comes_first(box: Box) -> None:
    box.up()
    noted(box)
    started = ctl(box, "--socket", str(box.root / "default/mcpd.sock"), "up")
    assert started.returncode == 0, started.stderr
    assert str(box.root / "default/mcpd.sock") in ctl(box, "status").stdout
    assert ctl(box, "down").returncode == 0
    assert str(box.socket) in ctl(box, "status").stdout


def test_a_home_that_cannot_be_written_is_reported_and_ends_nothing(box: Box) -> None:
    directory = note_of(box).parent
    directory.parent.mkdir(parents=True)
    directory.symlink_to(box.state)  # what a directory of ours must not be
    box.fake().up()
    wait_until(lambda: "place.trouble" in box.tail(), what="the log line")
    problems = status(box.socket)["problems"]
    assert [each for each in problems if "may not find this daemon" in each]
    with box.session() as session:
        assert session.text("echo", text="x") == "x"
    assert box.down() == 0


def test_a_user_without_a_home_has_no_note(box: Box) -> None:
    box.env["HOME"] = str(box.root / "nowhere")
    box.up()
    assert status(box.socket)["problems"] == []
    assert not os.path.lexists(box.env["HOME"])
