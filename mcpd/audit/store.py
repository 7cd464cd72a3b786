"""The file as its one writer has it: rows are added, names are numbered."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable
from typing import Final, NamedTuple

from mcpd.audit import schema

MOST_NAMES: Final = 10_000
"""Names whose numbers are kept in memory."""

NAME_LENGTH: Final = 256
"""Characters of a name that are kept: clients choose the names that they call."""

MOST_AT_ONCE: Final = 64
"""Calls that one statement adds: each statement takes the interpreter from the event loop once."""

_COLUMNS: Final = (
    "principal, client, server, tool, method, kind, at, session, outcome, ms, wait_ms, in_bytes, "
    "out_bytes, in_hash, out_hash, pin, approval, flags"
)
"""The members of ``CallNames``, then those of ``CallRow`` up to its payload."""
_ROW: Final = f"({', '.join('?' * len(_COLUMNS.split(',')))})"
_CALLS: Final = tuple(
    f"INSERT INTO call({_COLUMNS}) VALUES {', '.join([_ROW] * count)}"
    for count in range(MOST_AT_ONCE + 1)
)
"""The statement for each number of calls."""

_EVENT: Final = (
    "INSERT INTO event(at, what, principal, server, subject, detail) VALUES (?, ?, ?, ?, ?, ?)"
)


CallNames = tuple[str, str | None, str | None, str | None, str, str | None]
"""The texts of a call: principal, client, server, tool, method and kind."""


class CallRow(NamedTuple):
    """A call as it is written, with its names as texts."""

    names: CallNames
    at: int
    """When it ended: milliseconds since the epoch."""
    session: int
    outcome: int
    ms: int
    wait_ms: int
    in_bytes: int
    out_bytes: int
    in_hash: bytes | None
    out_hash: bytes | None
    pin: bytes | None
    approval: int | None
    flags: int
    arguments: bytes | None = None
    """Compressed, where they are recorded."""
    result: bytes | None = None


class EventRow(NamedTuple):
    """An event as it is written."""

    at: int
    what: str
    principal: str | None
    server: str | None
    subject: str | None
    detail: str
    """A JSON object."""


class Store:
    """An open file. Not for more than one thread; methods raise ``sqlite3.Error``."""

    def __init__(self, path: str) -> None:
        """Open the file; raise as ``schema.open_for_writing`` does."""
        self.connection = schema.open_for_writing(path)
        self._path = path
        self._inode = os.stat(path).st_ino
        self._numbers: dict[str, int] = {}
        self._groups: dict[CallNames, tuple[int | None, ...]] = {}
        """The numbers of a call's names: most calls are like one before."""

    def is_there(self) -> bool:
        """Tell whether the file has its name still: somebody may have removed it."""
        try:
            return os.stat(self._path).st_ino == self._inode
        except OSError:
            return False

    def write(self, rows: Iterable[CallRow | EventRow]) -> None:
        """Add rows in their order, in one transaction."""
        execute = self.connection.execute
        execute("BEGIN IMMEDIATE")
        try:
            calls: list[CallRow] = []
            for row in rows:
                if isinstance(row, EventRow):
                    self._add_event(row)
                    continue
                calls.append(row)
                has_payload = row.arguments is not None or row.result is not None
                if has_payload or len(calls) == MOST_AT_ONCE:
                    self._add_calls(calls)
                    calls = []
            if calls:
                self._add_calls(calls)
            execute("COMMIT")
        except BaseException:
            self.forget_names()  # those that were numbered here have not been written
            if self.connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    execute("ROLLBACK")
            raise

    def forget_names(self) -> None:
        """Read the numbers of names again."""
        self._numbers.clear()
        self._groups.clear()

    def close(self) -> None:
        """Close the file; what is in the write-ahead log is moved to it."""
        with contextlib.suppress(sqlite3.Error):
            self.connection.close()

    def _add_calls(self, rows: list[CallRow]) -> None:
        """Add calls, of which the last one alone may have a payload."""
        values: list[object] = []
        groups = self._groups
        for row in rows:
            values += groups.get(row[0]) or self._numbered(row[0])
            values += row[1:13]
        added = self.connection.execute(_CALLS[len(rows)], values)
        last = rows[-1]
        if last.arguments is not None or last.result is not None:
            self.connection.execute(
                "INSERT OR REPLACE INTO payload(call, args, result) VALUES (?, ?, ?)",
                (added.lastrowid, last.arguments, last.result),
            )

    def _numbered(self, names: CallNames) -> tuple[int | None, ...]:
        """Return the numbers of a call's names, and keep them for the next one with the same."""
        numbers = tuple(map(self._number, names))
        if len(self._groups) >= MOST_NAMES:
            self._groups.clear()
        self._groups[names] = numbers
        return numbers

    def _add_event(self, row: EventRow) -> None:
        names = (row.what, row.principal, row.server, row.subject)
        self.connection.execute(_EVENT, (row.at, *map(self._number, names), row.detail))

    def _number(self, text: str | None) -> int | None:
        if text is None:
            return None
        number = self._numbers.get(text)
        if number is not None:
            return number
        kept = text[:NAME_LENGTH].encode(errors="replace").decode()
        execute = self.connection.execute
        found = execute("SELECT id FROM name WHERE text = ?", (kept,)).fetchone()
        if found is None:
            found = (execute("INSERT INTO name(text) VALUES (?)", (kept,)).lastrowid,)
        if len(self._numbers) >= MOST_NAMES:
            self._numbers.clear()
            self._groups.clear()
        number = self._numbers[text] = int(found[0])
        return number
