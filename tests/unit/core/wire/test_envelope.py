"""One message, its payload left as bytes."""

from __future__ import annotations

import json

import pytest
from msgspec import UNSET, Raw

from mcpd.core.wire import envelope
from mcpd.core.wire.envelope import Malformed


def wrap(payload: str) -> bytes:
    return f'{{"jsonrpc":"2.0","id":1,"method":"m","params":{payload}}}'.encode()


def malformed(frame: bytes) -> Malformed:
    with pytest.raises(Malformed) as caught:
        envelope.decode(frame)
    return caught.value


# -- reading ------------------------------------------------------------------------------------


def test_a_request_is_split_into_its_members():
    message = envelope.decode(b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"x": 1}}')
    assert (message.jsonrpc, message.method) == ("2.0", "tools/call")
    assert (bytes(message.id), bytes(message.params)) == (b'"a"', b'{"x": 1}')
    assert message.result is UNSET and message.error is UNSET


def test_unknown_members_are_left_out():
    message = envelope.decode(b'{"extra":{"deep":[1]},"jsonrpc":"2.0","method":"m"}')
    assert message.method == "m" and message.id is UNSET


@pytest.mark.parametrize("ident", [b"null", b"1.5", b"true", b"{}", b"[]", b"1e3"])
def test_ids_of_odd_types_are_for_the_reader_to_judge(ident: bytes):
    message = envelope.decode(b'{"jsonrpc":"2.0","id":' + ident + b',"method":"m"}')
    assert bytes(message.id) == ident
    assert not envelope.is_id(ident)


@pytest.mark.parametrize(
    "payload",
    [
        '{"n":0.1234567890123456789012345,"i":123456789012345678901234567890}',
        '{"n":1e400,"z":-0.0,"e":1E2,"one":1.0}',
        '{"a":1,"a":2}',
        '{ "spaced" : [ 1 ,2 ] }',
        '{"text":"\\u00e9\\/\\ud83d\\ude00 é😀\\u2028"}',
        '{"text":"\\ud800","n":1e400,"a":1,"a":2, "z": -0.0}',
        '{"n":' + "9" * 5000 + "}",
        '{"n":' + "9" * 5000 + ',"text":"\\udfff"}',
    ],
)
def test_a_payload_comes_out_as_it_went_in(payload: str):
    """
    B069, B087: nothing is read that need not be, so nothing is rounded, dropped or reordered;
    the second path, for what the first refuses, keeps to that.
    """
    assert bytes(envelope.decode(wrap(payload)).params) == payload.encode()


def test_lone_surrogates_are_let_through_anywhere():
    """
    B069: JavaScript peers send them; the fast decoder refuses the whole message.
    """
    message = envelope.decode(
        b'{"id":"\\ud83d","method":"\\udc00/x","params":{"\\ud800":"\\ud800"},"\\ud801":1}'
    )
    assert bytes(message.id) == b'"\\ud83d"'
    assert message.method == "\udc00/x"
    assert bytes(message.params) == b'{"\\ud800":"\\ud800"}'


def test_of_equal_members_the_last_counts_on_both_paths():
    assert bytes(envelope.decode(b'{"id":1,"id":2}').id) == b"2"
    assert bytes(envelope.decode(b'{"id":1,"id":2,"params":"\\ud800"}').id) == b"2"


@pytest.mark.parametrize("space", ["", " ", "\t", "\r", "  \t"])
def test_space_between_members_is_no_matter(space: str):
    frame = '{"id":1,"params":"\\ud800","method":"m"}'
    for mark in "{}:,":
        frame = frame.replace(mark, f"{space}{mark}{space}")
    message = envelope.decode(frame.encode())
    assert bytes(message.params) == b'"\\ud800"' and message.method == "m"


def test_an_empty_object_is_a_message_of_nothing():
    assert envelope.decode(b"{}") == envelope.Message()
    assert envelope.object_of(b" { } ") == {}


@pytest.mark.parametrize("frame", [b"1", b"null", b'"x"', b"[]", b"[{}]", b"true", b"-0.5e3"])
def test_json_that_is_no_object_is_a_bad_message(frame: bytes):
    assert malformed(frame).is_json


@pytest.mark.parametrize(
    "frame",
    [
        b"hello",
        b"{",
        b'{"id":1',
        b'{"id":1}}',
        b'{"id":1,}',
        b"{id:1}",
        b'{"id":01}',
        b'{"id":NaN}',
        b'{"params":"\\ud800","n":Infinity}',
        b'{"id":"\\x"}',
        b'{"id":"\\u12"}',
        b'{"id":"a\x01"}',
        b"NaN",
        b"\x00\x00",
        b"[INFO] {",
        b"Content-Length: 52",
        b"",
    ],
)
def test_a_frame_that_is_not_json_is_refused(frame: bytes):
    problem = malformed(frame)
    assert not problem.is_json and problem.id is None


