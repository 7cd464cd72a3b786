"""Cases from the field: ``kill -9`` while calls are recorded."""

from __future__ import annotations

import contextlib
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.support.daemon import Box, RpcError
from tests.support.waiting import scaled

KILLS: Final = 20
LOST_S: Final = 0.25
"""What a kill costs at most, of the calls before it."""

LATE_S: Final = 1.0
"""What one in ten may cost: a busy machine runs late."""

WRITER: Final = """
import sys, time
from mcpd.audit.writer import Writer
from tests.unit.audit.support import MIB, Settings, Reports, call
nothing = lambda *_: None
writer = Writer(sys.argv[1], Settings(30, 256 * MIB), Reports(nothing, nothing, nothing))
number, started = 0, time.monotonic()
while True:
    while number < (time.monotonic() - started) * 2000:
        writer.add_call(call(request_bytes=number))
        number += 1
    print(number, flush=True)
    time.sleep(0.001)
"""
"""Records 2,000 calls a second, as the daemon does, and says how many."""


class Ledger:
    """What a file has after each kill."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = 0
        self._lost: list[float] = []
        """How many seconds each kill has cost."""

    def check(self, answered: list[float], killed: float) -> None:
        """Compare a file with the calls of one life, of which each has its number as its size."""
        rows, whole = _read(self._path)
        assert whole == "ok"
        now = rows[self._kept :]
        assert [each - now[0] for each in now] == list(range(len(now))), "one is missing in between"
        assert len(now) <= len(answered) + 1, "of the last one the answer may not have been read"
        lost = answered[len(now) :]
        self._lost.append(killed - lost[0] if lost else 0.0)
        self._kept = len(rows)

    def close(self) -> None:
        """Check how much was lost, and that no file was given up."""
        assert self._kept
        lost = sorted(self._lost)
        assert lost[-1] < scaled(LATE_S) and lost[len(lost) * 9 // 10 - 1] < scaled(LOST_S), lost
        assert not list(self._path.parent.glob("audit.db.bad-*"))


def _read(path: Path) -> tuple[list[int], str]:
    """Return the size of each call in a file, and what SQLite says of the file."""
    if not path.exists():
        return [], "ok"
    with contextlib.closing(sqlite3.connect(path)) as database:
        (whole,) = database.execute("PRAGMA integrity_check").fetchone()
        if not database.execute("PRAGMA user_version").fetchone()[0]:
            return [], whole
        rows = database.execute("SELECT in_bytes FROM call ORDER BY id").fetchall()
        return [size for (size,) in rows], whole


def test_a_writer_that_is_killed_at_any_moment_loses_the_last_rows(tmp_path: Path):
    """
    What is missing is the end, less than 250 ms of it; the file is whole, and goes on.
    """
    moments, place = random.Random(1), tmp_path / "state"
    place.mkdir(mode=0o700)
    ledger = Ledger(place / "audit.db")
    for _ in range(KILLS):
        answered: list[float] = []
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(place)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            end = time.monotonic() + moments.uniform(0, 0.6)
            while time.monotonic() < end:
                answered += [time.monotonic()] * (int(line) - len(answered))
                line = process.stdout.readline()
            process.kill()
            killed = time.monotonic()
            more = [line, *process.stdout.readlines()]
        count = max(int(each) for each in more if each.endswith("\n"))
        answered += [killed] * (count - len(answered))
        answered += [killed] * 2000  # recorded, and not yet said
        ledger.check(answered, killed)
    ledger.close()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_daemon_that_is_killed_at_any_moment_loses_the_last_rows():
    """
    The same of whole daemons, with a session that calls without a pause.
    """
    moments, box = random.Random(2), Box()
    ledger = Ledger(box.state / "audit.db")
    try:
        box.fake()
        for _ in range(KILLS):
            box.up()
            session = box.session()
            answered = [_called(session.call, 0)]
            end = time.monotonic() + moments.uniform(0, 0.5)
            while time.monotonic() < end:
                answered.append(_called(session.call, len(answered)))
            assert box.daemon is not None
            box.daemon.kill()
            killed = time.monotonic()
            with contextlib.suppress(OSError, EOFError, AssertionError, RpcError):
                session.call("echo", text="")
            box.down(signal.SIGKILL)
            ledger.check(answered, killed)
        ledger.close()
    finally:
        box.close()


def _called(call: Callable[..., object], number: int) -> float:
    call("echo", 20, text="x" * number)
    return time.monotonic()
