"""Matches URIs against URI templates, in linear time.

Source: RFC 6570, levels 1 to 3 and the modifiers of level 4. The match is lenient, because it only
selects the server, which decides for itself. A regular expression would let a hostile server cause
endless backtracking. Instead, all positions in the URI are followed at once, as a set of bits in
an integer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import msgspec

MAX_URI_LENGTH: Final = 8192
"""Longer URIs fit no template."""

MAX_STEPS: Final = 20_000
"""Steps for one URI and the templates of one server, a few milliseconds; the rest do not match."""

MAX_TEMPLATE_LENGTH: Final = 2048
"""Longer templates fit no URI."""

_EXPRESSION: Final = re.compile(r"\{([^{}]*)\}")

ANY: Final = ""
"""The characters that a run of ``{+x}`` cannot contain: none."""

# operator → (what an expansion begins with, what it cannot contain, whether it may be missing)
_OPERATORS: Final = {
    "+": ("", ANY, False),
    "#": ("#", ANY, True),
    ".": (".", "/", True),
    "/": ("/", "/", True),
    ";": (";", "/", True),
    "?": ("?", "#", True),
    "&": ("&", "#", True),
}


class Literal(msgspec.Struct, frozen=True):
    """Characters that match themselves."""

    text: str


class Run(msgspec.Struct, frozen=True):
    """``prefix`` and at least one character that is not in ``ends``; if optional, also nothing."""

    prefix: str
    ends: str
    optional: bool


Token = Literal | Run


@lru_cache(maxsize=4096)
def parse(template: str) -> tuple[Token, ...] | None:
    """Return the tokens of a template, or ``None`` if it is invalid or too long."""
    if len(template) > MAX_TEMPLATE_LENGTH:
        return None
    tokens: list[Token] = []
    at = 0
    for expression in _EXPRESSION.finditer(template):
        tokens.append(Literal(template[at : expression.start()]))
        at = expression.end()
        if not expression[1].lstrip("".join(_OPERATORS)):
            return None
        tokens.extend(_runs(expression[1]))
    tokens.append(Literal(template[at:]))
    if any(isinstance(token, Literal) and re.search(r"[{}]", token.text) for token in tokens):
        return None
    return tuple(token for token in tokens if token != Literal(""))


def _runs(expression: str) -> list[Token]:
    prefix, ends, optional = _OPERATORS.get(expression[0], ("", "/", False))
    names = expression.split(",")
    if expression[0] in "./" and "*" not in expression:
        return [Run(prefix, ends, optional)] * len(names)
    return [Run(prefix, ANY if "*" in expression else ends, optional)]


class UriMatch:
    """Matches one URI against many templates."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._masks: dict[str, int] = {}

    def any_of(self, templates: Iterable[str]) -> bool:
        """Tell whether the URI matches one of a server's templates.

        After ``MAX_STEPS`` the remaining templates count as no match.
        """
        steps = 0
        for template in templates:
            tokens = parse(template)
            if tokens is None:
                continue
            first = tokens[0] if tokens else Literal("")
            if isinstance(first, Literal) and not self._uri.startswith(first.text):
                steps += 1
                continue
            steps += sum(len(t.text) if isinstance(t, Literal) else 4 for t in tokens)
            if steps > MAX_STEPS:
                return False
            if self.fits(tokens):
                return True
        return False

    def fits(self, tokens: Iterable[Token]) -> bool:
        """Tell whether the whole URI is an expansion of the tokens."""
        if len(self._uri) > MAX_URI_LENGTH:
            return False
        positions = 1  # bit i: the tokens so far can end before character i
        for token in tokens:
            if isinstance(token, Literal):
                positions = self._after(positions, token.text)
            else:
                start = self._after(positions, token.prefix)
                inside = self._outside_of(token.ends)
                once = (start & inside) << 1
                # The addition carries a bit through a run of ones: each position in it is reached.
                run = (((once & inside) + inside) ^ inside) | once
                positions = run | positions if token.optional else run
            if not positions:
                return False
        return bool(positions >> len(self._uri) & 1)

    def _after(self, positions: int, text: str) -> int:
        for character in text:
            positions = (positions & self._at(character)) << 1
        return positions

    def _outside_of(self, ends: str) -> int:
        everything = (1 << len(self._uri)) - 1
        for character in ends:
            everything &= ~self._at(character)
        return everything

    def _at(self, character: str) -> int:
        if character not in self._masks:
            bits = "".join("1" if c == character else "0" for c in reversed(self._uri))
            self._masks[character] = int(bits or "0", 2)
        return self._masks[character]
