"""Which schemas are compiled, and for how long they are kept."""

from __future__ import annotations

import json

import pytest

from mcpd.schemas.worker import CannotCheck, Schemas


def nested(depth: int) -> bytes:
    return b'{"not":' * (depth - 1) + b"{}" + b"}" * (depth - 1)


def test_a_schema_is_compiled_once():
    schemas = Schemas()
    assert schemas.get(b'{"type":"object"}') is schemas.get(b'{"type":"object"}')


def test_the_schema_not_used_for_longest_is_forgotten():
    schemas = Schemas()
    used, unused = schemas.get(b"{}"), schemas.get(b'{"a":0}')
    for n in range(255):
        schemas.get(b'{"n":%d}' % n)
        assert schemas.get(b"{}") is used
    assert schemas.get(b'{"a":0}') is not unused


def test_large_schemas_are_kept_for_less_long():
    schemas = Schemas()
    first = schemas.get(b"{}")
    for n in range(17):
        schemas.get(b'{"description":"%b%d"}' % (b"x" * 250_000, n))
    assert schemas.get(b"{}") is not first


@pytest.mark.parametrize(
    "dialect",
    [
        "https://json-schema.org/draft/2020-12/schema",
        "http://json-schema.org/draft-07/schema#",
        None,
    ],
)
def test_the_drafts_that_servers_use_are_known(dialect: str | None):
    """
    ``prefixItems`` is a word of 2020-12 alone, which is also the default.
    """
    schema = {"prefixItems": [{"type": "string"}], **({"$schema": dialect} if dialect else {})}
    is_valid = Schemas().get(json.dumps(schema).encode()).is_valid([1])
    assert is_valid == (dialect is not None and "draft-07" in dialect)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (nested(33), "nested more than 32 deep"),
        (b"[" * 100_000, "recursion"),
        (b"null", "neither an object nor"),
        (b"[]", "neither an object nor"),
        (b'"{}"', "neither an object nor"),
        (b"", "Expecting value"),
        (b"\xff", "utf-8"),
        (b'{"type":"foo"}', "foo"),
        (b'{"maximum":1e400}', "1e400 is too large"),
        (b'{"maximum":NaN}', "NaN"),
        (b'{"pattern":"(?=a)"}', "regex"),
        (b'{"pattern":"(a)\\\\1"}', "regex"),
        (b'{"pattern":"((a{100}){100}){100}"}', ""),
        (b'{"$ref":"#/$defs/missing"}', "/$defs/missing"),
        (
            b'{"$ref":"http://127.0.0.1:1/x"}',
            "refers to http://127.0.0.1:1/x, and nothing is fetched",
        ),
        (b'{"$ref":"file:///etc/passwd"}', "refers to file:///etc/passwd"),
        (b'{"$ref":"other.json"}', "other.json"),
        (b'{"$dynamicRef":"http://127.0.0.1:1/x"}', "http://127.0.0.1:1/x"),
        (b'{"$schema":"http://127.0.0.1:1/x"}', "http://127.0.0.1:1/x"),
        (b'{"$schema":5}', ""),
    ],
    ids=lambda case: str(case)[:40],
)
def test_a_schema_that_cannot_be_used_says_why(schema: bytes, reason: str):
    """
    B094: it is never a reason to hide the tool, nor to refuse the call. The answer is kept, too.
    """
    schemas = Schemas()
    for _ in range(2):
        with pytest.raises(CannotCheck) as caught:
            schemas.get(schema)
        assert reason in str(caught.value)
        assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "schema",
    [
        nested(32),
        b"{}",
        b"true",
        b"false",
        b'{"$id":"http://x/y","$defs":{"a":{"$id":"b","type":"object"}},"$ref":"b"}',
        b'{"$defs":{"a b":{}},"$ref":"#/$defs/a%20b"}',
        b'{"$ref":"#"}',
        b'{"pattern":"^\\\\p{L}+$"}',
        b'{"type":"object","x-unknown":1}',
    ],
    ids=lambda case: str(case)[:40],
)
def test_a_schema_that_stays_within_itself_is_used(schema: bytes):
    """
    B096: references within the document, percent-encoded and recursive ones too.
    """
    Schemas().get(schema).is_valid({})
