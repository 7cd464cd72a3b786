"""Which parts of an entry are secret, and how the entry looks without them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from mcpd.config import workspace
from mcpd.config.interpolate import Piece, joined

MASK = "***"
"""What stands for a secret wherever an entry is shown."""

LENGTH_FROM = 8
"""Characters. A shorter value is masked in its entry, but not looked for in a server's output."""

_WORDS = re.compile(r"token|key|secret|password|auth|cookie|credential", re.IGNORECASE)
_SCHEME = re.compile(r"(?:Bearer|Basic|Token)\s+", re.IGNORECASE)

# Where and who the user is: in most paths and half of the log lines, and known to everybody here.
_PUBLIC = frozenset({
    "HOME", "USER", "LOGNAME", "PWD", "PATH", "SHELL", "LANG", "TMPDIR", "HOSTNAME",
    "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME",
    *workspace.VARIABLES,
})  # fmt: skip

_NAMED = (  # the name, and what is secret if the name says so
    re.compile(r"^-{0,2}([\w.-]+)=(.+)$", re.DOTALL),  # --api-key=x, and docker's API_KEY=x
    re.compile(r"^([\w-]+):(?!//)\s*(.+)$", re.DOTALL),  # a header
    re.compile(r"[?&]([\w.-]+)=([^&#\s]+)"),  # a query
    re.compile(r'"([^"\\]+)"\s*:\s*"((?:[^"\\]|\\.)+)"'),  # JSON, as in OPENAPI_MCP_HEADERS
)
_PASSWORD_OF_URL = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")


class Shown(msgspec.Struct, frozen=True):
    """A text as it may be shown, and the secret values that are in it."""

    text: str
    secrets: frozenset[str] = frozenset()


def is_secret_name(name: str) -> bool:
    """Say whether what stands under this name of a variable, option or header is secret."""
    return _WORDS.search(name) is not None


def show(pieces: tuple[Piece, ...], *, secret: bool = False) -> Shown:
    """Show a resolved text: variables by their name, secret parts as a mask.

    ``secret`` says that what it stands under makes all of it secret.
    """
    value = joined(pieces)
    spans = [(0, len(value))] if secret else _merged(sorted(_spans(value)))
    text, at = "", 0
    found: set[str] = set()
    for start, end in spans:
        text += _visible(_cut(pieces, at, start))
        text += _reference(_cut(pieces, start, end))
        found.update(_parts(value[start:end]))
        at = end
    text += _visible(_cut(pieces, at, len(value)))
    for piece in pieces:
        if not _is_public(piece):
            found.update(_parts(piece.text))
    return Shown(text, frozenset(part for part in found if len(part) >= LENGTH_FROM))


def secret_parts(value: str) -> frozenset[str]:
    """Return what is to be masked of a value that is secret as a whole."""
    return frozenset(part for part in _parts(value) if len(part) >= LENGTH_FROM)


def show_arguments(arguments: list[tuple[Piece, ...]]) -> list[Shown]:
    """Show arguments; one after an option with a secret name (``--api-key VALUE``) is secret."""
    shown = []
    before = ""
    for pieces in arguments:
        value = joined(pieces)
        follows = before.startswith("-") and "=" not in before and is_secret_name(before)
        shown.append(show(pieces, secret=follows and not value.startswith("-")))
        before = value
    return shown


def _is_public(piece: Piece) -> bool:
    return piece.variable is None or piece.variable in _PUBLIC


def _visible(pieces: list[Piece]) -> str:
    return "".join(piece.text if _is_known(piece) else f"${{{piece.variable}}}" for piece in pieces)


def _is_known(piece: Piece) -> bool:
    """Tell whether the text of a piece is what it will be, and may be shown."""
    return _is_public(piece) and piece.variable not in workspace.VARIABLES


def _reference(pieces: list[Piece]) -> str:
    """Show a secret part: by reference when the file holds nothing else, else as a mask."""
    if not pieces:
        return ""
    return MASK if any(_is_public(piece) for piece in pieces) else _visible(pieces)


def _spans(value: str) -> Iterator[tuple[int, int]]:
    for pattern in _NAMED:
        for found in pattern.finditer(value):
            if is_secret_name(found[1]):
                yield found.span(2)
    for found in _PASSWORD_OF_URL.finditer(value):
        yield found.span(1)


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _parts(value: str) -> Iterator[str]:
    """Yield what of a secret can turn up alone: itself, its lines, what follows ``Bearer``."""
    yield value
    if "\n" in value:
        yield from (line.strip() for line in value.splitlines())
    if scheme := _SCHEME.match(value):
        yield value[scheme.end() :]


def _cut(pieces: tuple[Piece, ...], start: int, end: int) -> list[Piece]:
    """Return the pieces of ``joined(pieces)[start:end]``."""
    found = []
    at = 0
    for piece in pieces:
        text = piece.text[max(start - at, 0) : max(end - at, 0)]
        if text:
            found.append(Piece(text, piece.variable))
        at += len(piece.text)
    return found
