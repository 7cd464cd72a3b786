"""Cases from the field: disks that are full, or take nothing at all.

Each daemon has file systems of its own, in a mount namespace; where that is refused, also within a
user namespace, these tests are skipped.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Box, Json, Peer, binary
from tests.support.waiting import wait_until

MOUNT = 'mount -t tmpfs -o "$0" none "$1"; shift; exec "$@"'
HOWS = (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"])


def namespace() -> list[str]:
    """Return a command that runs another with mounts of its own; skip where nobody may do that."""
    tried = []
    for how in HOWS:
        probe = [*how, "sh", "-e", "-c", MOUNT, "size=64k", "/mnt", "true"]
        try:
            done = subprocess.run(probe, capture_output=True, text=True, check=False, timeout=30)
        except OSError as error:
            tried.append(f"{' '.join(how)}: {error}")
            continue
        if done.returncode == 0:
            return how
        tried.append(f"{' '.join(how)}: {done.stderr.strip()}")
    pytest.skip(f"no mount namespace to be had here; tried {'; '.join(tried)}")


def small(options: str, where: Path) -> list[str]:
    """Return a command that runs another with a small file system at a directory."""
    return [*namespace(), "sh", "-e", "-c", MOUNT, f"mode=700,{options}", str(where)]


@pytest.fixture
def box() -> Iterator[Box]:
    made = Box()
    try:
        made.fake("there", restart={"backoff": 0}).fake("other")
        yield made
    finally:
        made.close()


class Inside:
    """The files of a daemon that has its state on a small file system."""

    def __init__(self, box: Box) -> None:
        assert box.daemon
        self.state = Path(f"/proc/{box.daemon.pid}/root{box.state}")

    def fill(self) -> None:
        """Leave no room for anything."""
        fd = os.open(self.state / "filler", os.O_WRONLY | os.O_CREAT)
        size = 1 << 16
        while size:
            try:
                os.write(fd, b"x" * size)
            except OSError:
                size //= 2
        os.close(fd)

    def free(self) -> None:
        """Make room."""
        (self.state / "filler").unlink()

    def debris(self) -> list[str]:
        """Return files that were begun and not finished."""
        return [str(path) for path in self.state.rglob(".*")]

    def recorded(self) -> set[int]:
        """Return the pids in the ledger."""
        (ledger,) = (self.state / "ledger").glob("*.json")
        return {each["pid"] for each in json.loads(ledger.read_text())["processes"]}


def start(box: Box, *names: str) -> None:
    with box.peer() as control:
        control.request("mcpd/start", {"servers": list(names)}, 20)


@pytest.mark.slow
def test_a_daemon_whose_disk_is_full_goes_on_and_recovers(box: Box):
    """
    B121: it ended when its log could not be written. Servers run, crash and start meanwhile; what
    is missing is told, and what can be written later is.
    """
    box.up(through=small("size=512k", box.state))
    assert box.daemon
    inside = Inside(box)
    start(box, "there")
    with box.session("there") as session:
        inside.fill()
        for number in range(300):
            assert session.text("echo", text=str(number)) == str(number)
            if number < 15:  # more within a second is counted alone
                session.text("raw_line", line=f"noise {number} {'x' * 1900}")
        pid = int(session.text("pid"))
        os.kill(pid, signal.SIGKILL)
        assert int(session.text("pid")) != pid
        start(box, "other")
        assert box.ctl("status").returncode == 0
        assert box.tail(1 << 20).count("log.trouble") == 2, "once for each server"
        assert box.tail(1 << 20).count("ledger.trouble") == 1
        assert not inside.debris()
        assert inside.recorded() == {pid}, "whole, as it was"
        inside.free()
        session.text("raw_line", line="noise at last")
        log = inside.state / "logs" / "there.log"
        wait_until(lambda: "noise at last" in log.read_text())
        assert "lines are missing here]" in log.read_text()
        assert "log.resumed" in box.tail(1 << 20)
        now = {box.status("there")["pid"], box.status("other")["pid"]}
        wait_until(lambda: inside.recorded() == now, 20, what="the ledger to be written")
    box.ctl("down").check_returncode()
    assert not box.survivors()


@pytest.mark.slow
def test_an_audit_whose_disk_is_full_stops_no_call(box: Box):
    """
    T36: it is said, once in a while, and the rows of that time are written when there is room.
    """
    box.up(through=small("size=1m", box.state))
    inside = Inside(box)

    def rows() -> list[Json]:
        with box.peer() as person:
            found: list[Json] = person.request("mcpd/audit", {"lines": 500})["calls"]
            return found

    with box.session("there") as session:
        session.text("count", 20)
        wait_until(rows)
        inside.fill()
        for number in range(300):
            assert session.text("echo", text=str(number)) == str(number)
        wait_until(lambda: "the audit is not written" in box.ctl("doctor").stdout, 10)
        assert box.tail(1 << 20).count("audit.trouble") == 1, "one line a minute"
        inside.free()
        session.text("pid")
        kept = wait_until(lambda: len(found := rows()) >= 302 and found, 20)
    kept.sort(key=lambda row: int(row["id"]))
    assert [row["tool"] for row in kept] == ["count", *["echo"] * 300, "pid"]
    sizes = [row["in_bytes"] - len(str(number)) for number, row in enumerate(kept[1:-1])]
    assert len(set(sizes)) == 1, "in their order"
    wait_until(lambda: "audit" not in box.ctl("doctor").stdout, 10)
    box.ctl("down").check_returncode()


@pytest.mark.parametrize("place", ["state", "run"])
@pytest.mark.parametrize("program", ["mcpd", "mcpctl up"])
@pytest.mark.parametrize(
    ("options", "number"), [("nr_inodes=1", errno.ENOSPC), ("ro", errno.EROFS)], ids=["full", "ro"]
)
def test_a_disk_that_takes_nothing_at_the_start_is_told_at_once(
    box: Box, place: str, program: str, options: str, number: int
):
    """
    B121: it looked like a start that takes too long. B116: a lock that cannot be made says so.
    """
    where = box.root / place
    box.write()
    name, *args = program.split()
    argv = [*small(options, where), binary(name), *args]
    done = subprocess.run(
        argv, env=box.env, capture_output=True, text=True, check=False, timeout=60
    )
    said = done.stderr + done.stdout
    assert done.returncode == (73 if name == "mcpd" else 3), said
    assert os.strerror(number) in said
    assert str(where) in said


@pytest.mark.slow
def test_a_full_runtime_directory_hurts_nobody_who_is_there(box: Box):
    """
    B121: the lock's pid and the socket are there already.
    """
    through = small("size=64k", box.root / "run")
    box.up(wait=False, through=through)
    assert box.daemon
    socket = Path(f"/proc/{box.daemon.pid}/root{box.socket}")
    wait_until(socket.exists, 20)
    with Peer.dial(socket) as peer:
        filler = socket.with_name("filler")
        with pytest.raises(OSError, match="No space"), filler.open("wb") as file:
            file.write(b"x" * (1 << 20))
        peer.request("mcpd/attach", {"server": "there"}, 20)
        peer.initialize()
        assert peer.text("echo", text="hello") == "hello"
    assert box.down() == 0


EDITING = """
import os, subprocess, sys
from mcpd.editing import replace
from mcpd.errors import ConfigError
path = sys.argv[1] + "/mcp.json"
with open(path, "wb") as file:
    file.write(b"x" * 40_000)
if sys.argv[2] == "ro":
    subprocess.run(["mount", "-o", "remount,ro", sys.argv[1]], check=True)
try:
    replace.change(path, lambda old: b"y" * 40_000)
except ConfigError as error:
    print(error.message)
with open(path, "rb") as file:
    assert file.read() == b"x" * 40_000
assert os.listdir(sys.argv[1]) == ["mcp.json"]
"""


@pytest.mark.parametrize(("how", "says"), [("full", "the disk is full"), ("ro", "is read-only")])
def test_a_file_that_cannot_be_replaced_is_left_as_it_was(tmp_path: Path, how: str, says: str):
    where = tmp_path / "place"
    where.mkdir()
    argv = [*small("size=64k", where), sys.executable, "-c", EDITING, str(where), how]
    env = {**os.environ, "MCPD_STATE_DIR": str(tmp_path / "state")}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert str(where / "mcp.json") in done.stdout and says in done.stdout
