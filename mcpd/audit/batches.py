"""What the audit's thread does: hashes, writes, tries again, and removes what is old."""

from __future__ import annotations

import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from mcpd.audit import hashes, record, retention, schema
from mcpd.audit.payloads import Recorded, kept
from mcpd.audit.queue import MOST_BYTES, READ_ROWS, Event, Queue
from mcpd.audit.settings import Reports, Settings
from mcpd.audit.store import MOST_NAMES, CallRow, EventRow, Store
from mcpd.core.facts import CallEnded
from mcpd.visible import encodable

CLOSING_S: Final = 2.0
"""Seconds in which what waits is written at the end."""

RETRY_S: Final = 0.25
"""Seconds between two tries to write."""

TOLD_S: Final = 1.0
"""Seconds after which it is reported that nothing can be written: a short lock is no trouble."""

AT_ONCE: Final = 16
"""Rows that are read, some 100 µs, before the event loop may have the interpreter."""

PAUSE_S: Final = 0.0004
"""Seconds that it has it for then: to take it back at once would stop it again at each step."""

HURRY_ROWS: Final = 1000
"""Rows that wait to be read without such pauses."""

BATCH_ROWS: Final = 512
BATCH_S: Final = 0.15
"""A batch is written when it has so many rows, or when its first one is so old: it is on the disk
within 250 ms then."""

RETAIN_EVERY_S: Final = 600.0

LOOK_EVERY_S: Final = 10.0
"""Seconds between two looks at the size of a file that is written to."""

REST_S: Final = 0.02
"""Seconds between two steps that remove old rows: one takes 2 or 3 ms, and others have work."""

MOST_DETAIL: Final = 4096
"""Characters of an event's detail."""

LOG_BYTES: Final = 64 * 1024 * 1024
"""A write-ahead log that cannot be emptied grows to this, or to ``audit_max`` where that is more:
another program may read it for days."""

ASIDE_EVERY_S: Final = 60.0
"""Seconds between two broken files that are set aside: the disk may break each of them."""

_MOST_FILE_BYTES: Final = 16 * 1024 * 1024


