"""The ids and methods of a frame, found without decoding its payload."""

from __future__ import annotations

import itertools
import json
import time

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from mcpd.bridge import scan

PAYLOADS = [
    {},
    {"id": 7, "method": "nested"},
    {"text": 'a"b\\', "x": '","id":3}'},
    [[], {"id": 1}, "}", "]"],
    "plain",
    None,
    -1.5e3,
]


def told(text: str | bytes) -> list[scan.Message]:
    frame = text.encode() if isinstance(text, str) else text
    return scan.messages([frame + b"\n"])


def slowly(frame: bytes) -> list[scan.Message]:
    """Return what the walk over a frame says, which large ones get."""
    before, scan.DECODED_BYTES = scan.DECODED_BYTES, 200
    try:
        return scan.messages([b" " * 200 + frame])
    finally:
        scan.DECODED_BYTES = before


@pytest.mark.parametrize(
    ("frame", "found"),
    [
        ('{"jsonrpc":"2.0","id":1,"method":"ping"}', (b"1", b"ping")),
        ('{"jsonrpc": "2.0", "id": "a", "method": "ping", "params": {}}', (b'"a"', b"ping")),
        ('{"method":"ping","params":{"id":2},"jsonrpc":"2.0","id":1}', (b"1", b"ping")),
        ('{"jsonrpc":"2.0","method":"ping","id":0,"params":{}}', (b"0", b"ping")),
        ('{"id":-1,"params":{"a":[1]},"method":"ping","jsonrpc":"2.0"}', (b"-1", b"ping")),
        ('{"params":{"a":[1]},"id":5,"_meta":{},"method":"ping"}', (b"5", b"ping")),
        (
            '{"jsonrpc":"2.0","method":"notifications/x","params":{"id":1}}',
            (None, b"notifications/x"),
        ),
        (
            '{"params":{"id":1},"method":"notifications/x","jsonrpc":"2.0"}',
            (None, b"notifications/x"),
        ),
        ('{"jsonrpc":"2.0","method":"odd"}', (None, b"odd")),
        ('{"jsonrpc":"2.0","id":1,"result":{"method":"m"}}', (b"1", None)),
        ('{"result":{"method":"m"},"jsonrpc":"2.0","id":1}', (b"1", None)),
        ('{"error":{"code":1,"message":""},"id":"x","jsonrpc":"2.0"}', (b'"x"', None)),
        ('{"jsonrpc":"2.0","id":1,"result":{},"_meta":{}}', (b"1", None)),
        ('  {"id":1,"method":"ping"} \r', (b"1", b"ping")),
        ('\ufeff{"id":1,"method":"ping"}', (b"1", b"ping")),
        ('{"id":"","method":""}', (b'""', b"")),
        ('{"id":9007199254740993,"method":"m"}', (b"9007199254740993", b"m")),
        ('{"id":' + "9" * 60 + ',"method":"m"}', (b"9" * 60, b"m")),
        (r'{"id":"\u0061\"","method":"p\u0069ng"}', (rb'"a\""', b"ping")),
        (r'{"id":"\ud800","method":"m"}', (rb'"\ud800"', b"m")),
        ('{"id":"é","method":"m"}', (rb'"\u00e9"', b"m")),
        ('{"id":-0,"method":"m"}', (b"0", b"m")),
        (r'{"i\u0064":4,"method":"m","params":{}}', (b"4", b"m")),
        (r'{"a":1,"x\"id":5}', (None, None)),
        ('{"id":1,"id":2,"method":"m"}', (b"2", b"m")),
    ],
)
def test_messages_are_told_whatever_the_order_of_their_members(frame, found):
    """
    B069, B075: SDKs differ in order; lone surrogates and big numbers are legal.
    """
    assert told(frame) == [found]


@pytest.mark.parametrize("ident", ["null", "true", "1.5", "1e0", "[1]", '{"id":1}'])
def test_an_id_that_mcp_refuses_counts_as_none(ident):
    assert told(f'{{"jsonrpc":"2.0","id":{ident},"method":"m"}}') == [(None, b"m")]
    assert slowly(f'{{"jsonrpc":"2.0","id":{ident},"method":"m"}}'.encode()) == [(None, b"m")]


@pytest.mark.parametrize("method", ["null", "5", "[]"])
def test_a_method_that_is_no_text_counts_as_none(method):
    assert told(f'{{"id":1,"method":{method},"x":0}}') == [(b"1", None)]
    assert slowly(f'{{"id":1,"method":{method},"x":0}}'.encode()) == [(b"1", None)]


