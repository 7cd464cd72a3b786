"""Hiding known secrets in text before it is logged, stored or shown."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import ClassVar, Final, TypeVar

MIN_SECRET: Final = 8
"""Characters below which a value is not masked: it would be found in everything."""

MASK: Final = "***"

_KEY_WORDS: Final = ("token", "key", "secret", "password", "auth", "cookie", "credential")

_Text = TypeVar("_Text", str, bytes)


def is_secret_key(name: str) -> bool:
    """Tell whether a value under this key or header is a secret, going by the name."""
    lowered = name.lower()
    return any(word in lowered for word in _KEY_WORDS)


class Redactor:
    """Replaces every occurrence of known secrets by ``***``.

    A secret of several lines is also hidden line by line, because logs come in lines; one with
    quotes or the like also as JSON writes it. Where secrets overlap, all that belongs to any of
    them goes: nothing is left of the shorter or of the later one.
    """

    NONE: ClassVar[Redactor]
    """Knows no secret and hides nothing."""

    def __init__(self, secrets: Iterable[str]) -> None:
        """Take the values to hide; those shorter than ``MIN_SECRET`` are ignored."""
        forms = {form for secret in secrets for form in _forms(secret) if len(form) >= MIN_SECRET}
        self._texts = sorted(forms, key=lambda form: (-len(form), form))
        self._bytes = [_utf8(form) for form in self._texts]

    def mask(self, text: str) -> str:
        """Return ``text`` without the secrets."""
        return _without(text, self._texts, MASK)

    def mask_bytes(self, data: bytes) -> bytes:
        """Return ``data`` without the secrets, which are looked for as UTF-8."""
        return _without(data, self._bytes, MASK.encode())

    def __bool__(self) -> bool:
        return bool(self._texts)


def _forms(secret: str) -> Iterable[str]:
    yield secret
    lines = secret.splitlines()
    yield from (line.strip() for line in lines if len(lines) > 1)
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]


def _utf8(form: str) -> bytes:
    try:
        return form.encode("utf-8", "surrogateescape")  # as the environment has it
    except UnicodeEncodeError:
        return form.encode("utf-8", "surrogatepass")


def _without(text: _Text, secrets: list[_Text], mask: _Text) -> _Text:
    spans = sorted(span for secret in secrets for span in _occurrences(text, secret))
    if not spans:
        return text
    parts: list[_Text] = []
    at = 0
    for start, end in spans:
        if start > at or not parts:
            parts += (text[at:start], mask)
        at = max(at, end)
    parts.append(text[at:])
    return text[:0].join(parts)


def _occurrences(text: _Text, secret: _Text) -> Iterable[tuple[int, int]]:
    at = text.find(secret)
    while at >= 0:
        yield at, at + len(secret)
        at = text.find(secret, at + 1)


Redactor.NONE = Redactor(())
