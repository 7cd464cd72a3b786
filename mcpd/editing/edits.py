"""Edits of one value in a file, and what each makes of the data."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

import msgspec

from mcpd.errors import ConfigError
from mcpd.formats.document import KeyPath


class Put(msgspec.Struct, frozen=True):
    """Replace a value, or add it, with the tables that lead to it, as the last of its table.

    It gets the layout of its siblings. An index that is the length of its list adds to the list.
    """

    path: KeyPath
    value: Any


class Drop(msgspec.Struct, frozen=True):
    """Remove a member, with the comment behind it on its line; no change where there is none."""

    path: KeyPath


class PutSource(msgspec.Struct, frozen=True):
    """Put an exact text, which ``File.source`` returned, in the place of a value, or add it.

    Where the file has taken another form since, such as a TOML table that became an inline one, the
    value is put in that form.
    """

    path: KeyPath
    text: str


Edit = Put | Drop | PutSource


class Splice(msgspec.Struct, frozen=True):
    """Replace ``text[start:end]``."""

    start: int
    end: int
    text: str


Steps = Sequence[Splice] | Sequence[Edit]
"""What an edit comes to: changes of the text, or simpler edits that do the same."""


def spliced(text: str, splices: list[Splice]) -> str:
    """Return the text with all splices made.

    At one offset an insertion comes before what is removed there.

    Raises:
        ConfigError: they overlap.
    """
    parts: list[str] = []
    at = 0
    for splice in sorted(splices, key=lambda splice: (splice.start, splice.end)):
        if splice.start < at:
            raise ConfigError("two edits of one place: edit the file yourself")
        parts += text[at : splice.start], splice.text
        at = splice.end
    return "".join((*parts, text[at:]))


def get(data: Any, path: KeyPath) -> Any:
    """Return the value at a path; raise ``LookupError`` if there is none."""
    for part in path:
        if isinstance(part, int):
            is_right = isinstance(data, list) and 0 <= part < len(data)
        else:
            is_right = isinstance(data, dict)
        if not is_right:
            raise LookupError(part)
        data = data[part]
    return data


def innermost(data: Any, path: KeyPath) -> KeyPath:
    """Return the path, or the longest beginning of it, that has a value."""
    while not has(data, path):
        path = path[:-1]
    return path


def has(data: Any, path: KeyPath) -> bool:
    """Return whether there is a value at a path."""
    try:
        get(data, path)
    except LookupError:
        return False
    return True


def put(data: Any, path: KeyPath, value: Any) -> Any:
    """Return the data with a value put at a path; what is not on the way is shared."""
    if not path:
        return value
    part, rest = path[0], path[1:]
    if isinstance(part, int):
        if not isinstance(data, list) or not 0 <= part <= len(data):
            raise ConfigError(f"there is no element {part} to put a value into")
        return [
            *data[:part],
            put(data[part] if part < len(data) else {}, rest, value),
            *data[part + 1 :],
        ]
    if data is None:  # a file or a table of YAML that nothing has been written into
        data = {}
    if not isinstance(data, dict):
        raise ConfigError(f"{part}: expected a table to put it into")
    return {**data, part: put(data.get(part, {}), rest, value)}


def drop(data: Any, path: KeyPath) -> Any:
    """Return the data without the value at a path, where there is one."""
    if not has(data, path):
        return data
    if path[1:]:
        return put(data, path[:1], drop(get(data, path[:1]), path[1:]))
    part = path[0]
    if isinstance(part, int):
        return [*data[:part], *data[part + 1 :]]
    return {key: value for key, value in data.items() if key != part}


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal, and of equal types; members may be in any order."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) or (isinstance(one, float) and isnan(one) and isnan(other))
