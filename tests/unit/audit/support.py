"""Calls as the core reports them, a writer in a directory, and what is in its file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcpd.audit.reader import Filter, Reader, Row
from mcpd.audit.schema import AuditError
from mcpd.audit.settings import Reports, Settings
from mcpd.audit.writer import Writer
from mcpd.core.facts import CallEnded
from mcpd.ids import SessionId
from mcpd.principal import local
from tests.support.waiting import wait_until

MIB = 1024 * 1024
ALL = Filter()


def call(name: str | None = "echo", **more: Any) -> CallEnded:
    """Return a call that ended."""
    given: dict[str, Any] = {
        "session": SessionId(1),
        "principal": local(1000),
        "client": "tests",
        "server": "fake",
        "method": "tools/call",
        "name": name,
        "outcome": "answered",
        "kind": None,
        "duration_s": 0.012,
        "wait_s": 0.001,
        "request_bytes": 7,
        "result_bytes": 9,
        "arguments": b'{"a":1}',
        "result": b'{"b":"c"}',
    }
    return CallEnded(**{**given, **more})


class Audit:
    """A writer, and what its thread reported."""

    def __init__(self, path: Path, settings: Settings | None = None) -> None:
        self.path = path
        self.troubles: list[tuple[str | None, float]] = []
        self.gaps: list[tuple[int, int]] = []
        self.aside: list[tuple[str, str]] = []
        reports = Reports(
            lambda why, seconds: self.troubles.append((why, seconds)),
            lambda rows, hashes: self.gaps.append((rows, hashes)),
            lambda path, why: self.aside.append((path, why)),
        )
        self.writer = Writer(str(path), settings or Settings(30, 256 * MIB), reports)

    def rows(self, wanted: Filter = ALL, count: int = 100_000) -> list[Row]:
        """Return the calls in the file."""
        return read(self.path, lambda reader: reader.newest(wanted, count))

    def events(self) -> list[Row]:
        """Return the events in the file."""
        return read(self.path, lambda reader: reader.events(count=100_000))

    def wait_rows(self, count: int) -> list[Row]:
        """Wait until there are so many calls in the file, and return them."""
        wait_until((self.path / "audit.db").exists)
        return wait_until(lambda: len(found := self._rows_or_none()) >= count and found)

    def _rows_or_none(self) -> list[Row]:
        try:
            return self.rows()
        except AuditError:  # it is being made
            return []


def read(path: Path, how: Callable[[Reader], Any]) -> Any:
    """Return what ``how`` reads of the audit in a directory."""
    reader = Reader(str(path))
    try:
        return how(reader)
    finally:
        reader.close()
