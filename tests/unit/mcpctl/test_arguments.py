"""KEY=VALUE words and the schemas that give them types."""

from __future__ import annotations

from typing import Any

import pytest

from mcpctl.arguments import collect, need_schema, non_object, parse_json, parse_word
from mcpd.errors import RequestFailed

SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "deep": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "ids": {"type": "array", "items": {"$ref": "#/$defs/id"}},
        "where": {"type": "object"},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "either": {"type": ["integer", "string"]},
        "level": {"enum": [1, 2]},
        "ref": {"$ref": "#/$defs/id"},
        "loop": {"$ref": "#/properties/loop"},
        "anything": {},
    },
    "$defs": {"id": {"type": "integer"}},
}


def no_file(path: str) -> str:
    raise AssertionError(f"{path} is not to be read")


def typed(*words: str, schema: Any = SCHEMA, **start: Any) -> dict[str, Any]:
    return collect([parse_word(word) for word in words], schema, no_file, start)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("text=5", "5"),
        ("text=", ""),
        ("text=a=b", "a=b"),
        ("text=true", "true"),
        ("count=5", 5),
        ("count=-5", -5),
        ("ratio=3.5", 3.5),
        ("ratio=2", 2),
        ("deep=true", True),
        ('tags=["a","b"]', ["a", "b"]),
        ("tags=a", ["a"]),
        ("ids=7", [7]),
        ('where={"a":1}', {"a": 1}),
        ("maybe=5", 5),
        ("maybe=null", None),
        ("either=5", "5"),
        ("level=2", 2),
        ("ref=7", 7),
        ("loop=7", "7"),
        ("anything=7", "7"),
        ("unknown=7", "7"),
        ("text=@@x", "@x"),
        ("text:=5", 5),
        ('text:="quoted"', "quoted"),
        ("count:=[1]", [1]),
    ],
)
def test_a_word_gets_the_type_of_the_schema(word: str, value: object) -> None:
    key = word.partition("=")[0].rstrip(":")
    assert typed(word) == {key: value}
    assert type(typed(word)[key]) is type(value)


@pytest.mark.parametrize(
    ("word", "wants"),
    [
        ("count=x", "an integer"),
        ("count=1.5", "an integer"),
        ("count=true", "an integer"),
        ("ratio=x", "a number"),
        ("deep=yes", "a boolean"),
        ("where=x", "a JSON object"),
        ("maybe=x", "an integer or null"),
        ("ids=x", "an integer"),
    ],
)
def test_a_value_that_does_not_fit_says_what_would(word: str, wants: str) -> None:
    with pytest.raises(RequestFailed, match=wants) as caught:
        typed(word)
    assert caught.value.kind == "invalid_arguments"
    assert caught.value.data["path"] == word.partition("=")[0]
    assert caught.value.data["violations"][0]["path"] == word.partition("=")[0]


def test_a_key_that_is_no_plain_name_is_written_as_the_daemon_writes_it() -> None:
    with pytest.raises(RequestFailed) as caught:
        typed("a b=x", schema={"properties": {"a b": {"type": "integer"}}})
    assert caught.value.data["path"] == '["a b"]'


def test_without_a_schema_values_are_texts() -> None:
    assert typed("a=5", "b=true", schema=None) == {"a": "5", "b": "true"}
    assert typed("a=5", schema=True) == {"a": "5"}
    assert typed("a=5", schema={"properties": {"a": True}}) == {"a": "5"}


def test_a_key_given_twice_is_a_list_where_one_is_wanted() -> None:
    assert typed("tags=a", "tags=b") == {"tags": ["a", "b"]}
    assert typed("tags=a", tags=["x"]) == {"tags": ["a"]}  # words replace what --args said
    for words in (("text=a", "text=b"), ("tags=a", "tags:=[]"), ("tags:=[]", "tags=a")):
        with pytest.raises(RequestFailed, match="twice"):
            typed(*words)


def test_words_go_over_the_object_of_args() -> None:
    assert typed("text=b", text="a", other=1) == {"text": "b", "other": 1}


@pytest.mark.parametrize("word", ["plain", "=x", ":=1", ""])
def test_a_word_without_key_or_equals_sign_is_refused(word: str) -> None:
    with pytest.raises(RequestFailed, match="KEY=VALUE"):
        parse_word(word)


def test_a_file_gives_its_text_typed_like_any_other() -> None:
    files = {"t": "5\n", "j": '{"a": 1}\n'}
    words = [parse_word(w) for w in ("text=@t", "count=@t", "where=@j")]
    assert collect(words, SCHEMA, files.__getitem__) == {
        "text": "5\n",
        "count": 5,
        "where": {"a": 1},
    }


@pytest.mark.parametrize("text", ["{not json", "[" * 100_000])
def test_args_must_be_json(text: str) -> None:
    with pytest.raises(RequestFailed, match="--args"):
        parse_json(text, "--args")


def test_typographic_quotes_are_named_where_json_cannot_be_read() -> None:
    with pytest.raises(RequestFailed, match="typographic quotes"):
        parse_json("{\u201ca\u201d: 1}", "--args")


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ([1], {"type": "array"}),
        ([1], {"type": ["object", "array"]}),
        ("x", {"anyOf": [{"type": "string"}, {"type": "array"}]}),
        (5, {"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}}),
    ],
)
def test_args_are_what_the_schema_is_of(value: Any, schema: Any) -> None:
    assert non_object(value, [], schema) == value
    with pytest.raises(RequestFailed, match="cannot be added"):
        non_object(value, [parse_word("a=1")], schema)


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ([1], {"type": "object"}),
        ([1], {"type": "string"}),
        ([1], {}),
        ([1], True),
        ([1], None),
    ],
)
def test_args_are_an_object_for_any_other_schema(value: Any, schema: Any) -> None:
    with pytest.raises(RequestFailed, match="not an object"):
        non_object(value, [], schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"n": {"type": "integer"}}}}},
        {"properties": {"n": {"type": "integer"}}},
        {"anyOf": [{"properties": {"m": {}}}, {"properties": {"n": {"type": "integer"}}}]},
        {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"properties": {"n": {"const": 3}}}}},
    ],
)
def test_a_type_is_found_wherever_the_root_of_a_schema_keeps_it(schema: Any) -> None:
    assert collect([parse_word("n=3")], schema, no_file) == {"n": 3}


@pytest.mark.parametrize("schema", [True, False, None, [], "x", {"$ref": "#"}, {"anyOf": 5}])
def test_under_an_odd_root_values_are_texts(schema: Any) -> None:
    assert collect([parse_word("n=3"), parse_word("m:=3")], schema, no_file) == {"n": "3", "m": 3}


def test_only_untyped_words_need_the_schema() -> None:
    """
    It costs a request, and the start of a server that nobody may want.
    """
    assert not need_schema([parse_word("a:=1")])
    assert need_schema([parse_word("a:=1"), parse_word("b=1")])
