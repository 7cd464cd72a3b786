"""Literal secrets of entries, moved out of them: ``${keyring:NAME}`` takes the place of each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from mcpd.config.texts import secretnames
from mcpd.onboarding import shown

_NAMED: Final = re.compile(r"\$\{keyring:([^${}]+)\}")
_SCHEME: Final = re.compile(r"(?:Bearer|Basic|Token)\s+", re.IGNORECASE)
_ODD: Final = re.compile(r"[^A-Za-z0-9_.-]+")


class Literal(msgspec.Struct, frozen=True):
    """A secret that stands in an entry as it is."""

    server: str
    table: str
    key: str
    scheme: str
    """What stands before it, such as ``Bearer ``."""

    value: str

    @property
    def usual_name(self) -> str:
        """The name that it gets, if no other secret has it."""
        name = _ODD.sub("_", f"{self.server}.{self.key}").lstrip(".-")
        return name[: secretnames.MOST_CHARACTERS - 4]


def literals(entries: Mapping[str, Mapping[str, Any]]) -> list[Literal]:
    """Return the secrets of entries that can be moved: whole values, in tables of texts."""
    found = []
    for server, entry in entries.items():
        for place in shown.secrets(entry):
            table, _, key = place.partition(".")
            values = entry.get(table)
            if not key or not isinstance(values, dict):
                continue  # an argument, or the url
            text = values[key]
            scheme = _SCHEME.match(text)
            before = scheme[0] if scheme else ""
            value = text.removeprefix(before)
            if all(piece.variable is None for piece in shown.pieces(value)):
                found.append(Literal(server, table, key, before, value.replace("$$", "$")))
    return found


def moved(
    entries: Mapping[str, Mapping[str, Any]], names: Mapping[Literal, str]
) -> dict[str, dict[str, Any]]:
    """Return entries with the secrets replaced by their names."""
    found = {server: dict(entry) for server, entry in entries.items()}
    for each, name in names.items():
        entry = found[each.server]
        text = f"{each.scheme}${{{secretnames.PREFIX}{name}}}"
        entry[each.table] = {**entry[each.table], each.key: text}
    return found


def chosen(found: list[Literal], known: Mapping[str, str]) -> dict[Literal, str]:
    """Return a name for each secret, none of which has another value in ``known``."""
    values = dict(known)
    names: dict[Literal, str] = {}
    for each in found:
        wanted = _candidates(each.usual_name)
        names[each] = next(n for n in wanted if values.setdefault(n, each.value) == each.value)
    return names


def names_in(value: Any) -> Iterator[str]:
    """Yield the names of the secrets in data, such as an entry."""
    match value:
        case str():
            yield from _NAMED.findall(value)
        case list():
            for each in value:
                yield from names_in(each)
        case dict():
            for each in value.values():
                yield from names_in(each)


def filled(value: Any, secrets: Mapping[str, str]) -> Any:
    """Return data with the known secrets in place of their names, to compare it."""

    def text_of(name: re.Match[str]) -> str:
        return secrets[name[1]].replace("$", "$$") if name[1] in secrets else name[0]

    match value:
        case str():
            return _NAMED.sub(text_of, value)
        case list():
            return [filled(each, secrets) for each in value]
        case dict():
            return {key: filled(each, secrets) for key, each in value.items()}
        case _:
            return value


def _candidates(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}-{number}"
        number += 1
