"""The stateless era, from message to message."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from mcpd.core.mcp import modern
from mcpd.core.mcp.introduction import HandshakeRefused, Introduction
from mcpd.core.mcp.versions import Era

META = "io.modelcontextprotocol/"
INFO = b'{"name":"s","version":"1"}'
ODD = b'"odd": [1e400, 1.0, {"a":1,"a":2}, "\\ud83d", "\\u00e9"]'


# -- server/discover -----------------------------------------------------------------------------


def discovered(**more: Any) -> bytes:
    said = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    return json.dumps({**said, **more}).encode()


def test_the_result_of_discover_is_read():
    result = discovered(
        supportedVersions=["2030-01-01", "2026-07-28", "2025-11-25"],
        instructions="be kind",
        _meta={META + "serverInfo": {"name": "x", "version": "2", "title": "X"}},
    )
    found = modern.read_discover(result, "entry")
    assert (found.version, found.era) == ("2026-07-28", Era.MODERN)
    assert json.loads(found.info) == {"name": "x", "version": "2", "title": "X"}
    assert found.instructions == b'"be kind"'
    assert found.has("tools")


@pytest.mark.parametrize("meta", [{}, None, {META + "serverInfo": None}, []])
def test_a_server_without_a_name_has_that_of_its_entry(meta: Any):
    """
    It is optional in the modern era, and a legacy client must be told both members.
    """
    found = modern.read_discover(discovered(_meta=meta, instructions=5), "entry")
    assert json.loads(found.info) == {"name": "entry", "version": "0"}
    assert found.instructions is None


@pytest.mark.parametrize(
    "result",
    [
        b"[]",
        b"{}",
        discovered(supportedVersions=["2025-11-25"]),
        discovered(supportedVersions="2026-07-28"),
        discovered(supportedVersions=[1]),
        discovered(supportedVersions=[]),
        discovered(capabilities=None),
        discovered(capabilities=[]),
        b'{"supportedVersions":["2026-07-28"]}',
    ],
)
def test_an_introduction_that_cannot_be_used_is_refused(result: bytes):
    with pytest.raises(HandshakeRefused):
        modern.read_discover(result, "entry")


def test_the_result_of_discover_is_written():
    assert json.loads(modern.discover_result(b'{"tools":{}}', INFO, b'"be kind"')) == {
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "instructions": "be kind",
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {META + "serverInfo": json.loads(INFO)},
    }
    assert "instructions" not in json.loads(modern.discover_result(b"{}", INFO, None))


def introduced(version: str, **capabilities: Any) -> Introduction:
    raw = {name: Raw(json.dumps(value).encode()) for name, value in capabilities.items()}
    return Introduction(version, raw, INFO)


def test_lists_of_each_server_can_change_and_tasks_are_those_of_the_extension():
    extensions = {META + "tasks": {}, "x": {"y": 1}}
    old = introduced(
        "2025-11-25", tools={}, resources={"subscribe": True}, tasks={}, extensions=extensions
    )
    assert json.loads(modern.endpoint_capabilities(old)) == {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "extensions": {"x": {"y": 1}},
    }
    new = introduced("2026-07-28", tools={"listChanged": False}, extensions=extensions, z=1)
    assert json.loads(modern.endpoint_capabilities(new)) == {
        "tools": {"listChanged": True},
        "extensions": extensions,
        "z": 1,
    }
    assert modern.has_tasks(new) and not modern.has_tasks(old)
    assert not modern.has_tasks(introduced("2026-07-28", extensions={"x": {}}))


# -- results -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (b"{}", "complete"),
        (b'{"content":[{"resultType":"x"}]}', "complete"),
        (b'{"x":1e400,"resultType" : "input_required"}', "input_required"),
        (b'{"result\\u0054ype":"task"}', "task"),
        (b'{"resultType":null}', None),
        (b'{"resultType":1}', None),
        (b'{"lone":"\\ud83d","resultType":"task"}', "task"),
        (b"[]", None),
    ],
)
def test_the_type_of_a_result_is_read(result: bytes, expected: str | None):
    assert modern.result_type(Raw(result)) == expected


ABOUT = b'"io.modelcontextprotocol/serverInfo":' + INFO


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (b"{}", b'{"resultType":"complete","_meta":{%b}}'),
        (b"{ " + ODD + b" }", b'{"resultType":"complete","_meta":{%b}, ' + ODD + b" }"),
        (
            b'{"a":1.0, "_meta":{"t":1}}',
            b'{"resultType":"complete","a":1.0, "_meta":{%b,"t":1}}',
        ),
        (b'{"resultType":"odd","a":1}', b'{"resultType":"complete","_meta":{%b},"a":1}'),
        (b'{"_meta":5,"a":1}', b'{"resultType":"complete","_meta":{%b},"a":1}'),
        (b"[]", b"[]"),
    ],
)
def test_a_legacy_result_gets_its_modern_members_in_front(result: bytes, expected: bytes):
    assert modern.to_modern_result(Raw(result), INFO) == expected.replace(b"%b", ABOUT)


def test_caching_hints_are_added_unless_the_result_has_them():
    both = json.loads(modern.to_modern_result(b'{"a":1}', INFO, hints=(0, "private")))
    assert (both["ttlMs"], both["cacheScope"]) == (0, "private")
    own = json.loads(modern.to_modern_result(b'{"ttlMs":5}', INFO, hints=(0, "private")))
    assert (own["ttlMs"], own["cacheScope"]) == (5, "private")
    page = json.loads(modern.list_page(b'{"tools":[]}', INFO, 7, "public"))
    assert (page["ttlMs"], page["cacheScope"], page["resultType"]) == (7, "public", "complete")


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (b'{"resultType":"complete","a":1}', b'{"a":1}'),
        (b'{"a":{"ttlMs":1}, "ttlMs":5 ,"cacheScope":"public"}', b'{"a":{"ttlMs":1}}'),
        (b'{"ttlMs":5,' + ODD + b',"resultType":"complete","z":1 }', b"{" + ODD + b',"z":1 }'),
        (b'{"content":[]}', b'{"content":[]}'),
        (b'{"resultType":"complete"}', b"{}"),
    ],
)
def test_a_result_for_a_legacy_client_has_no_modern_members(result: bytes, expected: bytes):
    assert modern.to_legacy_result(Raw(result)) == expected
