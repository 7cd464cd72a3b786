"""Under a service manager: what it is told, and a socket that is not ours."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.ground import children_of, tree
from tests.support.daemon import Box, Peer, binary
from tests.support.manager import Manager
from tests.support.waiting import scaled, wait_until


@pytest.fixture
def manager(box: Box) -> Iterator[Manager]:
    box.write()
    made = Manager(box)
    try:
        yield made
    finally:
        box.close()
        made.close()


def environment_of(pid: int) -> set[str]:
    pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return {pair.partition(b"=")[0].decode() for pair in pairs}


def pid_of(box: Box) -> int:
    with Peer.dial(box.socket) as peer:
        pid: int = peer.request("mcpd/hello", timeout=20)["pid"]
        return pid


def test_it_is_ready_when_it_listens_and_says_when_it_ends(manager: Manager):
    """B151: a manager that is told too early lets clients in who find nobody."""
    process = manager.start()
    status = manager.wait_for("READY")
    assert status == ["1"]
    assert pid_of(manager.box) == process.pid
    assert manager.lines("MAINPID") == [str(process.pid)]
    assert manager.lines("STATUS") == ["0 servers: none runs; 0 sessions"]
    assert manager.box.down() == 0
    assert manager.lines("STOPPING") == ["1"]
    assert manager.lines("STATUS")[-1] == "stopping: SIGTERM"
    assert int(manager.lines("EXTEND_TIMEOUT_USEC")[0]) > 5e6


def test_a_name_that_is_in_no_directory_is_told_too(manager: Manager):
    name = f"mcpd-test-{os.getpid()}-{manager.box.tag}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hears:
        hears.bind(f"\0{name}")
        hears.settimeout(scaled(20))
        manager.start(notify=f"@{name}")
        assert hears.recv(4096).startswith(b"READY=1\n")


def test_the_status_follows_what_happens(manager: Manager):
    """
    And costs nothing where nothing does: there is no other message in between.
    """
    manager.box.fake("good").fake("bad", "--crash-at-start", "3", restart={"policy": "never"})
    manager.box.fake("idle").write()
    manager.start()
    manager.wait_for("READY")
    session = manager.box.session("good")
    wait_until(lambda: "3 servers: 1 ready; 1 session" in manager.lines("STATUS"), 10)
    before = len(manager.heard)
    time.sleep(0.3)
    assert len(manager.heard) == before
    session.close()
    manager.box.ctl("stop", "good")
    wait_until(lambda: manager.lines("STATUS")[-1] == "3 servers: none runs; 0 sessions", 10)


def test_a_reload_is_told_and_its_end_too(manager: Manager):
    process = manager.start()
    manager.wait_for("READY")
    for _ in range(2):
        before = len(manager.lines("READY"))
        process.send_signal(signal.SIGHUP)
        manager.wait_for("READY", before + 1)
    assert len(manager.lines("RELOADING")) == 2
    stamps = [int(text) / 1e6 for text in manager.lines("MONOTONIC_USEC")]
    assert all(0 <= time.monotonic() - stamp < scaled(60) for stamp in stamps)


def test_a_sign_of_life_comes_as_often_as_is_wanted_and_only_from_a_loop_that_turns(
    manager: Manager,
):
    process = manager.start(WATCHDOG_USEC="400000")
    manager.wait_for("WATCHDOG", 5)
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.5)
    before = len(manager.lines("WATCHDOG"))
    time.sleep(0.5)
    assert len(manager.lines("WATCHDOG")) == before
    process.send_signal(signal.SIGCONT)
    manager.wait_for("WATCHDOG", before + 1)


def test_a_watchdog_of_another_process_is_none(manager: Manager):
    process = manager.start("--version", WATCHDOG_USEC="100000")
    process.wait()
    assert not manager.heard
    with manager.box.log.open("ab") as log:
        env = manager.box.env | {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "100000"}
        manager.box.daemon = manager.box._start(
            ["env", *(f"{k}={v}" for k, v in env.items()), "WATCHDOG_PID=1", binary("mcpd")],
            stdout=log,
            stderr=log,
        )
    manager.wait_for("READY")
    pid_of(manager.box)
    assert not manager.lines("WATCHDOG")


def test_servers_are_not_told_of_the_manager(manager: Manager):
    """
    A server that says READY, or that takes our socket, would be taken for the daemon.
    """
    manager.listen().box.fake().write()
    manager.start(
        WATCHDOG_USEC="9000000", LISTEN_FDNAMES="mcpd", INVOCATION_ID="x", MCPD_SERVICE="launchd"
    )
    manager.wait_for("READY")
    server = int(manager.box.session().text("pid"))
    theirs = environment_of(server)
    assert not {n for n in theirs if n.startswith(("LISTEN_", "WATCHDOG_", "NOTIFY_", "MCPD_SERV"))}
    assert "INVOCATION_ID" not in theirs
    for pid in [server, *children_of(manager.box.daemon.pid if manager.box.daemon else 0)]:
        targets = [os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()]
        assert not [target for target in targets if target.startswith("socket:")], pid


def test_a_socket_that_was_passed_is_used_and_stays(manager: Manager):
    """B151: it is the manager's, which would not make it anew: the service would be out of reach."""
    manager.listen()
    for _ in range(2):
        process = manager.start()
        manager.wait_for("READY")
        manager.heard.clear()
        assert pid_of(manager.box) == process.pid
        status = manager.box.ctl("status", "--json")
        assert f'"{manager.box.socket}"' in status.stdout
        assert manager.box.down() == 0
        assert manager.box.socket.stat().st_ino == manager.inode
    process = manager.start()
    manager.wait_for("READY")
    manager.box.down(signal.SIGKILL)
    assert manager.box.socket.stat().st_ino == manager.inode
    with Peer.dial(manager.box.socket) as early:  # nobody runs, and whoever comes waits
        asked = early.start("mcpd/hello")
        process = manager.start()
        assert early.finish(asked, 20)["pid"] == process.pid


