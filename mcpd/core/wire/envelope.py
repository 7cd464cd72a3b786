"""One JSON-RPC message whose payload is left as bytes: decoding, and the frames we write."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from mcpd.core.wire.framing import Frame

Bytes = Raw | UnsetType
"""A member kept as it came, or its absence."""


class Message(msgspec.Struct, gc=False):
    """The envelope of one frame. Which members are there is for the reader to judge."""

    jsonrpc: str | UnsetType = UNSET
    id: Bytes = UNSET
    method: str | UnsetType = UNSET
    params: Bytes = UNSET
    result: Bytes = UNSET
    error: Bytes = UNSET


class Params(msgspec.Struct, gc=False):
    """The members of ``params`` that any rule looks at, each as it came."""

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
    """A frame that is no JSON-RPC message.

    ``is_json`` tells a bad message (-32600) from bytes that could not be read at all (-32700);
    ``id`` is the frame's id where it has a usable one.
    """

    def __init__(self, reason: str, *, is_json: bool, id: bytes | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_json = is_json
        self.id = id


_decode_message = msgspec.json.Decoder(Message).decode
_decode_params = msgspec.json.Decoder(Params).decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_array = msgspec.json.Decoder(list[Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode
encode: Final = msgspec.json.Encoder().encode

LARGE_BYTES: Final = 65536
"""Payloads over this are not copied to be put into a line."""

ID_BYTES: Final = 1024
"""The longest id, or progress token. They are kept until what they belong to is over."""

_INTEGER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*)\Z")
_SPACE: Final = " \t\n\r"
_MEMBERS: Final = ("jsonrpc", "id", "method", "params", "result", "error")


def decode(frame: Frame) -> Message:
    """Read one frame.

    Raises:
        Malformed: the peer sent something that is no JSON object with the members' right types.
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
    """Take what msgspec refuses and JSON allows: lone surrogate escapes, oddly typed members."""
    try:
        members = members_of(frame)
    except TooDeep as error:
        ident = find_id(bytes(frame[:4096]), bytes(frame[-4096:]))
        raise Malformed(str(error), is_json=False, id=ident) from None
    except ValueError as error:
        if frame.lstrip()[:1] != b"{" and _is_json(frame):
            raise Malformed("a message is a JSON object", is_json=True) from None
        raise Malformed(f"not JSON: {error}", is_json=False) from None
    ident = members.get("id")
    for name in ("jsonrpc", "method"):
        if name in members and not members[name].startswith(b'"'):
            usable = ident if ident is not None and is_id(ident) else None
            raise Malformed(f"{name} must be a string", is_json=True, id=usable)
    message = Message()
    for name in _MEMBERS:
        if name in members:
            value = members[name]
            setattr(message, name, Raw(value) if name not in ("jsonrpc", "method") else text(value))
    return message


