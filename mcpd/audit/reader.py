"""Reads the audit for people: pages of rows, sums, one call with all that belongs to it.

Each page is read by itself, so that no reader keeps the writer from emptying its log for long.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from mcpd.audit import record, schema
from mcpd.audit.schema import AuditError

PAGE_ROWS: Final = 500
TIMEOUT_S: Final = 2.0
"""Seconds that reading a page may take."""

_STEPS: Final = 100_000
"""Instructions of SQLite between two looks at the clock."""

_LAST_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999: a clock may have been anywhere."""

Row = dict[str, Any]

_NAMES: Final = ("principal", "client", "server", "tool", "method", "kind")
_CALL: Final = (
    "SELECT call.id, call.at, call.session, principal.text AS principal, client.text AS client, "
    "server.text AS server, tool.text AS tool, method.text AS method, call.outcome, "
    "kind.text AS kind, call.ms, call.wait_ms, call.in_bytes, call.out_bytes, call.in_hash, "
    "call.out_hash, call.pin, call.approval, call.flags FROM call "
    + " ".join(f"LEFT JOIN name AS {each} ON {each}.id = call.{each}" for each in _NAMES)
)
_EVENT: Final = (
    "SELECT event.id, event.at, what.text AS what, principal.text AS principal, "
    "server.text AS server, subject.text AS subject, event.detail FROM event "
    + " ".join(
        f"LEFT JOIN name AS {each} ON {each}.id = event.{each}"
        for each in ("what", "principal", "server", "subject")
    )
)
_GROUPS: Final = {
    "server": "server.text",
    "tool": "tool.text",
    "client": "client.text",
    "day": "date(call.at / 1000, 'unixepoch')",
}


class Filter(NamedTuple):
    """Which calls are wanted; a member that is ``None`` asks for nothing."""

    since_ms: int | None = None
    server: str | None = None
    tool: str | None = None
    """A pattern, as the shell has them; case matters."""
    client: str | None = None
    token: str | None = None
    outcome: str | None = None
    slow_ms: int | None = None

    def only_since(self) -> Filter:
        """Return it without what events do not have."""
        return Filter(since_ms=self.since_ms)

    def condition(self) -> tuple[str, list[Any]]:
        """Return it as SQL and the values in it."""
        parts: list[str] = []
        values: list[Any] = []

        def add(part: str, *given: Any) -> None:
            parts.append(part)
            values.extend(given)

        if self.since_ms is not None:
            add("call.at >= ?", self.since_ms)
        if self.server is not None:
            add("call.server = (SELECT id FROM name WHERE text = ?)", self.server)
        if self.tool is not None:
            add("tool.text GLOB ?", self.tool)
        if self.client is not None:
            add("(client.text = ? OR client.text GLOB ?)", self.client, self.client)
        if self.token is not None:
            add("principal.text = ?", f"token:{self.token}")
        if self.outcome is not None:
            add("call.outcome = ?", record.OUTCOMES.index(self.outcome))
        if self.slow_ms is not None:
            add("call.ms >= ?", self.slow_ms)
        return " AND ".join(parts) or "1", values


