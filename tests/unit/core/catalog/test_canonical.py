"""The canonical form of definitions: what is a change, and what is none."""

from __future__ import annotations

import json

import pytest

from mcpd.core.catalog.canonical import Form, form_of, strings, text_hash, tree_of
from mcpd.core.catalog.model import Kind

FIRST = (
    '{"name":"send","description":"Sends A.","inputSchema":{"type":"object","properties":'
    '{"a":{"type":"number","minimum":1.0},"b":{}},"required":["a","b"]}}'
)
SAME = {
    "order and spacing": (
        '{ "inputSchema" : {"required":["a","b"], "properties":{"b":{},"a":{"minimum":1.0,'
        '"type":"number"}},"type":"object"},\n"description":"Sends A.","name":"send"}'
    ),
    "required": FIRST.replace('["a","b"]', '["b","a"]'),
    "escapes": FIRST.replace("Sends A.", "Sends \\u0041."),
    "any white space of ASCII": FIRST.replace("Sends A.", "Sends\\f\\u000b A."),
    "white space": FIRST.replace("Sends A.", "Sends \\n\\t A."),
    "defaults": FIRST[:-1] + ',"annotations":{"destructiveHint":true,"readOnlyHint":false}}',
    "no annotations": FIRST[:-1] + ',"annotations":{}}',
    "meta and icons": FIRST[:-1] + ',"_meta":{"v":2},"icons":[{"src":"https://x/y.png"}]}',
}
OTHER = {
    "text": FIRST.replace("Sends A.", "Sends B."),
    "case": FIRST.replace("Sends A.", "sends A."),
    "a space in a name": FIRST.replace('"a":', '"a ":'),
    "a number": FIRST.replace("1.0", "1"),
    "a big number": FIRST.replace("1.0", "100000000000000000000000001"),
    "title": FIRST[:-1] + ',"title":"Send"}',
    "a hint": FIRST[:-1] + ',"annotations":{"readOnlyHint":true}}',
    "a hint that is no boolean": FIRST[:-1] + ',"annotations":{"readOnlyHint":"yes"}}',
    "a hint of another name": FIRST[:-1] + ',"annotations":{"read_only_hint":true}}',
    "output": FIRST[:-1] + ',"outputSchema":{"type":"object"}}',
    "an invisible character": FIRST.replace("Sends A.", "Sends\\u200b A."),
    "a member twice": FIRST[:-1] + ',"description":"Sends A."}',
    "annotations twice": FIRST[:-1] + ',"annotations":{},"annotations":{"readOnlyHint":true}}',
    "order of an enum": FIRST.replace('"b":{}', '"b":{"enum":[2,1]}'),
}


def form(text: str, kind: Kind = Kind.TOOLS) -> Form:
    return form_of(kind, text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("how", SAME)
def test_what_means_the_same_has_one_form(how: str) -> None:
    """
    A server that writes its JSON otherwise has not changed anything.
    """
    assert form(SAME[how]) == form(FIRST)


@pytest.mark.parametrize("how", OTHER)
def test_what_differs_has_another_form(how: str) -> None:
    """
    Parsers differ in which of two members they use, so both count.
    """
    assert form(OTHER[how]).hash != form(FIRST).hash


@pytest.mark.parametrize(
    ("how", "part"),
    [("text", "text"), ("a number", "schema"), ("a hint", "hints"), ("output", "output")],
)
def test_parts_tell_what_has_changed(how: str, part: str) -> None:
    """
    A changed text is served in its approved form; a call with a changed schema is refused.
    """
    before, now = form(FIRST), form(OTHER[how])
    parts = ("text", "schema", "hints", "output")
    assert [each for each in parts if getattr(before, each) != getattr(now, each)] == [part]


def test_arguments_of_a_prompt_are_its_schema() -> None:
    """
    They are what it takes.
    """
    before = form('{"name":"p","arguments":[{"name":"a"}]}', Kind.PROMPTS)
    assert before.schema != form('{"name":"p","arguments":[{"name":"b"}]}', Kind.PROMPTS).schema


@pytest.mark.parametrize(
    "text",
    [
        '{"name":"x","description":"\\ud800"}',
        '{"name":"x","inputSchema":' + '{"a":' * 5_000 + "1" + "}" * 5_000 + "}",
        "[1]",
        "nonsense",
        '{"name":"x","inputSchema":NaN}',
    ],
)
def test_anything_has_a_form(text: str) -> None:
    """
    What cannot be read counts byte by byte.
    """
    assert form(text) == form(text)
    assert form(text).hash != form(FIRST).hash


def test_strings_come_with_their_paths() -> None:
    """
    Numbers are kept as they were written, and are no strings.
    """
    tree = tree_of(json.dumps({"a": [{"b": "x"}, 1.5], "c": "y"}).encode())
    assert list(strings(tree)) == [(("a", "b"), "x"), (("c",), "y")]


def test_white_space_of_a_flood_counts() -> None:
    """
    A text of megabytes would hold the interpreter for seconds; no author writes one.
    """
    long = ["a\t" * 200_000, "a  " * 200_000]
    assert text_hash(long[0]) != text_hash(long[1])
    assert text_hash("a\tb \n c") == text_hash("a b c")
