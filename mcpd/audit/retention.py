"""What is removed from the audit: what is too old, and the oldest of what is too much."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

STEP_ROWS: Final = 500
"""Rows that are removed in one transaction; then other work has its turn."""

STEP_PAGES: Final = 500
"""Pages that are given back to the disk at a time."""

FULL_PART: Final = 0.95
KEPT_PART: Final = 0.9
"""A file that has more than the first of its limit keeps the second: what comes next has room."""

PAYLOAD_DAYS: Final = 7
"""How long arguments and results are kept that ``record`` has asked for."""

DAY_MS: Final = 86_400_000

_LAST: Final = 2**63 - 1

_PAYLOAD_BEFORE: Final = (
    f"call < coalesce((SELECT id FROM call WHERE at >= ? ORDER BY at LIMIT 1), {_LAST})"
)

_NAMED: Final = {
    "call": ("principal", "client", "server", "tool", "method", "kind"),
    "event": ("what", "principal", "server", "subject"),
}


def retain(
    connection: sqlite3.Connection, *, now_ms: int, days: int, most_bytes: int
) -> Iterator[None]:
    """Remove what is over ``days`` or ``most_bytes``, one transaction between two yields.

    ``now_ms`` is milliseconds since the epoch. Raises ``sqlite3.Error``.
    """
    yield from _older(connection, "payload", now_ms - PAYLOAD_DAYS * DAY_MS)
    yield from _older(connection, "call", now_ms - days * DAY_MS)
    yield from _older(connection, "event", now_ms - days * DAY_MS)
    if is_full(connection, most_bytes):
        while used_bytes(connection) > most_bytes * KEPT_PART and _drop_oldest(connection):
            yield
    yield from _shrink(connection)


def before(connection: sqlite3.Connection, at_ms: int) -> Iterator[int]:
    """Remove the calls and events that ended before an instant; yield how many at a time."""
    for table in ("call", "event"):
        while count := _remove(connection, table, "at < ?", at_ms):
            yield count
    for _ in _shrink(connection):
        yield 0


def is_full(connection: sqlite3.Connection, most_bytes: int) -> bool:
    """Tell whether the oldest rows have to give way."""
    return used_bytes(connection) > most_bytes * FULL_PART


def used_bytes(connection: sqlite3.Connection) -> int:
    """Return the size of the file without its free pages."""
    pages, free, size = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def forget_unused_names(connection: sqlite3.Connection) -> None:
    """Remove the names that no row has any more."""
    used = " UNION ".join(
        f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL"
        for table, columns in _NAMED.items()
        for column in columns
    )
    connection.execute(f"DELETE FROM name WHERE id NOT IN ({used})")


def _older(connection: sqlite3.Connection, table: str, at_ms: int) -> Iterator[None]:
    condition = "at < ?" if table != "payload" else _PAYLOAD_BEFORE
    while _remove(connection, table, condition, at_ms):
        yield


def _remove(connection: sqlite3.Connection, table: str, condition: str, value: int) -> int:
    """Remove up to ``STEP_ROWS`` rows of a table, oldest first; return how many there were."""
    key = "call" if table == "payload" else "id"
    order = "at" if condition.startswith("at ") else key  # the index that finds them
    chosen = f"SELECT {key} FROM {table} WHERE {condition} ORDER BY {order} LIMIT {STEP_ROWS}"
    connection.execute("BEGIN IMMEDIATE")
    try:
        if table == "call":
            connection.execute(f"DELETE FROM payload WHERE call IN ({chosen})", (value,))
        done = connection.execute(f"DELETE FROM {table} WHERE {key} IN ({chosen})", (value,))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return done.rowcount


def _drop_oldest(connection: sqlite3.Connection) -> int:
    """Remove the oldest calls and the events that are as old; return how many rows there were."""
    last = connection.execute(
        f"SELECT max(at) FROM (SELECT at FROM call ORDER BY id LIMIT {STEP_ROWS})"
    ).fetchone()[0]
    removed = _remove(connection, "call", "id > ?", -1)
    if last is None:
        return removed + _remove(connection, "event", "id > ?", -1)
    return removed + _remove(connection, "event", "at <= ?", last)


def _shrink(connection: sqlite3.Connection) -> Iterator[None]:
    """Give free pages back to the disk, and empty the write-ahead log."""
    free = connection.execute("PRAGMA freelist_count").fetchone()[0]
    while free:
        # ``execute`` takes one step of a statement without columns: one page
        connection.executescript(f"PRAGMA incremental_vacuum({STEP_PAGES})")
        yield
        left = connection.execute("PRAGMA freelist_count").fetchone()[0]
        if left >= free:
            break
        free = left
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
