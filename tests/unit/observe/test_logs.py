"""The daemon's log never waits, never grows, and says one thing a line."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpd.observe.logs import DaemonLog, LogLine, install


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    path = tmp_path / "mcpd.log"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    yield path, fd
    os.close(fd)


def test_a_line_has_time_level_event_and_keys(log_file: tuple[Path, int]) -> None:
    path, fd = log_file
    DaemonLog(fd).log("info", "server.ready", server="a b", took=1.5, nothing=None)
    (line,) = path.read_text().splitlines()
    pattern = r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info    server\.ready server="a b" took=1\.5'
    assert re.fullmatch(pattern, line)


def test_a_value_never_becomes_a_line_of_its_own(log_file: tuple[Path, int]) -> None:
    path, fd = log_file
    DaemonLog(fd).log("info", "x", text="two\nlines \x1b[31m")
    (line,) = path.read_text().splitlines()
    assert line.endswith('x text="two\\nlines \\u001b[31m"')


def test_what_is_below_the_level_is_not_written(log_file: tuple[Path, int]) -> None:
    path, fd = log_file
    log = DaemonLog(fd, level="warning")
    log.log("info", "no")
    log.log("error", "yes")
    assert [line.split()[-1] for line in path.read_text().splitlines()] == ["yes"]
    assert [line.text.split()[-1] for line in log.tail(9)] == ["yes"]


def test_the_newest_lines_are_kept_and_followed(log_file: tuple[Path, int]) -> None:
    log = DaemonLog(log_file[1])
    seen: list[LogLine] = []
    log.log("info", "one")
    leave = log.follow(seen.append)
    log.log("info", "two")
    leave()
    log.log("info", "three")
    assert [line.text.split()[-1] for line in seen] == ["two"]
    assert [line.text.split()[-1] for line in log.tail(2)] == ["two", "three"]
    assert log.tail(0) == []
    assert log.tail(2)[0].source == "mcpd"


def test_a_reader_that_does_not_read_costs_lines_and_nobody_time() -> None:
    """
    A terminal that is stopped must not stop every client.
    """
    reading, writing = os.pipe()
    log = DaemonLog(writing)
    for number in range(500):
        log.log("info", "flood", number=number, text="x" * 1000)
    read = os.read(reading, 1 << 20)
    log.log("info", "after")
    said = os.read(reading, 1 << 20).decode()
    kept = read.count(b"\n")
    assert 0 < kept < 500
    assert f"[{500 - kept} lines are missing here]" in said
    assert said.endswith("info    after\n")
    os.close(reading)
    log.log("info", "nobody is left")
    os.close(writing)


def test_its_own_file_is_rotated_within_a_cap(tmp_path: Path) -> None:
    """
    B144: every log we write is covered.
    """
    path = tmp_path / "mcpd.log"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    log = DaemonLog(fd, file=str(path), max_bytes=2000, backups=2)
    for number in range(200):
        log.log("info", "line", number=number)
    os.close(fd)
    files = sorted(each.name for each in tmp_path.iterdir())
    assert files == ["mcpd.log", "mcpd.log.1", "mcpd.log.2"]
    assert all(each.stat().st_size < 2100 for each in tmp_path.iterdir())
    newest = path.read_text() or (tmp_path / "mcpd.log.1").read_text()
    assert newest.splitlines()[-1].endswith("number=199")


def test_a_file_of_somebody_elses_is_not_rotated(tmp_path: Path) -> None:
    """
    ``mcpd 2> my.log``: what it is called and how long it gets is for whoever named it.
    """
    theirs = tmp_path / "my.log"
    (tmp_path / "mcpd.log").touch()
    fd = os.open(theirs, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    log = DaemonLog(fd, file=str(tmp_path / "mcpd.log"), max_bytes=100, backups=2)
    for number in range(20):
        log.log("info", "line", number=number)
    os.close(fd)
    assert len(theirs.read_text().splitlines()) == 20


@pytest.fixture
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    kept, level, raising, last = (
        root.handlers[:],
        root.level,
        logging.raiseExceptions,
        logging.lastResort,
    )
    yield
    root.handlers[:] = kept
    root.setLevel(level)
    logging.raiseExceptions, logging.lastResort = raising, last


@pytest.mark.usefixtures("root_logger")
def test_what_libraries_and_crashed_tasks_log_is_in_it(log_file: tuple[Path, int]) -> None:
    path, fd = log_file
    install(DaemonLog(fd))
    error = ValueError("oops")
    logging.getLogger("mcpd.tasks").error(
        "task.crashed", exc_info=error, extra={"keys": {"task": "t"}}
    )
    (line,) = path.read_text().splitlines()
    assert "error   task.crashed task=t" in line
    assert "ValueError: oops" in line
