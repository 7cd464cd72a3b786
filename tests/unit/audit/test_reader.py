"""Reading: pages, filters, sums, and one call with what belongs to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpd.audit import reader as reading
from mcpd.audit.prune import prune
from mcpd.audit.reader import Filter, stamp
from mcpd.audit.schema import AuditError, NoAudit
from mcpd.principal import bearer
from tests.unit.audit.support import ALL, Audit, call, read


@pytest.fixture
def filled(place: Path) -> Path:
    audit = Audit(place)
    add = audit.writer.add_call
    add(call("read_a", server="a", client="editor 1", duration_s=2.0))
    add(call("read_b", server="b", principal=bearer("ci"), outcome="failed", kind="denied"))
    add(call("write", server="a", client="editor 2", outcome="error"))
    add(call(None, server="b", method="resources/read"))
    audit.writer.close()
    return place


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        (ALL, [1, 2, 3, 4]),
        (Filter(server="a"), [1, 3]),
        (Filter(server="nobody"), []),
        (Filter(tool="read_*"), [1, 2]),
        (Filter(tool="READ_*"), []),
        (Filter(client="editor*"), [1, 3]),
        (Filter(client="editor 1"), [1]),
        (Filter(token="ci"), [2]),
        (Filter(outcome="denied"), [2]),
        (Filter(outcome="error", server="a"), [3]),
        (Filter(slow_ms=2000), [1]),
        (Filter(since_ms=2**60), []),
    ],
)
def test_calls_are_chosen(filled: Path, wanted: Filter, ids: list[int]) -> None:
    found = read(filled, lambda reader: reader.newest(wanted, 10))
    assert [row["id"] for row in found] == ids
    assert read(filled, lambda reader: [r["id"] for r in reader.after(wanted, 0)]) == ids


def test_the_newest_come_last(filled: Path) -> None:
    assert [row["id"] for row in read(filled, lambda r: r.newest(ALL, 2))] == [3, 4]
    assert read(filled, lambda r: [row["id"] for row in r.after(ALL, 3)]) == [4]
    assert read(filled, lambda r: r.newest(ALL, 0)) == []


def test_pages_are_joined(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PAGE_ROWS", 7)
    audit = Audit(place)
    for _ in range(50):
        audit.writer.add_call(call())
    audit.writer.close()
    assert [row["id"] for row in audit.rows(count=20)] == list(range(31, 51))
    assert read(place, lambda r: [row["id"] for row in r.after(ALL, 0)]) == list(range(1, 51))


def test_calls_are_counted(filled: Path) -> None:
    rows = read(filled, lambda reader: reader.stats(ALL, "server"))
    assert [(row["server"], row["calls"], row["ok"], row["denied"], row["error"]) for row in rows] == [
        ("a", 2, 1, 0, 1), ("b", 2, 1, 1, 0),
    ]  # fmt: skip
    assert rows[0]["most_ms"] == 2000 and rows[0]["mean_ms"] == 1006.0
    by_tool = read(filled, lambda reader: reader.stats(Filter(server="a"), "tool"))
    assert {row["tool"]: row["calls"] for row in by_tool} == {"read_a": 1, "write": 1}
    (day,) = read(filled, lambda reader: reader.stats(ALL, "day"))
    assert day["calls"] == 4


def test_a_call_is_shown_with_its_approval(place: Path) -> None:
    """
    Numbers of questions begin again with each daemon: the newest before its end are a call's.
    """
    audit = Audit(place)
    for life in ("old", "new"):
        audit.writer.add_event("approval.asked", subject="a1", detail={"life": life})
        audit.writer.add_event("approval.answered", subject="a1", detail={"answer": "once"})
    audit.writer.add_event("approval.asked", subject="a2")
    audit.writer.add_call(call(approval=1, pin=b"\1" * 16))
    audit.writer.close()
    shown = read(place, lambda reader: reader.show(1))
    assert (shown["approval"], shown["pin"]) == (1, "01" * 16)
    assert [event["what"] for event in shown["events"]] == ["approval.asked", "approval.answered"]
    assert shown["events"][0]["detail"] == {"life": "new"}
    assert shown["events"][1]["detail"] == {"answer": "once"}
    assert read(place, lambda reader: reader.show(99)) is None


def test_a_hash_finds_its_calls(filled: Path) -> None:
    (row, *_) = read(filled, lambda reader: reader.newest(ALL, 1))
    found = read(filled, lambda reader: reader.with_hash(bytes.fromhex(row["in_hash"])))
    assert [each["id"] for each in found] == [1, 2, 3, 4]
    assert read(filled, lambda reader: reader.with_hash(bytes(16))) == []


def test_where_nothing_is_recorded_there_is_no_audit(place: Path) -> None:
    with pytest.raises(NoAudit):
        read(place, lambda reader: reader)
    (place / "audit.db").write_bytes(b"")
    with pytest.raises(NoAudit):
        read(place, lambda reader: reader)


def test_what_cannot_be_read_is_said(place: Path) -> None:
    (place / "audit.db").write_bytes(b"this is no database" * 500)
    with pytest.raises(AuditError, match="not a database"):
        read(place, lambda reader: reader)


def test_reading_makes_no_files(filled: Path) -> None:
    before = sorted(path.name for path in filled.iterdir())
    read(filled, lambda reader: reader.newest(ALL, 10))
    assert sorted(path.name for path in filled.iterdir()) == before


def test_a_read_that_takes_too_long_ends(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "TIMEOUT_S", -1.0)
    monkeypatch.setattr(reading, "_STEPS", 1)
    with pytest.raises(AuditError, match="took longer"):
        read(filled, lambda reader: reader.newest(ALL, 10))


def test_a_person_removes_what_is_old(filled: Path) -> None:
    assert prune(str(filled), 0, 5) == 0
    assert prune(str(filled), 2**43, 2**42) == 5  # the event of the first time, too
    assert read(filled, lambda reader: reader.newest(ALL, 10)) == []
    (event,) = read(filled, lambda reader: reader.events())
    assert (event["what"], event["detail"]["rows"]) == ("audit.pruned", 5)
    assert prune(str(filled / "nowhere"), 5, 5) == 0


def test_an_instant_is_written_as_elsewhere() -> None:
    assert stamp(1795963282470) == "2026-11-29T14:41:22.470Z"
    assert stamp(1) == "1970-01-01T00:00:00.001Z"
