"""Replacing one member of an object in its bytes."""

from __future__ import annotations

import pytest
from msgspec import Raw

from mcpd.core.wire.splice import elements, in_front, is_empty, replace, texts, without


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
def test_both_values_of_a_repeated_member_change(item: bytes, expected: bytes):
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


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (b"[]", []),
        (b'["a", "\\u00e9", "c"]', ["a", "\u00e9"]),
        (b'["a", 1]', None),
        (b'"a"', None),
        (b"null", None),
    ],
)
def test_an_array_of_strings_is_read_as_far_as_wanted(array: bytes, expected: list[str] | None):
    assert texts(array, 2) == expected


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (b'{"a":1,"b":2,"c":3}', b'{"b":2}'),
        (b'{"a":1,"c":3}', b"{}"),
        (b'{ "a":1 , "c":3 }', b"{  }"),
        (b'{"b":2}', b'{"b":2}'),
        (b"{}", b"{}"),
        (b'{"b":{"a":1}, "a":1}', b'{"b":{"a":1}}'),
        (b'{"a":1,\n "b" : 1.0 , "c":[","]\t}', b'{\n "b" : 1.0\t}'),
        (b'{"a":1,"b":2,"a":3,"b":4,"c":5}', b'{"b":2,"b":4}'),
        (b'{"\\u0061":1,"b":"\\ud83d"}', b'{"b":"\\ud83d"}'),
        (
            '{"é":"ü", "a":"ö","b":"\\ud83dß" , "c":"ä" }'.encode(),
            '{"é":"ü", "b":"\\ud83dß" }'.encode(),
        ),
        (b"[]", b"[]"),
        (b'{"a"', b'{"a"'),
    ],
)
def test_members_are_cut_out_and_the_others_stay(item: bytes, expected: bytes):
    assert without(item, ("a", "c")) == expected
    assert without(Raw(item), {"a", "c"}) == expected


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (b"{}", b'{"a":1}'),
        (b"{ \n}", b'{"a":1}'),
        (b'{"b":2}', b'{"a":1,"b":2}'),
        (b'{ "b":2 }', b'{"a":1, "b":2 }'),
        (b' \n{"b":2}', b'{"a":1,"b":2}'),
    ],
)
def test_members_are_put_in_front(item: bytes, expected: bytes):
    assert in_front(item, b'"a":1') == expected
    assert in_front(Raw(item), b'"a":1') == expected


def test_an_object_is_empty_whatever_space_it_has():
    assert is_empty(b" { \n} ") and is_empty(Raw(b"{}"))
    assert not is_empty(b'{"a":1}') and not is_empty(b"[]")


def test_the_same_bytes_in_another_place_are_not_taken_for_the_member():
    item = b'{"a":{"b":1},"b":{"b":1} }'
    assert without(item, ("b",)) == b'{"a":{"b":1} }'
    assert replace(item, "b", b"2") == b'{"a":{"b":1},"b":2 }'
