"""How clients reach a daemon, and start one that is nobody's child."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcpd import launch, paths, presence
from mcpd.errors import DaemonUnavailable
from mcpd.service import activation, notify
from tests.support.daemon import is_alive
from tests.support.waiting import wait_until

ROOT = Path(__file__).parent.parent.parent

FAKE_MCPD = """
import fcntl, json, os, socket, sys, time
path = sys.argv[sys.argv.index("--socket") + 1]
state = os.environ["MCPD_STATE_DIR"]
with open(state + "/starts", "a") as starts:
    starts.write(f"{os.getpid()}\\n")
behaviour = open(state + "/behaviour").read().split()
print("scripted complaint", file=sys.stderr, flush=True)
if behaviour[0] == "exit":
    sys.exit(int(behaviour[1]))
lock = open(path + ".lock", "a")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(75)
seen = {
    "argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd(),
    "fds": {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")[:-1]},
    "sid": os.getsid(0), "pid": os.getpid(), "pgid": os.getpgid(0),
    "ignored": int(open("/proc/self/status").read().split("SigIgn:")[1].split()[0], 16),
    "blocked": int(open("/proc/self/status").read().split("SigBlk:")[1].split()[0], 16),
}
with open(state + "/seen", "w") as file:
    json.dump(seen, file)
if behaviour[0] == "silent":
    time.sleep(60)
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen(64)
while True:
    listener.accept()[0].close()
"""

STARTER = """
import os, socket, sys
from mcpd import launch
launch.daemon_command = lambda: [sys.executable, os.environ["FAKE_MCPD"]]
launch.reach(sys.argv[1], socket.socket.close, timeout=20)
"""


class Place:
    """A socket, a state directory, and an ``mcpd`` that behaves as it is told."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.socket = str(directory / "run" / "mcpd.sock")
        self.state = directory / "state"
        self.state.mkdir(mode=0o700)
        self.mcpd = directory / "mcpd"
        self.mcpd.write_text(FAKE_MCPD)
        self.behave("listen")

    def behave(self, what: str) -> None:
        (self.state / "behaviour").write_text(what)

    def starts(self) -> list[int]:
        file = self.state / "starts"
        return [int(pid) for pid in file.read_text().split()] if file.exists() else []

    def seen(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.state / "seen").read_text())
        return found

    def close(self) -> None:
        for pid in self.starts():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, self.starts())))
        shutil.rmtree(self.directory)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    made = Place(Path(tempfile.mkdtemp(prefix="mcpd-", dir="/tmp")))
    monkeypatch.setenv("MCPD_STATE_DIR", str(made.state))
    monkeypatch.setenv("FAKE_MCPD", str(made.mcpd))
    monkeypatch.setattr(launch, "daemon_command", lambda: [sys.executable, str(made.mcpd)])
    yield made
    made.close()


def listen(path: str) -> socket.socket:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(1)
    return listener


def why(path: str) -> str:
    with pytest.raises(DaemonUnavailable) as caught:
        launch.connect(path, timeout=0.2)
    found: str = caught.value.details["why"]
    return found


def test_a_listener_of_ours_is_connected_to(place: Place) -> None:
    with listen(place.socket), launch.connect(place.socket) as connection:
        assert presence.peer_of(connection) == (os.getpid(), os.geteuid())


def test_each_silence_has_a_name(place: Place) -> None:
    assert why(place.socket) == "absent"
    listen(place.socket).close()
    assert why(place.socket) == "refused"
    os.unlink(place.socket)
    Path(place.socket).touch()
    assert why(place.socket) == "unusable"


def test_a_full_queue_is_no_reason_to_wait_for_ever(place: Place) -> None:
    """
    B114: a daemon that takes no connections is told from none.
    """
    with listen(place.socket), contextlib.ExitStack() as stack:
        for _ in range(2):  # what listen(1) has room for
            stack.enter_context(launch.connect(place.socket))
        assert why(place.socket) == "unresponsive"


def test_a_directory_that_is_a_link_is_refused(place: Place) -> None:
    with listen(place.socket):
        os.symlink(place.directory / "run", place.directory / "link")
        with pytest.raises(DaemonUnavailable) as caught:
            launch.connect(str(place.directory / "link" / "mcpd.sock"))
        assert caught.value.details["why"] == "exposed"
        assert caught.value.hint == f"rm {place.directory / 'link'}"


def test_a_directory_that_others_can_write_in_is_refused_unless_sticky(place: Place) -> None:
    """
    B118: whoever can write there can put a listener of their own in the daemon's place.
    """
    with listen(place.socket):
        os.chmod(place.directory / "run", 0o777)
        assert why(place.socket) == "exposed"
        os.chmod(place.directory / "run", 0o1777)
        launch.connect(place.socket).close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be a stranger")
