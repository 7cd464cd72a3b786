"""Cases from the field: one daemon, its socket, its lock, and what others left there."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.faults.ground import Watch, tree
from tests.support.daemon import Box, binary, is_alive
from tests.support.waiting import scaled, wait_until

RUNS_ALREADY = 75
LONG = 120
"""Bytes of a directory whose socket's path does not fit into ``sun_path``."""

OTHER = """
import sys
import mcpd, mcpd.api.version
setattr(*{"version": (mcpd, "__version__", "99.0"), "api": (mcpd.api.version, "API", 99)}[sys.argv.pop(1)])
from mcpctl.__main__ import main
sys.exit(main())
"""
"""A ``mcpctl`` of another release, or of another protocol."""


def run(box: Box, timeout: float = 20, **how: object) -> subprocess.CompletedProcess[str]:
    """Run ``mcpd`` to its end, which is expected to come at once."""
    command = [binary("mcpd")]
    return subprocess.run(
        command,
        env=box.env,
        text=True,
        capture_output=True,
        timeout=scaled(timeout),
        check=False,
        umask=int(how.get("umask", -1)),  # type: ignore[call-overload]
    )


def daemons(box: Box) -> list[int]:
    """Return the daemons of this box: a process by that name, whoever started it."""
    return [pid for pid, line in box.survivors().items() if line.split()[1:2] == [binary("mcpd")]]


@pytest.fixture
def innocent(box: Box) -> Iterator[int]:
    """A process of somebody else's."""
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        yield sleeper.pid
        assert sleeper.poll() is None
        sleeper.kill()


def test_a_daemon_that_was_killed_leaves_nothing_in_the_way(box: Box):
    """
    B111: "address in use", until somebody removed the socket by hand.
    """
    box.fake().up()
    pids = tree(box, "fake")
    box.down(signal.SIGKILL)
    assert box.socket.is_socket()
    watch = Watch()
    box.up()
    assert watch.seconds < scaled(10)
    with box.session() as session:
        assert int(session.text("pid")) not in pids
    assert not any(map(is_alive, pids))


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_what_is_no_socket_is_refused_and_left_alone(box: Box, kind: str):
    """
    B111: it could be anything that somebody keeps there.
    """
    victim = box.root / "victim"
    victim.write_text("precious")
    box.write()
    match kind:
        case "file":
            box.socket.write_text("precious")
        case "directory":
            box.socket.mkdir()
        case "link":
            box.socket.symlink_to(victim)
    done = run(box)
    assert done.returncode not in (0, RUNS_ALREADY)
    assert str(box.socket) in done.stderr
    assert "Traceback" not in done.stderr
    assert victim.read_text() == "precious"
    assert box.socket.is_dir() or box.socket.read_text() == "precious"


def test_of_many_starts_at_once_one_daemon_comes(box: Box):
    """
    B112: a second one unlinked the first one's socket, which went on alone with its servers.
    """
    box.fake().write()
    bridges = [box.bridge("fake", handshake=False) for _ in range(6)]
    direct = [
        subprocess.Popen([binary("mcpd")], env=box.env, stderr=subprocess.DEVNULL) for _ in range(3)
    ]
    for bridge in bridges:
        bridge.initialize()
    assert len({bridge.text("pid") for bridge in bridges}) == 1
    assert len(box.pids()) == 1
    wait_until(lambda: len(daemons(box)) == 1, 20, what=lambda: f"one daemon of {daemons(box)}")
    (winner,) = daemons(box)
    for bridge in bridges:
        bridge.close()  # or they would have another daemon when this one is gone
    with box.peer() as peer:
        assert peer.request("mcpd/hello")["pid"] == winner
        ended = [mcpd for mcpd in direct if mcpd.pid != winner]
        assert {mcpd.wait(scaled(20)) for mcpd in ended} == {RUNS_ALREADY}
        peer.request("mcpd/shutdown")
    for mcpd in direct:
        mcpd.wait(scaled(20))
    wait_until(lambda: not daemons(box), 20)


@pytest.mark.parametrize("what", ["innocent", "garbage"])
def test_a_lock_that_nobody_holds_is_no_lock(box: Box, innocent: int, what: str):
    """
    B115: its pid is somebody else's now. B116: the file was left there, that is all.
    """
    written = {"innocent": str(innocent), "garbage": "?\0" * 50}
    (box.socket.parent / f"{box.socket.name}.lock").write_text(written[what])
    (box.socket.parent / f"{box.socket.name}.start").touch()
    box.fake().write()
    assert box.ctl("call", "fake", "echo", "text=fine").stdout == "fine\n"
    assert box.ctl("down").returncode == 0