class Reader:
    """A connection that can only read. Methods raise ``AuditError``."""

    def __init__(self, state_dir: str) -> None:
        self._connection = schema.open_for_reading(record.path_in(state_dir), TIMEOUT_S)
        self._connection.row_factory = sqlite3.Row

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    # -- calls -------------------------------------------------------------------------------------

    def newest(self, wanted: Filter, count: int) -> list[Row]:
        """Return the newest ``count`` calls, the oldest of them first."""
        return self._newest(_CALL, "call", *wanted.condition(), count, _call)

    def after(self, wanted: Filter, last: int) -> Iterator[Row]:
        """Yield the calls after the one with the id ``last``, oldest first."""
        return self._after(_CALL, "call", *wanted.condition(), last, _call)

    def last_id(self) -> int:
        """Return the id of the newest call, 0 where there is none."""
        return int(self._rows("SELECT coalesce(max(id), 0) FROM call", ())[0][0])

    def show(self, ident: int) -> Row | None:
        """Return one call with its payload, and the events of its approval; ``None``: no such."""
        found = self._rows(f"{_CALL} WHERE call.id = ?", (ident,))
        if not found:
            return None
        call = _call(found[0])
        kept = self._rows("SELECT args, result FROM payload WHERE call = ?", (ident,))
        if kept:
            arguments, result = kept[0]
            call["arguments"] = _payload(arguments)
            call["result"] = _payload(result)
        if call["approval"] is not None:
            # numbers of questions begin again with each daemon: the newest before its end are its
            events = self._rows(
                f"{_EVENT} WHERE subject.text = ? AND event.at <= ? AND what.text GLOB 'approval.*'"
                " ORDER BY event.id DESC LIMIT 3",
                (f"a{call['approval']}", found[0]["at"] + 1000),
            )
            call["events"] = _of_one_question([_event(each) for each in events])
        return call

    def with_hash(self, digest: bytes) -> list[Row]:
        """Return the newest calls whose arguments or result have this hash."""
        condition = "(call.in_hash = ? OR call.out_hash = ?)"
        return self._newest(_CALL, "call", condition, [digest, digest], PAGE_ROWS, _call)

    def stats(self, wanted: Filter, by: str) -> list[Row]:
        """Return how many calls there were of each, the most first; of days the newest last.

        ``by`` is one of ``record.GROUPS``.
        """
        condition, values = wanted.condition()
        order = "1" if by == "day" else "calls DESC, 1"
        ends = ", ".join(
            f"sum(call.outcome = {number}) AS {name}" for number, name in enumerate(record.OUTCOMES)
        )
        of = _CALL[_CALL.index(" FROM call ") :]
        rows = self._rows(
            f"SELECT {_GROUPS[by]} AS {by}, count(*) AS calls, {ends}, "
            "round(avg(call.ms), 1) AS mean_ms, max(call.ms) AS most_ms, "
            "sum(call.in_bytes) AS in_bytes, sum(call.out_bytes) AS out_bytes "
            f"{of} WHERE {condition} GROUP BY 1 ORDER BY {order}",
            values,
        )
        return [dict(row) for row in rows]

    # -- events ------------------------------------------------------------------------------------

    def events(
        self, *, since_ms: int | None = None, what: str | None = None, count: int = PAGE_ROWS
    ) -> list[Row]:
        """Return the newest events, the oldest of them first; ``what`` is a pattern."""
        parts, values = ["1"], list[Any]()
        if since_ms is not None:
            parts.append("event.at >= ?")
            values.append(since_ms)
        if what is not None:
            parts.append("what.text GLOB ?")
            values.append(what)
        return self._newest(_EVENT, "event", " AND ".join(parts), values, count, _event)

    def events_after(self, last: int, since_ms: int | None = None) -> Iterator[Row]:
        """Yield the events after the one with the id ``last``, oldest first."""
        since = 0 if since_ms is None else since_ms
        return self._after(_EVENT, "event", "event.at >= ?", [since], last, _event)

    # -- inside ------------------------------------------------------------------------------------

    def _newest(
        self,
        select: str,
        table: str,
        condition: str,
        values: Sequence[Any],
        count: int,
        made: Any,
    ) -> list[Row]:
        found: list[Row] = []
        before = 2**63 - 1
        while len(found) < count:
            most = min(PAGE_ROWS, count - len(found))
            rows = self._rows(
                f"{select} WHERE {condition} AND {table}.id < ? ORDER BY {table}.id DESC LIMIT ?",
                [*values, before, most],
            )
            found += [made(row) for row in rows]
            if len(rows) < most:
                break
            before = rows[-1]["id"]
        return found[::-1]

    def _after(
        self,
        select: str,
        table: str,
        condition: str,
        values: Sequence[Any],
        last: int,
        made: Any,
    ) -> Iterator[Row]:
        while True:
            rows = self._rows(
                f"{select} WHERE {condition} AND {table}.id > ? ORDER BY {table}.id LIMIT ?",
                [*values, last, PAGE_ROWS],
            )
            for row in rows:
                yield made(row)
            if len(rows) < PAGE_ROWS:
                return
            last = rows[-1]["id"]

    def _rows(self, query: str, values: Sequence[Any]) -> list[sqlite3.Row]:
        """Read one page, within ``TIMEOUT_S``."""
        import time

        deadline = time.monotonic() + TIMEOUT_S
        self._connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
                raise AuditError(
                    f"reading the audit took longer than {TIMEOUT_S:g} s",
                    hint="ask for less: --since 1h, --server S",
                ) from None
            raise AuditError(f"cannot read the audit: {error}", hint="mcpctl doctor") from None


def stamp(at_ms: int) -> str:
    """Return an instant as the product writes it: RFC 3339 in UTC, with milliseconds."""
    moment = datetime.fromtimestamp(min(max(at_ms, 0), _LAST_MS) // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03d}Z"


def _call(row: sqlite3.Row) -> Row:
    call = dict(row)
    call["at"] = stamp(row["at"])
    call["outcome"] = record.OUTCOMES[row["outcome"]]
    call["flags"] = record.flags_of(row["flags"] or 0)
    for name in ("in_hash", "out_hash", "pin"):
        call[name] = None if row[name] is None else row[name].hex()
    return call


def _event(row: sqlite3.Row) -> Row:
    event = dict(row)
    event["at"] = stamp(row["at"])
    try:
        event["detail"] = json.loads(row["detail"])
    except ValueError:
        event["detail"] = {}
    return event


def _of_one_question(newest_first: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the events of one question, oldest first: those back to its having been asked."""
    found: list[Row] = []
    for event in newest_first:
        found.insert(0, dict(event))
        if event["what"] == "approval.asked":
            break
    return found


def _payload(data: bytes | None) -> str | None:
    return None if data is None else zlib.decompress(data).decode(errors="replace")
