"""What people are told about arguments that do not fit."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from mcpd.schemas.wording import (
    MAX_MESSAGE,
    describe,
    describe_all,
    path_of,
    shown,
    wants_no_object,
)


def told(schema: dict[str, Any], value: object) -> list[tuple[str, str]]:
    return [describe(error) for error in jsonschema_rs.validator_for(schema).iter_errors(value)]


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"type": "number"}, "5", "expected number, got string"),
        ({"type": ["string", "null"]}, 5, "expected null or string, got integer"),
        ({"type": "object"}, True, "expected object, got boolean"),
        ({"type": "string"}, None, "expected string, got null"),
        ({"type": "string"}, 1.5, "expected string, got number"),
        ({"type": "string"}, [], "expected string, got array"),
        ({"required": ["a"]}, {}, 'missing required property "a"'),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, 'missing required property "b"'),
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"b": 1, "c": 2},
            'unknown property: "b", "c"',
        ),
        ({"additionalProperties": False}, {"b": 1}, "no properties are allowed"),
        ({"unevaluatedProperties": False}, {"b": 1}, 'unknown property: "b"'),
        ({"enum": ["a", 2]}, "c", 'expected one of "a", 2, got "c"'),
        ({"const": {"a": 1}}, 2, 'expected {"a": 1}, got 2'),
        ({"minimum": 3}, 2, "expected at least 3, got 2"),
        ({"maximum": 3.5}, 4, "expected at most 3.5, got 4"),
        ({"exclusiveMinimum": 3}, 3, "expected more than 3, got 3"),
        ({"exclusiveMaximum": 3}, 3, "expected less than 3, got 3"),
        ({"multipleOf": 5}, 3, "expected a multiple of 5, got 3"),
        ({"minLength": 2}, "ä", "expected at least 2 characters, got 1"),
        ({"maxLength": 2}, "abc", "expected at most 2 characters, got 3"),
        ({"minItems": 1}, [], "expected at least 1 items, got 0"),
        ({"maxItems": 1}, [1, 2], "expected at most 1 items, got 2"),
        ({"minProperties": 1}, {}, "expected at least 1 properties, got 0"),
        ({"maxProperties": 0}, {"a": 1}, "expected at most 0 properties, got 1"),
        ({"pattern": "^a"}, "b", 'expected text that matches "^a", got "b"'),
        ({"uniqueItems": True}, [1, 1], "expected no item twice"),
        ({"contains": {"const": 1}}, [2], "expected more items of the kind that the schema wants"),
        ({"not": {"type": "string"}}, "x", '"x" is what the schema excludes'),
        (
            {"propertyNames": {"maxLength": 1}},
            {"ab": 1},
            "in the name of a property: expected at most 1 characters, got 2",
        ),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            1,
            "expected string or null, got integer",
        ),
        (
            {"oneOf": [{"const": 1}, {"type": "string"}]},
            2,
            "fits none of the 2 alternatives: expected 1, got 2; or expected string, got integer",
        ),
        (
            {"oneOf": [{"type": "number"}, {"type": "integer"}]},
            2,
            "fits 2 of the 2 alternatives, but only one may",
        ),
    ],
    ids=lambda case: str(case)[:40],
)
def test_a_message_says_what_the_schema_wants(schema: dict[str, Any], value: object, message: str):
    assert told(schema, value) == [("(root)", message)]


def test_draft_7_reads_alike():
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "items": [{"type": "string"}],
        "additionalItems": False,
    }
    assert told(schema, ["a", 1]) == [("(root)", "expected at most 1 items, got 2")]


def test_a_schema_that_allows_nothing_says_so():
    assert told({"properties": {"a": False}}, {"a": 1}) == [("a", "nothing is allowed here")]


@pytest.mark.parametrize(
    ("steps", "path"),
    [
        ([], "(root)"),
        (["text"], "text"),
        (["items", 2, "name"], "items[2].name"),
        ([0, 1], "[0][1]"),
        (["a-b", "$c"], "a-b.$c"),
        (["a", "b c", "d"], 'a["b c"].d'),
        (["", 'q"'], '[""]["q\\""]'),
        (["ä"], '["ä"]'),
    ],
)
def test_a_path_is_written_as_people_write_it(steps: list[str | int], path: str):
    assert path_of(steps) == path


def test_what_is_quoted_is_cut():
    """
    A schema and the arguments may hold megabytes.
    """
    long = "x" * 1_000_000
    schemas: list[dict[str, Any]] = [
        {"enum": [long + str(n) for n in range(20)]},
        {"pattern": "a" * 10_000},
        {"anyOf": [{"required": [long + str(n)]} for n in range(20)] + [{"type": "object"}]},
    ]
    for schema in schemas:
        [(_, message)] = told(schema, long)[:1] or [("", "")]
        assert len(message) <= MAX_MESSAGE
    assert len(path_of([long] * 3)) <= 200
    assert len(path_of(["a"] * 1_000)) <= 200
    assert shown([0] * 1000) == "array of 1000"
    assert shown({str(n): n for n in range(100)}) == "object of 100"
    assert len(shown(["y" * 100])) <= 60


REQUIRED: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {}, "texts": {}, "n": {"$ref": "#/$defs/n"}},
    "required": ["text"],
    "$defs": {"n": {"properties": {"name": {}}, "required": ["name"]}},
}


@pytest.mark.parametrize(
    ("schema", "value", "messages"),
    [
        (
            REQUIRED,
            {"txt": 1},
            ["unknown argument 'txt', did you mean 'text'? (missing required property \"text\")"],
        ),
        (REQUIRED, {"texts": 1}, ['missing required property "text"']),
        (REQUIRED, {"other": 1}, ['missing required property "text"']),
        (
            REQUIRED,
            {"text": 1, "n": {"names": 1}},
            ["unknown argument 'names', did you mean 'name'? (missing required property \"name\")"],
        ),
        (
            {**REQUIRED, "additionalProperties": False},
            {"txt": 1, "zzz": 2},
            [
                "unknown argument 'txt', did you mean 'text'? unknown property: \"zzz\"",
                'missing required property "text"',
            ],
        ),
        (
            {"properties": {"text": {}}, "additionalProperties": False},
            {"zzz": 2},
            ['unknown property: "zzz"'],
        ),
        ({"required": ["text"]}, {"txt": 1}, ['missing required property "text"']),
    ],
)
def test_a_name_that_is_unknown_comes_with_the_one_that_is_meant(
    schema: dict[str, Any], value: object, messages: list[str]
) -> None:
    errors = list(jsonschema_rs.validator_for(schema).iter_errors(value))
    assert [message for _, message in describe_all(errors, schema)] == messages


@pytest.mark.parametrize(
    ("schema", "value", "is_so"),
    [
        ({"type": "string"}, {}, True),
        ({"type": "string"}, 5, False),
        ({"oneOf": [{"type": "string"}, {"type": "array"}]}, {}, True),
        ({"anyOf": [{"type": "string"}, {"required": ["a"]}]}, {}, False),
        ({"properties": {"a": {"type": "string"}}}, {"a": {}}, False),
        ({"enum": [1]}, {}, False),
    ],
)
def test_a_schema_of_something_else_than_an_object_is_told_from_arguments_that_are_wrong(
    schema: dict[str, Any], value: object, is_so: bool
) -> None:
    (error,) = jsonschema_rs.validator_for(schema).iter_errors(value)
    assert wants_no_object(error) is is_so
