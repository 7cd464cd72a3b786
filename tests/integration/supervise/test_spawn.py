from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpd.errors import SpawnFailed
from mcpd.supervise import spawn
from mcpd.supervise.proctable import procfs
from tests.integration.supervise.conftest import House
from tests.support.waiting import wait_until_async

TELL = """
import json, os, resource, signal, sys
mask = os.umask(0); os.umask(mask)
print(json.dumps({
    "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + fd)),
    "sid": os.getsid(0), "pgid": os.getpgid(0), "pid": os.getpid(), "umask": mask, "cwd": os.getcwd(),
    "limits": resource.getrlimit(resource.RLIMIT_NOFILE), "argv": sys.argv[1:],
    "status": open("/proc/self/status").read(),
}), flush=True)
"""


def script(path: Path, text: str, mode: int = 0o755) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


async def tell(house: House, *args: str, **options: object) -> dict[str, object]:
    child = house.python(TELL, *args, **options)
    return json.loads(await house.line(child.stdout))


async def test_a_child_has_three_descriptors_and_a_session_of_its_own(house: House):
    """
    Descriptors of other peers that leak into a server keep those peers' pipes open.
    """
    leak = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leak, True)
    try:
        told = await tell(house)
    finally:
        os.close(leak)
    assert told["fds"] == [0, 1, 2]
    assert told["sid"] == told["pgid"] == told["pid"]


async def test_a_child_has_the_umask_and_the_limit_the_daemon_was_started_with(house: House):
    """
    The daemon's own are private and high; its servers write the user's files.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    told = await tell(house, umask=0o022, nofile_soft=min(256, hard))
    assert told["umask"] == 0o022
    assert told["limits"] == [min(256, hard), hard]
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)


async def test_the_old_limit_is_put_back_even_when_our_descriptors_are_above_it(house: House):
    """
    A daemon with a thousand sessions has descriptors that the old limit would not allow.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    low = 32  # nearer to the descriptors of the pipes than other threads would be safe with
    child = house.sh("read go; ulimit -Sn", nofile_soft=low)
    os.write(child.stdin, b"go\n")
    assert await house.line(child.stdout) == str(low)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)


RESERVED = 1 << 31 | 1 << 32
"""Signals 32 and 33 are the C library's own: what a parent did to them, no program can undo."""


def masks(status: object) -> dict[str, int]:
    lines = (line.partition(":") for line in str(status).splitlines())
    found = {name: int(value, 16) for name, _, value in lines if name in ("SigBlk", "SigIgn")}
    return {name: value & ~RESERVED for name, value in found.items()}


async def test_a_child_has_default_signals_whatever_the_daemon_was_started_with(house: House):
    """
    ``nohup`` and a shell's ``&`` leave signals ignored, and that survives exec.
    """
    old = signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        child = house.start("cat", "/proc/self/status")
        assert signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN
        assert signal.SIGUSR1 in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGQUIT, old)
    await child.wait_exit(5)
    assert masks(os.read(child.stdout, 65536).decode()) == {"SigBlk": 0, "SigIgn": 0}