def test_its_path_is_the_sockets_whatever_the_options_say(manager: Manager):
    manager.listen()
    elsewhere = manager.box.root / "run" / "other.sock"
    manager.start("--socket", str(elsewhere))
    manager.wait_for("READY")
    assert not elsewhere.exists()
    wait_until(lambda: f"socket={manager.box.socket}" in manager.box.tail())


def test_two_under_one_manager_are_still_one(manager: Manager):
    """B151: the lock decides, whoever made the socket."""
    manager.listen()
    manager.start()
    manager.wait_for("READY")
    first = manager.box.daemon
    second = manager.start()
    assert second.wait(scaled(20)) == 75
    assert first
    assert pid_of(manager.box) == first.pid
    manager.box.daemon = first


def test_without_a_socket_of_the_managers_it_makes_its_own(manager: Manager):
    """B151: and takes it away again."""
    manager.start()
    manager.wait_for("READY")
    assert manager.box.socket.exists()
    assert manager.box.down() == 0
    assert not manager.box.socket.exists()


def test_a_stuck_daemon_is_told_from_the_manager_that_listens(manager: Manager):
    """
    Else ``down --force`` would look at the wrong process, and leave it alone.
    """
    manager.listen()
    process = manager.start()
    manager.wait_for("READY")
    process.send_signal(signal.SIGSTOP)
    done = manager.box.ctl("status")
    assert done.returncode == 3
    assert f"pid {process.pid}" in done.stderr
    assert manager.box.ctl("down", "--force").returncode == 0
    assert process.wait(scaled(20)) is not None
    assert manager.box.socket.stat().st_ino == manager.inode


def make(kind: str) -> tuple[socket.socket, ...]:
    """Return descriptors that are not what they should be."""
    match kind:
        case "datagrams":
            return (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),)
        case "a network":
            listens = socket.socket()
            listens.listen()
            return (listens,)
        case "not listening":
            return (socket.socket(socket.AF_UNIX),)
        case "a connection":
            return socket.socketpair()
        case _:
            abstract = socket.socket(socket.AF_UNIX)
            abstract.bind(f"\0mcpd-test-{os.getpid()}")
            abstract.listen()
            return (abstract,)


@pytest.mark.parametrize(
    "kind", ["datagrams", "a network", "not listening", "a connection", "a name without a path"]
)
def test_what_cannot_be_listened_on_is_refused_with_the_reason(manager: Manager, kind: str):
    made = make(kind)
    try:
        process = manager.start(fds=[each.fileno() for each in made])
        assert process.wait(scaled(20)) == 73
    finally:
        for each in made:
            each.close()
    assert "the service manager passed no socket" in manager.box.tail()
    assert "ListenStream" in manager.box.tail()


