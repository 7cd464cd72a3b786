"""Results that ask for input, and requests made again."""

from __future__ import annotations

import json

import pytest

from mcpd.core.mcp.input_required import (
    InputRequired,
    input_required_result,
    read_input_required,
    retry_params,
    without_input_responses,
)

META = "io.modelcontextprotocol/"
INFO = b'{"name":"s","version":"1"}'
ODD = b'"odd": [1e400, 1.0, {"a":1,"a":2}, "\\ud83d", "\\u00e9"]'


def test_an_input_request_is_read_as_it_came():
    params = b'{"message": "?", ' + ODD + b"}"
    found = read_input_required(
        b'{"resultType":"input_required","requestState":"s\\u0074","inputRequests":'
        b'{"b":{"method":"elicitation/create","params":' + params + b"},"
        b'"a":{"method":"roots/list"}}}'
    )
    assert found.state == b'"s\\u0074"'
    assert list(found.requests) == ["b", "a"]
    assert found.requests["b"] == ("elicitation/create", params)
    assert found.requests["a"] == ("roots/list", None)


def test_one_of_requests_and_state_is_enough():
    assert read_input_required(b'{"requestState":""}').requests == {}
    only = b'{"inputRequests":{"q":{"method":"roots/list","params":{}}}}'
    assert read_input_required(only) == InputRequired({"q": ("roots/list", b"{}")}, None)


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
def test_malformed_input_requests_are_refused(result: bytes):
    with pytest.raises(ValueError, match=r"input|request|result"):
        read_input_required(result)


def test_a_result_that_requests_input_is_written():
    asked = {"q1": ("elicitation/create", b'{"message":1.0}'), "q2": ("roots/list", None)}
    result = input_required_result(asked, "st\ud83date", INFO)
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
    assert read_input_required(result).requests == asked
    assert "inputRequests" not in json.loads(input_required_result({}, "s", INFO))


def test_a_retry_is_the_request_with_the_answers():
    params = b'{"name":"a", ' + ODD + b', "requestState":"old","inputResponses":{"q":1}}'
    retry = retry_params(params, {"q1": b'{"action": "cancel"}'}, b'"s\\u0074"')
    assert retry == (
        b'{"inputResponses":{"q1":{"action": "cancel"}},"requestState":"s\\u0074",'
        b'"name":"a", ' + ODD + b"}"
    )
    assert retry_params(b'{"a":1}', {}, b'"s"') == b'{"requestState":"s","a":1}'
    assert retry_params(None, {}, None) == b"{}"
    assert without_input_responses(retry) == b'{"name":"a", ' + ODD + b"}"
    assert without_input_responses(None) is None
