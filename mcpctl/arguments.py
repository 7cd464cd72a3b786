"""Converting ``KEY=VALUE`` words to a tool's arguments, by the types of its schema."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from mcpctl import failures

MAX_REFERENCES = 8
MAX_DEPTH = 4
SCALARS = ("string", "integer", "number", "boolean", "null")

_QUOTES = frozenset("\u201c\u201d\u201e\u201f\u00ab\u00bb")
_QUOTES_HINT = ' (it has typographic quotes, and JSON wants straight ones, ")'

_PLAIN_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")

ReadFile = Callable[[str], str]
"""A function that returns the text of a file."""


class Word(NamedTuple):
    """One ``KEY=VALUE`` or ``KEY:=JSON``."""

    key: str
    text: str
    is_json: bool


def parse_word(word: str) -> Word:
    """Split a word at its first ``=``; raise ``RequestFailed`` if it has none."""
    key, equals, text = word.partition("=")
    is_json = key.endswith(":")
    key = key[:-1] if is_json else key
    if not equals or not key:
        raise failures.usage(
            f"{word!r} is not an argument: write KEY=VALUE, or KEY:=JSON", argument=word
        )
    return Word(key, text, is_json)


def need_schema(words: Sequence[Word]) -> bool:
    """Return whether converting ``words`` needs the schema."""
    return any(not word.is_json for word in words)


def collect(
    words: Sequence[Word], schema: Any, read_file: ReadFile, start: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return ``start`` with the arguments in ``words`` added.

    ``schema`` is the tool's; without one, all values are strings. A key that occurs twice gives an
    array if the schema allows one. Raises ``RequestFailed``, also for any other repeated key.
    """
    arguments = dict(start or {})
    lists: set[str] = set()
    seen: set[str] = set()
    for word in words:
        value = _value(word, schema, read_file)
        wanted = _property(schema, word.key)
        is_item = not word.is_json and "array" in _types(wanted) and not isinstance(value, list)
        if word.key in seen and not (is_item and word.key in lists):
            raise failures.usage(f"{word.key} is given twice", path=_path(word.key))
        seen.add(word.key)
        if not is_item:
            arguments[word.key] = value
        elif word.key in lists:
            arguments[word.key].append(value)
        else:
            arguments[word.key] = [value]
            lists.add(word.key)
    return arguments


def non_object(value: Any, words: Sequence[Word], schema: Any) -> Any:
    """Return a value of ``--args`` that is not an object, if the tool's schema allows its type.

    MCP allows objects alone, but some tools take other types. Raises ``RequestFailed`` for all
    other tools, and if there are ``words``, which cannot be added to such a value.
    """
    wanted = _types(_resolve(schema, schema))
    if not any(_is_of(value, name) for name in wanted):
        raise failures.usage(f"--args is JSON, but not an object: {_short(json.dumps(value))}")
    if words:
        raise failures.usage(f"{words[0].key} cannot be added to --args, which is no object")
    return value


def _value(word: Word, schema: Any, read_file: ReadFile) -> Any:
    if word.is_json:
        return parse_json(word.text, word.key)
    text = word.text
    if text.startswith("@@"):
        text = text[1:]
    elif text.startswith("@"):
        text = read_file(text[1:])
    return _typed(text, word.key, _property(schema, word.key))


def _typed(text: str, key: str, wanted: dict[str, Any]) -> Any:
    """Return ``text`` as the first type that the schema ``wanted`` allows and that fits.

    A schema that allows strings gets a string; ``KEY:=JSON`` passes another type.
    """
    types = _types(wanted)
    if "array" in types and not text.lstrip().startswith("["):
        return _typed(text, key, _resolve(wanted.get("items"), wanted.get("$root")))
    if not types or "string" in types:
        return text
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if any(_is_of(value, name) for name in types):
        return value
    raise failures.usage(
        f"{key} must be {_alternatives(types)}, not {_short(text)}",
        path=_path(key),
        violations=[{"path": _path(key), "message": f"must be {_alternatives(types)}"}],
    )


def _path(key: str) -> str:
    """Return the path of an argument as the daemon writes it."""
    return key if _PLAIN_NAME.fullmatch(key) else f"[{json.dumps(key, ensure_ascii=False)}]"


def _property(schema: Any, key: str) -> dict[str, Any]:
    """Return the schema of one argument, with the whole schema as ``$root`` for references.

    It comes from the first part of the schema that has the argument: the schema itself, or a part
    in ``allOf``, ``anyOf`` or ``oneOf``.
    """
    return next(_known(_resolve(schema, schema), key, MAX_DEPTH), {})


def _known(schema: dict[str, Any], key: str, depth: int) -> Iterator[dict[str, Any]]:
    properties, root = schema.get("properties"), schema.get("$root")
    if isinstance(properties, dict) and key in properties:
        yield _resolve(properties[key], root)
    for name in ("allOf", "anyOf", "oneOf") if depth else ():
        parts = schema.get(name)
        for part in parts if isinstance(parts, list) else ():
            yield from _known(_resolve(part, root), key, depth - 1)


def _resolve(schema: Any, root: Any) -> dict[str, Any]:
    """Follow ``$ref`` within the document."""
    for _ in range(MAX_REFERENCES):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str) or not reference.startswith("#"):
            break
        schema = root
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            schema = schema.get(name) if isinstance(schema, dict) else None
    return {**schema, "$root": root} if isinstance(schema, dict) else {}


def _types(schema: dict[str, Any]) -> list[str]:
    """Return the types that ``schema`` and its alternatives name; an empty list means any."""
    named = schema.get("type")
    if isinstance(named, str):
        return [named]
    if isinstance(named, list):
        return [name for name in named if isinstance(name, str)]
    values = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
    if values:
        return [name for name in SCALARS if any(_is_of(value, name) for value in values)]
    found: list[str] = []
    for alternative in schema.get("anyOf") or schema.get("oneOf") or []:
        found += _types(_resolve(alternative, schema.get("$root")))
    return found


def _is_of(value: Any, name: str) -> bool:
    match name:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return type(value) is int or (type(value) is float and value.is_integer())
        case "number":
            return type(value) in (int, float)
        case "null":
            return value is None
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
    return False


def parse_json(text: str, where: str) -> Any:
    """Return a JSON value; ``where`` names its source in the ``RequestFailed`` for invalid JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        why = f"{error}{_QUOTES_HINT}" if _QUOTES & set(text) else str(error)
        raise failures.usage(f"{where} is not JSON: {why}: {_short(text)}") from None
    except RecursionError:
        raise failures.usage(f"{where} is nested too deeply") from None


def _alternatives(types: list[str]) -> str:
    names = list(dict.fromkeys(types))
    articles = {"integer": "an integer", "object": "a JSON object", "array": "a JSON array"}
    return " or ".join(
        articles.get(name, "null" if name == "null" else f"a {name}") for name in names
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")
