"""Cases from the field: logs that have no end, and what others do to their files."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.faults.ground import up_by
from tests.support.daemon import FAKE_SERVER, Box, binary
from tests.support.waiting import wait_until

LOG_BYTES = 64 << 10
BACKUPS = 2
TALKS = r"""
import itertools, os, sys, time
lines = (b"line %d %s\n" % (n, b"x" * int(sys.argv[1])) for n in itertools.count())
while os.getppid() != 1:
    os.write(2, b"".join(itertools.islice(lines, int(sys.argv[2]))))
    time.sleep(0.01)
"""
"""Numbered lines on stderr, so many every hundredth of a second, until its parent has gone."""


@pytest.fixture
def box() -> Iterator[Box]:
    made = Box()
    made.settings |= {"log_max_bytes": LOG_BYTES, "log_backups": BACKUPS}
    try:
        yield made
    finally:
        made.close()


def talker(box: Box, name: str, length: int, count: int, **entry: object) -> None:
    """Add a server that goes on talking on stderr."""
    talk = f'"{sys.executable}" -c "$0" {length} {count} & exec "$@"'
    fake = [sys.executable, "-I", "-S", str(FAKE_SERVER)]
    box.servers[name] = {"command": "sh", "args": ["-c", talk, TALKS, *fake], **entry}


def start(box: Box, *names: str) -> None:
    with box.peer() as control:
        control.request("mcpd/start", {"servers": list(names)}, 20)


def logs(box: Box, name: str = "") -> dict[str, int]:
    """Return the files of a log, or of all, with their sizes."""
    found = {}
    for path in [*(box.state / "logs").glob(f"{name}*"), *box.state.glob("mcpd.log*")]:
        with contextlib.suppress(FileNotFoundError):  # it has been rotated meanwhile
            found[path.name] = path.stat().st_size
    return found


def numbers(text: str) -> list[int]:
    """Return the numbers of a talker's lines."""
    words = (line.partition(" stderr line ")[2].split(" ") for line in text.splitlines())
    return [int(found[0]) for found in words if found[0].isdigit()]


