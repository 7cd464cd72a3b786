"""Parses YAML from the events of ``ruamel.yaml``, and records where every value stands."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Final

from mcpd.errors import ConfigError
from mcpd.formats.document import DEPTH_LIMIT, Document, KeyPath, syntax_error

SIZE_LIMIT: Final = 1_000_000
"""Values that aliases may expand to: a small file can be made to hold billions."""

_INT = re.compile(r"[-+]?[0-9]+")
_OTHER_INT = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_COLON = re.compile(r":")
_DASH = re.compile(r"^[ \t]*(?:- +)*-(?=\s|$)", re.MULTILINE)
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}


class YamlDocument(Document):
    """The data of a YAML file, and how its values are written.

    ``flow`` are the paths of what stands in brackets, and ``aliases`` of values that are an alias.
    ``anchors`` are the names of anchors with the offsets of what they name; ``references`` are
    names with the offset of each alias, also in merge keys. A value that comes from a merge key or
    from within an alias has no place of its own.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.flow: set[KeyPath] = set()
        self.aliases: set[KeyPath] = set()
        self.anchors: list[tuple[str, int, int]] = []
        self.references: list[tuple[str, int]] = []


def parse(text: str, *, is_part: bool = False) -> YamlDocument:
    """Parse one document of YAML 1.2; keys are texts, whatever they look like.

    In a text that ``is_part`` of a document, an alias may refer to an anchor that is missing; its
    value is ``None``.

    Scalars get their types from the core schema (YAML 1.2.2, 10.3.2): a date is a text. Merge keys
    (``<<``) are followed. Raises only ``ConfigError``, with ``line`` and ``column``.
    """
    return _Parser(text, is_part).parse()


