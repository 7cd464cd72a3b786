"""Servers in containers: children of a daemon that is not ours, and stopped all the same."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.ground import children_of
from tests.support.daemon import FAKE_SERVER, TAG, Box, Peer, is_alive
from tests.support.fakedocker import FakeDocker
from tests.support.waiting import wait_until

GRACE = 0.3


class Harbour:
    """A box whose servers run in the containers of a fake engine."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.docker = FakeDocker(box.root / "docker", keep={TAG: box.tag})
        box.env["PATH"] = self.docker.path()

    def server(self, name: str, *flags: str, options: tuple[str, ...] = (), **entry: Any) -> None:
        """Add a server that runs in a container."""
        program = [sys.executable, "-IS", str(FAKE_SERVER), "--name", name, *flags]
        args = ["run", "-i", "--rm", *options, "img", *program]
        self.box.servers[name] = {
            "command": "docker", "args": args, "stop_grace": GRACE, "era": "legacy", **entry,
        }  # fmt: skip

    def start(self, *names: str) -> list[int]:
        """Start servers and return the pids of all containers that run then."""
        with self.box.peer() as peer:
            peer.request("mcpd/start", {"servers": list(names)}, 30)
        return [each["pid"] for each in self.docker.running()]

    def wait_gone(self, pids: list[int], timeout: float = 10) -> None:
        wait_until(
            lambda: not any(map(is_alive, pids)) and not self.docker.running(),
            timeout,
            what=lambda: f"the end of {self.docker.running()}; {self.docker.calls()}",
        )


@pytest.fixture
def harbour(box: Box) -> Iterator[Harbour]:
    made = Harbour(box)
    try:
        yield made
    finally:
        box.close()
        made.docker.close()


def stop(box: Box, peer: Peer) -> None:
    peer.request("mcpd/stop", {"servers": ["boxed"]}, 30)


def restart(box: Box, peer: Peer) -> None:
    peer.request("mcpd/restart", {"servers": ["boxed"]}, 30)


def change(box: Box, peer: Peer) -> None:
    box.servers["boxed"]["args"].append("--stderr=1")
    box.write()
    peer.request("mcpd/reload", {}, 30)


def let_be_idle(box: Box, peer: Peer) -> None:
    box.servers["boxed"]["idle_timeout"] = 0.2
    box.write()
    peer.request("mcpd/reload", {}, 30)


def end_daemon(box: Box, peer: Peer) -> None:
    assert box.down() == 0


def kill_daemon(box: Box, peer: Peer) -> None:
    box.down(signal.SIGKILL)


WAYS = [stop, restart, change, let_be_idle, end_daemon, kill_daemon]


