"""Rows that are written: when, in which order, and what happens where they cannot be."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from mcpd.audit import batches, hashes, queue, schema
from mcpd.audit.settings import Settings
from mcpd.audit.store import CallRow, Store
from tests.support.waiting import wait_until
from tests.unit.audit.support import MIB, Audit, call, read


def lock(place: Path) -> sqlite3.Connection:
    """Keep everybody else from writing."""
    connection = sqlite3.connect(place / "audit.db", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    return connection


def test_a_call_is_a_row_with_everything_but_its_content(audit: Audit) -> None:
    audit.writer.add_call(call(kind="server_busy", outcome="failed", flags=17, approval=3))
    (row,) = audit.wait_rows(1)
    key = (audit.path / "audit.key").read_bytes()
    assert row.pop("at").endswith("Z")
    assert row == {
        "id": 1,
        "session": 1,
        "principal": "local",
        "client": "tests",
        "server": "fake",
        "tool": "echo",
        "method": "tools/call",
        "outcome": "error",
        "kind": "server_busy",
        "ms": 12,
        "wait_ms": 1,
        "in_bytes": 7,
        "out_bytes": 9,
        "in_hash": hashes.digest(key, b'{"a":1}').hex(),
        "out_hash": hashes.digest(key, b'{"b":"c"}').hex(),
        "pin": None,
        "approval": 3,
        "flags": ["retried", "queued"],
    }


def test_calls_and_events_keep_their_order(audit: Audit) -> None:
    """
    Names are numbered once; a row without one has none.
    """
    for n in range(200):
        audit.writer.add_call(call(f"t{n % 3}", client=None if n % 2 else "c"))
        audit.writer.add_event("session.opened", subject=str(n), detail={"n": n})
    audit.writer.close()
    rows, events = audit.rows(), audit.events()
    assert [row["tool"] for row in rows] == [f"t{n % 3}" for n in range(200)]
    assert [row["client"] for row in rows[:2]] == ["c", None]
    assert [event["detail"]["n"] for event in events] == list(range(200))


def test_the_files_are_the_users_alone(audit: Audit) -> None:
    audit.writer.add_call(call())
    audit.wait_rows(1)
    modes = {path.name: path.stat().st_mode & 0o777 for path in audit.path.iterdir()}
    assert modes == dict.fromkeys(("audit.db", "audit.db-wal", "audit.db-shm", "audit.key"), 0o600)


def test_nothing_is_made_before_the_first_row(audit: Audit) -> None:
    audit.writer.close()
    assert list(audit.path.iterdir()) == []


def test_what_waits_is_written_at_the_end(audit: Audit) -> None:
    audit.writer.add_call(call())
    audit.writer.close()
    assert len(audit.rows()) == 1
    assert not (audit.path / "audit.db-wal").exists()


def test_names_are_cut_and_may_hold_anything(audit: Audit) -> None:
    audit.writer.add_call(call("x" * 1000))
    audit.writer.add_call(call("\ud800'; DROP TABLE call; --"))
    first, second = audit.wait_rows(2)
    assert first["tool"] == "x" * 256
    assert second["tool"] == "?'; DROP TABLE call; --"


def test_the_detail_of_an_event_is_bounded(audit: Audit) -> None:
    audit.writer.add_event(
        "pin.changed", detail={"a": "x" * 10_000, "b": "\ud800", "c": [1] * 9000}
    )
    audit.writer.close()
    (event,) = audit.events()
    assert event["detail"]["a"].endswith("…") and event["detail"]["b"] == "?"
    assert event["detail"]["c"] is None


def test_files_of_an_event_are_hashed(audit: Audit, tmp_path: Path) -> None:
    (tmp_path / "config").write_bytes(b"[servers]")
    files = [str(tmp_path / "config"), str(tmp_path / "missing")]
    audit.writer.add_event("config.reloaded", files=files)
    audit.writer.close()
    (event,) = audit.events()
    key = (audit.path / "audit.key").read_bytes()
    digest = hashes.digest(key, b"[servers]").hex()
    assert event["detail"]["files"] == {files[0]: digest, files[1]: None}


# -- when it cannot be written ---------------------------------------------------------------------


def test_a_lock_delays_rows(audit: Audit) -> None:
    """
    T38: none is lost, and a short one is no trouble.
    """
    audit.writer.add_call(call("before"))
    audit.wait_rows(1)
    held = lock(audit.path)
    for n in range(100):
        audit.writer.add_call(call(f"t{n}"))
    wait_until(lambda: audit.troubles)
    assert "locked" in (audit.troubles[0][0] or "")
    held.execute("ROLLBACK")
    held.close()
    assert [row["tool"] for row in audit.wait_rows(101)[1:]] == [f"t{n}" for n in range(100)]
    wait_until(lambda: audit.troubles[-1] == (None, 0.0))
    assert audit.gaps == []


def test_what_is_too_much_while_it_is_locked_is_a_gap(
    audit: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "MOST_ROWS", 10)
    audit.writer.add_call(call("before"))
    audit.wait_rows(1)
    held = lock(audit.path)
    for n in range(25):
        audit.writer.add_call(call(f"t{n}"))
    held.execute("ROLLBACK")
    held.close()
    assert [row["tool"] for row in audit.wait_rows(11)[1:]] == [f"t{n}" for n in range(10)]
    wait_until(lambda: audit.gaps == [(15, 0)])
    (event,) = audit.events()
    assert (event["what"], event["detail"]) == ("audit.gap", {"rows": 15, "hashes": 0})


def test_a_full_disk_delays_rows(audit: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    T36: it is said, and rows come in their order when there is room again.
    """
    audit.writer.add_call(call("before"))
    audit.wait_rows(1)

    def is_full(self: Store, rows: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as full:
        full.setattr(Store, "write", is_full)
        for n in range(5):
            audit.writer.add_call(call(f"t{n}"))
        wait_until(lambda: audit.troubles)
        assert "full" in (audit.troubles[0][0] or "")
    assert [row["tool"] for row in audit.wait_rows(6)[1:]] == [f"t{n}" for n in range(5)]
    wait_until(lambda: audit.troubles[-1] == (None, 0.0))


def test_garbage_is_set_aside_and_the_audit_begun_anew(place: Path) -> None:
    (place / "audit.db").write_bytes(b"this is no database" * 500)
    audit = Audit(place)
    audit.writer.add_call(call())
    assert len(audit.wait_rows(1)) == 1
    audit.writer.close()
    ((path, why),) = audit.aside
    assert Path(path).read_bytes().startswith(b"this is no database")
    assert Path(path).name.startswith("audit.db.bad-2") and "not a database" in why


def test_a_file_with_broken_pages_is_set_aside(place: Path) -> None:
    """
    Its head may be whole, so that this is found when a row is written.
    """
    first = Audit(place)
    first.writer.add_call(call())
    first.writer.close()
    with (place / "audit.db").open("r+b") as file:
        file.seek(4096)
        file.write(b"garbage" * 5000)
    audit = Audit(place)
    audit.writer.add_call(call("later"))
    wait_until(lambda: audit.aside)
    assert [row["tool"] for row in audit.wait_rows(1)] == ["later"]
    audit.writer.close()
    assert audit.troubles == []


def test_a_newer_file_is_left_alone(place: Path) -> None:
    """
    T38: nothing is recorded, and that is said.
    """
    first = Audit(place)
    first.writer.add_call(call())
    first.writer.close()
    with sqlite3.connect(place / "audit.db") as database:
        database.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    database.close()
    before = (place / "audit.db").read_bytes()
    audit = Audit(place)
    audit.writer.add_call(call())
    why, seconds = wait_until(lambda: audit.troubles)[0]
    assert "later mcpd" in (why or "") and seconds == float("inf")
    audit.writer.add_call(call())
    audit.writer.close()
    assert (place / "audit.db").read_bytes() == before
    assert audit.aside == []


def test_a_file_that_is_removed_is_made_again(audit: Audit) -> None:
    audit.writer.add_call(call())
    audit.wait_rows(1)
    for path in audit.path.glob("audit.db*"):
        path.unlink()
    audit.writer.add_call(call("later"))
    (row,) = audit.wait_rows(1)
    assert row["tool"] == "later"


def test_a_link_is_not_followed(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "CLOSING_S", 0.1)
    (tmp_path / "other").write_bytes(b"")
    (place / "audit.db").symlink_to(tmp_path / "other")
    audit = Audit(place)
    audit.writer.add_call(call())
    wait_until(lambda: audit.troubles)
    audit.writer.close()
    assert (tmp_path / "other").read_bytes() == b""


def test_a_log_that_a_reader_keeps_is_bounded(
    audit: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    T56: another program reads for days, and the write-ahead log cannot be emptied.
    """
    monkeypatch.setattr(batches, "LOG_BYTES", 0)
    audit.writer.settings = Settings(30, 60_000)
    audit.writer.add_call(call())
    audit.wait_rows(1)
    reader = sqlite3.connect(audit.path / "audit.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM call").fetchone()

    def is_over() -> bool:
        audit.writer.add_call(call())
        return bool(audit.troubles)

    wait_until(is_over, 20)
    assert "another program" in (audit.troubles[0][0] or "")
    assert (audit.path / "audit.db-wal").stat().st_size < 4 * MIB
    reader.close()
    wait_until(lambda: audit.troubles[-1] == (None, 0.0))


def test_without_sqlite_nothing_of_it_is_imported() -> None:
    """
    The loop's side is imported with the daemon, SQLite with the first row.
    """
    script = "import sys, mcpd.audit.writer; print('sqlite3' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


# -- what is old -----------------------------------------------------------------------------------


def test_old_rows_go_by_days(place: Path) -> None:
    audit = Audit(place)
    audit.writer.add_call(call())
    audit.writer.add_event("session.opened")
    audit.writer.close()
    days_ago(place, 31)
    again = Audit(place)
    again.writer.add_call(call("new"))
    wait_until(lambda: [row["tool"] for row in again.rows()] == ["new"])
    wait_until(lambda: again.events() == [])
    again.writer.close()


def days_ago(place: Path, days: float) -> None:
    """Make all rows older."""
    with sqlite3.connect(place / "audit.db") as database:
        for table in ("call", "event"):
            database.execute(f"UPDATE {table} SET at = at - ?", (int(days * 86_400_000),))
    database.close()


def test_old_rows_go_by_size(place: Path) -> None:
    """
    T35: the newest are kept, and the file gets smaller.
    """
    audit = Audit(place)
    audit.writer.add_call(call())
    audit.wait_rows(1)
    audit.writer.close()
    rows = [tuple(_row(n)) for n in range(30_000)]
    with sqlite3.connect(place / "audit.db") as database:
        database.executemany(
            "INSERT INTO call(at, session, outcome, ms, wait_ms, in_bytes, out_bytes, in_hash, "
            "out_hash, flags) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows,
        )  # fmt: skip
    database.close()
    assert os.stat(place / "audit.db").st_size > 2 * MIB
    again = Audit(place, Settings(30, MIB))
    again.writer.add_call(call("new"))
    wait_until(lambda: os.stat(place / "audit.db").st_size <= MIB, 20)
    again.writer.close()
    kept = again.rows()
    assert 1000 < len(kept) < 15_000
    assert [row["id"] for row in kept] == list(range(kept[0]["id"], 30_003))
    assert kept[-1]["tool"] == "new"
    names = "SELECT count(*) FROM name"
    assert read(place, lambda reader: reader._rows(names, ())[0][0]) == 6


def test_a_file_that_fills_is_looked_at_before_its_time(
    audit: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    T35: at 2,000 calls a second a small limit is reached in a minute, and held.
    """
    monkeypatch.setattr(batches, "LOOK_EVERY_S", 0.0)
    audit.writer.settings = Settings(30, MIB // 4)
    audit.writer.add_call(call())
    audit.wait_rows(1)
    for n in range(5000):
        audit.writer.add_call(call(f"t{n % 9}"))
    assert audit.writer.flush().wait(20)
    wait_until(lambda: 0 < os.stat(audit.path / "audit.db").st_size <= MIB // 4, 20)
    kept = [row["id"] for row in audit.rows()]
    assert 500 < len(kept) < 4500  # of 500 rows at a time, so many as fit
    assert kept == list(range(5002 - len(kept), 5002))


def _row(n: int) -> tuple[object, ...]:
    from datetime import UTC, datetime

    at = round(datetime.now(UTC).timestamp() * 1000) - 30_000 + n
    return at, 1, 0, 5, 0, 10, 10, os.urandom(16), os.urandom(16), 0


def test_a_row_has_as_many_members_as_are_written() -> None:
    """
    Its names are six columns, and its payload is in another table.
    """
    assert CallRow._fields.index("arguments") == 13
