"""A daemon whose files vanish creates them again, or ends for another daemon."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpd.daemon.upkeep.socket_keeper import SocketKeeper
from mcpd.errors import PathRefused
from mcpd.service import bind
from mcpd.service.lock import DaemonLock


class Held:
    """A keeper in a directory of its own, with what it reported."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "mcpd.sock")
        self.lock = DaemonLock.acquire(self.path + ".lock")
        self.listeners = [bind.bind_socket(self.path, self.lock)]
        self.lost: list[str] = []
        self.refused: list[PathRefused] = []
        self.keeper = SocketKeeper(
            self.path,
            self.lock,
            bind.identity_of(self.path),
            replace=self.listeners.append,
            lost=self.lost.append,
            refused=self.refused.append,
        )

    def can_be_found(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(self.path) == 0


@pytest.fixture
def held() -> Iterator[Held]:
    with tempfile.TemporaryDirectory(prefix="mcpd-", dir="/tmp") as name:
        made = Held(Path(name))
        yield made
        for listener in made.listeners:
            listener.close()
        made.lock.release()


def test_files_that_are_in_place_are_touched(held: Held) -> None:
    for path in (held.path, held.lock.path):
        os.utime(path, (0, 0), follow_symlinks=False)
    held.keeper.check()
    assert len(held.listeners) == 1
    assert held.lost == []
    assert all(os.lstat(path).st_mtime > 1 for path in (held.path, held.lock.path))


def test_a_socket_that_vanished_is_created_again(held: Held) -> None:
    os.unlink(held.path)
    held.keeper.check()
    assert len(held.listeners) == 2
    assert held.can_be_found()
    held.keeper.check()
    assert len(held.listeners) == 2


def test_a_directory_that_vanished_is_created_again(held: Held) -> None:
    """
    What cleans up /tmp takes all of it.
    """
    folder = os.path.dirname(held.path)
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))
    os.rmdir(folder)
    held.keeper.check()
    assert held.lost == []
    assert held.lock.still_ours()
    assert held.can_be_found()
    assert os.stat(folder).st_mode & 0o777 == 0o700


@pytest.mark.parametrize("what", ["link", "open"])
def test_nothing_is_created_in_a_directory_that_is_not_safe(held: Held, what: str) -> None:
    """
    It was replaced by one in which others can write, or by a link to such a one: no daemon would
    start there, and none makes its lock and socket there. Where it is safe again they are made.
    """
    folder = Path(held.path).parent
    kept = folder.with_name(folder.name + ".kept")
    elsewhere = folder.with_name(folder.name + ".open")
    folder.rename(kept)
    elsewhere.mkdir()
    (elsewhere / "others").touch()
    elsewhere.chmod(0o777)
    if what == "link":
        folder.symlink_to(elsewhere)
    else:
        elsewhere.rename(folder)
    try:
        held.keeper.check()
        held.keeper.check()
        assert os.listdir(folder) == ["others"]
        assert held.lost == []
        assert len(held.refused) == 1
        assert held.keeper.trouble is not None
        assert "is a link" in held.keeper.trouble.message or "can write" in str(held.keeper.trouble)
    finally:
        (folder / "others").unlink()
        if what == "link":
            folder.unlink()
            elsewhere.rmdir()
            kept.rename(folder)
        else:
            folder.chmod(0o700)
    held.keeper.check()
    assert held.keeper.trouble is None
    assert held.can_be_found()
    assert held.lock.still_ours()
    if kept.exists():
        for each in kept.iterdir():
            each.unlink()
        kept.rmdir()


def test_a_daemon_that_lost_its_lock_to_another_ends(held: Held) -> None:
    os.unlink(held.lock.path)
    other = DaemonLock.acquire(held.lock.path)
    held.keeper.check()
    assert len(held.lost) == 1
    assert str(os.getpid()) in held.lost[0]
    other.release()


def test_something_else_in_its_place_is_left_alone(held: Held) -> None:
    os.unlink(held.path)
    Path(held.path).write_text("mine")
    held.keeper.check()
    assert len(held.lost) == 1
    held.keeper.remove_socket()
    assert Path(held.path).read_text() == "mine"


def test_the_socket_is_removed_at_the_end(held: Held) -> None:
    held.keeper.remove_socket()
    assert not os.path.lexists(held.path)
    held.keeper.remove_socket()


def test_a_socket_of_the_service_manager_is_neither_created_nor_removed(held: Held) -> None:
    """B151: it would not be the one that the manager holds."""
    keeper = SocketKeeper(
        held.path,
        held.lock,
        None,
        is_lent=True,
        replace=held.listeners.append,
        lost=held.lost.append,
    )
    os.utime(held.path, (0, 0))
    keeper.check()
    keeper.remove_socket()
    assert os.lstat(held.path).st_mtime > 1
    os.unlink(held.path)
    keeper.check()
    assert not os.path.lexists(held.path)
    assert len(held.listeners) == 1
    assert held.lost == []
