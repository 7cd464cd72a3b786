"""The units under a real manager of the user, in a mount namespace where systemd may be one.

It wants a machine that was booted with systemd, which is to say ``/run/systemd/system``: there is
one in the namespace alone. Skipped where no namespace may be made, or there is no systemd.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Box, Json, Peer, binary
from tests.support.waiting import scaled, wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]

SYSTEMD = Path("/usr/lib/systemd/systemd")

CGROUPS = Path("/sys/fs/cgroup")

MANAGER = """
mount -t tmpfs tmpfs /run/systemd && mkdir /run/systemd/system || exit
for root in /sys/fs/cgroup /sys/fs/cgroup/*; do
    case $root in */cpuset | */freezer) continue ;; esac  # of no interest to systemd
    test -e "$root/cgroup.procs" || continue
    mkdir "$root/$1" && echo $$ >"$root/$1/cgroup.procs" || exit
done
exec "$0" --user --unit=basic.target
"""
"""What is in the control group that it starts in, a manager takes for its own and moves: so it gets
one of its own in each hierarchy, and is not started without."""

QUICK = "[Service]\nWatchdogSec=2\n"


class Login:
    """A user's session, as far as services are concerned."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.group = f"mcpd-{box.tag}"
        for name in ("MCPD_CONFIG", "MCPD_SOCKET"):
            del box.env[name]
        box.socket = box.root / "run" / "mcpd" / "mcpd.sock"
        box.config = box.root / "conf" / "mcpd" / "mcp.json"
        box.config.parent.mkdir()
        with box.log.open("ab") as log:
            argv = ["unshare", "--mount", "sh", "-c", MANAGER, str(SYSTEMD), self.group]
            self.manager = box._start(argv, stdout=log, stderr=log)

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a command where the manager is."""
        return subprocess.run(
            ["nsenter", f"--target={self.manager.pid}", "--mount", *argv],
            env=self.box.env,
            capture_output=True,
            text=True,
            timeout=scaled(100),
            check=False,
        )

    def is_up(self) -> bool:
        if self.manager.poll() is not None:
            pytest.skip(f"systemd does not run here: {self.box.tail()}")
        return self.run("systemctl", "--user", "is-system-running").stdout == "running\n"

    def service(self, *args: str) -> subprocess.CompletedProcess[str]:
        return self.run(binary("mcpctl"), "service", *args)

    def status(self) -> Json:
        told: Json = json.loads(self.service("status", "--json").stdout)
        return told

    def members(self) -> list[int]:
        """Return who is in the service's control group."""
        told = self.run("systemctl", "--user", "show", "mcpd.service", "-p", "ControlGroup")
        group = told.stdout.strip().partition("=")[2]
        found = []
        for root in ("", "systemd", "unified"):
            file = Path(CGROUPS, root, group.strip("/"), "cgroup.procs")
            if group and file.exists():
                found += [int(pid) for pid in file.read_text().split()]
        return found

    def remove_groups(self) -> None:
        for root in (CGROUPS, *CGROUPS.iterdir()):
            for folder, _, _ in os.walk(root / self.group, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)

    def pid(self) -> int:
        with Peer.dial(self.box.socket) as peer:
            pid: int = peer.request("mcpd/hello", timeout=20)["pid"]
            return pid


@pytest.fixture
def login(box: Box) -> Iterator[Login]:
    if not SYSTEMD.exists() or not all(map(shutil.which, ("unshare", "nsenter", "systemctl"))):
        pytest.skip(f"there is no {SYSTEMD}, unshare, nsenter or systemctl")
    made = Login(box)
    wait_until(made.is_up, 20, what=box.tail)
    box.fake("tree", "--setsid-child", "--group-child", stop_grace=0.3).write()
    yield made
    made.service("uninstall", "--force")
    made.manager.terminate()
    made.manager.wait(scaled(20))
    box.close()
    made.remove_groups()


def start_tree(login: Login) -> list[int]:
    with Peer.dial(login.box.socket) as peer:
        peer.request("mcpd/start", {"servers": ["tree"]}, 30)
    members = login.members()
    assert len(members) >= 5  # the daemon, its guardian, and three of the server's
    return members


def test_the_service_is_installed_killed_stopped_and_gone(login: Login):
    """B150, B151: in the order in which a life may go."""
    done = login.service("install")
    assert done.returncode == 0, done.stderr
    first = login.pid()
    status = login.status()
    assert (status["active"], status["enabled"], status["pid"]) == (True, True, first)
    inode = login.box.socket.stat().st_ino
    start_tree(login)
    os.kill(first, signal.SIGKILL)
    with login.box.session("tree"):  # who comes now waits, and is not refused
        second = login.pid()
    assert second != first
    wait_until(lambda: set(login.box.pids("tree")[:3]).isdisjoint(login.members()), 10)
    members = start_tree(login)
    assert login.run("systemctl", "--user", "stop", "mcpd.service").returncode == 0
    assert login.members() == []
    assert set(members).isdisjoint(login.box.survivors())
    assert login.box.socket.stat().st_ino == inode
    assert login.pid() not in (first, second)  # the socket is listened on, and that starts it
    for _ in range(3):
        before = login.pid()
        assert login.service("restart").returncode == 0
        assert login.pid() != before
    before = login.pid()
    assert login.run(binary("mcpctl"), "restart", "--daemon").returncode == 0
    assert login.status()["pid"] == login.pid() != before
    assert login.run("systemctl", "--user", "reload", "mcpd.service").returncode == 0
    done = login.service("uninstall")
    assert done.returncode == 0, done.stderr
    assert login.members() == []
    assert not list((login.box.root / "conf" / "systemd" / "user").glob("mcpd*"))


def test_a_daemon_that_cannot_start_is_not_started_for_ever(login: Login):
    """B152."""
    login.box.config.write_text("{")
    done = login.service("install")
    assert done.returncode == 3
    assert "mcpctl service status" in done.stderr
    status = login.status()
    assert (status["active"], status["last_exit"], status["restarts"]) == (False, 78, 0)
    assert "mcpctl service logs" in status["explanation"][0]
    login.box.write()
    assert login.service("restart").returncode == 0
    assert login.pid() == login.status()["pid"]


def test_a_daemon_that_gives_no_sign_of_life_is_replaced(login: Login):
    more = login.box.root / "conf" / "systemd" / "user" / "mcpd.service.d" / "quick.conf"
    more.parent.mkdir(parents=True)
    more.write_text(QUICK)
    assert login.service("install").returncode == 0
    first = login.pid()
    os.kill(first, signal.SIGSTOP)
    wait_until(lambda: login.status()["pid"] not in (first, None), 30, what=login.box.tail)
    assert login.pid() != first
