"""The daemon's own log never blocks, never grows beyond its bounds and loses no line silently."""

from __future__ import annotations

import errno
import os
import pty
import shutil
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpd.logfiles.daemonlog import DaemonLog, cut
from mcpd.logfiles.line import LogLine, now
from tests.support.waiting import can_read


def write(log: DaemonLog, number: object, text: str = "") -> None:
    line = LogLine(now(), "mcpd", f"info    line {text}number={number}")
    log.write(line, cut(f"{line.time} {line.text}".encode()) + b"\n")


def test_its_own_file_is_rotated_within_a_cap(tmp_path: Path) -> None:
    """
    B144: every log we write is covered.
    """
    path = tmp_path / "mcpd.log"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    log = DaemonLog(fd, file=str(path), max_bytes=2000, backups=2)
    for number in range(200):
        write(log, number)
    os.close(fd)
    files = sorted(each.name for each in tmp_path.iterdir())
    assert files == ["mcpd.log", "mcpd.log.1", "mcpd.log.2"]
    assert all(each.stat().st_size < 2100 for each in tmp_path.iterdir())
    newest = path.read_text() or (tmp_path / "mcpd.log.1").read_text()
    assert newest.splitlines()[-1].endswith("number=199")


@pytest.fixture
def own(tmp_path: Path) -> Iterator[tuple[Path, DaemonLog]]:
    """A log in its own file, as a daemon in the background has it."""
    path = tmp_path / "state" / "mcpd.log"
    path.parent.mkdir()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    yield path, DaemonLog(fd, file=str(path), max_bytes=10_000, backups=2)
    os.close(fd)


def numbers(path: Path) -> list[str]:
    return [line.rpartition("=")[2] for line in path.read_text().splitlines()]


def test_a_file_that_was_moved_away_gets_a_successor(own: tuple[Path, DaemonLog]) -> None:
    """
    B145: what logrotate does; and a directory that was removed is made again, private.
    """
    path, log = own
    write(log, 1)
    path.rename(path.with_suffix(".old"))
    write(log, 2)
    assert numbers(path.with_suffix(".old")) == ["1"]
    assert numbers(path) == ["2"]
    path.unlink()
    write(log, 3)
    assert numbers(path) == ["3"]
    path.write_text("")  # what logrotate does with copytruncate
    write(log, 4)
    assert numbers(path) == ["4"]
    shutil.rmtree(path.parent)
    write(log, 5)
    assert numbers(path) == ["5"]
    assert (path.parent.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)


def test_a_link_in_its_files_place_is_not_followed(own: tuple[Path, DaemonLog]) -> None:
    """
    B118: what we write is never reached through links. The lines are counted.
    """
    path, log = own
    path.unlink()
    path.symlink_to(path.with_name("target"))
    write(log, 1)
    write(log, 2)
    assert not path.with_name("target").exists()
    path.unlink()
    write(log, 3)
    note, last = path.read_text().splitlines()
    assert note == "[2 lines are missing here]"
    assert last.endswith("number=3")


