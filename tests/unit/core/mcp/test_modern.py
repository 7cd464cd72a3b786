"""The stateless era, from message to message."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from mcpd.core.mcp import codes, modern
from mcpd.core.mcp.client_info import UNKNOWN_CLIENT, ClientInfo
from mcpd.core.mcp.introduction import HandshakeRefused, Introduction
from mcpd.core.mcp.versions import Era

META = "io.modelcontextprotocol/"
INFO = b'{"name":"s","version":"1"}'
ODD = b'"odd": [1e400, 1.0, {"a":1,"a":2}, "\\ud83d", "\\u00e9"]'


def envelope(**more: Any) -> dict[str, Any]:
    said = {"protocolVersion": "2026-07-28", "clientCapabilities": {}, **more}
    return {META + name: value for name, value in said.items()}


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def read(meta: Any) -> ClientInfo | None:
    return modern.read_envelope(json.dumps(meta).encode())


# -- what a request says of itself ---------------------------------------------------------------


def test_a_request_says_who_asks():
    capabilities = {"elicitation": {"url": {}}, "roots": {}, "x": 1}
    client_info = read(
        envelope(
            clientCapabilities=capabilities,
            clientInfo={"name": "c", "version": "2"},
            logLevel="debug",
        )
        | {"progressToken": 3}
    )
    assert client_info is not None
    assert client_info.era is Era.MODERN
    assert json.loads(client_info.capabilities) == capabilities
    assert json.loads(client_info.info or b"") == {"name": "c", "version": "2"}
    assert client_info.answers == {"elicitation.url", "roots"}
    assert client_info.level == "debug"


@pytest.mark.parametrize("meta", [{}, {"progressToken": 1}, [], None, 5, {META + "logLevel": "x"}])
def test_without_a_version_it_is_no_modern_request(meta: Any):
    assert read(meta) is None


def test_nobody_has_to_say_more_than_version_and_capabilities():
    client_info = read(envelope())
    assert client_info == ClientInfo(Era.MODERN)


@pytest.mark.parametrize("info", [None, "me", 5])
def test_an_info_that_is_none_is_left_out(info: Any):
    """
    It is for display alone, and nobody may depend on it.
    """
    client_info = read(envelope(clientInfo=info))
    assert client_info is not None and client_info.info is None


@pytest.mark.parametrize("version", ["1900-01-01", "2025-11-25", ""])
def test_a_version_that_is_none_of_ours_is_refused_with_those_that_are(version: str):
    with pytest.raises(modern.EnvelopeRefused) as refused:
        read({META + "protocolVersion": version})
    assert refused.value.code == codes.UNSUPPORTED_VERSION
    assert refused.value.data == {"supported": ["2026-07-28"], "requested": version}


@pytest.mark.parametrize(
    "meta",
    [
        {META + "protocolVersion": 20260728, META + "clientCapabilities": {}},
        {META + "protocolVersion": None, META + "clientCapabilities": {}},
        {META + "protocolVersion": "2026-07-28"},
        envelope(clientCapabilities=None),
        envelope(clientCapabilities=[]),
        envelope(logLevel="loud"),
        envelope(logLevel=3),
    ],
)
def test_an_envelope_that_breaks_a_rule_is_refused(meta: Any):
    with pytest.raises(modern.EnvelopeRefused) as refused:
        read(meta)
    assert refused.value.code == codes.INVALID_PARAMS
    assert META in refused.value.message


def test_the_envelope_goes_in_front_and_the_rest_stays_as_it_is():
    client_info = ClientInfo(Era.LEGACY, b'{"roots":{}}', b'{"name":"c"}', frozenset(), "info")
    said = (
        b'"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
        b'"io.modelcontextprotocol/clientCapabilities":{"roots":{}},'
        b'"io.modelcontextprotocol/clientInfo":{"name":"c"},'
        b'"io.modelcontextprotocol/logLevel":"info"'
    )
    for params, expected in [
        (None, b'{"_meta":{%b}}'),
        (b"{}", b'{"_meta":{%b}}'),
        (b"{ }", b'{"_meta":{%b}}'),
        (b'{"name": "a", %b }' % ODD, b'{"_meta":{%b},"name": "a", ' + ODD + b" }"),
        (b'{%b,"_meta":{}}' % ODD, b"{" + ODD + b',"_meta":{%b}}'),
        (b'{"_meta" : {"progressToken":1} }', b'{"_meta" : {%b,"progressToken":1} }'),
        (b'{"x":1,"\\u005fmeta":{"y":2.0}}', b'{"x":1,"\\u005fmeta":{%b,"y":2.0}}'),
        (b'{"_meta":null,"x":1}', b'{"_meta":{%b},"x":1}'),
        (b'{"x":{"_meta":{}}}', b'{"_meta":{%b},"x":{"_meta":{}}}'),
    ]:
        given = params if params is None else Raw(params)
        assert modern.with_envelope(given, client_info) == expected.replace(b"%b", said)


def test_what_a_legacy_client_says_of_itself_in_passing_does_not_count():
    meta = json.dumps({"x": 1, **envelope(logLevel="debug", clientInfo={"name": "forged"})})
    params = modern.with_envelope(b'{"_meta":%b}' % meta.encode(), UNKNOWN_CLIENT)
    assert json.loads(params) == {"_meta": {**envelope(), "x": 1}}


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (None, None),
        (b'{"_meta":{%b}}', None),
        (b'{ "_meta" : { %b } }', None),
        (b'{"_meta":{%b},"name":"a"}', b'{"name":"a"}'),
        (
            b'{"_meta":{%b,"progressToken":1},"name":"a"}',
            b'{"_meta":{"progressToken":1},"name":"a"}',
        ),
        (
            b'{"n":1.0, "_meta":{"traceparent":"00-", %b} }',
            b'{"n":1.0, "_meta":{"traceparent":"00-"} }',
        ),
        (b'{"\\u005fmeta":{%b},"n":1e400}', b'{"n":1e400}'),
        (b'{"n":1,"_meta":{}}', b'{"n":1,"_meta":{}}'),
        (b'{"n":{"_meta":{%b}}}', b'{"n":{"_meta":{%b}}}'),
        (b"{}", b"{}"),
        (b'{"_meta":7}', b'{"_meta":7}'),
    ],
)
def test_the_envelope_is_taken_out_and_what_is_empty_with_it(
    params: bytes | None, expected: bytes | None
):
    said = compact(envelope(clientInfo={"name": "c"}, logLevel="info"))[1:-1]
    given = params and params.replace(b"%b", said)
    wanted = expected and expected.replace(b"%b", said)
    assert modern.without_envelope(given) == wanted


def test_an_escaped_name_in_an_envelope_is_taken_out_too():
    params = b'{"_meta":{"io.modelcontextprotocol\\/logLevel":"info","x":1}}'
    assert modern.without_envelope(params) == b'{"_meta":{"x":1}}'


# -- what a server says of itself ----------------------------------------------------------------


def discovered(**more: Any) -> bytes:
    said = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    return json.dumps({**said, **more}).encode()


def test_a_server_is_read_as_it_introduces_itself():
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


def test_a_client_is_told_what_discover_has():
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
    assert json.loads(modern.capabilities_shown(old)) == {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "extensions": {"x": {"y": 1}},
    }
    new = introduced("2026-07-28", tools={"listChanged": False}, extensions=extensions, z=1)
    assert json.loads(modern.capabilities_shown(new)) == {
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
def test_a_result_says_what_it_is(result: bytes, expected: str | None):
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
def test_a_legacy_result_is_stamped_in_front(result: bytes, expected: bytes):
    assert modern.stamped(Raw(result), INFO) == expected.replace(b"%b", ABOUT)


def test_a_result_that_is_kept_says_how_long_unless_it_says_so_itself():
    both = json.loads(modern.stamped(b'{"a":1}', INFO, hints=(0, "private")))
    assert (both["ttlMs"], both["cacheScope"]) == (0, "private")
    own = json.loads(modern.stamped(b'{"ttlMs":5}', INFO, hints=(0, "private")))
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
def test_a_modern_result_loses_what_a_legacy_client_does_not_know(result: bytes, expected: bytes):
    assert modern.stripped(Raw(result)) == expected


# -- input ---------------------------------------------------------------------------------------


def test_an_input_request_is_read_as_it_came():
    params = b'{"message": "?", ' + ODD + b"}"
    found = modern.read_input(
        b'{"resultType":"input_required","requestState":"s\\u0074","inputRequests":'
        b'{"b":{"method":"elicitation/create","params":' + params + b"},"
        b'"a":{"method":"roots/list"}}}'
    )
    assert found.state == b'"s\\u0074"'
    assert list(found.requests) == ["b", "a"]
    assert found.requests["b"] == ("elicitation/create", params)
    assert found.requests["a"] == ("roots/list", None)


def test_one_of_requests_and_state_is_enough():
    assert modern.read_input(b'{"requestState":""}').requests == {}
    only = b'{"inputRequests":{"q":{"method":"roots/list","params":{}}}}'
    assert modern.read_input(only) == modern.Input({"q": ("roots/list", b"{}")}, None)


@pytest.mark.parametrize(
    "result",
    [
        b"[]",
        b"{}",
        b'{"inputRequests":{}}',
        b'{"requestState":5}',
        b'{"inputRequests":[]}',
        b'{"inputRequests":{"q":5}}',
        b'{"inputRequests":{"q":{"method":"tools/call","params":{}}}}',
        b'{"inputRequests":{"q":{"method":5,"params":{}}}}',
        b'{"inputRequests":{"q":{"params":{}}}}',
        b'{"inputRequests":{"q":{"method":"elicitation/create"}}}',
        b'{"inputRequests":{"q":{"method":"roots/list","params":[]}}}',
    ],
)
def test_input_that_cannot_be_asked_for_is_the_servers_fault(result: bytes):
    with pytest.raises(ValueError, match=r"input|request|result"):
        modern.read_input(result)


def test_input_is_asked_for():
    asked = {"q1": ("elicitation/create", b'{"message":1.0}'), "q2": ("roots/list", None)}
    result = modern.input_required(asked, "st\ud83date", INFO)
    assert b'{"method":"elicitation/create","params":{"message":1.0}}' in result
    assert json.loads(result) == {
        "resultType": "input_required",
        "inputRequests": {
            "q1": {"method": "elicitation/create", "params": {"message": 1.0}},
            "q2": {"method": "roots/list"},
        },
        "requestState": "st\ud83date",
        "_meta": {META + "serverInfo": json.loads(INFO)},
    }
    assert modern.read_input(result).requests == asked
    assert "inputRequests" not in json.loads(modern.input_required({}, "s", INFO))


def test_a_retry_is_the_request_with_the_answers():
    params = b'{"name":"a", ' + ODD + b', "requestState":"old","inputResponses":{"q":1}}'
    retry = modern.retry_params(params, {"q1": b'{"action": "cancel"}'}, b'"s\\u0074"')
    assert retry == (
        b'{"inputResponses":{"q1":{"action": "cancel"}},"requestState":"s\\u0074",'
        b'"name":"a", ' + ODD + b"}"
    )
    assert modern.retry_params(b'{"a":1}', {}, b'"s"') == b'{"requestState":"s","a":1}'
    assert modern.retry_params(None, {}, None) == b"{}"
    assert modern.without_answers(retry) == b'{"name":"a", ' + ODD + b"}"
    assert modern.without_answers(None) is None


# -- listening -----------------------------------------------------------------------------------


def test_what_is_listened_to_is_read():
    wanted = {
        "toolsListChanged": True,
        "promptsListChanged": False,
        "resourceSubscriptions": ["a://b", "a://\ud83d"],
        "taskIds": ["t"],
        "x": 1,
    }
    listen = modern.read_listen(json.dumps({"notifications": wanted}).encode())
    assert listen == modern.Listen(tools=True, uris=("a://b", "a://\ud83d"), tasks=("t",))
    assert modern.read_listen(modern.listen_params(listen)) == listen
    everything = modern.Listen(tools=True, prompts=True, resources=True)
    assert modern.read_listen(modern.listen_params(everything)) == everything


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"notifications": None},
        {"notifications": []},
        {"notifications": {"toolsListChanged": 1}},
        {"notifications": {"resourceSubscriptions": "a://b"}},
        {"notifications": {"resourceSubscriptions": [1]}},
        {"notifications": {"taskIds": {}}},
    ],
)
def test_what_cannot_be_listened_to_is_refused(params: Any):
    with pytest.raises(ValueError, match="notifications"):
        modern.read_listen(json.dumps(params).encode())


@pytest.mark.parametrize("ident", [b"1", b'"1"', b'"\\u0031"'])
def test_a_listen_is_named_as_its_client_named_it(ident: bytes):
    key = b'"io.modelcontextprotocol/subscriptionId":' + ident
    assert modern.acknowledged(ident, modern.Listen(tools=True)) == (
        b'{"_meta":{' + key + b'},"notifications":{"toolsListChanged":true}}'
    )
    assert modern.listen_result(ident) == b'{"resultType":"complete","_meta":{' + key + b"}}"
    assert modern.tagged(None, ident) == b'{"_meta":{' + key + b"}}"
    params = b'{"uri":"a://b", ' + ODD + b"}"
    tagged = modern.tagged(params, ident)
    assert tagged == b'{"_meta":{' + key + b'},"uri":"a://b", ' + ODD + b"}"
    assert modern.untagged(tagged) == (params, ident)
    assert modern.untagged(modern.tagged(None, ident)) == (None, ident)


def test_a_notification_is_tagged_instead_of_again():
    params = b'{"_meta":{"x":1,"io.modelcontextprotocol/subscriptionId":5}}'
    assert msgspec.json.decode(modern.tagged(params, b'"mine"')) == {
        "_meta": {"x": 1, META + "subscriptionId": "mine"}
    }
    assert modern.untagged(params) == (b'{"_meta":{"x":1}}', b"5")
    assert modern.untagged(b'{"a":1}') == (b'{"a":1}', b"")
    assert modern.untagged(None) == (None, b"")