def test_a_strangers_directory_and_a_strangers_listener_are_refused(place: Place) -> None:
    """
    B118: a name that anyone could have taken first.
    """
    with listen(place.socket):
        os.chown(place.directory / "run", 65534, 65534)
        with pytest.raises(DaemonUnavailable, match=r"not yours: .*/run belongs to 65534"):
            launch.connect(place.socket)
        os.chown(place.directory / "run", 0, 0)
    os.unlink(place.socket)
    listener = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import os, socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]);"
            "os.setuid(65534); s.listen(1); print('up', flush=True); sys.stdin.read()",
            place.socket,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with listener:
        assert listener.stdout
        assert listener.stdout.readline() == "up\n"
        with pytest.raises(DaemonUnavailable, match=r"not yours: .*sock belongs to 65534"):
            launch.connect(place.socket)


def test_a_daemon_is_started_detached(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMUX", "/tmp/tmux-0/default,1,0")
    monkeypatch.setenv("MCPD_INSTANCE", "d:s:1")
    monkeypatch.setenv("KEPT", "yes")
    told: list[str] = []
    leaked = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leaked, True)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    try:
        launch.reach(place.socket, socket.socket.close, config="some.toml", progress=told.append)
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
        os.close(leaked)
    seen = place.seen()
    assert told == ["starting mcpd"]
    assert seen["argv"] == ["--socket", place.socket, "--config", os.path.abspath("some.toml")]
    assert seen["cwd"] == "/"
    assert seen["sid"] == seen["pgid"] == seen["pid"]
    assert seen["blocked"] == 0
    assert not seen["ignored"] & 1 << signal.SIGHUP - 1
    log = str(place.state / "mcpd.log")
    inherited = {fd: target for fd, target in seen["fds"].items() if ".lock" not in target}
    assert inherited == {"0": "/dev/null", "1": "/dev/null", "2": log}
    assert seen["env"]["KEPT"] == "yes"
    assert {"TMUX", "MCPD_INSTANCE", "PWD", "PYTEST_CURRENT_TEST"}.isdisjoint(seen["env"])
    assert os.stat(log).st_mode & 0o777 == 0o600
    assert os.stat(os.path.dirname(place.socket)).st_mode & 0o777 == 0o700


def test_a_daemon_is_not_its_starters_child(place: Place) -> None:
    """
    A bridge may run inside a server, and what descends from a server is stopped with it.
    """
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = children.read_text()
    launch.reach(place.socket, socket.socket.close)
    assert children.read_text() == before  # nor is the process that waited for it


def test_a_daemon_that_runs_is_not_started_again(place: Place) -> None:
    launch.reach(place.socket, socket.socket.close)
    launch.reach(
        place.socket, socket.socket.close, progress=lambda _: pytest.fail("nothing to wait for")
    )
    assert len(place.starts()) == 1


def test_a_dead_daemons_socket_is_no_obstacle(place: Place) -> None:
    """
    B111: the new daemon replaces it; here the fake needs it gone.
    """
    listen(place.socket).close()
    os.unlink(place.socket)
    launch.reach(place.socket, socket.socket.close)
    assert len(place.starts()) == 1


def test_twenty_starters_start_one(place: Place) -> None:
    """
    B112: and all of them find it.
    """
    argv = [sys.executable, "-c", STARTER, place.socket]
    starters = [subprocess.Popen(argv, cwd=ROOT) for _ in range(20)]
    assert [starter.wait(60) for starter in starters] == [0] * 20
    assert len(place.starts()) == 1


def test_a_starter_that_is_killed_leaves_the_daemon_and_nothing_else(place: Place) -> None:
    place.behave("silent")
    argv = [sys.executable, "-c", STARTER, place.socket]
    with subprocess.Popen(argv, cwd=ROOT) as starter:
        wait_until((place.state / "seen").exists)
        (pid,) = place.starts()
        waiter = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        assert waiter not in (starter.pid, 1)
        starter.kill()
    wait_until(lambda: not is_alive(waiter))
    assert is_alive(pid)


def test_a_lost_race_is_waited_out(place: Place) -> None:
    """
    An ``mcpd`` that ends with 75 found a daemon that may not listen yet.
    """
    place.behave("exit 75")
    argv = [sys.executable, "-c", STARTER, place.socket]
    with subprocess.Popen(argv, cwd=ROOT) as starter:
        wait_until(place.starts)
        winner = listen(place.socket)
        assert starter.wait(10) == 0
    winner.close()


