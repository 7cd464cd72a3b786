"""Describes a violation of a schema in words: its path in the arguments, and what is expected.

Runs in the worker. Quoted values are cut, because a schema and the arguments may have megabytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from mcpd.schemas.suggest import nearest

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

ROOT: Final = "(root)"
MAX_MESSAGE: Final = 300
_MAX_PATH: Final = 200
_MAX_VALUE: Final = 60
_MAX_ALTERNATIVES: Final = 5
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*\Z")


def describe(error: ValidationError) -> tuple[str, str]:
    """Return the path in the arguments and a sentence about what is wrong there."""
    return path_of(error.instance_path), cut(_message(error), MAX_MESSAGE)


def describe_all(errors: Sequence[ValidationError], schema: object) -> list[tuple[str, str]]:
    """Describe each error like ``describe``, and suggest similar names for unknown ones.

    ``schema`` is the whole decoded schema. Each unknown name is reported once.
    """
    reported: set[str] = set()
    found = []
    for error in errors:
        path, message = describe(error)
        known = _properties(schema, error.schema_path[:-1])
        details = error.kind.as_dict()
        match error.kind.name:
            case "required" if isinstance(error.instance, dict) and details["property"] in known:
                unknown = [
                    key for key in error.instance if key not in known and key not in reported
                ]
                meant = {key: [details["property"]] for key in _near(details["property"], unknown)}
                message = f"{_meant(meant)} ({message})" if meant else message
            case "additionalProperties" | "unevaluatedProperties":
                unknown = details["unexpected"][:_MAX_ALTERNATIVES]
                meant = {key: near for key in unknown if (near := _near(key, known))}
                others = [key for key in details["unexpected"] if key not in meant]
                if meant:
                    also = f" unknown property: {_some(others)}" if others else ""
                    message = _meant(meant) + also
            case _:
                meant = {}
        reported.update(meant)
        found.append((path, cut(message, MAX_MESSAGE)))
    return found


def wants_no_object(error: ValidationError) -> bool:
    """Return whether the arguments as a whole fail because the schema is not one of an object."""
    if error.instance_path or not isinstance(error.instance, dict):
        return False
    if error.kind.name in ("anyOf", "oneOf"):
        branches = error.kind.as_dict()["context"]
        return all(any(map(wants_no_object, branch)) for branch in branches)
    return error.kind.name == "type"


def _near(name: str, others: Iterable[str]) -> list[str]:
    return nearest(name, others, 1)


def _meant(names: Mapping[str, Sequence[str]]) -> str:
    return " ".join(
        f"unknown argument {_quoted(name)}, did you mean {_quoted(near[0])}?"
        for name, near in names.items()
    )


def _quoted(name: str) -> str:
    return f"'{shown(name)[1:-1]}'"


def _properties(schema: object, steps: Sequence[str | int]) -> dict[str, object]:
    """Return the properties of the subschema at ``steps``; references are followed."""
    at = schema
    for step in steps:
        if isinstance(at, dict):
            at = _referenced(schema, at.get("$ref")) if step == "$ref" else at.get(str(step))
        else:
            at = at[step] if isinstance(at, list) and isinstance(step, int) else None
    found = at.get("properties") if isinstance(at, dict) else None
    return found if isinstance(found, dict) else {}


def _referenced(schema: object, reference: object) -> object:
    """Return the target of a reference within the document, or ``None`` for any other."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    at = schema
    for step in reference[1:].split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        at = at.get(name) if isinstance(at, dict) else None
    return at


def path_of(steps: Sequence[str | int]) -> str:
    """Return a path as ``items[2].name``; names with special characters are put in brackets."""
    path = ""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif _PLAIN_NAME.match(step):
            path += f".{step}" if path else step
        else:
            path += f"[{shown(step)}]"
        if len(path) > _MAX_PATH:
            break
    return cut(path, _MAX_PATH) or ROOT


