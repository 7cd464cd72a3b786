"""Encoding and decoding lines of the socket, keeping the text of results."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

_DECODER = json.JSONDecoder()
_BLANKS = " \t\r\n"


class Message(NamedTuple):
    """A decoded line: its members, and the JSON text of each member's value."""

    members: dict[str, Any]
    texts: dict[str, str]


def encode(message: dict[str, Any]) -> bytes:
    """Return ``message`` as one line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Message:
    """Return the JSON object on ``line``; raise ``ValueError`` for anything else.

    The texts let scripts get a result as the server wrote it, with its spelling of numbers.
    """
    text = line.decode("utf-8", "surrogatepass").lstrip("\ufeff")
    try:
        return _object(text)
    except (ValueError, IndexError, RecursionError):
        raise ValueError(f"not a JSON object that can be read: {text[:80]!r}") from None


def _object(text: str) -> Message:
    members: dict[str, Any] = {}
    texts: dict[str, str] = {}
    at = _expect(text, 0, "{")
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        begin = _expect(text, at, ":")
        members[key], at = _DECODER.raw_decode(text, begin)
        texts[key] = text[begin:at]
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
        elif text[at] != "}":
            raise ValueError(f"expected , or }} at {at}")
    return Message(members, texts)


def _expect(text: str, at: int, mark: str) -> int:
    """Return the position of the next token after ``mark``; raise ``ValueError`` without it."""
    at = _skip(text, at)
    if text[at] != mark:
        raise ValueError(f"expected {mark} at {at}")
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    while text[at] in _BLANKS:
        at += 1
    return at