def scalar(text: str) -> Any:
    """Return the value of a plain scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _OTHER_INT.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    if found := _INFINITE.fullmatch(text):
        return float(f"{found[1]}inf")
    return text


class _Parser:
    def __init__(self, text: str, is_part: bool) -> None:
        self._text = text
        self._is_part = is_part
        self._document = YamlDocument(text)
        self._named: dict[str, tuple[Any, int]] = {}
        self._size = 0

    def parse(self) -> YamlDocument:
        from ruamel.yaml import YAML  # only a YAML file pays for it
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        try:
            events = YAML(typ="safe", pure=True).parse(self._text)
            self._whole(events)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            message = str(error.problem or error.context)
            place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
            raise syntax_error(message, *place) from None
        except YAMLError as error:
            message = str(error).partition("\n")[0]
            raise syntax_error(
                message, *self._document.place(getattr(error, "position", 0))
            ) from None
        except RecursionError:
            raise syntax_error(f"nested more than {DEPTH_LIMIT} deep", 1, 1) from None
        return self._document

    def _whole(self, events: Iterator[Any]) -> None:
        document = self._document
        document.values[()] = document.ends[()] = 0
        next(events)
        is_first = True
        for event in events:
            if type(event).__name__ != "DocumentStartEvent":
                return
            if not is_first:
                raise self._wrong("a second document, and one file with several is not read", event)
            is_first = False
            document.data = self._value(next(events), events, ())
            next(events)

    def _value(self, event: Any, events: Iterator[Any], path: KeyPath) -> Any:
        document, start = self._document, event.start_mark.index
        document.values[path] = start
        if len(path) > DEPTH_LIMIT:
            raise self._wrong(f"nested more than {DEPTH_LIMIT} deep", event)
        before = self._size
        end: int = event.end_mark.index
        match type(event).__name__:
            case "AliasEvent":
                document.aliases.add(path)
                document.ends[path] = end
                return self._alias(event)
            case "ScalarEvent":
                value = self._scalar(event)
                if event.style in ("|", ">"):
                    end = start + len(self._text[start:end].rstrip())
                self._size += 1
            case "MappingStartEvent":
                value, end = self._mapping(event, events, path)
            case _:
                value, end = self._sequence(event, events, path)
        document.ends[path] = end
        if event.anchor:
            self._named[event.anchor] = value, self._size - before
            document.anchors.append((event.anchor, start, end))
        return value

    def _alias(self, event: Any) -> Any:
        self._document.references.append((event.anchor, event.start_mark.index))
        if event.anchor not in self._named:
            if self._is_part:
                return None
            raise self._wrong(f"*{event.anchor} refers to nothing before it", event)
        value, size = self._named[event.anchor]
        self._size += size
        if self._size > SIZE_LIMIT:
            raise self._wrong(f"the aliases make more than {SIZE_LIMIT} values", event)
        return value

    def _scalar(self, event: Any) -> Any:
        if event.tag and not event.implicit[0]:
            kind = str(event.tag).removeprefix("tag:yaml.org,2002:")
            return (
                event.value if kind not in ("int", "float", "bool", "null") else scalar(event.value)
            )
        if not event.implicit[0]:
            return event.value
        try:
            return scalar(event.value)
        except ValueError:  # Python reads integers of at most 4,300 digits
            raise self._wrong("this number has too many digits", event) from None

    def _mapping(
        self, event: Any, events: Iterator[Any], path: KeyPath
    ) -> tuple[dict[str, Any], int]:
        document, end = self._document, event.end_mark.index
        found: dict[str, Any] = {}
        merged: list[Any] = []
        if event.flow_style:
            document.flow.add(path)
        while type(key := next(events)).__name__ != "MappingEndEvent":
            kind = type(key).__name__
            name = self._alias(key) if kind == "AliasEvent" else getattr(key, "value", None)
            if not isinstance(name, str):
                raise self._wrong("a key that is not a text", key)
            inner = (*path, name)
            is_merge = name == "<<" and kind == "ScalarEvent" and key.implicit[0]
            if inner in document.keys:
                self._forget(inner)
                document.repeated.append(inner)
            document.keys[inner] = key.start_mark.index
            value = self._value(next(events), events, inner)
            self._place_nothing(inner, _COLON, key.end_mark.index)
            end = document.ends[inner]
            if is_merge:
                merged += value if isinstance(value, list) else [value]
            else:
                found[name] = value
        self._size += 1
        for each in merged if not self._is_part else ():
            if not isinstance(each, dict):
                raise self._wrong("a merge key merges mappings alone", event)
            found = {**each, **found}
        return found, key.end_mark.index if event.flow_style else end

    def _sequence(self, event: Any, events: Iterator[Any], path: KeyPath) -> tuple[list[Any], int]:
        document, end = self._document, event.end_mark.index
        found: list[Any] = []
        if event.flow_style:
            document.flow.add(path)
        while type(item := next(events)).__name__ != "SequenceEndEvent":
            inner = (*path, len(found))
            found.append(self._value(item, events, inner))
            self._place_nothing(inner, _DASH, end)
            end = document.ends[inner]
        self._size += 1
        return found, item.end_mark.index if event.flow_style else end

    def _place_nothing(self, path: KeyPath, sign: re.Pattern[str], after: int) -> None:
        """Move the position of a value that is not written to right behind its colon or dash."""
        document = self._document
        if document.values[path] == document.ends[path]:
            found = sign.search(self._text, after, document.values[path])
            document.values[path] = document.ends[path] = found.end() if found else after

    def _forget(self, path: KeyPath) -> None:
        """Remove the positions inside an earlier value of the same name."""
        document = self._document
        for places in (document.keys, document.values, document.ends):
            for known in [known for known in places if known[: len(path)] == path]:
                del places[known]
        for paths in (document.flow, document.aliases):
            paths.difference_update([known for known in paths if known[: len(path)] == path])

    def _wrong(self, message: str, event: Any) -> ConfigError:
        return syntax_error(message, *self._document.place(event.start_mark.index))