def shown(value: object) -> str:
    """Return a value as JSON, cut."""
    if isinstance(value, str):
        value = value[: _MAX_VALUE + 1]
    elif isinstance(value, dict | list) and len(value) > _MAX_VALUE:
        return f"{_type_of(value)} of {len(value)}"
    return cut(json.dumps(value, ensure_ascii=False, default=str), _MAX_VALUE)


def cut(text: str, length: int) -> str:
    """Return at most ``length`` characters, the last one an ellipsis if the text was cut."""
    return text if len(text) <= length else text[: length - 1] + "…"


def _message(error: ValidationError) -> str:
    name = error.kind.name
    details = error.kind.as_dict()
    if name in ("anyOf", "oneOf"):
        return _alternatives(details["context"])
    if name == "falseSchema" and error.schema_path[-1:] == ["additionalProperties"]:
        return "no properties are allowed"
    if name == "propertyNames":
        return f"in the name of a property: {_message(details['error'])}"
    if name not in _TEMPLATES:
        return error.message[:MAX_MESSAGE]
    value = error.instance
    return _TEMPLATES[name].format(
        value=shown(value),
        got=_type_of(value),
        size=len(value) if isinstance(value, str | list | dict) else 0,
        **{detail: _RENDERED.get(detail, shown)(found) for detail, found in details.items()},
    )


def _alternatives(branches: Sequence[Sequence[ValidationError]]) -> str:
    """Describe what is expected: the types if only the type is wrong, otherwise each branch."""
    fitting = sum(1 for branch in branches if not branch)
    if fitting:
        return f"fits {fitting} of the {len(branches)} alternatives, but only one may"
    firsts = [branch[0] for branch in branches[:_MAX_ALTERNATIVES]]
    if all(len(branch) == 1 and branch[0].kind.name == "type" for branch in branches):
        types = [kind for branch in branches for kind in branch[0].kind.as_dict()["types"]]
        if len({tuple(first.instance_path) for first in firsts}) == 1:
            return f"expected {_one_of(types)}, got {_type_of(firsts[0].instance)}"
    each = "; or ".join(cut(_message(first), 100) for first in firsts)
    return f"fits none of the {len(branches)} alternatives: {each}"


def _one_of(names: Iterable[str]) -> str:
    *others, last = dict.fromkeys(names)
    return f"{', '.join(others)} or {last}" if others else last


def _type_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
    return "number"


def _some(values: Sequence[object]) -> str:
    texts = [shown(value) for value in values[:10]]
    return ", ".join(texts) + (f", … ({len(values)} in all)" if len(values) > len(texts) else "")


_RENDERED: Final[Mapping[str, Callable[[Any], str]]] = {
    "types": _one_of,
    "options": _some,
    "unexpected": _some,
}
_TEMPLATES: Final = {
    "type": "expected {types}, got {got}",
    "required": "missing required property {property}",
    "additionalProperties": "unknown property: {unexpected}",
    "unevaluatedProperties": "unknown property: {unexpected}",
    "enum": "expected one of {options}, got {value}",
    "const": "expected {expected_value}, got {value}",
    "minimum": "expected at least {limit}, got {value}",
    "maximum": "expected at most {limit}, got {value}",
    "exclusiveMinimum": "expected more than {limit}, got {value}",
    "exclusiveMaximum": "expected less than {limit}, got {value}",
    "multipleOf": "expected a multiple of {multiple_of}, got {value}",
    "minLength": "expected at least {limit} characters, got {size}",
    "maxLength": "expected at most {limit} characters, got {size}",
    "minItems": "expected at least {limit} items, got {size}",
    "maxItems": "expected at most {limit} items, got {size}",
    "additionalItems": "expected at most {limit} items, got {size}",
    "minProperties": "expected at least {limit} properties, got {size}",
    "maxProperties": "expected at most {limit} properties, got {size}",
    "pattern": "expected text that matches {pattern}, got {value}",
    "uniqueItems": "expected no item twice",
    "contains": "expected more items of the kind that the schema wants",
    "not": "{value} is what the schema excludes",
    "falseSchema": "nothing is allowed here",
}