def _is_json(frame: Frame) -> bool:
    try:
        json.loads(frame, parse_int=_as_it_is, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _as_it_is(number: str) -> str:
    return number  # Python would refuse one of more than 4300 digits


class TooDeep(ValueError):
    """JSON, perhaps, but nested deeper than we look."""


_scan = json.JSONDecoder(
    parse_int=_as_it_is, parse_float=_as_it_is, parse_constant=_refuse_constant
).raw_decode


def members_of(data: Frame) -> dict[str, bytes]:
    """Return the members of a JSON object with their values' own bytes.

    Of equal names the last wins. The slow path: it takes every JSON that the standard library does.

    Raises:
        ValueError: not a JSON object; ``TooDeep`` where it may be one.
    """
    source = data.decode()
    found: dict[str, bytes] = {}
    try:
        for name, value in _members(source):
            found[name] = value.encode()
    except RecursionError:
        raise TooDeep("nested too deep") from None
    return found


def _members(source: str) -> Iterator[tuple[str, str]]:
    at = _skip(source, 0, "{")
    if source[at : at + 1] == "}":
        at = _skip(source, at, "}")
    else:
        while True:
            if source[at : at + 1] != '"':
                raise ValueError(f"expected a member name at character {at}")
            name, at = _scan(source, at)
            at = _skip(source, at, ":")
            end = _scan(source, at)[1]
            yield name, source[at:end]
            at = _after_space(source, end)
            if source[at : at + 1] == "}":
                at = _skip(source, at, "}")
                break
            at = _skip(source, at, ",")
    if at != len(source):
        raise ValueError(f"something follows the object at character {at}")


def _skip(source: str, at: int, mark: str) -> int:
    at = _after_space(source, at)
    if source[at : at + 1] != mark:
        raise ValueError(f"expected {mark!r} at character {at}")
    return _after_space(source, at + 1)


def _after_space(source: str, at: int) -> int:
    while at < len(source) and source[at] in _SPACE:
        at += 1
    return at


def params_of(params: Raw | bytes) -> Params | None:
    """Look into ``params``; ``None`` where they are no object."""
    try:
        return _decode_params(params)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        try:
            members = members_of(bytes(params))
        except ValueError:
            return None
    found = Params()
    for field in msgspec.structs.fields(Params):
        if field.encode_name in members:
            setattr(found, field.name, Raw(members[field.encode_name]))
    return found


def object_of(value: Raw | bytes) -> dict[str, Raw] | None:
    """Split an object into its members, each as it came; ``None`` where it is no object."""
    try:
        return _decode_object(value)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        try:
            return {name: Raw(member) for name, member in members_of(bytes(value)).items()}
        except ValueError:
            return None


def batch_of(frame: Frame) -> list[bytes] | None:
    """Split a JSON array into its elements' bytes; ``None`` where the frame is no array."""
    try:
        return [bytes(element) for element in _decode_array(frame)]
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        try:
            return [element.encode() for element in _elements(frame.decode())]
        except (ValueError, RecursionError):
            return None


def _elements(source: str) -> Iterator[str]:
    at = _skip(source, 0, "[")
    if source[at : at + 1] == "]":
        at = _skip(source, at, "]")
    else:
        while True:
            end = _scan(source, at)[1]
            yield source[at:end]
            at = _after_space(source, end)
            if source[at : at + 1] == "]":
                at = _skip(source, at, "]")
                break
            at = _skip(source, at, ",")
    if at != len(source):
        raise ValueError(f"something follows the array at character {at}")


def text(value: Raw | bytes | UnsetType) -> str | None:
    """Read a JSON string; ``None`` where the value is none. Lone surrogates survive as such."""
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
    """Tell whether these bytes are an id as MCP has them: a string or an integer, not too long."""
    if len(raw) > ID_BYTES:
        return False
    return raw.isdigit() or raw.startswith(b'"') or _INTEGER.match(raw) is not None


def id_key(raw: bytes) -> bytes:
    """Return what makes two spellings of one id equal, with its type: ``"\\u0061"`` is ``"a"``."""
    if raw.startswith(b'"'):
        if b"\\" not in raw:
            return raw
        return quote(json.loads(raw))
    return b"0" if raw == b"-0" else raw


def quote(value: str) -> bytes:
    """Write a JSON string; what cannot be UTF-8 (lone surrogates) goes out as escapes."""
    try:
        return encode(value)
    except (UnicodeEncodeError, msgspec.MsgspecError):
        return json.dumps(value, ensure_ascii=True).encode()


def object_from(members: Mapping[str, Raw | bytes]) -> bytes:
    """Write an object of members that are JSON already."""
    # by hand: the encoder refuses names with lone surrogates, and validates nothing of a Raw
    parts = (b"".join((quote(name), b":", raw)) for name, raw in members.items())
    return b"{" + b",".join(parts) + b"}"


def request(wire_id: int, method: bytes, params: Raw | bytes | None) -> bytes:
    """Write a request of ours, newline included."""
    if params is None:
        return b'{"jsonrpc":"2.0","id":%d,"method":%b}\n' % (wire_id, method)
    head = b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":' % (wire_id, method)
    return b"".join((head, params, b"}\n"))


def notification(method: bytes, params: Raw | bytes | None = None) -> bytes:
    """Write a notification, newline included; ``method`` is a JSON string."""
    if params is None:
        return b'{"jsonrpc":"2.0","method":%b}\n' % method
    return b"".join((b'{"jsonrpc":"2.0","method":', method, b',"params":', params, b"}\n"))


def result(ident: bytes, value: Raw | bytes) -> bytes:
    """Write a response, newline included; ``ident`` is the requester's id as it came."""
    return b"".join((b'{"jsonrpc":"2.0","id":', ident, b',"result":', value, b"}\n"))


def result_parts(ident: bytes, value: Raw | bytes) -> bytes | tuple[bytes | Raw, ...]:
    """Write a response; a large one as the parts of it, because joining them is a copy."""
    if len(value) <= LARGE_BYTES:
        return result(ident, value)
    return (b'{"jsonrpc":"2.0","id":%b,"result":' % ident, value, b"}\n")


def error(ident: bytes | None, value: Raw | bytes) -> bytes:
    """Write an error response; without ``ident`` the member is left out."""
    if ident is None:
        return b"".join((b'{"jsonrpc":"2.0","error":', value, b"}\n"))
    return b"".join((b'{"jsonrpc":"2.0","id":', ident, b',"error":', value, b"}\n"))


_ID_AT_HEAD: Final = re.compile(rb'"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*)\s*[,}]')

_ID_AT_TAIL: Final = re.compile(rb'"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*)\s*\}\s*\Z')
_PAYLOAD: Final = re.compile(rb'"(params|result|error)"\s*:')


def find_id(head: bytes, tail: bytes, *, of_answer: bool = False) -> bytes | None:
    """Find the id of a frame that was not kept, from its two ends.

    With ``of_answer`` it must look like an answer: ids of requests are others' to give. The number
    of an answer may have a fraction or an exponent, that of a request has none.

    Members of the payload may be called ``id`` too, so only the head up to where the payload begins
    and the tail after its end are looked at.
    """
    payload = _PAYLOAD.search(head)
    if of_answer and (payload is None or payload[1] == b"params"):
        return None
    found = _ID_AT_HEAD.search(head[: payload.start()] if payload else head)
    found = found or _ID_AT_TAIL.search(tail)
    return found[1] if found and (of_answer or is_id(found[1])) else None
