"""Sockets, locks and processes as they are found."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from mcpd.doctor.probe import place
from tests.support.waiting import wait_until


def test_what_stands_at_a_path(tmp_path: Path) -> None:
    (tmp_path / "f").touch(mode=0o640)
    (tmp_path / "l").symlink_to("f")
    os.mkfifo(tmp_path / "p")
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(tmp_path)
        listener.bind("s")
        kinds = {name: place.node(str(tmp_path / name)).kind for name in ("f", "l", "p", "s", "x")}
    assert kinds == {"f": "file", "l": "link", "p": "other", "s": "socket", "x": "absent"}
    assert place.node(str(tmp_path / "f")).mode & 0o700 == 0o600


def test_a_process_is_seen_from_outside() -> None:
    argv = [sys.executable, "-c", "input()"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, env={"A": "b=c"}) as child:
        wait_until(lambda: place.environment(child.pid) == {"A": "b=c"})  # it is being started
        child.send_signal(signal.SIGSTOP)
        wait_until(lambda: place.daemon(child.pid).state == "T")
        seen = place.daemon(child.pid)
        assert seen.nofile and seen.nofile[0] > 0
        assert seen.open_fds and seen.open_fds >= 3
        child.kill()
    assert place.daemon(child.pid).state is None
    assert place.environment(child.pid) is None


def test_the_option_of_a_command_line() -> None:
    assert place.config_option(["mcpd", "--socket", "s", "--config", "c"]) == "c"
    assert place.config_option(["mcpd", "--config=c"]) == "c"
    assert place.config_option(["mcpd", "--config"]) is None


def test_the_socket_before_it_was_shortened() -> None:
    """
    B117: to be told beside the one that is used.
    """
    long = "/" + "x" * 200
    assert place.wanted_path(long, {}) == long
    assert place.wanted_path(None, {"MCPD_SOCKET": long}) == long
    assert place.wanted_path(None, {"XDG_RUNTIME_DIR": long}) == f"{long}/mcpd/mcpd.sock"
    assert place.wanted_path(None, {}).endswith("/mcpd.sock")