@pytest.mark.parametrize("flags", [(), ("--ignore-eof", "--ignore-term")], ids=["polite", "deaf"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_however_a_server_ends_its_container_ends_too(
    harbour: Harbour, way: Callable[[Box, Peer], None], flags: tuple[str, ...]
):
    """B008: ``docker run`` can be ended by any signal, and what it started lives on."""
    harbour.server("boxed", *flags)
    harbour.box.up()
    first = harbour.start("boxed")
    assert len(first) == 1
    way(harbour.box, harbour.box.peer())
    wait_until(lambda: not any(map(is_alive, first)), 10, what=lambda: f"{harbour.docker.calls()}")
    if way in (stop, end_daemon, kill_daemon):
        harbour.wait_gone(first)
        wait_until(lambda: os.listdir(harbour.box.state / "containers") == [], 10)


def test_one_whose_client_is_killed_is_gone_before_the_next_one_runs(harbour: Harbour):
    """B008: a crash of ``docker run`` is not the end of the container."""
    harbour.server("boxed", "--ignore-eof", "--ignore-term", restart={"backoff": 0.01})
    harbour.box.up()
    (first,) = harbour.start("boxed")
    os.kill(harbour.box.status("boxed")["pid"], signal.SIGKILL)
    with harbour.box.session("boxed") as session:
        session.text("pid")
    assert not is_alive(first)
    assert len(harbour.docker.running()) == 1


def test_the_next_daemon_ends_what_is_left_before_it_starts_anything(harbour: Harbour):
    """B008: daemon and guardian are both killed, and nobody of ours is there any more."""
    harbour.server("boxed", "--ignore-eof", "--ignore-term", start="eager")
    harbour.box.up()
    containers = harbour.start("boxed")
    assert harbour.box.daemon
    daemon = harbour.box.daemon.pid
    os.kill(daemon, signal.SIGSTOP)
    for pid in children_of(daemon):
        os.kill(pid, signal.SIGKILL)
    harbour.box.down(signal.SIGKILL)
    assert [each["pid"] for each in harbour.docker.running()] == containers
    harbour.box.up()
    wait_until(lambda: len(harbour.docker.containers()) == 2, 10)
    assert not any(map(is_alive, containers))
    assert " containers=1" in harbour.box.tail()


def test_two_daemons_never_end_each_others_containers(harbour: Harbour):
    """B008: both call their container by the same name, and one is refused for it."""
    other = Box()
    try:
        other.env["PATH"] = harbour.docker.path()
        harbour.server("boxed", options=("--name", "mine"))
        other.servers["boxed"] = harbour.box.servers["boxed"]
        harbour.box.up()
        containers = harbour.start("boxed")
        other.up()
        assert other.ctl("start", "boxed").returncode != 0
        assert other.ctl("stop", "boxed").returncode == 0
        other.down(signal.SIGKILL)
        other.up()
        assert other.down() == 0
        assert [each["pid"] for each in harbour.docker.running()] == containers
        assert all(map(is_alive, containers))
    finally:
        other.close()


def test_a_stop_while_the_image_is_on_its_way_is_the_end_of_it(harbour: Harbour):
    """
    There is no container yet, nor is there one later.
    """
    (harbour.docker.root / "pull").touch()
    harbour.server("boxed")
    harbour.box.up()
    with harbour.box.peer() as peer:
        peer.start("mcpd/start", {"servers": ["boxed"]})
        wait_until(lambda: harbour.docker.calls("run"))
        stop(harbour.box, peer)
    (harbour.docker.root / "pull").unlink()
    assert not harbour.docker.containers()


def test_an_engine_that_hangs_delays_a_stop_and_is_told(harbour: Harbour):
    """
    It must not hang for ever; the next daemon tries again.
    """
    harbour.server("boxed", "--ignore-eof", "--ignore-term")
    harbour.box.up()
    containers = harbour.start("boxed")
    (harbour.docker.root / "hang").touch()
    with harbour.box.peer() as peer:
        stop(harbour.box, peer)
        assert all(map(is_alive, containers))
    assert "its container may run on" in harbour.box.tail()
    (harbour.docker.root / "hang").unlink()
    assert harbour.box.down() == 0
    harbour.box.up()
    harbour.wait_gone(containers)


def test_what_a_container_is_told_stands_in_no_command_line(harbour: Harbour):
    """B140: ``-e NAME`` passes a variable on without its value being for everybody to read."""
    secret = "sesame-3f9c1d"
    harbour.server("boxed", options=("-e", "TOKEN"), env={"TOKEN": secret})
    harbour.box.up()
    harbour.start("boxed")
    with harbour.box.session("boxed") as session:
        assert session.text("env", name="TOKEN") == secret
    assert secret not in str(harbour.docker.calls())
    for file in harbour.box.state.rglob("*"):
        assert not file.is_file() or secret.encode() not in file.read_bytes(), file
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert secret.encode() not in entry.read_bytes()
        except OSError:
            continue


def test_without_rm_it_is_stopped_and_stays_as_its_owner_wants(harbour: Harbour):
    """B009: nothing is written into a command line that says what is to be kept."""
    harbour.server("boxed")
    harbour.box.servers["boxed"]["args"].remove("--rm")
    harbour.box.up()
    containers = harbour.start("boxed")
    with harbour.box.peer() as peer:
        stop(harbour.box, peer)
    harbour.wait_gone(containers)
    (call,) = harbour.docker.calls("run")
    assert "--rm" not in call
    assert [each["state"] for each in harbour.docker.containers()] == ["exited"]
