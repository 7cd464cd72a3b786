"""A log line has one form, and holds no secret."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpd.logfiles.daemonlog import DaemonLog
from mcpd.logfiles.line import LogLine
from mcpd.observe.logs import Logger, install
from mcpd.redact import Redactor


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    path = tmp_path / "mcpd.log"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    yield path, fd
    os.close(fd)


def test_a_line_has_time_level_event_and_keys(log_file: tuple[Path, int]) -> None:
    path, fd = log_file
    Logger(DaemonLog(fd)).log("info", "server.ready", server="a b", took=1.5, nothing=None)
    (line,) = path.read_text().splitlines()
    pattern = r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info    server\.ready server="a b" took=1\.5'
    assert re.fullmatch(pattern, line)


def test_a_value_never_becomes_a_line_of_its_own(log_file: tuple[Path, int]) -> None:
    path, fd = log_file
    Logger(DaemonLog(fd)).log("info", "x", text="two\nlines \x1b[31m")
    (line,) = path.read_text().splitlines()
    assert line.endswith('x text="two\\nlines \\u001b[31m"')


def test_what_is_below_the_level_is_not_written(log_file: tuple[Path, int]) -> None:
    path, fd = log_file
    lines = DaemonLog(fd)
    log = Logger(lines, level="warning")
    log.log("info", "no")
    log.log("error", "yes")
    assert [line.split()[-1] for line in path.read_text().splitlines()] == ["yes"]
    assert [line.text.split()[-1] for line in lines.tail(9)] == ["yes"]


def test_the_newest_lines_are_kept_and_followed(log_file: tuple[Path, int]) -> None:
    lines = DaemonLog(log_file[1])
    log = Logger(lines)
    seen: list[LogLine] = []
    log.log("info", "one")
    leave = lines.follow(seen.append)
    log.log("info", "two")
    leave()
    log.log("info", "three")
    assert [line.text.split()[-1] for line in seen] == ["two"]
    assert [line.text.split()[-1] for line in lines.tail(2)] == ["two", "three"]
    assert lines.tail(0) == []
    assert lines.tail(2)[0].source == "mcpd"


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
    install(Logger(DaemonLog(fd)))
    error = ValueError("oops")
    logging.getLogger("mcpd.tasks").error(
        "task.crashed", exc_info=error, extra={"keys": {"task": "t"}}
    )
    (line,) = path.read_text().splitlines()
    assert "error   task.crashed task=t" in line
    assert "ValueError: oops" in line


@pytest.mark.usefixtures("root_logger")
def test_what_others_log_is_masked(log_file: tuple[Path, int]) -> None:
    """
    B139: nobody knows what stands in the exception of a library.
    """
    path, fd = log_file
    log = Logger(DaemonLog(fd))
    log.mask = Redactor(['sentinel"-1234']).mask
    install(log)
    logging.getLogger("other").error('saw sentinel"-1234', exc_info=ValueError('sentinel"-1234'))
    assert "saw ***" in path.read_text()
    assert "ValueError: ***" in path.read_text()
    assert "sentinel" not in path.read_text()
