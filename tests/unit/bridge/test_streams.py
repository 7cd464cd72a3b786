"""Stdin and stdout as clients, shells and scripts give them."""

from __future__ import annotations

import fcntl
import os
import pty
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mcpd.bridge import streams

ROOT = Path(__file__).parents[3]

pytestmark = [  # a bridge keeps its ends open for as long as it lives
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def is_nonblocking(fd: int) -> bool:
    return bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK)


def make_pipe():
    return os.pipe()


def make_sockets():
    one, two = socket.socketpair()
    return one.detach(), two.detach()


def make_terminal():
    master, terminal = pty.openpty()
    return master, terminal


@pytest.fixture(params=[make_pipe, make_sockets], ids=["pipe", "socket"])
def both(request):
    """Read end and write end of something whose capacity is limited."""
    pair = request.param()
    yield pair
    for fd in pair:
        os.close(fd)


def test_an_outbox_takes_everything_and_hands_on_what_fits(both):
    """
    B072: a partial write is the normal case. Nobody waits, and nobody's flags change.
    """
    read_end, write_end = both
    outbox = streams.to_client(write_end)
    data = [bytes([n % 256]) * (n * 37 % 5000) for n in range(1000)]
    outbox.put(data)
    outbox.flush()
    assert 0 < outbox.size < sum(map(len, data))
    got = b""
    while len(got) < sum(map(len, data)):
        got += os.read(read_end, 3000)
        outbox.flush()
    assert got == b"".join(data)
    assert outbox.size == 0
    assert not is_nonblocking(write_end)


def test_a_reader_that_is_gone_is_an_error():
    read_end, write_end = os.pipe()
    outbox = streams.to_client(write_end)
    os.close(read_end)
    outbox.put([b"x"])
    with pytest.raises(BrokenPipeError):
        outbox.flush()
    os.close(write_end)


def test_a_pipe_that_cannot_be_opened_again_is_written_to_when_it_is_ready_only(monkeypatch):
    """
    Another user's pipe. A blocking write of more than the pipe takes would stop everything.
    """
    monkeypatch.setattr(streams, "_opened_again", lambda *_: None)
    read_end, write_end = os.pipe()
    outbox = streams.to_client(write_end)
    assert outbox.fd == write_end
    outbox.put([b"x" * 1_000_000])
    outbox.flush()
    assert outbox.size == 1_000_000
    outbox.flush(is_ready=True)
    written = 1_000_000 - outbox.size
    assert 0 < written <= 4096
    assert os.read(read_end, 10_000) == b"x" * written
    os.close(read_end)
    os.close(write_end)


def test_a_file_keeps_its_shared_offset(tmp_path):
    with open(tmp_path / "out", "wb", buffering=0) as out:
        out.write(b"# before\n")
        outbox = streams.to_client(out.fileno())
        outbox.put([b"answer\n", b"x" * 300_000, b"\n"])
        outbox.flush()
        assert outbox.size == 0
        out.write(b"# after\n")
    text = (tmp_path / "out").read_bytes()
    assert text == b"# before\nanswer\n" + b"x" * 300_000 + b"\n# after\n"


@pytest.mark.parametrize("make", [make_pipe, make_sockets, make_terminal])
def test_reading_never_waits_and_changes_no_flags(make):
    first, second = make()
    read_end, write_end = (second, first) if make is make_terminal else (first, second)
    source = streams.Source(read_end)
    assert source.read() is None
    os.write(write_end, b"hello\n")
    assert source.read() == b"hello\n"
    assert source.read() is None
    assert not is_nonblocking(read_end)
    os.close(write_end)
    os.close(read_end)


@pytest.mark.parametrize("make", [make_pipe, make_sockets])
def test_the_end_is_read_as_the_end(make):
    read_end, write_end = make()
    source = streams.Source(read_end)
    os.close(write_end)
    assert source.read() == b""
    os.close(read_end)


def test_a_terminal_that_hangs_up_has_ended():
    master, terminal = pty.openpty()
    source = streams.Source(terminal)
    os.close(master)
    assert source.read() == b""
    os.close(terminal)


def test_files_and_devices_are_read_as_they_are(tmp_path):
    (tmp_path / "in").write_bytes(b"x" * 100)
    with open(tmp_path / "in", "rb") as file, open(os.devnull, "rb") as null:
        assert streams.Source(file.fileno()).read() == b"x" * 100
        assert streams.Source(file.fileno()).read() == b""
        assert streams.Source(null.fileno()).fd == null.fileno()
        assert streams.Source(null.fileno()).read() == b""


def run(program: str, **options) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, timeout=20, **options
    )


def test_closed_standard_descriptors_are_occupied():
    """
    Else the connection to the daemon would become somebody's stdout.
    """
    program = (
        "import os; os.close(0); os.close(1); from mcpd.bridge import streams;"
        "streams.open_standard_descriptors(); os.write(2, os.readlink('/proc/self/fd/0').encode());"
        "os.write(1, b'lost')"
    )
    assert run(program, stderr=subprocess.PIPE).stderr == b"/dev/null"


def test_a_stderr_that_nobody_reads_stops_nothing():
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    while True:
        try:
            os.write(write_end, b"x" * 65536)
        except BlockingIOError:
            break
    os.set_blocking(write_end, True)
    run("from mcpd.bridge import streams; streams.report('unheard')", stderr=write_end)
    os.close(write_end)
    os.close(read_end)


def test_a_stderr_with_little_room_takes_the_beginning_and_stops_nothing():
    """
    Clients rarely read it, and a daemon that cannot start has much to say.
    """
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    while True:
        try:
            os.write(write_end, b"x" * 4096)
        except BlockingIOError:
            break
    os.set_blocking(write_end, True)
    os.read(read_end, 4096)
    run("from mcpd.bridge import streams; streams.report('y' * 10_000)", stderr=write_end)
    os.close(write_end)
    with open(read_end, "rb") as reader:
        assert reader.read().endswith(b"xmcpctl: " + b"y" * (4096 - len("mcpctl: ")))


def test_control_characters_are_shown_escaped_on_a_terminal():
    """
    A message may hold what a server wrote, and a terminal obeys.
    """
    master, terminal = pty.openpty()
    run("from mcpd.bridge import streams; streams.report('a\\x1b[2Jé\\n b\\x9b')", stderr=terminal)
    assert os.read(master, 1000).replace(b"\r", b"") == "mcpctl: a\\x1b[2Jé\n b\\x9b\n".encode()
    os.close(terminal)
    os.close(master)
