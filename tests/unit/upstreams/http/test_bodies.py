"""Bodies of HTTP responses."""

from __future__ import annotations

import gzip
import json
import zlib

import pytest

from mcpd.core.wire.framing import Oversized
from mcpd.upstreams.http import bodies


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_what_was_compressed_comes_out_however_it_is_cut(pack, step):
    text = json.dumps(list(range(2000))).encode()
    packed = pack(text)
    decompressor = bodies.Decompressor("gzip" if pack is gzip.compress else "deflate")
    pieces = (decompressor.feed(packed[at : at + step]) for at in range(0, len(packed), step))
    assert b"".join(piece for each in pieces for piece in each) == text


def test_a_bomb_comes_in_pieces():
    decompressor = bodies.Decompressor("gzip")
    sizes = [len(piece) for piece in decompressor.feed(gzip.compress(bytes(20 << 20)))]
    assert sum(sizes) == 20 << 20 and max(sizes) <= bodies.PIECE_BYTES


def test_an_encoding_that_was_not_asked_for():
    with pytest.raises(bodies.UnknownEncoding):
        bodies.Decompressor("br")
    assert b"".join(bodies.Decompressor("identity").feed(b"x")) == b"x"


@pytest.mark.parametrize(
    ("value", "name", "charset"),
    [
        ("application/json", "application/json", ""),
        ('Application/JSON;charset="UTF-8"', "application/json", "utf-8"),
        ("application/json;profile=x; charset=latin-1", "application/json", "latin-1"),
        ("text/event-stream; charset=utf-8", "text/event-stream", "utf-8"),
        ("", "", ""),
    ],
)
def test_content_types(value, name, charset):
    found = bodies.ContentType(value)
    assert (found.name, found.charset) == (name, charset)


def test_character_sets():
    assert bodies.to_utf8("é".encode("latin-1"), "latin-1") == "é".encode()
    assert bodies.to_utf8("é".encode(), "x-unheard-of") == "é".encode()
    assert bodies.to_utf8(b"\xef\xbb\xbf{}", "") == b"{}"


@pytest.mark.parametrize(
    ("frame", "ident"),
    [
        (b'{"id":7,"result":{}}', b"7"),
        (b'{"result":{"id":9},"id":"7"}', b'"7"'),
        (b'{"error":{"code":1}}', b""),
        (b'{"id":null,"error":{"code":1}}', b"null"),
        (b'{"id":7,"method":"ping"}', None),
        (b'{"method":"notifications/x"}', None),
        (b"not json", None),
        (b"[]", None),
    ],
)
def test_ids_of_responses(frame, ident):
    assert bodies.response_id(frame) == ident


def test_the_id_of_a_large_response_is_found_at_its_ends():
    assert bodies.response_id(b'{"id":7,"result":"' + b"x" * 100_000 + b'"}') == b"7"
    assert bodies.response_id(b'{"result":"' + b"x" * 100_000 + b'","id":7}') == b"7"
    assert bodies.response_id(Oversized(b'{"id":7,"result":"', b'"}', 10)) == b"7"


def test_an_error_without_an_id_answers_the_request_that_it_came_for():
    found = bodies.error_with_id(
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,\n"message":"m"}}', 5
    )
    assert found is not None and b"\n" not in found
    assert json.loads(found) == {
        "jsonrpc": "2.0",
        "id": 5,
        "error": {"code": -32000, "message": "m"},
    }
    for other in (b"", b"<html>", b"{}", b'{"error":"Unauthorized"}', b'{"error":{}}'):
        assert bodies.error_with_id(other, 5) is None
