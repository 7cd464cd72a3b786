"""The stream of events."""

from __future__ import annotations

from mcpd.observe.journal import KEPT, Event, Journal


def test_events_are_numbered_and_leave_out_what_is_not_known() -> None:
    journal = Journal()
    journal.add("a", server="x", pid=None)
    journal.add("b")
    first, second = journal.since(0)
    assert (first["seq"], first["event"], first["server"]) == (1, "a", "x")
    assert "pid" not in first
    assert second["seq"] == journal.last == 2


def test_an_event_is_what_utf_8_can_say() -> None:
    """
    A name of half a surrogate pair cannot be sent or recorded as it is.
    """
    journal = Journal()
    journal.add("a", name="x\ud800", items=[{"\ud800": ("y\udc00", 1)}])
    (event,) = journal.since(0)
    assert (event["name"], event["items"]) == ("x?", [{"?": ["y?", 1]}])


def test_a_listener_hears_what_comes_until_it_leaves() -> None:
    journal, heard = Journal(), list[Event]()
    journal.add("before")
    leave = journal.listen(heard.append)
    journal.add("now")
    leave()
    leave()
    journal.add("after")
    assert [each["event"] for each in heard] == ["now"]


def test_only_so_many_are_kept() -> None:
    journal = Journal()
    for _ in range(KEPT + 5):
        journal.add("x")
    kept = journal.since(0)
    assert (len(kept), kept[0]["seq"]) == (KEPT, 6)
