"""JSON-RPC messages with their payload left as bytes: decoding, and writing frames."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from mcpd.core.wire import scan
from mcpd.core.wire.framing import Frame

Bytes = Raw | UnsetType
"""A member as it came, or ``UNSET`` if it is absent."""


class Message(msgspec.Struct, gc=False):
    """The members of one message. Any of them may be absent: the caller checks which are there."""

    jsonrpc: str | UnsetType = UNSET
    id: Bytes = UNSET
    method: str | UnsetType = UNSET
    params: Bytes = UNSET
    result: Bytes = UNSET
    error: Bytes = UNSET


class Params(msgspec.Struct, gc=False):
    """The members of ``params`` that are used for routing, each as it came."""

    name: Bytes = UNSET
    uri: Bytes = UNSET
    meta: Bytes = msgspec.field(name="_meta", default=UNSET)
    task: Bytes = UNSET
    ref: Bytes = UNSET
    argument: Bytes = UNSET
    arguments: Bytes = UNSET
    level: Bytes = UNSET
    cursor: Bytes = UNSET
    reason: Bytes = UNSET
    notifications: Bytes = UNSET
    task_id: Bytes = msgspec.field(name="taskId", default=UNSET)
    answers: Bytes = msgspec.field(name="inputResponses", default=UNSET)
    state: Bytes = msgspec.field(name="requestState", default=UNSET)
    request_id: Bytes = msgspec.field(name="requestId", default=UNSET)
    progress_token: Bytes = msgspec.field(name="progressToken", default=UNSET)


class Malformed(Exception):
    """A frame is not a JSON-RPC message.

    ``is_json`` is true for JSON that is no message (-32600), false for anything else (-32700).
    ``id`` is the frame's id if it has a valid one. ``elements`` are those of an array.
    """

    def __init__(
        self,
        reason: str,
        *,
        is_json: bool,
        id: bytes | None = None,
        elements: list[bytes] | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_json = is_json
        self.id = id
        self.elements = elements


_decode_message = msgspec.json.Decoder(Message).decode
_decode_params = msgspec.json.Decoder(Params).decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode
encode: Final = msgspec.json.Encoder().encode

LARGE_BYTES: Final = 65536
"""Larger payloads are written without joining them with the rest of their line."""

ID_BYTES: Final = 1024
"""The longest id, or progress token: it is kept as long as its request is pending."""

_INTEGER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*)\Z")
TOO_MANY: Final = f"an array has at most {scan.MOST_PARTS} messages"
"""The ``Malformed.reason`` of a longer one."""

_MEMBERS: Final = ("jsonrpc", "id", "method", "params", "result", "error")
_PARAMS: Final = msgspec.structs.fields(Params)


def decode(frame: Frame) -> Message:
    """Decode one frame.

    Raises:
        Malformed: the frame is not a JSON object, or ``jsonrpc`` or ``method`` is not a string.
    """
    try:
        if not frame.isascii():
            frame.decode()  # msgspec does not look inside what it leaves raw
        return _decode_message(frame)
    except UnicodeDecodeError as error:
        raise Malformed(f"invalid UTF-8 at byte {error.start}", is_json=False) from None
    except (msgspec.MsgspecError, RecursionError):
        return _decode_tolerantly(frame)


def _decode_tolerantly(frame: Frame) -> Message:
    """Decode what msgspec has refused: lone surrogate escapes, members of the wrong type."""
    try:
        found = {text(name): value for name, value in _members(frame)}
    except (scan.TooDeep, scan.TooMany) as error:
        ident = find_id(bytes(frame[:4096]), bytes(frame[-4096:]))
        raise Malformed(str(error), is_json=False, id=ident) from None
    except ValueError as error:
        raise _no_object(frame, str(error)) from None
    ident = found.get("id")
    usable = ident if ident is not None and is_id(ident) else None
    for name in ("jsonrpc", "method"):
        if name in found and not found[name].startswith(b'"'):
            raise Malformed(f"{name} must be a string", is_json=True, id=usable)
        if len(found.get(name, b"")) > LARGE_BYTES:
            raise Malformed(f"{name} is too long", is_json=True, id=usable)
    message = Message()
    for name in _MEMBERS:
        if name in found:
            value = found[name]
            setattr(message, name, Raw(value) if name not in ("jsonrpc", "method") else text(value))
    return message


def _no_object(frame: Frame, problem: str) -> Malformed:
    """Return the error for a frame that is not a JSON object."""
    elements = _elements(frame)
    if elements is not None:
        if len(elements) > scan.MOST_PARTS:
            return Malformed(TOO_MANY, is_json=True)
        return Malformed("a message is a JSON object", is_json=True, elements=elements)
    try:
        scan.check(frame)
    except ValueError:
        return Malformed(f"not JSON: {problem}", is_json=False)
    return Malformed("a message is a JSON object", is_json=True)


def _members(data: Frame) -> Iterator[tuple[bytes, bytes]]:
    """Yield each member's quoted name and its value.

    Raises:
        ValueError: see ``scan.members``.
    """
    view = memoryview(data)
    for member in scan.members(data, is_refused=True):
        yield bytes(view[member.start : member.name_end]), bytes(view[member.value : member.end])


def params_of(params: Raw | bytes) -> Params | None:
    """Decode ``params``; return ``None`` if they are no object, or have too many members."""
    if len(params) <= LARGE_BYTES:
        try:
            return _decode_params(params)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            pass
    members = object_of(params)
    if members is None:
        return None
    found = Params()
    for field in _PARAMS:
        if field.encode_name in members:
            setattr(found, field.name, members[field.encode_name])
    return found


def object_of(value: Raw | bytes) -> dict[str, Raw] | None:
    """Return the members of an object, each as it came; the last one of a repeated name.

    Return ``None`` if the value is no object, or a large one of more than ``scan.MOST_PARTS``
    members: a dictionary of millions takes seconds to make.
    """
    if len(value) <= LARGE_BYTES:
        try:
            return _decode_object(value)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            pass
    view = memoryview(value)
    try:
        found = scan.members(value)
    except ValueError:
        return None
    members: dict[str, Raw] = {}
    for start, name_end, at, end in found:
        name = text(bytes(view[start:name_end]))
        if name is not None:
            members[name] = Raw(view[at:end])
    return members


def elements_of(value: Raw | bytes) -> list[bytes] | None:
    """Return the elements of an array; ``None`` if it is no array, or has too many."""
    found = _elements(value)
    return None if found is None or len(found) > scan.MOST_PARTS else found


def _elements(value: Raw | Frame) -> list[bytes] | None:
    """Return the first ``scan.MOST_PARTS + 1`` elements of an array."""
    view = memoryview(value)
    try:
        return [bytes(view[at:end]) for at, end in scan.elements(value, scan.MOST_PARTS + 1)]
    except ValueError:
        return None


def text(value: Raw | bytes | UnsetType) -> str | None:
    """Decode a JSON string; return ``None`` for any other value. Lone surrogates are kept."""
    if value is UNSET:
        return None
    try:
        return _decode_text(value)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raw = bytes(value)
        try:
            found = json.loads(raw) if raw.startswith(b'"') else None
        except ValueError:
            return None
        return found if isinstance(found, str) else None


def is_id(raw: bytes) -> bool:
    """Tell whether a JSON value is a valid id: a string or an integer of at most ``ID_BYTES``."""
    if len(raw) > ID_BYTES:
        return False
    return raw.isdigit() or raw.startswith(b'"') or _INTEGER.match(raw) is not None


def id_key(raw: bytes) -> bytes:
    """Return an id in its normal form, which keeps its type: ``"\\u0061"`` becomes ``"a"``."""
    if raw.startswith(b'"'):
        if b"\\" not in raw:
            return raw
        return quote(json.loads(raw))
    return b"0" if raw == b"-0" else raw


def key_of_id(raw: bytes) -> bytes | None:
    """Return the normal form of an id (see ``id_key``), or ``None`` for anything else."""
    if raw.isdigit() and len(raw) <= ID_BYTES:
        return raw
    return id_key(raw) if is_id(raw) else None


def quote(value: str) -> bytes:
    """Return a JSON string; lone surrogates, which UTF-8 does not have, are escaped."""
    try:
        return encode(value)
    except (UnicodeEncodeError, msgspec.MsgspecError):
        return json.dumps(value, ensure_ascii=True).encode()


def object_from(members: Mapping[str, Raw | bytes]) -> bytes:
    """Return an object of members whose values are JSON."""
    # without the encoder, which refuses names with lone surrogates
    parts = (b"".join((quote(name), b":", raw)) for name, raw in members.items())
    return b"{" + b",".join(parts) + b"}"


def request(wire_id: int, method: bytes, params: Raw | bytes | None) -> bytes:
    """Return the line of a request; ``method`` is a JSON string."""
    if params is None:
        return b'{"jsonrpc":"2.0","id":%d,"method":%b}\n' % (wire_id, method)
    head = b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":' % (wire_id, method)
    return b"".join((head, params, b"}\n"))


def notification(method: bytes, params: Raw | bytes | None = None) -> bytes:
    """Return the line of a notification; ``method`` is a JSON string."""
    if params is None:
        return b'{"jsonrpc":"2.0","method":%b}\n' % method
    return b"".join((b'{"jsonrpc":"2.0","method":', method, b',"params":', params, b"}\n"))


def result(ident: bytes, value: Raw | bytes) -> bytes:
    """Return the line of a response; ``ident`` is the id of the request as it came."""
    return b"".join((b'{"jsonrpc":"2.0","id":', ident, b',"result":', value, b"}\n"))


def result_parts(ident: bytes, value: Raw | bytes) -> bytes | tuple[bytes | Raw, ...]:
    """Return the line of a response; a large one in parts, because joining them copies it."""
    if len(value) <= LARGE_BYTES:
        return result(ident, value)
    return (b'{"jsonrpc":"2.0","id":%b,"result":' % ident, value, b"}\n")


def result_of_parts(ident: bytes, parts: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return the line of a response whose result is in parts, in parts."""
    return (b'{"jsonrpc":"2.0","id":%b,"result":' % ident, *parts, b"}\n")


