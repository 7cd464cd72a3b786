"""The lock that decides who is the daemon."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
import sys

import pytest

from mcpd.errors import AlreadyRunning, PathRefused
from mcpd.service.lock import DaemonLock


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "mcpd.sock.lock")


@pytest.fixture
def lock(path):
    held = DaemonLock.acquire(path)
    yield held
    held.release()


def content(path) -> str:
    with open(path) as file:
        return file.read()


def test_the_holder_writes_its_pid(lock, path):
    assert content(path) == f"{os.getpid()}\n"
    assert lock.still_ours()


def test_the_second_is_told_the_firsts_pid(lock, path):
    """
    B112.
    """
    with pytest.raises(AlreadyRunning, match=f"pid {os.getpid()}") as refused:
        DaemonLock.acquire(path)
    assert refused.value.details["pid"] == os.getpid()


def test_a_daemon_that_answers_says_so_until_the_next_one(path):
    """
    B114: whoever gets no answer from it need not take it for one that is still loading.
    """
    lock = DaemonLock.acquire(path)
    lock.announce()
    assert content(path) == f"{os.getpid()}\nready\n"
    with pytest.raises(AlreadyRunning, match=f"pid {os.getpid()}"):
        DaemonLock.acquire(path)
    os.unlink(path)
    lock.renew()
    assert content(path) == f"{os.getpid()}\nready\n"
    lock.release()
    lock = DaemonLock.acquire(path)
    assert content(path) == f"{os.getpid()}\n"
    lock.release()


def test_a_released_lock_can_be_taken(path):
    DaemonLock.acquire(path).release()
    DaemonLock.acquire(path).release()


@pytest.mark.parametrize("text", ["1", "garbage", "", "-7", "99999999999999999999", "1 2 3" * 100])
def test_a_lock_file_without_a_holder_is_no_lock(path, text):
    """
    B115, B116: neither that the file exists nor the pid in it means anything.
    """
    with open(path, "w") as file:
        file.write(text)
    lock = DaemonLock.acquire(path)
    assert content(path) == f"{os.getpid()}\n"
    lock.release()


def test_a_recycled_pid_in_the_file_is_left_in_peace(path):
    """
    B115: the pid of a dead daemon may be an innocent's by now.
    """
    with subprocess.Popen(["sleep", "60"]) as innocent:
        with open(path, "w") as file:
            file.write(str(innocent.pid))
        DaemonLock.acquire(path).release()
        assert innocent.poll() is None
        innocent.kill()


@pytest.mark.parametrize("text", ["garbage", "", "-7", "0"])
def test_a_held_lock_with_garbage_in_it_is_still_held(lock, path, text):
    with open(path, "w") as file:
        file.write(text)
    with pytest.raises(AlreadyRunning) as refused:
        DaemonLock.acquire(path)
    assert refused.value.details["pid"] is None


def test_it_is_private_at_every_instant(path, monkeypatch):
    """
    B118.
    """
    modes = []
    really_open = os.open

    def watched(*args, **more):
        fd = really_open(*args, **more)
        modes.append(stat.S_IMODE(os.fstat(fd).st_mode))
        return fd

    monkeypatch.setattr(os, "open", watched)
    before = os.umask(0)
    try:
        DaemonLock.acquire(path).release()
    finally:
        os.umask(before)
    assert modes == [0o600]


def test_a_lock_that_others_could_open_is_tightened(path):
    """
    Whoever can open it can hold it, and keep every daemon from starting.
    """
    with open(path, "w"):
        os.chmod(path, 0o666)
    DaemonLock.acquire(path).release()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_link_is_not_followed(path, tmp_path):
    """
    B118: a planted link would have us empty the file that it leads to.
    """
    precious = tmp_path / "precious"
    precious.write_text("data")
    os.symlink(precious, path)
    with pytest.raises(PathRefused, match="is a link"):
        DaemonLock.acquire(path)
    os.unlink(path)
    os.link(precious, path)
    with pytest.raises(PathRefused, match="second name"):
        DaemonLock.acquire(path)
    assert precious.read_text() == "data"


def test_a_fifo_and_a_directory_are_refused_without_waiting(path):
    os.mkfifo(path)
    with pytest.raises(PathRefused, match="not a regular file"):
        DaemonLock.acquire(path)
    os.unlink(path)
    os.mkdir(path)
    with pytest.raises(PathRefused, match="Is a directory"):
        DaemonLock.acquire(path)


def test_a_strangers_file_is_refused(path, monkeypatch):
    us = os.geteuid()
    with open(path, "w") as file:
        if us == 0:
            os.chown(file.fileno(), 4242, -1)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: us + 1)
    with pytest.raises(PathRefused, match=f"not yours: {re.escape(path)} belongs to"):
        DaemonLock.acquire(path)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_directory_that_takes_no_lock_is_named_with_the_reason(path, monkeypatch, number):
    """
    B116: read-only, or full.
    """

    def refuse(path, *args):
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(os, "open", refuse)
    message = f"cannot open {path}: {os.strerror(number)}"
    with pytest.raises(PathRefused, match=re.escape(message)) as refused:
        DaemonLock.acquire(path)
    assert refused.value.details["errno"] == number


def test_a_full_disk_gives_the_lock_back(path, monkeypatch):
    """
    B116.
    """

    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with pytest.raises(PathRefused, match="No space left"):
            DaemonLock.acquire(path)
    DaemonLock.acquire(path).release()


def test_a_file_replaced_between_open_and_lock_is_taken_anew(path, monkeypatch):
    """
    A lock on a file that is no longer at its place excludes nobody.
    """
    really_open = os.open
    opened = []

    def overtaken(name, *args):
        fd = really_open(name, *args)
        if not opened:
            os.unlink(name)
        opened.append(fd)
        return fd

    monkeypatch.setattr(os, "open", overtaken)
    lock = DaemonLock.acquire(path)
    assert len(opened) == 2
    assert lock.still_ours()
    lock.release()


def test_a_lock_file_that_vanished_or_was_replaced_is_noticed(lock, path):
    os.unlink(path)
    assert not lock.still_ours()
    with open(path, "w"):
        pass
    assert not lock.still_ours()


def test_a_lost_lock_file_is_made_anew(lock, path):
    os.unlink(path)
    lock.renew()
    assert lock.still_ours()
    with pytest.raises(AlreadyRunning):
        DaemonLock.acquire(path)


def test_a_lost_lock_that_somebody_else_holds_is_theirs(lock, path):
    os.unlink(path)
    other = DaemonLock.acquire(path)
    with pytest.raises(AlreadyRunning):
        lock.renew()
    assert other.still_ours()
    other.release()


def test_touching_keeps_it_young(lock, path):
    os.utime(path, (1, 1))
    lock.touch()
    assert os.stat(path).st_mtime > 1e9


def test_children_do_not_inherit_it(lock):
    """
    A flock belongs to the open file: a server that inherited it would outlive the daemon as one.
    """
    assert not os.get_inheritable(lock.fd)


def test_importing_what_comes_before_the_lock_takes_no_heavy_module():
    """
    The daemon locks and binds before it imports its event loop; starters wait meanwhile.
    """
    heavy = (
        "asyncio msgspec uvloop structlog psutil click logging subprocess threading json pathlib"
    )
    program = (
        "import sys; import mcpd.service.bind, mcpd.service.privatedir;"
        f"print([name for name in {heavy.split()} if name in sys.modules])"
    )
    root = os.path.dirname(
        os.path.dirname(os.path.dirname(sys.modules[DaemonLock.__module__].__file__))
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True, cwd=root
    )
    assert done.stdout.strip() == "[]"
