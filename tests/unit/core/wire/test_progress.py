"""Progress tokens and other members that are exchanged on the way."""

from __future__ import annotations

import pytest

from mcpd.core.wire import progress


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (None, b'{"_meta":{"progressToken":7}}'),
        (b"{}", b'{"_meta":{"progressToken":7}}'),
        (b'{"a":1e400}', b'{"a":1e400,"_meta":{"progressToken":7}}'),
        (
            b'{"_meta":{"progressToken":"x","y":1e400},"a":1}',
            b'{"_meta":{"progressToken":7,"y":1e400},"a":1}',
        ),
        (b'{"_meta":5}', b'{"_meta":{"progressToken":7}}'),
        (b'{"\\ud800":"\\ud800"}', b'{"\\ud800":"\\ud800","_meta":{"progressToken":7}}'),
    ],
)
def test_our_token_takes_the_place_of_theirs(params: bytes | None, expected: bytes):
    assert progress.with_token(params, 7) == expected


@pytest.mark.parametrize(
    ("raw", "token"),
    [
        (b"7", 7),
        (b"0", 0),
        (b'"7"', None),
        (b"-7", None),
        (b"7.0", 7),
        (b"7.5", None),
        (b"null", None),
        (b"9" * 5000, None),
        ("\u0667".encode(), None),
    ],
)
def test_only_our_own_tokens_are_read(raw: bytes, token: int | None):
    assert progress.token_of(raw) == token


@pytest.mark.parametrize("token", [b"1", b'"1"', b"1.50", b'"\\u0031"', b"{}"])
def test_their_token_comes_back_as_it_was(token: bytes):
    said = progress.restored(b'{"progress":1e400,"progressToken":7,"message":"\\ud800"}', token)
    assert said == b'{"progress":1e400,"progressToken":' + token + b',"message":"\\ud800"}'


def test_members_are_exchanged_and_taken_out_in_place():
    params = b'{"a":1.0,"name":"x","b":[1e400]}'
    assert progress.with_member(params, "name", b'"y"') == b'{"a":1.0,"name":"y","b":[1e400]}'
    assert progress.with_member(b"{}", "name", b'"y"') == b'{"name":"y"}'
    assert progress.without(params, "name") == b'{"a":1.0,"b":[1e400]}'
    assert progress.without(params, "nothing") == params
