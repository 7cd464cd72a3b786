"""Finding the ids and methods of a frame without decoding its payload.

Nearly every frame has them in its first or last bytes, at any size: before the first nested
member, or after the last. For valid JSON that is exact: the brace that ends a frame closes the
message itself, so the plain members before it are the message's own. Other frames are decoded when
they are small, and scanned in linear time when they are not.
"""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

Message = tuple[bytes | None, bytes | None]
"""Id, as ``json.dumps`` writes it, and method. A response has no method, a notification no id."""

TAIL_BYTES = 256
DECODED_BYTES = 1 << 16

_PLAIN = (
    rb'"(?:jsonrpc"\s*:\s*"2\.0"'
    rb'|id"\s*:\s*(0|-?[1-9][0-9]{0,30}|"[ !#-\[\]-~]*")'
    rb'|method"\s*:\s*"([^"\\]*)")\s*'
)
_HEAD = re.compile(rb"\s*\{\s*(?:" + _PLAIN + rb'[,}]\s*)*+("(?:result|error)")?')
_TAIL = re.compile(rb"(?:,\s*" + _PLAIN + rb")+\}\s*\Z")

_SPACE = re.compile(rb"\s*")
_TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_STRING = re.compile(_TEXT, re.DOTALL)
_TOKEN = re.compile(  # a flat array or object, a string, brackets in a row, a quote without an end
    rb'[{\[](?:[^"{}\[\]]++|' + _TEXT + rb")*+[}\]]|" + _TEXT + rb'|[{\[]+|[}\]]+|"', re.DOTALL
)
_SCALAR = re.compile(rb"[^\s,\]}]*")


def messages(chunks: list[bytes]) -> list[Message]:
    """Return the messages of a frame: one, or those of a batch.

    Never raises: what is not JSON-RPC gives ``(None, None)`` or an empty list. An id that is
    neither an integer nor a string counts as none.
    """
    head = _HEAD.match(chunks[0])
    if head is not None:
        ident, method, answer = head.groups()
        if ident is not None and (method is not None or answer is not None):
            return [(ident, method)]
    tail = chunks[-1]
    if len(tail) < TAIL_BYTES and len(chunks) > 1:
        tail = chunks[-2][-TAIL_BYTES:] + tail
    found = by_ends(chunks[0], tail)
    if found is not None:
        return [found]
    return _whole(chunks[0] if len(chunks) == 1 else b"".join(chunks))


def is_whole(frame: bytes) -> bool:
    """Return whether ``frame`` is a complete JSON object or array."""
    start = _after_space(frame, 0)
    end = _value_end(frame, start) if frame[start : start + 1] in (b"{", b"[") else -1
    return end > 0 and _after_space(frame, end) == len(frame)


def by_ends(head: bytes, tail: bytes) -> Message | None:
    """Return the message as its first and last bytes show it, ``None`` if they do not."""
    match = _HEAD.match(head)
    ident, method, answer = match.groups() if match else (None, None, None)
    if ident is not None and (answer or method is not None):
        return ident, method
    if method is not None and method.startswith(b"notifications/"):
        return None, method
    match = _TAIL.search(tail, max(0, len(tail) - TAIL_BYTES))
    if match:
        last_ident, last_method = match.groups()
        ident = last_ident or ident
        method = method if last_method is None else last_method
    if ident is not None and (answer or method is not None):
        return ident, method
    return None


def decoded(chunks: list[bytes]) -> dict[str, object]:
    """Return a small message, decoded; an empty dict for any other."""
    if sum(map(len, chunks)) > DECODED_BYTES:
        return {}
    try:
        message = json.loads(b"".join(chunks))
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def params(chunks: list[bytes]) -> dict[str, object]:
    """Return the params of a small message; an empty dict if it has none."""
    found = decoded(chunks).get("params")
    return found if isinstance(found, dict) else {}


def with_id(frame: bytes, ident: bytes) -> bytes:
    """Return a message with another id and its other bytes unchanged."""
    pieces, done = [], 0
    for key, start, end in _members(frame, _after_space(frame, 0)):
        if key == b'"id"':
            pieces += [frame[done:start], ident]
            done = end
    return b"".join([*pieces, frame[done:]])


def _whole(frame: bytes) -> list[Message]:
    if len(frame) <= DECODED_BYTES:
        try:
            value = json.loads(frame)
        except (ValueError, RecursionError):  # the daemon reports it
            value = None
        else:
            return [_decoded(one) for one in (value if isinstance(value, list) else [value])]
    start = _after_space(frame, 0)
    if frame[start : start + 1] == b"[":
        return [_object(frame, at) for at in _elements(frame, start)]
    return [_object(frame, start)]


def _decoded(value: object) -> Message:
    if not isinstance(value, dict):
        return None, None
    method = value.get("method")
    return _canonical(value.get("id")), (
        method.encode("utf-8", "surrogatepass") if isinstance(method, str) else None
    )


def _canonical(ident: object) -> bytes | None:
    if isinstance(ident, bool) or not isinstance(ident, (int, str)):
        return None
    return json.dumps(ident).encode()


def _object(frame: bytes, at: int) -> Message:
    """Return the message that begins at ``at``; of invalid JSON, what precedes the error."""
    ident = method = None
    for key, start, end in _members(frame, at):
        if key == b'"id"':
            ident = _canonical(_loads(frame[start:end]))
        elif key == b'"method"':
            text = _loads(frame[start:end])
            method = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else None
    return ident, method


def _loads(value: bytes) -> object:
    try:
        return json.loads(value) if len(value) <= DECODED_BYTES else None
    except (ValueError, RecursionError):
        return None


def _members(frame: bytes, at: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield key, start and end of value for each member of an object, up to an error."""
    if frame[at : at + 1] != b"{":
        return
    while True:
        at = _after_space(frame, at + 1)
        key = _STRING.match(frame, at)
        if not key:
            return
        at = _after_space(frame, key.end())
        if frame[at : at + 1] != b":":
            return
        at = _after_space(frame, at + 1)
        end = _value_end(frame, at)
        if end < 0:
            return
        if key.end() - key.start() <= len(b'"method"'):
            yield key.group(), at, end
        at = _after_space(frame, end)
        if frame[at : at + 1] != b",":
            return


def _elements(frame: bytes, at: int) -> Iterator[int]:
    """Yield where each element of an array begins, up to an error."""
    while True:
        at = _after_space(frame, at + 1)
        end = _value_end(frame, at)
        if end <= at:
            return
        yield at
        at = _after_space(frame, end)
        if frame[at : at + 1] != b",":
            return


def _value_end(frame: bytes, at: int) -> int:
    """Return where the value that begins at ``at`` ends, -1 if it does not."""
    first = frame[at : at + 1]
    if first == b'"':
        match = _STRING.match(frame, at)
        return match.end() if match else -1
    if first not in (b"{", b"["):
        match = _SCALAR.match(frame, at)
        return match.end() if match else -1
    depth = 0
    for token in _TOKEN.finditer(frame, at):
        start, end = token.span()
        if frame[start] in b"}]":
            if depth <= end - start:
                return start + depth
            depth -= end - start
        elif frame[start] in b"{[":
            if frame[end - 1] in b"{[":
                depth += end - start
            elif depth == 0:
                return end
        elif end - start == 1:
            return -1  # an unclosed quote
    return -1


def _after_space(frame: bytes, at: int) -> int:
    match = _SPACE.match(frame, at)
    return match.end() if match else at
