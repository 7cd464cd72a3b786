"""Reads a file of any format as plain data, quickly; says where it cannot be parsed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from mcpd.editing.file import Format
from mcpd.errors import ConfigError
from mcpd.formats.document import KeyPath, decode

_COMMENTS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_COMMAS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])', re.DOTALL)


class Table(dict[str, Any]):
    """A table of a JSON file, with the names that stand twice in it."""

    repeated: frozenset[str] = frozenset()


def data(raw: bytes, form: Format) -> Any:
    """Return the content of a file; ``None`` for one without any.

    Raises ``ConfigError`` with the line and the column in its details.
    """
    text = decode(raw)
    if form == "toml":
        return _toml(text)
    if form == "yaml":
        return _yaml(text)
    plain = text if form == "json" else _COMMENTS.sub(_blank, text)
    if form == "jsonc":
        plain = _COMMAS.sub(_blank, plain)
    if not plain.strip():
        return None
    try:
        return json.loads(plain, object_pairs_hook=_table)
    except (ValueError, RecursionError):
        from mcpd.formats import jsonc

        # Says better what is wrong.
        return jsonc.parse(text, comments=form != "json", trailing_commas=form == "jsonc").data


def _table(pairs: list[tuple[str, Any]]) -> Any:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    table = Table(found)
    names = [name for name, _ in pairs]
    table.repeated = frozenset(name for name in names if names.count(name) > 1)
    return table


def _blank(token: re.Match[str]) -> str:
    text = token[0]
    return text if text[0] == '"' else re.sub(r"[^\r\n]", " ", text)


def _toml(text: str) -> Any:
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        from mcpd.formats import toml

        return toml.parse(text).data  # says where


def _yaml(text: str) -> Any:
    from mcpd.formats import yaml

    if not text.strip():
        return None
    document = yaml.parse(text)
    return _marked(document.data, (), document.repeated) if document.repeated else document.data


def _marked(value: Any, path: KeyPath, repeated: Sequence[KeyPath]) -> Any:
    """Return data with the names that stand twice in its tables."""
    if isinstance(value, list):
        return [_marked(each, (*path, n), repeated) for n, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    table = Table({key: _marked(each, (*path, key), repeated) for key, each in value.items()})
    table.repeated = frozenset(str(each[-1]) for each in repeated if each[:-1] == path)
    return table


def located(raw: bytes, form: Format, path: str) -> Any:
    """Return what ``data`` returns; the message of an error has the path and the line too."""
    try:
        return data(raw, form)
    except ConfigError as error:
        raise ConfigError(placed(path, error), **error.details) from None


def placed(path: str, error: ConfigError) -> str:
    """Return the message of an error with the file and the line."""
    line = error.details.get("line")
    where = path if line is None else f"{path}, line {line}"
    return f"{where}: {error.message}"