def test_invalid_utf8_is_refused_wherever_it_is():
    """
    The fast decoder does not look into what it leaves raw, and servers die of it.
    """
    problem = malformed(wrap('"?"').replace(b"?", b"\xff"))
    assert not problem.is_json
    assert problem.reason == "invalid UTF-8 at byte 47"


@pytest.mark.parametrize("member", ["jsonrpc", "method"])
@pytest.mark.parametrize("value", [b"5", b"null", b"{}", b"[]"])
def test_a_name_that_is_no_string_is_refused_under_the_id(member: str, value: bytes):
    problem = malformed(b'{"id":"a","%b":%b}' % (member.encode(), value))
    assert problem.is_json and problem.id == b'"a"'
    problem = malformed(b'{"id":1.5,"%b":%b}' % (member.encode(), value))
    assert problem.is_json and problem.id is None


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def test_a_deep_payload_passes():
    """
    B071: clients do nest.
    """
    assert bytes(envelope.decode(wrap(nested(200))).params) == nested(200).encode()


@pytest.mark.parametrize("depth", [5_000, 20_000, 200_000])
@pytest.mark.parametrize("mark", ["[]", "{}"])
def test_a_payload_too_deep_fails_its_own_request(depth: int, mark: str):
    """
    B071: it is answered under its id, and no recursion error escapes.
    """
    opening = "[" if mark == "[]" else '{"a":'
    payload = opening * depth + "1" + mark[1] * depth
    problem = malformed(wrap(payload))
    assert problem.id == b"1"
    assert problem.reason == "nested too deep"
    assert malformed(b"[" * depth + b"]" * depth).id is None


# -- looking inside -----------------------------------------------------------------------------


def test_params_are_looked_into():
    found = envelope.params_of(
        b'{"name":"n","uri":1,"_meta":{},"requestId":7,"progressToken":"t","other":0}'
    )
    assert found is not None
    assert (bytes(found.name), bytes(found.uri), bytes(found.meta)) == (b'"n"', b"1", b"{}")
    assert (bytes(found.request_id), bytes(found.progress_token)) == (b"7", b'"t"')
    assert found.cursor is UNSET


@pytest.mark.parametrize("params", [b"[]", b"1", b"null", b'"x"', b"{", b"", b"[" * 9_000])
def test_params_that_are_no_object_are_none(params: bytes):
    assert envelope.params_of(params) is None
    assert envelope.object_of(params) is None


def test_params_and_objects_with_lone_surrogates_are_looked_into():
    raw = b'{"name":"\\ud800","arguments":{"\\ud800":1e400}}'
    found = envelope.params_of(raw)
    assert found is not None and bytes(found.name) == b'"\\ud800"'
    assert bytes(found.arguments) == b'{"\\ud800":1e400}'
    assert envelope.object_of(raw) == {
        "name": Raw(b'"\\ud800"'),
        "arguments": Raw(b'{"\\ud800":1e400}'),
    }


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b'"a"', "a"),
        (b'"\\u00e9"', "é"),
        (b'"\\ud800"', "\ud800"),
        (b"5", None),
        (b"null", None),
        (b"[", None),
        (b'"', None),
        (b"", None),
        (UNSET, None),
    ],
)
def test_strings_are_read(raw: bytes, text: str | None):
    assert envelope.text(raw) == text


@pytest.mark.parametrize(
    "ident",
    [b"0", b"-1", b"1", b"9007199254740993", b"1" * 400, b'"1"', b'""', b'"6f1c"', b'"\\ud800"'],
)
def test_strings_and_integers_are_ids(ident: bytes):
    """
    B075: 0, the empty string and what a double cannot hold included.
    """
    assert envelope.is_id(ident)


@pytest.mark.parametrize("ident", [b"null", b"1.0", b"1e0", b"true", b"{}", b"[1]", b"-"])
def test_nothing_else_is_an_id(ident: bytes):
    assert not envelope.is_id(ident)


def test_ids_are_equal_by_value_and_type():
    """
    B075: ``"1"`` is not ``1``, and ``"\\u0061"`` is ``"a"``.
    """
    key = envelope.id_key
    assert key(b'"1"') != key(b"1")
    assert key(b'"\\u0061"') == key(b'"a"')
    assert key(b'"\\u00e9"') == key('"é"'.encode())
    assert key(b'"\\/"') == key(b'"/"')
    assert key(b'"\\uD800"') == key(b'"\\ud800"') != key(b'"?"')
    assert key(b"-0") == key(b"0")
    assert key(b'"\\u0000"') != key(b'""')


