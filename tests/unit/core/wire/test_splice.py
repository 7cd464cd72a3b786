"""Replacing one member of an object in its bytes."""

from __future__ import annotations

import pytest

from mcpd.core.wire.splice import elements, replace


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (b'{"name":"a"}', b'{"name":"Q"}'),
        (b' {\t"name" :\n"a" , "x":1 }\r\n', b' {\t"name" :\n"Q" , "x":1 }\r\n'),
        (
            b'{"x":{"name":"a"},"y":["name"],"name":"a"}',
            b'{"x":{"name":"a"},"y":["name"],"name":"Q"}',
        ),
        (b'{"z":"\\"name\\":\\"a\\"","name":"a"}', b'{"z":"\\"name\\":\\"a\\"","name":"Q"}'),
        (b'{"name":"a\\"b\\\\","x":"\\\\"}', b'{"name":"Q","x":"\\\\"}'),
        ('{"ä":"ö","name":"ü","n":2.50}'.encode(), '{"ä":"ö","name":"Q","n":2.50}'.encode()),
        (b'{"\\u006eame":"a"}', b'{"\\u006eame":"Q"}'),
        (b'{"x":1}', b'{"x":1}'),
        (b"{}", b"{}"),
    ],
)
def test_only_the_top_level_member_changes(item: bytes, expected: bytes):
    assert replace(item, "name", b'"Q"') == expected


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (b'{"name":"a","name":"b"}', b'{"name":"Q","name":"Q"}'),
        (b'{"name":"a","name":"a"}', b'{"name":"Q","name":"Q"}'),
        (b'{"name":"a","x":[],"name":{"y":1}}', b'{"name":"Q","x":[],"name":"Q"}'),
        (b'{"x":1,"name":"a","x":2}', b'{"x":1,"name":"Q","x":2}'),
        # Lengths alone would agree with another reading of this one.
        (
            b'{"name":1,"b":22,"name":{"z":0,         "b":7}}',
            b'{"name":"Q","b":22,"name":"Q"}',
        ),
    ],
)
def test_of_a_member_that_occurs_twice_both_change(item: bytes, expected: bytes):
    """
    Readers differ in which of the two they believe.
    """
    assert replace(item, "name", b'"Q"') == expected


def test_what_msgspec_cannot_read_is_changed_all_the_same():
    item = b'{"n":1e400,"s":"\\ud800 \xc3\xa9","name":"a","x":[{"name":"b"}]}'
    assert replace(item, "name", b'"Q"') == item.replace(b'"a"', b'"Q"')


@pytest.mark.parametrize(
    "item", [b"", b"[]", b"{", b'{"name":"a"', b'{"name"}', b"\xff", b"[" * 100_000]
)
def test_what_is_no_object_stays(item: bytes):
    assert replace(item, "name", b'"Q"') == item


def test_an_array_is_split_into_its_elements():
    assert elements(b' [ {"a":[1, 2]} ,"\\ud800,]" ,\n2.50, [] ] ') == [
        b'{"a":[1, 2]}',
        b'"\\ud800,]"',
        b"2.50",
        b"[]",
    ]
    assert elements(b"[ ]") == []


@pytest.mark.parametrize(
    "array", [b"", b"{}", b"[", b"[1", b"[1 2]", b"[,]", b"\xff", b"[" * 100_000]
)
def test_what_is_no_array_is_not_split(array: bytes):
    with pytest.raises(ValueError):
        elements(array)
