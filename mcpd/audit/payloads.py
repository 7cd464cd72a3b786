"""What ``record`` keeps of arguments and results: bounded, and without what looks secret."""

from __future__ import annotations

import re
import zlib
from typing import Final, Literal, NamedTuple

from msgspec import Raw

from mcpd.config.texts.interpolate import Piece
from mcpd.config.texts.secrets import is_secret_name, show
from mcpd.redact import MASK, Redactor

MOST_BYTES: Final = 64 * 1024
"""What is kept of the arguments of a call, and of its result."""

Mode = Literal["none", "arguments", "full"]

_OTHER_VALUE: Final = re.compile(
    r'(?<!\\)"([^"\\]{1,100})"(\s{0,4}:\s{0,4})(-?\d[\d.eE+-]{0,40}|\[[^\[\]]{0,2000}\]|\{[^{}]{0,2000}\})'
)
"""A member whose value is no string: a number, a flat array or a flat object."""


class Recorded(NamedTuple):
    """What is kept of a server's calls, and what hides its secrets."""

    mode: Mode
    redactor: Redactor


def kept(data: Raw | bytes, redactor: Redactor) -> bytes:
    """Return what is kept of JSON, compressed.

    The secrets that the server was given are masked wherever they are, then the values of members
    with the name of a secret, and what has the form of a token.
    """
    text = redactor.excerpt(data, MOST_BYTES)
    text = show((Piece(text, None),)).text
    text = _OTHER_VALUE.sub(_masked, text)
    return zlib.compress(text.encode(errors="replace")[:MOST_BYTES])


def _masked(member: re.Match[str]) -> str:
    if not is_secret_name(member[1]):
        return member[0]
    return f'"{member[1]}"{member[2]}"{MASK}"'
