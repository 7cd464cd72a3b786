"""Whatever bytes a peer sends: a message, or ``Malformed``; nothing else is raised."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET

from mcpd.core.wire import envelope, scan

TEXTS = st.text(st.characters(exclude_categories=())) | st.sampled_from(
    ["id", "params", "result", "error", "_meta", "\ud800", "\u2028", '"', "\\"]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | VALUES,
        "id": st.integers() | TEXTS | VALUES,
        "method": TEXTS | VALUES,
        "params": VALUES,
        "result": VALUES,
        "error": VALUES,
        "other": VALUES,
    },
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Draw a valid frame in which a few bytes were changed, left out, doubled or put in."""
    text = json.dumps(draw(MESSAGES), ensure_ascii=draw(st.booleans()))
    frame = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(frame)))
        match draw(st.integers(0, 3)):
            case 0:
                frame[at : at + 1] = bytes([draw(st.integers(0, 255))])
            case 1:
                del frame[at : at + draw(st.integers(1, 9))]
            case 2:
                frame[at:at] = frame[at : at + draw(st.integers(1, 9))]
            case _:
                frame[at:at] = draw(st.sampled_from([b'"', b"\\", b"{", b"}", b"\xff", b"1e9"]))
    return bytes(frame)


def read(value: envelope.Raw | bytes) -> object:
    return json.loads(bytes(value), parse_int=str)  # Python's own limits numbers to 4300 digits


@given(st.binary(max_size=200) | mutated())
@example(b"\xff")
@example(b'{"id":"\\ud800","method":"\xff"}')
@example(b'{"id":' + b"[" * 3000)
@example(b"[" * 3000)
@example(b'{"method":"a","id":' + b"9" * 5000 + b"}")
@example(b"\xff\xfe1\x00")
def test_bytes_are_a_message_or_malformed(frame: bytes):
    try:
        message = envelope.decode(frame)
    except envelope.Malformed as problem:
        ident = problem.id or b"0"
        message = envelope.Message(id=envelope.Raw(ident))
        envelope.find_id(frame, frame)
        envelope.find_id(frame, frame, of_answer=True)
    for value in (message.id, message.params, message.result, message.error):
        if value is UNSET:
            continue
        read(value)  # what is passed on is JSON
        if envelope.is_id(bytes(value)):
            envelope.id_key(bytes(value))
        envelope.text(value)
        found = envelope.params_of(value)
        members = envelope.object_of(value)
        assert (found is None) == (members is None)
        if members is not None:
            assert read(envelope.object_from(members)) == read(value)


@given(MESSAGES.filter(lambda m: all(isinstance(m.get(k, ""), str) for k in ("jsonrpc", "method"))))
def test_both_ways_of_reading_agree(message: dict[str, object]):
    """
    The tolerant one takes what the fast one refuses; of what both take they say the same.
    """
    frame = json.dumps(message).encode()
    found = envelope.decode(frame)
    members = [(frame[m.start : m.name_end], frame[m.value : m.end]) for m in scan.members(frame)]
    slow = {json.loads(name): value for name, value in members}
    for name in ("id", "params", "result", "error"):
        value = getattr(found, name)
        assert (None if value is UNSET else bytes(value)) == slow.get(name)
    for name in ("jsonrpc", "method"):
        value = getattr(found, name)
        assert message.get(name, UNSET) == value


@given(TEXTS, st.booleans(), st.booleans())
def test_an_id_is_the_same_in_every_spelling(text: str, one: bool, other: bool):
    def spelled(ascii_only: bool) -> bytes:
        if any("\ud800" <= char <= "\udfff" for char in text):
            ascii_only = True
        return json.dumps(text, ensure_ascii=ascii_only).encode()

    assert envelope.id_key(spelled(one)) == envelope.id_key(spelled(other))


@given(TEXTS, TEXTS)
def test_different_ids_stay_different(one: str, other: str):
    keys = [envelope.id_key(json.dumps(text).encode()) for text in (one, other)]
    assert (keys[0] == keys[1]) == (one == other)
