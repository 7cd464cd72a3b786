"""A configuration file as text and as data, and the file that edits make of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal, Protocol

from mcpd.editing import edits as changes
from mcpd.editing.edits import Drop, Edit, Put, PutSource, Splice, Steps
from mcpd.errors import ConfigError
from mcpd.formats.document import Document, KeyPath, decode

Format = Literal["json", "json with comments", "jsonc", "toml", "yaml"]
"""``json`` is strict; ``json with comments`` has no trailing commas, ``jsonc`` may have both."""

_BOM = b"\xef\xbb\xbf"


class Syntax(Protocol):
    """What the syntax of a format does for ``File``; each method raises ``ConfigError``."""

    def read(self, text: str) -> tuple[Any, list[KeyPath]]:
        """Return the data, and the key paths that are written twice."""

    def parse(self, text: str) -> Document:
        """Return the data with the position of each value."""

    def source(self, document: Document, text: str, path: KeyPath) -> str:
        """Return the text of the value at ``path``, which exists."""

    def touched(self, document: Document, edit: Edit) -> KeyPath:
        """Return the path of a value inside which the edit changes the text, and no other does."""

    def splices(self, document: Document, text: str, edit: Edit) -> Steps:
        """Return how the text changes, or simpler edits that do the same."""


def parse(raw: bytes, format: Format) -> File:
    """Parse a file.

    Raises ``ConfigError``, with ``line`` and ``column`` in its details, where it cannot be parsed.
    """
    return File(decode(raw), format, has_bom=raw.startswith(_BOM))


class File:
    """A file that has been parsed; it does not change, ``edited`` returns another."""

    def __init__(self, text: str, format: Format, *, has_bom: bool = False) -> None:
        self.text = text
        self.format = format
        self.has_bom = has_bom
        self._syntax = _syntax(format)
        self.data, self.repeated = self._syntax.read(text)
        """The value of the whole file, of plain dicts, lists and scalars; the key paths that are
        written twice, where the last one counts."""

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        return (_BOM if self.has_bom else b"") + self.text.encode()

    def line(self, path: KeyPath) -> int:
        """Return the line, from 1, of a key, or of the innermost table that should contain it."""
        return self._document.place_of_key(path)[0]

    def source(self, path: KeyPath) -> str:
        """Return the exact text of a value: of a table of TOML, with all that belongs to it.

        Raises ``LookupError`` if there is none.
        """
        changes.get(self.data, path)
        return self._syntax.source(self._document, self.text, path)

    def edited(self, edits: Sequence[Edit]) -> File:
        """Return the file with these edits made one after the other.

        The result is parsed again.

        Raises:
            ConfigError: no edit of the text changes the wanted values alone; the message says why.
        """
        file, waiting = self, list(edits)
        while waiting:
            file, waiting = file._round(waiting)
        return file

    def _round(self, edits: list[Edit]) -> tuple[File, list[Edit]]:
        """Make those edits that do not touch what an earlier one touches; return the others."""
        made: list[Edit] = []
        later: list[Edit] = []
        touched: list[KeyPath] = []
        splices: list[Splice] = []
        for edit in edits:
            self._check(edit.path)
            place = self._syntax.touched(self._document, edit)
            if any(_related(place, other) for other in touched):
                later.append(edit)
            elif self._changes(edit):
                steps = self._syntax.splices(self._document, self.text, edit)
                if any(isinstance(step, Splice) for step in steps):
                    splices += [step for step in steps if isinstance(step, Splice)]
                    made.append(edit)
                else:
                    later += [step for step in steps if not isinstance(step, Splice)]
            else:
                continue
            touched.append(place)
        if not made:
            return self, later
        return self._proven(changes.spliced(self.text, splices), made), later

    def _changes(self, edit: Edit) -> bool:
        if not changes.has(self.data, edit.path):
            return not isinstance(edit, Drop)
        match edit:
            case Put():
                return not changes.same(changes.get(self.data, edit.path), edit.value)
            case PutSource():
                return self.source(edit.path) != edit.text
        return True

    def _check(self, path: KeyPath) -> None:
        for end in range(1, len(path) + 1):
            if path[:end] in self.repeated:
                raise ConfigError(
                    f"{path[end - 1]} is written twice, and which of them counts differs between "
                    "programs: remove one of them",
                    line=self.line(path[:end]),
                )

    def _proven(self, text: str, edits: list[Edit]) -> File:
        """Return the file of a text in which nothing but the edited values differs."""
        wanted = self.data
        try:
            file = File(text, self.format, has_bom=self.has_bom)
            for edit in edits:
                match edit:
                    case Put():
                        wanted = changes.put(wanted, edit.path, edit.value)
                    case Drop():
                        wanted = _without(wanted, edit.path, file.data)
                    case PutSource():
                        wanted = changes.put(wanted, edit.path, changes.get(file.data, edit.path))
                        if file.source(edit.path) != edit.text:
                            raise LookupError
        except (ConfigError, LookupError) as error:
            raise _refusal(edits) from error
        if not changes.same(file.data, wanted) or file._repeats(edits) != self._repeats(edits):
            raise _refusal(edits)
        return file

    def _repeats(self, edits: list[Edit]) -> int:
        """Return how many key paths are written twice, without those inside edited values."""
        inside = [edit.path for edit in edits]
        return sum(all(path[: len(each)] != each for each in inside) for path in self.repeated)

    @cached_property
    def _document(self) -> Document:
        return self._syntax.parse(self.text)


def _without(data: Any, path: KeyPath, found: Any) -> Any:
    """Return the data without a value, and without the tables that vanish with their last member.

    A table of TOML that has no header of its own does.
    """
    data, inner = changes.drop(data, path), path[:-1]
    while inner and changes.get(data, inner) == {} and not changes.has(found, inner):
        data, inner = changes.drop(data, inner), inner[:-1]
    return data


def _related(one: KeyPath, other: KeyPath) -> bool:
    short = min(len(one), len(other))
    return one[:short] == other[:short]


def _refusal(edits: list[Edit]) -> ConfigError:
    names = ", ".join(".".join(map(str, edit.path)) for edit in edits)
    return ConfigError(f"cannot change {names} and nothing else: edit the file yourself")


def _syntax(format: Format) -> Syntax:
    match format:
        case "toml":
            from mcpd.editing.toml import TomlSyntax

            return TomlSyntax()
        case "yaml":
            from mcpd.editing.yaml import YamlSyntax

            return YamlSyntax()
        case _:
            from mcpd.editing.json import JsonSyntax

            return JsonSyntax(
                comments=format != "json",
                trailing_commas=format == "jsonc",
            )