def test_of_several_descriptors_the_right_one_is_taken_and_the_rest_closed(manager: Manager):
    manager.listen()
    (odd,) = make("datagrams")
    with odd:
        assert manager._listener
        process = manager.start(fds=[odd.fileno(), manager._listener.fileno()])
        manager.wait_for("READY")
        inode = os.fstat(odd.fileno()).st_ino
        fds = [os.readlink(each) for each in Path(f"/proc/{process.pid}/fd").iterdir()]
        assert f"socket:[{inode}]" not in fds
        assert pid_of(manager.box) == process.pid


def test_a_configuration_that_cannot_be_read_has_a_status_of_its_own(manager: Manager):
    """B152: nothing is told to be ready, and the manager knows that a new start is of no use."""
    manager.box.config.write_text("{")
    process = manager.start()
    assert process.wait(scaled(20)) == 78
    assert not manager.lines("READY")


def test_a_manager_that_never_stops_starting_is_told_to_after_some_failures(manager: Manager):
    """B152: launchd has no list of statuses that are final, but stops at 0."""
    manager.box.config.write_text("{")
    statuses = [manager.start(MCPD_SERVICE="launchd").wait(scaled(20)) for _ in range(6)]
    assert statuses == [78, 78, 78, 78, 0, 0]
    assert "ending with 0" in manager.box.tail()
    manager.box.write()
    process = manager.start(MCPD_SERVICE="launchd")
    manager.wait_for("READY")
    assert pid_of(manager.box) == process.pid


def test_another_daemon_is_a_reason_too(manager: Manager):
    """B152: and where failures cannot be counted there is no second one."""
    manager.box.up()
    first = manager.box.daemon
    assert manager.start(MCPD_SERVICE="launchd").wait(scaled(20)) == 75
    (manager.box.state / "service.failures").unlink()
    (manager.box.state / "service.failures").mkdir()
    assert manager.start(MCPD_SERVICE="launchd").wait(scaled(20)) == 0
    manager.box.daemon = first


def test_a_manager_that_is_gone_is_no_trouble(manager: Manager):
    process = manager.start(notify="/nowhere/notify", WATCHDOG_USEC="100000")
    wait_until(manager.box.says_hello, 20)
    assert manager.box.down() == 0
    assert process.returncode == 0


def test_a_unit_that_runs_a_shell_is_told_why_it_cannot_be(manager: Manager):
    """
    The descriptors are for the shell then, and the socket is somebody's who does not answer.
    """
    manager.listen()
    env = manager.box.env | {"LISTEN_FDS": "1", "LISTEN_PID": "1"}
    done = subprocess.run(
        [binary("mcpd")], env=env, capture_output=True, text=True, timeout=scaled(20), check=False
    )
    assert done.returncode == 75
    assert "without holding its lock" in done.stderr
    assert manager.box.socket.stat().st_ino == manager.inode


CGROUPS = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))


@pytest.fixture
def cgroup(box: Box) -> Iterator[Path]:
    """A control group of its own, as a service has."""
    made = next(filter(None, (make_cgroup(parent / f"mcpd-{box.tag}") for parent in CGROUPS)), None)
    if made is None:
        pytest.skip(f"no control group can be made in {' or '.join(map(str, CGROUPS))}")
    yield made
    box.close()
    wait_until(lambda: not members(made))
    made.rmdir()


def make_cgroup(path: Path) -> Path | None:
    try:
        path.mkdir()
    except OSError:
        return None
    if (path / "cgroup.procs").exists():
        return path
    path.rmdir()
    return None


def members(cgroup: Path) -> list[int]:
    return [int(pid) for pid in (cgroup / "cgroup.procs").read_text().split()]


def test_nothing_is_left_in_the_control_group(cgroup: Path, manager: Manager):
    """B150: not after a stop, which signals the daemon alone; and after its death nothing of the
    daemon's stands in the way of the next one."""
    manager.box.fake("tree", "--setsid-child", "--group-child", "--ignore-eof", stop_grace=0.3)
    manager.box.write()
    for number in range(3):
        process = manager.start()
        (cgroup / "cgroup.procs").write_text(str(process.pid))
        manager.wait_for("READY", number + 1)
        tree(manager.box, "tree")
        assert len(members(cgroup)) >= 5  # the daemon, its guardian, and three of the server's
        if number == 1:  # what KillMode=mixed does after the main process
            manager.box.down(signal.SIGKILL)
            for pid in members(cgroup):
                os.kill(pid, signal.SIGKILL)
        else:
            assert manager.box.down() == 0
        wait_until(lambda: not members(cgroup), 5, what=lambda: f"{manager.box.survivors()}")