async def test_the_environment_is_the_daemons_with_the_entrys_over_it(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    """B031, B032: an ``env`` block adds to HOME and PATH, and proxies are passed on."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("MCPD_INSTANCE", "another:daemon:1")
    child = house.start("env", env={"X": "1", "LANG": "C"})
    await child.wait_exit(5)
    told = dict(line.split("=", 1) for line in os.read(child.stdout, 65536).decode().splitlines())
    assert told["X"] == "1"
    assert told["LANG"] == "C"
    assert told["HTTPS_PROXY"] == "http://127.0.0.1:1"
    assert told["HOME"] == os.environ["HOME"]
    assert told["MCPD_INSTANCE"] == child.tag


async def test_no_value_of_the_environment_is_seen_in_ps(house: House):
    """B140: arguments are everybody's to read, an environment is not."""
    child = house.start("sleep", "60", env={"API_TOKEN": "sentinel-0123456789"})
    assert b"sentinel" not in Path(f"/proc/{child.pid}/cmdline").read_bytes()


async def test_a_failure_right_after_the_spawn_leaves_no_process(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    """B013: between its birth and our knowing of it nobody else would end it, or wait for it."""

    def no_memory(pid: int) -> None:
        raise MemoryError

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(procfs, "identify", no_memory)
    with pytest.raises(MemoryError):
        house.sh("trap '' TERM HUP INT; while :; do sleep 60; done")
    await wait_until_async(lambda: not [e for e in procfs.scan() if e.ppid == os.getpid()])
    assert len(os.listdir("/proc/self/fd")) == before


async def test_our_ends_never_block_and_the_childs_always_do(house: House):
    child = house.sh("read line; echo read $line")
    assert [os.get_blocking(fd) for fd in (child.stdin, child.stdout, child.stderr)] == [False] * 3
    assert not any(os.get_inheritable(fd) for fd in (child.stdin, child.stdout, child.stderr))
    os.write(child.stdin, b"it\n")
    assert await house.line(child.stdout) == "read it"


async def test_a_relative_command_is_taken_from_the_servers_directory(house: House, tmp_path: Path):
    script(tmp_path / "server", "#!/bin/sh\necho here: $PWD $0\n")
    child = house.start("./server", cwd=str(tmp_path))
    assert (await house.line(child.stdout)).startswith(f"here: {tmp_path}")


async def test_a_script_finds_its_interpreter_beside_itself(house: House, tmp_path: Path):
    """
    ``/home/u/.nvm/…/bin/npx`` begins with ``#!/usr/bin/env node``, and node lies beside it.
    """
    script(tmp_path / "own-interpreter", '#!/bin/sh\nshift\necho interpreted "$@"\n')
    server = script(tmp_path / "server", "#!/usr/bin/env own-interpreter\n")
    child = house.start(server, "one", "two")
    assert await house.line(child.stdout) == "interpreted one two"


def refused(command: str, cwd: str = "/", **env: str) -> SpawnFailed:
    with pytest.raises(SpawnFailed) as caught:
        spawn.spawn(spawn.prepare(command, [], env=env, cwd=cwd, tag="t:t:1"), tag="t:t:1")
    return caught.value


def open_fds() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def test_a_missing_interpreter_is_named(tmp_path: Path):
    before = open_fds()
    error = refused(script(tmp_path / "server", "#!/no/such/interpreter -x\n"))
    assert error.details["errno"] == errno.ENOENT
    assert "/no/such/interpreter" in error.message
    assert "interpreter" in str(error.hint)
    assert open_fds() == before


def test_a_file_that_is_no_program_is_explained(tmp_path: Path):
    error = refused(script(tmp_path / "server", "just text\n"))
    assert error.details["errno"] == errno.ENOEXEC
    assert "#!" in error.message


def test_a_missing_directory_is_named(tmp_path: Path):
    error = refused("sh", cwd=str(tmp_path / "nowhere"))
    assert str(tmp_path / "nowhere") in error.message
    assert error.details["errno"] == errno.ENOENT
    assert "cwd" in error.message


@pytest.mark.parametrize("argument", ["a\0b", "\ud800"])
def test_arguments_that_cannot_be_passed_on_are_an_error_of_that_server(argument: str):
    launch = spawn.prepare("sh", [argument], env={}, cwd="/", tag="t:t:1")
    before = open_fds()
    with pytest.raises(SpawnFailed) as caught:
        spawn.spawn(launch, tag="t:t:1")
    assert caught.value.details["errno"] == errno.EINVAL
    assert open_fds() == before


@contextlib.contextmanager
def descriptors_left(count: int) -> Iterator[set[str]]:
    """Leave so many descriptors, the last below the limit; yield those that are open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, open_fds()))
    fillers = [os.dup(0)]  # else lower numbers might be free
    while fillers[-1] <= highest:
        fillers.append(os.dup(0))
    before = open_fds()
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(before) + count, hard))
    try:
        yield before
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for filler in fillers:
            os.close(filler)


def test_no_descriptors_left_is_an_error_of_that_server():
    with descriptors_left(1) as before:
        error = refused("/bin/sh")
    assert error.details["errno"] == errno.EMFILE
    with descriptors_left(1) as after:
        assert after == before


def test_the_last_descriptors_are_not_for_servers():
    """
    B143: without them nobody could see whether its process has gone.
    """
    with descriptors_left(8) as before:
        error = refused("/bin/sh")
        assert open_fds() == before
    assert error.details["errno"] == errno.EMFILE


def test_a_child_that_cannot_be_told_from_others_is_not_kept(monkeypatch: pytest.MonkeyPatch):
    """
    Its start is half of who it is: with a wrong one nobody would find it any more.
    """
    before = open_fds()
    seen: list[int] = []
    monkeypatch.setattr(procfs, "identify", seen.append)
    error = refused("/bin/cat")
    assert error.details["errno"] == errno.ENFILE
    assert open_fds() == before
    assert procfs.stat(seen[0]) is None


async def test_starting_takes_no_more_than_a_few_milliseconds(house: House):
    """
    It happens in the loop, where every session waits.
    """
    took = []
    for _ in range(10):
        before = time.perf_counter()
        house.start("sleep", "60")
        took.append(time.perf_counter() - before)
    assert min(took) < 0.01
