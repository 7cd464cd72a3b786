"""Commands that a text has in base64 or hexadecimal."""

from __future__ import annotations

import base64
import binascii
import re
from itertools import chain, islice
from typing import Final

_TOKENS: Final = 64  # of one text that are decoded
_DECODED: Final = 4096  # characters of one that are
_NESTED: Final = 2  # times that what was decoded is decoded again
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2}){12,}")
_BYTES: Final = re.compile(  # not what ends a word, but for 0x
    r"[0-9a-fA-F]{2}(?<![0-9A-WYZa-wyz_]..)[ ,:]{1,2}"
    r"(?:(?:0x)?[0-9a-fA-F]{2}[ ,:]{1,2}){6,}(?:0x)?[0-9a-fA-F]{2}\b"
)
_ESCAPES: Final = re.compile(r"(?:\\x[0-9a-fA-F]{2}){8,}")
_BYTE: Final = re.compile(r"(?:\\x|0x)?([0-9a-fA-F]{2})")
_COMMAND: Final = re.compile(
    r"(?:^|[\s;&|`$(])(?:curl|wget|nc|ncat|bash|sh|zsh|python3?|perl|ruby|node|powershell(?:\.exe)?|pwsh|iex|cmd(?:\.exe)?|"
    r"rm|chmod|eval|exec|cat|scp|ssh|base64|osascript|certutil|mshta|Invoke-\w+)\s+\S"
    r"|https?://[^\s|]{1,1000}+\s*+\|\s*\S|>\s*/dev/tcp/"
    r"|\b(?:import os|os\.system|subprocess\.|child_process)\b"
)


def payloads(text: str) -> list[tuple[int, str]]:
    """Return the commands that a text has in base64 or hexadecimal, and where."""
    found: list[tuple[int, str]] = []
    for match in islice(_BASE64.finditer(text), _TOKENS):
        _add_command(found, match.start(), _decoded(match[0]), _NESTED)
    escaped = _ESCAPES.finditer(text) if "\\x" in text else ()
    for match in islice(chain(escaped, _BYTES.finditer(text)), _TOKENS):
        digits = "".join(_BYTE.findall(match[0][: _DECODED * 6]))
        _add_command(found, match.start(), bytes.fromhex(digits), _NESTED)
    return found


def _decoded(token: str) -> bytes:
    """Return the bytes of base64 in either alphabet, or of hexadecimal; nothing for other text."""
    token = token.rstrip("=")[:_DECODED]
    if _HEX.fullmatch(token):
        return bytes.fromhex(token)
    token = token.replace("-", "+").replace("_", "/")
    token = token[: len(token) - (len(token) % 4 == 1)]
    try:
        return base64.b64decode(token + "=" * (-len(token) % 4))
    except (ValueError, binascii.Error):
        return b""


def _add_command(found: list[tuple[int, str]], at: int, data: bytes, levels: int) -> None:
    for encoding in ("ascii", "utf-16-le"):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if not text.isascii() or not _is_printed(text):
            continue
        if _COMMAND.search(text):
            found.append((at, text))
            return
        if levels and _BASE64.fullmatch(text.strip()):
            _add_command(found, at, _decoded(text.strip()), levels - 1)
            return


def _is_printed(text: str) -> bool:
    return all(each.isprintable() or each in "\n\r\t" for each in text)
