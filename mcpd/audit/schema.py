"""The tables of the audit, how a file of them is opened, and what is wrong with one."""

from __future__ import annotations

import os
import sqlite3
from typing import Final
from urllib.parse import quote

from mcpd import privatefiles
from mcpd.errors import McpdError

JOURNAL_BYTES: Final = 16 * 1024 * 1024
"""What the write-ahead log is cut to after a checkpoint."""

BUSY_S: Final = 0.2
"""Seconds that the writer waits for another program's lock, each time that it tries."""

_MIGRATIONS: Final = (
    """
    CREATE TABLE name(id INTEGER PRIMARY KEY, text TEXT UNIQUE);
    CREATE TABLE call(id INTEGER PRIMARY KEY, at INTEGER, session INT, principal INT, client INT,
        server INT, tool INT, method INT, outcome INT, kind INT, ms INT, wait_ms INT,
        in_bytes INT, out_bytes INT, in_hash BLOB, out_hash BLOB, pin BLOB, approval INT,
        flags INT);
    CREATE TABLE event(id INTEGER PRIMARY KEY, at INTEGER, what INT, principal INT, server INT,
        subject INT, detail TEXT);
    CREATE TABLE payload(call INTEGER PRIMARY KEY, args BLOB, result BLOB);
    CREATE INDEX call_at ON call(at);
    CREATE INDEX call_server_at ON call(server, at);
    CREATE INDEX event_at ON event(at);
    """,
)
"""One script for each version, from the one before. ``PRAGMA user_version`` is their number."""

VERSION: Final = len(_MIGRATIONS)

_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class AuditError(McpdError):
    """The audit cannot be read."""

    slug = "audit_unreadable"


class NoAudit(AuditError):
    """Nothing has been recorded yet."""


class NewerFile(AuditError):
    """The file was written by a later mcpd, and is left alone."""


def open_for_writing(path: str) -> sqlite3.Connection:
    """Return a connection to the file, made or brought to the newest version if need be.

    Raises ``NewerFile``, ``OSError`` (also for a link, and for a file of others) and
    ``sqlite3.Error``; ``is_damaged`` tells of the latter whether the file is none of ours.
    """
    _make_private(path)
    found = _version(path)
    if found > VERSION:
        raise _newer(path, found)
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
    try:
        if found == 0:
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(f"PRAGMA journal_size_limit={JOURNAL_BYTES}")
        _migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def open_for_reading(path: str, timeout: float) -> sqlite3.Connection:
    """Return a connection that can only read; ``timeout`` seconds are the most that it waits.

    Raises ``AuditError``, which is ``NoAudit`` where nothing was recorded.
    """
    if not os.path.exists(path):
        raise NoAudit(f"nothing is recorded yet: there is no {path}")
    try:
        connection = _read_only(path, timeout)
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.Error as error:
        raise AuditError(f"cannot read {path}: {error}", hint="mcpctl doctor") from None
    if version > VERSION:
        connection.close()
        raise _newer(path, version)
    if version == 0:
        connection.close()
        raise NoAudit(f"nothing is recorded yet in {path}")
    return connection


def is_damaged(error: sqlite3.Error) -> bool:
    """Tell whether an error means that the file is broken, or no database."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _DAMAGED


def is_locked(error: Exception) -> bool:
    """Tell whether another program holds the file, which is not to be opened again for that."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _make_private(path: str) -> None:
    """Make the file with the mode that SQLite gives the files beside it, too."""
    folder, name = os.path.split(path)
    directory = privatefiles.open_checked(folder)
    try:
        fd = privatefiles.open_file(name, os.O_RDWR | os.O_CREAT, directory=directory)
        try:
            if os.fstat(fd).st_uid != os.geteuid():
                raise PermissionError(f"{path} belongs to another user")
            os.fchmod(fd, 0o600)
        finally:
            os.close(fd)
    finally:
        os.close(directory)


def _version(path: str) -> int:
    """Return the version of a file without changing it."""
    connection = _read_only(path, BUSY_S)
    try:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])
    finally:
        connection.close()


def _migrate(connection: sqlite3.Connection) -> None:
    """Bring the tables to the newest version, in one transaction."""
    if connection.execute("PRAGMA user_version").fetchone()[0] == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = int(connection.execute("PRAGMA user_version").fetchone()[0])
        for script in _MIGRATIONS[found:]:
            for statement in filter(str.strip, script.split(";")):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version={VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _newer(path: str, version: int) -> NewerFile:
    return NewerFile(
        f"{path} was written by a later mcpd: its tables have version {version}, this one knows "
        f"{VERSION}",
        hint="use the mcpctl of that release",
    )


def _read_only(path: str, timeout: float) -> sqlite3.Connection:
    """Return a connection that makes no files beside one that nobody has open."""
    how = "mode=ro" if os.path.exists(f"{path}-wal") else "mode=ro&immutable=1"
    return sqlite3.connect(f"file:{quote(path)}?{how}", uri=True, timeout=timeout)