def test_a_daemon_on_its_way_out_is_succeeded(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "RETRY_S", 0.02)
    os.mkdir(os.path.dirname(place.socket), 0o700)
    with open(paths.lock_path(place.socket), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        argv = [sys.executable, "-c", STARTER, place.socket]
        with subprocess.Popen(argv, cwd=ROOT) as starter:
            wait_until(lambda: len(place.starts()) > 1)
            fcntl.flock(lock, fcntl.LOCK_UN)
            assert starter.wait(10) == 0


def test_a_daemon_that_cannot_start_says_why_at_once(place: Place) -> None:
    place.behave("exit 2")
    (place.state / "mcpd.log").write_text("a line of yesterday\n")
    began = time.monotonic()
    with pytest.raises(DaemonUnavailable, match="ended with 2") as caught:
        launch.reach(place.socket, socket.socket.close)
    assert time.monotonic() - began < 5
    assert caught.value.message.endswith("\n  scripted complaint")
    assert "yesterday" not in caught.value.message
    assert caught.value.details["why"] == "start_failed"


@pytest.mark.parametrize(("code", "helps"), [(78, True), (73, False), (2, False)])
def test_the_configuration_is_to_be_checked_where_it_is_to_blame(
    place: Place, code: int, helps: bool
) -> None:
    place.behave(f"exit {code}")
    with (
        pytest.raises(DaemonUnavailable) as caught,
        launch.Search(place.socket, config="/etc/a b.json") as search,
    ):
        search.reach(socket.socket.close)
    command = "mcpd --config '/etc/a b.json' --check"
    assert caught.value.hint == (command if helps else None)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("mcpctl up", "mcpctl --socket '/a b' up"),
        (
            "mcpctl down --force, then: `mcpctl up`",
            "mcpctl --socket '/a b' down --force, then: `mcpctl --socket '/a b' up`",
        ),
        ("run it: mcpd --log-level debug", "run it: mcpd --socket '/a b' --log-level debug"),
        ("mcpd --check", "mcpd --check"),
        ("mcpctl --socket /c down", "mcpctl --socket /c down"),
        ("this is mcpctl 1.0", "this is mcpctl 1.0"),
    ],
)
def test_commands_go_to_the_socket_that_was_named(text: str, told: str) -> None:
    assert launch.addressed(text, "/a b") == told
    assert launch.addressed(text, None) == text


def test_the_command_that_checks_names_the_file_that_is_read_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MCPD_CONFIG", raising=False)
    assert launch.check_command(None) == "mcpd --check"
    monkeypatch.setenv("MCPD_CONFIG", "/etc/a.json")
    assert launch.check_command(None) == "mcpd --config /etc/a.json --check"
    assert launch.check_command("/b.toml") == "mcpd --config /b.toml --check"


def test_where_nothing_can_be_made_the_way_to_another_place_is_told(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DaemonUnavailable, match="cannot make") as caught:
        launch.reach("/proc/none/mcpd.sock", socket.socket.close)
    assert "--socket" in str(caught.value.hint)
    monkeypatch.setenv("MCPD_STATE_DIR", "/proc/none")
    with pytest.raises(DaemonUnavailable, match="cannot make") as caught:
        launch.reach(place.socket, socket.socket.close)
    assert str(caught.value.hint).endswith(": MCPD_STATE_DIR")


def test_a_program_that_cannot_be_run_is_named(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "daemon_command", lambda: ["/nonexistent/mcpd"])
    with pytest.raises(DaemonUnavailable, match=r"cannot run /nonexistent/mcpd: No such file"):
        launch.reach(place.socket, socket.socket.close)


def test_a_daemon_that_never_listens_is_not_waited_for_for_ever(place: Place) -> None:
    place.behave("silent")
    with pytest.raises(DaemonUnavailable, match=r"within 0\.3 s") as caught:
        launch.reach(place.socket, socket.socket.close, timeout=0.3)
    assert caught.value.details["why"] == "start_timeout"
    assert str(place.state / "mcpd.log") in caught.value.message