@pytest.mark.parametrize("payload", PAYLOADS, ids=str)
def test_every_order_of_members_and_every_payload_tells_the_same(payload):
    members = {"jsonrpc": "2.0", "id": 5, "method": "m", "params": payload}
    for order in itertools.permutations(members):
        message = {key: members[key] for key in order}
        for separators in [(",", ":"), (", ", ": "), (" ,\t", "\r: ")]:
            frame = json.dumps(message, separators=separators).encode()
            assert told(frame) == [(b"5", b"m")], frame
            assert slowly(frame) == [(b"5", b"m")], frame


def test_a_batch_is_told_message_by_message():
    frame = (
        b'[{"id":1,"method":"a"}, {"method":"notifications/b"},{"id":"c","result":[{"id":2}]},7]'
    )
    found = [(b"1", b"a"), (None, b"notifications/b"), (b'"c"', None), (None, None)]
    assert told(frame) == found
    assert slowly(frame) == found


@pytest.mark.parametrize("cut", [1, 5, 60, 600])
def test_a_frame_in_pieces_is_told_as_one(cut):
    frame = b'{"method":"m","params":{"text":"' + b"x" * 700 + b'"},"jsonrpc":"2.0","id":12345}\n'
    pieces = [frame[at : at + cut] for at in range(0, len(frame), cut)]
    assert scan.messages(pieces) == [(b"12345", b"m")]


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"   ",
        b"{",
        b"[",
        b"}",
        b"[[",
        b'"',
        b"{]",
        b'{"id"',
        b'{"id":',
        b'{"id":1',
        b'{"id":1,',
        b'{"id":1,"method":"m","a":"\\',
        b'{"id":1 "method":"m"}',
        b'{"a":{"b":"c}',
        b"\xff\xfe{",
        b'{"id":"\xff","method":"m"}',
        b"\x00" * 9,
        b"[" * 100_000,
        b'{"id":1,"method":"m","params":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_garbage_raises_nothing(frame):
    """
    B071 too: depth is nobody's problem here.
    """
    told(frame)
    slowly(frame)
    scan.is_whole(frame)


def test_what_is_known_of_a_deep_message_is_told():
    """
    B071.
    """
    for depth in (100, 5_000, 200_000):
        deep = b"[" * depth + b"]" * depth
        assert told(b'{"params":' + deep + b',"id":1,"x":[],"method":"m"}') == [(b"1", b"m")]
        assert told(b'{"x":' + deep + b',"method":"m","id":2,"y":' + deep + b"}") == [(b"2", b"m")]


@given(st.binary(max_size=80) | st.text('{}[]":,\\id metho0', max_size=80).map(str.encode))
@example(b'{"id":"\\')
def test_any_bytes_raise_nothing_and_both_ways_end(frame):
    told(frame)
    slowly(frame)
    scan.is_whole(frame)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["id", "method", "params", "result", "x", "jsonrpc"]), json_values
    ),
    st.booleans(),
    st.booleans(),
)
def test_the_ways_to_look_agree_with_a_decoder(message, is_compact, is_ascii):
    """
    The regular expressions and the walk are to tell what ``json.loads`` tells.

    But of what is an answer and has a method as well: that is no JSON-RPC.
    """
    assume("method" not in message or not {"result", "error"} & message.keys())
    separators = (",", ":") if is_compact else (" , ", " : ")
    frame = json.dumps(message, separators=separators, ensure_ascii=is_ascii).encode()
    method = message.get("method")
    ident = message.get("id")
    is_id = isinstance(ident, (int, str)) and not isinstance(ident, bool)
    wanted = (
        json.dumps(ident).encode() if is_id else None,
        method.encode() if isinstance(method, str) else None,
    )
    assert told(frame) == [wanted]
    assert slowly(frame) == [wanted]
    assert scan.is_whole(frame)
    assert not any(scan.is_whole(frame[:end]) for end in range(len(frame)))


SIZE = 4 << 20
HEAVY = {
    "one text": b'"' + b"x" * SIZE + b'"',
    "escapes": b'"' + b'\\"' * (SIZE // 2) + b'"',
    "flat objects": b"[" + b'{"a":1},' * (SIZE // 8) + b"0]",
    "depth": b"[" * (SIZE // 2) + b"]" * (SIZE // 2),
    "many texts": b"[" + b'"",' * (SIZE // 3) + b"0]",
    "an open text": b'["' + b'\\"' * (SIZE // 2),
}


@pytest.mark.parametrize("payload", HEAVY.values(), ids=HEAVY)
def test_large_frames_take_linear_time(payload):
    """
    Quadratic would be hours; what stands at either end is found without looking at the rest.
    """
    begun = time.process_time()
    scan.messages([b'{"x":' + payload + b',"id":1,"y":{},"method":"m"}'])
    assert time.process_time() - begun < 5
    begun = time.process_time()
    assert scan.messages([b'{"id":1,"params":', payload, b',"method":"m"}\n']) == [(b"1", b"m")]
    assert time.process_time() - begun < 0.05