# -- writing ------------------------------------------------------------------------------------


def test_what_we_write_is_one_line_of_json():
    raw = Raw(b'{"n":1e400}')
    frames = {
        envelope.request(
            7, b'"m"', raw
        ): '{"jsonrpc":"2.0","id":7,"method":"m","params":{"n":1e400}}',
        envelope.request(7, b'"m"', None): '{"jsonrpc":"2.0","id":7,"method":"m"}',
        envelope.notification(b'"m"'): '{"jsonrpc":"2.0","method":"m"}',
        envelope.notification(b'"m"', raw): '{"jsonrpc":"2.0","method":"m","params":{"n":1e400}}',
        envelope.result(b'"a"', raw): '{"jsonrpc":"2.0","id":"a","result":{"n":1e400}}',
        envelope.error(b"1", raw): '{"jsonrpc":"2.0","id":1,"error":{"n":1e400}}',
        envelope.error(None, raw): '{"jsonrpc":"2.0","error":{"n":1e400}}',
    }
    for frame, expected in frames.items():
        assert frame == expected.encode() + b"\n"


@pytest.mark.parametrize("text", ["", "a\nb", 'q"\\', "é\u2028", "\ud800", "\x00\x7f", "é\udfff"])
def test_any_string_can_be_quoted(text: str):
    """
    B069: what has no UTF-8 goes out as an escape.
    """
    quoted = envelope.quote(text)
    assert json.loads(quoted) == text
    assert b"\n" not in quoted


def test_an_object_is_written_from_its_members():
    members = {"\ud800": Raw(b"1e400"), "a": b'"x"'}
    assert envelope.object_from(members) == b'{"\\ud800":1e400,"a":"x"}'
    assert envelope.object_from({}) == b"{}"


# -- of a line that was not kept ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "tail", "ident"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"id":1', b'"id":9}}', b"7"),
        (b'{ "id" : "a\\"b" , "result":{', b"}}", b'"a\\"b"'),
        (b'{"result":{"id":1,"x":"', b'"},"jsonrpc":"2.0","id":7}', b"7"),
        (b'{"result":{"id":1,"x":"', b'"}, "id" : "z" } ', b'"z"'),
        (b'{"result":{"id":1,"x":"', b'"id":7}}', None),
        (b'{"jsonrpc":"2.0","result":"', b'"}', None),
        (b"garbage", b"garbage", None),
    ],
)
def test_the_id_is_found_at_either_end(head: bytes, tail: bytes, ident: bytes | None):
    """
    A payload may have members called ``id``, so only what is outside of it counts.
    """
    assert envelope.find_id(head, tail) == ident


def test_the_id_of_a_request_is_not_that_of_an_answer():
    """
    A server numbers its questions as it likes, and ours have the same numbers.
    """
    request = b'{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{"x":"'
    assert envelope.find_id(request, b'"}}') == b"7"
    assert envelope.find_id(request, b'"}}', of_answer=True) is None
    assert envelope.find_id(b'{"id":7,"error":{"', b'"}}', of_answer=True) == b"7"
    assert envelope.find_id(b'{"result":{"', b'"},"id":7}', of_answer=True) == b"7"
    for spelled in (b"7.0", b"7e0"):
        assert envelope.find_id(b'{"id":%b,"result":{"' % spelled, b"", of_answer=True) == spelled
        assert envelope.find_id(b'{"id":%b,"params":{"' % spelled, b"") is None


def test_a_large_answer_comes_in_parts_that_make_the_same_line():
    """
    To join 16 MiB is to copy them; a small one is a line at once.
    """
    for size in (10, envelope.LARGE_BYTES - 2, envelope.LARGE_BYTES - 1, 10 * envelope.LARGE_BYTES):
        value = Raw(b'"' + b"x" * size + b'"')
        parts = envelope.result_parts(b'"a"', value)
        assert isinstance(parts, bytes) == (len(value) <= envelope.LARGE_BYTES)
        line = parts if isinstance(parts, bytes) else b"".join(parts)
        assert line == envelope.result(b'"a"', value)


def test_an_id_is_not_longer_than_can_be_kept_for_all_requests():
    for longest in (b"1" * envelope.ID_BYTES, b'"%b"' % (b"x" * (envelope.ID_BYTES - 2))):
        assert envelope.is_id(longest)
        assert not envelope.is_id(longest[:1] + longest)
