from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from mcpd.supervise.proctable import procfs
from mcpd.supervise.proctable.procfs import ProcId
from tests.support.waiting import wait_until


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        ["sleep", "60"], env={"MCPD_INSTANCE": "d:s:1", "A": "MCPD_INSTANCE="}
    )
    yield process
    process.kill()
    process.wait()


def identity(process: subprocess.Popen[bytes]) -> ProcId:
    found = procfs.identify(process.pid)
    assert found is not None
    return found


def test_a_process_is_told_with_parent_group_session_and_start():
    me = procfs.stat(os.getpid())
    assert me is not None
    assert (me.ppid, me.pgid, me.sid) == (os.getppid(), os.getpgid(0), os.getsid(0))
    assert me.lives
    assert 0 < me.started <= procfs.ticks_now()


def test_the_name_of_a_process_may_hold_anything():
    found = procfs._parse(7, b"7 (a) b (c) S 1 2 3 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 12345 0 0")
    assert found == procfs.Stat(7, 1, 2, 3, "S", 12345)
    assert procfs._parse(7, b"") is None


def test_a_start_is_in_ticks_since_boot(sleeper: subprocess.Popen[bytes]):
    ticks = os.sysconf("SC_CLK_TCK")
    assert abs(identity(sleeper).started - procfs.ticks_now()) < 5 * ticks


def test_there_is_no_process_that_there_is_not():
    assert procfs.stat(1 << 30) is None
    assert procfs.identify(1 << 30) is None
    assert procfs.tag_of(1 << 30) is None
    assert procfs.arguments(1 << 30) == []
    assert procfs.pipes(1 << 30) == set()


def test_a_process_is_not_gone_because_we_have_no_descriptor_to_look(
    sleeper: subprocess.Popen[bytes],
):
    """
    B143: else a tree would count as ended, and another be started beside it.
    """
    it = identity(sleeper)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        assert procfs.lives(it)
        assert not procfs.send(it, signal.SIGKILL)
        with pytest.raises(OSError, match="files"):
            procfs.scan()
        assert (procfs.stat(it.pid), procfs.tag_of(it.pid)) == (None, None)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert sleeper.poll() is None


def test_the_tag_is_read_from_the_environment(sleeper: subprocess.Popen[bytes]):
    wait_until(lambda: procfs.tag_of(sleeper.pid) == "d:s:1")
    assert procfs.tag_of(os.getpid()) is None


def test_the_table_has_tags_of_the_young_only(sleeper: subprocess.Popen[bytes]):
    wait_until(lambda: procfs.tag_of(sleeper.pid) == "d:s:1")
    started = identity(sleeper).started
    tags = [
        {each.pid: each.tag for each in procfs.scan(tags_since=since)}[sleeper.pid]
        for since in (started, started + 1, None)
    ]
    assert tags == ["d:s:1", None, None]


def test_a_zombie_lives_no_more_but_keeps_its_identity(sleeper: subprocess.Popen[bytes]):
    who = identity(sleeper)
    assert procfs.lives(who)
    sleeper.kill()
    wait_until(lambda: not procfs.lives(who))
    assert procfs.identify(sleeper.pid) == who
    assert not procfs.send(who, signal.SIGTERM)


def test_a_signal_goes_to_exactly_the_process_that_is_meant(sleeper: subprocess.Popen[bytes]):
    """B014, B115: the pid alone proves nothing."""
    who = identity(sleeper)
    assert not procfs.send(who._replace(started=who.started - 1), signal.SIGKILL)
    assert not procfs.send(ProcId(1 << 30, 1), signal.SIGKILL)
    assert procfs.lives(who)
    assert procfs.send(who, signal.SIGTERM)
    assert sleeper.wait() == -signal.SIGTERM


def test_without_pidfds_identity_is_checked_too(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
):
    """
    No descriptor may be left, or the kernel be an old one.
    """

    def none_left(_: int) -> int:
        raise OSError(24, "too many open files")

    monkeypatch.setattr(os, "pidfd_open", none_left)
    who = identity(sleeper)
    assert not procfs.send(who._replace(started=who.started - 1), signal.SIGKILL)
    assert procfs.send(who, signal.SIGTERM)
    assert sleeper.wait() == -signal.SIGTERM


def test_a_signal_leaves_no_descriptor_open(sleeper: subprocess.Popen[bytes]):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        procfs.send(identity(sleeper), 0)
    assert len(os.listdir("/proc/self/fd")) == before


def test_boot_and_namespace_have_names():
    assert len(procfs.boot_id()) == 36
    assert procfs.pid_namespace().startswith("pid:[")


def test_a_look_at_the_whole_table_is_quick():
    before = time.perf_counter()
    table = procfs.scan(tags_since=0)
    assert time.perf_counter() - before < 0.002 * len(table) + 0.1
    assert os.getpid() in {each.pid for each in table}
