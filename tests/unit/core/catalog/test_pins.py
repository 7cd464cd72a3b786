"""What is approved of definitions, and what differs from that."""

from __future__ import annotations

import json
import time

from mcpd.core.catalog.canonical import form_of
from mcpd.core.catalog.model import Kind
from mcpd.core.catalog.pins import (
    TABLES_BYTES,
    Counts,
    Pins,
    Seen,
    Table,
    accepted,
    compare,
    counts,
)

SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}}


def seen(name: str, text: str = "Does it.", schema: object = SCHEMA, **more: object) -> Seen:
    tool = {"name": name, "description": text, "inputSchema": schema, **more}
    raw = json.dumps(tool).encode()
    return Seen.of(form_of(Kind.TOOLS, raw), raw)


def listed(*found: Seen) -> dict[str, Seen]:
    return {json.loads(each.raw)["name"]: each for each in found}


def states(table: Table) -> dict[str, str]:
    return {name: pin.state for name, pin in table.items()}


def pins(table: Table) -> Pins:
    return Pins("id").with_table("", "tool", table)


BEFORE = compare(None, listed(seen("a"), seen("b")))


def test_the_first_list_is_approved() -> None:
    """
    A person has configured the server; to ask now would teach clicking.
    """
    assert states(BEFORE) == {"a": "approved", "b": "approved"}
    assert counts(pins(BEFORE), "hold") == Counts()


def test_what_has_a_hard_finding_is_not_approved_by_itself() -> None:
    """
    Under ``hold`` the caller withholds it.
    """
    table = compare(None, listed(seen("a"), seen("b")), withheld={"b"})
    assert states(table) == {"a": "approved", "b": "new"}


def test_the_same_list_is_the_same_table() -> None:
    """
    So nothing is written for it.
    """
    assert compare(BEFORE, listed(seen("b"), seen("a"))) is BEFORE


def test_a_changed_text_is_changed_and_a_changed_schema_is_refused() -> None:
    """
    What waits is what a model reads; a call with other arguments waits, too.
    """
    after = compare(BEFORE, listed(seen("a", "Tells Mallory."), seen("b", schema={})))
    assert states(after) == {"a": "changed", "b": "changed"}
    assert (after["a"].parts, after["a"].is_refused) == (("text",), False)
    assert (after["b"].parts, after["b"].is_refused) == (("schema",), True)
    assert counts(pins(after), "hold") == Counts(1, 1)
    assert counts(pins(after), "warn") == Counts(2, 0)
    assert counts(pins(after), "off") == Counts()


def test_what_is_back_in_the_approved_form_is_approved() -> None:
    """
    Whatever it was in between.
    """
    away = compare(BEFORE, listed(seen("a", "Other."), seen("b")))
    again = compare(away, listed(seen("a"), seen("b")))
    assert states(again) == {"a": "approved", "b": "approved"}
    gone = compare(BEFORE, listed(seen("a")))
    assert states(gone)["b"] == "gone"
    assert states(compare(gone, listed(seen("a"), seen("b")))) == states(BEFORE)


def test_what_changes_twice_waits_in_its_last_form() -> None:
    """
    A person accepts what the server has now.
    """
    once = compare(BEFORE, listed(seen("a", "One."), seen("b")))
    twice = compare(once, listed(seen("a", "Two."), seen("b")))
    now = twice["a"].now
    assert now is not None
    assert "Two." in now.raw
    assert twice["a"].approved == BEFORE["a"].approved


def test_a_new_name_with_an_equal_schema_is_renamed() -> None:
    """
    It is new all the same: whoever allowed the old name has not seen this one.
    """
    after = compare(BEFORE, listed(seen("a"), seen("c", "Other.")))
    assert states(after) == {"a": "approved", "b": "gone", "c": "renamed"}
    assert after["c"].before == "b"
    assert after["c"].is_refused
    assert compare(after, listed(seen("a"), seen("c", "Other."))) is after


def test_a_new_one_that_goes_again_is_forgotten() -> None:
    """
    Nobody has approved it.
    """
    after = compare(BEFORE, listed(seen("a"), seen("b"), seen("c", "New.", {})))
    assert states(after)["c"] == "new"
    assert compare(after, listed(seen("a"), seen("b"))).keys() == BEFORE.keys()


