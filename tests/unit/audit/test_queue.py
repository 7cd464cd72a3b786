"""What waits for the thread, and what is left out where too much does."""

from __future__ import annotations

import pytest

from mcpd.audit import queue
from mcpd.audit.queue import Call, Event, Queue
from tests.unit.audit.support import call


def taken(waiting: Queue) -> list[Call | Event]:
    found = []
    while (row := waiting.take()) is not None:
        found.append(row)
    return found


def test_rows_come_out_in_their_order() -> None:
    waiting = Queue()
    waiting.add_call(call("a"))
    waiting.add_event("rule.remembered", "local", "fake", "1", {"by": "me"}, ())
    waiting.add_call(call("b"))
    first, second, third = taken(waiting)
    assert isinstance(second, Event)
    assert (second.what, second.detail) == ("rule.remembered", {"by": "me"})
    assert [each[1].name for each in calls([first, third])] == ["a", "b"]
    assert first[0] <= second.at_ns <= third[0]


def calls(rows: list[Call | Event]) -> list[Call]:
    return [row for row in rows if not isinstance(row, Event)]


def test_over_the_bytes_hashes_are_left_out_and_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A frame is held until it is hashed.
    """
    monkeypatch.setattr(queue, "MOST_BYTES", 40)
    waiting = Queue()
    for _ in range(3):
        waiting.add_call(call())
    rows = calls(taken(waiting))
    assert [ended.arguments is None for _, ended in rows] == [False, False, True]
    assert [ended.result_bytes for _, ended in rows] == [9, 9, 9]
    assert (waiting.missing_rows, waiting.missing_hashes) == (0, 1)
    for _, ended in rows:
        waiting.mark_read(ended.request_bytes + ended.result_bytes)
    waiting.add_call(call())
    ((_, ended),) = calls(taken(waiting))
    assert ended.arguments is not None


def test_over_the_rows_they_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Those that were taken and could not be written wait still.
    """
    monkeypatch.setattr(queue, "MOST_ROWS", 3)
    waiting = Queue()
    for _ in range(2):
        waiting.add_call(call())
    taken(waiting)
    for _ in range(2):
        waiting.add_call(call())
    waiting.add_event("session.opened", None, None, None, {}, ())
    assert (len(waiting), waiting.missing_rows) == (1, 2)
    waiting.mark_written(2)
    waiting.add_call(call())
    assert (len(waiting), waiting.missing_rows) == (2, 2)


def test_a_full_batch_ends_the_wait() -> None:
    waiting = Queue()
    for _ in range(queue.READ_ROWS):
        waiting.add_call(call())
    waiting.wait(None, queue.READ_ROWS)
    assert len(taken(waiting)) == queue.READ_ROWS


def test_closing_ends_the_wait() -> None:
    waiting = Queue()
    waiting.close()
    waiting.wait()
    assert waiting.take() is None
