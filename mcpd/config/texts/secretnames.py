"""Placeholders for ``${keyring:NAME}`` in an entry's texts, filled in when the server starts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

PREFIX: Final = "keyring:"
"""What makes a variable in braces the name of a secret."""

MOST_CHARACTERS: Final = 128

_NAME: Final = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{MOST_CHARACTERS - 1}}}", re.ASCII)
_PLACEHOLDER: Final = re.compile(rf"\0\0({_NAME.pattern});", re.ASCII)
"""No text of a file or of a variable has a NUL, and no placeholder of ``workspace`` has two."""


def is_name(text: str) -> bool:
    """Return whether a secret can have this name: it is also that of a file."""
    return _NAME.fullmatch(text) is not None


def placeholder(name: str) -> str:
    """Return what stands in a resolved text for the secret of this name."""
    return f"\0\0{name};"


def is_named_in(text: str) -> bool:
    """Return whether a resolved text has a placeholder."""
    return _PLACEHOLDER.search(text) is not None


def names_in(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the secrets in resolved texts, sorted."""
    return tuple(sorted({name for text in texts for name in _PLACEHOLDER.findall(text)}))


def filled(text: str, secrets: Mapping[str, str]) -> str:
    """Return a resolved text with its placeholders replaced by the secrets."""
    return _PLACEHOLDER.sub(lambda found: secrets[found[1]], text)


def without(text: str) -> str:
    """Return a resolved text with a plain letter for each placeholder, to check the rest of it."""
    return _PLACEHOLDER.sub("x", text)
