"""Descendants of a server that call themselves a daemon, and those that are one."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

from mcpd.supervise.proctable import procfs
from mcpd.supervise.proctable.procfs import ProcId
from tests.support.daemon import Box, binary
from tests.support.waiting import wait_until

GRACE = 0.3

SLEEPER = """\
import ctypes, os, sys, time
ctypes.CDLL(None).prctl(15, b"mcpd")
with open(sys.argv[1], "a") as file:
    file.write(f"{os.getpid()}\\n")
time.sleep(987)
"""
"""Names itself ``mcpd`` to the kernel too (PR_SET_NAME), notes its pid, and waits."""

AWAY = "(exec env -i setsid bash -c {script} >/dev/null 2>&1 </dev/null &)"
"""A double fork into a session of its own, without an environment."""


def leave_named(box: Box) -> None:
    """Add a server that leaves descendants behind under the names of our own programs."""
    script = box.root / "x" / "mcpd" / "supervise" / "guardian.py"
    script.parent.mkdir(parents=True)
    script.write_text(SLEEPER)
    program = script.with_name("mcpd")
    program.write_text(SLEEPER)
    notes = box.root / "named"
    parts = [
        f"exec -a mcpd {sys.executable} -I -S {script.with_name('s.py')} {notes}",
        f"exec {sys.executable} -I -S {program} {notes}",
        f"exec {sys.executable} -I -S {script} {notes}",
        f"exec -a mcpctl {sys.executable} -I -S {script.with_name('s.py')} {notes}",
    ]
    script.with_name("s.py").write_text(SLEEPER)
    left = " ".join(AWAY.format(script=shlex.quote(part)) + ";" for part in parts)
    box.fake("fake", "--ignore-eof", stop_grace=GRACE)
    launch = box.servers["fake"]
    launch["args"] = ["-c", f'{left} exec "$@"', "sh", launch["command"], *launch["args"]]
    launch["command"] = "sh"


def started(box: Box) -> list[ProcId]:
    """Start the server and return its descendants, once the daemon has seen them."""
    box.ctl("start", "fake")
    notes = box.root / "named"
    wait_until(lambda: notes.exists() and len(notes.read_text().split()) == 4, 10)
    pids = [int(pid) for pid in notes.read_text().split()]
    found = [process for pid in pids if (process := procfs.identify(pid)) is not None]
    assert len(found) == 4
    ledger = next((box.state / "ledger").glob("*.json"))

    def seen() -> bool:
        box.status()
        recorded = json.loads(ledger.read_text())["processes"][0]["seen"]
        return all(list(each) in recorded for each in found)

    wait_until(seen, 10, what="the ledger to name all of them")
    return found


@pytest.mark.parametrize("end", ["stop", "down", "kill"])
def test_a_name_protects_no_descendant_of_a_server(box: Box, end: str) -> None:
    """
    A process chooses its own name, leaves the session and empties its environment: it is still
    the server's, when the server stops and when the daemon ends or is killed.
    """
    leave_named(box)
    box.up()
    named = started(box)
    try:
        if end == "stop":
            box.ctl("stop", "fake")
            assert not [each for each in named if procfs.lives(each)]
        elif end == "down":
            assert box.down() == 0
            assert not [each for each in named if procfs.lives(each)]
        else:
            assert box.down(signal.SIGKILL) == -signal.SIGKILL
            wait_until(lambda: not any(map(procfs.lives, named)), 10)
    finally:
        for each in named:
            procfs.send(each, signal.SIGKILL)


def inner_daemon(box: Box) -> str:
    """Add a server that starts a daemon of its own, and return that one's socket."""
    root = box.root / "in"
    for name in ("run", "state"):
        (root / name).mkdir(mode=0o700, parents=True)
    config, socket = root / "config.json", str(root / "run" / "mcpd.sock")
    box.fake("inner")
    inner = box.servers.pop("inner")
    config.write_text(json.dumps({"mcpServers": {"inner": inner}}))
    config.chmod(0o600)
    box.fake("fake", stop_grace=GRACE)
    launch = box.servers["fake"]
    starts = f"{binary('mcpctl')} call inner echo text=hi >&2; "
    launch["args"] = ["-c", f'{starts} exec "$@"', "sh", launch["command"], *launch["args"]]
    launch["command"] = "sh"
    launch["env"] = {
        "MCPD_CONFIG": str(config),
        "MCPD_SOCKET": socket,
        "MCPD_STATE_DIR": str(root / "state"),
    }
    return socket


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_daemon_that_a_server_has_started_is_left_alone(box: Box, end: str) -> None:
    """
    It holds its lock, its guardian another, and its servers carry its tag.
    """
    socket = inner_daemon(box)
    box.up()
    said = box.ctl("start", "fake")
    assert said.returncode == 0, said.stderr + box.tail()
    status = box.ctl("--socket", socket, "status", "--json")
    pid = json.loads(status.stdout)["daemon"]["pid"]
    theirs = [each for each in procfs.scan() if pid in (each.pid, each.ppid)]
    server = box.pids("inner")[-1]
    assert server in {each.pid for each in theirs}
    guardians = [p for p in theirs if "guardian.py" in " ".join(procfs.arguments(p.pid))]
    assert len(guardians) == 1
    try:
        if end == "stop":
            assert box.ctl("stop", "fake").returncode == 0
        else:
            outer = box.daemon
            assert outer is not None
            guardian = next(
                each.id
                for each in procfs.scan()
                if each.ppid == outer.pid and "guardian.py" in " ".join(procfs.arguments(each.pid))
            )
            box.down(signal.SIGKILL)
            wait_until(lambda: not procfs.lives(guardian), 10)
        assert [each.pid for each in theirs if not procfs.lives(each.id)] == []
        again = box.ctl("--socket", socket, "call", "inner", "pid", "--json", "--no-start")
        assert str(server) in again.stdout, again.stderr
    finally:
        box.ctl("--socket", socket, "down")
    wait_until(lambda: not any(procfs.lives(each.id) for each in theirs), 10)


def test_a_lock_counts_for_the_process_that_it_names(tmp_path: Path) -> None:
    """
    A file that somebody has locked, with another's pid in it, makes nobody a daemon.
    """
    me = os.getpid()
    for name, text, is_locked, expected in (
        ("a.lock", b"%d\nready\n" % me, True, True),
        ("b.guard", b"%d\n" % me, True, True),
        ("c.lock", b"%d\n" % (me + 1), True, False),
        ("d.lock", b"%d\n" % me, False, False),
        ("e.pid", b"%d\n" % me, True, False),
    ):
        fd = os.open(tmp_path / name, os.O_RDWR | os.O_CREAT, 0o600)
        os.write(fd, text)
        if is_locked:
            fcntl.flock(fd, fcntl.LOCK_EX)
        assert procfs.holds_own_lock(me) is expected, name
        os.close(fd)
