"""A state of a pin is cleared by a yes or by a return to the approved form, and by nothing else."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from mcpd.core.catalog.canonical import form_of
from mcpd.core.catalog.model import Kind
from mcpd.core.catalog.pins import Seen, Table, accepted, compare
from mcpd.core.catalog.results import clean_at_once
from mcpd.core.catalog.sanitise import Removed, clean_text

NAMES = "abcd"
texts = st.sampled_from(["one", "two", "three"])
schemas = st.sampled_from([{}, {"type": "object"}])
lists = st.dictionaries(st.sampled_from(NAMES), st.tuples(texts, schemas), max_size=4)
steps = st.lists(
    st.one_of(lists, st.frozensets(st.sampled_from(NAMES), min_size=1)), min_size=1, max_size=12
)


def listed(found: dict[str, tuple[str, object]]) -> dict[str, Seen]:
    result = {}
    for name, (text, schema) in found.items():
        raw = json.dumps({"name": name, "description": text, "inputSchema": schema}).encode()
        result[name] = Seen.of(form_of(Kind.TOOLS, raw), raw)
    return result


@given(first=lists, actions=steps)
def test_only_a_yes_changes_what_is_approved(
    first: dict[str, tuple[str, object]], actions: list[object]
) -> None:
    """
    Whatever a server lists, in any order.
    """
    approved = {name: seen.hash for name, seen in listed(first).items()}
    now = dict(listed(first))
    table: Table = compare(None, listed(first))
    for action in actions:
        if isinstance(action, dict):
            now = listed(action)
            table = compare(table, now)
        elif isinstance(action, frozenset):
            for name in action & table.keys():
                if name in now:
                    approved[name] = now[name].hash
                else:
                    approved.pop(name, None)
            table = accepted(table, action)
        for name, pin in table.items():
            mine = None if pin.approved is None else pin.approved.hash
            assert mine == approved.get(name)
            is_there = name in now
            assert (pin.state == "approved") == (is_there and approved.get(name) == now[name].hash)
            assert (pin.state == "gone") == (not is_there)
        assert now.keys() | approved.keys() == table.keys()
        assert compare(table, now) is table


odd = st.sampled_from(
    "ab \u200b\u200d\u200c\ufe0f\ufe0e\u202e\x1b[]0m;\x07\\\x9b\r\n\u2764\U0001f3f4\U000e0067"
    '\U000e007f1#<!->|()INST/{}"\u0645'
)
odd_texts = st.text(odd, max_size=40)


@given(odd_texts, st.sampled_from(["invisible", "strict"]))
def test_what_is_clean_stays_as_it_is(text: str, level: str) -> None:
    """
    A list is judged again after a restart, and must not change by that.
    """
    found = clean_text(text, level)  # type: ignore[arg-type]
    removed = Removed()
    assert clean_text(found, level, removed) == found  # type: ignore[arg-type]
    assert not removed


@given(st.text(max_size=40))
def test_a_result_is_cleaned_like_a_text(text: str) -> None:
    """
    Whatever way it is written.
    """
    wanted = clean_text(text)
    for is_ascii in (True, False):
        document = {"content": [{"type": "text", "text": text}]}
        raw = json.dumps(document, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
        found = json.loads(clean_at_once(raw, "invisible", Removed()))
        assert found["content"][0]["text"] == wanted