def test_a_full_disk_costs_whole_lines_and_is_told(
    own: tuple[Path, DaemonLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    B121: it goes on when there is room, with no half line in between.
    """
    path, log = own
    room = [40]
    real = os.write

    def write_some(fd: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real(fd, data[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr(os, "write", write_some)
    write(log, 1)
    write(log, 2)
    room[0] = 1 << 20
    write(log, 3)
    monkeypatch.undo()
    assert path.read_text().splitlines()[0] == "[2 lines are missing here]"
    assert numbers(path)[1:] == ["3"]


def test_without_descriptors_its_file_is_not_rotated_away(
    own: tuple[Path, DaemonLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    B143: each line would have pushed the older parts on, until they were gone.
    """
    path, log = own
    for number in range(150):
        write(log, number, "x" * 50)
    older = sorted(path.parent.iterdir())
    assert len(older) > 1
    log.limit(max_bytes=1, backups=2)

    def none_left(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", none_left)
    for number in range(5):
        write(log, number)
    monkeypatch.undo()
    log.limit(max_bytes=10_000, backups=2)
    write(log, 5)
    assert "[5 lines are missing here]" in path.read_text()
    assert (path.parent / "mcpd.log.1").stat().st_size > 1000


def test_its_own_file_is_read_back_with_what_stood_there_before(own: tuple[Path, DaemonLog]):
    """
    The stacks of a daemon that hung are its last words, and no line of its successor.
    """
    path, log = own
    before = '2026-01-01T00:00:00.000Z error   loop.hung reason=x\n  File "x.py", line 1 in f\n'
    path.with_name("mcpd.log.1").write_text("2026-01-01T00:00:00.000Z info    oldest\n")
    path.write_text(before)
    write(log, 1)
    assert log.tail(9)[:-1] == [
        LogLine("2026-01-01T00:00:00.000Z", "mcpd", "info    oldest"),
        LogLine("2026-01-01T00:00:00.000Z", "mcpd", "error   loop.hung reason=x"),
        LogLine("", "mcpd", '  File "x.py", line 1 in f'),
    ]
    assert log.tail(9)[-1].text == "info    line number=1"
    assert [line.text[:6] for line in log.tail(2)] == ["  File", "info  "]
    assert log.tail(0) == []


def test_lines_that_the_disk_did_not_take_are_read_back_from_memory(own: tuple[Path, DaemonLog]):
    path, log = own
    write(log, 1)
    path.rename(path.with_name("mcpd.log.1"))
    path.mkdir()
    for number in (2, 3):
        write(log, number)
    assert [line.text[-1] for line in log.tail(9)] == ["1", "2", "3"]
    assert [line.text[-1] for line in log.tail(2)] == ["2", "3"]


def test_growth_of_its_own_file_is_told(own: tuple[Path, DaemonLog]) -> None:
    path, log = own
    grown: list[int] = []
    log.on_growth = grown.append
    write(log, 1)
    assert sum(grown) == path.stat().st_size


def test_a_file_of_somebody_elses_is_not_rotated(tmp_path: Path) -> None:
    """
    ``mcpd 2> my.log``: its name and its length are the business of its owner.
    """
    theirs = tmp_path / "my.log"
    (tmp_path / "mcpd.log").touch()
    fd = os.open(theirs, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    log = DaemonLog(fd, file=str(tmp_path / "mcpd.log"), max_bytes=100, backups=2)
    for number in range(20):
        write(log, number)
    os.close(fd)
    assert len(theirs.read_text().splitlines()) == 20


def test_a_reader_that_does_not_read_costs_lines_and_nobody_time() -> None:
    """
    A terminal that is stopped must not stop every client.
    """
    reading, writing = os.pipe()
    log = DaemonLog(writing)
    for number in range(500):
        write(log, number, "x" * 1000)
    read = os.read(reading, 1 << 20)
    write(log, "after")
    seen_after = os.read(reading, 1 << 20).decode()
    kept = read.count(b"\n")
    assert 0 < kept < 500
    assert f"[{500 - kept} lines are missing here]" in seen_after
    assert seen_after.endswith("number=after\n")
    os.close(reading)
    write(log, "nobody is left")
    os.close(writing)


def test_a_terminal_that_is_stopped_costs_lines_and_nobody_time() -> None:
    """
    B065: a terminal says that it takes something when it does not take all.
    """
    screen, terminal = pty.openpty()
    tty.setraw(terminal)
    log = DaemonLog(terminal)
    for number in range(100):
        write(log, number, "x" * 1000)
    assert os.get_blocking(terminal), "other processes that write there are not affected"
    seen = os.read(screen, 1 << 20)
    while can_read(screen, 0.1):
        seen += os.read(screen, 1 << 20)
    write(log, "after")
    seen_after = os.read(screen, 1 << 16).decode()
    assert 0 < seen.count(b"number=") < 100
    assert "lines are missing here]\n" in seen_after
    assert seen_after.startswith(("[", "\n["))
    assert seen_after.endswith("number=after\n")
    os.close(screen)
    os.close(terminal)
