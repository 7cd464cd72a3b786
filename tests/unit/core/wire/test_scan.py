"""Finding members and elements without taking values apart."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from msgspec import Raw

from mcpd.core.wire import envelope, scan, splice
from mcpd.core.wire.scan import MOST_PARTS, TooDeep, TooMany


def members(data: bytes) -> list[tuple[bytes, bytes]]:
    return [(data[m.start : m.name_end], data[m.value : m.end]) for m in scan.members(data)]


def elements(data: bytes, most: int = MOST_PARTS) -> list[bytes]:
    return [data[start:end] for start, end in scan.elements(data, most)]


@pytest.mark.parametrize("make", [bytes, bytearray, Raw])
def test_members_are_found_in_their_order_repeated_ones_included(make: type[bytes]):
    data = b' { "a" :[1, {"x":2}] ,"b":"}," , "a":{} }\r\n'
    found = [(m.start, m.name_end, m.value, m.end) for m in scan.members(make(data))]
    assert [(data[a:b], data[c:d]) for a, b, c, d in found] == [
        (b'"a"', b'[1, {"x":2}]'),
        (b'"b"', b'"},"'),
        (b'"a"', b"{}"),
    ]


@pytest.mark.parametrize(
    "value",
    [b'"\\ud800"', b'"\\uDFFF\\ud83d\\ude00"', b'"\\\\ud800\\ud800"', b'["\\ud800",{"\\udc00":1}]'],
)
def test_lone_surrogates_move_nothing(value: bytes):
    assert members(b'{"\\ud83d":1,"a":' + value + b',"b":2}') == [
        (b'"\\ud83d"', b"1"),
        (b'"a"', value),
        (b'"b"', b"2"),
    ]
    assert elements(b"[1 , " + value + b"]") == [b"1", value]


@pytest.mark.parametrize(
    "data",
    [
        *(
            b"",
            b" ",
            b"1",
            b"[",
            b"{",
            b"{}}",
            b"{} x",
            b'{"a"}',
            b'{"a":}',
            b'{"a":1',
            b'{"a":1,}',
        ),
        *(
            b'{"a":1 "b":2}',
            b'{"a":1]',
            b"{1:2}",
            b'{"a"1}',
            b'{"a":01}',
            b'{"a":NaN}',
            b'{,"a":1}',
        ),
        *(b'{"a":"\\ud800}', b'{"a":"\\udxxx"}', b'{"a":"\\u12"}', b'{"a":"\x01"}', b"{]"),
    ],
)
def test_what_is_no_object_is_refused(data: bytes):
    with pytest.raises(ValueError) as caught:
        scan.members(data)
    assert not isinstance(caught.value, TooDeep | TooMany)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[", b"[}", b"[1", b"[1 2]", b"[1,]", b"[,1]", b"[1]]", b'["\\ud800]']
)
def test_what_is_no_array_is_refused(data: bytes):
    with pytest.raises(ValueError):
        scan.elements(data, 10)


def test_nothing_after_the_last_wanted_element_is_checked():
    """
    An array of 60 MiB was split in 11 seconds, for one error.
    """
    assert elements(b"[1,[2],oops", 2) == [b"1", b"[2]"]
    assert len(elements(b"[" + b"1," * MOST_PARTS + b"1]", MOST_PARTS + 1)) == MOST_PARTS + 1


def test_an_object_of_too_many_members_is_not_taken_apart():
    whole = b"{" + b",".join(b'"%d":1' % n for n in range(MOST_PARTS)) + b"}"
    assert len(scan.members(whole)) == MOST_PARTS
    with pytest.raises(TooMany):
        scan.members(whole[:-1] + b',"x":1}')


@pytest.mark.parametrize("bracket", [b"[", b'{"a":'])
def test_deep_nesting_is_told_apart(bracket: bytes):
    for data in (b'{"a":' + bracket * 100_000, b'{"a":"\\ud800","b":' + bracket * 100_000):
        with pytest.raises(TooDeep):
            scan.members(data)
    with pytest.raises(TooDeep):
        scan.check(bracket * 100_000)


def test_any_json_is_checked_without_being_taken_apart():
    for data in (b"1", b'"\\ud800"', b" [1,2] ", b"null", b"9" * 5000):
        scan.check(data)
    for data in (b"", b"1 2", b"nul", b'"\\ud800', b"[INFO] {"):
        with pytest.raises(ValueError):
            scan.check(data)


# -- what is made of them --------------------------------------------------------------------------


def many(count: int) -> bytes:
    return b"{" + b",".join(b'"member-%060d":1' % n for n in range(count)) + b"}"


def test_a_large_object_of_too_many_members_counts_as_none():
    """
    A dictionary of 2.6 million members took seconds and 600 MiB.
    """
    data = many(2 * MOST_PARTS)
    assert len(data) > envelope.LARGE_BYTES
    assert envelope.object_of(data) is None and envelope.params_of(data) is None
    assert splice.without(data, ("a",)) == data
    large = many(MOST_PARTS)
    assert len(large) > envelope.LARGE_BYTES
    assert len(envelope.object_of(large) or ()) == MOST_PARTS


def test_a_large_object_is_read_as_a_small_one():
    text = b'"' + b"x" * envelope.LARGE_BYTES + b'"'
    data = b'{"name":"a","\\u006eame":"b","uri":' + text + b',"_meta":{ }}'
    found = envelope.object_of(data)
    assert found is not None
    assert {name: bytes(raw) for name, raw in found.items()} == {
        "name": b'"b"',
        "uri": text,
        "_meta": b"{ }",
    }
    params = envelope.params_of(Raw(data))
    assert params is not None
    assert (bytes(params.name), bytes(params.uri)) == (b'"b"', text)
    assert splice.replace(data, "name", b"1") == data.replace(b'"a"', b"1").replace(b'"b"', b"1")
    assert splice.without(data, ("name", "_meta")) == b'{"uri":' + text + b"}"


def test_an_array_of_too_many_messages_is_one_error():
    with pytest.raises(envelope.Malformed) as caught:
        envelope.decode(b"[" + b"{}," * MOST_PARTS + b"{}]")
    assert (caught.value.is_json, caught.value.elements) == (True, None)
    assert "1000" in caught.value.reason
    with pytest.raises(envelope.Malformed) as caught:
        envelope.decode(b"[" + b"{}," * (MOST_PARTS - 1) + b"{}]")
    assert caught.value.elements == [b"{}"] * MOST_PARTS


def steps(act: Callable[[], object]) -> int:
    """Return how many lines of Python are run."""
    count = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    "frame",
    [
        '{*"id":7,"params":"\\ud800"}',
        '{"id":7*,"params"*:*"\\ud800"*}',
        '{"id":7,"params":"\\ud800*"}',
        '{"id":7,"params":"\\ud800","*":1}',
        '{"params":"\\ud800","x":["*"],"id":7}',
        '{*"id":7,"params":oops}',
        "[*1]",
        '["*"]',
        '"*"',
        "*",
        '{"method":7,"*":1}',
    ],
)
@pytest.mark.parametrize("filling", [" \t\r ", "\\\\", "\\udfff", "[]"])
def test_no_line_of_python_is_run_for_each_character(frame: str, filling: str):
    """
    32 MiB of blanks beside a lone surrogate took 2.8 s, during which no client was served.
    """

    def read(count: int) -> int:
        data = frame.replace("*", filling * count).encode()

        def decode() -> None:
            with contextlib.suppress(envelope.Malformed):
                envelope.decode(data)
                envelope.object_of(data)

        return steps(decode)

    assert read(10_000) < 5_000


def test_no_line_of_python_is_run_for_each_part_of_a_large_text():
    for element in (b"1", b"{}", b"[]", b'"\\ud800"', b'{"jsonrpc":"2.0"}'):
        array = b"[" + (element + b",") * 100_000 + element + b"]"
        for frame in (array, b'{"x":"\\ud800","params":' + array + b"}", b'{"id":' + array):

            def decode(frame: bytes = frame) -> None:
                with contextlib.suppress(envelope.Malformed):
                    envelope.decode(frame)

            assert steps(decode) < 100 * MOST_PARTS
