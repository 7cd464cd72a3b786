"""Definitions: what is no change, in any combination; and texts of any script, in any company."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcpd.core.catalog.canonical import form_of, tree_of
from mcpd.core.catalog.model import Kind
from mcpd.core.catalog.sanitise import Removed, clean_json, clean_text
from mcpd.core.catalog.scan import scan_text
from tests.unit.core.catalog.corpus import benign
from tests.unit.core.catalog.corpus.spelled import ways_of

texts = st.text(max_size=12) | st.sampled_from([*benign.SCRIPTS.values(), "a  b\n\tc", "\ud800"])
names = st.sampled_from(["a", "b", "title", "description", "required", "\u00e9", "\u200b", "enum"])
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4)
)
schemas = st.fixed_dictionaries(
    {"type": st.just("object")},
    optional={
        "properties": st.dictionaries(
            names, st.dictionaries(names, values, max_size=3), max_size=4
        ),
        "required": st.lists(names, max_size=4),
        "title": texts,
        "x": values,
    },
)
hints = st.dictionaries(
    st.sampled_from(
        ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint", "title"]
    ),
    st.booleans(),
)
tools = st.fixed_dictionaries(
    {"name": st.text(min_size=1, max_size=8)},
    optional={
        "title": texts,
        "description": texts,
        "inputSchema": schemas,
        "outputSchema": schemas,
        "annotations": hints,
        "_meta": values,
    },
)
WAYS = ways_of(Kind.TOOLS)


def raw_of(definition: Any, *, is_ascii: bool = True) -> bytes:
    return json.dumps(definition, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")


@given(tools, st.lists(st.sampled_from(sorted(WAYS)), min_size=1, max_size=4))
def test_what_is_no_change_is_none_in_any_combination(
    definition: dict[str, Any], hows: list[str]
) -> None:
    """
    One after the other, each on what the one before has written.
    """
    raw = raw_of(definition)
    form = form_of(Kind.TOOLS, raw)
    for how in hows:
        raw = WAYS[how](tree_of(raw)).encode()
        assert form_of(Kind.TOOLS, raw) == form, how


@given(tools, tools)
def test_definitions_that_differ_have_different_forms(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    """
    Unless they differ in what is no change.
    """

    def plain(definition: dict[str, Any]) -> str:
        found = {k: v for k, v in definition.items() if k != "_meta"}
        defaults = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False}
        found["annotations"] = defaults | {"openWorldHint": True} | found.get("annotations", {})
        return json.dumps(_normal(found), sort_keys=True)

    same = form_of(Kind.TOOLS, raw_of(one)).hash == form_of(Kind.TOOLS, raw_of(other)).hash
    assert same == (plain(one) == plain(other))


def _normal(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _normal(each, key) for key, each in value.items()}
    if isinstance(value, list):
        is_names = name == "required" and all(isinstance(each, str) for each in value)
        return sorted(value) if is_names else [_normal(each) for each in value]
    if isinstance(value, str) and name in ("title", "description"):
        for space in "\t\n\r\f\v":
            value = value.replace(space, " ")
        while "  " in value:
            value = value.replace("  ", " ")
    return value


pieces = st.sampled_from([*benign.SCRIPTS.values(), "file", "a", "1", "(", "\n", "List<T>", ". "])


@given(st.lists(pieces, max_size=8), st.sampled_from([" ", "\n", ", "]))
def test_texts_of_all_scripts_come_through_side_by_side(found: list[str], between: str) -> None:
    """
    Whatever comes before and after; and nobody is alarmed by it.
    """
    text = between.join(found)
    removed = Removed()
    assert clean_text(text, "invisible", removed) == text
    assert not removed
    raw = raw_of({"name": "t", "description": text}, is_ascii=False)
    assert clean_json(raw, "invisible", removed) == raw
    assert [each for each in scan_text("tool", "t", text)[0] if each.weight == "hard"] == []


hidden = st.sampled_from(
    ["\u202e", "\u2066", "\u200b", "\ufeff", "\u00ad", "\u2060", "\x1b[31m", "\x9b0m", "\x00",
     "\x7f", "\U000e0041\U000e0042", "\U000e0100", "\ufff9", "\u180e"]
)  # fmt: skip


@given(st.lists(pieces | hidden, max_size=8))
def test_what_is_hidden_goes_and_nothing_else(found: list[str]) -> None:
    """
    Between texts of any script.
    """
    gone = {"\u202e", "\u2066", "\u200b", "\ufeff", "\u00ad", "\u2060", "\x1b[31m", "\x9b0m", "\x00",
            "\x7f", "\U000e0041\U000e0042", "\U000e0100", "\ufff9", "\u180e"}  # fmt: skip
    wanted = " ".join("" if each in gone else each for each in found)
    assert clean_text(" ".join(found)) == wanted
