"""Headers that repeat parts of a body: how they are written, and which arguments they repeat."""

import json

import pytest

from mcpd.core.mcp import routing
from mcpd.core.wire import envelope
from tests.support.schemas import WITH_HEADERS


@pytest.mark.parametrize(
    ("value", "said"),
    [("plain", "plain"), ("=?base64?Z3LDvG4=?=", "grün"), ("=?base64?Z3LDvG4?=", None), ("=?BASE64?eA==?=", "=?BASE64?eA==?="),
     ("=?base64?/w==?=", None), ("=?base64??=", "")],
)  # fmt: skip
def test_encoded_values(value, said):
    assert routing.decoded(value) == said


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "",
        "a b",
        " a",
        "a ",
        "grün",
        "a\nb",
        "\u2028",
        "=?base64?eA==?=",
        "=?base64?",
        "x" * 300,
    ],
)
def test_what_is_written_is_read_again(text):
    value = routing.encoded(text)
    assert value.isascii() and value == value.strip() and "\n" not in value
    assert routing.decoded(value) == text


def test_the_same_as_the_official_sdk_writes():
    inbound = pytest.importorskip("mcp.shared.inbound")
    for text in ("plain", "a b", " a", "grün", "=?base64?eA==?=", "tab\there"):
        assert inbound.decode_header_value(routing.encoded(text)) == text


def test_annotations_are_found_by_properties():
    assert routing.parameters(WITH_HEADERS) == {
        "region": (("region",), "string"),
        "limit": (("limit",), "integer"),
        "dry": (("dry",), "boolean"),
        "a": (("deep", "a"), "string"),
    }
    assert routing.parameters(None) == {} and routing.parameters(b'{"type":"object"}') == {}


@pytest.mark.parametrize(
    "annotation",
    [{"type": "string", "x-mcp-header": "a b"}, {"type": "number", "x-mcp-header": "A"}, {"x-mcp-header": "A"},
     {"type": "string", "x-mcp-header": ""}, {"type": "string", "x-mcp-header": 1}, {"type": "string", "x-mcp-header": "REGION"},
     {"anyOf": [{"type": "string", "x-mcp-header": "B"}]}, {"items": {"type": "string", "x-mcp-header": "B"}},
     {"oneOf": [{"properties": {"c": {"type": "string", "x-mcp-header": "B"}}}]}, {"$defs": {"d": {"type": "string", "x-mcp-header": "B"}}}],
)  # fmt: skip
def test_an_invalid_annotation_spoils_all_of_the_tool(annotation):
    schema = json.loads(WITH_HEADERS)
    schema["properties"]["other"] = annotation
    assert routing.parameters(json.dumps(schema).encode()) is None


def test_a_deep_schema_is_read_in_linear_time():
    deep = '{"items":' * 900 + '{"x-mcp-header":"A"}' + "}" * 900
    assert routing.parameters(deep.encode()) is None


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ({"region": "eu", "limit": 42, "dry": True}, {"region": "eu", "limit": "42", "dry": "true"}),
        ({"region": "grün"}, {"region": "=?base64?Z3LDvG4=?="}),
        ({"region": None, "sql": "x"}, {}),
        ({"limit": 4.5, "dry": "yes", "region": 7}, {}),
        ({"deep": {"a": "x"}}, {"a": "x"}),
        ({"deep": 5}, {}),
    ],
)  # fmt: skip
def test_arguments_that_are_repeated(arguments, sent):
    found = envelope.params_of(json.dumps({"arguments": arguments}).encode())
    assert dict(routing.repeated(routing.parameters(WITH_HEADERS), found.arguments)) == sent
