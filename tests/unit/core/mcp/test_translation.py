"""What is said differently in the two eras."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from mcpd.core.mcp import modern_meta, translation
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.mcp.input_required import retry_params
from mcpd.core.mcp.versions import Era

META = "io.modelcontextprotocol/"
INFO = b'{"name":"s","version":"1"}'
NEW = ClientInfo(Era.MODERN, b'{"roots":{}}', b'{"name":"c"}')
OLD = ClientInfo(Era.LEGACY, b'{"roots":{}}', b'{"name":"c"}')


def declared(**capabilities: Any) -> dict[str, Raw]:
    return {name: Raw(json.dumps(value).encode()) for name, value in capabilities.items()}


def test_a_legacy_client_is_introduced_with_what_the_modern_era_knows():
    client_info = translation.legacy_client_info(
        declared(
            roots={"listChanged": True},
            sampling={"tools": {}},
            elicitation={},
            tasks={"list": {}},
            extensions={META + "tasks": {}, "x": {}},
            experimental={"y": 1},
        ),
        Raw(b'{"name":"c"}'),
        "debug",
    )
    assert json.loads(client_info.capabilities) == {
        "roots": {},
        "sampling": {"tools": {}},
        "elicitation": {},
        "extensions": {"x": {}},
        "experimental": {"y": 1},
    }
    assert client_info.answers == {"roots", "sampling", "sampling.tools", "elicitation"}
    assert (client_info.era, client_info.info, client_info.level) == (
        Era.LEGACY,
        b'{"name":"c"}',
        "debug",
    )


@pytest.mark.parametrize("info", [None, Raw(b"null"), Raw(b'"c"')])
def test_a_client_without_a_name_has_none(info: Raw | None):
    client_info = translation.legacy_client_info(declared(sampling=None), info)
    assert (client_info.capabilities, client_info.info, client_info.answers) == (
        b"{}",
        None,
        frozenset(),
    )


def test_a_request_between_peers_of_one_era_stays_as_it_is():
    params = b'{ "_meta":{"io.modelcontextprotocol/logLevel":"info"},"task":{},"requestState":"s"}'
    assert translation.params_for_server(Raw(params), NEW, Era.MODERN) == params
    assert translation.params_for_server(Raw(params), OLD, Era.LEGACY) == params
    assert translation.params_for_server(None, NEW, Era.MODERN) is None


def test_a_legacy_request_gets_an_envelope_and_loses_its_task():
    params = translation.params_for_server(
        Raw(b'{"name":"a","task":{"ttl":1},"n":1.0}'), OLD, Era.MODERN
    )
    assert params is not None
    assert params.endswith(b',"name":"a","n":1.0}')
    client_info = modern_meta.read_envelope(json.dumps(json.loads(params)["_meta"]).encode())
    assert client_info is not None and client_info.answers == {"roots"}
    assert json.loads(translation.params_for_server(None, OLD, Era.MODERN) or b"")["_meta"]


def test_a_modern_request_reaches_a_legacy_server_without_envelope_and_answers():
    params = b'{"name":"a","n":1.0}'
    sent = modern_meta.with_envelope(retry_params(params, {"q": b"{}"}, b'"s"'), NEW)
    assert translation.params_for_server(Raw(sent), NEW, Era.LEGACY) == params
    sent = modern_meta.with_envelope(b'{"task":{"ttl":1},"name":"a","n":1.0}', NEW)
    assert translation.params_for_server(Raw(sent), NEW, Era.LEGACY) == params
    assert (
        translation.params_for_server(modern_meta.with_envelope(None, NEW), NEW, Era.LEGACY) is None
    )


@pytest.mark.parametrize(
    ("method", "has_hints"),
    [
        ("tools/call", False),
        ("prompts/get", False),
        ("completion/complete", False),
        ("resources/read", True),
        ("tools/list", True),
    ],
)
def test_results_that_may_be_kept_say_how_long(method: str, has_hints: bool):
    result = json.loads(translation.result_for_modern(method, Raw(b'{"a":1}'), INFO))
    assert result.pop("_meta") == {META + "serverInfo": json.loads(INFO)}
    hints = {"ttlMs": 0, "cacheScope": "private"} if has_hints else {}
    assert result == {"resultType": "complete", "a": 1, **hints}


def test_a_modern_result_is_a_legacy_one_without_what_is_new():
    result = b'{"resultType":"complete","ttlMs":1,"_meta":{"x":1.0},"cacheScope":"public","a":[]}'
    assert translation.result_for_legacy(Raw(result)) == b'{"_meta":{"x":1.0},"a":[]}'


@pytest.mark.parametrize("code", [-32601, -32602, -32603, -32000, -32001, -32019, -32100, -1, 0, 7])
def test_most_errors_mean_the_same_in_both_eras(code: int):
    error = b'{"code": %d,"message":"m","data":{"n":1.0}}' % code
    assert translation.error_for_modern(Raw(error)) == error
    assert translation.error_for_legacy(Raw(error)) == error


def test_a_resource_that_is_not_found_has_another_code():
    error = b'{"code": -32002, "message":"m","data":{"uri":"a://b","n":1.0}}'
    assert translation.error_for_modern(Raw(error)) == error.replace(b"-32002", b"-32602")


@pytest.mark.parametrize("code", [-32020, -32021, -32022, -32042, -32099])
def test_codes_that_a_legacy_server_cannot_mean_are_its_internal_errors(code: int):
    error = b'{"code":%d,"message":"m","data":{"n":1.0}}' % code
    wrapped = translation.error_for_modern(Raw(error))
    assert wrapped == b'{"code":-32603,"message":"m","data":{"original":' + error + b"}}"


def test_what_is_wrong_between_us_and_a_modern_server_is_no_fault_of_a_legacy_client():
    for code in (-32020, -32022):
        error = b'{"code":%d,"message":"m"}' % code
        wrapped = json.loads(translation.error_for_legacy(Raw(error)))
        assert wrapped["code"] == -32603
        assert wrapped["data"]["original"]["code"] == code
    error = b'{"code":-32021,"message":"m","data":{"requiredCapabilities":{"roots":{}}}}'
    expected = error.replace(b"-32021", b"-32603")
    assert translation.error_for_legacy(error) == expected


@pytest.mark.parametrize(
    "error", [b"null", b"[]", b'{"message":"-32022"}', b'{"code":"-32022"}', b'{"code":-32022.5}']
)
def test_an_error_without_a_code_stays_as_it_is(error: bytes):
    assert translation.error_for_modern(Raw(error)) == error
    assert translation.error_for_legacy(Raw(error)) == error


def test_a_message_that_is_no_text_is_replaced():
    wrapped = json.loads(translation.error_for_modern(b'{"code":-32050,"message":5}'))
    assert isinstance(wrapped["message"], str)
    assert wrapped["data"]["original"] == {"code": -32050, "message": 5}


@pytest.mark.parametrize(
    ("method", "params", "expected"),
    [
        ("roots/list", None, None),
        ("roots/list", b"{}", b"{}"),
        ("roots/list", b'{"_meta":{"progressToken":1}}', None),
        ("roots/list", b'{"_meta":{"progressToken":1,"x":1}}', b'{"_meta":{"x":1}}'),
        (
            "elicitation/create",
            b'{"mode":"url","elicitationId":"e","url":"u://", "n":1.0}',
            b'{"mode":"url","url":"u://", "n":1.0}',
        ),
        (
            "sampling/createMessage",
            b'{"a":1,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}',
            b'{"a":1}',
        ),
        ("sampling/createMessage", b'{"elicitationId":"e"}', b'{"elicitationId":"e"}'),
        ("sampling/createMessage", b"[]", b"[]"),
    ],
)
def test_a_question_keeps_nothing_of_its_connection(
    method: str, params: bytes | None, expected: bytes | None
):
    assert translation.question_for_modern(method, params) == expected


def test_a_url_elicitation_has_an_id_for_legacy_clients():
    params = b'{"mode":"url","url":"u://","message":"m"}'
    asked = translation.question_for_legacy("elicitation/create", params, "1")
    assert asked.endswith(b"," + params[1:])
    ident = json.loads(asked)["elicitationId"]
    again = translation.question_for_legacy("elicitation/create", params, "2")
    assert isinstance(ident, str) and json.loads(again)["elicitationId"] != ident
    assert translation.question_for_legacy("elicitation/create", asked, "3") == asked


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("elicitation/create", b'{"message":"m"}'),
        ("elicitation/create", b'{"mode":"form","message":"m"}'),
        ("sampling/createMessage", b'{"mode":"url"}'),
        ("roots/list", b"{}"),
    ],
)
def test_other_questions_go_as_they_are(method: str, params: bytes):
    assert translation.question_for_legacy(method, params) == params


def test_a_question_without_parameters_has_empty_ones():
    assert translation.question_for_legacy("roots/list", None) == b"{}"


def test_only_an_elicitation_can_be_refused_in_an_answer():
    assert json.loads(translation.response_for_error("elicitation/create") or b"") == {
        "action": "cancel"
    }
    assert translation.response_for_error("sampling/createMessage") is None
    assert translation.response_for_error("roots/list") is None
