"""What has changed between two definitions, in lines for people."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from typing import Any

_WORDS = re.compile(r"\s+|[^\s\w]|\w+")
_TEXTS = ("title", "description")
_SCHEMA = "inputSchema"
_MOST_WORDS = 4_000  # of a text that are compared word by word


def differences(before: Any, after: Any) -> Iterator[str]:
    """Yield a line for each difference of two definitions; either may be ``None``."""
    if isinstance(before, str) or isinstance(after, str):  # instructions
        yield "text: " + words(_text(before), _text(after))
        return
    old = before if isinstance(before, dict) else {}
    new = after if isinstance(after, dict) else {}
    for name in dict.fromkeys((*_TEXTS, *old, *new)):
        was, now = old.get(name), new.get(name)
        if was == now or name in ("_meta", "icons"):
            continue
        if name in _TEXTS and isinstance(was or "", str) and isinstance(now or "", str):
            yield f"{name}: {words(was or '', now or '')}"
        elif name == _SCHEMA:
            yield from _parameters(was, now)
        elif name == "annotations":
            yield from _members("hint ", was, now)
        elif name == "arguments":
            yield from _members("argument ", _by_name(was), _by_name(now))
        else:
            yield from _one(name, was, now)


def words(before: str, after: str) -> str:
    """Return a text with what was removed as ``[-…-]`` and what was added as ``{+…+}``."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if not old or not new or len(old) + len(new) > _MOST_WORDS:
        return _marked("-", before) + _marked("+", after)
    found = []
    for what, begin, end, first, last in difflib.SequenceMatcher(
        None, old, new, autojunk=False
    ).get_opcodes():
        if what == "equal":
            found.append("".join(old[begin:end]))
        else:
            found.append(_marked("-", "".join(old[begin:end])))
            found.append(_marked("+", "".join(new[first:last])))
    return "".join(found)


def _marked(sign: str, text: str) -> str:
    if not text:
        return ""
    return f"[-{text}-]" if sign == "-" else f"{{+{text}+}}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _parameters(before: Any, after: Any) -> Iterator[str]:
    """Yield what has changed in the parameters of a tool, and in the rest of its schema."""
    old, new = _object(before), _object(after)
    yield from _members(
        "parameter ", _object(old.get("properties")), _object(new.get("properties"))
    )
    rest = (
        {name: value for name, value in each.items() if name != "properties"} for each in (old, new)
    )
    yield from _members(f"{_SCHEMA}.", *rest)


def _members(prefix: str, before: Any, after: Any) -> Iterator[str]:
    old, new = _object(before), _object(after)
    for name in dict.fromkeys((*old, *new)):
        if name not in new:
            yield f"{prefix}{name} removed: {_json(old[name])}"
        elif name not in old:
            yield f"{prefix}{name} added: {_json(new[name])}"
        elif old[name] != new[name]:
            yield from _one(f"{prefix}{name}", old[name], new[name])


def _one(name: str, before: Any, after: Any) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        was, now = before.get("description"), after.get("description")
        if was != now and isinstance(was or "", str) and isinstance(now or "", str):
            yield f"{name} description: {words(was or '', now or '')}"
        others = [{k: v for k, v in each.items() if k != "description"} for each in (before, after)]
        if others[0] != others[1]:
            yield f"{name} changed: {_json(others[0])} → {_json(others[1])}"
        return
    yield f"{name}: {_json(before)} → {_json(after)}"


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _by_name(value: Any) -> dict[str, Any]:
    found = value if isinstance(value, list) else []
    return {str(each.get("name")): each for each in found if isinstance(each, dict)}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
