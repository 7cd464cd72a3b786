"""The handshake of the revisions up to 2025-11-25."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from mcpd.core.mcp import legacy
from mcpd.core.mcp.introduction import HandshakeRefused, Introduction
from mcpd.core.mcp.legacy import read_handshake

RESULT: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {"listChanged": False, "x": 1}, "logging": {}},
    "serverInfo": {"name": "real", "version": "3"},
}


def answer(**changes: Any) -> bytes:
    members = {**RESULT, **changes}
    return json.dumps({k: v for k, v in members.items() if v is not ...}).encode()


def test_the_parameters_of_initialize_are_written():
    params = legacy.handshake_params("2025-03-26", {"sampling": b"{}"}, b'{"name":"x"}')
    assert json.loads(params) == {
        "protocolVersion": "2025-03-26",
        "capabilities": {"sampling": {}},
        "clientInfo": {"name": "x"},
    }


def test_an_introduction_keeps_the_servers_bytes():
    raw = answer(instructions="Say é").replace(b'"3"', b'"\\u0033"')
    said = read_handshake(raw, "echo")
    assert said.version == "2025-06-18"
    assert said.info == b'{"name": "real", "version": "\\u0033"}'
    assert said.instructions == b'"Say \\u00e9"'
    assert bytes(said.capabilities["tools"]) == b'{"listChanged": false, "x": 1}'


@pytest.mark.parametrize("info", [..., None, 5, "x", []])
def test_a_server_without_a_name_is_called_as_its_entry(info: Any):
    said = read_handshake(answer(serverInfo=info), "echo")
    assert json.loads(said.info) == {"name": "echo", "version": "0"}


@pytest.mark.parametrize("capabilities", [..., None, 5, []])
def test_a_server_that_declares_nothing_can_do_nothing(capabilities: Any):
    said = read_handshake(answer(capabilities=capabilities), "echo")
    assert said.capabilities == {} and not said.has("tools")


@pytest.mark.parametrize("instructions", [None, 5, {}])
def test_instructions_are_text_or_nothing(instructions: Any):
    assert read_handshake(answer(instructions=instructions), "echo").instructions is None


@pytest.mark.parametrize(
    "result",
    [
        b"null",
        b"[]",
        answer(protocolVersion=...),
        answer(protocolVersion=None),
        answer(protocolVersion=5),
        answer(protocolVersion="2026-07-28"),
        answer(protocolVersion="1.0"),
    ],
)
def test_an_answer_that_cannot_be_used_is_refused(result: bytes):
    with pytest.raises(HandshakeRefused):
        read_handshake(result, "echo")


def introduction(**capabilities: bytes) -> Introduction:
    return Introduction(
        version="2025-11-25",
        capabilities={name: Raw(raw) for name, raw in capabilities.items()},
        info=b'{"name":"x"}',
    )


@pytest.mark.parametrize(
    ("declared", "has", "subscribes"),
    [
        (b'{"subscribe":true}', True, True),
        (b'{"subscribe":false}', True, False),
        (b"{}", True, False),
        (b"true", True, False),
        (b"false", False, False),
        (b"null", False, False),
    ],
)
def test_capabilities_are_honoured(declared: bytes, has: bool, subscribes: bool):
    said = introduction(resources=declared)
    assert said.has("resources") is has
    assert said.has("resources", "subscribe") is subscribes
    assert not said.has("tools")


def test_lists_are_shown_to_change_and_tasks_are_not_shown():
    shown = legacy.endpoint_capabilities(
        introduction(
            tools=b'{"listChanged":false,"n":1e400}',
            prompts=b"{}",
            resources=b'{"subscribe":true}',
            tasks=b'{"list":{}}',
            logging=b"{}",
            experimental=b'{"big": 1e400}',
            extensions=b'{"io.modelcontextprotocol/tasks":{},"x":1.0}',
        )
    )
    assert shown == (
        b'{"tools":{"listChanged":true,"n":1e400},"prompts":{"listChanged":true},'
        b'"resources":{"subscribe":true,"listChanged":true},"logging":{},'
        b'"experimental":{"big": 1e400},"extensions":{"x":1.0}}'
    )


def test_names_that_have_no_utf8_do_not_raise():
    """
    B069: nothing a server says of itself may hurt more than its own sessions.
    """
    raw = b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{"\\ud800":1},"\\ud800":{}}}'
    said = read_handshake(raw, "echo")
    assert legacy.endpoint_capabilities(said) == (
        b'{"tools":{"\\ud800":1,"listChanged":true},"\\ud800":{}}'
    )
    assert Introduction.from_cache(said.to_cache()) == said
    msgspec.json.encode(said.to_cache())


def test_an_introduction_survives_the_cache():
    said = read_handshake(answer(instructions="x"), "echo")
    stored = json.loads(json.dumps(said.to_cache()))
    assert Introduction.from_cache(stored) == said
    said = read_handshake(answer(), "echo")
    assert Introduction.from_cache(json.loads(json.dumps(said.to_cache()))) == said


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "9"},
        {"version": None},
        {"capabilities": []},
        {"capabilities": "[]"},
        {"capabilities": "{"},
        {"info": None},
        {"instructions": 5},
        {"instructions": ...},
    ],
)
def test_a_damaged_cache_is_refused(changes: dict[str, Any]):
    stored = {**introduction(tools=b"{}").to_cache(), **changes}
    stored = {name: value for name, value in stored.items() if value is not ...}
    with pytest.raises((KeyError, TypeError, ValueError)):
        Introduction.from_cache(stored)


def test_the_result_of_initialize_is_written():
    result = legacy.initialize_result("2025-06-18", b'{"a":1e400}', b'{"name": "x"}', b'"\\u00e9"')
    assert result == (
        b'{"protocolVersion":"2025-06-18","capabilities":{"a":1e400},'
        b'"serverInfo":{"name": "x"},"instructions":"\\u00e9"}'
    )
    assert b"instructions" not in legacy.initialize_result("2025-06-18", b"{}", b"{}", None)


def test_the_aggregate_declares_what_it_relays():
    capabilities = json.loads(legacy.aggregate_capabilities([introduction(tools=b"{}")]))
    assert set(capabilities) == {"tools", "prompts", "resources", "completions", "logging"}
    assert capabilities["resources"] == {"subscribe": True, "listChanged": True}


def test_the_aggregate_declares_the_extensions_of_its_servers():
    one = introduction(extensions=b'{"x/y":{"a":1},"io.modelcontextprotocol/tasks":{}}')
    two = introduction(extensions=b'{"x/y":{"a":2},"x/z":{}}')
    capabilities = json.loads(legacy.aggregate_capabilities([one, two]))
    assert capabilities["extensions"] == {"x/y": {"a": 1}, "x/z": {}}


def test_a_level_is_set_by_its_name():
    assert legacy.level_params("debug") == b'{"level":"debug"}'
