"""Reads a file of any format as plain data, quickly; says where it cannot be parsed."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from mcpd.errors import ConfigError
from mcpd.onboarding.clients.client import Format

_COMMENTS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_COMMAS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])', re.DOTALL)


class Table(dict[str, Any]):
    """A table of a JSON file, with the names that stand twice in it."""

    repeated: frozenset[str] = frozenset()


def data(raw: bytes, form: Format) -> Any:
    """Return the content of a file; ``None`` for one without any.

    Raises ``ConfigError`` with the line and the column in its details.
    """
    from mcpd.formats.document import decode

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
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (1, 1) if mark is None else (mark.line + 1, mark.column + 1)
        raise ConfigError(str(error.problem), line=line, column=column) from None
    except (YAMLError, ValueError) as error:
        raise ConfigError(str(error).splitlines()[0], line=1, column=1) from None


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