class Batches:
    """Writes rows in transactions; keeps those that cannot be written, in their order."""

    def __init__(
        self, state_dir: str, queue: Queue, settings: Callable[[], Settings], reports: Reports
    ) -> None:
        self._state_dir = state_dir
        self._path = record.path_in(state_dir)
        self._queue = queue
        self._settings = settings
        self._reports = reports
        self._store: Store | None = None
        self._hash: Callable[[msgspec.Raw | bytes], bytes]
        """Hashes with the key, once there is a file."""
        self._rows: list[CallRow | EventRow] = []
        """Rows that have been read and are not written."""
        self._write_at = math.inf
        """When those are written at the latest."""
        self._payload_bytes = 0
        """Bytes of recorded arguments and results among them."""
        self._failing_since: float | None = None
        self._off: str | None = None
        """Why nothing is recorded at all."""
        self._told_rows = self._told_hashes = 0
        """What an event says that is missing."""
        self._retain_at = self._look_at = 0.0
        self._retention: Iterator[None] | None = None
        self._aside_at = -math.inf

    def run(self) -> None:
        """Write until the queue is closed and empty."""
        closing_at = math.inf
        while True:
            self._wait()
            if self._queue.is_closing.is_set():
                closing_at = min(closing_at, time.monotonic() + CLOSING_S)
            flushes = self._queue.take_flushes()
            self._turn(is_urgent=bool(flushes) or closing_at < math.inf)
            for done in flushes:
                done.set()
            is_done = not self._rows and not len(self._queue)
            if closing_at < math.inf and (is_done or time.monotonic() >= closing_at):
                self._close()
                return

    def _wait(self) -> None:
        if self._failing_since is not None:
            self._queue.is_closing.wait(RETRY_S)
            if self._queue.is_closing.is_set():
                time.sleep(REST_S)
        elif self._retention is not None and not len(self._queue):
            self._queue.is_closing.wait(REST_S)
        elif self._rows:
            self._queue.wait(self._write_at - time.monotonic(), READ_ROWS)
        else:
            self._queue.wait(None if self._off else self._retain_at - time.monotonic())
            self._write_at = time.monotonic() + BATCH_S
            if len(self._queue) and not self._off:
                self._queue.wait(BATCH_S, READ_ROWS)

    def _turn(self, *, is_urgent: bool) -> None:
        try:
            if not self._open():
                self._discard()
                return
            self._read()
            is_due = len(self._rows) >= BATCH_ROWS or time.monotonic() >= self._write_at
            if self._failing_since is not None or (self._rows and (is_due or is_urgent)):
                self._write()
            if not self._queue.is_closing.is_set():
                self._retain()
        except (sqlite3.Error, OSError) as error:
            self._failed(error)

    # -- the file ----------------------------------------------------------------------------------

    def _open(self) -> bool:
        """Open the file unless it is open; tell whether there is one that can be used."""
        if self._off is not None:
            return False
        if self._store is not None:
            if self._store.is_there():
                return True
            self._close()
        try:
            self._store = Store(self._path)
        except schema.NewerFile as newer:
            self._off, self._failing_since = newer.message, None
            self._reports.trouble(self._off, math.inf)
            return False
        self._hash = hashes.Hasher(hashes.make_key(self._state_dir))
        return True

    def _close(self) -> None:
        self._retention = None
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def _failed(self, error: sqlite3.Error | OSError) -> None:
        """Keep what cannot be written; begin another file where this one is broken."""
        now = time.monotonic()
        is_damaged = isinstance(error, sqlite3.Error) and schema.is_damaged(error)
        if is_damaged and now - self._aside_at >= ASIDE_EVERY_S:
            self._aside_at = now
            self._set_aside(str(error))
            return
        if not schema.is_locked(error):
            self._close()  # another try begins with the file as it is then
        self._retention = None
        if self._failing_since is None:
            self._failing_since = now
        elif now - self._failing_since >= TOLD_S:
            self._reports.trouble(_why(error), now - self._failing_since)

    def _set_aside(self, why: str) -> None:
        self._close()
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        aside = os.path.join(self._state_dir, record.BAD + stamp)
        try:
            os.replace(self._path, aside)
            for ending in ("-wal", "-shm"):
                if os.path.lexists(self._path + ending):
                    os.replace(self._path + ending, aside + ending)
        except OSError as error:
            self._failed(error)
            return
        self._reports.set_aside(aside, why)

    # -- rows --------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Make rows of what waits now. Its frames are not held any longer then."""
        queue, rows = self._queue, self._rows
        recorded = self._settings().recorded
        for number in range(1, len(queue) + 1):
            row = queue.take()
            if row is None:
                return
            if isinstance(row, Event):
                rows.append(self._event_row(row))
            else:
                call = row[1]
                rows.append(self._call_row(row[0], call, recorded))
                queue.mark_read(call.request_bytes + call.result_bytes)
            if not number % AT_ONCE:
                is_hurried = len(queue) > HURRY_ROWS or queue.is_urgent()
                time.sleep(0 if is_hurried else PAUSE_S)

    def _discard(self) -> None:
        """Forget what waits: it is not going to be written."""
        while (row := self._queue.take()) is not None:
            if not isinstance(row, Event):
                self._queue.mark_read(row[1].request_bytes + row[1].result_bytes)
            self._queue.mark_written(1)
        self._queue.mark_written(len(self._rows))
        self._rows.clear()

    def _call_row(self, at_ns: int, call: CallEnded, recorded: Mapping[str, Recorded]) -> CallRow:
        server, kind, arguments, result = call.server, call.kind, call.arguments, call.result
        kept_arguments = kept_result = None
        if recorded and server in recorded and self._payload_bytes < MOST_BYTES:
            kept_arguments, kept_result = _payload(arguments, result, recorded[server])
            self._payload_bytes += len(kept_arguments or b"") + len(kept_result or b"")
        names = (call.principal.label, call.client, server or None, call.name, call.method, kind)
        return CallRow._make((  # takes half as long as to name the members
            names,
            at_ns // 1_000_000,
            call.session,
            record.outcome_of(call.outcome, kind),
            round(call.duration_s * 1000),
            round(call.wait_s * 1000),
            call.request_bytes,
            call.result_bytes,
            None if arguments is None else self._hash(arguments),
            None if result is None else self._hash(result),
            call.pin,
            call.approval or None,
            call.flags,
            kept_arguments,
            kept_result,
        ))  # fmt: skip

    def _event_row(self, event: Event) -> EventRow:
        detail = dict(event.detail)
        if event.files:
            detail["files"] = {path: self._hash_of(path) for path in event.files}
        return EventRow(
            event.at_ns // 1_000_000,
            event.what,
            event.principal,
            event.server,
            event.subject,
            _json(detail),
        )

    def _hash_of(self, path: str) -> str | None:
        try:
            with open(path, "rb") as file:
                return self._hash(file.read(_MOST_FILE_BYTES)).hex()
        except OSError:
            return None

    def _write(self) -> None:
        store = self._store
        if store is None:
            return
        self._check_log(store)
        rows, count = self._rows, len(self._rows)
        missing_rows = self._queue.missing_rows - self._told_rows
        missing_hashes = self._queue.missing_hashes - self._told_hashes
        is_gap = bool(missing_rows or missing_hashes) and len(self._queue) < READ_ROWS
        if is_gap:
            detail = _json({"rows": missing_rows, "hashes": missing_hashes})
            at = time.time_ns() // 1_000_000
            rows = [*rows, EventRow(at, record.GAP, None, None, None, detail)]
        store.write(rows)
        self._rows.clear()
        self._payload_bytes = 0
        self._queue.mark_written(count)
        if is_gap:
            self._told_rows += missing_rows
            self._told_hashes += missing_hashes
            self._reports.gap(missing_rows, missing_hashes)
        if self._failing_since is not None:
            self._failing_since = None
            self._reports.trouble(None, 0.0)

    def _check_log(self, store: Store) -> None:
        """Raise ``OSError`` where another program keeps the write-ahead log from being emptied."""
        most = max(LOG_BYTES, self._settings().most_bytes)
        if _size(f"{self._path}-wal") <= most:
            return
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if _size(f"{self._path}-wal") > most:
            raise OSError("another program has been reading it for so long that its log is full")

    # -- what is old -------------------------------------------------------------------------------

    def _retain(self) -> None:
        """Take one step of what removes old rows, if that is due."""
        store = self._store
        if store is None:
            return
        if self._retention is None:
            settings = self._settings()
            if not self._is_due(store, settings.most_bytes):
                return
            self._retain_at = time.monotonic() + RETAIN_EVERY_S
            self._retention = retention.retain(
                store.connection,
                now_ms=time.time_ns() // 1_000_000,
                days=settings.days,
                most_bytes=settings.most_bytes,
            )
        if next(self._retention, self) is self:
            self._retention = None
            names = store.connection.execute("SELECT count(*) FROM name").fetchone()[0]
            if names > MOST_NAMES:
                retention.forget_unused_names(store.connection)
                store.forget_names()

    def _is_due(self, store: Store, most_bytes: int) -> bool:
        """Tell whether it is time to remove rows: many calls fill a file in less than that."""
        now = time.monotonic()
        if now >= self._retain_at:
            return True
        if now < self._look_at:
            return False
        self._look_at = now + LOOK_EVERY_S
        return retention.is_full(store.connection, most_bytes)


def _payload(
    arguments: msgspec.Raw | bytes | None, result: msgspec.Raw | bytes | None, recorded: Recorded
) -> tuple[bytes | None, bytes | None]:
    redactor, is_full = recorded.redactor, recorded.mode == "full"
    return (
        None if arguments is None else kept(arguments, redactor),
        None if result is None or not is_full else kept(result, redactor),
    )


def _json(detail: dict[str, object]) -> str:
    """Return a detail as JSON; the longest texts of one that is too long are cut."""
    text = msgspec.json.encode(encodable(detail), enc_hook=str).decode()
    while len(text) > MOST_DETAIL and detail:
        longest = max(detail, key=lambda name: len(msgspec.json.encode(encodable(detail[name]))))
        value = detail[longest]
        cut = value[: len(value) // 2] + "…" if isinstance(value, str) and len(value) > 64 else None
        detail = {**detail, longest: cut}
        if cut is None and all(each is None for each in detail.values()):
            return "{}"
        text = msgspec.json.encode(encodable(detail), enc_hook=str).decode()
    return text


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _why(error: sqlite3.Error | OSError) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return str(error)
