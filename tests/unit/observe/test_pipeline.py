"""Events become lines of the daemon's log, in order and without secrets."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpd.logfiles.daemonlog import DaemonLog
from mcpd.logfiles.line import LogLine
from mcpd.observe.form import Form
from mcpd.observe.pipeline import Pipeline, install
from mcpd.redact import Redactor


class Made:
    """A pipeline whose lines go into a file."""

    def __init__(self, path: Path, *, is_loaded: bool = True) -> None:
        self.path = path
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        form = Form()
        self.pipeline = Pipeline(DaemonLog(self.fd, note=form.note), form)
        self.logger = self.pipeline.logger
        if is_loaded:
            self.pipeline.load()

    def lines(self) -> list[str]:
        """Return what was written, without the times."""
        return [line.partition(" ")[2] for line in self.path.read_text().splitlines()]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    it = Made(tmp_path / "mcpd.log")
    yield it
    os.close(it.fd)


@pytest.fixture
def early(tmp_path: Path) -> Iterator[Made]:
    """One that has not imported structlog yet."""
    it = Made(tmp_path / "mcpd.log", is_loaded=False)
    yield it
    os.close(it.fd)


def test_a_line_has_time_level_event_and_keys(made: Made) -> None:
    made.logger.info("server.ready", server="a b", took=1.5, nothing=None)
    (line,) = made.path.read_text().splitlines()
    pattern = r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info    server\.ready server="a b" took=1\.5'
    assert re.fullmatch(pattern, line)


def test_a_bound_logger_adds_its_keys_to_each_line(made: Made) -> None:
    bound = made.logger.bind(server="files").bind(pid=7)
    bound.debug("not.written")
    bound.warning("one", text="x")
    bound.error("two")
    made.logger.info("three")
    assert made.lines() == [
        "warning one server=files pid=7 text=x",
        "error   two server=files pid=7",
        "info    three",
    ]


def test_what_is_below_the_level_is_not_written(made: Made) -> None:
    made.pipeline.level_name = "warning"
    made.logger.info("no")
    made.logger.error("yes")
    made.pipeline.level_name = "debug"
    made.logger.debug("now")
    assert made.lines() == ["error   yes", "debug   now"]


def test_the_form_may_change_between_two_lines(made: Made) -> None:
    made.logger.info("one", number=1)
    made.pipeline.form.name = "json"
    made.logger.info("two", number=2)
    first, second = made.path.read_text().splitlines()
    assert first.endswith("info    one number=1")
    assert json.loads(second) | {"level": "info", "event": "two", "number": 2} == json.loads(second)


def test_lines_from_before_the_import_are_written_in_order_with_their_own_time(early: Made) -> None:
    early.logger.info("one", server="files")
    bound = early.logger.bind(pid=7)
    bound.debug("hidden")
    bound.error("two")
    assert early.path.read_text() == ""
    before = [each.time for each in early.pipeline._early]
    early.pipeline.load()
    early.pipeline.load()
    bound.info("three")
    assert early.lines() == ["info    one server=files", "error   two pid=7", "info    three pid=7"]
    times = [line.partition(" ")[0] for line in early.path.read_text().splitlines()]
    assert times[:2] == [before[0], before[2]]


def test_who_reads_or_follows_the_log_gets_the_lines_from_before(early: Made) -> None:
    early.logger.info("one")
    (piece,) = early.pipeline.pieces(9)
    assert [line.text for line in piece] == ["info    one"]
    seen: list[LogLine] = []
    leave = early.pipeline.follow(seen.append)
    early.logger.info("two")
    leave()
    early.logger.info("three")
    assert [line.text for line in seen] == ["info    two"]
    assert list(early.pipeline.pieces(0)) == []


def test_a_line_can_be_written_although_structlog_cannot_be_imported(early: Made) -> None:
    early.pipeline.write_directly("error", "log.delayed", {"error": "no descriptors"})
    assert early.lines() == ['error   log.delayed error="no descriptors"']


def test_every_value_is_masked_but_names_and_paths(made: Made) -> None:
    """
    A password may be the name of a database: the lines of its server must still be found.
    """
    made.pipeline.mask = lambda server, text: Redactor([f"secret-of-{server}"]).mask(text)
    made.logger.bind(server="secret-of-a").info("x", text="a secret-of-a", path="/secret-of-a")
    made.logger.bind(server="a").error("secret-of-a", error=ValueError("has secret-of-a"))
    made.logger.info("x", text="secret-of-None", number=1)
    assert made.lines() == [
        'info    x server=secret-of-a text="a secret-of-a" path=/secret-of-a',
        'error   secret-of-a server=a error="has ***"',
        "info    x text=*** number=1",
    ]


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
def test_what_libraries_and_crashed_tasks_log_is_in_it(made: Made) -> None:
    install(made.logger)
    error = ValueError("oops")
    logging.getLogger("mcpd.tasks").error(
        "task.crashed", exc_info=error, extra={"keys": {"task": "t"}}
    )
    logging.getLogger("other").info("below the level of asyncio alone")
    crashed, other = made.lines()
    assert crashed.startswith("error   task.crashed task=t error=")
    assert "ValueError: oops" in crashed
    assert other == "info    below the level of asyncio alone"


@pytest.mark.usefixtures("root_logger")
def test_what_others_log_is_masked(made: Made) -> None:
    """
    B139: nobody knows what stands in the exception of a library.
    """
    redactor = Redactor(['sentinel"-1234'])
    made.pipeline.mask = lambda _, text: redactor.mask(text)
    install(made.logger)
    logging.getLogger("other").error('saw sentinel"-1234', exc_info=ValueError('sentinel"-1234'))
    (line,) = made.lines()
    assert "saw ***" in line
    assert "ValueError: ***" in line
    assert "sentinel" not in line


def test_the_daemon_does_not_import_structlog_before_it_answers() -> None:
    script = "import mcpd.daemon.run, sys; assert 'structlog' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