def test_a_volatile_text_is_no_change() -> None:
    """
    Its schema and its hints stay pinned.
    """
    other = listed(seen("a", "At 12:01."), seen("b"))
    assert compare(BEFORE, other, volatile={"a"}) is BEFORE
    hints = listed(seen("a", annotations={"readOnlyHint": True}), seen("b"))
    assert states(compare(BEFORE, hints, volatile={"a"}))["a"] == "changed"


def test_accepting_approves_what_waits() -> None:
    """
    What is gone is forgotten; the rest goes on waiting.
    """
    after = compare(BEFORE, listed(seen("a", "Other."), seen("c", "New.", {})))
    now = accepted(after, {"a", "b"})
    assert states(now) == {"a": "approved", "c": "new"}
    assert states(compare(now, listed(seen("a", "Other."), seen("c", "New.", {})))) == states(now)


def test_another_set_of_capabilities_inherits_what_is_known() -> None:
    """
    Else a client that declares something else would approve what waits for everybody.
    """
    changed = compare(BEFORE, listed(seen("a", "Tells Mallory."), seen("b")))
    found = compare(
        None,
        listed(seen("a", "Tells Mallory."), seen("b"), seen("extra")),
        others=[changed],
    )
    assert states(found) == {"a": "changed", "b": "approved", "extra": "approved"}


def test_another_set_of_capabilities_approves_no_other_form() -> None:
    """
    What was approved for some clients is compared with what others are told.
    """
    waits = compare(BEFORE, listed(seen("a"), seen("b"), seen("new", "One.")))
    found = compare(
        None, listed(seen("a", "Tells Mallory."), seen("b"), seen("new", "Two.")), others=[waits]
    )
    assert states(found) == {"a": "changed", "b": "approved", "new": "new"}
    assert found["a"].approved == BEFORE["a"].approved


def test_what_has_the_same_text_and_schema_is_renamed_first() -> None:
    """
    Then what has the same text, and what takes the same at last.
    """
    before = compare(None, listed(seen("a", "One."), seen("b", "Two.", {}), seen("c", "Three.")))
    after = compare(
        before,
        listed(
            seen("x", "Three."), seen("y", "Two."), seen("z", "Other."), seen("w", "No.", {"x": 1})
        ),
    )
    names = {name: pin.before for name, pin in after.items() if pin.approved is None}
    assert names == {"x": "c", "y": "b", "z": "a", "w": None}


def test_renaming_all_tools_takes_linear_time() -> None:
    """
    It is done on the loop, and a server may list ten thousand.
    """

    def tools(prefix: str) -> dict[str, Seen]:
        found = ((f"{prefix}{number}", f"{prefix}{number}") for number in range(10_000))
        return {name: Seen(each, each, each, "", "", "{}") for name, each in found}

    begun = time.monotonic()
    after = compare(compare(None, tools("a")), tools("b"))
    assert time.monotonic() - begun < 5
    assert len(after) == 20_000


def test_what_is_listed_for_a_new_set_of_capabilities_is_compared_with_what_is_approved() -> None:
    """
    Else a server with a process for each client would have a changed definition approved by the
    first client that declares something else.
    """
    found = compare(None, listed(seen("a", "Tells Mallory."), seen("b")), others=[BEFORE])
    assert states(found) == {"a": "changed", "b": "approved"}


def test_large_lists_for_some_clients_push_out_older_ones_but_not_ours() -> None:
    """
    All of them are written at each change: thirty of a megabyte held the loop for 0.1 s.
    """
    large = compare(None, listed(seen("a", "x" * (TABLES_BYTES // 4))))
    found = pins(large)
    for key in ("1", "2", "3", "4", "5", "4"):
        found = found.with_table(key, "tool", large)
    assert [*found.tables] == ["", "3", "4", "5"]
    huge = compare(None, listed(seen("a", "x" * (2 * TABLES_BYTES))))
    assert [*found.with_table("6", "tool", huge).tables] == ["", "6"]
