"""What kind of message the body of a POST is."""

from __future__ import annotations

import pytest

from mcpd.listeners.http.requests.messages import (
    Batch,
    Invalid,
    Notification,
    Request,
    Response,
    read,
)


def test_a_request():
    found = read(b'{"jsonrpc":"2.0","id":"\\u0061","method":"ping","params":{"name":"x"}}')
    assert isinstance(found, Request)
    assert (found.ident, found.key, found.method) == (b'"\\u0061"', b'"a"', "ping")
    assert bytes(found.params.name) == b'"x"'


def test_the_others():
    assert read(b'{"jsonrpc":"2.0","method":"n"}') == Notification("n")
    assert read(b'{"jsonrpc":"2.0","id":1,"result":{}}') == Response()
    assert read(b'[{"jsonrpc":"2.0","method":"n"}]') == Batch([b'{"jsonrpc":"2.0","method":"n"}'])


@pytest.mark.parametrize(
    ("body", "code", "ident"),
    [
        (b"", -32700, None),
        (b"{", -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700, None),
        (b'"text"', -32600, None),
        (b"[]", -32600, None),
        (b'{"id":1,"method":"ping"}', -32600, b"1"),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1}', -32600, b"1"),
        (b'{"jsonrpc":"2.0"}', -32600, None),
        (b"[" * 5000 + b"]" * 5000, -32700, None),
    ],
)
def test_what_is_none(body, code, ident):
    with pytest.raises(Invalid) as raised:
        read(body)
    assert (raised.value.code, raised.value.ident) == (code, ident)
