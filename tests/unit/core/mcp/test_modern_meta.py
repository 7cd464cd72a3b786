"""The ``_meta`` of modern requests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from mcpd.core.mcp import codes, modern_meta
from mcpd.core.mcp.client_info import UNKNOWN_CLIENT, ClientInfo
from mcpd.core.mcp.versions import Era

META = "io.modelcontextprotocol/"
ODD = b'"odd": [1e400, 1.0, {"a":1,"a":2}, "\\ud83d", "\\u00e9"]'


def envelope(**more: Any) -> dict[str, Any]:
    said = {"protocolVersion": "2026-07-28", "clientCapabilities": {}, **more}
    return {META + name: value for name, value in said.items()}


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def read(meta: Any) -> ClientInfo | None:
    return modern_meta.read_envelope(json.dumps(meta).encode())


def test_the_envelope_of_a_request_is_read():
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


def test_version_and_capabilities_are_enough():
    client_info = read(envelope())
    assert client_info == ClientInfo(Era.MODERN)


@pytest.mark.parametrize("info", [None, "me", 5])
def test_an_invalid_client_info_is_left_out(info: Any):
    """
    It is for display only.
    """
    client_info = read(envelope(clientInfo=info))
    assert client_info is not None and client_info.info is None


@pytest.mark.parametrize("version", ["1900-01-01", "2025-11-25", ""])
def test_a_version_that_is_none_of_ours_is_refused_with_those_that_are(version: str):
    with pytest.raises(modern_meta.EnvelopeRefused) as refused:
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
    with pytest.raises(modern_meta.EnvelopeRefused) as refused:
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
        assert modern_meta.with_envelope(given, client_info) == expected.replace(b"%b", said)


def test_envelope_members_of_a_legacy_client_are_replaced():
    meta = json.dumps({"x": 1, **envelope(logLevel="debug", clientInfo={"name": "forged"})})
    params = modern_meta.with_envelope(b'{"_meta":%b}' % meta.encode(), UNKNOWN_CLIENT)
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
    assert modern_meta.without_envelope(given) == wanted


def test_an_escaped_name_in_an_envelope_is_taken_out_too():
    params = b'{"_meta":{"io.modelcontextprotocol\\/logLevel":"info","x":1}}'
    assert modern_meta.without_envelope(params) == b'{"_meta":{"x":1}}'
