"""Arguments that a person is asked about: read once, and compared as JSON."""

from __future__ import annotations

import pytest

from mcpd.core.wire import arguments


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ('{"a":1,"b":"x"}', '{ "b":"\\u0078", "a":1.0 }', True),
        ('{"a":100}', '{"a":1e2}', True),
        ('{"a":-0}', '{"a":0.0}', True),
        ('{"a":123456789012345678901}', '{"a":123456789012345678902}', False),
        ('{"a":1}', '{"a":"1"}', False),
        ('{"a":1}', '{"a":true}', False),
        ('{"a":null}', "{}", False),
        ('{"a":[1,2]}', '{"a":[2,1]}', False),
        ('{"a":[[],1]}', '{"a":[[1]]}', False),
        ('{"a":{"b":1}}', '{"a":{},"b":1}', False),
        ('{"a":1e999999999999999999999}', '{"a":1e999999999999999999999}', True),
    ],
)
def test_equal_arguments_are_one_call(one: str, other: str, is_same: bool) -> None:
    digests = [arguments.digest(arguments.read(each.encode())) for each in (one, other)]
    assert (digests[0] == digests[1]) is is_same


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ('{"path":1,"path":1}', "'path' is there twice"),
        ('{"a":[{"b":{"c":1,"c":2}}]}', "'c' is there twice"),
        ('{"\\u0061":1,"a":2}', "'a' is there twice"),
        ('{"a":' * 201 + "1" + "}" * 201, "nested"),
        ("[" * 100_000 + "]" * 100_000, "nested"),
        ("[" + "{}," * 200_001 + "{}]", "too many"),
        ('{"a":NaN}', "NaN"),
        ("{", "not JSON"),
    ],
)
def test_what_nobody_can_be_asked_about(raw: str, why: str) -> None:
    with pytest.raises(arguments.Unfit, match=why):
        arguments.read(raw.encode())


@pytest.mark.parametrize(
    ("params", "unclear"),
    [
        ('{"name":"a","arguments":{}}', None),
        ('{"name":"a","arguments":{"name":"b","Name":"c","arguments":1}}', None),
        ('{"name":"\\u0061","arguments":{"b":"\\u0061"},"_meta":{"NAME":1}}', None),
        ('{"name":"a","name":"b"}', "name"),
        ('{"n\\u0061me":"a","name":"b"}', "name"),
        ('{"name":"a","Name":"b"}', "Name"),
        ('{"name":"a","Arguments":{}}', "Arguments"),
        ('{"name":"a","argument\u017f":{}}', "argument\u017f"),
        ('{"name":"a","arguments":{},"arguments":{}}', "arguments"),
        ('{"name":"a","arguments":{"x":"' + "x" * 70_000 + '"},"arguments":{}}', "arguments"),
    ],
)
def test_what_readers_read_differently_is_named(params: str, unclear: str | None) -> None:
    """
    Some take the first of two members, and some take ``Name`` for ``name``.
    """
    assert arguments.unclear_member(params.encode()) == unclear
