"""Which parts of an entry are secrets, and the entry without them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from mcpd.config.texts.interpolate import Piece, joined
from mcpd.config.texts.secrets import is_secret_name, show, show_arguments
from mcpd.redact import MASK

_VARIABLE: Final = re.compile(
    r"\$\$|\$\{((?:env:)?[A-Za-z_]\w*(?::-)?|keyring:[^${}]+)\}|\$([A-Za-z_]\w*)", re.ASCII
)
"""A variable, or a dollar sign, which is written twice."""

_SCHEME: Final = re.compile(r"(?:Bearer|Basic|Token)?\s*", re.IGNORECASE)
_TABLES: Final = ("env", "environment", "envs", "headers", "http_headers")


def secrets(entry: Mapping[str, Any]) -> list[str]:
    """Return where an entry has secrets in the clear: ``env.TOKEN``, ``args[1]``."""
    found: list[str] = []
    for table in _TABLES:
        values = entry.get(table)
        for name, value in values.items() if isinstance(values, dict) else ():
            if isinstance(value, str) and _is_clear(value, is_secret_name(name)):
                found.append(f"{table}.{name}")
    args = [value for value in entry.get("args") or () if isinstance(value, str)]
    for n, shown in enumerate(show_arguments([pieces(value) for value in args])):
        if MASK in shown.text and MASK not in args[n]:
            found.append(f"args[{n}]")
    url = entry.get("url")
    if isinstance(url, str) and MASK in show(pieces(url), is_address=True).text:
        found.append("url")
    auth = entry.get("auth")
    if isinstance(auth, dict):
        found += [
            f"auth.{name}"
            for name, value in auth.items()
            if isinstance(value, str) and _is_clear(value, is_secret_name(name))
        ]
    return found


def masked(value: Any, name: str = "", *, hidden: Collection[str] = ()) -> Any:
    """Return data, such as an entry in any spelling, with its secrets masked.

    A text that has one of the texts in ``hidden`` in it is masked as a whole.
    """
    match value:
        case str() if any(each in value for each in hidden):
            return MASK
        case str():
            is_secret = is_secret_name(name) and bool(value)
            return show(pieces(value), secret=is_secret, is_address="://" in value).text
        case list():
            if all(isinstance(each, str) for each in value):
                texts = show_arguments([pieces(each) for each in value])
                return [
                    MASK if any(text in each for text in hidden) else shown.text
                    for each, shown in zip(value, texts, strict=True)
                ]
            return [masked(each, name, hidden=hidden) for each in value]
        case dict():
            return {key: masked(each, str(key), hidden=hidden) for key, each in value.items()}
        case _:
            return value


def pieces(text: str) -> tuple[Piece, ...]:
    """Return a text in pieces: what is written, and the variables in it, which are no secrets."""
    found: list[Piece] = []
    at = 0
    for variable in _VARIABLE.finditer(text):
        if variable.lastindex is None:
            continue
        found.append(Piece(text[at : variable.start()]))
        found.append(Piece(variable[0], variable[1] or variable[2]))
        at = variable.end()
    found.append(Piece(text[at:]))
    return tuple(each for each in found if each.text)


def _is_clear(value: str, is_secret: bool) -> bool:
    """Return whether a text has a secret in it, rather than a variable."""
    parts = pieces(value)
    if not is_secret:
        return MASK in show(parts).text and MASK not in value
    literal = joined(tuple(each for each in parts if each.variable is None))
    return bool(_SCHEME.sub("", literal, count=1).strip())