def error(ident: bytes | None, value: Raw | bytes) -> bytes:
    """Return the line of an error response; an ``ident`` of ``None`` is left out."""
    if ident is None:
        return b"".join((b'{"jsonrpc":"2.0","error":', value, b"}\n"))
    return b"".join((b'{"jsonrpc":"2.0","id":', ident, b',"error":', value, b"}\n"))


_ID_AT_HEAD: Final = re.compile(rb'"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*)\s*[,}]')

_ID_AT_TAIL: Final = re.compile(rb'"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*)\s*\}\s*\Z')
_PAYLOAD: Final = re.compile(rb'"(params|result|error)"\s*:')


def find_id(head: bytes, tail: bytes, *, of_answer: bool = False) -> bytes | None:
    """Return the id of an oversized frame from its two ends, or ``None`` if it is not there.

    With ``of_answer`` the frame must be a response, and its id may be a number with a fraction or
    an exponent. The payload may have members named ``id``, so only the head up to the payload and
    the tail after it are searched.
    """
    payload = _PAYLOAD.search(head)
    if of_answer and (payload is None or payload[1] == b"params"):
        return None
    found = _ID_AT_HEAD.search(head[: payload.start()] if payload else head)
    found = found or _ID_AT_TAIL.search(tail)
    return found[1] if found and (of_answer or is_id(found[1])) else None