def test_a_directory_that_cannot_be_written_is_told(box: Box):
    """
    B116: as what it is, and at once.
    """
    box.write()
    box.env["MCPD_SOCKET"] = "/proc/mcpd/mcpd.sock"
    done = run(box)
    assert done.returncode not in (0, RUNS_ALREADY)
    assert "/proc/mcpd" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_path_that_is_too_long_for_a_socket_works(box: Box):
    """
    B117: "exited before ready", in a home directory with a long name.
    """
    deep = box.root / ("d" * LONG)
    deep.mkdir(mode=0o700)
    box.env["XDG_RUNTIME_DIR"] = str(deep)
    del box.env["MCPD_SOCKET"]
    box.fake().write()
    assert box.ctl("call", "fake", "echo", "text=deep").stdout == "deep\n"
    bridge = box.bridge("fake")
    assert bridge.text("echo", text="deep") == "deep"
    assert len(daemons(box)) == 1
    assert box.ctl("down").returncode == 0


def test_what_we_make_is_private_whatever_the_umask(box: Box):
    """
    B118: others connected, or took the name first.
    """
    shutil_free = box.root / "fresh"
    box.env |= {
        "MCPD_SOCKET": str(shutil_free / "mcpd.sock"),
        "MCPD_STATE_DIR": str(box.root / "s"),
    }
    box.socket = shutil_free / "mcpd.sock"
    box.fake(start="eager").write()
    os.umask(before := os.umask(0))
    os.umask(0)
    try:
        box.up()
    finally:
        os.umask(before)
    wait_until(lambda: box.status()["state"] == "ready")
    assert stat.S_IMODE(box.socket.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(box.socket.stat().st_mode) == 0o600
    for folder, names, files in os.walk(box.root / "s"):
        for name in (*names, *files):
            mode = os.lstat(os.path.join(folder, name)).st_mode
            assert not mode & 0o077, (folder, name, oct(mode))


def test_a_planted_link_is_not_followed(box: Box):
    """
    B118: the directory is a link, so whoever planted it decides where our socket is.
    """
    elsewhere = box.root / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    box.socket.parent.rmdir()
    box.socket.parent.symlink_to(elsewhere)
    box.write()
    done = run(box)
    assert done.returncode not in (0, RUNS_ALREADY)
    assert str(box.socket.parent) in done.stderr
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("signum", [signal.SIGHUP, signal.SIGTERM])
def test_a_signal_in_the_first_moments_leaves_no_half_daemon(box: Box, signum: signal.Signals):
    """
    B123: SIGHUP came before its handler, and what was left was a lock without a socket.
    """
    lock = box.socket.parent / f"{box.socket.name}.lock"
    box.fake().write()
    for _ in range(3):
        lock.unlink(missing_ok=True)
        box.up(wait=False)
        assert box.daemon
        wait_until(lock.exists, 20)  # from here on it would leave something half
        box.daemon.send_signal(signum)
        if signum is signal.SIGTERM:
            assert box.daemon.wait(scaled(10)) == 0
        else:
            wait_until(lambda: serves(box), 20, what=box.tail)
            assert box.down() == 0
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert not box.socket.exists()


def serves(box: Box) -> bool:
    with socket.socket(socket.AF_UNIX) as sock:
        return sock.connect_ex(str(box.socket)) == 0


def test_versions_that_differ_work_or_say_so_and_end_nobody(box: Box):
    """
    B120: the versions killed each other in turn, or an old daemon served for days unnoticed.
    """
    box.fake().up()
    assert box.daemon

    def other(what: str, *args: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-c", OTHER, what, *args]
        return subprocess.run(argv, env=box.env, text=True, capture_output=True, check=False)

    with box.session() as session:
        pid = session.text("pid")
        assert other("version", "call", "fake", "pid").stdout == f"{pid}\n"
        told = other("version", "status")
        assert told.returncode == 0
        assert "99.0" in told.stderr and "restart --daemon" in told.stderr
        for args in (("status",), ("call", "fake", "pid"), ("down",)):
            refused = other("api", *args)
            assert refused.returncode == 3
            assert "too old" in refused.stderr
        assert session.text("pid") == pid
    assert box.daemon.poll() is None


@pytest.mark.long
@pytest.mark.timeout(600)
def test_of_many_starts_again_and_again_one_daemon_comes(box: Box):
    """
    B112: with twenty bridges and five daemons at once, and nothing left of those that lost.
    """
    for _ in range(20):
        box.fake().write()
        bridges = [box.bridge("fake", handshake=False) for _ in range(20)]
        direct = [
            subprocess.Popen([binary("mcpd")], env=box.env, stderr=subprocess.DEVNULL)
            for _ in range(5)
        ]
        for bridge in bridges:
            bridge.initialize()
        assert len({bridge.text("pid") for bridge in bridges}) == 1
        wait_until(lambda: len(daemons(box)) == 1, what=lambda: f"one daemon of {daemons(box)}")
        for bridge in bridges:
            bridge.close()
        with box.peer() as peer:
            peer.request("mcpd/shutdown")
        for mcpd in direct:
            assert mcpd.wait(scaled(20)) in (0, RUNS_ALREADY)
        wait_until(lambda: not box.survivors(), 20, what=lambda: str(box.survivors()))
