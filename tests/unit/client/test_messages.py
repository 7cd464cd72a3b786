"""Lines of the socket."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.client.messages import decode, encode

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(st.dictionaries(st.text(), JSON), st.sampled_from([None, 1]))
def test_any_object_comes_back(members: dict[str, Any], indent: int | None) -> None:
    line = json.dumps(members, indent=indent).replace("\n", "\r").encode()
    message = decode(line)
    assert message.members == members
    assert {key: json.loads(text) for key, text in message.texts.items()} == members
    assert decode(encode(members).strip()).members == members


def test_values_keep_their_spelling() -> None:
    """
    B087: a script gets the numbers that the server wrote.
    """
    line = b'\xef\xbb\xbf { "id" : 1, "result":{"a":1.0,"b":1e400,"c":"\\ud800",  "d":2.50} }\r'
    assert decode(line).texts["result"] == '{"a":1.0,"b":1e400,"c":"\\ud800",  "d":2.50}'


@pytest.mark.parametrize(
    "line",
    [b"", b" ", b"[]", b"5", b"{", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1 "b":2}', b'{"a" 1}', b"{,}",
     b"\xff", b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}"],
)  # fmt: skip
def test_anything_else_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError):
        decode(line)
