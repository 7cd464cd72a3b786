from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpd import privatefiles
from mcpd.logfiles.logfile import LogFile


def lines(*numbers: int) -> list[bytes]:
    return [b"line %04d\n" % number for number in numbers]


def texts(*numbers: int) -> list[bytes]:
    return [b"line %04d" % number for number in numbers]


def log(tmp_path: Path, *, max_bytes: int = 1000, backups: int = 3) -> LogFile:
    return LogFile(str(tmp_path / "logs" / "fake.log"), max_bytes=max_bytes, backups=backups)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A disk that has ``room[0]`` bytes left."""
    room = [1 << 30]
    real = os.write

    def write(fd: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real(fd, bytes(data)[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr(privatefiles.os, "write", write)
    yield room
    monkeypatch.undo()


def test_the_cap_holds_whatever_is_written(tmp_path: Path):
    """B144: the bytes of all parts together never exceed ``max_bytes`` times one and backups."""
    file = log(tmp_path, max_bytes=100, backups=2)
    for number in range(200):
        assert file.append(lines(number, number)) == 2
        parts = sorted(each.name for each in (tmp_path / "logs").iterdir())
        assert len(parts) <= 3
        assert all((tmp_path / "logs" / each).stat().st_size <= 100 for each in parts)
    file.close()
    assert parts == ["fake.log", "fake.log.1", "fake.log.2"]


def test_one_large_batch_is_spread_over_the_parts(tmp_path: Path):
    file = log(tmp_path, max_bytes=100, backups=2)
    assert file.append(lines(*range(50))) == 50
    assert file.last(1000) == texts(*range(20, 50))
    file.close()


def test_the_cap_holds_in_a_crash_loop(tmp_path: Path):
    """B144: each life of a server and of the daemon goes on where the last one ended."""
    for number in range(100):
        file = log(tmp_path, max_bytes=100, backups=1)
        file.append(lines(number))
        file.close()
    assert sum(each.stat().st_size for each in (tmp_path / "logs").iterdir()) <= 200
    assert log(tmp_path, backups=1).last(3) == texts(97, 98, 99)


def test_without_backups_the_file_begins_anew(tmp_path: Path):
    file = log(tmp_path, max_bytes=100, backups=0)
    file.append(lines(*range(25)))
    assert os.listdir(tmp_path / "logs") == ["fake.log"]
    assert file.last(100) == texts(*range(20, 25))
    file.close()


def test_files_and_directory_are_private(tmp_path: Path):
    old = os.umask(0)
    try:
        file = log(tmp_path, max_bytes=20)
        file.append(lines(1, 2, 3))
        file.close()
    finally:
        os.umask(old)
    assert (tmp_path / "logs").stat().st_mode & 0o777 == 0o700
    assert {each.stat().st_mode & 0o777 for each in (tmp_path / "logs").iterdir()} == {0o600}


def test_the_last_lines_come_from_as_many_parts_as_it_takes(tmp_path: Path):
    file = log(tmp_path, max_bytes=100)
    file.append(lines(*range(35)))
    for count in (0, 1, 5, 6, 15, 16, 35, 36):
        assert file.last(count) == texts(*range(max(0, 35 - count), 35)), count
    file.close()


def test_long_files_are_read_from_their_end(tmp_path: Path):
    file = log(tmp_path, max_bytes=1 << 30)
    file.append(lines(*range(9999)) * 3)
    assert file.last(20_000)[:2] == texts(9997, 9998)
    assert file.last(2) == texts(9997, 9998)
    file.close()


def test_a_full_disk_is_counted_leaves_no_half_line_and_passes(
    tmp_path: Path, full_disk: list[int]
):
    """B121: logging degrades, and goes on when there is room again."""
    file = log(tmp_path)
    assert file.append(lines(1)) == 1
    full_disk[0] = 4
    assert file.append(lines(2, 3)) == 0
    assert file.append(lines(4)) == 0
    full_disk[0] = 1 << 30
    assert file.append(lines(5)) == 1
    assert file.last(10) == texts(1, 5)
    file.close()


def test_a_removed_directory_is_made_again(tmp_path: Path):
    file = log(tmp_path)
    file.append(lines(1))
    shutil.rmtree(tmp_path / "logs")
    assert file.last(10) == []
    assert file.append(lines(2)) == 1
    assert (tmp_path / "logs" / "fake.log").read_bytes() == b"line 0002\n"
    file.close()


def test_a_file_in_the_directorys_place_is_counted_and_left_alone(tmp_path: Path):
    (tmp_path / "logs").write_text("not a directory")
    file = log(tmp_path)
    assert file.append(lines(1)) == 0
    (tmp_path / "logs").unlink()
    assert file.append(lines(2)) == 1
    file.close()


def test_a_link_in_the_files_place_is_never_written_through(tmp_path: Path):
    """B118."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "target").write_text("mine")
    (tmp_path / "logs" / "fake.log").symlink_to(tmp_path / "target")
    file = log(tmp_path)
    assert file.append(lines(1)) == 0
    assert (tmp_path / "target").read_text() == "mine"
    assert file.last(10) == []


def test_two_daemons_that_share_a_log_lose_none_of_its_lines(tmp_path: Path):
    """
    When one rotates, the other must not go on in the old part.
    """
    one, two = log(tmp_path, max_bytes=100, backups=9), log(tmp_path, max_bytes=100, backups=9)
    for number in range(40):
        assert (one, two)[number % 2].append(lines(number)) == 1
    assert one.last(100) == two.last(100) == texts(*range(40))
    one.close()
    two.close()


def test_a_line_that_a_dead_daemon_left_unfinished_is_finished(tmp_path: Path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "fake.log").write_bytes(b"line 0001\nhalf")
    file = log(tmp_path)
    file.append(lines(2))
    assert file.last(3) == [b"line 0001", b"half", b"line 0002"]
    file.close()


def test_a_descriptor_that_was_passed_in_keeps_its_number(tmp_path: Path):
    """
    Stderr stays stderr: what else is written there goes into the new file, too.
    """
    path = tmp_path / "mcpd.log"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    file = LogFile(str(path), max_bytes=30, backups=1, fd=fd)
    assert file.append(lines(*range(5))) == 5
    os.write(fd, b"other\n")
    assert path.read_bytes() == b"line 0003\nline 0004\nother\n"
    file.close()
    os.close(fd)
