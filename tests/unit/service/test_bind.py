"""The daemon's socket file: made, looked after, removed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import tempfile

import pytest

from mcpd.errors import AlreadyRunning, PathRefused
from mcpd.service import bind
from mcpd.service.bind import bind_socket, identity_of, remove_socket
from mcpd.service.lock import DaemonLock


@pytest.fixture
def directory():
    made = tempfile.mkdtemp(prefix="mcpd-", dir="/tmp")
    yield made
    shutil.rmtree(made)


@pytest.fixture
def path(directory):
    return f"{directory}/mcpd.sock"


@pytest.fixture
def lock(path):
    held = DaemonLock.acquire(path + ".lock")
    yield held
    held.release()


def leave_stale_socket(path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
        dead.listen()


def can_connect(path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(path) == 0


def test_it_listens(path, lock):
    with bind_socket(path, lock) as listener:
        assert can_connect(path)
        assert listener.getblocking() is False
        assert not os.get_inheritable(listener.fileno())


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o177, 0o777])
def test_it_is_private_from_its_first_instant(path, lock, monkeypatch, umask):
    """
    B118: a chmod after bind leaves a window. The umask is put back.
    """
    modes = []

    class Watched(socket.socket):
        def bind(self, address):
            super().bind(address)
            modes.append(stat.S_IMODE(os.lstat(address).st_mode))

    monkeypatch.setattr(bind.socket, "socket", Watched)
    before = os.umask(umask)
    try:
        bind_socket(path, lock).close()
    finally:
        after = os.umask(before)
    assert modes == [0o600]
    assert stat.S_IMODE(os.lstat(path).st_mode) == 0o600
    assert after == umask


def test_a_dead_daemons_socket_is_replaced(path, lock):
    """
    B111.
    """
    leave_stale_socket(path)
    assert not can_connect(path)
    with bind_socket(path, lock):
        assert can_connect(path)


def test_a_living_listener_is_left_alone(path, lock):
    """
    B112: also one that lost its lock file, or never had one.
    """
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(path)
        other.listen()
        with pytest.raises(AlreadyRunning, match="listens"):
            bind_socket(path, lock)
        assert can_connect(path)


def test_a_listener_that_takes_no_connection_is_left_alone(path, lock, monkeypatch):
    """
    B111: no answer is not a refusal. The queue of a stopped daemon is full.
    """
    monkeypatch.setattr(bind, "CONNECT_TIMEOUT_S", 0.05)
    with socket.socket(socket.AF_UNIX) as other, socket.socket(socket.AF_UNIX) as queued:
        other.bind(path)
        other.listen(0)
        queued.connect(path)
        before = identity_of(path)
        with pytest.raises(PathRefused, match="cannot be told"):
            bind_socket(path, lock)
        assert identity_of(path) == before


def test_a_datagram_socket_is_left_alone(path, lock):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(path)
        with pytest.raises(PathRefused, match="cannot be told"):
            bind_socket(path, lock)
    assert os.path.exists(path)


@pytest.mark.parametrize("kind", ["file", "directory", "link", "dangling link", "link to a socket"])
def test_anything_else_in_its_place_is_refused_and_left_alone(path, lock, directory, kind):
    """
    B111, B118.
    """
    match kind:
        case "file":
            os.close(os.open(path, os.O_CREAT))
        case "directory":
            os.mkdir(path)
        case "link":
            os.close(os.open(f"{directory}/target", os.O_CREAT))
            os.symlink(f"{directory}/target", path)
        case "dangling link":
            os.symlink(f"{directory}/target", path)
        case "link to a socket":
            leave_stale_socket(f"{directory}/target")
            os.symlink(f"{directory}/target", path)
    before = identity_of(path), sorted(os.listdir(directory))
    with pytest.raises(PathRefused, match="left alone") as refused:
        bind_socket(path, lock)
    assert refused.value.hint
    assert (identity_of(path), sorted(os.listdir(directory))) == before


def test_a_strangers_stale_socket_is_refused(path, lock, monkeypatch):
    leave_stale_socket(path)
    us = os.geteuid()
    if us == 0:
        os.chown(path, 4242, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: us + 1)
    with pytest.raises(PathRefused, match="not yours"):
        bind_socket(path, lock)
    assert os.path.exists(path)


def test_without_the_lock_nothing_is_touched(path, lock):
    leave_stale_socket(path)
    before = identity_of(path)
    os.unlink(lock.path)
    with pytest.raises(PathRefused, match="replaced"):
        bind_socket(path, lock)
    assert identity_of(path) == before


def test_a_directory_that_takes_no_socket_is_named(lock, directory):
    with pytest.raises(PathRefused, match=r"cannot listen on .*/missing/s: No such file"):
        bind_socket(f"{directory}/missing/s", lock)


def test_only_our_own_socket_is_removed(path, lock):
    with bind_socket(path, lock):
        ours = identity_of(path)
        assert bind.still_ours(path, ours)
        os.rename(path, path + ".aside")
        leave_stale_socket(path)
        assert not bind.still_ours(path, ours)
        assert not remove_socket(path, ours)
        assert os.path.exists(path)
        os.rename(path + ".aside", path)
        assert remove_socket(path, ours)
        assert not os.path.exists(path)
        assert not remove_socket(path, ours)
        assert not remove_socket(path, None)


def test_a_socket_that_vanished_is_noticed_and_made_anew(path, lock):
    """
    /tmp is cleaned of what is old.
    """
    with bind_socket(path, lock):
        ours = identity_of(path)
        os.unlink(path)
        assert not bind.still_ours(path, ours)
        with bind_socket(path, lock):
            assert can_connect(path)


def test_touching_keeps_it_young(path, lock):
    with bind_socket(path, lock):
        os.utime(path, (1, 1))
        bind.touch(path)
        assert os.stat(path).st_mtime > 1e9


def race(path: str, gate: int, report: int, stay: int) -> None:
    """Be one of many daemons that start at the same moment. Never returns."""
    os.read(gate, 1)
    try:
        lock = DaemonLock.acquire(path + ".lock")
        listener = bind_socket(path, lock)
    except AlreadyRunning:
        os.write(report, b"L")
        os._exit(75)
    os.write(report, b"W")
    os.read(stay, 1)
    listener.close()
    os._exit(0)


@pytest.mark.parametrize("is_stale", [False, True])
def test_of_twenty_that_start_at_once_one_becomes_the_daemon(path, is_stale):
    """
    B112: also over the socket of a dead one; the winner's socket is the one that stays.
    """
    if is_stale:
        leave_stale_socket(path)
    gate_out, gate = os.pipe()
    reports, report = os.pipe()
    stay_out, stay = os.pipe()
    children = []
    for _ in range(20):
        child = os.fork()
        if child == 0:
            os.close(gate)
            os.close(stay)
            try:
                race(path, gate_out, report, stay_out)
            finally:
                os._exit(1)
        children.append(child)
    try:
        os.close(gate)
        os.close(report)
        told = b""
        while len(told) < len(children) and (more := os.read(reports, 32)):
            told += more
        assert sorted(told) == sorted(b"W" + b"L" * 19)
        assert can_connect(path)
    finally:
        os.close(stay)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        for fd in (gate_out, reports, stay_out):
            os.close(fd)
    assert sorted(codes) == [0] + [75] * 19


def test_a_killed_daemons_lock_and_socket_go_to_the_next(path):
    """
    B111: nothing has to be cleaned up by hand after kill -9.
    """
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            bind_socket(path, DaemonLock.acquire(path + ".lock"))
            os.write(told, b"+")
            signal.pause()
        finally:
            os._exit(1)
    os.close(told)
    assert os.read(ready, 1) == b"+"
    os.close(ready)
    with pytest.raises(AlreadyRunning) as refused:
        DaemonLock.acquire(path + ".lock")
    assert refused.value.details["pid"] == child
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    lock = DaemonLock.acquire(path + ".lock")
    with bind_socket(path, lock):
        assert can_connect(path)
    lock.release()
