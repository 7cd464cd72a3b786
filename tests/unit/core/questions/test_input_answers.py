"""What clients answer, looked at: its form, and when two values are the same."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from mcpd.core.questions.input_answers import is_answer, same_values


@pytest.mark.parametrize(
    ("method", "result", "is_one"),
    [
        ("elicitation/create", '{"action":"accept","content":{"a":1}}', True),
        ("elicitation/create", '{"action":"accept"}', True),
        ("elicitation/create", '{"action":"decline","content":null}', True),
        ("elicitation/create", '{"action":"maybe"}', False),
        ("elicitation/create", '{"action":"accept","content":[]}', False),
        ("elicitation/create", '{"content":{}}', False),
        ("elicitation/create", '"accept"', False),
        ("sampling/createMessage", '{"role":"user","content":{"type":"text"}}', True),
        ("sampling/createMessage", '{"role":"user","content":[]}', True),
        ("sampling/createMessage", '{"role":"user","content":"text"}', False),
        ("sampling/createMessage", '{"content":{}}', False),
        ("roots/list", '{"roots":[]}', True),
        ("roots/list", '{"roots":{}}', False),
        ("roots/list", "{}", False),
        ("roots/list", "null", False),
    ],
)
def test_an_answer_has_the_form_of_its_question(method: str, result: str, is_one: bool) -> None:
    assert is_answer(method, Raw(result.encode())) is is_one


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1,"b":[1,2]}', '{ "b": [1.0, 2e0], "a": 10E-1 }'),
        ('"\\u00e9"', '"é"'),
        ("1e400", "10e399"),
        ("123456789012345678901234567890", "123456789012345678901234567890.0"),
        ("-0", "0"),
        ('"\\ud83d"', '"\\uD83D"'),
        ("1e99999999999999999999", "1e99999999999999999999"),
        ("1" * 5000, "1" * 5000 + ".0"),
    ],
)
def test_equal_values_are_the_same_in_any_spelling(one: str, other: str) -> None:
    assert same_values(Raw(one.encode()), Raw(other.encode()))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "true"),
        ("0", "false"),
        ("null", "0"),
        ('"1"', "1"),
        ("[1,2]", "[2,1]"),
        ('{"a":1}', '{"a":1,"b":null}'),
        ("9007199254740993", "9007199254740992"),
        ("0.1", "0.10000000000000000001"),
        ("1e400", "1e401"),
        ("1e99999999999999999999", "1e99999999999999999998"),
        ("[" * 100000, "{" * 100000),
        ('["number",1]', "1"),
    ],
)
def test_other_values_are_not(one: str, other: str) -> None:
    assert not same_values(Raw(one.encode()), Raw(other.encode()))


def test_what_is_absent_is_only_like_what_is_absent() -> None:
    assert same_values(UNSET, UNSET)
    assert not same_values(UNSET, Raw(b"null"))
    assert not same_values(Raw(b"{}"), UNSET)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(VALUES)
def test_a_value_written_in_another_way_is_the_same(value: object) -> None:
    plain = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    spread = json.dumps(value, ensure_ascii=True, indent=2, sort_keys=True)
    if "Infinity" not in plain:
        encoded = plain.encode("utf-8", "surrogatepass")
        assert same_values(Raw(encoded), Raw(spread.encode()))