def test_a_daemon_that_has_lost_its_socket_is_named(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    B114: it keeps every other one from starting, whatever is tried.
    """
    place.behave("silent")
    monkeypatch.setattr(presence, "pid_in_lock", lambda _: place.seen()["pid"])
    told = r"holds the lock .*, but its socket .*/mcpd\.sock is not there$"
    with pytest.raises(DaemonUnavailable, match=told) as caught:
        launch.reach(place.socket, socket.socket.close, timeout=1.0)
    assert caught.value.details["pid"] == place.starts()[0]
    assert "mcpctl down --force" in str(caught.value.hint)
    with pytest.raises(DaemonUnavailable, match=told) as caught:
        launch.reach(place.socket, socket.socket.close, is_to_start=False)
    assert caught.value.details["why"] == "no_socket"
    os.kill(place.starts()[0], signal.SIGKILL)
    wait_until(lambda: not is_alive(place.starts()[0]))
    with pytest.raises(DaemonUnavailable, match="no daemon runs"):
        launch.reach(place.socket, socket.socket.close, is_to_start=False)


def test_a_start_that_cannot_be_made_leaves_no_descriptor(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A session tries again and again, for as long as there is no process to be had.
    """

    def no_process() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", no_process)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with launch.Search(place.socket) as search, pytest.raises(BlockingIOError):
            search.look()
    assert len(os.listdir("/proc/self/fd")) == before


def test_one_that_hangs_up_is_borne_for_a_while(place: Place) -> None:
    """
    It may be on its way out, with another about to take its place.
    """
    greeted: list[float] = []

    def greet(connection: socket.socket) -> str:
        connection.close()
        greeted.append(time.monotonic())
        if len(greeted) < 3:
            raise DaemonUnavailable("the daemon hung up", why="gone")
        return "hello"

    assert launch.reach(place.socket, greet) == "hello"
    assert len(greeted) == 3
    assert greeted[2] - greeted[1] >= launch.HUNG_UP_PAUSE_S


@pytest.mark.parametrize(
    ("why", "is_to_start", "is_borne"),
    [("gone", True, True), ("gone", False, False), ("incompatible", True, False)],
)
def test_what_a_greeting_comes_to_is_said(
    place: Place, why: str, is_to_start: bool, is_borne: bool
) -> None:
    launch.reach(place.socket, socket.socket.close)  # there is one
    began = time.monotonic()

    def greet(connection: socket.socket) -> None:
        connection.close()
        raise DaemonUnavailable("no good", why=why)

    with pytest.raises(DaemonUnavailable, match="no good"):
        launch.reach(place.socket, greet, is_to_start=is_to_start, timeout=0.5)
    assert (time.monotonic() - began >= 0.5) == is_borne


@pytest.mark.parametrize("name", ["run/mcpd.sock.start", "state/mcpd.log"])
def test_what_is_written_is_never_reached_through_a_link(place: Place, name: str) -> None:
    """
    B118: a planted link must not make us write into somebody's file.
    """
    os.mkdir(place.directory / "run", 0o700)
    target = place.directory / "precious"
    target.touch()
    os.symlink(target, place.directory / name)
    with pytest.raises(DaemonUnavailable, match="cannot open"):
        launch.reach(place.socket, socket.socket.close)
    assert target.read_text() == ""
    assert place.starts() == []


def test_what_a_service_manager_means_for_the_daemon_tells_no_servers_apart() -> None:
    assert all(map(launch.is_ephemeral, (*notify.MANAGERS, *activation.VARIABLES)))


@pytest.mark.parametrize("above", ["dangling/mcpd", "/proc/none/mcpd"])
def test_a_directory_that_cannot_be_made_is_told(place: Place, above: str) -> None:
    """
    A home on a disk that is not there, for one.
    """
    os.symlink("/nowhere/at/all", place.directory / "dangling")
    with pytest.raises(DaemonUnavailable, match="cannot make"):
        launch.make_private(str(place.directory / above), "--socket")


def test_relative_paths_of_the_environment_become_absolute() -> None:
    clean = launch.clean_environment({"MCPD_CONFIG": "x.toml", "MCPD_STATE_DIR": ""})
    assert clean == {"MCPD_CONFIG": os.path.abspath("x.toml"), "MCPD_STATE_DIR": ""}


@pytest.mark.parametrize(
    "name", ["TERM", "TERM_PROGRAM", "TMUX", "SSH_TTY", "_", "VSCODE_PID", "LISTEN_FDS"]
)
def test_what_belongs_to_one_terminal_is_ephemeral(name: str) -> None:
    assert launch.is_ephemeral(name)


@pytest.mark.parametrize("name", ["PATH", "HOME", "SSH_AUTH_SOCK", "TERMS", "LANG", "MCPD_SOCKET"])
def test_what_servers_may_need_is_kept(name: str) -> None:
    """
    B031, B032: a server sees the environment that a shell's would.
    """
    assert not launch.is_ephemeral(name)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
def test_root_makes_nothing_in_somebody_elses_directory(tmp_path: Path):
    """B118: `sudo mcpctl` with a user's XDG_RUNTIME_DIR."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    with pytest.raises(DaemonUnavailable, match="65534"):
        launch.make_private(str(theirs / "mcpd"), "--socket")
    assert list(theirs.iterdir()) == []
