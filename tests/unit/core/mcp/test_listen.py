"""``subscriptions/listen``, from message to message."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from mcpd.core.mcp.listen import (
    Listen,
    acknowledgement_params,
    listen_params,
    listen_result,
    read_listen,
    with_subscription_id,
    without_subscription_id,
)

META = "io.modelcontextprotocol/"
ODD = b'"odd": [1e400, 1.0, {"a":1,"a":2}, "\\ud83d", "\\u00e9"]'


def test_the_notifications_of_a_listen_are_read():
    wanted = {
        "toolsListChanged": True,
        "promptsListChanged": False,
        "resourceSubscriptions": ["a://b", "a://\ud83d"],
        "taskIds": ["t"],
        "x": 1,
    }
    listen = read_listen(json.dumps({"notifications": wanted}).encode())
    assert listen == Listen(tools=True, uris=("a://b", "a://\ud83d"), tasks=("t",))
    assert read_listen(listen_params(listen)) == listen
    everything = Listen(tools=True, prompts=True, resources=True)
    assert read_listen(listen_params(everything)) == everything


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
def test_malformed_notifications_are_refused(params: Any):
    with pytest.raises(ValueError, match="notifications"):
        read_listen(json.dumps(params).encode())


@pytest.mark.parametrize("ident", [b"1", b'"1"', b'"\\u0031"'])
def test_messages_of_a_listen_have_the_id_of_its_request(ident: bytes):
    key = b'"io.modelcontextprotocol/subscriptionId":' + ident
    assert acknowledgement_params(ident, Listen(tools=True)) == (
        b'{"_meta":{' + key + b'},"notifications":{"toolsListChanged":true}}'
    )
    assert listen_result(ident) == b'{"resultType":"complete","_meta":{' + key + b"}}"
    assert with_subscription_id(None, ident) == b'{"_meta":{' + key + b"}}"
    params = b'{"uri":"a://b", ' + ODD + b"}"
    tagged = with_subscription_id(params, ident)
    assert tagged == b'{"_meta":{' + key + b'},"uri":"a://b", ' + ODD + b"}"
    assert without_subscription_id(tagged) == (params, ident)
    assert without_subscription_id(with_subscription_id(None, ident)) == (None, ident)


def test_the_subscription_id_of_a_notification_is_replaced():
    params = b'{"_meta":{"x":1,"io.modelcontextprotocol/subscriptionId":5}}'
    assert msgspec.json.decode(with_subscription_id(params, b'"mine"')) == {
        "_meta": {"x": 1, META + "subscriptionId": "mine"}
    }
    assert without_subscription_id(params) == (b'{"_meta":{"x":1}}', b"5")
    assert without_subscription_id(b'{"a":1}') == (b'{"a":1}', b"")
    assert without_subscription_id(None) == (None, b"")
