"""Connecting: which listeners and directories are refused, and with which error."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcpd.daemon_process import peer_credentials
from mcpd.daemon_start.connection import connect
from mcpd.errors import DaemonUnavailable
from tests.support.fakemcpd import Place


def why(path: str) -> str:
    with pytest.raises(DaemonUnavailable) as caught:
        connect(path, timeout=0.2)
    found: str = caught.value.details["why"]
    return found


def test_a_listener_of_ours_is_connected_to(place: Place) -> None:
    with place.listen(), connect(place.socket) as connection:
        assert peer_credentials(connection) == (os.getpid(), os.geteuid())


def test_each_silence_has_a_name(place: Place) -> None:
    assert why(place.socket) == "absent"
    place.listen().close()
    assert why(place.socket) == "refused"
    os.unlink(place.socket)
    Path(place.socket).touch()
    assert why(place.socket) == "unusable"


def test_a_full_queue_is_no_reason_to_wait_for_ever(place: Place) -> None:
    """
    B114: a daemon that takes no connections is told from none.
    """
    with place.listen(), contextlib.ExitStack() as stack:
        for _ in range(2):  # what listen(1) has room for
            stack.enter_context(connect(place.socket))
        assert why(place.socket) == "unresponsive"


def test_a_directory_that_is_a_link_is_refused(place: Place) -> None:
    with place.listen():
        os.symlink(place.directory / "run", place.directory / "link")
        with pytest.raises(DaemonUnavailable) as caught:
            connect(str(place.directory / "link" / "mcpd.sock"))
        assert caught.value.details["why"] == "exposed"
        assert caught.value.hint == f"rm {place.directory / 'link'}"


def test_a_directory_that_others_can_write_in_is_refused_unless_sticky(place: Place) -> None:
    """
    B118: whoever can write there can put a listener of their own in the daemon's place.
    """
    with place.listen():
        os.chmod(place.directory / "run", 0o777)
        assert why(place.socket) == "exposed"
        os.chmod(place.directory / "run", 0o1777)
        connect(place.socket).close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be a stranger")
def test_a_strangers_directory_and_a_strangers_listener_are_refused(place: Place) -> None:
    """
    B118: a name that anyone could have taken first.
    """
    with place.listen():
        os.chown(place.directory / "run", 65534, 65534)
        with pytest.raises(DaemonUnavailable, match=r"not yours: .*/run belongs to 65534"):
            connect(place.socket)
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
            connect(place.socket)
