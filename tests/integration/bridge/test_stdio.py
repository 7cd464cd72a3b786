"""The bridge on every kind of stdin and stdout that clients, shells and scripts give it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import socket
import subprocess
import termios

import pytest

from tests.integration.bridge.fakedaemon import Connection, FakeDaemon, Json, command, line
from tests.support.waiting import can_read, scaled, wait_until

ASK = b"".join([line(id=n, method="echo", params={"n": n}) for n in (1, 2, 3)])


@pytest.fixture
def daemon():
    with FakeDaemon() as made:
        yield made


def ids(output: bytes) -> list[int]:
    return [json.loads(one)["id"] for one in output.splitlines()]


def run(daemon, *args, **options) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command(*args), env=daemon.env, timeout=scaled(20), check=False, **options
    )


def start(daemon, *args, **options) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command(*args), env=daemon.env, **options)


def read_lines(fd: int, count: int) -> bytes:
    got = b""
    while got.count(b"\n") < count:
        assert can_read(fd, scaled(10)), got
        got += os.read(fd, 65536)
    return got


def is_nonblocking(fd: int) -> bool:
    return bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK)


def test_a_pipeline_gets_every_answer(daemon):
    done = run(daemon, "fake", input=ASK, capture_output=True)
    assert (done.returncode, ids(done.stdout), done.stderr) == (0, [1, 2, 3], b"")


def test_files_keep_their_shared_offset(daemon, tmp_path):
    (tmp_path / "in").write_bytes(ASK)
    with open(tmp_path / "in", "rb") as requests, open(tmp_path / "out", "wb", buffering=0) as out:
        out.write(b"# before\n")
        assert run(daemon, "fake", stdin=requests, stdout=out).returncode == 0
        out.write(b"# after\n")
    first, *answers, last = (tmp_path / "out").read_bytes().splitlines()
    assert (first, last) == (b"# before", b"# after")
    assert ids(b"\n".join(answers)) == [1, 2, 3]


def test_dev_null_is_an_end_at_once(daemon):
    done = run(daemon, "fake", stdin=subprocess.DEVNULL, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert daemon.session().lines == []


def test_answers_into_dev_null(daemon):
    done = run(daemon, "fake", input=ASK, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("pairs", [1, 2])
def test_socket_pairs(daemon, pairs):
    """
    Node's child_process makes two; socat and inetd use one for both directions.
    """
    up, child_in = socket.socketpair()
    down, child_out = (up, child_in) if pairs == 1 else socket.socketpair()
    process = start(daemon, "fake", stdin=child_in, stdout=child_out)
    for end in {child_in, child_out}:
        end.close()
    up.sendall(ASK)
    assert ids(read_lines(down.fileno(), 3)) == [1, 2, 3]
    up.shutdown(socket.SHUT_WR)
    assert process.wait(scaled(10)) == 0
    for end in {up, down}:
        end.close()


def test_a_closed_socket_is_a_client_that_is_gone(daemon):
    ours, theirs = socket.socketpair()
    process = start(daemon, "fake", stdin=theirs, stdout=theirs)
    theirs.close()
    ours.sendall(line(id=1, method="hang"))
    session = daemon.session()
    wait_until(lambda: session.lines, what="the call")
    ours.close()
    assert process.wait(scaled(1.5)) == 0


def test_a_named_pipe(daemon, tmp_path):
    os.mkfifo(tmp_path / "in")
    reader = os.open(tmp_path / "in", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    process = start(daemon, "fake", stdin=reader, stdout=subprocess.PIPE)
    os.close(reader)
    with open(tmp_path / "in", "wb", buffering=0) as writer:
        writer.write(ASK)
        assert process.stdout
        assert ids(read_lines(process.stdout.fileno(), 3)) == [1, 2, 3]
    assert process.wait(scaled(10)) == 0
    process.stdout.close()


def test_a_terminal(daemon):
    """
    A line typed in, an answer shown; the end of input is ^D.
    """
    master, terminal = pty.openpty()
    settings = termios.tcgetattr(terminal)
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSANOW, settings)
    process = start(daemon, "fake", stdin=terminal, stdout=terminal)
    os.write(master, ASK)
    assert ids(read_lines(master, 3)) == [1, 2, 3]
    blob = line(id=4, method="blob", params={"bytes": 100_000})
    os.write(master, blob)
    assert len(read_lines(master, 1)) > 100_000
    assert not is_nonblocking(terminal)
    os.write(master, b"\x04")
    assert process.wait(scaled(10)) == 0
    os.close(master)
    os.close(terminal)


def test_a_terminal_that_hangs_up_is_a_client_that_is_gone(daemon):
    master, terminal = pty.openpty()
    process = start(daemon, "fake", stdin=terminal, stdout=terminal)
    os.close(terminal)
    daemon.session()
    os.close(master)
    assert process.wait(scaled(5)) == 0


def test_flags_of_inherited_descriptors_stay_as_they_were(daemon):
    """
    O_NONBLOCK belongs to the open file, which the shell and other programs share.
    """
    (pipe_in, writer), (reader, pipe_out) = os.pipe(), os.pipe()
    process = start(daemon, "fake", stdin=pipe_in, stdout=pipe_out)
    os.write(writer, ASK)
    assert ids(read_lines(reader, 3)) == [1, 2, 3]
    assert not any(map(is_nonblocking, (pipe_in, pipe_out, writer, reader)))
    os.close(pipe_in)  # a reader of our own would keep the bridge's input open
    os.close(writer)
    assert process.wait(scaled(10)) == 0
    assert not is_nonblocking(pipe_out)
    os.close(pipe_out)
    os.close(reader)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_descriptors_harm_nobody(daemon, closed):
    """
    What is opened next would get that number: the connection to the daemon, for one.
    """
    asks = b"" if "<" in closed else ASK
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *command("fake")],
        env=daemon.env,
        input=asks,
        capture_output=True,
        timeout=scaled(20),
        check=False,
    )
    assert done.returncode == 0
    assert ids(done.stdout) == (
        [] if "<" in closed or " >" in f" {closed}".replace("2>", "") else [1, 2, 3]
    )


def test_a_full_disk_is_said(daemon):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with open("/dev/full", "wb") as full:
        done = run(daemon, "fake", input=ASK, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert b"cannot write to stdout: No space left" in done.stderr


def test_a_reader_that_ends_early_ends_it_quietly(daemon):
    """
    ``mcpctl connect files < requests | head -1``
    """
    script = 'printf "$0" | "$@" | head -1'
    done = subprocess.run(
        ["sh", "-c", script, ASK.decode().replace("\n", "\\n"), *command("fake")],
        env=daemon.env,
        capture_output=True,
        timeout=scaled(20),
        check=False,
    )
    assert ids(done.stdout) == [1]
    assert done.stderr == b""


def test_a_slow_reader_gets_everything_after_the_end_of_input(daemon):
    """
    The time for answers does not run while it is the reader who is late.
    """

    def twice(message: Json, connection: Connection) -> None:
        result = {"text": "x" * (2 << 20)}
        connection.send(line(id=message["id"], result=result))

    daemon.handler = twice
    process = start(
        daemon, "fake", "--linger", "0.2", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin
    assert process.stdout
    process.stdin.write(ASK)
    process.stdin.close()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.8)
    output = process.stdout.read()
    process.stdout.close()
    assert ids(output) == [1, 2, 3]
    assert process.wait(scaled(10)) == 0
