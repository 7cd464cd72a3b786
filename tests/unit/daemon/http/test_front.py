"""The socket files of HTTP addresses."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from mcpd.daemon.http.front import SocketFiles


@pytest.fixture
def path(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path / "http.sock"


def test_a_socket_is_private_and_removed_at_the_end(path):
    files = SocketFiles()
    with files.open(str(path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        files.remove(str(path))
    assert not path.exists()


def test_that_of_a_dead_daemon_is_replaced(path):
    SocketFiles().open(str(path)).close()
    with SocketFiles().open(str(path)):
        pass


def test_one_that_another_process_has_put_there_is_left(path):
    files = SocketFiles()
    with files.open(str(path)):
        path.unlink()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(path))
            files.remove(str(path))
            assert path.exists()


@pytest.mark.parametrize("what", ["a file", "a link", "in use"])
def test_what_is_not_ours_is_refused_and_left(path, what):
    with socket.socket(socket.AF_UNIX) as other:
        if what == "in use":
            other.bind(str(path))
            other.listen()
        elif what == "a link":
            path.symlink_to(path.parent)
        else:
            path.write_text("x")
        with pytest.raises(OSError, match=r"listens there|left alone"):
            SocketFiles().open(str(path))
        assert path.is_symlink() or path.exists()