@pytest.mark.slow
@pytest.mark.parametrize(
    "seconds", [3, pytest.param(120, marks=[pytest.mark.long, pytest.mark.timeout(300)])]
)
def test_all_logs_together_have_a_bound_in_a_flood_and_a_crash_loop(box: Box, seconds: float):
    """
    B144: one megabyte a second from each, and one that dies at once, with what servers left that
    there are no more: never more than each may have, nor all together.
    """
    most = 384 << 10
    box.settings |= {"logs_max_bytes": most}
    for number in range(3):
        talker(box, f"talks{number}", 100, 100)
    loop = ["-c", 'yes "$0" | head -n 3000 >&2; exit 1', "x" * 100]
    box.servers["loops"] = {
        "command": "sh",
        "args": loop,
        "restart": {"backoff": 0.1, "backoff_max": 0.1, "max_failures": 0},
    }
    box.fake("quiet", "--stderr", 100)
    (box.state / "logs").mkdir(mode=0o700)
    (box.state / "logs" / "gone.log.1").write_bytes(b"x" * (most // 2))
    box.up()
    start(box, "quiet", *(f"talks{number}" for number in range(3)))
    with box.peer() as control:
        control.start("mcpd/call", {"server": "loops", "tool": "x", "timeout": 0.1})
    until = time.monotonic() + seconds
    largest = 0
    while time.monotonic() < until:
        sizes = logs(box)
        largest = max(largest, sum(sizes.values()))
        assert all(size <= LOG_BYTES for name, size in sizes.items() if "gone" not in name)
    assert most // 3 < largest <= most * 1.5, "a look may take its time on a busy machine"
    sizes = logs(box)
    assert "gone.log.1" not in sizes
    assert sizes["quiet.log"] > 0, "a quiet one loses nothing by it"
    assert all(len(logs(box, f"talks{number}")) <= BACKUPS + 1 for number in range(3))
    assert "logs.removed" in box.tail(1 << 20)
    with box.session("quiet") as session:
        assert session.text("echo", text="still here") == "still here"


def test_a_log_is_rotated_while_its_server_writes_and_a_follower_goes_on(box: Box):
    """
    B145: the daemon writes it, so no child holds the file; nothing is lost on the way.
    """
    talker(box, "talks", 100, 20)
    box.up()
    start(box, "talks")
    pid = box.status("talks")["pid"]
    argv = [binary("mcpctl"), "logs", "talks", "-f"]
    with subprocess.Popen(argv, env=box.env, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout
        rotated = box.state / "logs" / "talks.log.2"
        wait_until(rotated.exists, 20)
        seen = numbers("".join(follower.stdout.readline() for _ in range(2500)))
        follower.kill()
    assert len(seen) > 2000
    assert seen == list(range(seen[0], seen[0] + len(seen)))
    assert box.status("talks")["pid"] == pid
    start(box, "talks")
    box.ctl("stop", "talks")
    parts = [box.state / "logs" / f"talks.log{end}" for end in (".2", ".1", "")]
    kept = numbers("".join(part.read_text() for part in parts))
    assert kept == list(range(kept[0], kept[0] + len(kept)))


@pytest.mark.parametrize("how", ["moved", "truncated", "deleted", "all deleted"])
def test_what_others_do_to_a_log_is_noticed_at_the_next_line(box: Box, how: str):
    """
    B145: a logrotate that knows nothing of the daemon needs no signal and no restart. B121: nor is
    a directory missed that somebody has removed.
    """
    box.settings |= {"log_max_bytes": 1 << 30}
    talker(box, "talks", 10, 1)
    box.up()
    start(box, "talks")
    before = box.status("talks")
    path = box.state / "logs" / "talks.log"
    wait_until(lambda: path.exists() and len(numbers(path.read_text())) > 10)
    moved = path.with_name("talks.log-20260101")
    if how == "moved":
        path.rename(moved)
    elif how == "truncated":
        shutil.copyfile(path, moved)
        os.truncate(path, 0)
    elif how == "deleted":
        path.unlink()
    else:
        shutil.rmtree(path.parent)

    def renewed() -> list[int]:
        found = numbers(path.read_text()) if path.exists() else []
        return found if len(found) > 10 and found[0] > 0 else []

    fresh = wait_until(renewed, 10)
    assert fresh == list(range(fresh[0], fresh[0] + len(fresh)))
    if how in ("moved", "truncated"):
        old = numbers(moved.read_text())
        assert fresh[0] - old[-1] <= (1 if how == "moved" else 50), "nothing is lost by moving"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    after = box.status("talks")
    assert (after["pid"], after["generation"]) == (before["pid"], before["generation"])


def test_a_log_that_became_a_link_is_not_written_through(box: Box):
    """
    B118: the server goes on; its lines are in memory, and their number is told later.
    """
    box.fake("there")
    box.up()
    start(box, "there")
    path, target = box.state / "logs" / "there.log", box.root / "target"
    path.unlink()
    path.symlink_to(target)
    with box.session("there") as session:
        for number in range(3):
            session.text("raw_line", line=f"noise {number}")
        wait_until(lambda: "log.trouble" in box.tail())
        assert not target.exists()
        assert "noise 2" in box.ctl("logs", "there").stdout
        path.unlink()
        session.text("raw_line", line="noise again")
        wait_until(lambda: path.exists() and "noise again" in path.read_text())
    assert "lines are missing here]" in path.read_text()
    assert "log.resumed" in box.tail()


def test_a_log_that_nobody_reads_stops_nobody(box: Box):
    """
    B065: stderr is a pipe, and who was to read it has stopped. What is lost is told when it goes on;
    lines say which server they are about.
    """
    box.settings |= {"log_level": "debug"}
    box.fake("there")
    pipe = box.root / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        up_by(box, f"exec 2>{pipe}")
        with box.session("there") as session:
            for number in range(600):
                box.session("there", handshake=False, client={"name": "x" * 40}).close()
                if number % 100 == 0:
                    assert session.text("echo", text=str(number)) == str(number)
            assert session.text("echo", text="still here") == "still here"
        read = drain(reading)
        assert 30_000 < len(read) <= 1 << 16, "it was full"
        assert b"server=there" in read
        box.ctl("stop", "there").check_returncode()
        later = bytearray()

        def says_so():
            later.extend(drain(reading))
            return b"lines are missing here]" in later

        wait_until(says_so, what=later.decode)
    finally:
        os.close(reading)


def drain(fd: int) -> bytes:
    """Read what is there now."""
    found = b""
    with contextlib.suppress(BlockingIOError):
        while chunk := os.read(fd, 1 << 16):
            found += chunk
    return found
