"""Schemas made to hurt: they reach nothing, and take nothing but their own check."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from mcpd.schemas.validator import TOO_LONG, Outcome, Unchecked, Validator, Violation

AT_REF = ("$ref", "$dynamicRef", "$schema", "$recursiveRef")


async def check(validator: Validator, schema: Any, arguments: Any) -> Outcome:
    return await validator.check(json.dumps(schema).encode(), json.dumps(arguments).encode())


@pytest.mark.parametrize("word", AT_REF)
@pytest.mark.parametrize("where", ["root", "property", "definition", "base"])
async def test_nothing_is_fetched_over_the_network(validator: Validator, word: str, where: str):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        uri = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        reference = {word: uri}
        schemas: dict[str, dict[str, Any]] = {
            "root": reference,
            "property": {"properties": {"a": reference}},
            "definition": {"$defs": {"a": reference}, "properties": {"a": {"$ref": "#/$defs/a"}}},
            "base": {"$id": uri, "properties": {"a": {word: "other.json"}}},
        }
        outcome = await check(validator, schemas[where], {"a": 1})
        assert isinstance(outcome, Unchecked) or outcome == []
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("form", ["file://{}", "{}", "file:{}"])
async def test_no_file_is_read(validator: Validator, tmp_path: Path, form: str):
    """
    If it were, the check would say that nothing fits.
    """
    (tmp_path / "schema.json").write_text("false")
    schema = {"properties": {"a": {"$ref": form.format(tmp_path / "schema.json")}}}
    outcome = await check(validator, schema, {"a": 1})
    assert isinstance(outcome, Unchecked)
    assert "schema.json" in outcome.reason


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^(.*a){20}$", "^([a-z]+)*[0-9]$"])
async def test_a_pattern_made_to_backtrack_is_linear(validator: Validator, pattern: str):
    outcome = await check(validator, {"pattern": pattern}, "a" * 5_000 + "!")
    assert isinstance(outcome, list)
    assert [violation.path for violation in outcome] == ["(root)"]


async def test_a_schema_that_refers_to_itself_ends(validator: Validator):
    tree = {"type": "object", "properties": {"child": {"$ref": "#"}, "n": {"type": "integer"}}}
    assert await check(validator, tree, {"child": {"child": {"n": "x"}}}) == [
        Violation("child.child.n", "expected integer, got string")
    ]
    for loop in (
        {"$ref": "#"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    ):
        assert await check(validator, loop, {}) in ([], Unchecked(TOO_LONG))
    assert await check(validator, {"type": "object"}, {}) == []


async def test_references_that_double_at_every_step_are_given_up(validator: Validator):
    defs: dict[str, Any] = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)
    }
    schema = {"$defs": {**defs, "d60": {"type": "string"}}, "$ref": "#/$defs/d0"}
    assert await check(validator, schema, "x") == Unchecked(TOO_LONG)


async def test_a_schema_of_alternatives_without_end_is_given_up_or_answered(validator: Validator):
    branch = {"properties": {f"p{n}": {"type": "string"} for n in range(10)}}
    outcome = await check(validator, {"anyOf": [branch] * 500}, {f"p{n}": 1 for n in range(10)})
    assert outcome == Unchecked(TOO_LONG) or isinstance(outcome, list)
    assert await check(validator, {"type": "object"}, {}) == []


async def test_a_huge_enumeration_is_told_in_a_line(validator: Validator):
    outcome = await check(validator, {"enum": list(range(30_000))}, -1)
    assert isinstance(outcome, list)
    assert (
        outcome[0].message
        == "expected one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … (30000 in all), got -1"
    )


async def test_arguments_nested_without_end_do_not_end_the_validator(validator: Validator):
    tree = json.dumps({"type": "object", "properties": {"c": {"$ref": "#"}}}).encode()
    for depth in (500, 50_000):
        outcome = await validator.check(tree, b'{"c":' * depth + b"1" + b"}" * depth)
        assert (
            isinstance(outcome, Unchecked) or outcome[0].message == "expected object, got integer"
        )
    assert await validator.check(tree, b"{}") == []


async def test_answers_that_would_take_all_memory_are_given_up(validator: Validator):
    """
    Each violation holds a copy of what it is about.
    """
    schema = {"allOf": [{"type": "string"}] * 5_000}
    outcome = await check(validator, schema, ["x" * 1_000] * 1_000)
    assert (
        outcome == [Violation("(root)", "expected string, got array")]
        or outcome == Unchecked(TOO_LONG)
        or isinstance(outcome, list)
    )
    assert await check(validator, {"type": "object"}, {}) == []
